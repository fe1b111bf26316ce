"""Quantisation: real numbers as small integers with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.op import Call
from neuralsym.core.symbol import Node
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType, from_onnx
from neuralsym.errors import TypeMismatch
from neuralsym.ops.base import Quantised, check_axis, check_choice, check_range
from neuralsym.ops.generator import dtype_attribute


class Granular(Quantised, abstract=True):
    """One scale for the whole tensor, for each index of an axis, or for each block along it."""

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
        return [TensorType(asked or NumberType.UINT8, call.shape(0))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any] | None:
        # onnx's evaluator converts to int32 before it saturates.
        dtype = node.outputs[0].dtype
        if not dtype.is_integer:
            return None
        x, scale, zero = [*values, None][:3]
        precision = node.attr("precision")
        if precision:
            x, scale = (v.astype(from_onnx(precision).numpy) for v in (x, scale))
        bits = int(dtype.removeprefix("u").removeprefix("int"))
        low = 0 if dtype.startswith("u") else -(1 << (bits - 1))
        with np.errstate(all="ignore"):
            levels = np.rint(x / _spread(node, scale, x.shape)).astype(np.float64)
        levels = np.clip(np.nan_to_num(levels, nan=-(2.0**31)), -(2.0**31), 2.0**31)
        if zero is not None:
            levels = levels + _spread(node, zero.astype(np.float64), x.shape)
        return [np.clip(levels, low, low + (1 << bits) - 1).astype(np.int64).astype(dtype.numpy)]


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


class DynamicQuantizeLinear(Quantised):
    """uint8 values, their scale and zero point, from the smallest and largest element."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [
            TensorType(NumberType.UINT8, call.shape(0)),
            TensorType(NumberType.FLOAT32, ()),
            TensorType(NumberType.UINT8, ()),
        ]
