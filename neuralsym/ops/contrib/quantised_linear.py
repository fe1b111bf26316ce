"""Products and convolutions of integers that stand for reals."""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import check_choice
from neuralsym.ops.contrib.base import (
    Contrib,
    Given,
    cast,
    op,
    scalar,
    several,
    transpose,
)
from neuralsym.ops.contrib.declare import BYTES, FLOAT, INT32, SHORTS, declare, optional
from neuralsym.ops.contrib.quantised import channels_last, channels_second, small


def scaled_product(
    a: Symbol, zero_a: Symbol | None, b: Symbol, zero_b: Symbol | None, scale: Symbol
) -> Symbol:
    """(a - zero_a) @ (b - zero_b) * scale, the product in int32."""
    return cast(op("MatMulInteger", a, b, _zero(zero_a), zero_b), scale.dtype) * scale


def _zero(zero: Symbol | None) -> Symbol | None:
    return None if zero is None else scalar(zero)


class DynamicQuantizeMatMul(Contrib):
    """A, quantised to bytes as it comes, times the bytes B; float32 again, plus a bias."""

    schema = declare(
        "DynamicQuantizeMatMul",
        "A:T1 B:T2 b_scale:T1 b_zero_point:T2? bias:T1?",
        "Y:T1",
        {"T1": FLOAT, "T2": BYTES},
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        a, scale, zero = several("DynamicQuantizeLinear", [given[0]], 3)
        y = scaled_product(a, zero, given[1], given.optional(3), scale * given[2])
        return [y + given[4] if given.has(4) else y]


class MatMulIntegerToFloat(Contrib):
    """The product of bytes as the real numbers that it stands for, plus a bias."""

    schema = declare(
        "MatMulIntegerToFloat",
        "A:T1 B:T2 a_scale:T3 b_scale:T3 a_zero_point:T1? b_zero_point:T2? bias:T3?",
        "Y:T3",
        {"T1": BYTES, "T2": BYTES, "T3": ("float", "float16")},
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        dtype = given[2].dtype
        scale = cast(scalar(given[2]), "float32") * cast(given[3], "float32")
        y = scaled_product(given[0], given.optional(4), given[1], given.optional(5), scale)
        return [cast(y + cast(given[6], "float32") if given.has(6) else y, dtype)]


class MatMulInteger16(Contrib):
    """The product of integers of 16 bits in 32 bits."""

    schema = declare(
        "MatMulInteger16",
        "A:T1 B:T2",
        "Y:T3",
        {"T1": SHORTS, "T2": SHORTS, "T3": ("int32", "uint32")},
    )

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        made = super().infer(call)[0]
        assert isinstance(made, TensorType)
        return [TensorType(_wide(call.dtype(0), call.dtype(1)), made.shape)]

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        wide = _wide(given[0].dtype, given[1].dtype)
        return [op("MatMul", cast(given[0], wide), cast(given[1], wide))]


def _wide(a: NumberType, b: NumberType) -> NumberType:
    unsigned = a is NumberType.UINT16 and b is NumberType.UINT16
    return NumberType.UINT32 if unsigned else NumberType.INT32


class QGemm(Contrib):
    """alpha * A @ B + C of bytes and an int32 C; float32, or bytes where the result has a scale."""

    schema = declare(
        "QGemm",
        "A:TA a_scale:T a_zero_point:TA B:TB b_scale:T b_zero_point:TB C:TC? y_scale:T? "
        "y_zero_point:TYZ?",
        "Y:TY",
        {"T": FLOAT, "TA": BYTES, "TB": BYTES, "TC": INT32, "TYZ": BYTES, "TY": (*FLOAT, *BYTES)},
        {"alpha": 1.0, "transA": 0, "transB": 0},
    )
    ranks = "A:2 B:2"

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "transA", (0, 1))
        check_choice(call, "transB", (0, 1))

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        made = super().infer(call)[0]
        assert isinstance(made, TensorType)
        return [
            TensorType(_result(call.has(7), call.dtype(8) if call.has(8) else None), made.shape)
        ]

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        a = transpose(given[0], 1, 0) if given.attr("transA") else given[0]
        b = transpose(given[3], 1, 0) if given.attr("transB") else given[3]
        total = op("MatMulInteger", a, b, scalar(given[2]), given[5])
        if given.has(6):
            total = total + given[6]
        y = cast(total, "float32") * (scalar(given[1]) * given[4] * given.attr("alpha"))
        if not given.has(7):
            return [y]
        dtype = _result(True, given[8].dtype if given.has(8) else None)
        return [small(y, given, 7, dtype)]


def _result(scaled: bool, zero: NumberType | None) -> NumberType:
    return (zero or NumberType.UINT8) if scaled else NumberType.FLOAT32


class QLinearConv(Contrib):
    """ONNX's QLinearConv, also for images whose channels come last."""

    schema = declare(
        "QLinearConv",
        "x:T1 x_scale:F x_zero_point:T1 w:T2 w_scale:F w_zero_point:T2 y_scale:F y_zero_point:T3 "
        "B:T4?",
        "y:T3",
        {"T1": BYTES, "T2": BYTES, "T3": BYTES, "T4": INT32, "F": FLOAT},
        {
            "auto_pad": "NOTSET",
            "channels_last": 0,
            "dilations": optional("INTS"),
            "group": 1,
            "kernel_shape": optional("INTS"),
            "pads": optional("INTS"),
            "strides": optional("INTS"),
        },
    )

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "channels_last", (0, 1))

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        last = given.attr("channels_last")
        x = channels_second(given[0]) if last else given[0]
        attrs = {n: given.attr(n) for n in cls.schema.attributes if n != "channels_last"}
        y = op("QLinearConv", x, *given.inputs[1:], **attrs)
        return [channels_last(y) if last else y]
