"""Small networks of the seeds' examples: on pictures of CIFAR's size, and on digits in grey.

`mnist` is what owl_symbolic shows its layers with; Owl trains the two others on MNIST, whose
values of 0 to 255 they scale themselves.
"""

from __future__ import annotations

from typing import Unpack

from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    conv2d,
    dense,
    dropout,
    fully_connected,
    lambda_,
    max_pool2d,
    normalisation,
    relu,
)
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


DIGITS = Preprocessing("grey", 28, (28, 28))


def _scale(x: Symbol) -> Symbol:
    return x / 256.0


@register("mnist_cnn", size=(1, 28, 28), classes=10, preprocessing=DIGITS, source="Owl", labels="")
def mnist_cnn(**options: Unpack[Options]) -> Network:
    """5x5 convolution of 32, pool, 1024 hidden units; 6,434,634 parameters."""

    def features(x: Symbol) -> Symbol:
        return x | lambda_(_scale, name="scale") | conv2d(32, 5) | relu | max_pool2d(2)

    def head(x: Symbol, classes: int) -> Symbol:
        return x | dropout(0.1) | fully_connected(1024) | relu | dense(classes)

    return assemble("mnist_cnn", features, head, **options)


@register(
    "mnist_lenet", size=(1, 28, 28), classes=10, preprocessing=DIGITS, source="Owl", labels=""
)
def mnist_lenet(**options: Unpack[Options]) -> Network:
    """LeNet-5 with ReLU and a first kernel of 1x1, as Owl has it; 107,642 parameters."""

    def features(x: Symbol) -> Symbol:
        x = x | lambda_(_scale, name="scale") | conv2d(6, 1) | relu | max_pool2d(2)
        return x | conv2d(16, 5) | relu | max_pool2d(2)

    def head(x: Symbol, classes: int) -> Symbol:
        return x | fully_connected(120) | relu | dense(84) | relu | dense(classes)

    return assemble("mnist_lenet", features, head, **options)
