"""MaxUnpool and Col2Im: what pools and windows took apart, put back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.arrays import Operand as ArrayOperand
from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.geometry import Window, window
from neuralsym.cpu.kernels.movement import FAILURES, View, copy_rows, settled, view
from neuralsym.cpu.kernels.units import (
    Function,
    are_tensors,
    check_count,
    decoder,
    encoder,
    same,
    units,
)
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Operand, Row, Sizes, Step, Word
from neuralsym.cpu.scalar_ir import IR_TYPE
from neuralsym.cpu.templates.overlap import OverlapText, overlap_text
from neuralsym.dtypes import NumberType


class MaxUnpool(Kernel):
    """Zeros, then each element at the place that its index names.

    Indices count in the tensor that the pool's attributes lead back to; a given output_shape adds
    to the end of its axes, as the specification's own example has it.
    """

    failures = FAILURES

    def supports(self, step: Step) -> bool | str:
        return are_tensors(step) or "not a tensor of numbers"

    def needs(self, step: Step) -> Sequence[int]:
        return [0, 1]

    def settings(self, step: Step) -> Sequence[int]:
        return [2]

    def adjust(self, step: Step) -> None:
        y = step.outputs[0]
        step.pack("zero", lambda: np.zeros(1, y.dtype.numpy))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, places = step.inputs[:2]
        y = step.outputs[0]
        assert x is not None and places is not None
        given, made = sizes.shape(x), sizes.shape(y)
        zero = View(step.constants["zero"], 0, (0,) * len(made))
        rows: list[Row] = copy_rows(self.target, view(y, made), zero, made, sizes.workers)
        if 0 in given:
            return rows
        kernel = step.attr("kernel_shape")
        found = window(step, kernel, given[2:])
        edges = zip(found.before, found.after, strict=True)
        pooled = [
            (size - 1) * stride - before - after + taps
            for size, stride, taps, (before, after) in zip(
                given[2:], found.strides, kernel, edges, strict=True
            )
        ]
        kind, _ = units(x.dtype.itemsize)
        pair = np.array([*given[:2], *pooled, *made], np.int64)
        sides = [
            Side(x, kind, (prod(given),)),
            Side(places, "int64", (prod(given),)),
            Side(y, kind, (prod(made),), "out"),
            Side(pair, "int64", (2, len(made))),
        ]
        rows.append(array_row(step, sizes, _unpool, sides, name="max_unpool", serial=True))
        return rows


def _unpool(x: Any, places: Any, y: Any, shapes: Any) -> int:
    rank = shapes.shape[1]
    total = 1
    alike = True
    for axis in range(rank):
        total *= shapes[0, axis]
        alike = alike and shapes[0, axis] == shapes[1, axis]
    for i in range(x.shape[0]):
        rest = places[i]
        if rest < 0 or rest >= total:
            return 1
        if alike:
            y[rest] = x[i]
            continue
        at, stride = 0, 1
        for axis in range(rank - 1, -1, -1):
            place = rest % shapes[0, axis]
            rest //= shapes[0, axis]
            if place >= shapes[1, axis]:
                return 1
            at += place * stride
            stride *= shapes[1, axis]
        y[at] = x[i]
    return 0


class Col2Im(Kernel):
    """Each element of the image is the sum of the entries of all blocks that it lies in.

    Sums of whole numbers wrap around, of booleans are true if any is; narrow floats are added in
    float32 and rounded once.
    """

    def supports(self, step: Step) -> bool | str:
        return are_tensors(step) or "not a tensor of numbers"

    def needs(self, step: Step) -> Sequence[int]:
        return [0]

    def settings(self, step: Step) -> Sequence[int]:
        return [1, 2]

    def adjust(self, step: Step) -> None:
        y = step.outputs[0]
        if _in_vectors(y.dtype):
            return
        _, total, _ = _sum(y.dtype)
        item = ArrayOperand(total, 0).itemsize
        step.need_scratch("plane", lambda sizes: item * sizes.workers * prod(sizes.shape(y)[2:]))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if 0 in sizes.shape(y):
            return []
        batch, channels, *image = sizes.shape(y)
        block = [int(v) for v in settled(step, 2, sizes) or []]
        found = window(step, block, image)
        ends = zip(image, found.before, found.after, block, found.dilations, strict=True)
        spans = [
            size + before + after - (taps - 1) * dilation - 1
            for size, before, after, taps, dilation in ends
        ]
        counts = [span // stride + 1 for span, stride in zip(spans, found.strides, strict=True)]
        if _in_vectors(x.dtype):
            return [self._added(step, sizes, found, counts)]
        kind, total, loop = _sum(x.dtype)
        lines = [image, block, counts, found.strides, found.dilations, found.before]
        geometry = np.array(lines, np.int64).reshape(-1)
        places = prod(image)
        sides = [
            Side(x, kind, (batch * channels, prod(block), prod(counts))),
            Side(y, kind, (batch * channels, places), "out"),
            Side(step.scratch["plane"].buffer, total, (sizes.workers, places), "out"),
            Side(geometry, "int64", (len(lines), len(image))),
        ]
        return [array_row(step, sizes, loop, sides, name="col2im")]

    def _added(self, step: Step, sizes: Sizes, found: Window, counts: Sequence[int]) -> Row:
        """Numbers of the machine's own are added line by line (templates/overlap.py)."""
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        batch, channels, *image = sizes.shape(y)
        check_count(step, sizes, x, batch * channels * prod(found.kernel) * prod(counts))
        item, stride = x.dtype.itemsize, found.strides[-1]
        table = lines_of(found, image, counts) * np.array([item, item, 1], np.int64)
        words: list[Word] = [Operand(y), Operand(x), table.reshape(-1), batch * channels]
        words += [item * prod(image), item * prod(found.kernel) * prod(counts), len(table)]
        text = OverlapText(x.dtype, stride == 1, self.target.vector_bytes)
        return Row(_overlap_code(text), [*words, item * stride])


def lines_of(found: Window, image: Sequence[int], counts: Sequence[int]) -> NDArray[np.int64]:
    """Of each line of entries that lies on the image: where it begins, where it goes, its length.

    A line is what one tap reads along the last axis; they are in the order of the taps.
    """
    taps, entries = prod(found.kernel), prod(counts)
    numbers = np.arange(taps * entries // counts[-1]).reshape(taps, -1)
    tap, rest = np.divmod(numbers, numbers.shape[1])
    sides = zip(found.kernel, found.strides, found.dilations, found.before, strict=True)
    *outer, (kernel, stride, dilation, before) = sides
    first = tap % kernel * dilation - before
    low = np.maximum(0, -(first // stride))
    high = np.minimum(counts[-1], (image[-1] - 1 - first) // stride + 1)
    inside, target, size = high > low, first + low * stride, image[-1]
    tap = tap // kernel
    for axis in range(len(outer) - 1, -1, -1):
        kernel, stride, dilation, before = outer[axis]
        at = rest % counts[axis] * stride + tap % kernel * dilation - before
        rest, tap = rest // counts[axis], tap // kernel
        inside = inside & (at >= 0) & (at < image[axis])
        target, size = target + at * size, size * image[axis]
    made = np.stack([numbers * counts[-1] + low, target, high - low], -1)
    return np.asarray(made[inside], np.int64)


def _in_vectors(kind: NumberType) -> bool:
    """Whether the machine adds numbers of a type as they lie in memory."""
    return kind in IR_TYPE and kind is not NumberType.BOOL


@cache
def _overlap_code(text: OverlapText) -> Code:
    return Code("col2im", "col2im", overlap_text(text, "col2im"))


def _any(value: Any) -> Any:
    return np.uint8(value != 0)


def _sum(kind: NumberType) -> tuple[str, str, Callable[..., None]]:
    """The types to see elements and sums as, and the loop that adds up."""
    if kind is NumberType.BOOL:
        return "uint8", "int64", _summing(same, _any)
    total = "float32" if kind.itemsize == 2 else kind.value
    return kind.value, total, _summing(decoder(kind), encoder(kind))


@cache
def _summing(decode: Function, encode: Function) -> Callable[..., None]:
    def line(
        source: Any, begin: int, target: Any, low: int, high: int, first: int, stride: int
    ) -> None:
        """Add entries from `low` to before `high` to every stride-th element from `first` on."""
        if stride == 1:
            for i in range(low, high):
                target[first + i] += decode(source[begin + i])
        else:
            for i in range(low, high):
                target[first + i * stride] += decode(source[begin + i])

    def picture(blocks: Any, plane: Any, geometry: Any) -> None:
        """The sum of all blocks of an image of two axes."""
        high, wide = geometry[0, 0], geometry[0, 1]
        rows, count = geometry[2, 0], geometry[2, 1]
        stride, jump = geometry[3, 1], geometry[3, 0]
        for tap in range(geometry[1, 0] * geometry[1, 1]):
            down, right = tap // geometry[1, 1], tap % geometry[1, 1]
            first = right * geometry[4, 1] - geometry[5, 1]
            low = max(0, -(first // stride))
            end = min(count, (wide - 1 - first) // stride + 1)
            source = blocks[tap]
            for row in range(rows):
                at = row * jump + down * geometry[4, 0] - geometry[5, 0]
                if 0 <= at < high:
                    line(source, row * count, plane, low, end, at * wide + first, stride)

    def loop(x: Any, y: Any, sums: Any, geometry: Any, worker: int, workers: int) -> None:
        last, taps, places = geometry.shape[1] - 1, x.shape[1], y.shape[1]
        size, count = geometry[0, last], geometry[2, last]
        stride, dilation, pad = geometry[3, last], geometry[4, last], geometry[5, last]
        lines = x.shape[2] // count
        plane = sums[worker]
        total = y.shape[0]
        for unit in range(total * worker // workers, total * (worker + 1) // workers):
            for i in range(places):
                plane[i] = 0
            if last == 1:
                picture(x[unit], plane, geometry)
            for tap in range(0 if last == 1 else taps):
                # Along the last axis: first + i * stride for the entries that lie on the image.
                first = tap % geometry[1, last] * dilation - pad
                low = max(0, -(first // stride))
                high = min(count, (size - 1 - first) // stride + 1)
                for number in range(lines):
                    rest, rest_k = number, tap // geometry[1, last]
                    base, step = 0, size
                    inside = True
                    for axis in range(last - 1, -1, -1):
                        at = rest % geometry[2, axis] * geometry[3, axis] - geometry[5, axis]
                        at += rest_k % geometry[1, axis] * geometry[4, axis]
                        rest //= geometry[2, axis]
                        rest_k //= geometry[1, axis]
                        inside = inside and 0 <= at < geometry[0, axis]
                        base += at * step
                        step *= geometry[0, axis]
                    if inside:
                        begin = number * count
                        line(x[unit, tap], begin, plane, low, high, base + first, stride)
            for i in range(places):
                y[unit, i] = encode(plane[i])

    return loop


def register(library: Library) -> None:
    """Register the kernels of this module."""
    library.kernel("MaxUnpool", name="maxunpool")(MaxUnpool)
    library.kernel("Col2Im", name="col2im")(Col2Im)
