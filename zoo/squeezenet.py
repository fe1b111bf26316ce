"""SqueezeNet: AlexNet-level accuracy with 50x fewer parameters (Iandola et al. 2016, 1602.07360).

1.1 is the authors' later form with 2.4 times less work. Both as torchvision has them: pools round
their size up, the last convolution is followed by ReLU and a global average.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    concat,
    conv2d,
    dropout,
    fork,
    global_avg_pool2d,
    initializers,
    layer,
    max_pool2d,
    relu,
)
from neuralsym.network import Network
from neuralsym.zoo.preprocess import Preprocessing
from neuralsym.zoo.registry import Options, assemble, register

PAPER = "arXiv 1602.07360"
KERNEL = initializers.kaiming_uniform(mode="fan_in")
LAST = initializers.random_normal(0.0, 0.01)
POOL = 0
"""In a list of fire modules: a max pool."""


@layer
def fire(x: Symbol, squeeze: int, name: str | None = None) -> Symbol:
    """A 1x1 convolution to few channels, then 1x1 and 3x3 to four times as many each."""
    return (
        x
        | conv2d(squeeze, 1, kernel_initializer=KERNEL, name="squeeze")
        | relu
        | fork(
            conv2d(4 * squeeze, 1, kernel_initializer=KERNEL, name="expand1x1") | relu,
            conv2d(4 * squeeze, 3, kernel_initializer=KERNEL, name="expand3x3") | relu,
        )
        | concat()
    )


def squeezenet(name: str, stem: tuple[int, int], fires: Sequence[int], options: Options) -> Network:
    """Stem of (filters, kernel), fire modules by their squeezed channels, and pools."""

    def features(x: Symbol) -> Symbol:
        filters, kernel = stem
        x = x | conv2d(filters, kernel, 2, "valid", kernel_initializer=KERNEL, name="stem") | relu
        number = 2  # the paper's fire2 follows conv1
        for squeeze in (POOL, *fires):
            if squeeze == POOL:
                x = x | max_pool2d(3, 2, ceil_mode=True)
            else:
                x = x | fire(squeeze, name=f"fire{number}")
                number += 1
        return x

    def head(x: Symbol, classes: int) -> Symbol:
        return (
            x
            | dropout(0.5)
            | conv2d(classes, 1, kernel_initializer=LAST, name="classifier")
            | relu
            | global_avg_pool2d()
        )

    return assemble(name, features, head, **options)


@register(
    "squeezenet1_0",
    size=(3, 224, 224),
    preprocessing=Preprocessing("torch", 256, (224, 224)),
    paper=PAPER,
    source="torchvision",
    accuracy="58.092 / 80.42",
)
def squeezenet1_0(**options: Unpack[Options]) -> Network:
    """SqueezeNet 1.0: a 7x7 stem, pools after fire4 and fire8."""
    fires = (16, 16, 32, POOL, 32, 48, 48, 64, POOL, 64)
    return squeezenet("squeezenet1_0", (96, 7), fires, options)


@register(
    "squeezenet1_1",
    size=(3, 224, 224),
    preprocessing=Preprocessing("torch", 256, (224, 224)),
    paper=PAPER,
    source="torchvision",
    accuracy="58.178 / 80.624",
)
def squeezenet1_1(**options: Unpack[Options]) -> Network:
    """SqueezeNet 1.1: a 3x3 stem, pools after fire3 and fire5."""
    fires = (16, 16, POOL, 32, 32, POOL, 48, 48, 64, 64)
    return squeezenet("squeezenet1_1", (64, 3), fires, options)
