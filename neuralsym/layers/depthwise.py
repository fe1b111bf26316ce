"""Convolutions of each channel by itself, alone and followed by one over the channels.

Inputs are [batch, channels, *space]; `padding` is "same" unless given.
"""

from __future__ import annotations

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.activation import Activation, activate
from neuralsym.layers.base import require_shape
from neuralsym.layers.convolution import check_groups, window
from neuralsym.layers.factory import layer
from neuralsym.layers.initializers import fans
from neuralsym.layers.weights import Init, bias_weight, weight
from neuralsym.layers.window import Padding, Sizes, axis_sizes


def _depthwise(
    x: Symbol,
    rank: int,
    kernel_size: Sizes,
    strides: Sizes,
    padding: Padding,
    depth_multiplier: int,
    dilation_rate: Sizes,
    init: Init,
    weight_name: str,
    use_bias: bool,
    bias_init: Init,
) -> Symbol:
    channels = require_shape(x, rank + 2, axis=1)[1]
    kernel = axis_sizes(kernel_size, rank, "kernel_size")
    if depth_multiplier < 1:
        raise BadAttribute(f"depth_multiplier={depth_multiplier}: must be at least 1")
    shape = (channels * depth_multiplier, 1, *kernel)
    w = weight(weight_name, shape, init, fans=fans(shape, "conv", channels), dtype=x.dtype)
    b = bias_weight(x, shape[0], use_bias, bias_init)
    return ops.conv(x, w, b, **window(x, kernel, strides, dilation_rate, padding, channels))


@layer
def depthwise_conv1d(
    x: Symbol,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    depth_multiplier: int = 1,
    dilation_rate: Sizes = 1,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """Each channel convolved by itself, [N, C, W] -> [N, C * depth_multiplier, W'].

    See depthwise_conv2d; padding may be "causal".

    Keras DepthwiseConv1D; torch Conv1d with groups=C; ONNX Conv of group C.
    """
    y = _depthwise(
        x, 1, kernel_size, strides, padding, depth_multiplier, dilation_rate,
        kernel_initializer, "kernel", use_bias, bias_initializer,
    )  # fmt: skip
    return activate(y, activation)


@layer
def depthwise_conv2d(
    x: Symbol,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    depth_multiplier: int = 1,
    dilation_rate: Sizes = 1,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """Each channel convolved by itself, [N, C, H, W] -> [N, C * depth_multiplier, H', W'].

    Settings as in conv2d. Weights: kernel [C * depth_multiplier, 1, kh, kw], the results of one
    channel side by side, and bias [C * depth_multiplier]. Raises the errors of conv2d, and
    BadAttribute for a depth_multiplier below 1.

    Keras DepthwiseConv2D; torch Conv2d with groups=C; ONNX Conv of group C.
    """
    y = _depthwise(
        x, 2, kernel_size, strides, padding, depth_multiplier, dilation_rate,
        kernel_initializer, "kernel", use_bias, bias_initializer,
    )  # fmt: skip
    return activate(y, activation)


@layer
def depthwise_conv3d(
    x: Symbol,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    depth_multiplier: int = 1,
    dilation_rate: Sizes = 1,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """Each channel convolved by itself, [N, C * depth_multiplier, D', H', W'].

    See depthwise_conv2d.

    torch Conv3d with groups=C; ONNX Conv of group C.
    """
    y = _depthwise(
        x, 3, kernel_size, strides, padding, depth_multiplier, dilation_rate,
        kernel_initializer, "kernel", use_bias, bias_initializer,
    )  # fmt: skip
    return activate(y, activation)


def _separable(
    x: Symbol,
    rank: int,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes,
    padding: Padding,
    depth_multiplier: int,
    dilation_rate: Sizes,
    activation: Activation,
    use_bias: bool,
    depthwise_initializer: Init,
    pointwise_initializer: Init,
    bias_initializer: Init,
) -> Symbol:
    y = _depthwise(
        x, rank, kernel_size, strides, padding, depth_multiplier, dilation_rate,
        depthwise_initializer, "depthwise_kernel", False, "zeros",
    )  # fmt: skip
    channels = require_shape(y, axis=1)[1]
    check_groups(channels, filters, 1)
    shape = (filters, channels, *(1,) * rank)
    spread = fans(shape, "conv")
    w = weight("pointwise_kernel", shape, pointwise_initializer, fans=spread, dtype=x.dtype)
    b = bias_weight(x, filters, use_bias, bias_initializer)
    return activate(ops.conv(y, w, b, **window(y, (1,) * rank, 1, 1, "valid")), activation)


@layer
def separable_conv1d(
    x: Symbol,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    depth_multiplier: int = 1,
    dilation_rate: Sizes = 1,
    activation: Activation = None,
    use_bias: bool = True,
    depthwise_initializer: Init = "glorot_uniform",
    pointwise_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """A depthwise convolution, then a 1-wide one over the channels: [N, C, W] -> [N, filters, W'].

    See separable_conv2d.

    Keras SeparableConv1D; ONNX Conv of group C, then Conv.
    """
    return _separable(
        x, 1, filters, kernel_size, strides, padding, depth_multiplier, dilation_rate, activation,
        use_bias, depthwise_initializer, pointwise_initializer, bias_initializer,
    )  # fmt: skip


@layer
def separable_conv2d(
    x: Symbol,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    depth_multiplier: int = 1,
    dilation_rate: Sizes = 1,
    activation: Activation = None,
    use_bias: bool = True,
    depthwise_initializer: Init = "glorot_uniform",
    pointwise_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """A depthwise convolution, then a 1x1 one over channels: [N, C, H, W] -> [N, filters, H', W'].

    Settings as in depthwise_conv2d. Weights: depthwise_kernel [C * depth_multiplier, 1, kh, kw],
    pointwise_kernel [filters, C * depth_multiplier, 1, 1], bias [filters]. Raises its errors.

    Keras SeparableConv2D; ONNX Conv of group C, then Conv.
    """
    return _separable(
        x, 2, filters, kernel_size, strides, padding, depth_multiplier, dilation_rate, activation,
        use_bias, depthwise_initializer, pointwise_initializer, bias_initializer,
    )  # fmt: skip


@layer
def separable_conv3d(
    x: Symbol,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    depth_multiplier: int = 1,
    dilation_rate: Sizes = 1,
    activation: Activation = None,
    use_bias: bool = True,
    depthwise_initializer: Init = "glorot_uniform",
    pointwise_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """A depthwise convolution, then a 1x1x1 one over the channels: [N, filters, D', H', W'].

    See separable_conv2d.

    ONNX Conv of group C, then Conv.
    """
    return _separable(
        x, 3, filters, kernel_size, strides, padding, depth_multiplier, dilation_rate, activation,
        use_bias, depthwise_initializer, pointwise_initializer, bias_initializer,
    )  # fmt: skip
