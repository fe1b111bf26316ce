"""Resize of the types that its vectors do not take: narrow and wide floats, integers, complex."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.movement import copy_rows, view
from neuralsym.cpu.kernels.resize import (
    Pass,
    outside_rows,
    pack_outside,
    passes_of,
    sampling_of,
)
from neuralsym.cpu.kernels.resize import Resize as Vectors
from neuralsym.cpu.kernels.select import COMPLEX
from neuralsym.cpu.kernels.units import Function, are_tensors, decoder, encoder, same
from neuralsym.cpu.library import Form, Kernel
from neuralsym.cpu.program import Buffer, Row, Sizes, Step
from neuralsym.cpu.templates.resize import tables
from neuralsym.dtypes import NumberType


class ResizeLoop(Vectors):
    """Axis by axis in float64, rounded once at the end; integers to the nearest in their range.

    The parts of complex numbers are resampled each for itself.
    """

    def supports(self, step: Step) -> bool | str:
        return are_tensors(step) or "not a tensor of numbers"

    def forms(self, step: Step) -> Sequence[Form]:
        return Kernel.forms(self, step)

    def adjust(self, step: Step) -> None:
        for number in range(2):
            step.need_scratch(f"part {number}", lambda sizes: _room(step, sizes))
        pack_outside(step)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        shape = sizes.shape(y)
        if 0 in shape:
            return []
        passes = passes_of(step, sizes)
        if not passes:
            return copy_rows(self.target, view(y, shape), view(x, shape), shape, sizes.workers)
        kind, parts = _seen(x.dtype)
        dims = list(sizes.shape(x))
        rows: list[Row] = []
        source: tuple[Buffer, str, Function] = (x, kind, decoder(x.dtype))
        for number, each in enumerate(passes):
            if number + 1 == len(passes):
                target: tuple[Buffer, str, Function] = (y, kind, encoder(y.dtype))
            else:
                target = (step.scratch[f"part {number % 2}"].buffer, "float64", same)
            rows.append(_row(step, sizes, each, dims, parts, source, target))
            dims[each.axis] = each.count
            source = target
        return rows + outside_rows(self.target, step, sizes, passes)


def _row(
    step: Step,
    sizes: Sizes,
    each: Pass,
    dims: Sequence[int],
    parts: int,
    source: tuple[Buffer, str, Function],
    target: tuple[Buffer, str, Function],
) -> Row:
    """One axis resampled from one place in memory to another."""
    index, weights = tables(sampling_of(step), each.size, each.count, each.scale, each.crop)
    outer, inner = prod(dims[: each.axis]), prod(dims[each.axis + 1 :]) * parts
    factors = np.ascontiguousarray(weights, np.float64).reshape(-1)
    sides = [
        Side(source[0], source[1], (outer, each.size, inner)),
        Side(target[0], target[1], (outer, each.count, inner), "out"),
        Side(np.ascontiguousarray(index).reshape(-1), "int64", index.shape),
        Side(factors.view(np.int64), "float64", index.shape),
    ]
    return array_row(step, sizes, _resample(source[2], target[2]), sides, name="resize")


def _seen(kind: NumberType) -> tuple[str, int]:
    """The type to see elements as, and how many of them one is."""
    if kind in COMPLEX:
        return ("float32" if kind is NumberType.COMPLEX64 else "float64"), 2
    return ("uint8" if kind is NumberType.BOOL else kind.value), 1


def _room(step: Step, sizes: Sizes) -> int:
    """Bytes of the largest tensor between two passes."""
    x = step.inputs[0]
    assert x is not None
    if 0 in sizes.shape(step.outputs[0]):
        return 0
    dims, largest = list(sizes.shape(x)), 0
    for each in passes_of(step, sizes)[:-1]:
        dims[each.axis] = each.count
        largest = max(largest, prod(dims))
    return 8 * _seen(x.dtype)[1] * largest


@cache
def _resample(decode: Function, encode: Function) -> Callable[..., None]:
    def loop(x: Any, y: Any, index: Any, weights: Any, worker: int, workers: int) -> None:
        count = y.shape[1]
        total = y.shape[0] * count
        for unit in range(total * worker // workers, total * (worker + 1) // workers):
            o, at = unit // count, unit % count
            for s in range(y.shape[2]):
                value = weights[0, at] * decode(x[o, index[0, at], s])
                for tap in range(1, index.shape[0]):
                    value += weights[tap, at] * decode(x[o, index[tap, at], s])
                y[o, at, s] = encode(value)

    return loop
