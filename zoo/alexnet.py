"""AlexNet: One Weird Trick for Parallelizing Convolutional Networks (Krizhevsky 2014).

The single-column form that torchvision has, without local response normalisation.
"""

from __future__ import annotations

from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    Layer,
    adaptive_avg_pool2d,
    conv2d,
    dropout,
    fully_connected,
    max_pool2d,
    relu,
)
from neuralsym.network import Network
from neuralsym.zoo.registry import Family, Options, assemble


def build(name: str, hidden: int, options: Options) -> Network:
    """Five convolutions and three affine maps, two of them with so many hidden units."""

    def conv(
        filters: int, kernel: int, strides: int, padding: int, name: str
    ) -> Layer[Symbol, Symbol]:
        first = "he_uniform"
        return conv2d(
            filters, kernel, strides, padding, activation=relu, kernel_initializer=first, name=name
        )

    def features(x: Symbol) -> Symbol:
        return (
            x
            | conv(64, 11, 4, 2, "conv1")
            | max_pool2d(3, 2)
            | conv(192, 5, 1, 2, "conv2")
            | max_pool2d(3, 2)
            | conv(384, 3, 1, 1, "conv3")
            | conv(256, 3, 1, 1, "conv4")
            | conv(256, 3, 1, 1, "conv5")
            | max_pool2d(3, 2)
        )

    def head(x: Symbol, classes: int) -> Symbol:
        return (
            x
            | adaptive_avg_pool2d(6)
            | dropout(0.5)
            | fully_connected(hidden, activation=relu, name="fc1")
            | dropout(0.5)
            | fully_connected(hidden, activation=relu, name="fc2")
            | fully_connected(classes, name="fc3")
        )

    return assemble(name, features, head, **options)


enter = Family(build, "arXiv 1404.5997")
alexnet = enter("alexnet", "AlexNet", 4096, "56.522 / 79.066")
