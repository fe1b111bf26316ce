"""Resize: nearest, linear and cubic resampling, axis after axis, row-major or blocked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import isclose, prod

import numpy as np

from neuralsym.core.scalar import Scalar, argument, cast, maximum, minimum, round_
from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.geometry import blockable
from neuralsym.cpu.kernels.loops import Strided, loop_row
from neuralsym.cpu.kernels.movement import View, copy_rows, settled, view
from neuralsym.cpu.kernels.units import are_tensors
from neuralsym.cpu.kernels.widen import finish, reserve, widened
from neuralsym.cpu.library import ROWS, Form, Kernel, Library, Take
from neuralsym.cpu.machine import Target
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, Step, Word, row_strides
from neuralsym.cpu.scalar_ir import HALVES
from neuralsym.cpu.templates.resize import (
    ResizeText,
    Sampling,
    outer_axes,
    outside,
    positions,
    resize_text,
    tables,
)
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch

FLOAT = NumberType.FLOAT32
PICTURES = (NumberType.UINT8, NumberType.INT8)
"""Whole numbers of which float32 has room for thousandths."""


@dataclass(frozen=True)
class Pass:
    """One axis to be resampled: from `size` to `count` places by `scale`, of a part of it."""

    axis: int
    size: int
    count: int
    scale: float
    crop: tuple[float, float] = (0.0, 1.0)


class Resize(Kernel):
    """Axis by axis over tables made for the sizes (templates/resize.py)."""

    def supports(self, step: Step) -> bool | str:
        x = step.inputs[0]
        assert x is not None
        if not are_tensors(step):
            return "not a tensor of numbers"
        if step.attr("mode") == "nearest":
            return x.dtype.itemsize <= 8 or f"no elements of {x.dtype}"
        if x.dtype in (*HALVES, *PICTURES):
            return True
        return x.dtype is NumberType.FLOAT32 or f"{x.name} is {x.dtype}, it takes float32"

    def needs(self, step: Step) -> Sequence[int]:
        return [0]

    def settings(self, step: Step) -> Sequence[int]:
        return (1, 2, 3) if _crops(step) else (2, 3)

    def forms(self, step: Step) -> Sequence[Form]:
        x, y = step.inputs[0], step.outputs[0]
        width = self.target.width("float32")
        plain = super().forms(step)
        if x is None or width == 1 or _crops(step) or blockable([x, y]) is not True:
            return plain
        before, after = x.tensor.shape, y.tensor.shape
        assert before is not None and after is not None
        if before[:2] != after[:2]:
            return plain
        rest = (ROWS,) * (len(step.inputs) - 1)
        return [*plain, Form((Take(width), *rest), (Take(width),))]

    def adjust(self, step: Step) -> None:
        for number in range(2):
            step.need_scratch(f"part {number}", lambda sizes: self._between(step, sizes))
        pack_outside(step)
        if _is_wide(step):
            for key, buffer in ((0, step.inputs[0]), (-1, step.outputs[0])):
                self._reserve(step, key, buffer)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if 0 in sizes.shape(y):
            return []
        passes = passes_of(step, sizes)
        block = x.layout.block
        dims = list(sizes.memory_shape(x))
        if block:
            dims = [*dims[:2], *sizes.shape(x)[2:], block]
        source = Operand(x, sizes.origin(x) if x.layout.halo else 0), sizes.strides(x)
        last = Operand(y, sizes.origin(y) if y.layout.halo else 0), sizes.strides(y)
        if not passes:
            return self._copied(sizes, dims, source, last)
        rows: list[Row] = []
        itemsize = x.dtype.itemsize
        if _is_wide(step):
            itemsize = 4
            source = self._widened(step, x, sizes, rows), row_strides(dims, itemsize)
            wide = Operand(step.scratch["wide-1"].buffer)
            last = wide, row_strides(sizes.shape(y), itemsize)
        for number, each in enumerate(passes):
            after = list(dims)
            after[each.axis] = each.count
            if number + 1 == len(passes):
                target = last
            else:
                scratch = step.scratch[f"part {number % 2}"].buffer
                target = Operand(scratch), row_strides(after, itemsize)
            rows.append(self._row(step, each, dims, source, target, itemsize))
            dims, source = after, target
        if _is_wide(step):
            rows += self._narrowed(step, last[0], y, sizes)
        return rows + outside_rows(self.target, step, sizes, passes)

    def complexity(self, step: Step, sizes: Sizes) -> int:
        return products(step, sizes)

    # -- types that are computed with as float32 -------------------------------------------
    def _reserve(self, step: Step, key: int, buffer: Buffer | None) -> None:
        assert buffer is not None
        if buffer.dtype in HALVES:
            reserve(step, key, buffer)
        else:
            step.need_scratch(f"wide{key}", lambda sizes: 4 * prod(sizes.shape(buffer)))

    def _widened(self, step: Step, x: Buffer, sizes: Sizes, rows: list[Row]) -> Operand:
        if x.dtype in HALVES:
            return widened(self.target, step, 0, x, sizes, rows)
        place = Operand(step.scratch["wide0"].buffer)
        value = cast(argument(0), "float32")
        rows.append(self._cast(value, prod(sizes.shape(x)), place, FLOAT, Operand(x), x.dtype))
        return place

    def _narrowed(self, step: Step, place: Operand, y: Buffer, sizes: Sizes) -> list[Row]:
        """Whole numbers are the nearest, and stay in the range of their type."""
        if y.dtype in HALVES:
            return finish(self.target, step, place, y, None, sizes)
        info = np.iinfo(y.dtype.numpy)
        inside = minimum(maximum(round_(argument(0)), float(info.min)), float(info.max))
        value = cast(inside, y.dtype.value)
        return [self._cast(value, prod(sizes.shape(y)), Operand(y), y.dtype, place, FLOAT)]

    def _cast(
        self,
        value: Scalar,
        count: int,
        target: Operand,
        to: NumberType,
        source: Operand,
        since: NumberType,
    ) -> Row:
        sides = [
            Strided(place, kind, (kind.itemsize,), (False,))
            for place, kind in ((target, to), (source, since))
        ]
        return loop_row(self.target, value, (count,), sides, (False,), "cast")

    def _row(
        self,
        step: Step,
        each: Pass,
        dims: Sequence[int],
        source: tuple[Operand, tuple[int, ...]],
        target: tuple[Operand, tuple[int, ...]],
        itemsize: int,
    ) -> Row:
        sampling, axis = sampling_of(step), each.axis
        index, weights = tables(sampling, each.size, each.count, each.scale, each.crop)
        dense = _dense(dims, axis, itemsize, target[1], source[1])
        others = [i for i in range(dense) if i != axis]
        outer = outer_axes(
            *([values[i] for i in others] for values in (dims, target[1], source[1]))
        )
        flat = np.zeros(-(-weights.size // 2) * 2, np.float32)
        flat[: weights.size] = weights.reshape(-1)
        words: list[Word] = [
            target[0],
            source[0],
            np.ascontiguousarray(index * source[1][axis]).reshape(-1),
            flat.view(np.int64),
            len(index),
            each.count,
            target[1][axis],
            prod(dims[dense:]),
        ]
        words += [size for size, _, _ in outer]
        words += [stride for _, stride, _ in outer] + [stride for _, _, stride in outer]
        width = self.target.width("float32")
        return Row(_code(ResizeText(width, itemsize, sampling.taps())), words)

    def _copied(
        self,
        sizes: Sizes,
        dims: Sequence[int],
        source: tuple[Operand, tuple[int, ...]],
        target: tuple[Operand, tuple[int, ...]],
    ) -> Sequence[Row]:
        """All sizes stay: the same values."""
        ends = [
            view(operand.buffer, dims)._replace(offset=operand.offset, strides=strides)
            for operand, strides in (target, source)
        ]
        return copy_rows(self.target, ends[0], ends[1], dims, sizes.workers)

    def _between(self, step: Step, sizes: Sizes) -> int:
        """Bytes of the largest tensor between two passes."""
        x = step.inputs[0]
        assert x is not None
        dims = list(sizes.shape(x))
        if x.layout.block:
            dims[1] = -(-dims[1] // x.layout.block) * x.layout.block
        largest = 0
        if 0 in sizes.shape(step.outputs[0]):
            return 0
        for each in passes_of(step, sizes)[:-1]:
            dims[each.axis] = each.count
            largest = max(largest, prod(dims))
        return largest * max(x.dtype.itemsize, 4)


def _is_wide(step: Step) -> bool:
    """Whether values are computed with as float32, in memory of their own."""
    return step.outputs[0].dtype in (*HALVES, *PICTURES) and step.attr("mode") != "nearest"


def _dense(dims: Sequence[int], axis: int, itemsize: int, *strides: Sequence[int]) -> int:
    """The first of the last axes whose elements follow each other without gaps everywhere."""
    first = len(dims)
    step = itemsize
    while first > axis + 1 and all(s[first - 1] == step for s in strides):
        first -= 1
        step *= dims[first]
    return first


@cache
def _code(text: ResizeText) -> Code:
    return Code(f"resize {text.taps} taps", "resize", resize_text(text, "resize"))


def sampling_of(step: Step) -> Sampling:
    """What the attributes say about positions and weights; only weights can be smoothed."""
    return Sampling(
        step.attr("mode"),
        step.attr("coordinate_transformation_mode"),
        step.attr("nearest_mode"),
        step.attr("cubic_coeff_a"),
        bool(step.attr("exclude_outside")),
        bool(step.attr("antialias")) and step.attr("mode") != "nearest",
    )


def _crops(step: Step) -> bool:
    return bool(step.attr("coordinate_transformation_mode") == "tf_crop_and_resize")


def passes_of(step: Step, sizes: Sizes) -> list[Pass]:
    """The axes that change; those that shrink first, and of those that grow the last first."""
    x, y = step.inputs[0], step.outputs[0]
    assert x is not None
    before, after = sizes.shape(x), sizes.shape(y)
    rank = len(before)
    axes = [a % rank for a in step.attr("axes") or range(rank)]
    ends = {}
    if _crops(step):
        edges = [float(v) for v in settled(step, 1, sizes) or []]
        if len(edges) != 2 * len(axes):
            raise ShapeMismatch(
                f"{step.describe()}: roi has {len(edges)} entries, {2 * len(axes)} are needed: "
                "where the crop starts on each axis, then where it ends"
            )
        pairs = zip(edges[: len(axes)], edges[len(axes) :], strict=True)
        ends = dict(zip(axes, pairs, strict=True))
    whole = (0.0, 1.0)
    made = [
        Pass(axis, before[axis], after[axis], scale, ends.get(axis, whole))
        for axis, scale in _scales(step, sizes, before)
        if not (isclose(scale, 1.0) and before[axis] == after[axis])
        or ends.get(axis, whole) != whole
    ]
    return sorted(made, key=lambda p: (p.count > p.size, p.axis if p.count < p.size else -p.axis))


def products(step: Step, sizes: Sizes) -> int:
    """Floating-point operations of resampling axis by axis; picking the nearest has none."""
    x = step.inputs[0]
    taps = {"linear": 2, "cubic": 4}.get(step.attr("mode"), 0)
    if x is None or not taps:
        return 0
    total, dims = 0, list(sizes.shape(x))
    for each in passes_of(step, sizes):
        dims[each.axis] = each.count
        total += 2 * taps * prod(dims)
    return total


def pack_outside(step: Step) -> None:
    """Keep the value of places that a crop puts off the input."""
    if _crops(step):
        value = step.attr("extrapolation_value") or 0.0
        kind = step.outputs[0].dtype.numpy
        step.pack("outside", lambda: np.asarray([value]).astype(kind))


def outside_rows(machine: Target, step: Step, sizes: Sizes, passes: Sequence[Pass]) -> list[Row]:
    """The rows that give another value to the places of the output that lie off the input."""
    if not _crops(step):
        return []
    y, sampling = step.outputs[0], sampling_of(step)
    shape = sizes.shape(y)
    rows: list[Row] = []
    for each in passes:
        at = positions(sampling, each.size, each.count, each.scale, each.crop)
        for start, count in outside(at, each.size):
            part = [*shape[: each.axis], count, *shape[each.axis + 1 :]]
            value = View(step.constants["outside"], 0, (0,) * len(shape))
            target = view(y, shape).at(each.axis, start)
            rows += copy_rows(machine, target, value, part, sizes.workers)
    return rows


def _scales(step: Step, sizes: Sizes, before: Sequence[int]) -> Iterator[tuple[int, float]]:
    rank = len(before)
    axes = [a % rank for a in step.attr("axes") or range(rank)]
    scales = settled(step, 2, sizes)
    if scales:
        yield from zip(axes, map(float, scales), strict=True)
        return
    wanted = settled(step, 3, sizes) or []
    empty = [a for a, size in zip(axes, wanted, strict=True) if size and not before[a]]
    if empty:
        raise ShapeMismatch(f"{step.describe()}: axis {empty[0]} is empty, which cannot be resized")
    ratios = [size / max(before[a], 1) for a, size in zip(axes, wanted, strict=True)]
    policy = step.attr("keep_aspect_ratio_policy")
    if policy != "stretch":
        ratios = [min(ratios) if policy == "not_larger" else max(ratios)] * len(axes)
    yield from zip(axes, ratios, strict=True)


def register(library: Library) -> None:
    """Register the kernels of this module, the loop to be tried last."""
    from neuralsym.cpu.kernels.resize_loop import ResizeLoop

    library.kernel("Resize", name="resize loop")(ResizeLoop)
    library.kernel("Resize", name="resize")(Resize)
