"""Convolution by plain loops: any groups, float32, float64, and half precision through float32."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from neuralsym.cpu.emit import Code, array_kernel
from neuralsym.cpu.kernels.geometry import window
from neuralsym.cpu.kernels.widen import (
    finish,
    reserve,
    wide_kind,
    wide_place,
    widened,
)
from neuralsym.cpu.library import Kernel
from neuralsym.cpu.program import Row, Sizes, Step, Word
from neuralsym.cpu.scalar_ir import HALVES, supported
from neuralsym.cpu.templates.layout import triple
from neuralsym.dtypes import NumberType

FLOATS = (NumberType.FLOAT32, NumberType.FLOAT64, *HALVES)


class ConvLoop(Kernel):
    """Rows of the output, each a sum of rows of the input times a weight."""

    name = "conv loop"

    def supports(self, step: Step) -> bool | str:
        y = step.outputs[0]
        if y.dtype not in FLOATS:
            return f"it computes with floats, not with {y.dtype.value}"
        if not 3 <= y.rank <= 5:
            return f"{y.name} has {y.rank} axes, the loops take 3 to 5"
        expr = step.attr("activation")
        return True if expr is None else supported(expr, [y.dtype])

    def adjust(self, step: Step) -> None:
        for i, buffer in enumerate(step.inputs[:3]):
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
        found = window(step, sizes.shape(w)[2:], sizes.shape(x)[2:])
        _, strides, dilations, pads, _ = found.triples()
        words += [int(step.attr("group") or 1), *strides, *dilations, *pads]
        rows.append(Row(_code(wide_kind(y.dtype).value), words))
        return [*rows, *finish(self.target, step, place, y, step.input(3), sizes)]

    def is_apart(self, step: Step) -> bool:
        return True

    def complexity(self, step: Step, sizes: Sizes) -> int:
        from neuralsym.cpu.kernels.conv import products

        return products(step, sizes)


@lru_cache(maxsize=2)
def _code(dtype: str) -> Code:
    operands = [(dtype, 5, "in"), (dtype, 5, "in"), (dtype, 1, "in"), (dtype, 5, "out")]
    return array_kernel(_conv, operands, ["int64"] * 10, f"conv_{dtype}", fast=True)


def _conv(
    x: Any,
    w: Any,
    b: Any,
    y: Any,
    groups: int,
    stride_d: int,
    stride_h: int,
    stride_w: int,
    dilation_d: int,
    dilation_h: int,
    dilation_w: int,
    pad_d: int,
    pad_h: int,
    pad_w: int,
    worker: int,
    workers: int,
) -> None:
    batch, outputs, depth, height, width = y.shape
    each, taps_d, taps_h, taps_w = w.shape[1], w.shape[2], w.shape[3], w.shape[4]
    per_group = outputs // groups
    rows = batch * outputs * depth * height
    for row in range(rows * worker // workers, rows * (worker + 1) // workers):
        h, rest = row % height, row // height
        d, rest = rest % depth, rest // depth
        o, n = rest % outputs, rest // outputs
        out = y[n, o, d, h]
        first = b[o] if b.shape[0] else 0
        for i in range(width):
            out[i] = first
        start = o // per_group * each
        for c in range(each):
            for td in range(taps_d):
                at_d = d * stride_d + td * dilation_d - pad_d
                if at_d < 0 or at_d >= x.shape[2]:
                    continue
                for th in range(taps_h):
                    at_h = h * stride_h + th * dilation_h - pad_h
                    if at_h < 0 or at_h >= x.shape[3]:
                        continue
                    source = x[n, start + c, at_d, at_h]
                    for tw in range(taps_w):
                        shift = tw * dilation_w - pad_w
                        low = max(0, -(shift // stride_w))
                        high = min(width, (x.shape[4] - 1 - shift) // stride_w + 1)
                        factor = w[o, c, td, th, tw]
                        if stride_w == 1:
                            for i in range(low, high):
                                out[i] += factor * source[i + shift]
                        else:
                            for i in range(low, high):
                                out[i] += factor * source[i * stride_w + shift]
