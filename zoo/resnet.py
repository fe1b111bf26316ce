"""ResNet: Deep Residual Learning for Image Recognition (He et al. 2015, arXiv 1512.03385), table 1.

torchvision's form is v1.5: a bottleneck strides in its 3x3 convolution, and convolutions have no
biases. Keras's form strides in the first 1x1 convolution, as the paper does, has biases, and
another epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    Layer,
    fully_connected,
    global_avg_pool2d,
    layer,
    max_pool2d,
    relu,
    scope,
)
from neuralsym.layers.weights import Init
from neuralsym.network import Network
from neuralsym.zoo.blocks import KAIMING, conv_bn
from neuralsym.zoo.preprocess import Preprocessing
from neuralsym.zoo.registry import Make, Options, assemble, register

PAPER = "arXiv 1512.03385"
TORCH = Preprocessing("torch", 256, (224, 224))
CAFFE = Preprocessing("caffe", 256, (224, 224))


@dataclass(frozen=True)
class Style:
    """Where torchvision and Keras differ.

    early: a bottleneck strides in its first 1x1. last: gamma of a block's last batch norm before
    it is trained. With 1, as torchvision begins, each block doubles the variance where batch norm
    does not measure it, and an untrained ResNet-152 answers with numbers of 1e7.
    """

    early: bool
    bias: bool
    epsilon: float
    kernel: Init
    dense: Init
    last: float

    def conv(
        self, filters: int, kernel: int, strides: int = 1, gamma: Init = 1.0, **settings: Any
    ) -> Layer[Symbol, Symbol]:
        """A convolution and its batch norm."""
        return conv_bn(
            filters,
            kernel,
            strides,
            use_bias=self.bias,
            epsilon=self.epsilon,
            kernel_initializer=self.kernel,
            gamma_initializer=gamma,
            **settings,
        )


TORCHVISION = Style(False, False, 1e-5, KAIMING, "standard", last=0.2)
KERAS = Style(True, True, 1.001e-5, "glorot_uniform", "glorot_uniform", last=1.0)


@layer
def basic(x: Symbol, filters: int, strides: int, style: Style, name: str | None = None) -> Symbol:
    """Two 3x3 convolutions around a shortcut."""
    y = x | style.conv(filters, 3, strides) | relu
    y = y | style.conv(filters, 3, 1, style.last)
    return y + _shortcut(x, filters, strides, style) | relu


@layer
def bottleneck(
    x: Symbol, filters: int, strides: int, style: Style, name: str | None = None
) -> Symbol:
    """1x1 to `filters`, 3x3, 1x1 to four times `filters`, around a shortcut."""
    first, middle = (strides, 1) if style.early else (1, strides)
    y = (
        x
        | style.conv(filters, 1, first)
        | relu
        | style.conv(filters, 3, middle)
        | relu
        | style.conv(4 * filters, 1, 1, style.last)
    )
    return y + _shortcut(x, 4 * filters, strides, style) | relu


def _shortcut(x: Symbol, filters: int, strides: int, style: Style) -> Symbol:
    """The input itself, or a projection where the size or the channels change."""
    if strides == 1 and x.shape is not None and x.shape[1] == filters:
        return x
    return x | style.conv(filters, 1, strides, name="shortcut")


Block = Callable[..., Layer[Symbol, Symbol]]


def resnet(
    name: str,
    block: Block,
    depths: Sequence[int],
    style: Style,
    options: Options,
) -> Network:
    """Stem, four stages of 64, 128, 256, 512 filters, and one affine map."""

    def features(x: Symbol) -> Symbol:
        with scope("stem"):
            x = x | style.conv(64, 7, 2) | relu | max_pool2d(3, 2, padding=1)
        for stage, depth in enumerate(depths):
            with scope(f"stage{stage + 1}"):
                for i in range(depth):
                    strides = 2 if stage > 0 and i == 0 else 1
                    x = x | block(64 * 2**stage, strides, style, name=f"block{i + 1}")
        return x

    def head(x: Symbol, classes: int) -> Symbol:
        return (
            x
            | global_avg_pool2d()
            | fully_connected(classes, kernel_initializer=style.dense, name="fc")
        )

    return assemble(name, features, head, **options)


def _enter(name: str, style: Style, accuracy: str, *aliases: str) -> Callable[[Make], Make]:
    torch = style is TORCHVISION
    return register(
        name,
        size=(3, 224, 224),
        preprocessing=TORCH if torch else CAFFE,
        paper=PAPER,
        source="torchvision" if torch else "Keras",
        accuracy=accuracy,
        aliases=aliases,
    )


@_enter("resnet18", TORCHVISION, "69.758 / 89.078")
def resnet18(**options: Unpack[Options]) -> Network:
    """ResNet-18 as torchvision has it (v1.5)."""
    return resnet("resnet18", basic, (2, 2, 2, 2), TORCHVISION, options)


@_enter("resnet34", TORCHVISION, "73.314 / 91.42")
def resnet34(**options: Unpack[Options]) -> Network:
    """ResNet-34 as torchvision has it (v1.5)."""
    return resnet("resnet34", basic, (3, 4, 6, 3), TORCHVISION, options)


@_enter("resnet50", TORCHVISION, "76.13 / 92.862")
def resnet50(**options: Unpack[Options]) -> Network:
    """ResNet-50 as torchvision has it (v1.5)."""
    return resnet("resnet50", bottleneck, (3, 4, 6, 3), TORCHVISION, options)


@_enter("resnet101", TORCHVISION, "77.374 / 93.546")
def resnet101(**options: Unpack[Options]) -> Network:
    """ResNet-101 as torchvision has it (v1.5)."""
    return resnet("resnet101", bottleneck, (3, 4, 23, 3), TORCHVISION, options)


@_enter("resnet152", TORCHVISION, "78.312 / 94.046")
def resnet152(**options: Unpack[Options]) -> Network:
    """ResNet-152 as torchvision has it (v1.5)."""
    return resnet("resnet152", bottleneck, (3, 8, 36, 3), TORCHVISION, options)


@_enter("resnet50_keras", KERAS, "74.9 / 92.1", "resnet50_v1")
def resnet50_keras(**options: Unpack[Options]) -> Network:
    """ResNet-50 as Keras has it."""
    return resnet("resnet50_keras", bottleneck, (3, 4, 6, 3), KERAS, options)


@_enter("resnet101_keras", KERAS, "76.4 / 92.8", "resnet101_v1")
def resnet101_keras(**options: Unpack[Options]) -> Network:
    """ResNet-101 as Keras has it."""
    return resnet("resnet101_keras", bottleneck, (3, 4, 23, 3), KERAS, options)


@_enter("resnet152_keras", KERAS, "76.6 / 93.1", "resnet152_v1")
def resnet152_keras(**options: Unpack[Options]) -> Network:
    """ResNet-152 as Keras has it."""
    return resnet("resnet152_keras", bottleneck, (3, 8, 36, 3), KERAS, options)


resnet50_v1 = resnet50_keras
resnet101_v1 = resnet101_keras
resnet152_v1 = resnet152_keras
