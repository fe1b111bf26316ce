"""Pooling over windows: the largest of each, or the mean.

Inputs are [batch, channels, *space]. As in Keras, windows do not overlap unless strides are given,
and nothing is padded unless asked for.
"""

from __future__ import annotations

from typing import Any

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import plain_layer
from neuralsym.layers.padding import surround
from neuralsym.layers.window import Padding, Sizes, axis_sizes, padding_attributes


def pool_window(
    x: Symbol,
    rank: int,
    pool_size: Sizes,
    strides: Sizes | None,
    padding: Padding,
    ceil_mode: bool = False,
    dilation_rate: Sizes = 1,
) -> dict[str, Any]:
    """The attributes of a pool over x, but for those that have ONNX's defaults."""
    shape = require_shape(x, rank + 2)
    kernel = axis_sizes(pool_size, rank, "pool_size")
    steps = kernel if strides is None else axis_sizes(strides, rank, "strides")
    gaps = axis_sizes(dilation_rate, rank, "dilation_rate")
    made: dict[str, Any] = {"kernel_shape": kernel, "strides": steps}
    made |= padding_attributes(padding, shape[2:], kernel, steps, gaps)
    if max(gaps) > 1:
        made["dilations"] = gaps
    if ceil_mode:
        made["ceil_mode"] = 1
    return made


# -- the largest -------------------------------------------------------------------------------
def _max_pool(x: Symbol, window: dict[str, Any]) -> Symbol:
    largest: Symbol = ops.max_pool(x, **window)
    return largest


@plain_layer
def max_pool1d(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    dilation_rate: Sizes = 1,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Symbol:
    """The largest of each window, [N, C, W] -> [N, C, W']; see max_pool2d.

    Keras MaxPooling1D; torch MaxPool1d; Owl max_pool1d; ONNX MaxPool.
    """
    window = pool_window(x, 1, pool_size, strides, padding, ceil_mode, dilation_rate)
    return _max_pool(x, window)


@plain_layer
def max_pool2d(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    dilation_rate: Sizes = 1,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Symbol:
    """The largest of each window, [N, C, H, W] -> [N, C, H', W'].

    strides: the pool size unless given. padding: the forms of conv2d; it counts as minus infinity
    and must be smaller than the window. dilation_rate: the distance between elements of a window.
    ceil_mode: sizes that do not divide give one more, partial window, unless it would begin in the
    padding behind (torch's ceil_mode). Raises ShapeMismatch for an input of another rank and where
    no window fits, BadAttribute for sizes below 1.

    Keras MaxPooling2D; torch MaxPool2d; Owl max_pool2d; ONNX MaxPool.
    """
    window = pool_window(x, 2, pool_size, strides, padding, ceil_mode, dilation_rate)
    return _max_pool(x, window)


@plain_layer
def max_pool3d(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    dilation_rate: Sizes = 1,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Symbol:
    """The largest of each window, [N, C, D, H, W] -> [N, C, D', H', W']; see max_pool2d.

    Keras MaxPooling3D; torch MaxPool3d; ONNX MaxPool.
    """
    window = pool_window(x, 3, pool_size, strides, padding, ceil_mode, dilation_rate)
    return _max_pool(x, window)


# -- the mean ----------------------------------------------------------------------------------
def _mean(
    x: Symbol, window: dict[str, Any], count_include_pad: bool, divisor: int | None = None
) -> Symbol:
    if divisor is not None:
        return _divided(x, window, divisor)
    return ops.average_pool(x, count_include_pad=int(count_include_pad), **window)


def _divided(x: Symbol, window: dict[str, Any], divisor: int) -> Symbol:
    """The sum of each window over one number: all windows are made whole by zeros first."""
    if divisor == 0:
        raise BadAttribute("divisor_override=0: must not be zero")
    kernel, strides = window["kernel_shape"], window["strides"]
    rank = len(kernel)
    sizes = require_shape(x)[2:]
    if "auto_pad" in window or (window.get("ceil_mode") and not _fixed(sizes)):
        raise ShapeMismatch(
            f"divisor_override needs fixed spatial sizes here, came {x.type}; give input() them"
        )
    pads = window["pads"]
    pairs = list(zip(pads[:rank], pads[rank:], strict=True))
    if window.get("ceil_mode"):
        pairs = [
            (before, max(after, _reach(size, k, s, before, after) - size - before))
            for size, k, s, (before, after) in zip(sizes, kernel, strides, pairs, strict=True)
        ]
    count = 1
    for k in kernel:
        count *= k
    means = ops.average_pool(surround(x, pairs), kernel_shape=kernel, strides=strides)
    return means * (count / divisor)


def _fixed(sizes: tuple[Any, ...]) -> bool:
    return all(isinstance(n, int) for n in sizes)


def _reach(size: int, kernel: int, stride: int, before: int, after: int) -> int:
    """Where the last window ends, counted in padded elements; none begins in the padding behind."""
    count = -(-(size + before + after - kernel) // stride) + 1
    if (count - 1) * stride >= size + before:
        count -= 1
    return (count - 1) * stride + kernel


@plain_layer
def avg_pool1d(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    name: str | None = None,
) -> Symbol:
    """The mean of each window, [N, C, W] -> [N, C, W']; see avg_pool2d.

    Keras AveragePooling1D; torch AvgPool1d; Owl avg_pool1d; ONNX AveragePool.
    """
    window = pool_window(x, 1, pool_size, strides, padding, ceil_mode)
    return _mean(x, window, count_include_pad)


@plain_layer
def avg_pool2d(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    divisor_override: int | None = None,
    name: str | None = None,
) -> Symbol:
    """The mean of each window, [N, C, H, W] -> [N, C, H', W'].

    strides, padding, ceil_mode and errors: as in max_pool2d. count_include_pad: whether padding
    counts as zeros in the mean; not in Keras and ONNX, but by default in torch. divisor_override:
    what the sum of a window is divided by instead of the number of its elements (BadAttribute
    for 0; with ceil_mode or a strided "same" the sizes must be fixed, else ShapeMismatch).

    Keras AveragePooling2D; torch AvgPool2d; Owl avg_pool2d; ONNX AveragePool.
    """
    window = pool_window(x, 2, pool_size, strides, padding, ceil_mode)
    return _mean(x, window, count_include_pad, divisor_override)


@plain_layer
def avg_pool3d(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    divisor_override: int | None = None,
    name: str | None = None,
) -> Symbol:
    """The mean of each window, [N, C, D, H, W] -> [N, C, D', H', W']; see avg_pool2d.

    Keras AveragePooling3D; torch AvgPool3d; ONNX AveragePool.
    """
    window = pool_window(x, 3, pool_size, strides, padding, ceil_mode)
    return _mean(x, window, count_include_pad, divisor_override)
