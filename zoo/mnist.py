"""The small network that the seed defines to show its layers, on pictures of CIFAR's size."""

from __future__ import annotations

from typing import Unpack

from neuralsym.core.symbol import Symbol
from neuralsym.layers import conv2d, fully_connected, max_pool2d, normalisation, relu
from neuralsym.network import Network
from neuralsym.zoo.preprocess import Preprocessing
from neuralsym.zoo.registry import Options, assemble, register


@register(
    "mnist",
    size=(3, 32, 32),
    classes=10,
    preprocessing=Preprocessing("unit", 32, (32, 32)),
    source="owl_symbolic",
    labels="",
)
def mnist(**options: Unpack[Options]) -> Network:
    """Batch norm, 3x3 convolution of 32, pool, 512 hidden units; 4,200,854 parameters."""

    def features(x: Symbol) -> Symbol:
        return x | normalisation() | conv2d(32, 3) | relu | max_pool2d(2)

    def head(x: Symbol, classes: int) -> Symbol:
        return x | fully_connected(512) | relu | fully_connected(classes)

    return assemble("mnist", features, head, **options)
