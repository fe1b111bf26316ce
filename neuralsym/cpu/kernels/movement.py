"""Kernels that only move values: transposes, slices, tiles, pads.

All are strided copies (templates/strided.py, templates/turn.py): an operator says which views of
its input and output it copies between.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from neuralsym.cpu.emit import Code
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.machine import Target
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, Step, row_strides
from neuralsym.cpu.templates.strided import (
    StridedText,
    strided_copies,
    strided_form,
    strided_text,
    strided_words,
)
from neuralsym.cpu.templates.turn import TurnText, turn_copy, turn_text, turn_words
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch

OUT_OF_RANGE = 1
"""The status of a kernel that met an index outside its axis."""

FAILURES = {OUT_OF_RANGE: "an index lies outside its axis"}


class View(NamedTuple):
    """A strided view of a buffer: byte offset and byte strides."""

    buffer: Buffer
    offset: int
    strides: tuple[int, ...]

    def at(self, axis: int, start: int, step: int = 1) -> View:
        """The view that begins at `start` of an axis and goes on by `step`."""
        stride = self.strides[axis]
        strides = (*self.strides[:axis], stride * step, *self.strides[axis + 1 :])
        return View(self.buffer, self.offset + start * stride, strides)


def view(buffer: Buffer, shape: Sequence[int]) -> View:
    """A whole row-major buffer, seen with that shape."""
    return View(buffer, 0, row_strides(shape, buffer.dtype.itemsize))


class Movement(Kernel):
    """A kernel whose rows are strided copies."""

    def supports(self, step: Step) -> bool | str:
        buffers = [b for b in (*step.inputs, *step.outputs) if b is not None]
        if not all(b.is_tensor for b in buffers):
            return "not a tensor of numbers"
        return True

    def needs(self, step: Step) -> Sequence[int]:
        return [0]

    def settings(self, step: Step) -> Sequence[int]:
        return range(1, len(step.inputs))

    def copy(self, target: View, source: View, shape: Sequence[int], sizes: Sizes) -> list[Row]:
        """The rows that copy between two views of that shape."""
        return copy_rows(self.target, target, source, shape, sizes.workers)

    def permuted(
        self,
        target: Buffer,
        source: Buffer,
        shape: Sequence[int],
        order: Sequence[int],
        sizes: Sizes,
        named: Sequence[bool],
    ) -> list[Row]:
        """The rows that permute the axes of `source`, seen with that shape.

        named: of each axis of the shape, whether runs may differ in its size.
        """
        return permuted_rows(
            self.target, Operand(target), Operand(source), target.dtype, shape, order, sizes, named
        )


def _named(x: Buffer) -> list[bool]:
    """Of each axis, whether runs may differ in its size."""
    assert x.tensor.shape is not None
    return [not isinstance(d, int) for d in x.tensor.shape]


def permuted_rows(
    machine: Target,
    target: Operand,
    source: Operand,
    kind: NumberType,
    shape: Sequence[int],
    order: Sequence[int],
    sizes: Sizes,
    named: Sequence[bool],
) -> list[Row]:
    """The rows that permute the axes of row-major memory of that type, seen with that shape.

    named: of each axis of the shape, whether runs may differ in its size.
    """
    item = kind.itemsize
    turned = turn_copy(shape, order, named, item, machine.vector_bytes, sizes.workers)
    if turned is not None:
        return [Row(_turn_code(turned.text), turn_words(target, source, turned))]
    strides = row_strides(shape, item)
    made = [shape[k] for k in order]
    moved = View(source.buffer, source.offset, tuple(strides[k] for k in order))
    there = View(target.buffer, target.offset, row_strides(made, item))
    return copy_rows(machine, there, moved, made, sizes.workers, item)


def copy_rows(
    machine: Target,
    target: View,
    source: View,
    shape: Sequence[int],
    workers: int,
    itemsize: int | None = None,
) -> list[Row]:
    """The rows that copy from one view to another, both of that shape.

    itemsize: of an element; None takes that of the target's type, which scratch has not.
    """
    itemsize = itemsize or target.buffer.dtype.itemsize
    rows = []
    for part in strided_copies(shape, target.strides, source.strides, itemsize, workers):
        words = strided_words(
            Operand(target.buffer, target.offset + part.target),
            Operand(source.buffer, source.offset + part.source),
            part,
        )
        rows.append(Row(_copy_code(strided_form(part, itemsize, machine.vector_bytes)), words))
    return rows


@cache
def _copy_code(form: StridedText) -> Code:
    return Code(f"copy of {form.itemsize} bytes", "copy", strided_text(form, "copy"))


@cache
def _turn_code(text: TurnText) -> Code:
    return Code(f"turned copy of {text.itemsize} bytes", "turn", turn_text(text, "turn"))


def is_settled(buffer: Buffer | None) -> bool:
    """Whether a value is known before the run computes anything."""
    return buffer is None or buffer.is_settled


def settled(step: Step, index: int, sizes: Sizes) -> list[Any] | None:
    """The value of a setting (`Kernel.settings`) as a list; None when it is omitted."""
    buffer = step.input(index)
    if buffer is None:
        return None
    value = sizes.setting(buffer)
    return list(np.asarray(value).reshape(-1).tolist())


def given_axes(step: Step, index: int, sizes: Sizes, rank: int, count: int) -> list[int]:
    """The axes that an input names, counted from the front; the first `count` when omitted."""
    axes = settled(step, index, sizes)
    return list(range(count)) if axes is None else [a % rank for a in axes]


class Transpose(Movement):
    """Permute the axes."""

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        shape = sizes.shape(x)
        perm = step.attr("perm") or tuple(range(len(shape)))[::-1]
        return self.permuted(y, x, shape, perm, sizes, _named(x))


class Slice(Movement):
    """Part of each axis, with a step; starts and ends are clamped as numpy's are."""

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        shape = sizes.shape(x)
        starts, ends = settled(step, 1, sizes) or [], settled(step, 2, sizes) or []
        axes = given_axes(step, 3, sizes, len(shape), len(starts))
        steps = settled(step, 4, sizes) or [1] * len(starts)
        source = view(x, shape)
        for start, end, axis, by in zip(starts, ends, axes, steps, strict=True):
            first = slice(start, end, by).indices(shape[axis])[0]
            source = source.at(axis, max(first, 0), by)
        return self.copy(view(y, sizes.shape(y)), source, sizes.shape(y), sizes)


class Expand(Movement):
    """Repeat along axes of size 1."""

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        shape, wanted = sizes.shape(x), sizes.shape(y)
        own = row_strides(shape, x.dtype.itemsize)
        fitted = [0] * (len(wanted) - len(shape))
        fitted += [0 if d == 1 else s for d, s in zip(shape, own, strict=True)]
        return self.copy(view(y, wanted), View(x, 0, tuple(fitted)), wanted, sizes)


class Tile(Movement):
    """Repeat the whole along each axis."""

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        repeats = settled(step, 1, sizes) or []
        shape = sizes.shape(x)
        both = [d for pair in zip(repeats, shape, strict=True) for d in pair]
        own = row_strides(shape, x.dtype.itemsize)
        strides = tuple(s for stride in own for s in (0, stride))
        return self.copy(view(y, both), View(x, 0, strides), both, sizes)


class Split(Movement):
    """Cut along an axis into the outputs."""

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x = step.inputs[0]
        assert x is not None
        shape = sizes.shape(x)
        axis = step.attr("axis") % len(shape)
        rows: list[Row] = []
        start = 0
        for y in step.outputs:
            wanted = sizes.shape(y)
            rows += self.copy(view(y, wanted), view(x, shape).at(axis, start), wanted, sizes)
            start += wanted[axis]
        return rows


class DepthToSpace(Movement):
    """Blocks of channels become blocks of pixels."""

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        n, c, h, w = sizes.shape(x)
        b = step.attr("blocksize")
        inner = c // (b * b)
        batch, channels, high, wide = _named(x)
        if step.attr("mode") == "CRD":
            split, order = (n, inner, b, b, h, w), (0, 1, 4, 2, 5, 3)
            named = (batch, channels, False, False, high, wide)
        else:
            split, order = (n, b, b, inner, h, w), (0, 3, 4, 1, 5, 2)
            named = (batch, False, False, channels, high, wide)
        return self.permuted(y, x, split, order, sizes, named)


class SpaceToDepth(Movement):
    """Blocks of pixels become blocks of channels."""

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        n, c, h, w = sizes.shape(x)
        b = step.attr("blocksize")
        split = (n, c, h // b, b, w // b, b)
        order = (0, 1, 3, 5, 2, 4) if step.attr("mode") == "CRD" else (0, 3, 5, 1, 2, 4)
        batch, channels, high, wide = _named(x)
        named = (batch, channels, high, False, wide, False)
        return self.permuted(y, x, split, order, sizes, named)


class Pad(Movement):
    """A border around the input: a value, or what lies at or across the edge.

    The inside is copied first; then each axis in turn takes its border from what is there, so
    that corners come out of borders that are whole. Negative pads cut.
    """

    def needs(self, step: Step) -> Sequence[int]:
        value = step.input(2)
        return [0] if value is None or is_settled(value) else [0, 2]

    def settings(self, step: Step) -> Sequence[int]:
        return [1, 3]

    def adjust(self, step: Step) -> None:
        y = step.outputs[0]
        given = step.input(2)
        step.notes["value"] = (
            step.pack("zero", lambda: np.zeros(1, y.dtype.numpy)) if given is None else given
        )

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        shape, wanted = sizes.shape(x), sizes.shape(y)
        rank = len(shape)
        pads = settled(step, 1, sizes) or []
        axes = given_axes(step, 3, sizes, rank, rank)
        before, after = [0] * rank, [0] * rank
        for k, axis in enumerate(axes):
            before[axis], after[axis] = pads[k], pads[k + len(axes)]
        target, source = view(y, wanted), view(x, shape)
        inside = []
        for axis in range(rank):
            low, high = max(-before[axis], 0), shape[axis] + min(after[axis], 0)
            source = source.at(axis, low)
            target = target.at(axis, max(before[axis], 0))
            inside.append(max(high - low, 0))
        rows: list[Row] = []
        mode = step.attr("mode")
        if mode == "constant":
            rows += self.copy(target, source, inside, sizes)
            value = View(step.notes["value"], 0, (0,) * rank)
            # Slabs before and behind: inside along the axes before, whole along those behind.
            for axis in range(rank):
                target = view(y, wanted)
                slab = [*inside[:axis], 0, *wanted[axis + 1 :]]
                for outer in range(axis):
                    target = target.at(outer, max(before[outer], 0))
                first, end = max(before[axis], 0), max(before[axis], 0) + inside[axis]
                for start, count in ((0, first), (end, wanted[axis] - end)):
                    slab[axis] = count
                    rows += self.copy(target.at(axis, start), value, slab, sizes)
            return rows
        rows += self.copy(target, source, inside, sizes)
        done = list(inside)
        for axis in range(rank):
            low, high = max(before[axis], 0), max(after[axis], 0)
            if not inside[axis] and low + high:
                raise ShapeMismatch(f"{step.describe()}: axis {axis} is empty, it has no {mode}")
            for at, since, count, by in _border(mode, low, high, inside[axis]):
                part = [*done[:axis], count, *done[axis + 1 :]]
                rows += self.copy(target.at(axis, at), target.at(axis, since, by), part, sizes)
            target = target.at(axis, -low)
            done[axis] += low + high
        return rows


def _border(mode: str, low: int, high: int, size: int) -> list[tuple[int, int, int, int]]:
    """The copies (to, from, how many, step) along one axis that fill its border.

    Positions count from the inside's first; the border grows outwards, so that one wider than
    the inside reads what was filled before.
    """
    made: list[tuple[int, int, int, int]] = []
    if mode == "edge":
        return [(-low, 0, low, 0), (size, size - 1, high, 0)]
    period = size if mode == "wrap" else size - 1
    if period < 1:
        return [(-low, 0, low, 0), (size, 0, high, 0)]
    first, last = 0, size  # what is filled so far
    while last < size + high:
        count = min(period, size + high - last)
        since = (last - size, 1) if mode == "wrap" else (last - 2, -1)
        made.append((last, since[0], count, since[1]))
        last += count
    while first > -low:
        count = min(period, low + first)
        if mode == "wrap":
            made.append((first - count, first - count + size, count, 1))
        else:
            made.append((first - count, first + count, count, -1))
        first -= count
    return made


def register(library: Library) -> None:
    """Register the kernels of this module."""
    for kind in (Transpose, Slice, Expand, Tile, Split, DepthToSpace, SpaceToDepth, Pad):
        library.kernel(kind.__name__, name=kind.__name__.lower())(kind)
