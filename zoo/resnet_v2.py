"""ResNetV2: Identity Mappings in Deep Residual Networks (He et al. 2016), as Keras has it.

Batch norm and ReLU come before the convolutions, nothing after the addition. A stage strides in
its last block. The stem has no ReLU, and its pool sees zeros around the picture, not minus
infinity.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    Layer,
    batch_norm,
    conv2d,
    layer,
    max_pool2d,
    relu,
    scope,
    zero_padding2d,
)
from neuralsym.network import Network
from neuralsym.zoo.blocks import conv_bn, pooled_head
from neuralsym.zoo.registry import Family, Options, assemble

EPSILON = 1.001e-5


def conv(filters: int, kernel: int, strides: int = 1) -> Layer[Symbol, Symbol]:
    """A convolution without bias, batch norm, ReLU."""
    return conv_bn(
        filters,
        kernel,
        strides,
        activation=relu,
        epsilon=EPSILON,
        kernel_initializer="glorot_uniform",
    )


@layer
def block(x: Symbol, filters: int, strides: int, project: bool, name: str | None = None) -> Symbol:
    """Batch norm and ReLU, then 1x1, 3x3, and 1x1 to four times `filters`, around a shortcut."""
    active = x | batch_norm(epsilon=EPSILON, name="preact") | relu
    if project:
        x = active | conv2d(4 * filters, 1, name="shortcut")
    elif strides > 1:
        x = x | max_pool2d(1, strides)
    y = active | conv(filters, 1) | conv(filters, 3, strides) | conv2d(4 * filters, 1, name="last")
    return x + y


def resnet_v2(name: str, depths: Sequence[int], options: Options) -> Network:
    """Stem, four stages of 64, 128, 256, 512 filters, batch norm, and one affine map."""

    def features(x: Symbol) -> Symbol:
        with scope("stem"):
            x = x | conv2d(64, 7, 2, padding=3) | zero_padding2d(1) | max_pool2d(3, 2)
        for stage, depth in enumerate(depths):
            with scope(f"stage{stage + 1}"):
                for i in range(depth):
                    strides = 2 if stage < len(depths) - 1 and i == depth - 1 else 1
                    x = x | block(64 * 2**stage, strides, i == 0, name=f"block{i + 1}")
        return x | batch_norm(epsilon=EPSILON, name="post") | relu

    return assemble(name, features, pooled_head("glorot_uniform"), **options)


enter = Family(resnet_v2, "arXiv 1603.05027", source="Keras", mode="tf")
resnet50_v2 = enter("resnet50_v2", "ResNet-50 V2", (3, 4, 6, 3), "76.0 / 93.0")
resnet101_v2 = enter("resnet101_v2", "ResNet-101 V2", (3, 4, 23, 3), "77.2 / 93.8")
resnet152_v2 = enter("resnet152_v2", "ResNet-152 V2", (3, 8, 36, 3), "78.0 / 94.2")
