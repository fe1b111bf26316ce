"""Xception: Deep Learning with Depthwise Separable Convolutions (Chollet 2016), figure 5.

As Keras has it: batch norms of its default epsilon, borders as TensorFlow pads them.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    Layer,
    batch_norm,
    initializers,
    layer,
    max_pool2d,
    relu,
    scope,
    separable_conv2d,
)
from neuralsym.layers.weights import Init
from neuralsym.layers.window import Padding
from neuralsym.network import Network
from neuralsym.zoo.blocks import conv_bn, pooled_head
from neuralsym.zoo.registry import Family, Options, assemble

EPSILON = 1e-3
KERNEL = initializers.he_normal
ADDED = initializers.he_normal(0.2)
"""The first values of what is added to a shortcut, so that an untrained network does not grow."""


def conv(
    filters: int, kernel: int, strides: int = 1, padding: Padding = "same", name: str | None = None
) -> Layer[Symbol, Symbol]:
    """A full convolution without bias, and its batch norm."""
    return conv_bn(filters, kernel, strides, padding, epsilon=EPSILON, name=name)


@layer
def separable(x: Symbol, filters: int, initial: Init = KERNEL, name: str | None = None) -> Symbol:
    """A 3x3 depthwise convolution, 1x1, batch norm; no activation between the first two."""
    y = x | separable_conv2d(
        filters,
        3,
        use_bias=False,
        pointwise_initializer=initial,
    )
    return y | batch_norm(epsilon=EPSILON)


@layer
def shrinking(
    x: Symbol, filters: Sequence[int], first: bool = False, name: str | None = None
) -> Symbol:
    """Two separable convolutions and a pool that halves the size, around a 1x1 that does.

    first: without the ReLU before the first of them.
    """
    y = x if first else x | relu
    y = y | separable(filters[0], name="sepconv1") | relu
    y = y | separable(filters[1], ADDED, name="sepconv2")
    return (y | max_pool2d(3, 2, "same")) + (x | conv(filters[1], 1, 2, name="shortcut"))


@layer
def middle(x: Symbol, name: str | None = None) -> Symbol:
    """Three separable convolutions of 728 around a shortcut."""
    y = x
    for i in (1, 2, 3):
        y = y | relu | separable(728, ADDED if i == 3 else KERNEL, name=f"sepconv{i}")
    return y + x


def build(name: str, _: None, options: Options) -> Network:
    """Entry flow, eight times the middle flow, exit flow, and one affine map."""

    def features(x: Symbol) -> Symbol:
        with scope("block1"):
            x = x | conv(32, 3, 2, "valid", "conv1") | relu
            x = x | conv(64, 3, 1, "valid", "conv2") | relu
        x = x | shrinking((128, 128), first=True, name="block2")
        x = x | shrinking((256, 256), name="block3") | shrinking((728, 728), name="block4")
        for i in range(5, 13):
            x = x | middle(name=f"block{i}")
        x = x | shrinking((728, 1024), name="block13")
        with scope("block14"):
            x = x | separable(1536, name="sepconv1") | relu
            x = x | separable(2048, name="sepconv2") | relu
        return x

    return assemble(name, features, pooled_head("glorot_uniform"), **options)


enter = Family(build, "arXiv 1610.02357", source="Keras", size=299, resize=299, mode="tf")
xception = enter("xception", "Xception", None, "79.0 / 94.5")
