"""Operators on bytes that stand for real numbers: back to reals, the operator, to bytes again.

onnxruntime folds the scales into one factor or a table, so that a value that lies half-way between
two bytes may be rounded to the other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import check_choice
from neuralsym.ops.contrib.base import (
    Contrib,
    Given,
    cast,
    numbers,
    op,
    rank_of,
    scalar,
    transpose,
    whole,
)
from neuralsym.ops.contrib.declare import BOOL, BYTES, FLOAT, declare, needed, optional

_BYTES = {"T": BYTES, "F": FLOAT}
_ONE = "X:T X_scale:F X_zero_point:T? Y_scale:F Y_zero_point:T?"
_TWO = "A:T A_scale:F A_zero_point:T? B:T B_scale:F B_zero_point:T? C_scale:F C_zero_point:T?"


def real(given: Given, at: int) -> Symbol:
    """The input at a place as reals; its scale and zero point follow it."""
    zero = given.optional(at + 2)
    parameters = [scalar(given[at + 1])] + ([] if zero is None else [scalar(zero)])
    return op("DequantizeLinear", given[at], *parameters)


def small(x: Symbol, given: Given, at: int, dtype: NumberType) -> Symbol:
    """Reals as bytes, by the scale at a place and the zero point behind it."""
    zero = given.optional(at + 1)
    offset = numbers(0, dtype) if zero is None else scalar(zero)
    return op("QuantizeLinear", x, scalar(given[at]), offset)


def channels_second(x: Symbol) -> Symbol:
    """[N, ..., C] as [N, C, ...]."""
    rank = rank_of(x)
    return transpose(x, 0, rank - 1, *range(1, rank - 1))


def channels_last(x: Symbol) -> Symbol:
    """[N, C, ...] as [N, ..., C]."""
    return transpose(x, 0, *range(2, rank_of(x)), 1)


class OnReals(Contrib, abstract=True):
    """An operator of one tensor of bytes by the operator on reals."""

    @classmethod
    def on_reals(cls, given: Given, x: Symbol) -> Symbol:
        raise NotImplementedError

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        return [small(cls.on_reals(given, real(given, 0)), given, 3, given[0].dtype)]


class QLinearSigmoid(OnReals):
    """1 / (1 + exp(-x)) of the reals that bytes stand for."""

    schema = declare("QLinearSigmoid", _ONE, "Y:T", _BYTES)

    @classmethod
    def on_reals(cls, given: Given, x: Symbol) -> Symbol:
        return op("Sigmoid", x)


class QLinearLeakyRelu(OnReals):
    """x where positive, alpha * x elsewhere, of the reals that bytes stand for."""

    schema = declare("QLinearLeakyRelu", _ONE, "Y:T", _BYTES, {"alpha": 0.01})

    @classmethod
    def on_reals(cls, given: Given, x: Symbol) -> Symbol:
        return op("LeakyRelu", x, alpha=given.attr("alpha"))


class QLinearReduceMean(OnReals):
    """Means over axes of the reals that bytes stand for."""

    schema = declare(
        "QLinearReduceMean",
        "data:T data_scale:F data_zero_point:T? reduced_scale:F reduced_zero_point:T?",
        "reduced:T",
        _BYTES,
        {"axes": needed("INTS"), "keepdims": needed("INT")},
    )

    @classmethod
    def on_reals(cls, given: Given, x: Symbol) -> Symbol:
        return op("ReduceMean", x, whole(*given.attr("axes")), keepdims=given.attr("keepdims"))


class QLinearSoftmax(OnReals):
    """Softmax of the reals that bytes stand for: along `axis`, or before opset 13 from it on."""

    schema = declare(
        "QLinearSoftmax",
        "X:T X_scale:F x_zero_point:T? y_scale:F y_zero_point:T",
        "Y:T",
        _BYTES,
        {"axis": -1, "opset": needed("INT")},
    )

    @classmethod
    def on_reals(cls, given: Given, x: Symbol) -> Symbol:
        rank = rank_of(x)
        axis = given.axis(rank)
        if given.attr("opset") >= 13 or axis == rank - 1:
            return op("Softmax", x, axis=axis)
        rows = op("Softmax", op("Flatten", x, axis=axis), axis=-1)
        return op("Reshape", rows, op("Shape", x))


class Pooled(OnReals, abstract=True):
    """A pool of the reals that bytes stand for, channels second or last."""

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "channels_last", (0, 1))

    @classmethod
    def pooled(cls, given: Given, x: Symbol) -> Symbol:
        raise NotImplementedError

    @classmethod
    def on_reals(cls, given: Given, x: Symbol) -> Symbol:
        if not given.attr("channels_last"):
            return cls.pooled(given, x)
        return channels_last(cls.pooled(given, channels_second(x)))


class QLinearAveragePool(Pooled):
    """Averages of windows of the reals that bytes stand for."""

    schema = declare(
        "QLinearAveragePool",
        "X:T x_scale:F x_zero_point:T? y_scale:F y_zero_point:T?",
        "Y:T",
        _BYTES,
        {
            "auto_pad": "NOTSET",
            "ceil_mode": 0,
            "channels_last": 0,
            "count_include_pad": 0,
            "kernel_shape": needed("INTS"),
            "pads": optional("INTS"),
            "strides": optional("INTS"),
        },
    )
    passed: ClassVar[tuple[str, ...]] = (
        *("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"),
    )

    @classmethod
    def pooled(cls, given: Given, x: Symbol) -> Symbol:
        return op("AveragePool", x, **{name: given.attr(name) for name in cls.passed})


class QLinearGlobalAveragePool(Pooled):
    """The average of each channel of the reals that bytes stand for."""

    schema = declare(
        "QLinearGlobalAveragePool",
        "X:T x_scale:F x_zero_point:T y_scale:F y_zero_point:T",
        "Y:T",
        _BYTES,
        {"channels_last": 0},
    )

    @classmethod
    def pooled(cls, given: Given, x: Symbol) -> Symbol:
        return op("GlobalAveragePool", x)


class OfTwo(Contrib, abstract=True):
    """An operator of two tensors of bytes, broadcast."""

    plain: ClassVar[str]

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        made = op(cls.plain, real(given, 0), real(given, 3))
        return [small(made, given, 6, given[0].dtype)]


class QLinearAdd(OfTwo):
    """Sums of the reals that bytes stand for."""

    plain = "Add"
    schema = declare("QLinearAdd", _TWO, "C:T", _BYTES)


class QLinearMul(OfTwo):
    """Products of the reals that bytes stand for."""

    plain = "Mul"
    schema = declare("QLinearMul", _TWO, "C:T", _BYTES)


class QLinearWhere(Contrib):
    """Elements of X or Y, told by a condition, in the scale of the result."""

    schema = declare(
        "QLinearWhere",
        "condition:B X:T x_scale:F x_zero_point:T Y:T y_scale:F y_zero_point:T z_scale:F "
        "z_zero_point:T",
        "Z:T",
        _BYTES | {"B": BOOL},
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        made = op("Where", given[0], real(given, 1), real(given, 4))
        return [small(made, given, 7, given[1].dtype)]


class QLinearConcat(Contrib):
    """Tensors of bytes one after another along an axis, in the scale of the result.

    The inputs behind the result's scale and zero point are triples: a tensor, its scale, its zero
    point.
    """

    schema = declare(
        "QLinearConcat",
        "Y_scale:F Y_zero_point:T inputs:V*",
        "Y:T",
        _BYTES | {"V": (*BYTES, *FLOAT)},
        {"axis": needed("INT")},
    )

    @classmethod
    def check(cls, call: Call) -> None:
        count = len(call.inputs) - 2
        if count % 3:
            call.fail(f"{count} inputs follow Y_zero_point: they must be triples of a tensor, its "
                      "scale and its zero point")  # fmt: skip

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        parts = [real(given, i) for i in range(2, len(given.inputs), 3)]
        made = op("Concat", *parts, axis=given.attr("axis"))
        return [small(made, given, 0, given[1].dtype)]


_SMALL = ("int8", "uint8", "int16", "uint16", "int4", "uint4")
_REAL = ("float", "float16")


class QuantizeLinear(Contrib):
    """x/scale + zero point, rounded half to even and saturated."""

    schema = declare(
        "QuantizeLinear",
        "x:T1 y_scale:T1 y_zero_point:T2?",
        "y:T2",
        {"T1": _REAL, "T2": _SMALL},
        {"axis": optional("INT")},
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        return [op("QuantizeLinear", *given.inputs, axis=given.attr("axis"))]


class DequantizeLinear(Contrib):
    """(x - zero point) * scale."""

    schema = declare(
        "DequantizeLinear",
        "x:T1 x_scale:T2 x_zero_point:T1?",
        "y:T2",
        {"T1": (*_SMALL, "int32"), "T2": _REAL},
        {"axis": optional("INT")},
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        return [op("DequantizeLinear", *given.inputs, axis=given.attr("axis"))]


class MulInteger(Contrib):
    """(A - its zero point) * (B - its zero point) as int32."""

    schema = declare(
        "MulInteger",
        "A:T A_zero_point:T? B:T B_zero_point:T?",
        "C:I",
        _BYTES | {"I": ("int32",)},
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        def centred(at: int) -> Symbol:
            x = cast(given[at], "int32")
            return x - cast(given[at + 1], "int32") if given.has(at + 1) else x

        return [centred(0) * centred(2)]


class ReduceSumInteger(Contrib):
    """Sums over axes, of 32 bits."""

    schema = declare(
        "ReduceSumInteger",
        "data:T",
        "reduced:I",
        _BYTES | {"I": ("int32", "uint32")},
        {"axes": needed("INTS"), "keepdims": needed("INT")},
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        wide = cast(given[0], "int32" if given[0].dtype == "int8" else "uint32")
        axes = whole(*given.attr("axes"))
        return [op("ReduceSum", wide, axes, keepdims=given.attr("keepdims"))]
