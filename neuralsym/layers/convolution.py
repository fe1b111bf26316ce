"""Convolutions over one to three spatial axes.

Inputs are [batch, channels, *space]; the number of input channels comes from the pipe. Unlike
Keras's and torch's, `padding` is "same" unless given, as in the seed.
"""

from __future__ import annotations

from typing import Any

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.activation import Activation, activate
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer
from neuralsym.layers.initializers import fans
from neuralsym.layers.weights import Init, weight
from neuralsym.layers.window import (
    Padding,
    Sizes,
    axis_sizes,
    padding_attributes,
)


def window(
    x: Symbol,
    kernel: tuple[int, ...],
    strides: Sizes,
    dilation: Sizes,
    padding: Padding,
    groups: int = 1,
) -> dict[str, Any]:
    """The attributes of a Conv over x, but for those that have ONNX's defaults."""
    rank = len(kernel)
    steps = axis_sizes(strides, rank, "strides")
    gaps = axis_sizes(dilation, rank, "dilation_rate")
    made: dict[str, Any] = {"kernel_shape": kernel, "strides": steps}
    made |= padding_attributes(padding, require_shape(x)[2:], kernel, steps, gaps)
    if max(gaps) > 1:
        made["dilations"] = gaps
    if groups > 1:
        made["group"] = groups
    return made


def check_groups(channels: int, filters: int, groups: int) -> None:
    """Raise BadAttribute unless the groups divide the channels on both sides."""
    if filters < 1:
        raise BadAttribute(f"filters={filters}: must be at least 1")
    if groups < 1 or channels % groups or filters % groups:
        raise BadAttribute(
            f"groups={groups}: must divide the {channels} input channels and the {filters} filters"
        )


def bias_weight(x: Symbol, size: int, use_bias: bool, init: Init) -> Symbol | None:
    """The weight `bias` for the channels that come out of x."""
    if not use_bias:
        return None
    return weight("bias", (size,), init, fans=fans((size,), "vector"), dtype=x.dtype)


def _conv(
    x: Symbol,
    rank: int,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes,
    padding: Padding,
    dilation_rate: Sizes,
    groups: int,
    activation: Activation,
    use_bias: bool,
    kernel_initializer: Init,
    bias_initializer: Init,
) -> Symbol:
    channels = require_shape(x, rank + 2, axis=1)[1]
    kernel = axis_sizes(kernel_size, rank, "kernel_size")
    check_groups(channels, filters, groups)
    shape = (filters, channels // groups, *kernel)
    w = weight("kernel", shape, kernel_initializer, fans=fans(shape, "conv", groups), dtype=x.dtype)
    b = bias_weight(x, filters, use_bias, bias_initializer)
    settings = window(x, kernel, strides, dilation_rate, padding, groups)
    return activate(ops.conv(x, w, b, **settings), activation)


@layer
def conv1d(
    x: Symbol,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    dilation_rate: Sizes = 1,
    groups: int = 1,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """A convolution over one spatial axis, [N, C, W] -> [N, filters, W']; see conv2d.

    padding="causal" looks at the past only: everything is padded before. Keras Conv1D, torch
    Conv1d.
    """
    return _conv(
        x, 1, filters, kernel_size, strides, padding, dilation_rate, groups,
        activation, use_bias, kernel_initializer, bias_initializer,
    )  # fmt: skip


@layer
def conv2d(
    x: Symbol,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    dilation_rate: Sizes = 1,
    groups: int = 1,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """A convolution over two spatial axes, [N, C, H, W] -> [N, filters, H', W'].

    `padding` is one of the forms in `window.Padding`; the file has explicit pads. Weights: kernel
    [filters, C / groups, kh, kw] and bias [filters]. Keras Conv2D (default padding "valid"),
    torch Conv2d; ONNX Conv. Raises ShapeMismatch for an input of another rank or an open number
    of channels, BadAttribute for groups that do not divide.
    """
    return _conv(
        x, 2, filters, kernel_size, strides, padding, dilation_rate, groups,
        activation, use_bias, kernel_initializer, bias_initializer,
    )  # fmt: skip


@layer
def conv3d(
    x: Symbol,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    dilation_rate: Sizes = 1,
    groups: int = 1,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """A convolution over three spatial axes, [N, C, D, H, W] -> [N, filters, D', H', W'].

    See conv2d. Keras Conv3D, torch Conv3d.
    """
    return _conv(
        x, 3, filters, kernel_size, strides, padding, dilation_rate, groups,
        activation, use_bias, kernel_initializer, bias_initializer,
    )  # fmt: skip
