"""Inception-ResNet-v2: Inception-v4 and the Impact of Residual Connections (Szegedy et al. 2016).

As Keras has it: InceptionV3's stem, more blocks than the paper's figure 15, and batch norms
without gamma. Blocks are called by the size of the map that they work on.
"""

from __future__ import annotations

from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    Layer,
    avg_pool2d,
    chain,
    concat,
    conv2d,
    fork,
    layer,
    max_pool2d,
    relu,
    require_shape,
    scope,
)
from neuralsym.layers.window import Padding
from neuralsym.network import Network
from neuralsym.zoo.blocks import conv_bn, pooled_head
from neuralsym.zoo.registry import Family, Options, assemble

Flow = Layer[Symbol, Symbol]


def conv(
    filters: int, kernel: int | tuple[int, int], strides: int = 1, padding: Padding = "same"
) -> Flow:
    """A convolution without bias, batch norm without gamma, ReLU."""
    return conv_bn(
        filters,
        kernel,
        strides,
        padding,
        activation=relu,
        epsilon=1e-3,
        scale=False,
        kernel_initializer="he_normal",
    )


def halving(filters: int) -> Flow:
    """A 3x3 that halves the size."""
    return conv(filters, 3, 2, "valid")


def inception_a() -> Flow:
    """The block before those with shortcuts: InceptionV3's first, with 1x1 of 96."""
    return chain(
        fork(
            conv(96, 1),
            conv(48, 1) | conv(64, 5),
            conv(64, 1) | conv(96, 3) | conv(96, 3),
            avg_pool2d(3, 1, "same") | conv(64, 1),
        ),
        concat(),
    )


def reduction_a() -> Flow:
    """Figure 7, k = 256, l = 256, m = 384, n = 384: 35x35 to 17x17."""
    return chain(
        fork(halving(384), conv(256, 1) | conv(256, 3) | halving(384), max_pool2d(3, 2)),
        concat(),
    )


def reduction_b() -> Flow:
    """Figure 18: 17x17 to 8x8."""
    return chain(
        fork(
            conv(256, 1) | halving(384),
            conv(256, 1) | halving(288),
            conv(256, 1) | conv(288, 3) | halving(320),
            max_pool2d(3, 2),
        ),
        concat(),
    )


def branches35() -> Flow:
    """Figure 16."""
    third = conv(32, 1) | conv(48, 3) | conv(64, 3)
    return chain(fork(conv(32, 1), conv(32, 1) | conv(32, 3), third), concat())


def branches17() -> Flow:
    """Figure 17."""
    second = conv(128, 1) | conv(160, (1, 7)) | conv(192, (7, 1))
    return chain(fork(conv(192, 1), second), concat())


def branches8() -> Flow:
    """Figure 19."""
    second = conv(192, 1) | conv(224, (1, 3)) | conv(256, (3, 1))
    return chain(fork(conv(192, 1), second), concat())


@layer
def scaled_residual(
    x: Symbol, branches: Flow, scale: float, last: bool = False, name: str | None = None
) -> Symbol:
    """x plus `scale` times a 1x1 of the branches, then ReLU unless it is the last block."""
    channels = require_shape(x, 4, axis=1)[1]
    up = x | branches | conv2d(channels, 1, kernel_initializer="he_normal", name="up")
    y = x + up * scale
    return y if last else y | relu


def build(name: str, depths: tuple[int, int, int], options: Options) -> Network:
    """Stem, so many blocks at 35x35, at 17x17 and at 8x8, and one affine map."""

    def features(x: Symbol) -> Symbol:
        with scope("stem"):
            x = x | halving(32) | conv(32, 3, 1, "valid") | conv(64, 3) | max_pool2d(3, 2)
            x = x | conv(80, 1, 1, "valid") | conv(192, 3, 1, "valid") | max_pool2d(3, 2)
        with scope("mixed_5b"):
            x = x | inception_a()
        for i in range(1, depths[0] + 1):
            x = x | scaled_residual(branches35(), 0.17, name=f"block35_{i}")
        with scope("mixed_6a"):
            x = x | reduction_a()
        for i in range(1, depths[1] + 1):
            x = x | scaled_residual(branches17(), 0.1, name=f"block17_{i}")
        with scope("mixed_7a"):
            x = x | reduction_b()
        for i in range(1, depths[2] + 1):
            last = i == depths[2]
            scale = 1.0 if last else 0.2
            x = x | scaled_residual(branches8(), scale, last, name=f"block8_{i}")
        with scope("conv_7b"):
            return x | conv(1536, 1)

    return assemble(name, features, pooled_head("glorot_uniform"), **options)


enter = Family(build, "arXiv 1602.07261", source="Keras", size=299, resize=299, mode="tf")
inception_resnet_v2 = enter(
    "inception_resnet_v2", "Inception-ResNet-v2", (10, 20, 10), "80.3 / 95.3"
)
