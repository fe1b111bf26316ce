"""Gathers and scatters that the texts of templates/indexed.py do not take: complex numbers that
are combined, elements of tensors with many axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.movement import FAILURES, copy_rows, view
from neuralsym.cpu.kernels.sort import order_of
from neuralsym.cpu.kernels.units import UNITS, Function, are_tensors, decoder, encoder, same, table
from neuralsym.cpu.library import Kernel
from neuralsym.cpu.program import Buffer, Row, Sizes, Step, row_strides
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch


class Loop(Kernel):
    """What they share: the type that elements are seen as, what happens where two meet."""

    failures = FAILURES
    scatters = False

    def supports(self, step: Step) -> bool | str:
        return are_tensors(step) or "not a tensor of numbers"

    def adjust(self, step: Step) -> None:
        if self.scatters:
            step.in_place = [(0, 0)]

    def how(self, step: Step) -> str:
        return (step.attr("reduction") or "none") if self.scatters else "none"

    def kind(self, step: Step) -> tuple[str, int]:
        """The type to see elements as, and how many of them one is."""
        dtype = step.outputs[0].dtype
        if self.how(step) != "none":
            return ("uint8" if dtype is NumberType.BOOL else dtype.value), 1
        return UNITS[min(dtype.itemsize, 8)], max(dtype.itemsize // 8, 1)

    def before(self, step: Step, sizes: Sizes) -> list[Row]:
        """A scatter begins with a copy of the data, over itself where they share memory."""
        data, y = step.inputs[0], step.outputs[0]
        assert data is not None
        if not self.scatters:
            return []
        shape = sizes.shape(y)
        return copy_rows(self.target, view(y, shape), view(data, shape), shape, sizes.workers)


class ElementsLoop(Loop):
    """Elements whose place along one axis the indices name, of tensors with any number of axes."""

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        data, indices = step.inputs[:2]
        y = step.outputs[0]
        assert data is not None and indices is not None
        shape, places = sizes.shape(data), sizes.shape(indices)
        rows = self.before(step, sizes)
        if 0 in places:
            return rows
        axis = step.attr("axis") % len(shape)
        check_places(step, shape, places, axis)
        strides = list(row_strides(shape, 1))
        limit, stride = shape[axis], strides[axis]
        strides[axis] = 0
        kind, parts = self.kind(step)
        moved = step.inputs[2] if self.scatters else y
        assert moved is not None
        tensor: Buffer = y if self.scatters else data
        sides = [
            Side(tensor, kind, (prod(shape), parts), "out" if self.scatters else "in"),
            Side(moved, kind, (prod(places), parts), "in" if self.scatters else "out"),
            Side(indices, indices.dtype.value, (prod(places),)),
            Side(table(places, strides), "int64", (len(places), 2)),
        ]
        loop = _elements(self.scatters, combination(self.how(step), data.dtype))
        rows.append(
            array_row(step, sizes, loop, sides, [limit, stride], name="elements", serial=True)
        )
        return rows


def check_places(step: Step, shape: Sequence[int], places: Sequence[int], axis: int) -> None:
    """ShapeMismatch if indices go beyond the data on another axis than their own."""
    for i, (size, count) in enumerate(zip(shape, places, strict=True)):
        if i != axis and count > size:
            raise ShapeMismatch(
                f"{step.describe()}: indices have {count} entries on axis {i}, the data only "
                f"{size}; they may have more only on axis {axis}, which they index"
            )


class GatherElementsLoop(ElementsLoop):
    """The elements themselves."""


class ScatterElementsLoop(ElementsLoop):
    """The data with elements replaced or combined."""

    scatters = True


class ScatterNDLoop(Loop):
    """The data with slices combined, whose places the tuples along the last axis name."""

    scatters = True

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        data, indices, updates = step.inputs
        y = step.outputs[0]
        assert data is not None and indices is not None and updates is not None
        shape, places = sizes.shape(data), sizes.shape(indices)
        length = places[-1]
        count, size = prod(places[:-1]), prod(shape[length:])
        rows = self.before(step, sizes)
        if not count * size:
            return rows
        kind, parts = self.kind(step)
        strides = row_strides(shape, 1)
        sides = [
            Side(y, kind, (prod(shape), parts), "out"),
            Side(updates, kind, (count * size, parts)),
            Side(indices, indices.dtype.value, (count, length)),
            Side(table(shape[:length], strides[:length]), "int64", (max(length, 1), 2)),
        ]
        loop = _tuples(combination(self.how(step), data.dtype))
        rows.append(array_row(step, sizes, loop, sides, [size], name="tuples", serial=True))
        return rows


@cache
def combination(how: str, kind: NumberType) -> Function:
    """What becomes of an element, as it is in memory, and one that meets it.

    The larger and the smaller keep NaN; sums of whole numbers wrap around. Truth values are added
    by "or", multiplied by "and".
    """
    decode, encode = decoder(kind), same if kind.is_integer else encoder(kind)
    comes_before = order_of(kind)

    def replaced(old: Any, new: Any) -> Any:
        return new

    def added(old: Any, new: Any) -> Any:
        return encode(decode(old) + decode(new))

    def multiplied(old: Any, new: Any) -> Any:
        return encode(decode(old) * decode(new))

    def larger(old: Any, new: Any) -> Any:
        return new if comes_before(old, new) else old

    def smaller(old: Any, new: Any) -> Any:
        if decode(new) != decode(new):
            return new
        return new if decode(old) == decode(old) and comes_before(new, old) else old

    if kind is NumberType.BOOL:
        how = {"add": "max", "mul": "min"}.get(how, how)
    return {"add": added, "mul": multiplied, "max": larger, "min": smaller}.get(how, replaced)


@cache
def _elements(scatters: bool, combined: Function) -> Callable[..., int]:
    def loop(tensor: Any, moved: Any, indices: Any, axes: Any, limit: int, stride: int) -> int:
        for i in range(indices.shape[0]):
            index = np.int64(indices[i])
            if index < 0:
                index += limit
            if index < 0 or index >= limit:
                return 1
            at, rest = index * stride, i
            for axis in range(axes.shape[0] - 1, -1, -1):
                at += rest % axes[axis, 0] * axes[axis, 1]
                rest //= axes[axis, 0]
            for part in range(moved.shape[1]):
                if scatters:
                    tensor[at, part] = combined(tensor[at, part], moved[i, part])
                else:
                    moved[i, part] = tensor[at, part]
        return 0

    return loop


@cache
def _tuples(combined: Function) -> Callable[..., int]:
    def loop(tensor: Any, updates: Any, indices: Any, axes: Any, size: int) -> int:
        for i in range(indices.shape[0]):
            at = 0
            for k in range(indices.shape[1]):
                index = np.int64(indices[i, k])
                if index < 0:
                    index += axes[k, 0]
                if index < 0 or index >= axes[k, 0]:
                    return 1
                at += index * axes[k, 1]
            for s in range(size):
                for part in range(updates.shape[1]):
                    new = updates[i * size + s, part]
                    tensor[at + s, part] = combined(tensor[at + s, part], new)
        return 0

    return loop
