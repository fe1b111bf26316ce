"""Pooling over windows and over all of space.

Inputs are [batch, channels, *space]. As in Keras, windows do not overlap unless strides are given,
and nothing is padded unless asked for.
"""

from __future__ import annotations

from typing import Any

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import plain_layer
from neuralsym.layers.window import Padding, Sizes, axis_sizes, padding_attributes


def _window(
    x: Symbol,
    rank: int,
    pool_size: Sizes,
    strides: Sizes | None,
    padding: Padding,
    ceil_mode: bool,
    dilation_rate: Sizes = 1,
) -> dict[str, Any]:
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
    """The largest of each window, [N, C, W] -> [N, C, W']; see max_pool2d."""
    window = _window(x, 1, pool_size, strides, padding, ceil_mode, dilation_rate)
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

    strides: the pool size unless given. Padding counts as minus infinity. ceil_mode: sizes that
    do not divide give one more, partial window (torch's ceil_mode). Keras MaxPooling2D, torch
    MaxPool2d; ONNX MaxPool (whose own default stride is 1).
    """
    window = _window(x, 2, pool_size, strides, padding, ceil_mode, dilation_rate)
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
    """The largest of each window, [N, C, D, H, W] -> [N, C, D', H', W']; see max_pool2d."""
    window = _window(x, 3, pool_size, strides, padding, ceil_mode, dilation_rate)
    return _max_pool(x, window)


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
    """The mean of each window, [N, C, W] -> [N, C, W']; see avg_pool2d."""
    window = _window(x, 1, pool_size, strides, padding, ceil_mode)
    return ops.average_pool(x, count_include_pad=int(count_include_pad), **window)


@plain_layer
def avg_pool2d(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    name: str | None = None,
) -> Symbol:
    """The mean of each window, [N, C, H, W] -> [N, C, H', W'].

    count_include_pad: whether padding counts as zeros in the mean; not in Keras and ONNX, but by
    default in torch. strides, ceil_mode: as in max_pool2d. Keras AveragePooling2D, torch
    AvgPool2d; ONNX AveragePool.
    """
    window = _window(x, 2, pool_size, strides, padding, ceil_mode)
    return ops.average_pool(x, count_include_pad=int(count_include_pad), **window)


@plain_layer
def avg_pool3d(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    name: str | None = None,
) -> Symbol:
    """The mean of each window, [N, C, D, H, W] -> [N, C, D', H', W']; see avg_pool2d."""
    window = _window(x, 3, pool_size, strides, padding, ceil_mode)
    return ops.average_pool(x, count_include_pad=int(count_include_pad), **window)


# -- over all of space -------------------------------------------------------------------------
def _flat(y: Symbol, keepdims: bool) -> Symbol:
    return y if keepdims else ops.flatten(y, axis=1)


@plain_layer
def global_max_pool1d(x: Symbol, keepdims: bool = False, *, name: str | None = None) -> Symbol:
    """The largest over space, [N, C, W] -> [N, C], or [N, C, 1] with keepdims."""
    require_shape(x, 3)
    return _flat(ops.global_max_pool(x), keepdims)


@plain_layer
def global_max_pool2d(x: Symbol, keepdims: bool = False, *, name: str | None = None) -> Symbol:
    """The largest over space, [N, C, H, W] -> [N, C], or [N, C, 1, 1] with keepdims.

    Keras GlobalMaxPooling2D, torch AdaptiveMaxPool2d(1); ONNX GlobalMaxPool and Flatten.
    """
    require_shape(x, 4)
    return _flat(ops.global_max_pool(x), keepdims)


@plain_layer
def global_max_pool3d(x: Symbol, keepdims: bool = False, *, name: str | None = None) -> Symbol:
    """The largest over space, [N, C, D, H, W] -> [N, C], or [N, C, 1, 1, 1] with keepdims."""
    require_shape(x, 5)
    return _flat(ops.global_max_pool(x), keepdims)


@plain_layer
def global_avg_pool1d(x: Symbol, keepdims: bool = False, *, name: str | None = None) -> Symbol:
    """The mean over space, [N, C, W] -> [N, C], or [N, C, 1] with keepdims."""
    require_shape(x, 3)
    return _flat(ops.global_average_pool(x), keepdims)


@plain_layer
def global_avg_pool2d(x: Symbol, keepdims: bool = False, *, name: str | None = None) -> Symbol:
    """The mean over space, [N, C, H, W] -> [N, C], or [N, C, 1, 1] with keepdims.

    Keras GlobalAveragePooling2D, torch AdaptiveAvgPool2d(1); ONNX GlobalAveragePool and Flatten.
    """
    require_shape(x, 4)
    return _flat(ops.global_average_pool(x), keepdims)


@plain_layer
def global_avg_pool3d(x: Symbol, keepdims: bool = False, *, name: str | None = None) -> Symbol:
    """The mean over space, [N, C, D, H, W] -> [N, C], or [N, C, 1, 1, 1] with keepdims."""
    require_shape(x, 5)
    return _flat(ops.global_average_pool(x), keepdims)
