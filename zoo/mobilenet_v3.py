"""MobileNetV3: Searching for MobileNetV3 (Howard et al. 2019, arXiv 1905.02244), tables 1 and 2.

Keras pads as TensorFlow does and takes pictures of 0 to 255, which it scales to -1..1 itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neuralsym.core.symbol import Symbol
from neuralsym.layers import dropout, fully_connected, global_avg_pool2d, initializers, scope
from neuralsym.network import Network
from neuralsym.zoo.blocks import divisible
from neuralsym.zoo.mbconv import Style, inverted_residual
from neuralsym.zoo.registry import Family, Options, assemble

PAPER = "arXiv 1905.02244"
RE, HS = "relu", "hard_swish"
Row = tuple[int, int, int, bool, str, int]
"""Kernel, expanded channels, filters, squeeze-excitation, activation, stride."""

LARGE: tuple[Row, ...] = (
    (3, 16, 16, False, RE, 1),
    (3, 64, 24, False, RE, 2),
    (3, 72, 24, False, RE, 1),
    (5, 72, 40, True, RE, 2),
    (5, 120, 40, True, RE, 1),
    (5, 120, 40, True, RE, 1),
    (3, 240, 80, False, HS, 2),
    (3, 200, 80, False, HS, 1),
    (3, 184, 80, False, HS, 1),
    (3, 184, 80, False, HS, 1),
    (3, 480, 112, True, HS, 1),
    (3, 672, 112, True, HS, 1),
    (5, 672, 160, True, HS, 2),
    (5, 960, 160, True, HS, 1),
    (5, 960, 160, True, HS, 1),
)
SMALL: tuple[Row, ...] = (
    (3, 16, 16, True, RE, 2),
    (3, 72, 24, False, RE, 2),
    (3, 88, 24, False, RE, 1),
    (5, 96, 40, True, HS, 2),
    (5, 240, 40, True, HS, 1),
    (5, 240, 40, True, HS, 1),
    (5, 120, 48, True, HS, 1),
    (5, 144, 48, True, HS, 1),
    (5, 288, 96, True, HS, 2),
    (5, 576, 96, True, HS, 1),
    (5, 576, 96, True, HS, 1),
)


@dataclass(frozen=True)
class Config:
    """A table, the channels before the last affine map, and whether pictures are scaled inside."""

    rows: Sequence[Row]
    penultimate: int
    style: Style
    scaled: bool = False


def build(name: str, config: Config, options: Options) -> Network:
    """Stem, the blocks of the table, six times as many channels, and two affine maps.

    A stage ends where the filters change.
    """
    style = config.style

    def features(x: Symbol) -> Symbol:
        if config.scaled:
            x = x * (1 / 127.5) - 1.0
        x = x | style.conv(16, 3, 2, HS, name="stem")
        stage, block, last = 0, 0, 0
        for kernel, expanded, filters, excite, activation, strides in config.rows:
            stage, block = (stage, block + 1) if filters == last else (stage + 1, 1)
            last = filters
            squeezed = divisible(expanded // 4) if excite else 0
            with scope(f"stage{stage}"):
                x = x | inverted_residual(
                    filters,
                    kernel,
                    strides,
                    expanded,
                    activation,
                    style,
                    squeezed,
                    name=f"block{block}",
                )
        return x | style.conv(6 * last, activation=HS, name="top")

    def head(x: Symbol, classes: int) -> Symbol:
        initial = initializers.random_normal(0.0, 0.01)
        x = x | global_avg_pool2d()
        x = x | fully_connected(
            config.penultimate, activation=HS, kernel_initializer=initial, name="fc1"
        )
        return x | dropout(0.2) | fully_connected(classes, kernel_initializer=initial, name="fc2")

    return assemble(name, features, head, **options)


TORCHVISION = Style(1e-3, None, "relu", "hard_sigmoid")
KERAS = Style(1e-3, "same", "relu", "hard_sigmoid")

torchvision = Family(build, PAPER)
keras = Family(build, PAPER, source="Keras", mode="raw")

mobilenet_v3_large = torchvision(
    "mobilenet_v3_large",
    "MobileNetV3-Large",
    Config(LARGE, 1280, TORCHVISION),
    "74.042 / 91.34",
)
mobilenet_v3_small = torchvision(
    "mobilenet_v3_small",
    "MobileNetV3-Small",
    Config(SMALL, 1024, TORCHVISION),
    "67.668 / 87.402",
)
mobilenet_v3_large_keras = keras(
    "mobilenet_v3_large_keras",
    "MobileNetV3-Large",
    Config(LARGE, 1280, KERAS, scaled=True),
    "75.6 / -",
)
mobilenet_v3_small_keras = keras(
    "mobilenet_v3_small_keras",
    "MobileNetV3-Small",
    Config(SMALL, 1024, KERAS, scaled=True),
    "68.1 / -",
)
