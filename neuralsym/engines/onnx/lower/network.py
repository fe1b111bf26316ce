"""Layers of networks as older versions have them: softmax, normalisation, pooling, recurrence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuralsym.core.symbol import Symbol
from neuralsym.engines.onnx.constants import ints, like
from neuralsym.engines.onnx.lower.target import Target, plain


def softmax(t: Target) -> Sequence[Symbol] | None:
    """Before 13 all axes from one on were one: the axis is moved to the end."""
    rank = t.rank()
    axis = t.axis(t.attr("axis"), rank)
    if axis == rank - 1:
        return t.older(t.x, axis=axis)
    order = [*range(rank)]
    order[axis], order[-1] = order[-1], order[axis]
    moved = t.op("Transpose", t.x, perm=order)
    made = t.older(moved, axis=rank - 1, types=[moved.type])[0]
    return [t.op("Transpose", made, perm=order)]


def batch_norm(t: Target) -> Sequence[Symbol] | None:
    """In training by its formula; of mixed types in the type of the data."""
    if not t.attr("training_mode"):
        given = [t.x, *(t.cast(t.input(i), t.x.dtype) for i in range(1, 5))]
        return None if given == [*t.node.inputs] else t.again(*given)
    if t.opset >= 14:
        return None
    x, axes = t.x, ints([0, *range(2, t.rank())])
    momentum, epsilon = t.attr("momentum"), t.attr("epsilon")
    scale, bias, mean, var = (t.cast(t.input(i), x.dtype) for i in range(1, 5))
    now = t.op("ReduceMean", x, axes)
    away = t.op("Sub", x, now)
    spread = t.op("ReduceMean", t.op("Mul", away, away), axes)
    column = ints([-1, *[1] * (t.rank() - 2)])
    scaled = t.op("Div", away, t.op("Sqrt", t.op("Add", spread, like(x, epsilon))))
    y = t.op("Mul", scaled, t.op("Reshape", scale, column))
    outputs = [t.op("Add", y, t.op("Reshape", bias, column))]
    for before, here in ((mean, now), (var, spread)):
        kept = t.op("Mul", before, like(x, momentum))
        new = t.op("Mul", t.op("Reshape", here, ints([-1])), like(x, 1 - momentum))
        outputs.append(t.op("Add", kept, new))
    return [t.cast(a, b.dtype) for a, b in zip(outputs, t.node.outputs, strict=False)]


def pool(t: Target) -> Sequence[Symbol] | None:
    """Rounding up is padding further, where that cannot be told from the values.

    The sizes are those that every version agrees on, as is asked for with `ceil_mode` before 22.
    """
    if not t.attr("ceil_mode"):
        return None
    if t.name == "AveragePool" and t.attr("count_include_pad"):
        t.refuse("ceil_mode with count_include_pad counts what no padding can say")
    out = t.node.outputs[0].shape
    if (t.attr("auto_pad") or "NOTSET") != "NOTSET":
        return t.again(t.x, ceil_mode=None)
    kernel = t.attr("kernel_shape")
    count = len(kernel)
    strides, dilations = (t.attr(n) or (1,) * count for n in ("strides", "dilations"))
    pads = list(t.attr("pads") or (0,) * (2 * count))
    for i in range(count):
        size, wanted = t.size(i + 2), None if out is None else out[i + 2]
        assert isinstance(wanted, int)
        extent = dilations[i] * (kernel[i] - 1) + 1
        covered = (wanted - 1) * strides[i] + extent - size - pads[i]
        floor = (size + pads[i] + pads[count + i] - extent) // strides[i] + 1
        if floor != wanted:
            pads[count + i] = max(covered, 0)
    return t.again(t.x, ceil_mode=None, pads=tuple(pads))


def batch_first(t: Target) -> Sequence[Symbol] | None:
    """Before 14 time came first."""
    if t.opset >= 14 or not t.attr("layout"):
        return None
    inputs = list(t.node.inputs)
    for i in (0, 5, 6):
        if t.has(i):
            inputs[i] = t.op("Transpose", t.input(i), perm=(1, 0, 2))
    made = t.again(*inputs, layout=None)
    ways = [(2, 0, 1, 3), (1, 0, 2), (1, 0, 2)]
    return [t.op("Transpose", s, perm=way) for s, way in zip(made, ways, strict=False)]


def grid_sample(t: Target) -> Sequence[Symbol] | None:
    if t.rank() != 4:
        t.refuse("it samples images alone")
    names = {"linear": "bilinear", "cubic": "bicubic"}
    attrs: dict[str, Any] = plain(t.node.attrs, "mode")
    return t.older(*t.node.inputs, mode=names.get(t.attr("mode"), t.attr("mode")), **attrs)


def depth_to_space(t: Target) -> Sequence[Symbol] | None:
    """Columns before rows: by a transposition."""
    if t.attr("mode") != "CRD":
        return None
    n, c, h, w = (_size(size) for size in t.x.shape or (None,) * 4)
    block = t.attr("blocksize")
    if None in (c, h, w):
        t.refuse("it can be said only where all sizes but the first are known")
    if t.name == "DepthToSpace":
        apart = [n or -1, c // block**2, block, block, h, w]
        together, order = [n or -1, c // block**2, h * block, w * block], (0, 1, 4, 2, 5, 3)
    else:
        apart = [n or -1, c, h // block, block, w // block, block]
        together, order = [n or -1, c * block**2, h // block, w // block], (0, 1, 3, 5, 2, 4)
    turned = t.op("Transpose", t.op("Reshape", t.x, ints(apart)), perm=order)
    return [t.op("Reshape", turned, ints(together))]


def _size(size: Any) -> Any:
    return size if isinstance(size, int) else None
