"""Settings that are inputs now and were attributes, or were not there and are worked out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralsym.core.leaves import Weight, constant, is_stored, stored
from neuralsym.core.op import KNOWN_LIMIT
from neuralsym.core.symbol import Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx.constants import ints, like
from neuralsym.engines.onnx.lower.target import Target, plain
from neuralsym.errors import NeuralsymError
from neuralsym.ops.evaluate import evaluate

_OF_NO_AXES = {"ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceLogSum": "Log"}


def axes(t: Target) -> Sequence[Symbol]:
    """Squeeze, Unsqueeze and reductions: the axes as an attribute."""
    attrs = plain(t.node.attrs, "noop_with_empty_axes")
    given = t.setting(1) if t.has(1) else np.zeros(0, np.int64)
    if not given.size:
        if t.attr("noop_with_empty_axes"):
            if t.name == "ReduceSumSquare":
                return [t.op("Mul", t.x, t.x)]
            return [t.op(_OF_NO_AXES.get(t.name, "Identity"), t.x)]
        return [t.x] if t.name == "Unsqueeze" else t.older(t.x, **attrs)
    found = [int(a) for a in given.reshape(-1)]
    if min(found) < 0:
        rank = t.rank() + (len(found) if t.name == "Unsqueeze" else 0)
        found = [t.axis(a, rank) for a in found]
    return t.older(t.x, axes=tuple(sorted(found)), **attrs)


def counted_from_the_start(t: Target) -> Sequence[Symbol] | None:
    """Before 11 an axis was never counted from the end."""
    if t.opset >= 11:
        return None
    changes: dict[str, Any] = {}
    for name in ("axis", "axes"):
        value = t.attr(name)
        if isinstance(value, tuple):
            if min(value, default=0) < 0:
                changes[name] = tuple(t.axis(a, t.rank()) for a in value)
        elif value is not None and value < 0:
            changes[name] = t.axis(value, t.rank())
    return t.again(*t.node.inputs, **changes) if changes else None


def slices(t: Target) -> Sequence[Symbol] | None:
    """Steps other than one are a choice of elements; the rest is cut as the opset can."""
    count = t.input(1).shape
    if t.has(3):
        along = [int(a) for a in t.setting(3).reshape(-1)]
    elif count is not None and isinstance(count[0], int):
        along = list(range(count[0]))
    else:
        t.refuse("the number of its axes is unknown")
    if min(along, default=0) < 0:
        along = [t.axis(a, t.rank()) for a in along]
    steps = [int(s) for s in t.setting(4).reshape(-1)] if t.has(4) else [1] * len(along)
    if t.opset >= 10 and min(steps, default=1) > 0:
        rest = [ints(along), ints(steps)] if t.has(4) else [ints(along)]
        rest = [s if s.dtype is t.input(1).dtype else t.cast(s, t.input(1).dtype) for s in rest]
        return t.older(t.x, t.input(1), t.input(2), *_folded(rest))
    starts, ends = ([int(v) for v in t.setting(i).reshape(-1)] for i in (1, 2))
    made, cut = t.x, []
    for i, (axis, step) in enumerate(zip(along, steps, strict=True)):
        if step == 1:
            cut.append(i)
            continue
        chosen = sliced(starts[i], ends[i], step, t.size(axis))
        made = t.op("Gather", made, ints([*chosen]), axis=axis)
    if not cut:
        return [made]
    limit = 2**63 - 1
    pick = [[max(min(row[i], limit), -limit) for i in cut] for row in (starts, ends, along)]
    if t.opset >= 10:
        return [t.op("Slice", made, *map(ints, pick))]
    return t.older(made, starts=tuple(pick[0]), ends=tuple(pick[1]), axes=tuple(pick[2]))


def sliced(start: int, end: int, step: int, size: int) -> range:
    """The places of a slice, clamped as ONNX says: unlike Python's, a start is always inside."""
    start, end = (v + size if v < 0 else v for v in (start, end))
    if step > 0:
        return range(min(max(start, 0), size), min(max(end, 0), size), step)
    if not size:
        return range(0)
    return range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)


def _folded(symbols: Sequence[Symbol]) -> list[Symbol]:
    """Casts of constants as the constants that they give."""
    return [
        s if s.known is None else constant(Tensor.of(np.asarray(s.known, s.dtype.numpy), s.dtype))
        for s in symbols
    ]


def pad(t: Target) -> Sequence[Symbol] | None:
    mode = t.attr("mode")
    if t.has(3) or mode == "wrap":
        amounts = t.setting(1).reshape(2, -1)
        rank = t.rank()
        along = t.setting(3).reshape(-1) if t.has(3) else np.arange(rank)
        full = np.zeros((2, rank), np.int64)
        full[:, [t.axis(int(a), rank) for a in along]] = amounts
        if mode == "wrap" and t.opset < 19:
            return [_wrapped(t, full)]
        return t.again(t.x, ints(full.reshape(-1)), t.optional(2))
    if t.opset >= 11:
        return None
    pads = tuple(int(p) for p in t.setting(1).reshape(-1))
    value = float(t.setting(2).reshape(())) if t.has(2) else 0.0
    return t.older(t.x, pads=pads, mode=mode, value=value)


def _wrapped(t: Target, pads: Any) -> Symbol:
    made = t.x
    for axis, (before, after) in enumerate(pads.T):
        if before or after:
            size = t.size(axis)
            made = t.op("Gather", made, ints(np.arange(-before, size + after) % size), axis=axis)
    return made


def clip(t: Target) -> Sequence[Symbol] | None:
    """Bounds as attributes where both are known, else by Max and Min, which let NaN through too."""
    if t.opset >= 11:
        return None
    low, high = t.known(1), t.known(2)
    if low is not None and high is not None and low <= high:
        bottom, top_ = float(low.reshape(())), float(high.reshape(()))
        single = all(float(np.float32(b)) == b for b in (bottom, top_))
        if single or t.x.dtype is not NumberType.FLOAT64:  # the attributes are float32
            return t.older(t.x, min=bottom, max=top_)
    made = t.x
    if t.has(1):
        made = t.op("Max", made, t.input(1))
    if t.has(2):
        made = t.op("Min", made, t.input(2))
    return [t.op("Identity", made)] if made is t.x else [made]


def top(t: Target) -> Sequence[Symbol] | None:
    """Before 11 the largest alone: the smallest are the largest of the negative."""
    if t.opset >= 11:
        return None
    axis = t.axis(t.attr("axis"), t.rank() if t.attr("axis") < 0 else 0)
    x = t.x if t.attr("largest") else t.op("Neg", t.x)
    if t.opset >= 10:
        made = t.older(x, t.input(1), axis=axis)
    else:
        made = t.older(x, k=int(t.setting(1).reshape(())), axis=axis)
    return made if t.attr("largest") else [t.op("Neg", made[0]), made[1]]


def split(t: Target) -> Sequence[Symbol] | None:
    axis = t.attr("axis")
    if t.opset < 11 and axis < 0:
        axis = t.axis(axis, t.rank())
    if t.has(1):
        if t.opset >= 13:
            return None
        sizes: tuple[int, ...] = tuple(int(s) for s in t.setting(1).reshape(-1))
    else:
        size, parts = t.size(axis), len(t.node.outputs)
        chunk = -(-size // parts)
        sizes = tuple(max(min(chunk, size - i * chunk), 0) for i in range(parts))
    if t.opset >= 13:
        return t.older(t.x, ints(sizes), axis=axis)
    return t.older(t.x, split=sizes, axis=axis)


def dropout(t: Target) -> Sequence[Symbol] | None:
    """Files of before 12 are run for inference: nothing is dropped."""
    if t.opset >= 12:
        return None
    training = t.known(2)
    if t.has(2) and (training is None or training.any()):
        t.refuse("training is no setting of it there")
    ratio = t.known(1)
    value = 0.5 if not t.has(1) else 0.0 if ratio is None else float(ratio.reshape(()))
    kinds = [t.node.outputs[0].type]
    made = t.older(t.x, ratio=value, types=kinds)
    if len(t.node.outputs) == 1:
        return made
    yes = Tensor.of(np.array([True]))
    shape = t.x.shape
    if shape is not None and all(isinstance(s, int) for s in shape):
        return [made[0], constant(np.ones([int(s) for s in shape if isinstance(s, int)], bool))]
    return [made[0], t.op("ConstantOfShape", t.op("Shape", t.x), value=yes)]


def reshape(t: Target) -> Sequence[Symbol] | None:
    if t.opset >= 14 or not t.attr("allowzero"):
        return None
    wanted = t.setting(1)
    if wanted.all():
        return t.again(*t.node.inputs, allowzero=None)
    # A tensor without elements, whatever came in.
    empty = np.zeros([int(n) for n in wanted.reshape(-1)], t.x.dtype.numpy)
    return [constant(Tensor.of(empty, t.x.dtype))]


def shape(t: Target) -> Sequence[Symbol] | None:
    """The sizes from `start` to `end`, cut out of all."""
    start, end = t.attr("start") or 0, t.attr("end")
    whole = t.op("Shape", t.x)
    return [t.op("Slice", whole, ints([start]), ints([2**31 - 1 if end is None else end]))]


def dft(t: Target) -> Sequence[Symbol] | None:
    axis = int(t.setting(2).reshape(())) if t.has(2) else -2
    if axis < 0:
        axis += t.rank()
    attrs = {name: t.attr(name) for name in ("inverse", "onesided")}
    return t.older(t.x, t.optional(1), axis=axis, **attrs)


def cast_like(t: Target) -> Sequence[Symbol]:
    attrs = {n: t.node.attrs[n] for n in ("saturate", "round_mode") if n in t.node.attrs}
    return [t.op("Cast", t.x, to=t.input(1).dtype.onnx, **attrs)]


def chosen_last(t: Target) -> Sequence[Symbol] | None:
    """ArgMax and ArgMin of the last of several: the first from behind."""
    if not t.attr("select_last_index"):
        return None
    axis = t.axis(t.attr("axis"), t.rank())
    size = t.size(axis)
    behind = t.op("Gather", t.x, ints(np.arange(size)[::-1]), axis=axis)
    found = t.op(t.name, behind, axis=axis, keepdims=t.attr("keepdims"))
    return [t.op("Sub", constant(np.int64(size - 1)), found)]


def gather(t: Target) -> Sequence[Symbol] | None:
    """Indices that are counted from the end, from the start."""
    indices = t.known(1)
    axis = t.axis(t.attr("axis"), t.rank() if t.attr("axis") < 0 else 0)
    if t.opset >= 11 or indices is None or not (indices < 0).any():
        return None
    size = t.size(axis)
    plain_ones = like(t.input(1), np.where(indices < 0, indices + size, indices))
    return t.again(t.x, plain_ones, axis=axis)


def one_hot(t: Target) -> Sequence[Symbol] | None:
    """Before 11 a negative index was one of no class."""
    if t.opset >= 11 or t.opset < 9:
        return None
    indices, depth = t.cast(t.input(0), NumberType.INT64), t.cast(t.input(1), NumberType.INT64)
    single = t.op("Reshape", depth, ints([1]))
    if indices.rank == 0:
        single = t.op("Reshape", depth, ints([]))
    zero = constant(np.int64(0))
    known = indices.known
    if known is None or known.dtype == object or (known < 0).any():
        from_end = t.op("Add", indices, single)
        # What lies before the start is of no class; onnxruntime would count it again.
        from_end = t.op("Where", t.op("Less", from_end, zero), single, from_end)
        indices = t.op("Where", t.op("Less", indices, zero), from_end, indices)
    axis = t.attr("axis")
    if axis < -1:
        axis = t.axis(axis, t.rank() + 1)
    return t.older(indices, depth, t.input(2), axis=axis)


def gemm(t: Target) -> Sequence[Symbol] | None:
    return None if t.has(2) else t.again(t.x, t.input(1), like(t.x, [0]))


def scatter(t: Target) -> Sequence[Symbol] | None:
    """ScatterElements was called Scatter in 9 and 10."""
    if t.attr("reduction") != "none":
        t.refuse("it has no reduction")
    axis = t.axis(t.attr("axis"), t.rank() if t.attr("axis") < 0 else 0)
    return t.older(*t.node.inputs, op="Scatter", axis=axis)


def folded(t: Target) -> Sequence[Symbol] | None:
    """What follows from constants alone needs no operator; weights stay what they are."""
    if t.node.captures or not t.node.op.deterministic or t.node.op.body_attributes:
        return None
    if any(s is not None and s.node.op is Weight for s in t.node.inputs):
        return None
    values: list[Any] = [s.known for s in t.node.outputs]
    if any(v is None or v.dtype == object for v in values):
        given = [s for s in t.node.inputs if s is not None]
        if not given or not all(is_stored(s) and stored(s).size <= KNOWN_LIMIT for s in given):
            return None
        try:
            inputs = [None if s is None else stored(s).value for s in t.node.inputs]
            values = list(evaluate(t.node, inputs))
        except NeuralsymError:
            return None
    kinds = [s.type for s in t.node.outputs]
    if not all(isinstance(k, TensorType) for k in kinds):
        return None
    return [
        constant(Tensor.of(np.asarray(v, k.dtype.numpy), k.dtype))
        for v, k in zip(values, kinds, strict=True)
        if isinstance(k, TensorType)
    ]
