"""MaxUnpool and Col2Im: what pools and windows took apart, put back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from neuralsym.cpu.kernels.geometry import window
from neuralsym.cpu.kernels.movement import FAILURES, View, copy_rows, settled, view
from neuralsym.cpu.kernels.select import COMPLEX
from neuralsym.cpu.kernels.units import (
    Function,
    Side,
    are_tensors,
    decoder,
    encoder,
    same,
    typed_row,
    units,
)
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Row, Sizes, Step
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
        rows.append(typed_row(step, sizes, _unpool, sides, name="max_unpool", serial=True))
        return rows


def _unpool(x: Any, places: Any, y: Any, shapes: Any) -> int:
    rank = shapes.shape[1]
    total = 1
    for axis in range(rank):
        total *= shapes[0, axis]
    for i in range(x.shape[0]):
        rest = places[i]
        if rest < 0 or rest >= total:
            return 1
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

    Sums of floats are float64, of whole numbers wrap around, of booleans are true if any is.
    """

    def supports(self, step: Step) -> bool | str:
        return are_tensors(step) or "not a tensor of numbers"

    def needs(self, step: Step) -> Sequence[int]:
        return [0]

    def settings(self, step: Step) -> Sequence[int]:
        return [1, 2]

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
        kind, loop = _sum(x.dtype)
        lines = [image, block, counts, found.strides, found.dilations, found.before]
        geometry = np.array(lines, np.int64).reshape(-1)
        sides = [
            Side(x, kind, (batch * channels, prod(block), prod(counts))),
            Side(y, kind, (batch * channels, prod(image)), "out"),
            Side(geometry, "int64", (len(lines), len(image))),
        ]
        return [typed_row(step, sizes, loop, sides, name="col2im")]


def _any(value: Any) -> Any:
    return np.uint8(value != 0)


def _sum(kind: NumberType) -> tuple[str, Callable[..., None]]:
    """The type to see elements as, and the loop that adds them up."""
    if kind is NumberType.BOOL:
        return "uint8", _summing(same, _any, 0)
    if kind.is_integer:
        # Signed and unsigned sums have the same bits.
        return f"int{8 * kind.itemsize}", _summing(same, same, 0)
    if kind in COMPLEX:
        return kind.value, _summing(same, same, 0j)
    return kind.value, _summing(decoder(kind), encoder(kind), 0.0)


@lru_cache(maxsize=64, typed=True)
def _summing(decode: Function, encode: Function, zero: complex) -> Callable[..., None]:
    def loop(x: Any, y: Any, geometry: Any, worker: int, workers: int) -> None:
        axes, taps, places = geometry.shape[1], x.shape[1], y.shape[1]
        total = y.shape[0] * places
        for unit in range(total * worker // workers, total * (worker + 1) // workers):
            plane, place = unit // places, unit % places
            value = zero
            for tap in range(taps):
                rest_p, rest_k = place, tap
                column, stride = 0, 1
                inside = True
                for axis in range(axes - 1, -1, -1):
                    at = rest_p % geometry[0, axis]
                    rest_p //= geometry[0, axis]
                    k = rest_k % geometry[1, axis]
                    rest_k //= geometry[1, axis]
                    start = at + geometry[5, axis] - k * geometry[4, axis]
                    count, by = geometry[2, axis], geometry[3, axis]
                    if start < 0 or start % by or start // by >= count:
                        inside = False
                        break
                    column += start // by * stride
                    stride *= count
                if inside:
                    value += decode(x[plane, tap, column])
            y[plane, place] = encode(value)

    return loop


def register(library: Library) -> None:
    """Register the kernels of this module."""
    library.kernel("MaxUnpool", name="maxunpool")(MaxUnpool)
    library.kernel("Col2Im", name="col2im")(Col2Im)
