"""Tensors made of a few values: one everywhere, diagonals, ranges, triangles, borders of zeros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.movement import Movement, View, copy_rows, settled, view
from neuralsym.cpu.kernels.units import Function, are_tensors, encoder, same
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Operand, Row, Sizes, Step, Word
from neuralsym.cpu.templates.indexed import triangle_text


class Trilu(Kernel):
    """The upper or lower triangle of matrices."""

    def supports(self, step: Step) -> bool | str:
        return are_tensors(step) or "not a tensor of numbers"

    def needs(self, step: Step) -> Sequence[int]:
        return [0]

    def settings(self, step: Step) -> Sequence[int]:
        return [1]

    def adjust(self, step: Step) -> None:
        step.in_place = [(0, 0)]

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        *outer, rows, columns = sizes.shape(x)
        limit = rows + columns
        (k,) = settled(step, 1, sizes) or [0]
        k = max(-limit, min(limit, int(k)))  # beyond that all or nothing is kept
        upper = int(bool(step.attr("upper")))
        words: list[Word] = [Operand(y), Operand(x), prod(outer), rows, columns, k, upper]
        return [Row(_triangle_code(y.dtype.itemsize, self.target.vector_bytes), words)]


@cache
def _triangle_code(itemsize: int, vector_bytes: int) -> Code:
    return Code("triangle", "triangle", triangle_text(itemsize, vector_bytes, "triangle"))


class ConstantOfShape(Kernel):
    """One value everywhere."""

    def needs(self, step: Step) -> Sequence[int]:
        return []

    def settings(self, step: Step) -> Sequence[int]:
        return [0]

    def adjust(self, step: Step) -> None:
        given = step.attr("value")
        kind = step.outputs[0].dtype.numpy
        value = np.zeros(1, kind) if given is None else given.value
        step.notes["value"] = step.pack("value", lambda: np.asarray(value, kind).reshape(1))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        y = step.outputs[0]
        shape = sizes.shape(y)
        value = View(step.notes["value"], 0, (0,) * len(shape))
        return copy_rows(self.target, view(y, shape), value, shape, sizes.workers)


class EyeLike(Kernel):
    """Zeros, then ones along a diagonal; only the shape of the input counts."""

    def needs(self, step: Step) -> Sequence[int]:
        return []

    def adjust(self, step: Step) -> None:
        kind = step.outputs[0].dtype.numpy
        step.pack("zero", lambda: np.zeros(1, kind))
        step.pack("one", lambda: np.ones(1, kind))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        y = step.outputs[0]
        shape = sizes.shape(y)
        target = view(y, shape)
        zero, one = (View(step.constants[key], 0, (0, 0)) for key in ("zero", "one"))
        rows = copy_rows(self.target, target, zero, shape, sizes.workers)
        k = int(step.attr("k") or 0)
        count = min(shape[0] - max(-k, 0), shape[1] - max(k, 0))
        if count > 0:
            target = target.at(0, max(-k, 0)).at(1, max(k, 0))
            diagonal = target._replace(strides=(sum(target.strides),))
            source = one._replace(strides=(0,))
            rows += copy_rows(self.target, diagonal, source, (count,), sizes.workers)
        return rows


class Range(Kernel):
    """start + i * delta, of floats computed in float64 and rounded once."""

    def needs(self, step: Step) -> Sequence[int]:
        return []

    def settings(self, step: Step) -> Sequence[int]:
        return [0, 1, 2]

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        y = step.outputs[0]
        shape = sizes.shape(y)
        if 0 in shape:
            return []
        number = int if y.dtype.is_integer else float
        ends = [number((settled(step, i, sizes) or [0])[0]) for i in (0, 2)]
        loop = _range(same if y.dtype.is_integer else encoder(y.dtype))
        side = Side(y, y.dtype.value, shape, "out")
        return [array_row(step, sizes, loop, [side], ends, name="range")]


@cache
def _range(encode: Function) -> Callable[..., None]:
    def loop(y: Any, start: Any, delta: Any, worker: int, workers: int) -> None:
        count = y.shape[0]
        for i in range(count * worker // workers, count * (worker + 1) // workers):
            y[i] = encode(start + i * delta)

    return loop


class ShapeOf(Kernel):
    """Shape and Size of what the run itself gave its sizes; others are known before it.

    The input's values are not read, but the step that makes it has to have run.
    """

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        shape = sizes.shape(x)
        if step.op.__name__ == "Size":
            values = [prod(shape)]
        else:
            values = list(shape[slice(step.attr("start") or 0, step.attr("end"))])
        if not values:
            return []
        told = np.array(values, np.int64)
        sides = [Side(told, "int64", told.shape), Side(y, "int64", told.shape, "out")]
        return [array_row(step, sizes, _copied, sides, name="sizes", serial=True)]


def _copied(told: Any, y: Any) -> None:
    for i in range(told.shape[0]):
        y[i] = told[i]


class CenterCropPad(Movement):
    """Zeros, then what is inside both the input and the output, about their centres.

    Where the difference is odd, the part that is cut or added at the end is one larger.
    """

    def adjust(self, step: Step) -> None:
        kind = step.outputs[0].dtype.numpy
        step.pack("zero", lambda: np.zeros(1, kind))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        given, made = sizes.shape(x), sizes.shape(y)
        source, target = view(x, given), view(y, made)
        common = tuple(map(min, given, made))
        rows: list[Row] = []
        if common != made:
            zero = View(step.constants["zero"], 0, (0,) * len(made))
            rows += self.copy(target, zero, made, sizes)
        for axis, (old, new) in enumerate(zip(given, made, strict=True)):
            source = source.at(axis, max(old - new, 0) // 2)
            target = target.at(axis, max(new - old, 0) // 2)
        return rows + self.copy(target, source, common, sizes)


def register(library: Library) -> None:
    """Register the kernels of this module."""
    for op in ("Shape", "Size"):
        library.kernel(op, name="sizes")(ShapeOf)
    for kind, name in (
        (Trilu, "triangle"),
        (ConstantOfShape, "fill"),
        (EyeLike, "eye"),
        (Range, "range"),
        (CenterCropPad, "centercroppad"),
    ):
        library.kernel(kind.__name__, name=name)(kind)
