"""Elements gathered and scattered by more than one axis, where an opset has one axis alone.

Places are counted through the whole tensor, which takes sizes that are known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx.constants import ints
from neuralsym.engines.onnx.lower.target import Target

Places = NDArray[np.int64]


def _steps(sizes: Sequence[int]) -> list[int]:
    """How far apart two neighbours along each axis lie."""
    return [int(np.prod(sizes[i + 1 :], dtype=np.int64)) for i in range(len(sizes))]


def _from_start(t: Target, indices: Symbol, sizes: Symbol) -> Symbol:
    """Indices of int64 that may count from the end, as those that count from the start."""
    whole = t.cast(indices, NumberType.INT64)
    real = t.cast(whole, NumberType.FLOAT32)  # of integers there is no Less before 9
    below = t.op("Less", real, constant(np.float32(0)))
    return t.op("Add", whole, t.op("Mul", t.cast(below, NumberType.INT64), sizes))


def gather_elements(t: Target) -> Sequence[Symbol]:
    sizes, shape = t.sizes(0), t.sizes(1)
    axis = t.axis(t.attr("axis"), len(sizes))
    steps = _steps(sizes)
    grid = np.indices(shape)
    others: Places = sum(
        (grid[i] * steps[i] for i in range(len(sizes)) if i != axis), np.zeros(shape, np.int64)
    )
    chosen = _from_start(t, t.input(1), ints([sizes[axis]]))
    places = t.op("Add", t.op("Mul", chosen, ints([steps[axis]])), ints(others))
    flat = t.op("Reshape", t.x, ints([-1]))
    found = t.op("Gather", flat, t.op("Reshape", places, ints([-1])), axis=0)
    return [t.op("Reshape", found, ints(shape))]


def _rows(t: Target, batch: int) -> tuple[Symbol, int, list[int]]:
    """The rows that tuples of indices name: their numbers, how many there are, and their shape."""
    sizes, shape = t.sizes(0), t.sizes(1)
    count = batch + shape[-1]
    steps = _steps(sizes[:count])
    named = _from_start(t, t.input(1), ints(sizes[batch:count]))
    summed = t.op("Mul", named, ints(steps[batch:]))
    places = t.op("ReduceSum", summed, ints([len(shape) - 1]), keepdims=0)
    if batch:
        grid = np.indices(shape[:-1])
        start: Places = np.zeros(shape[:-1], np.int64)
        offsets: Places = sum((grid[i] * steps[i] for i in range(batch)), start)
        places = t.op("Add", places, ints(offsets))
    number = int(np.prod(sizes[:count], dtype=np.int64))
    return t.op("Reshape", places, ints([-1])), number, [*sizes[count:]]


def gather_nd(t: Target) -> Sequence[Symbol]:
    rows, number, rest = _rows(t, t.attr("batch_dims"))
    table = t.op("Reshape", t.x, ints([number, int(np.prod(rest, dtype=np.int64))]))
    found = t.op("Gather", table, rows, axis=0)
    return [t.op("Reshape", found, ints([*t.sizes(1)[:-1], *rest]))]


def scatter_nd(t: Target) -> Sequence[Symbol]:
    if t.attr("reduction") != "none":
        t.refuse("it has no reduction")
    rows, number, rest = _rows(t, 0)
    width = int(np.prod(rest, dtype=np.int64))
    count = int(np.prod(t.sizes(1)[:-1], dtype=np.int64))
    table = t.op("Reshape", t.x, ints([number, width]))
    updates = t.op("Reshape", t.input(2), ints([count, width]))
    column = t.op("Reshape", rows, ints([-1, 1]))
    where = t.op("Expand", column, ints([count, width]))
    made = t.op("ScatterElements", table, where, updates, axis=0)
    return [t.op("Reshape", made, ints(t.sizes(0)))]
