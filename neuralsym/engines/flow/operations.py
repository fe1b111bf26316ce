"""Myelin's operation types that are not elementwise, each as a function that builds its operators.

Where Myelin means another thing than ONNX by the same word (SoftMax over all elements, Gather by
multi-indices, results counted in int32), Myelin's meaning is built.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType
from neuralsym.engines.flow.helpers import (
    Build,
    Built,
    counted,
    flattened,
    ints,
    rank_of,
    swapped,
    zeros_for,
)
from neuralsym.engines.flow.lookup import LOOKUPS, scattered
from neuralsym.engines.flow.step import Step

_MOST = 2**48
_ALL = -1
"""In `sizes`: as many elements as are left."""


# -- products ------------------------------------------------------------------------------------
def _product(step: Step, x: Symbol, y: Symbol) -> Symbol:
    if step.op.flag_attr("transpose_a") or step.op.flag_attr("adj_x"):
        x = swapped(step, x)
    if step.op.flag_attr("transpose_b") or step.op.flag_attr("adj_y"):
        y = swapped(step, y)
    made = ops.matmul(x, y)
    return swapped(step, made) if step.op.flag_attr("transpose_c") else made


def _matmul(step: Step) -> Built:
    x, y = step.take(2)
    return _product(step, x, y)


def _matmul_add(step: Step) -> Symbol:
    x, y, bias = step.take(3)
    return ops.add(_product(step, x, y), bias)


def _matmul_relu(step: Step) -> Built:
    x, y = step.take(2)
    return ops.relu(_product(step, x, y))


def _linear(step: Step) -> Built:
    x, weight, bias = step.take(3)
    return ops.add(ops.matmul(x, swapped(step, weight)), bias)


# -- assignments ---------------------------------------------------------------------------------
def _assign(step: Step) -> Built:
    _, value = step.take(2)
    step.updates[0] = value
    return value


def _assign_add_matmul(step: Step) -> Built:
    target, x, y = step.take(3)
    step.updates[0] = made = ops.add(target, _product(step, x, y))
    return made


def _assign_add_scatter(step: Step) -> Built:
    target, indices, values, *rest = step.take(3, 4)
    if rest:
        step.wrong("an out-of-vocabulary row that is assigned to is for training")
    step.updates[0] = made = scattered(step, target, indices, values)
    return made


# -- movement ------------------------------------------------------------------------------------
def _transpose(step: Step) -> Built:
    x, *rest = step.take(1, 2)
    perm = step.integers("perm") or (step.known(1, "order of axes") if rest else None)
    return ops.transpose(x, perm=perm or tuple(reversed(range(rank_of(step, x)))))


def _reshape(step: Step) -> Built:
    x, shape = step.take(2)
    return ops.reshape(x, ints(shape))


def _resize(step: Step) -> Built:
    """The elements in order, cut off or followed by zeros until the shape is filled."""
    x, _ = step.take(2)
    shape = step.known(1, "shape")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count > _MOST:
        step.wrong(f"cannot have the shape {shape}")
    zeros = zeros_for([count], x)
    filled = ops.slice(ops.concat([flattened(x), zeros], axis=0), [0], [count])
    return ops.reshape(filled, np.array(shape, np.int64))


def _concat(step: Step) -> Built:
    if len(step.inputs) < 2:
        step.wrong("takes values and an axis")
    axis = step.known(len(step.inputs) - 1, "axis")[0]
    return ops.concat(step.inputs[:-1], axis=axis)


def _split(step: Step) -> Built:
    x, *_ = step.take(1, 3)
    count = step.known(1, "number of parts")[0] if len(step.inputs) > 1 else len(step.op.outputs)
    axis = step.known(2, "axis")[0] if len(step.inputs) > 2 else step.integer("axis", 0)
    return ops.split(x, axis=axis or 0, num_outputs=count)


def _slice(step: Step) -> Built:
    """From a beginning, as many elements as `size` says; -1 for all that are left."""
    x, begin, _ = step.take(3)
    sizes = step.known(2, "size")
    begin = ints(flattened(begin))
    left = np.array([size == _ALL for size in sizes])
    ends = ops.add(begin, np.array([max(size, 0) for size in sizes], np.int64))
    if left.any():
        ends = ops.where(left, np.full(len(sizes), np.iinfo(np.int64).max), ends)
    return ops.slice(x, begin, ends, np.arange(len(sizes)))


def _squeeze(step: Step) -> Built:
    (x,) = step.take(1)
    axes = step.integers("squeeze_dims") or step.integers("axis")
    return ops.squeeze(x, np.array(axes, np.int64) if axes else None)


def _expand_dims(step: Step) -> Built:
    x, *rest = step.take(1, 2)
    axis = step.known(1, "axis")[0] if rest else step.integer("axis", 0)
    return ops.unsqueeze(x, np.array([axis], np.int64))


def _pack(step: Step) -> Built:
    axis = step.integer("axis", 0) or 0
    at = np.array([axis], np.int64)
    return ops.concat([ops.unsqueeze(x, at) for x in step.inputs], axis=axis)


def _unpack(step: Step) -> Built:
    (x,) = step.take(1)
    axis, count = step.integer("axis", 0) or 0, len(step.op.outputs)
    at = np.array([axis], np.int64)
    return [ops.squeeze(p, at) for p in ops.split(x, axis=axis, num_outputs=count)]


def _fill(step: Step) -> Built:
    shape, value = step.take(2)
    return ops.expand(value, ints(shape))


def _tile(step: Step) -> Built:
    x, repeats = step.take(2)
    return ops.tile(x, ints(repeats))


def _space_to_batch(step: Step) -> Built:
    """[N, *space, ...] -> [N * blocks, *space / block, ...], after zero padding."""
    x, _, _ = step.take(3)
    blocks, pads = step.known(1, "blocks"), step.known(2, "paddings")
    count, rank = len(blocks), rank_of(step, x)
    before = [0, *pads[0::2], *[0] * (rank - count - 1)]
    after = [0, *pads[1::2], *[0] * (rank - count - 1)]
    x = ops.pad(x, np.array(before + after, np.int64))
    shape = _sizes(step, x)
    cut = [-1]
    for size, block in zip(shape[1 : count + 1], blocks, strict=True):
        cut += [size // block, block]
    x = ops.reshape(x, np.array([*cut, *shape[count + 1 :]], np.int64))
    inner = [2 * i + 2 for i in range(count)]
    outer = [2 * i + 1 for i in range(count)]
    x = ops.transpose(x, perm=(*inner, 0, *outer, *range(2 * count + 1, x.rank or 0)))
    space = [s // b for s, b in zip(shape[1 : count + 1], blocks, strict=True)]
    return ops.reshape(x, np.array([-1, *space, *shape[count + 1 :]], np.int64))


def _batch_to_space(step: Step) -> Built:
    """[N * blocks, *space, ...] -> [N, *space * block, ...], then cropped."""
    x, _, _ = step.take(3)
    blocks, crops = step.known(1, "blocks"), step.known(2, "crops")
    count = len(blocks)
    shape = _sizes(step, x)
    x = ops.reshape(x, np.array([*blocks, -1, *shape[1:]], np.int64))
    order = [count]
    for i in range(count):
        order += [count + 1 + i, i]
    x = ops.transpose(x, perm=(*order, *range(2 * count + 1, x.rank or 0)))
    space = [s * b for s, b in zip(shape[1 : count + 1], blocks, strict=True)]
    x = ops.reshape(x, np.array([-1, *space, *shape[count + 1 :]], np.int64))
    ends = [size - after for size, after in zip(space, crops[1::2], strict=True)]
    axes = np.arange(1, count + 1)
    return ops.slice(x, np.array(crops[0::2]), np.array(ends), axes)


def _sizes(step: Step, x: Symbol) -> list[int]:
    """The sizes of x behind the first axis, which must be known; the first as 0."""
    if x.shape is None or not all(isinstance(size, int) for size in x.shape[1:]):
        step.wrong(f"needs fixed sizes behind the batch, came {x.type}")
    return [0, *(int(size) for size in x.shape[1:] if isinstance(size, int))]


# -- sizes ---------------------------------------------------------------------------------------
def _shape(step: Step) -> Built:
    return counted(ops.shape(step.take(1)[0]))


def _size(step: Step) -> Built:
    return counted(ops.size(step.take(1)[0]))


def _rank_of(step: Step) -> Built:
    (x,) = step.take(1)
    return counted(ops.size(ops.shape(x))) if x.rank is None else ops.constant(x.rank, "int32")


# -- reductions ----------------------------------------------------------------------------------
def _reduction(reduce: Callable[..., Symbol], count: bool = False, truth: bool = False) -> Build:
    """Over the axis of the attribute, or over all elements."""

    def build(step: Step) -> Built:
        x = step.take(1, 2)[0]
        kind = x.dtype
        if count:
            x = ops.cast(ops.cast(x, to="bool"), to="int32")
        elif truth and kind == NumberType.BOOL:
            x = ops.cast(x, to="int32")
        axes = step.axes()
        made = reduce(x, None if axes is None else np.array(axes), keepdims=step.keepdims())
        return ops.cast(made, to="bool") if truth and kind == NumberType.BOOL else made

    return build


def _arg(best: Callable[..., Symbol], value: Callable[..., Symbol]) -> Build:
    """The place of the best element along an axis, or among all; a second output is the element."""

    def build(step: Step) -> Built:
        x = step.take(1, 2)[0]
        axes = step.axes()
        if axes is None:
            x, axis = flattened(x), 0
        else:
            axis = axes[0]
        keep = step.keepdims()
        place = best(x, axis=axis, keepdims=keep)
        out = step.declared()
        kind = (out.dtype if out is not None else None) or NumberType.INT32
        place = place if kind == NumberType.INT64 else ops.cast(place, to=str(kind))
        if len(step.op.outputs) < 2:
            return place
        return place, value(x, np.array([axis]), keepdims=keep)

    return build


def _softmax(step: Step) -> Built:
    """Over the axis of the attribute, or over all elements of the tensor."""
    (x,) = step.take(1)
    axis = step.integer("axis")
    if axis is not None:
        return ops.softmax(x, axis=axis)
    return ops.reshape(ops.softmax(flattened(x), axis=0), ops.shape(x))


def _last_softmax(step: Step) -> Built:
    return ops.softmax(step.take(1)[0], axis=-1)


def _log_softmax(step: Step) -> Built:
    return ops.log_softmax(step.take(1)[0], axis=-1)


# -- casts ---------------------------------------------------------------------------------------
def _cast(step: Step) -> Built:
    """To the type that the result declares; the name of Myelin's tells the type it comes from."""
    (x,) = step.take(1)
    out = step.declared()
    wanted = out.dtype if out is not None else None
    if wanted is None:
        step.wrong("the type of its result must be declared")
    return ops.cast(x, to=str(wanted))


OPERATIONS: dict[str, Build] = {
    "MatMul": _matmul,
    "BatchMatMul": _matmul,
    "BatchMatMulV2": _matmul,
    "MatMulAdd": _matmul_add,
    "MatMulRelu": _matmul_relu,
    "MatMulAddRelu": lambda step: ops.relu(_matmul_add(step)),
    "Linear": _linear,
    "Assign": _assign,
    "AssignAddMatMul": _assign_add_matmul,
    "AssignAddScatter": _assign_add_scatter,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Resize": _resize,
    "Concat": _concat,
    "ConcatV2": _concat,
    "Split": _split,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "ExpandDims": _expand_dims,
    "Pack": _pack,
    "Unpack": _unpack,
    "Fill": _fill,
    "Tile": _tile,
    "SpaceToBatchND": _space_to_batch,
    "BatchToSpaceND": _batch_to_space,
    **LOOKUPS,
    "Shape": _shape,
    "Size": _size,
    "Rank": _rank_of,
    "Sum": _reduction(ops.reduce_sum),
    "Product": _reduction(ops.reduce_prod),
    "Prod": _reduction(ops.reduce_prod),
    "Mean": _reduction(ops.reduce_mean),
    "Max": _reduction(ops.reduce_max),
    "Min": _reduction(ops.reduce_min),
    "All": _reduction(ops.reduce_min, truth=True),
    "Any": _reduction(ops.reduce_max, truth=True),
    "Count": _reduction(ops.reduce_sum, count=True),
    "LogSumExp": _reduction(ops.reduce_log_sum_exp),
    "ArgMax": _arg(ops.arg_max, ops.reduce_max),
    "ArgMin": _arg(ops.arg_min, ops.reduce_min),
    "SoftMax": _softmax,
    "Softmax": _last_softmax,
    "LogSoftmax": _log_softmax,
    "Cast": _cast,
    **{f"Cast{t}": _cast for t in ("Float", "Double", "Byte", "Short", "Int", "Long", "Bool")},
}
"""The operations by type; elementwise ones are in elementwise.py."""
