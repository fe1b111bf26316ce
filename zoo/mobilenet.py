"""MobileNet: Efficient Convolutional Neural Networks (Howard et al. 2017), table 1.

As Keras has it: a stride pads right and below only, whatever the size. The paper's width
multiplier is in the name: mobilenet_050 has half of the channels.
"""

from __future__ import annotations

from neuralsym.core.symbol import Symbol
from neuralsym.layers import layer
from neuralsym.layers.window import Padding
from neuralsym.network import Network
from neuralsym.zoo.blocks import conv_bn, depthwise_bn, pooled_head
from neuralsym.zoo.registry import Family, Options, assemble

EPSILON = 1e-3
BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)
"""Filters and stride of each pair of convolutions."""


@layer
def separable(x: Symbol, filters: int, strides: int, name: str | None = None) -> Symbol:
    """A 3x3 depthwise convolution and a 1x1, each with batch norm and ReLU6."""
    padding: Padding = "same" if strides == 1 else ((0, 1), (0, 1))
    return (
        x
        | depthwise_bn(3, strides, padding, activation="relu6", epsilon=EPSILON, name="depthwise")
        | conv_bn(filters, 1, activation="relu6", epsilon=EPSILON, name="pointwise")
    )


def build(name: str, alpha: float, options: Options) -> Network:
    """Stem, thirteen pairs of convolutions, and one affine map."""

    def features(x: Symbol) -> Symbol:
        x = x | conv_bn(
            int(32 * alpha), 3, 2, "same", activation="relu6", epsilon=EPSILON, name="stem"
        )
        for i, (filters, strides) in enumerate(BLOCKS, 1):
            x = x | separable(int(filters * alpha), strides, name=f"block{i}")
        return x

    return assemble(name, features, pooled_head("glorot_uniform", rate=1e-3), **options)


enter = Family(build, "arXiv 1704.04861", source="Keras", mode="tf")
mobilenet = enter("mobilenet", "MobileNet", 1.0, "70.4 / 89.5")
mobilenet_075 = enter("mobilenet_075", "MobileNet 0.75", 0.75, "68.4 / -")
mobilenet_050 = enter("mobilenet_050", "MobileNet 0.50", 0.5, "63.7 / -")
mobilenet_025 = enter("mobilenet_025", "MobileNet 0.25", 0.25, "50.6 / -")
