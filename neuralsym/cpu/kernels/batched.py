"""A place or length for each entry of a batch: ReverseSequence and TensorScatter."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.movement import copy_rows, view
from neuralsym.cpu.kernels.units import are_tensors, units
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Row, Sizes, Step
from neuralsym.errors import ShapeMismatch


class ReverseSequence(Kernel):
    """The first entries of each sequence in reverse order, the others as they are."""

    failures: ClassVar = {1: "an entry of sequence_lens is negative or above the length of an axis"}

    def supports(self, step: Step) -> bool | str:
        return are_tensors(step) or "not a tensor of numbers"

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, lengths = step.inputs
        y = step.outputs[0]
        assert x is not None and lengths is not None
        shape = sizes.shape(x)
        if 0 in shape:
            return []
        kind, count = units(prod(shape[2:]) * x.dtype.itemsize)
        seen = (*shape[:2], count)
        by_rows = step.attr("time_axis") == 0
        sides = [
            Side(x, kind, seen),
            Side(lengths, "int64", (shape[1 if by_rows else 0],)),
            Side(y, kind, seen, "out"),
        ]
        return [array_row(step, sizes, _reverse, sides, [by_rows], name="reverse_sequence")]


def _reverse(x: Any, lengths: Any, y: Any, by_rows: bool, worker: int, workers: int) -> int:
    rows, columns = x.shape[0], x.shape[1]
    time = rows if by_rows else columns
    total = rows * columns
    for unit in range(total * worker // workers, total * (worker + 1) // workers):
        i, j = unit // columns, unit % columns
        at, batch = (i, j) if by_rows else (j, i)
        length = lengths[batch]
        if length < 0 or length > time:
            return 1
        since = length - 1 - at if at < length else at
        source = x[since, j] if by_rows else x[i, since]
        target = y[i, j]
        for s in range(x.shape[2]):
            target[s] = source[s]
    return 0


class TensorScatter(Kernel):
    """The cache, with the update written over it from the place of each batch entry on."""

    failures: ClassVar = {1: "an update ends behind the last place of the cache"}

    def supports(self, step: Step) -> bool | str:
        return are_tensors(step) or "not a tensor of numbers"

    def adjust(self, step: Step) -> None:
        step.in_place = [(0, 0)]

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, update, starts = step.inputs[0], step.inputs[1], step.input(2)
        y = step.outputs[0]
        assert x is not None and update is not None
        shape, part = sizes.shape(x), sizes.shape(update)
        rows = copy_rows(self.target, view(y, shape), view(x, shape), shape, sizes.workers)
        if 0 in part:
            return rows
        axis = step.attr("axis") % len(shape)
        if part[axis] > shape[axis]:
            raise ShapeMismatch(
                f"{step.describe()}: update has {part[axis]} entries on axis {axis}, the cache "
                f"only {shape[axis]}"
            )
        kind, count = units(prod(shape[axis + 1 :]) * x.dtype.itemsize)
        front = (shape[0], prod(shape[1:axis]))
        batch = 0 if starts is None else shape[0]
        sides = [
            Side(y, kind, (*front, shape[axis], count), "out"),
            Side(update, kind, (*front, part[axis], count)),
            Side(update if starts is None else starts, "int64", (batch,)),
        ]
        circular = step.attr("mode") == "circular"
        rows.append(array_row(step, sizes, _write, sides, [circular], name="tensor_scatter"))
        return rows


def _write(y: Any, update: Any, starts: Any, circular: bool, worker: int, workers: int) -> int:
    outer, length, added = y.shape[1], y.shape[2], update.shape[2]
    total = y.shape[0] * outer
    for unit in range(total * worker // workers, total * (worker + 1) // workers):
        n, o = unit // outer, unit % outer
        start = starts[n] if starts.shape[0] else 0
        if circular:
            start %= length
        if start < 0 or (not circular and start > length - added):
            return 1
        for i in range(added):
            at = start + i
            if at >= length:
                at -= length
            for s in range(y.shape[3]):
                y[n, o, at, s] = update[n, o, i, s]
    return 0


def register(library: Library) -> None:
    """Register the kernels of this module."""
    library.kernel("ReverseSequence", name="reversesequence")(ReverseSequence)
    library.kernel("TensorScatter", name="tensorscatter")(TensorScatter)
