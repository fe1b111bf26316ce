"""GoogLeNet: Going Deeper with Convolutions (Szegedy et al. 2014), table 1, as torchvision has it.

Every convolution has batch norm, and the branch that the paper makes of 5x5 is 3x3 there.
"""

from __future__ import annotations

from typing import Unpack

from neuralsym.core.symbol import Symbol
from neuralsym.layers import Layer, concat, fork, layer, max_pool2d, relu
from neuralsym.network import Network
from neuralsym.zoo.blocks import conv_bn, pooled_head
from neuralsym.zoo.preprocess import Preprocessing
from neuralsym.zoo.registry import Options, assemble, register

# Filters of the branches: 1x1; 3x3 reduced, 3x3; 5x5 reduced, 5x5; after the pool.
BLOCKS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
# What a block is followed by: the window of a max pool of stride 2.
POOLS = {"3b": 3, "4e": 2}


def conv(filters: int, kernel: int, name: str, strides: int = 1) -> Layer[Symbol, Symbol]:
    """A convolution without bias, batch norm, ReLU."""
    return conv_bn(
        filters,
        kernel,
        strides,
        activation=relu,
        epsilon=1e-3,
        kernel_initializer="he_normal",
        name=name,
    )


@layer
def inception(
    x: Symbol,
    one: int,
    reduced3: int,
    three: int,
    reduced5: int,
    five: int,
    pooled: int,
    name: str | None = None,
) -> Symbol:
    """Figure 2b: four branches side by side."""
    return (
        x
        | fork(
            conv(one, 1, "conv1x1"),
            conv(reduced3, 1, "reduce3x3") | conv(three, 3, "conv3x3"),
            conv(reduced5, 1, "reduce5x5") | conv(five, 3, "conv5x5"),
            max_pool2d(3, 1, padding=1) | conv(pooled, 1, "project"),
        )
        | concat()
    )


@register(
    "googlenet",
    size=(3, 224, 224),
    # torchvision scales as "torch" does; its trained network then takes that back, to -1..1.
    preprocessing=Preprocessing("tf", 256, (224, 224)),
    paper="arXiv 1409.4842",
    source="torchvision",
    accuracy="69.778 / 89.53",
)
def googlenet(**options: Unpack[Options]) -> Network:
    """GoogLeNet as torchvision has it, without the auxiliary heads."""

    def features(x: Symbol) -> Symbol:
        x = x | conv(64, 7, "conv1", 2) | max_pool2d(3, 2, ceil_mode=True)
        x = x | conv(64, 1, "conv2") | conv(192, 3, "conv3") | max_pool2d(3, 2, ceil_mode=True)
        for block, filters in BLOCKS.items():
            x = x | inception(*filters, name=f"inception{block}")
            if block in POOLS:
                x = x | max_pool2d(POOLS[block], 2, ceil_mode=True)
        return x

    return assemble("googlenet", features, pooled_head(rate=0.2), **options)
