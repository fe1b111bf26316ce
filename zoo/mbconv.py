"""The inverted residual of MobileNetV2 and the forms of it that later families are built of.

Sandler et al. 2018, arXiv 1801.04381, figure 3: a 1x1 convolution to many channels, a depthwise
one, and a 1x1 to few, with the shortcut between the few. MobileNetV3 and EfficientNet excite the
many; EfficientNetV2 makes one full convolution of the first two.
"""

from __future__ import annotations

from dataclasses import dataclass

from neuralsym.core.symbol import Symbol
from neuralsym.layers import Layer, initializers, layer, require_shape
from neuralsym.layers.activation import Activation
from neuralsym.layers.weights import Init
from neuralsym.layers.window import Padding
from neuralsym.zoo.blocks import conv_bn, depthwise_bn, squeeze_excite

# The first values of kernels. Those of a paper are made for batch norms that measure: with the
# statistics that an untrained network has, blocks that add as much as they get grow too large.
KERNEL = initializers.he_normal
ADDED = initializers.he_normal(0.2)


@dataclass(frozen=True)
class Style:
    """Where torchvision and Keras differ, and the parts that blocks are built of.

    padding: None is torch's half of the kernel on each side, "same" TensorFlow's, which differs
    under a stride over an even size. inner, gate: the activations of squeeze-excitation.
    """

    epsilon: float = 1e-5
    padding: Padding | None = None
    inner: Activation = "relu"
    gate: Activation = "sigmoid"

    def conv(
        self,
        filters: int,
        kernel: int = 1,
        strides: int = 1,
        activation: Activation = None,
        initial: Init = KERNEL,
        name: str | None = None,
    ) -> Layer[Symbol, Symbol]:
        """A convolution, its batch norm and an activation."""
        return conv_bn(
            filters,
            kernel,
            strides,
            self.padding,
            activation=activation,
            epsilon=self.epsilon,
            kernel_initializer=initial,
            name=name,
        )

    def depthwise(
        self, kernel: int, strides: int = 1, activation: Activation = None
    ) -> Layer[Symbol, Symbol]:
        """The same of each channel by itself."""
        return depthwise_bn(
            kernel,
            strides,
            self.padding,
            activation=activation,
            epsilon=self.epsilon,
            kernel_initializer=KERNEL,
            name="depthwise",
        )

    def excite(self, squeezed: int) -> Layer[Symbol, Symbol]:
        """Squeeze-excitation through that many channels."""
        return squeeze_excite(
            squeezed, self.inner, self.gate, kernel_initializer=KERNEL, name="squeeze_excite"
        )


@layer
def inverted_residual(
    x: Symbol,
    filters: int,
    kernel: int,
    strides: int,
    expanded: int,
    activation: Activation,
    style: Style,
    squeezed: int = 0,
    name: str | None = None,
) -> Symbol:
    """1x1 to `expanded` channels, depthwise, 1x1 to `filters`, around a shortcut; MBConv.

    Without the first convolution where the input has `expanded` channels already, without the
    shortcut where the shape changes. squeezed: the channels of squeeze-excitation, 0 for none.
    """
    channels = require_shape(x, 4, axis=1)[1]
    y = x
    if expanded != channels:
        y = y | style.conv(expanded, activation=activation, name="expand")
    y = y | style.depthwise(kernel, strides, activation)
    if squeezed:
        y = y | style.excite(squeezed)
    around = strides == 1 and channels == filters
    y = y | style.conv(filters, initial=ADDED if around else KERNEL, name="project")
    return x + y if around else y


@layer
def fused_inverted_residual(
    x: Symbol,
    filters: int,
    kernel: int,
    strides: int,
    expanded: int,
    activation: Activation,
    style: Style,
    name: str | None = None,
) -> Symbol:
    """A full convolution to `expanded` channels, 1x1 to `filters`, around a shortcut.

    One full convolution to `filters` where the input has `expanded` channels already. Fused-MBConv,
    Tan and Le 2021, arXiv 2104.00298, figure 2.
    """
    channels = require_shape(x, 4, axis=1)[1]
    around = strides == 1 and channels == filters
    initial = ADDED if around else KERNEL
    if expanded == channels:
        y = x | style.conv(filters, kernel, strides, activation, initial, "project")
    else:
        y = x | style.conv(expanded, kernel, strides, activation, name="expand")
        y = y | style.conv(filters, initial=initial, name="project")
    return x + y if around else y
