"""Convolutions over one to three spatial axes.

Inputs are [batch, channels, *space]; the number of input channels comes from the pipe. Unlike
Keras's and torch's, `padding` is "same" unless given, as in the seed.
"""

from __future__ import annotations

from typing import Any

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.activation import Activation, activate
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer
from neuralsym.layers.initializers import fans
from neuralsym.layers.padding import PaddingMode, border_mode, surround
from neuralsym.layers.weights import Init, bias_weight, weight
from neuralsym.layers.window import Padding, Sizes, axis_sizes, padding_attributes


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


def bordered(
    x: Symbol, settings: dict[str, Any], padding_mode: PaddingMode
) -> tuple[Symbol, dict[str, Any]]:
    """x with the border that Conv would have padded with zeros, and Conv's settings without it."""
    mode = border_mode(padding_mode)
    if mode == "constant":
        return x, settings
    if "auto_pad" in settings:
        raise ShapeMismatch(
            f"padding_mode={padding_mode!r} with padding 'same' and a stride over 1 needs fixed "
            f"spatial sizes, came {x.type}; give input() these sizes"
        )
    pads = settings["pads"]
    rank = len(pads) // 2
    x = surround(x, list(zip(pads[:rank], pads[rank:], strict=True)), mode)
    return x, settings | {"pads": (0,) * len(pads)}


def check_groups(channels: int, filters: int, groups: int) -> None:
    """Raise BadAttribute unless the groups divide the channels on both sides."""
    if filters < 1:
        raise BadAttribute(f"filters={filters}: must be at least 1")
    if groups < 1 or channels % groups or filters % groups:
        raise BadAttribute(
            f"groups={groups}: must divide the {channels} input channels and the {filters} filters"
        )


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
    padding_mode: PaddingMode,
) -> Symbol:
    channels = require_shape(x, rank + 2, axis=1)[1]
    kernel = axis_sizes(kernel_size, rank, "kernel_size")
    check_groups(channels, filters, groups)
    shape = (filters, channels // groups, *kernel)
    w = weight("kernel", shape, kernel_initializer, fans=fans(shape, "conv", groups), dtype=x.dtype)
    b = bias_weight(x, filters, use_bias, bias_initializer)
    settings = window(x, kernel, strides, dilation_rate, padding, groups)
    x, settings = bordered(x, settings, padding_mode)
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
    padding_mode: PaddingMode = "zeros",
    name: str | None = None,
) -> Symbol:
    """A convolution over one spatial axis, [N, C, W] -> [N, filters, W']; see conv2d.

    padding="causal" looks at the past only: everything is padded before.

    Keras Conv1D; torch Conv1d; Owl conv1d; ONNX Conv.
    """
    return _conv(
        x, 1, filters, kernel_size, strides, padding, dilation_rate, groups,
        activation, use_bias, kernel_initializer, bias_initializer, padding_mode,
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
    padding_mode: PaddingMode = "zeros",
    name: str | None = None,
) -> Symbol:
    """A convolution over two spatial axes, [N, C, H, W] -> [N, filters, H', W'].

    padding: "same" (as many results as ceil(size / stride)), "valid" (none, Keras's and torch's
    default), "same_lower", a number for each side (torch), a number or a (before, after) pair for
    each axis; the file has explicit pads. padding_mode: what lies there, "zeros", "reflect",
    "replicate" or "circular". dilation_rate: the distance between elements of the kernel, also
    with strides. groups: parts of the channels that are convolved apart. activation: a name or a
    function. Weights: kernel [filters, C / groups, kh, kw] and bias [filters] unless use_bias is
    off. Raises ShapeMismatch for an input of another rank or an open number of channels,
    BadAttribute for groups that do not divide and for forms that are none of these.

    Keras Conv2D; torch Conv2d; Owl conv2d; ONNX Conv, after a Pad for another padding_mode.
    """
    return _conv(
        x, 2, filters, kernel_size, strides, padding, dilation_rate, groups,
        activation, use_bias, kernel_initializer, bias_initializer, padding_mode,
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
    padding_mode: PaddingMode = "zeros",
    name: str | None = None,
) -> Symbol:
    """A convolution over three spatial axes, [N, C, D, H, W] -> [N, filters, D', H', W'].

    See conv2d.

    Keras Conv3D; torch Conv3d; Owl conv3d; ONNX Conv.
    """
    return _conv(
        x, 3, filters, kernel_size, strides, padding, dilation_rate, groups,
        activation, use_bias, kernel_initializer, bias_initializer, padding_mode,
    )  # fmt: skip


# -- as Owl orders them ------------------------------------------------------------------------
@layer
def dilated_conv1d(
    x: Symbol,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes,
    dilation_rate: Sizes,
    padding: Padding = "same",
    *,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """conv1d with the dilation rate in its place, [N, C, W] -> [N, filters, W'].

    Weights and errors are those of conv2d.

    Keras Conv1D with dilation_rate; torch Conv1d with dilation; Owl dilated_conv1d; ONNX Conv.
    """
    return _conv(
        x, 1, filters, kernel_size, strides, padding, dilation_rate, 1,
        activation, use_bias, kernel_initializer, bias_initializer, "zeros",
    )  # fmt: skip


@layer
def dilated_conv2d(
    x: Symbol,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes,
    dilation_rate: Sizes,
    padding: Padding = "same",
    *,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """conv2d with the dilation rate in its place, [N, C, H, W] -> [N, filters, H', W'].

    Weights and errors are those of conv2d.

    Keras Conv2D with dilation_rate; torch Conv2d with dilation; Owl dilated_conv2d; ONNX Conv.
    """
    return _conv(
        x, 2, filters, kernel_size, strides, padding, dilation_rate, 1,
        activation, use_bias, kernel_initializer, bias_initializer, "zeros",
    )  # fmt: skip


@layer
def dilated_conv3d(
    x: Symbol,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes,
    dilation_rate: Sizes,
    padding: Padding = "same",
    *,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """conv3d with the dilation rate in its place, [N, C, D, H, W] -> [N, filters, D', H', W'].

    Weights and errors are those of conv2d.

    Keras Conv3D with dilation_rate; torch Conv3d with dilation; Owl dilated_conv3d; ONNX Conv.
    """
    return _conv(
        x, 3, filters, kernel_size, strides, padding, dilation_rate, 1,
        activation, use_bias, kernel_initializer, bias_initializer, "zeros",
    )  # fmt: skip
