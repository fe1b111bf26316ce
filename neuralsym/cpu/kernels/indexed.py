"""Gathers and scatters by tuples and by elements, one-hot vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

import numpy as np

from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.movement import FAILURES, View, copy_rows, view
from neuralsym.cpu.kernels.scatter_loop import (
    GatherElementsLoop,
    ScatterElementsLoop,
    ScatterNDLoop,
    check_places,
)
from neuralsym.cpu.kernels.units import check_count
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Operand, Row, Sizes, Step, Word, row_strides
from neuralsym.cpu.templates.indexed import (
    DEPTH,
    Combine,
    IndexedText,
    elements_text,
    one_hot_text,
    tuples_text,
)
from neuralsym.cpu.templates.lanes import COMPUTED
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch

TRUTH: dict[Combine, Combine] = {"add": "max", "mul": "min"}
INDICES = (NumberType.INT32, NumberType.INT64)


class Indexed(Kernel):
    """What gathers and scatters share: data, indices, updates."""

    failures = FAILURES
    scatters = False

    def supports(self, step: Step) -> bool | str:
        data, indices = step.inputs[:2]
        assert data is not None and indices is not None
        if not all(b.is_tensor for b in (data, indices)):
            return "not a tensor of numbers"
        if indices.dtype not in INDICES:
            return f"its indices are {indices.dtype}"
        combines = self.scatters and (step.attr("reduction") or "none") != "none"
        if combines and data.dtype not in COMPUTED:
            return f"no vectors of {data.dtype}"
        return True

    def adjust(self, step: Step) -> None:
        if self.scatters:
            step.in_place = [(0, 0)]

    def text(self, step: Step) -> IndexedText:
        data, indices = step.inputs[:2]
        assert data is not None and indices is not None
        combine: Combine = "none"
        if self.scatters:
            combine = step.attr("reduction") or "none"
            if data.dtype is NumberType.BOOL:
                # Sums and products of truth values, which must stay 0 or 1.
                combine = TRUTH.get(combine, combine)
        return IndexedText(
            self.scatters, data.dtype, indices.dtype.itemsize, combine, self.target.fma
        )

    def sides(self, step: Step) -> list[Word]:
        """The indexed tensor, the moved one, the indices."""
        data, indices = step.inputs[:2]
        y = step.outputs[0]
        assert data is not None and indices is not None
        if not self.scatters:
            return [Operand(data), Operand(y), Operand(indices)]
        updates = step.inputs[2]
        assert updates is not None
        return [Operand(y), Operand(updates), Operand(indices)]

    def before(self, step: Step, sizes: Sizes) -> list[Row]:
        """A scatter begins with a copy of the data, over itself where they share memory."""
        if not self.scatters:
            return []
        data, y = step.inputs[0], step.outputs[0]
        assert data is not None
        shape = sizes.shape(y)
        return copy_rows(self.target, view(y, shape), view(data, shape), shape, sizes.workers)


class Tuples(Indexed):
    """Slices that the tuples along the last axis of the indices name."""

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        data, indices = step.inputs[:2]
        assert data is not None and indices is not None
        shape, places = sizes.shape(data), sizes.shape(indices)
        length = places[-1]
        batch = 0 if self.scatters else step.attr("batch_dims") or 0
        strides = row_strides(shape, data.dtype.itemsize)
        table = np.array(
            [
                (n, s)
                for n, s in zip(
                    shape[batch : batch + length], strides[batch : batch + length], strict=True
                )
            ]
            or [(0, 0)],
            np.int64,
        ).reshape(-1)
        size = prod(shape[batch + length :]) * data.dtype.itemsize
        batches, count = prod(places[:batch]), prod(places[batch:-1])
        if places[:batch] != shape[:batch]:
            raise ShapeMismatch(
                f"{step.describe()}: data {list(shape)} and indices {list(places)} differ on the "
                f"first {batch} axes, which are their batch"
            )
        if self.scatters:
            updates = step.inputs[2]
            assert updates is not None
            check_count(step, sizes, updates, count * prod(shape[length:]))
        rows = self.before(step, sizes)
        if batches * count * size:
            jump = prod(shape[batch:]) * data.dtype.itemsize
            words = [*self.sides(step), batches, count, length, size, jump, table]
            rows.append(Row(_tuples_code(self.text(step)), words, serial=self.scatters))
        return rows


class GatherND(Tuples):
    """The slices themselves."""


class ScatterND(Tuples):
    """The data with slices replaced or combined."""

    scatters = True


class Elements(Indexed):
    """Elements whose place along one axis the indices name."""

    def supports(self, step: Step) -> bool | str:
        indices = step.inputs[1]
        assert indices is not None
        if indices.rank > DEPTH:
            return f"its indices have more than {DEPTH} axes"
        return super().supports(step)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        data, indices = step.inputs[:2]
        assert data is not None and indices is not None
        shape, places = sizes.shape(data), sizes.shape(indices)
        axis = step.attr("axis") % len(shape)
        rows = self.before(step, sizes)
        if 0 in places:
            return rows
        check_places(step, shape, places, axis)
        if self.scatters:
            updates = step.inputs[2]
            assert updates is not None
            check_count(step, sizes, updates, prod(places))
        ours = list(row_strides(shape, data.dtype.itemsize))
        stride, ours[axis] = ours[axis], 0
        missing = DEPTH - len(places)
        words = [*self.sides(step), shape[axis], stride]
        # Missing axes come second, so that the first one is shared.
        for values, fill in ((places, 1), (ours, 0), (row_strides(places, 1), 0)):
            words += [*values[:1], *[fill] * missing, *values[1:]]
        rows.append(Row(_elements_code(self.text(step)), words, serial=self.scatters))
        return rows


class GatherElements(Elements):
    """The elements themselves."""


class ScatterElements(Elements):
    """The data with elements replaced or combined."""

    scatters = True


@cache
def _tuples_code(text: IndexedText) -> Code:
    return Code("tuples", "tuples", tuples_text(text, "tuples"))


@cache
def _elements_code(text: IndexedText) -> Code:
    return Code("elements", "elements", elements_text(text, "elements"))


class OneHot(Kernel):
    """The "off" value everywhere, then "on" where the indices point."""

    def supports(self, step: Step) -> bool | str:
        indices, _, values = step.inputs
        assert indices is not None and values is not None
        if not values.is_tensor:
            return "not a tensor of numbers"
        return indices.dtype in COMPUTED or f"its indices are {indices.dtype}"

    def needs(self, step: Step) -> Sequence[int]:
        return [0, 2]

    def settings(self, step: Step) -> Sequence[int]:
        return [1]

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        indices, _, values = step.inputs
        y = step.outputs[0]
        assert indices is not None and values is not None
        shape = sizes.shape(y)
        axis = step.attr("axis") % len(shape)
        check_count(step, sizes, values, 2)
        off = View(values, 0, (0,) * len(shape))
        rows = copy_rows(self.target, view(y, shape), off, shape, sizes.workers)
        if rows:
            item = y.dtype.itemsize
            words: list[Word] = [Operand(y), Operand(values, item), Operand(indices)]
            words += [prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])]
            rows.append(Row(one_hot_code(item, indices.dtype), words))
        return rows


@cache
def one_hot_code(itemsize: int, index: NumberType) -> Code:
    """The kernel that writes one value where indices of that type point."""
    return Code("one hot", "one_hot", one_hot_text(itemsize, index, "one_hot"))


def register(library: Library) -> None:
    """Register the kernels of this module."""
    # Loops for what the texts refuse, so tried after them.
    for op, loop in (
        ("GatherElements", GatherElementsLoop),
        ("ScatterElements", ScatterElementsLoop),
        ("ScatterND", ScatterNDLoop),
    ):
        library.kernel(op, name="index loop")(loop)
    for kind, name in (
        (GatherND, "tuples"),
        (ScatterND, "tuples"),
        (GatherElements, "elements"),
        (ScatterElements, "elements"),
        (OneHot, "onehot"),
    ):
        library.kernel(kind.__name__, name=name)(kind)
