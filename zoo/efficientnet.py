"""EfficientNet: Rethinking Model Scaling (Tan and Le 2019, arXiv 1905.11946), table 1.

B1 to B7 are B0 with wider and deeper stages. Keras pads as TensorFlow does and takes pictures of
0 to 255, which the network brings to ImageNet's mean and deviation itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from neuralsym.core.symbol import Symbol
from neuralsym.layers import batch_norm, initializers, require_shape, scope
from neuralsym.network import Network
from neuralsym.weights.imagenet import DEVIATION, MEAN
from neuralsym.zoo.blocks import divisible, pooled_head
from neuralsym.zoo.mbconv import Style, fused_inverted_residual, inverted_residual
from neuralsym.zoo.registry import Architecture, Family, Options, assemble

PAPER = "arXiv 1905.11946"
Scaling = Callable[[Symbol], Symbol]
"""What a network does to pictures of 0 to 255 before its stem."""


@dataclass(frozen=True)
class Stage:
    """A row of the paper's table; its first block has the stride.

    times: that the channels expand. fused: as fused_inverted_residual, without excitation.
    """

    times: int
    kernel: int
    strides: int
    filters: int
    depth: int
    fused: bool = False


STAGES = (
    Stage(1, 3, 1, 16, 1),
    Stage(6, 3, 2, 24, 2),
    Stage(6, 5, 2, 40, 2),
    Stage(6, 3, 2, 80, 3),
    Stage(6, 5, 1, 112, 3),
    Stage(6, 5, 2, 192, 4),
    Stage(6, 3, 1, 320, 1),
)


@dataclass(frozen=True)
class Config:
    """The channels of stem and top, the stages as they are built, dropout, and what goes before."""

    stem: int
    stages: Sequence[Stage]
    top: int
    dropout: float
    style: Style
    scaled: Scaling | None = None


def block(x: Symbol, stage: Stage, first: bool, style: Style, name: str) -> Symbol:
    """One block of a stage; a quarter of the channels that come in is left by squeezing."""
    channels = require_shape(x, 4, axis=1)[1]
    strides = stage.strides if first else 1
    expanded = stage.times * channels
    if stage.fused:
        return x | fused_inverted_residual(
            stage.filters, stage.kernel, strides, expanded, "silu", style, name=name
        )
    return x | inverted_residual(
        stage.filters, stage.kernel, strides, expanded, "silu", style, max(1, channels // 4), name
    )


def build(name: str, config: Config, options: Options) -> Network:
    """Stem, stages, a last convolution, and one affine map."""
    style = config.style

    def features(x: Symbol) -> Symbol:
        if config.scaled is not None:
            x = config.scaled(x)
        x = x | style.conv(config.stem, 3, 2, "silu", name="stem")
        for number, stage in enumerate(config.stages, 1):
            with scope(f"stage{number}"):
                for i in range(stage.depth):
                    x = block(x, stage, i == 0, style, f"block{i + 1}")
        return x | style.conv(config.top, activation="silu", name="top")

    initial = initializers.variance_scaling(1 / 3, "fan_out", "uniform")
    return assemble(name, features, pooled_head(initial, rate=config.dropout), **options)


def from_pictures(x: Symbol) -> Symbol:
    """Pictures of 0 to 255 as Keras's B0 to B7 take them: its Rescaling and its Normalization.

    The statistics come with the weights, as those of a batch norm do; until then ImageNet's.
    """
    return x * np.float32(1 / 255) | batch_norm(
        epsilon=0.0,
        center=False,
        scale=False,
        moving_mean_initializer=MEAN,
        moving_variance_initializer=DEVIATION**2,
        name="normalization",
    )


# The coefficients of width and depth, and dropout, by which B0 is scaled.
SCALES = {
    "b0": (1.0, 1.0, 0.2),
    "b1": (1.0, 1.1, 0.2),
    "b2": (1.1, 1.2, 0.3),
    "b3": (1.2, 1.4, 0.3),
    "b4": (1.4, 1.8, 0.4),
    "b5": (1.6, 2.2, 0.4),
    "b6": (1.8, 2.6, 0.5),
    "b7": (2.0, 3.1, 0.5),
}


def scaled_b0(scale: str, style: Style, scaled: Scaling | None = None) -> Config:
    """The stages of B0 with so many times the channels and the blocks."""
    width, depth, drop = SCALES[scale]
    stages = [
        replace(s, filters=divisible(s.filters * width), depth=ceil(s.depth * depth))
        for s in STAGES
    ]
    return Config(divisible(32 * width), stages, divisible(1280 * width), drop, style, scaled)


TORCHVISION = Style(1e-5, None, "silu")
# torchvision's three largest came from Google's weights, with their epsilon.
PORTED = Style(1e-3, None, "silu")
KERAS = Style(1e-3, "same", "silu")
FAMILY = Family(build, PAPER, interpolation="bicubic")


def _torchvision(
    scale: str, accuracy: str, size: int, resize: int, style: Style = TORCHVISION
) -> Architecture:
    title, made = f"EfficientNet-{scale.upper()}", scaled_b0(scale, style)
    return FAMILY(f"efficientnet_{scale}", title, made, accuracy, size=size, resize=resize)


def _keras(scale: str, accuracy: str, size: int) -> Architecture:
    return FAMILY(
        f"efficientnet_{scale}_keras",
        f"EfficientNet-{scale.upper()}",
        scaled_b0(scale, KERAS, from_pictures),
        accuracy,
        source="Keras",
        mode="raw",
        size=size,
        resize=size + 32,
    )


efficientnet_b0 = _torchvision("b0", "77.692 / 93.532", 224, 256)
efficientnet_b1 = _torchvision("b1", "78.642 / 94.186", 240, 256)
efficientnet_b2 = _torchvision("b2", "80.608 / 95.31", 288, 288)
efficientnet_b3 = _torchvision("b3", "82.008 / 96.054", 300, 320)
efficientnet_b4 = _torchvision("b4", "83.384 / 96.594", 380, 384)
efficientnet_b5 = _torchvision("b5", "83.444 / 96.628", 456, 456, PORTED)
efficientnet_b6 = _torchvision("b6", "84.008 / 96.916", 528, 528, PORTED)
efficientnet_b7 = _torchvision("b7", "84.122 / 96.908", 600, 600, PORTED)

efficientnet_b0_keras = _keras("b0", "77.1 / 93.3", 224)
efficientnet_b1_keras = _keras("b1", "79.1 / 94.4", 240)
efficientnet_b2_keras = _keras("b2", "80.1 / 94.9", 260)
efficientnet_b3_keras = _keras("b3", "81.6 / 95.7", 300)
efficientnet_b4_keras = _keras("b4", "82.9 / 96.4", 380)
efficientnet_b5_keras = _keras("b5", "83.6 / 96.7", 456)
efficientnet_b6_keras = _keras("b6", "84.0 / 96.8", 528)
efficientnet_b7_keras = _keras("b7", "84.3 / 97.0", 600)
