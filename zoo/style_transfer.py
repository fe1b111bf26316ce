"""Fast style transfer: Perceptual Losses for Real-Time Style Transfer (Johnson et al. 2016).

arXiv 1603.08155, as owl_symbolic has it: pixels of 0 to 255 in, pixels out, one style for a set
of weights. Its transposed convolutions are padded so that the picture keeps its size, for which
owl_symbolic left an edge of three pixels.
"""

from __future__ import annotations

from typing import Unpack

from neuralsym.core.symbol import Symbol
from neuralsym.layers import conv2d, layer, normalisation, relu, scope, tanh, transpose_conv2d
from neuralsym.layers.activation import Activation, activate
from neuralsym.network import Network
from neuralsym.zoo.preprocess import Preprocessing
from neuralsym.zoo.registry import Options, assemble, register

RESIDUAL_BLOCKS = 5


@layer
def conv(
    x: Symbol,
    filters: int,
    kernel: int,
    strides: int = 1,
    activation: Activation = "relu",
    name: str | None = None,
) -> Symbol:
    """A convolution, batch norm, and an activation."""
    return activate(x | conv2d(filters, kernel, strides) | normalisation(), activation)


@layer
def enlarge(x: Symbol, filters: int, name: str | None = None) -> Symbol:
    """Twice the height and width by a transposed 3x3 convolution, batch norm, ReLU."""
    return x | transpose_conv2d(filters, 3, 2, "same", use_bias=False) | normalisation() | relu


@layer
def residual_block(x: Symbol, name: str | None = None) -> Symbol:
    """Two 3x3 convolutions of 128 filters around a skip."""
    return x + (x | conv(128, 3, name="conv1") | conv(128, 3, activation=None, name="conv2"))


@register(
    "style_transfer",
    size=(3, 224, 224),
    classes=0,
    preprocessing=Preprocessing("raw", 224, (224, 224)),
    paper="arXiv 1603.08155",
    source="owl_symbolic",
    labels="",
)
def style_transfer(**options: Unpack[Options]) -> Network:
    """Fast style transfer: the output is a picture; 1,682,351 parameters.

    Sides that 4 does not divide grow to the next one that it does.
    """

    def features(x: Symbol) -> Symbol:
        x = x | conv(32, 9, name="conv1") | conv(64, 3, 2, name="conv2")
        x = x | conv(128, 3, 2, name="conv3")
        with scope("residual"):
            for i in range(RESIDUAL_BLOCKS):
                x = x | residual_block(name=f"block{i + 1}")
        return x

    def picture(x: Symbol, _: int) -> Symbol:
        x = x | enlarge(64, name="enlarge1") | enlarge(32, name="enlarge2")
        return (x | conv(3, 9, activation=None, name="conv4") | tanh) * 150.0 + 127.5

    return assemble("style_transfer", features, picture, "picture", **options)
