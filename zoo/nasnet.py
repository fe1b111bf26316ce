"""NASNet-A: Learning Transferable Architectures for Scalable Image Recognition (Zoph et al. 2017).

The cells of the paper's figure 4, arXiv 1707.07012, as Keras has them: each takes the outputs of
the two cells before it, called h (the last) and p.
"""

from __future__ import annotations

from dataclasses import dataclass

from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    Layer,
    avg_pool2d,
    batch_norm,
    concat,
    conv2d,
    cropping2d,
    initializers,
    layer,
    max_pool2d,
    relu,
    require_shape,
    scope,
    separable_conv2d,
    zero_padding2d,
)
from neuralsym.network import Network
from neuralsym.zoo.blocks import conv_bn, pooled_head
from neuralsym.zoo.registry import Family, Options, assemble

EPSILON = 1e-3
KERNEL = initializers.he_normal
ADDED = initializers.he_normal(0.5)
"""The first values of what is added, so that an untrained network of many cells does not grow."""


@dataclass(frozen=True)
class Config:
    """NASNet-A (cells @ penultimate): so many normal cells at each size, and channels at the end.

    skip: whether the cell after a reduction looks past it, at the input of the cell before it.
    """

    cells: int
    penultimate: int
    stem: int
    skip: bool


def conv(filters: int, name: str) -> Layer[Symbol, Symbol]:
    """A 1x1 convolution without bias, and its batch norm."""
    return conv_bn(filters, 1, epsilon=EPSILON, kernel_initializer=KERNEL, name=name)


@layer
def separable(
    x: Symbol, filters: int, kernel: int, strides: int = 1, name: str | None = None
) -> Symbol:
    """ReLU, separable convolution, batch norm, twice; the first has the stride."""
    for i, step in ((1, strides), (2, 1)):
        x = x | relu
        x = x | separable_conv2d(
            filters,
            kernel,
            step,
            "same",
            use_bias=False,
            pointwise_initializer=KERNEL if i == 1 else ADDED,
            name=f"conv{i}",
        )
        x = x | batch_norm(epsilon=EPSILON, name=f"norm{i}")
    return x


def average(x: Symbol) -> Symbol:
    """The 3x3 mean, which leaves out what lies beyond the border."""
    return x | avg_pool2d(3, 1, "same")


def bordered(x: Symbol) -> Symbol:
    """x with the zeros that a 3x3 window of stride 2 needs; they count in its means and maxima."""
    height, width = require_shape(x, 4)[2:]
    return x | zero_padding2d(((height % 2, 1), (width % 2, 1)))


@layer
def adjust(xs: tuple[Symbol, Symbol], filters: int, name: str | None = None) -> Symbol:
    """p of (p, h), in the size of h and in `filters` channels.

    A greater size is halved twice, once shifted by a pixel, for a half of the channels each.
    """
    p, h = xs
    shape = require_shape(p, 4)
    if shape[2:] == require_shape(h, 4)[2:]:
        return p if shape[1] == filters else p | relu | conv(filters, "projection")

    def halved(x: Symbol, after: int, name: str) -> Symbol:
        border = (0, after)
        return x | conv2d(
            filters // 2,
            1,
            2,
            (border, border),
            use_bias=False,
            kernel_initializer=KERNEL,
            name=name,
        )

    p = p | relu
    shifted = p | cropping2d(((1, 0), (1, 0)))
    parts = halved(p, 0, "conv1"), halved(shifted, 1, "conv2")
    return parts | concat() | batch_norm(epsilon=EPSILON, name="norm")


def normal(h: Symbol, p: Symbol, filters: int) -> Symbol:
    """Figure 4, left."""
    p = (p, h) | adjust(filters, name="adjust")
    h = h | relu | conv(filters, "conv")
    x1 = (h | separable(filters, 5, name="left1")) + (p | separable(filters, 3, name="right1"))
    x2 = (p | separable(filters, 5, name="left2")) + (p | separable(filters, 3, name="right2"))
    x3 = average(h) + p
    x4 = average(p) * 2.0  # the paper adds two equal means
    x5 = (h | separable(filters, 3, name="left5")) + h
    return (p, x1, x2, x3, x4, x5) | concat()


def reduction(h: Symbol, p: Symbol | None, filters: int) -> Symbol:
    """Figure 4, right: half of the size. The first cell has no p and takes h as it is for it."""
    p = h if p is None else (p, h) | adjust(filters, name="adjust")
    h = h | relu | conv(filters, "conv")
    largest = bordered(h) | max_pool2d(3, 2)
    mean = bordered(h) | avg_pool2d(3, 2)
    x1 = h | separable(filters, 5, 2, name="left1")
    x1 = x1 + (p | separable(filters, 7, 2, name="right1"))
    x2 = largest + (p | separable(filters, 7, 2, name="right2"))
    x3 = mean + (p | separable(filters, 5, 2, name="right3"))
    x4 = x2 + average(x1)
    x5 = (x1 | separable(filters, 3, name="left4")) + largest
    return (x2, x3, x4, x5) | concat()


def build(name: str, config: Config, options: Options) -> Network:
    """Stem, two reductions, three runs of normal cells with reductions between, one affine map."""

    def features(x: Symbol) -> Symbol:
        filters, n = config.penultimate // 24, config.cells
        x = x | conv_bn(
            config.stem,
            3,
            2,
            "valid",
            epsilon=EPSILON,
            kernel_initializer=KERNEL,
            name="stem",
        )
        with scope("reduction_stem_1"):
            x, p = reduction(x, None, filters // 4), x
        with scope("reduction_stem_2"):
            x, p = reduction(x, p, filters // 2), x
        for run in range(3):
            width = filters * 2**run
            if run:
                with scope(f"reduction_reduce_{run * n}"):
                    x, last = reduction(x, p, width), x
                p = p if config.skip else last
            for i in range(n):
                with scope(f"normal_{run * n + i + (run > 0)}"):
                    x, p = normal(x, p, width), x
        return x | relu

    return assemble(name, features, pooled_head("glorot_uniform"), **options)


enter = Family(build, "arXiv 1707.07012", source="Keras", mode="tf")
nasnet_mobile = enter(
    "nasnet_mobile", "NASNet-A (4 @ 1056)", Config(4, 1056, 32, skip=False), "74.4 / 91.9"
)
nasnet_large = enter(
    "nasnet_large",
    "NASNet-A (6 @ 4032)",
    Config(6, 4032, 96, skip=True),
    "82.5 / 96.0",
    size=331,
    resize=331,
)
