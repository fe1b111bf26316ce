"""ConvTranspose by plain loops: every row of the input spreads over rows of the output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from neuralsym.cpu.emit import Code, array_kernel
from neuralsym.cpu.kernels.conv_loop import FLOATS
from neuralsym.cpu.kernels.widen import (
    finish,
    halves_work,
    reserve,
    wide_kind,
    wide_place,
    widened,
)
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Row, Sizes, Step, Word
from neuralsym.cpu.templates.layout import triple


class ConvTranspose(Kernel):
    """One plane of the output after another, the sum of all input rows that reach it."""

    name = "conv transpose"

    def supports(self, step: Step) -> bool | str:
        y = step.outputs[0]
        if y.dtype not in FLOATS:
            return f"it computes with floats, not with {y.dtype.value}"
        if not 3 <= y.rank <= 5:
            return f"{y.name} has {y.rank} axes, the loops take 3 to 5"
        return halves_work(self.target, y.dtype)

    def adjust(self, step: Step) -> None:
        for i, buffer in enumerate(step.inputs):
            reserve(step, i, buffer)
        reserve(step, -1, step.outputs[0])

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, w, b, y = step.inputs[0], step.inputs[1], step.input(2), step.outputs[0]
        assert x is not None and w is not None
        if 0 in sizes.shape(y):
            return []
        rows: list[Row] = []
        words: list[Word] = []
        for i, buffer in enumerate((x, w)):
            shape = sizes.shape(buffer)
            words.append(widened(self.target, step, i, buffer, sizes, rows))
            words += [*shape[:2], *triple(shape[2:], 1)]
        if b is None:
            words += [words[0], 0]
        else:
            words += [widened(self.target, step, 2, b, sizes, rows), *sizes.shape(b)]
        place, shape = wide_place(step, -1, y), sizes.shape(y)
        words += [place, *shape[:2], *triple(shape[2:], 1)]
        words += [_geometry(step, sizes), 3, 3, int(step.attr("group") or 1)]
        rows.append(Row(_code(wide_kind(y.dtype).value), words))
        return [*rows, *finish(self.target, step, place, y, None, sizes)]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        x, w = step.inputs[0], step.inputs[1]
        assert x is not None and w is not None
        return 2 * math.prod(sizes.shape(x)) * math.prod(sizes.shape(w)[1:])


def _geometry(step: Step, sizes: Sizes) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Rows of strides, dilations and pads before, as (depth, height, width), in a flat table."""
    x, w, y = step.inputs[0], step.inputs[1], step.outputs[0]
    assert x is not None and w is not None
    size, kernel, made = (sizes.shape(b)[2:] for b in (x, w, y))
    axes = len(size)
    ones = (1,) * axes
    strides = tuple(step.attr("strides") or ones)
    dilations = tuple(step.attr("dilations") or ones)
    extra = tuple(step.attr("output_padding") or (0,) * axes)
    auto = step.attr("auto_pad") or "NOTSET"
    before: list[int] = []
    for i in range(axes):
        if auto == "NOTSET" and not step.attr("output_shape"):
            pads = step.attr("pads")
            before.append(pads[i] if pads else 0)
            continue
        # The output's size is given; what is too much is cut, an odd element where `auto` says.
        full = strides[i] * (size[i] - 1) + (kernel[i] - 1) * dilations[i] + 1 + extra[i]
        total = max(full - made[i], 0)
        before.append(total // 2 if auto == "SAME_UPPER" else total - total // 2)
    table = [triple(strides, 1), triple(dilations, 1), triple(before, 0)]
    return np.array(table, np.int64).reshape(-1)


@lru_cache(maxsize=2)
def _code(dtype: str) -> Code:
    operands = [(dtype, 5, "in"), (dtype, 5, "in"), (dtype, 1, "in"), (dtype, 5, "out")]
    operands.append(("int64", 2, "in"))
    return array_kernel(_spread, operands, ["int64"], f"conv_transpose_{dtype}", fast=True)


def _spread(
    x: Any, w: Any, b: Any, y: Any, geometry: Any, groups: int, worker: int, workers: int
) -> None:
    batch, outputs, depth, height, width = y.shape
    stride_d, stride_h, stride_w = geometry[0, 0], geometry[0, 1], geometry[0, 2]
    dilation_d, dilation_h, dilation_w = geometry[1, 0], geometry[1, 1], geometry[1, 2]
    pad_d, pad_h, pad_w = geometry[2, 0], geometry[2, 1], geometry[2, 2]
    per_group, each = outputs // groups, x.shape[1] // groups
    planes = batch * outputs
    for plane in range(planes * worker // workers, planes * (worker + 1) // workers):
        n, o = plane // outputs, plane % outputs
        group = o // per_group
        first = b[o] if b.shape[0] else 0
        for d in range(depth):
            for h in range(height):
                for i in range(width):
                    y[n, o, d, h, i] = first
        for c in range(group * each, (group + 1) * each):
            for td in range(w.shape[2]):
                for th in range(w.shape[3]):
                    for tw in range(w.shape[4]):
                        factor = w[c, o % per_group, td, th, tw]
                        shift = tw * dilation_w - pad_w
                        low = max(0, -(shift // stride_w))
                        high = min(x.shape[4], (width - 1 - shift) // stride_w + 1)
                        for zd in range(x.shape[2]):
                            d = zd * stride_d + td * dilation_d - pad_d
                            if d < 0 or d >= depth:
                                continue
                            for zh in range(x.shape[3]):
                                h = zh * stride_h + th * dilation_h - pad_h
                                if h < 0 or h >= height:
                                    continue
                                source, out = x[n, c, zd, zh], y[n, o, d, h]
                                for i in range(low, high):
                                    out[i * stride_w + shift] += factor * source[i]


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    library.kernel("ConvTranspose")(ConvTranspose)
