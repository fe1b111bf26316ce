"""RegNet: Designing Network Design Spaces (Radosavovic et al. 2020).

The widths of all blocks are one line over their number, rounded so that few stages are left. Y has
squeeze and excitation, X has not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

from neuralsym.core.symbol import Symbol
from neuralsym.layers import initializers, layer, relu, require_shape, scope
from neuralsym.network import Network
from neuralsym.zoo.blocks import BRANCH_GAMMA, conv_bn, divisible, pooled_head, squeeze_excite
from neuralsym.zoo.registry import Family, Options, assemble


@dataclass(frozen=True)
class Config:
    """The paper's parameters: depth d, initial width w0, slope wa, step wm, width of a group g.

    excite: channels of squeeze and excitation over those that enter the block; 0 for none.
    """

    depth: int
    initial: int
    slope: float
    step: float
    group: int
    excite: float = 0.0

    def stages(self) -> list[tuple[int, int]]:
        """(width, blocks) of each stage: equations 2 to 4, then widths that groups divide."""
        widths = []
        for j in range(self.depth):
            wanted = self.initial + self.slope * j
            power = round(math.log(wanted / self.initial) / math.log(self.step))
            widths.append(8 * round(self.initial * self.step**power / 8))
        return [
            (divisible(width, min(self.group, width)), len(list(blocks)))
            for width, blocks in groupby(widths)
        ]


@layer
def block(x: Symbol, filters: int, strides: int, config: Config, name: str | None = None) -> Symbol:
    """1x1, 3x3 in groups, the excitation, 1x1, all of `filters`, around a shortcut."""
    channels = require_shape(x, 4, axis=1)[1]
    groups = filters // min(config.group, filters)
    y = (
        x
        | conv_bn(filters, 1, activation=relu)
        | conv_bn(filters, 3, strides, groups=groups, activation=relu)
    )
    if config.excite:
        y = y | squeeze_excite(round(config.excite * channels), name="se")
    y = y | conv_bn(filters, 1, gamma_initializer=BRANCH_GAMMA)
    if strides > 1 or channels != filters:
        x = x | conv_bn(filters, 1, strides, name="shortcut")
    return x + y | relu


def regnet(name: str, config: Config, options: Options) -> Network:
    """Stem of 32 filters, stages that each halve the size, and one affine map."""

    def features(x: Symbol) -> Symbol:
        x = x | conv_bn(32, 3, 2, activation=relu, name="stem")
        for stage, (width, depth) in enumerate(config.stages(), 1):
            with scope(f"stage{stage}"):
                for i in range(depth):
                    x = x | block(width, 2 if i == 0 else 1, config, name=f"block{i + 1}")
        return x

    first = initializers.random_normal(0.0, 0.01)
    return assemble(name, features, pooled_head(first), **options)


enter = Family(regnet, "arXiv 2003.13678")
regnet_x_400mf = enter(
    "regnet_x_400mf", "RegNetX-400MF", Config(22, 24, 24.48, 2.54, 16), "72.834 / 90.95"
)
regnet_x_800mf = enter(
    "regnet_x_800mf", "RegNetX-800MF", Config(16, 56, 35.73, 2.28, 16), "75.212 / 92.348"
)
regnet_x_1_6gf = enter(
    "regnet_x_1_6gf", "RegNetX-1.6GF", Config(18, 80, 34.01, 2.25, 24), "77.04 / 93.44"
)
regnet_x_3_2gf = enter(
    "regnet_x_3_2gf", "RegNetX-3.2GF", Config(25, 88, 26.31, 2.25, 48), "78.364 / 93.992"
)
regnet_x_8gf = enter(
    "regnet_x_8gf", "RegNetX-8GF", Config(23, 80, 49.56, 2.88, 120), "79.344 / 94.686"
)
regnet_x_16gf = enter(
    "regnet_x_16gf", "RegNetX-16GF", Config(22, 216, 55.59, 2.1, 128), "80.058 / 94.944"
)
regnet_x_32gf = enter(
    "regnet_x_32gf", "RegNetX-32GF", Config(23, 320, 69.86, 2.0, 168), "80.622 / 95.248"
)
regnet_y_400mf = enter(
    "regnet_y_400mf", "RegNetY-400MF", Config(16, 48, 27.89, 2.09, 8, 0.25), "74.046 / 91.716"
)
regnet_y_800mf = enter(
    "regnet_y_800mf", "RegNetY-800MF", Config(14, 56, 38.84, 2.4, 16, 0.25), "76.42 / 93.136"
)
regnet_y_1_6gf = enter(
    "regnet_y_1_6gf", "RegNetY-1.6GF", Config(27, 48, 20.71, 2.65, 24, 0.25), "77.95 / 93.966"
)
regnet_y_3_2gf = enter(
    "regnet_y_3_2gf", "RegNetY-3.2GF", Config(21, 80, 42.63, 2.66, 24, 0.25), "78.948 / 94.576"
)
regnet_y_8gf = enter(
    "regnet_y_8gf", "RegNetY-8GF", Config(17, 192, 76.82, 2.19, 56, 0.25), "80.032 / 95.048"
)
regnet_y_16gf = enter(
    "regnet_y_16gf", "RegNetY-16GF", Config(18, 200, 106.23, 2.48, 112, 0.25), "80.424 / 95.24"
)
regnet_y_32gf = enter(
    "regnet_y_32gf", "RegNetY-32GF", Config(20, 232, 115.89, 2.53, 232, 0.25), "80.878 / 95.34"
)
regnet_y_128gf = enter(
    "regnet_y_128gf",
    "RegNetY-128GF",
    Config(27, 456, 160.83, 2.52, 264, 0.25),
    "88.228 / 98.682",
    size=384,
    resize=384,
    interpolation="bicubic",
)
