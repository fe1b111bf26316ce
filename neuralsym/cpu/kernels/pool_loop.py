"""Pooling by plain loops: every type of maximum, indices, averages and Lp norms of floats."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from neuralsym.cpu.arrays import Scalar
from neuralsym.cpu.emit import Code, array_kernel
from neuralsym.cpu.kernels.geometry import window
from neuralsym.cpu.kernels.pool_deep import pool_deep
from neuralsym.cpu.kernels.widen import (
    finish,
    reserve,
    wide_kind,
    wide_place,
    widened,
)
from neuralsym.cpu.library import Kernel
from neuralsym.cpu.program import Operand, Row, Sizes, Step, Word, float_word
from neuralsym.cpu.scalar_ir import HALVES
from neuralsym.cpu.templates.layout import triple
from neuralsym.dtypes import NumberType

MAXIMUM, AVERAGE, LP = range(3)
MODES = {"MaxPool": MAXIMUM, "GlobalMaxPool": MAXIMUM, "AveragePool": AVERAGE}
MODES |= {"GlobalAveragePool": AVERAGE, "LpPool": LP, "GlobalLpPool": LP}
INTEGERS = (NumberType.INT8, NumberType.UINT8)
SETTINGS: list[Scalar] = ["int64", "int64", "float64", "int64", "float64"]
FLOATS = (NumberType.FLOAT32, NumberType.FLOAT64, *HALVES)


class PoolLoop(Kernel):
    """One output after another over its window, cut at the borders."""

    name = "pool loop"
    whole = False

    def supports(self, step: Step) -> bool | str:
        y = step.outputs[0]
        mode = MODES[step.op.__name__]
        if y.dtype not in FLOATS and (y.dtype not in INTEGERS or mode != MAXIMUM):
            return f"there is no such loop over {y.dtype.value}"
        if y.rank < 3:
            return f"{y.name} has {y.rank} axes, a spatial one is needed"
        return True

    def adjust(self, step: Step) -> None:
        reserve(step, 0, step.inputs[0])
        reserve(step, -1, step.outputs[0])

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if 0 in sizes.shape(y):
            return []
        rows: list[Row] = []
        source = widened(self.target, step, 0, x, sizes, rows)
        place = wide_place(step, -1, y)
        if y.rank <= 5 or self.whole:
            rows.append(self._flat(step, sizes, source, place))
        else:
            rows.append(self._deep(step, sizes, source, place))
        return [*rows, *finish(self.target, step, place, y, None, sizes)]

    def _flat(self, step: Step, sizes: Sizes, source: Operand, place: Operand) -> Row:
        """Over up to three spatial axes; the global pools see all of space as one."""
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        size, shape = sizes.shape(x), sizes.shape(y)
        space, made = size[2:], shape[2:]
        if self.whole:
            space, made = (prod(space),), (1,)
        found = window(step, space if self.whole else step.attr("kernel_shape"), space).triples()
        words: list[Word] = [source, *size[:2], *triple(space, 1)]
        result = [*shape[:2], *triple(made, 1)]
        words += [place, *result]
        indices = step.outputs[1] if len(step.outputs) > 1 else None
        words += [place, 0, 0, 0, 0, 0] if indices is None else [Operand(indices), *result]
        words += [np.array(found, np.int64).reshape(-1), 5, 3, *self._settings(step)]
        return Row(_code(wide_kind(y.dtype).value), words)

    def _deep(self, step: Step, sizes: Sizes, source: Operand, place: Operand) -> Row:
        """Over any number of spatial axes."""
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        batch, space, made = sizes.shape(x)[:2], sizes.shape(x)[2:], sizes.shape(y)[2:]
        found = window(step, step.attr("kernel_shape"), space)
        lines = [space, made, found.kernel, found.strides, found.dilations]
        lines += [found.before, found.after]
        planes = prod(batch)
        words: list[Word] = [source, planes, prod(space), place, planes, prod(made)]
        indices = step.outputs[1] if len(step.outputs) > 1 else None
        words += [place, 0, 0] if indices is None else [Operand(indices), planes, prod(made)]
        words += [np.array(lines, np.int64).reshape(-1), len(lines), len(space)]
        return Row(_deep_code(wide_kind(y.dtype).value), [*words, *self._settings(step)])

    def _settings(self, step: Step) -> list[Word]:
        """The last words: what to compute, and the largest of a window without elements."""
        kind = step.outputs[0].dtype
        lowest = float(np.iinfo(kind.numpy).min) if kind.is_integer else -np.inf
        return [
            MODES[step.op.__name__],
            int(bool(step.attr("count_include_pad"))),
            float_word(float(step.attr("p") or 2)),
            int(bool(step.attr("storage_order"))),
            float_word(lowest),
        ]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        x = step.inputs[0]
        assert x is not None
        if self.whole:
            return prod(sizes.shape(x))
        return int(prod(sizes.shape(step.outputs[0])) * prod(step.attr("kernel_shape")))


class GlobalPoolLoop(PoolLoop):
    """Pooling over a window as large as the input."""

    name = "global pool loop"
    whole = True


@lru_cache(maxsize=8)
def _code(dtype: str) -> Code:
    operands = [(dtype, 5, "in"), (dtype, 5, "out"), ("int64", 5, "out"), ("int64", 2, "in")]
    return array_kernel(_pool, operands, SETTINGS, f"pool_{dtype}")


@lru_cache(maxsize=8)
def _deep_code(dtype: str) -> Code:
    operands = [(dtype, 2, "in"), (dtype, 2, "out"), ("int64", 2, "out"), ("int64", 2, "in")]
    return array_kernel(pool_deep, operands, SETTINGS, f"deep_pool_{dtype}")


def _pool(
    x: Any,
    y: Any,
    indices: Any,
    geometry: Any,
    mode: int,
    padding_counts: int,
    p: float,
    by_columns: int,
    lowest: float,
    worker: int,
    workers: int,
) -> None:
    batch, channels, depth, height, width = y.shape
    kernel_d, kernel_h, kernel_w = geometry[0, 0], geometry[0, 1], geometry[0, 2]
    stride_d, stride_h, stride_w = geometry[1, 0], geometry[1, 1], geometry[1, 2]
    dilation_d, dilation_h, dilation_w = geometry[2, 0], geometry[2, 1], geometry[2, 2]
    before_d, before_h, before_w = geometry[3, 0], geometry[3, 1], geometry[3, 2]
    after_d, after_h, after_w = geometry[4, 0], geometry[4, 1], geometry[4, 2]
    size_d, size_h, size_w = x.shape[2], x.shape[3], x.shape[4]
    planes = batch * channels
    for plane in range(planes * worker // workers, planes * (worker + 1) // workers):
        n, c = plane // channels, plane % channels
        for d in range(depth):
            for h in range(height):
                for w in range(width):
                    best, at = lowest, -1
                    total = 0.0
                    count = 0
                    for kd in range(kernel_d):
                        zd = d * stride_d + kd * dilation_d - before_d
                        if zd >= size_d + after_d:
                            continue
                        for kh in range(kernel_h):
                            zh = h * stride_h + kh * dilation_h - before_h
                            if zh >= size_h + after_h:
                                continue
                            for kw in range(kernel_w):
                                zw = w * stride_w + kw * dilation_w - before_w
                                if zw >= size_w + after_w:
                                    continue
                                inside = 0 <= zd < size_d and 0 <= zh < size_h and 0 <= zw < size_w
                                if not inside:
                                    count += padding_counts
                                    continue
                                count += 1
                                value = x[n, c, zd, zh, zw]
                                if mode == 0:
                                    # NaN is kept, and the first of equals.
                                    if at < 0 or value > best or (value != value and best == best):
                                        best = value
                                        at = (zd * size_h + zh) * size_w + zw
                                        if by_columns:
                                            at = (zw * size_h + zh) * size_d + zd
                                elif mode == 1:
                                    total += value
                                else:
                                    total += abs(value) ** p
                    if mode == 0:
                        y[n, c, d, h, w] = best
                        if indices.shape[0]:
                            start = plane * size_d * size_h * size_w
                            indices[n, c, d, h, w] = start + at if at >= 0 else -1
                    elif mode == 1:
                        y[n, c, d, h, w] = total / count
                    else:
                        y[n, c, d, h, w] = total ** (1 / p)
