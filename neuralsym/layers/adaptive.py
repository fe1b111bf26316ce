"""Pooling to a given size, whatever the size before: window i of m over n elements goes from
floor(i * n / m) to ceil((i + 1) * n / m), as in torch and Keras.

Axes whose windows are equally long and equally far apart share one pool; along the others the
elements of each window are gathered. Inputs are [batch, channels, *space].
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import is_whole
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer
from neuralsym.layers.window import LARGEST_AXIS

OutputSize: TypeAlias = int | Sequence[int | None] | None
"""How many windows: one number, or one for each spatial axis; None keeps that of the input."""


def _wanted(x: Symbol, rank: int, output_size: OutputSize) -> list[Any]:
    shape = require_shape(x, rank + 2)
    if isinstance(output_size, np.ndarray):
        output_size = output_size.tolist()
    given: list[Any] = [output_size] * rank
    if isinstance(output_size, (list, tuple)):
        given = [*output_size]
    for n in given:
        if n is not None and (not is_whole(n) or n < 1):
            raise BadAttribute(
                f"output_size={output_size!r}: positive integers, or None for the size that is"
            )
        if n is not None and n > LARGEST_AXIS:
            raise BadAttribute(f"output_size={output_size!r}: must not be over 2^24")
    if len(given) != rank:
        raise BadAttribute(f"output_size={output_size!r}: one number or {rank} are needed")
    return [size if n is None else int(n) for n, size in zip(given, shape[2:], strict=True)]


def _windows(size: int, count: int) -> list[tuple[int, int]]:
    """Where each window begins and ends."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _adaptive(x: Symbol, rank: int, output_size: OutputSize, largest: bool) -> Symbol:
    wanted = _wanted(x, rank, output_size)
    if wanted == [1] * rank:
        return ops.global_max_pool(x) if largest else ops.global_average_pool(x)
    sizes = require_shape(x)[2:]
    kernel, strides, others = [1] * rank, [1] * rank, []
    for i, (size, count) in enumerate(zip(sizes, wanted, strict=True)):
        if size == count:
            continue
        if not isinstance(size, int):
            if count != 1:
                raise ShapeMismatch(
                    f"output_size={output_size!r} needs a fixed size along axis {i + 2} of "
                    f"{x.type}; give input() that size, or use a global pool"
                )
            reduce = ops.reduce_max if largest else ops.reduce_mean
            x = reduce(x, [i + 2], keepdims=1)
            continue
        spans = _windows(size, count)
        lengths = {end - start for start, end in spans}
        steps = {b[0] - a[0] for a, b in itertools.pairwise(spans)} or {1}
        if len(lengths) == 1 and len(steps) == 1 and 0 not in steps:
            kernel[i], strides[i] = lengths.pop(), steps.pop()
        else:
            others.append((i + 2, spans))
    if max(kernel) > 1:
        pool: Any = ops.max_pool if largest else ops.average_pool
        x = pool(x, kernel_shape=tuple(kernel), strides=tuple(strides))
    for axis, spans in others:
        x = _gathered(x, axis, spans, largest)
    return x


def _gathered(x: Symbol, axis: int, spans: list[tuple[int, int]], largest: bool) -> Symbol:
    """The largest or the mean of each span along one axis."""
    length = max(end - start for start, end in spans)
    places = np.array([[min(s + j, e - 1) for j in range(length)] for s, e in spans], np.int64)
    seen = ops.gather(x, places, axis=axis)  # [..., spans, length, ...]
    if largest:
        return ops.reduce_max(seen, [axis + 1], keepdims=0)
    behind = (1,) * (len(require_shape(x)) - 1 - axis)
    counts = np.array([e - s for s, e in spans])
    inside = (np.arange(length) < counts[:, None]).reshape(len(spans), length, *behind)
    sums = ops.reduce_sum(ops.where(constant(inside), seen, 0.0), [axis + 1], keepdims=0)
    return sums / constant(counts.reshape(len(spans), *behind), str(x.dtype))


@layer
def adaptive_avg_pool1d(x: Symbol, output_size: OutputSize, *, name: str | None = None) -> Symbol:
    """The mean of as many windows as asked, [N, C, W] -> [N, C, w]; see adaptive_avg_pool2d.

    Keras AdaptiveAveragePooling1D; torch AdaptiveAvgPool1d; ONNX GlobalAveragePool,
    AveragePool, or Gather and ReduceSum.
    """
    return _adaptive(x, 1, output_size, False)


@layer
def adaptive_avg_pool2d(x: Symbol, output_size: OutputSize, *, name: str | None = None) -> Symbol:
    """The mean of as many windows as asked, [N, C, H, W] -> [N, C, h, w].

    output_size: (h, w), one number for both, None for the size that is. The size of the input need
    not divide; windows then differ in length or overlap. Raises ShapeMismatch where an open size
    is to become more than one element, BadAttribute for another number of sizes.

    Keras AdaptiveAveragePooling2D; torch AdaptiveAvgPool2d; ONNX GlobalAveragePool,
    AveragePool, or Gather and ReduceSum.
    """
    return _adaptive(x, 2, output_size, False)


@layer
def adaptive_avg_pool3d(x: Symbol, output_size: OutputSize, *, name: str | None = None) -> Symbol:
    """The mean of as many windows as asked: [N, C, d, h, w]; see adaptive_avg_pool2d.

    Keras AdaptiveAveragePooling3D; torch AdaptiveAvgPool3d; ONNX GlobalAveragePool,
    AveragePool, or Gather and ReduceSum.
    """
    return _adaptive(x, 3, output_size, False)


@layer
def adaptive_max_pool1d(x: Symbol, output_size: OutputSize, *, name: str | None = None) -> Symbol:
    """The largest of as many windows as asked, [N, C, W] -> [N, C, w]; see adaptive_max_pool2d.

    Keras AdaptiveMaxPooling1D; torch AdaptiveMaxPool1d; ONNX GlobalMaxPool, MaxPool, or Gather
    and ReduceMax.
    """
    return _adaptive(x, 1, output_size, True)


@layer
def adaptive_max_pool2d(x: Symbol, output_size: OutputSize, *, name: str | None = None) -> Symbol:
    """The largest of as many windows as asked, [N, C, H, W] -> [N, C, h, w].

    See adaptive_avg_pool2d.

    Keras AdaptiveMaxPooling2D; torch AdaptiveMaxPool2d; ONNX GlobalMaxPool, MaxPool, or Gather
    and ReduceMax.
    """
    return _adaptive(x, 2, output_size, True)


@layer
def adaptive_max_pool3d(x: Symbol, output_size: OutputSize, *, name: str | None = None) -> Symbol:
    """The largest of as many windows as asked: [N, C, d, h, w]; see adaptive_max_pool2d.

    Keras AdaptiveMaxPooling3D; torch AdaptiveMaxPool3d; ONNX GlobalMaxPool, MaxPool, or Gather
    and ReduceMax.
    """
    return _adaptive(x, 3, output_size, True)
