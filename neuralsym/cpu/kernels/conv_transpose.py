"""ConvTranspose: a matrix product with the filters, whose results are summed where they land.

columns[o * taps][pixel of x] = filters[c][o * taps]' @ x[c][pixel]    for each entry and group
y[o][...] = bias + sum over taps of columns[o, tap][...] at its place
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from neuralsym.cpu.emit import Code, array_kernel
from neuralsym.cpu.kernels.conv_loop import FLOATS
from neuralsym.cpu.kernels.geometry import registers
from neuralsym.cpu.kernels.widen import (
    finish,
    reserve,
    wide_kind,
    wide_place,
    widened,
)
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Operand, Row, Sizes, Step, Word
from neuralsym.cpu.templates.element import Element
from neuralsym.cpu.templates.layout import triple
from neuralsym.cpu.templates.matmul import matmul_text
from neuralsym.cpu.templates.matmul_form import MatmulText
from neuralsym.cpu.templates.matmul_plan import Matrix, matmul_words, plan_matmul, scratch_bytes
from neuralsym.dtypes import NumberType


class ConvTranspose(Kernel):
    """One entry of the batch after another, so that the columns stay small."""

    name = "conv transpose"

    def supports(self, step: Step) -> bool | str:
        y = step.outputs[0]
        if y.dtype not in FLOATS:
            return f"it computes with floats, not with {y.dtype.value}"
        if not 3 <= y.rank <= 5:
            return f"{y.name} has {y.rank} axes, the loops take 3 to 5"
        return True

    def adjust(self, step: Step) -> None:
        for i, buffer in enumerate(step.inputs):
            reserve(step, i, buffer)
        x, w, y = step.inputs[0], step.inputs[1], step.outputs[0]
        assert x is not None and w is not None
        reserve(step, -1, y)
        text, item = self._text(step), wide_kind(y.dtype).itemsize
        groups = int(step.attr("group") or 1)

        def columns(sizes: Sizes) -> int:
            return item * groups * math.prod(sizes.shape(w)[1:] + sizes.shape(x)[2:])

        step.need_scratch("columns", columns)
        step.need_scratch("panel", lambda sizes: scratch_bytes(text) * sizes.workers)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, w, b, y = step.inputs[0], step.inputs[1], step.input(2), step.outputs[0]
        assert x is not None and w is not None
        if 0 in sizes.shape(y):
            return []
        rows: list[Row] = []
        source = widened(self.target, step, 0, x, sizes, rows)
        filters = widened(self.target, step, 1, w, sizes, rows)
        bias = None if b is None else widened(self.target, step, 2, b, sizes, rows)
        place = wide_place(step, -1, y)
        kind = wide_kind(y.dtype)
        item, groups = kind.itemsize, int(step.attr("group") or 1)
        batch, channels, *size = sizes.shape(x)
        m, n, k = math.prod(sizes.shape(w)[1:]), math.prod(size), channels // groups
        columns = Operand(step.scratch["columns"].buffer)
        text, geometry = self._text(step), _geometry(step, sizes)
        outputs = sizes.shape(y)[1]
        fold: list[Word] = [columns, outputs, *triple(sizes.shape(w)[2:], 1), *triple(size, 1)]
        fold += [source, 0] if bias is None else [bias, outputs]
        fold += [place, batch, outputs, *triple(sizes.shape(y)[2:], 1), geometry, 3, 3]
        for entry in range(batch):
            here = Operand(source.buffer, source.offset + entry * channels * n * item)
            words = matmul_words(
                text,
                (m, n, k),
                Matrix(filters, m * item, 0, k * m * item),
                Matrix(here, n * item, 0, k * n * item),
                Matrix(columns, n * item, 0, m * n * item),
                batch=(1, groups),
                scratch=Operand(step.scratch["panel"].buffer),
            )
            rows += [Row(_product_code(text), words), Row(_code(kind.value), [*fold, entry])]
        return [*rows, *finish(self.target, step, place, y, None, sizes)]

    def _text(self, step: Step) -> MatmulText:
        element: Element = "double" if step.outputs[0].dtype is NumberType.FLOAT64 else "float"
        return plan_matmul(
            None,
            width=self.target.width(element),
            registers=registers(self.target),
            a="columns",
            b="rows",
            element=element,
        )

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


@lru_cache(maxsize=4)
def _product_code(text: MatmulText) -> Code:
    return Code("matmul", "matmul", matmul_text(text, "matmul"))


@lru_cache(maxsize=2)
def _code(dtype: str) -> Code:
    operands = [(dtype, 7, "in"), (dtype, 1, "in"), (dtype, 5, "out"), ("int64", 2, "in")]
    return array_kernel(_fold, operands, ["int64"], f"fold_{dtype}")


def _fold(
    columns: Any, b: Any, y: Any, geometry: Any, entry: int, worker: int, workers: int
) -> None:
    outputs, taps_d, taps_h, taps_w, size_d, size_h, size_w = columns.shape
    _, _, depth, height, width = y.shape
    stride_d, stride_h, stride_w = geometry[0, 0], geometry[0, 1], geometry[0, 2]
    dilation_d, dilation_h, dilation_w = geometry[1, 0], geometry[1, 1], geometry[1, 2]
    pad_d, pad_h, pad_w = geometry[2, 0], geometry[2, 1], geometry[2, 2]
    for o in range(outputs * worker // workers, outputs * (worker + 1) // workers):
        first = b[o] if b.shape[0] else 0
        for d in range(depth):
            for h in range(height):
                for i in range(width):
                    y[entry, o, d, h, i] = first
        for td in range(taps_d):
            for zd in range(size_d):
                d = zd * stride_d + td * dilation_d - pad_d
                if d < 0 or d >= depth:
                    continue
                for th in range(taps_h):
                    for zh in range(size_h):
                        h = zh * stride_h + th * dilation_h - pad_h
                        if h < 0 or h >= height:
                            continue
                        out = y[entry, o, d, h]
                        for tw in range(taps_w):
                            source = columns[o, td, th, tw, zd, zh]
                            shift = tw * dilation_w - pad_w
                            low = max(0, -(shift // stride_w))
                            high = min(size_w, (width - 1 - shift) // stride_w + 1)
                            if stride_w == 1:
                                for i in range(low, high):
                                    out[i + shift] += source[i]
                            else:
                                for i in range(low, high):
                                    out[i * stride_w + shift] += source[i]


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    library.kernel("ConvTranspose")(ConvTranspose)
