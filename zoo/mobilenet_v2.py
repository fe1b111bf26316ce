"""MobileNetV2: Inverted Residuals and Linear Bottlenecks (Sandler et al. 2018, arXiv 1801.04381).

Keras pads as TensorFlow does, where torchvision pads both sides alike, and has another epsilon.
"""

from __future__ import annotations

from neuralsym.core.symbol import Symbol
from neuralsym.layers import initializers, scope
from neuralsym.network import Network
from neuralsym.zoo.blocks import pooled_head
from neuralsym.zoo.mbconv import Style, inverted_residual
from neuralsym.zoo.registry import Family, Options, assemble

PAPER = "arXiv 1801.04381"
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""The paper's table 2: times that the channels expand, filters, blocks, stride of the first."""


def build(name: str, style: Style, options: Options) -> Network:
    """Stem, seven stages, 1280 channels, and one affine map."""

    def features(x: Symbol) -> Symbol:
        x = x | style.conv(32, 3, 2, "relu6", name="stem")
        channels = 32
        for stage, (times, filters, depth, first) in enumerate(STAGES, 1):
            with scope(f"stage{stage}"):
                for i in range(depth):
                    x = x | inverted_residual(
                        filters,
                        3,
                        first if i == 0 else 1,
                        times * channels,
                        "relu6",
                        style,
                        name=f"block{i + 1}",
                    )
                    channels = filters
        return x | style.conv(1280, activation="relu6", name="top")

    initial = initializers.random_normal(0.0, 0.01)
    return assemble(name, features, pooled_head(initial, rate=0.2), **options)


torchvision = Family(build, PAPER)
keras = Family(build, PAPER, source="Keras", mode="tf")

mobilenet_v2 = torchvision("mobilenet_v2", "MobileNetV2", Style(), "71.878 / 90.286")
mobilenet_v2_keras = keras("mobilenet_v2_keras", "MobileNetV2", Style(1e-3, "same"), "71.3 / 90.1")
