"""Quantisation: real numbers as small integers with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.op import Call
from neuralsym.core.scalar import Scalar, argument, cast, equal, minimum, round_, where
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType, from_onnx
from neuralsym.errors import TypeMismatch
from neuralsym.ops.base import Elementwise, Quantised, check_axis, check_choice, check_range
from neuralsym.ops.cast import LARGEST, clamped
from neuralsym.ops.generator import dtype_attribute
from neuralsym.ops.integer import expand_dynamic_quantize
from neuralsym.ops.values import compute


class Granular(Elementwise, Quantised, abstract=True):
    """One scale for the whole tensor, for each index of an axis, or for each block along it."""

    @classmethod
    def formula(cls, step: Call | Node) -> Scalar:
        """The result for an element of x, its scale and its zero point: arguments 0, 1 and 2."""
        raise NotImplementedError

    @classmethod
    def expression(cls, step: Call | Node) -> Scalar | None:
        """The formula where one scale is for all, so that it broadcasts."""
        x, scale = step.inputs[0], step.inputs[1]
        if x is None or scale is None:
            return None
        shape, scales = x.tensor.shape, scale.tensor.shape
        if shape is None or scales is None or len(scales) > len(shape):
            return None
        return cls.formula(step) if all(d == 1 for d in scales) else None

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        return None

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any] | None:
        # onnx's evaluator converts to int32 before it saturates, and computes in numpy's types.
        x = np.asarray(values[0])
        spread = [None if v is None else _spread(node, np.asarray(v), x.shape) for v in values[1:]]
        return [compute(cls.formula(node), [x, *spread], node.outputs[0].dtype)]

    @classmethod
    def check(cls, call: Call) -> None:
        check_range(call, "block_size", 0)
        scale = call.shape(1)
        if call.has(2):
            zero = call.shape(2)
            if scale is not None and zero is not None and not _alike(scale, zero):
                call.fail("the zero point must have the shape of the scale")
        x = call.shape(0)
        if scale is None or x is None or not scale:
            return
        if len(scale) == 1 and not call.attr("block_size"):
            if scale[0] == 1:
                return
            axis = check_axis(call, call.attr("axis"), len(x))
            if axis is not None:
                _check_scales(call, scale[0], x[axis])
        elif len(scale) != len(x):
            call.fail(f"the scale has {len(scale)} axes, x has {len(x)}")
        else:
            axis = check_axis(call, call.attr("axis"), len(x))
            for i, (a, b) in enumerate(zip(scale, x, strict=True)):
                if i != axis:
                    _check_scales(call, a, b)


def _alike(scale: Shape, zero: Shape) -> bool:
    """Whether the shapes may be equal; a vector of one counts as a scalar."""
    if len(scale) != len(zero):
        longer = max(scale, zero, key=len)
        return len(longer) == 1 and (longer[0] == 1 or not isinstance(longer[0], int))
    pairs = zip(scale, zero, strict=True)
    return all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))


def _check_scales(call: Call, given: Size, wanted: Size) -> None:
    if isinstance(given, int) and isinstance(wanted, int) and given != wanted:
        call.fail(f"the scale has {given} values on an axis of {wanted}")


class QuantizeLinear(Granular):
    """x/scale + zero point, rounded half to even and saturated to the small type."""

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "saturate", (0, 1))

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        asked = dtype_attribute(call, "output_dtype")
        if call.has(2):
            if asked is not None and asked != call.dtype(2):
                call.fail(f"output_dtype is {asked}, the zero point {call.dtype(2)}", TypeMismatch)
            asked = call.dtype(2)
        return [TensorType(asked or _DEFAULT, call.shape(0))]

    @classmethod
    def formula(cls, step: Call | Node) -> Scalar:
        x, scale = step.inputs[0], step.inputs[1]
        zero = step.inputs[2] if len(step.inputs) > 2 else None
        assert x is not None and scale is not None
        kind = cls._kind(step)
        precision = from_onnx(step.attr("precision")) if step.attr("precision") else scale.dtype
        if precision not in PRECISIONS:
            # Of a scale that is a whole number or a bare power of two: there is no such division.
            precision = x.dtype if x.dtype in PRECISIONS else NumberType.FLOAT32
        ratio = cast(cast(argument(0), precision) / cast(argument(1), precision), precision)
        wide = NumberType.FLOAT64 if precision is NumberType.FLOAT64 else NumberType.FLOAT32
        offset = None if zero is None else cast(argument(2), wide)
        if kind.is_integer:
            low, high = integer_range(kind)
            levels = round_(cast(ratio, wide))
            levels = levels if offset is None else levels + offset
            # A NaN is below everything.
            return cast(minimum(where(levels > low, levels, low), high), kind)
        if offset is not None:  # zero as a rule, which leaves -0 alone
            ratio = where(equal(offset, 0), cast(ratio, wide), cast(ratio, wide) + offset)
        if kind in LARGEST and step.attr("saturate"):
            return cast(clamped(ratio, wide, LARGEST[kind]), kind)
        return cast(ratio, kind)

    @classmethod
    def _kind(cls, step: Call | Node) -> NumberType:
        zero = step.inputs[2] if len(step.inputs) > 2 else None
        if zero is not None:
            return zero.dtype
        return from_onnx(step.attr("output_dtype")) if step.attr("output_dtype") else _DEFAULT


PRECISIONS = tuple(NumberType(name) for name in ("float16", "bfloat16", "float32", "float64"))
_DEFAULT = NumberType.UINT8


def integer_range(kind: NumberType) -> tuple[float, float]:
    """The least and the largest value of an integer type of at most 16 bits."""
    bits = int(kind.removeprefix("u").removeprefix("int"))
    low = 0.0 if kind.startswith("u") else -(2.0 ** (bits - 1))
    return low, low + 2.0**bits - 1


def _spread(node: Node, values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Scales or zero points so that they broadcast with x."""
    if values.size == 1:
        return values.reshape(())
    axis, block = node.attr("axis"), node.attr("block_size")
    if block:
        wide = np.repeat(values, block, axis)
        return wide.take(range(shape[axis]), axis)
    return values.reshape([-1 if a == axis % len(shape) else 1 for a in range(len(shape))])


class DequantizeLinear(Granular):
    """(x - zero point) * scale."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        dtype = dtype_attribute(call, "output_dtype") or call.dtype(1)
        return [TensorType(dtype, call.shape(0))]

    @classmethod
    def formula(cls, step: Call | Node) -> Scalar:
        x, scale = step.inputs[0], step.inputs[1]
        assert x is not None and scale is not None
        kind = from_onnx(step.attr("output_dtype")) if step.attr("output_dtype") else scale.dtype
        # In float32 the product of any other type is rounded once; the difference is exact.
        wide = NumberType.FLOAT64 if x.dtype is NumberType.INT32 else NumberType.FLOAT32
        value = cast(argument(0), wide)
        if len(step.inputs) > 2 and step.inputs[2] is not None:
            value = value - cast(argument(2), wide)
        return cast(value * cast(argument(1), wide), kind)


class DynamicQuantizeLinear(Quantised):
    """uint8 values, their scale and zero point, from the smallest and largest element."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [
            TensorType(NumberType.UINT8, call.shape(0)),
            TensorType(NumberType.FLOAT32, ()),
            TensorType(NumberType.UINT8, ()),
        ]

    @classmethod
    def expansion(cls, node: Node) -> Sequence[Symbol] | None:
        return expand_dynamic_quantize(node)
