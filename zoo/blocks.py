"""Blocks that several families of the zoo are built of.

Every setting that Keras and torchvision choose differently is explicit here: padding, epsilon,
biases, the activation and the first values of weights. Keras's ZeroPadding2D(correct_pad(...))
before a "valid" convolution is padding="same", which the file has as explicit pads.
"""

from __future__ import annotations

from collections.abc import Callable

from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    batch_norm,
    conv2d,
    depthwise_conv2d,
    dropout,
    fully_connected,
    global_avg_pool2d,
    initializers,
    layer,
    require_shape,
)
from neuralsym.layers.activation import Activation, activate
from neuralsym.layers.weights import Init
from neuralsym.layers.window import Padding, Sizes, axis_sizes

KAIMING = initializers.kaiming_normal(mode="fan_out")
"""torchvision's first values of the kernels of convolutions."""

BRANCH_GAMMA = 0.2
"""The first gamma of the last batch norm of a residual branch. With 1, as torchvision begins, each
block doubles the variance where batch norm does not measure it, and an untrained ResNet-152
answers with numbers of 1e7."""


def half(kernel_size: Sizes, dilation_rate: Sizes = 1) -> tuple[int, int]:
    """torch's usual padding: half of the kernel on each side, so that stride 1 keeps the size."""
    kernel = axis_sizes(kernel_size, 2, "kernel_size")
    gaps = axis_sizes(dilation_rate, 2, "dilation_rate")
    return (kernel[0] - 1) // 2 * gaps[0], (kernel[1] - 1) // 2 * gaps[1]


@layer
def conv_bn(
    x: Symbol,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding | None = None,
    *,
    groups: int = 1,
    dilation_rate: Sizes = 1,
    activation: Activation = None,
    use_bias: bool = False,
    epsilon: float = 1e-5,
    scale: bool = True,
    kernel_initializer: Init = KAIMING,
    gamma_initializer: Init = "ones",
    name: str | None = None,
) -> Symbol:
    """A convolution, its batch norm and an activation: [N, C, H, W] -> [N, filters, H', W'].

    padding: half of the kernel on each side unless given. The defaults are torchvision's. Weights
    under conv2d/ and normalisation/.
    """
    y = x | conv2d(
        filters,
        kernel_size,
        strides,
        half(kernel_size, dilation_rate) if padding is None else padding,
        groups=groups,
        dilation_rate=dilation_rate,
        use_bias=use_bias,
        kernel_initializer=kernel_initializer,
    )
    y = y | batch_norm(epsilon=epsilon, scale=scale, gamma_initializer=gamma_initializer)
    return activate(y, activation)


@layer
def depthwise_bn(
    x: Symbol,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding | None = None,
    *,
    dilation_rate: Sizes = 1,
    activation: Activation = None,
    use_bias: bool = False,
    epsilon: float = 1e-5,
    kernel_initializer: Init = KAIMING,
    gamma_initializer: Init = "ones",
    name: str | None = None,
) -> Symbol:
    """conv_bn of each channel by itself. Weights under depthwise_conv2d/ and normalisation/."""
    y = x | depthwise_conv2d(
        kernel_size,
        strides,
        half(kernel_size, dilation_rate) if padding is None else padding,
        dilation_rate=dilation_rate,
        use_bias=use_bias,
        kernel_initializer=kernel_initializer,
    )
    y = y | batch_norm(epsilon=epsilon, gamma_initializer=gamma_initializer)
    return activate(y, activation)


@layer
def squeeze_excite(
    x: Symbol,
    squeezed: int,
    inner: Activation = "relu",
    gate: Activation = "sigmoid",
    *,
    kernel_initializer: Init = KAIMING,
    name: str | None = None,
) -> Symbol:
    """Each channel times a gate that the means of all channels give; the shape stays.

    squeezed: the channels between the two 1x1 convolutions `reduce` and `expand`, which have
    biases. Hu et al. 2017, arXiv 1709.01507.
    """
    channels = require_shape(x, 4, axis=1)[1]
    y = (
        x
        | global_avg_pool2d(keepdims=True)
        | conv2d(
            squeezed, 1, activation=inner, kernel_initializer=kernel_initializer, name="reduce"
        )
        | conv2d(channels, 1, activation=gate, kernel_initializer=kernel_initializer, name="expand")
    )
    return x * y


def pooled_head(
    kernel_initializer: Init = "standard", rate: float = 0.0
) -> Callable[[Symbol, int], Symbol]:
    """The head that most networks have: the mean of each channel, dropout, the affine map `fc`."""

    def head(x: Symbol, classes: int) -> Symbol:
        affine = fully_connected(classes, kernel_initializer=kernel_initializer, name="fc")
        return x | global_avg_pool2d() | dropout(rate) | affine

    return head


def divisible(channels: float, divisor: int = 8, least: int | None = None) -> int:
    """The multiple of `divisor` next to `channels`, never over a tenth below; at least `least`.

    The rounding of MobileNets, MNASNet, EfficientNet and RegNet for scaled widths.
    """
    made = max(least or divisor, int(channels + divisor / 2) // divisor * divisor)
    return made + divisor if made < 0.9 * channels else made
