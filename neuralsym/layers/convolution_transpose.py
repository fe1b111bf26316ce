"""Transposed convolutions over one to three spatial axes: the shapes of a convolution backwards.

Inputs are [batch, channels, *space]; `padding` is "same" unless given.
"""

from __future__ import annotations

from typing import Any

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.layers.activation import Activation, activate
from neuralsym.layers.base import require_shape
from neuralsym.layers.convolution import check_groups
from neuralsym.layers.factory import layer
from neuralsym.layers.initializers import fans
from neuralsym.layers.padding import surround
from neuralsym.layers.weights import Init, bias_weight, weight
from neuralsym.layers.window import Padding, Sizes, axis_sizes, transpose_attributes


def _transpose_conv(
    x: Symbol,
    rank: int,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes,
    padding: Padding,
    output_padding: Sizes | None,
    dilation_rate: Sizes,
    groups: int,
    activation: Activation,
    use_bias: bool,
    kernel_initializer: Init,
    bias_initializer: Init,
) -> Symbol:
    channels = require_shape(x, rank + 2, axis=1)[1]
    kernel = axis_sizes(kernel_size, rank, "kernel_size")
    steps = axis_sizes(strides, rank, "strides")
    gaps = axis_sizes(dilation_rate, rank, "dilation_rate")
    extra = None
    if output_padding is not None:
        extra = axis_sizes(output_padding, rank, "output_padding", least=0)
    check_groups(channels, filters, groups)
    shape = (channels, filters // groups, *kernel)
    w = weight(
        "kernel",
        shape,
        kernel_initializer,
        fans=fans(shape, "conv_transpose", groups),
        dtype=x.dtype,
    )
    b = bias_weight(x, filters, use_bias, bias_initializer)
    settings: dict[str, Any] = {"kernel_shape": kernel, "strides": steps}
    settings |= transpose_attributes(padding, kernel, steps, gaps, extra)
    if max(gaps) > 1:
        settings["dilations"] = gaps
    if groups > 1:
        settings["group"] = groups
    added = settings.get("output_padding", ())
    if any(o >= s for o, s in zip(added, steps, strict=False)):
        # Beyond what ONNX's output_padding may be: elements that no kernel reaches.
        del settings["output_padding"]
        y = surround(ops.conv_transpose(x, w, **settings), [(0, o) for o in added])
        y = y if b is None else y + ops.unsqueeze(b, list(range(1, rank + 1)))
        return activate(y, activation)
    return activate(ops.conv_transpose(x, w, b, **settings), activation)


@layer
def transpose_conv1d(
    x: Symbol,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    output_padding: Sizes | None = None,
    dilation_rate: Sizes = 1,
    groups: int = 1,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """The transpose of conv1d, [N, C, W] -> [N, filters, W * stride]; see transpose_conv2d.

    Keras Conv1DTranspose; torch ConvTranspose1d; Owl transpose_conv1d; ONNX ConvTranspose.
    """
    return _transpose_conv(
        x, 1, filters, kernel_size, strides, padding, output_padding, dilation_rate, groups,
        activation, use_bias, kernel_initializer, bias_initializer,
    )  # fmt: skip


@layer
def transpose_conv2d(
    x: Symbol,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    output_padding: Sizes | None = None,
    dilation_rate: Sizes = 1,
    groups: int = 1,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """The transpose of conv2d: [N, C, H, W] -> [N, filters, H * stride, W * stride] for "same".

    "valid" (Keras's default) gives size * stride + max(kernel - stride, 0); explicit padding p on
    both sides (size - 1) * stride + kernel - 2p + output_padding, as in torch, where `kernel` is
    what a dilated one spans. output_padding: elements more at the end, 0 for explicit padding
    unless given; with "same" it makes Keras's (size - 1) * stride + kernel % 2 + output_padding.
    Weights: kernel [C, filters / groups, kh, kw] and bias [filters] unless use_bias is off. Raises
    BadAttribute for an output_padding that is not below the stride or dilation and for groups that
    do not divide, ShapeMismatch for an input of another rank or an open number of channels.

    Keras Conv2DTranspose; torch ConvTranspose2d; Owl transpose_conv2d; ONNX ConvTranspose.
    """
    return _transpose_conv(
        x, 2, filters, kernel_size, strides, padding, output_padding, dilation_rate, groups,
        activation, use_bias, kernel_initializer, bias_initializer,
    )  # fmt: skip


@layer
def transpose_conv3d(
    x: Symbol,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    output_padding: Sizes | None = None,
    dilation_rate: Sizes = 1,
    groups: int = 1,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """The transpose of conv3d, sizes times the stride for "same"; see transpose_conv2d.

    Keras Conv3DTranspose; torch ConvTranspose3d; Owl transpose_conv3d; ONNX ConvTranspose.
    """
    return _transpose_conv(
        x, 3, filters, kernel_size, strides, padding, output_padding, dilation_rate, groups,
        activation, use_bias, kernel_initializer, bias_initializer,
    )  # fmt: skip
