"""Windows laid side by side as columns, and columns added back into an image.

`unfold` is what a convolution multiplies by its kernel; `fold` sums what overlaps.
"""

from __future__ import annotations

import math

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer
from neuralsym.layers.padding import surround
from neuralsym.layers.window import LARGEST_AXIS, Sizes, axis_sizes


def _settings(
    kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> tuple[tuple[int, ...], ...]:
    """The four settings of windows over an image, each as two numbers."""
    return (
        axis_sizes(kernel_size, 2, "kernel_size"),
        axis_sizes(dilation, 2, "dilation"),
        axis_sizes(padding, 2, "padding", least=0),
        axis_sizes(stride, 2, "stride"),
    )


def _count(size: int, kernel: int, dilation: int, padding: int, stride: int) -> int:
    """How many windows there are along an axis; 0 or less where none fits."""
    return (size + 2 * padding - (kernel - 1) * dilation - 1) // stride + 1


@layer
def unfold(
    x: Symbol,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
    *,
    name: str | None = None,
) -> Symbol:
    """The windows of [N, C, H, W] as columns, [N, C * kh * kw, L], L being how many there are.

    Settings as torch orders them: dilation between the elements of a window, padding by zeros on
    both sides, stride between windows. Raises ShapeMismatch for an input of another rank and where
    no window fits, BadAttribute for sizes out of range.

    torch Unfold; ONNX Gather of rows and of columns, or Conv by one-hot kernels for open sizes.
    """
    kernel, gaps, pads, steps = _settings(kernel_size, dilation, padding, stride)
    shape = require_shape(x, 4, axis=1)
    channels = int(shape[1])
    rows = channels * math.prod(kernel)
    if not all(isinstance(n, int) for n in shape[2:]):
        ones = np.eye(math.prod(kernel)).reshape(-1, 1, *kernel)
        w = constant(np.tile(ones, (channels, 1, 1, 1)), str(x.dtype))
        y = ops.conv(x, w, group=channels, strides=steps, dilations=gaps, pads=(*pads, *pads))
        return ops.reshape(y, [0, rows, -1])
    places, counts = [], []
    for axis, (n, k, d, p, s) in enumerate(zip(shape[2:], kernel, gaps, pads, steps, strict=True)):
        count = _count(n, k, d, p, s)
        if count < 1:
            raise ShapeMismatch(
                f"a window spans {(k - 1) * d + 1} elements of axis {axis + 2} of {x.type}, which "
                f"has {n + 2 * p} with its padding"
            )
        if count * k > LARGEST_AXIS:
            raise BadAttribute(
                f"{count} windows of {k} elements along axis {axis + 2} are too many"
            )
        counts.append(count)
        places.append(np.arange(k)[:, None] * d + np.arange(count)[None, :] * s)
    y = surround(x, [(p, p) for p in pads])
    y = ops.gather(ops.gather(y, places[0], axis=2), places[1], axis=4)  # [N, C, kh, Lh, kw, Lw]
    return ops.reshape(ops.transpose(y, perm=(0, 1, 2, 4, 3, 5)), [0, rows, math.prod(counts)])


@layer
def fold(
    x: Symbol,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
    *,
    name: str | None = None,
) -> Symbol:
    """Columns [N, C * kh * kw, L] summed where they lie in an image, [N, C, *output_size].

    Settings as in unfold, whose columns they are. Raises ShapeMismatch where L is not the number
    of windows of that size or the rows are not a multiple of kh * kw, BadAttribute for sizes out
    of range.

    torch Fold; ONNX Col2Im.
    """
    sizes = axis_sizes(output_size, 2, "output_size")
    kernel, gaps, pads, steps = _settings(kernel_size, dilation, padding, stride)
    shape = require_shape(x, 3)
    counts = list(map(_count, sizes, kernel, gaps, pads, steps))
    if min(counts) < 1:
        raise BadAttribute(f"no window of {kernel} fits output_size={sizes}")
    rows, columns = shape[1:]
    if isinstance(rows, int) and rows % math.prod(kernel):
        raise ShapeMismatch(
            f"the {rows} rows of {x.type} are no multiple of the {math.prod(kernel)} elements of a "
            "window"
        )
    if isinstance(columns, int) and columns != math.prod(counts):
        raise ShapeMismatch(
            f"{x.type} has {columns} columns, output_size={sizes} has {counts[0]} * {counts[1]} "
            "windows"
        )
    return ops.col2im(
        x,
        np.array(sizes, np.int64),
        np.array(kernel, np.int64),
        dilations=gaps,
        pads=(*pads, *pads),
        strides=steps,
    )
