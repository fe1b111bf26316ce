"""What Owl's examples train on CIFAR-10: four 3x3 convolutions in the manner of VGG."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    conv2d,
    dense,
    dropout,
    fully_connected,
    max_pool2d,
    normalisation,
    relu,
    scope,
)
from neuralsym.network import Network
from neuralsym.zoo.preprocess import Preprocessing
from neuralsym.zoo.registry import Make, Options, assemble, register


def cifar10(name: str, normalised: bool, rate: float, options: Options) -> Network:
    """Two blocks of 32 and 64 filters, each halved by a pool, and 512 hidden units."""

    def features(x: Symbol) -> Symbol:
        if normalised:
            x = x | normalisation(name="norm")
        for block, filters in enumerate((32, 64)):
            with scope(f"block{block + 1}"):
                x = x | conv2d(filters, 3) | relu | conv2d(filters, 3, padding="valid") | relu
                x = x | max_pool2d(2) | dropout(rate)
        return x

    def head(x: Symbol, classes: int) -> Symbol:
        return x | fully_connected(512) | relu | dense(classes)

    return assemble(name, features, head, **options)


def _enter(name: str) -> Callable[[Make], Make]:
    pictures = Preprocessing("unit", 32, (32, 32))
    return register(
        name,
        size=(3, 32, 32),
        classes=10,
        preprocessing=pictures,
        source="Owl",
        labels="cifar10",
    )


@_enter("cifar10_vgg")
def cifar10_vgg(**options: Unpack[Options]) -> Network:
    """Batch norm of the picture before the convolutions; 1,250,864 parameters."""
    return cifar10("cifar10_vgg", True, 0.1, options)


@_enter("cifar10_cnn")
def cifar10_cnn(**options: Unpack[Options]) -> Network:
    """The convolutions alone; 1,250,858 parameters."""
    return cifar10("cifar10_cnn", False, 0.25, options)
