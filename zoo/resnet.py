"""ResNet, ResNeXt and Wide ResNet: Deep Residual Learning (He et al. 2015), table 1, and heirs.

torchvision's form is v1.5: a bottleneck strides in its 3x3 convolution, and convolutions have no
biases. Keras's form strides in the first 1x1 convolution, as the paper does, has biases, and
another epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from neuralsym.core.symbol import Symbol
from neuralsym.layers import Layer, layer, max_pool2d, relu, scope
from neuralsym.layers.weights import Init
from neuralsym.network import Network
from neuralsym.zoo.blocks import BRANCH_GAMMA, KAIMING, conv_bn, pooled_head
from neuralsym.zoo.registry import Family, Options, assemble


@dataclass(frozen=True)
class Style:
    """Where torchvision and Keras differ.

    early: a bottleneck strides in its first 1x1. last: gamma of a block's last batch norm before
    it is trained.
    """

    early: bool
    bias: bool
    epsilon: float
    kernel: Init
    dense: Init
    last: float

    def conv(
        self, filters: int, kernel: int, strides: int = 1, gamma: Init = 1.0, **settings: Any
    ) -> Layer[Symbol, Symbol]:
        """A convolution and its batch norm."""
        return conv_bn(
            filters,
            kernel,
            strides,
            use_bias=self.bias,
            epsilon=self.epsilon,
            kernel_initializer=self.kernel,
            gamma_initializer=gamma,
            **settings,
        )


TORCHVISION = Style(False, False, 1e-5, KAIMING, "standard", last=BRANCH_GAMMA)
KERAS = Style(True, True, 1.001e-5, "glorot_uniform", "glorot_uniform", last=1.0)


@dataclass(frozen=True)
class Config:
    """A row of table 1: the blocks of each stage.

    groups, width: of the 3x3 convolution of a bottleneck, its number of groups and the channels
    of one group per 64 filters; ResNeXt's cardinality C and width d, 32x4d for example.
    """

    block: Callable[..., Layer[Symbol, Symbol]]
    depths: Sequence[int]
    style: Style = TORCHVISION
    groups: int = 1
    width: int = 64


@layer
def basic(x: Symbol, filters: int, strides: int, config: Config, name: str | None = None) -> Symbol:
    """Two 3x3 convolutions around a shortcut."""
    conv = config.style.conv
    y = x | conv(filters, 3, strides) | relu | conv(filters, 3, 1, config.style.last)
    return y + shortcut(x, filters, strides, config.style) | relu


@layer
def bottleneck(
    x: Symbol, filters: int, strides: int, config: Config, name: str | None = None
) -> Symbol:
    """1x1 to a narrow width, 3x3 in groups, 1x1 to four times `filters`, around a shortcut."""
    conv = config.style.conv
    first, middle = (strides, 1) if config.style.early else (1, strides)
    narrow = filters * config.width // 64 * config.groups
    y = (
        x
        | conv(narrow, 1, first)
        | relu
        | conv(narrow, 3, middle, groups=config.groups)
        | relu
        | conv(4 * filters, 1, 1, config.style.last)
    )
    return y + shortcut(x, 4 * filters, strides, config.style) | relu


def shortcut(x: Symbol, filters: int, strides: int, style: Style) -> Symbol:
    """The input itself, or a projection where the size or the channels change."""
    if strides == 1 and x.shape is not None and x.shape[1] == filters:
        return x
    return x | style.conv(filters, 1, strides, name="shortcut")


def resnet(name: str, config: Config, options: Options) -> Network:
    """Stem, four stages of 64, 128, 256, 512 filters, and one affine map."""

    def features(x: Symbol) -> Symbol:
        with scope("stem"):
            x = x | config.style.conv(64, 7, 2) | relu | max_pool2d(3, 2, padding=1)
        for stage, depth in enumerate(config.depths):
            with scope(f"stage{stage + 1}"):
                for i in range(depth):
                    strides = 2 if stage > 0 and i == 0 else 1
                    x = x | config.block(64 * 2**stage, strides, config, name=f"block{i + 1}")
        return x

    return assemble(name, features, pooled_head(config.style.dense), **options)


R50, R101, R152 = (
    Config(bottleneck, depths) for depths in ((3, 4, 6, 3), (3, 4, 23, 3), (3, 8, 36, 3))
)

enter = Family(resnet, "arXiv 1512.03385")
resnet18 = enter("resnet18", "ResNet-18", Config(basic, (2, 2, 2, 2)), "69.758 / 89.078")
resnet34 = enter("resnet34", "ResNet-34", Config(basic, (3, 4, 6, 3)), "73.314 / 91.42")
resnet50 = enter("resnet50", "ResNet-50 (v1.5)", R50, "76.13 / 92.862")
resnet101 = enter("resnet101", "ResNet-101 (v1.5)", R101, "77.374 / 93.546")
resnet152 = enter("resnet152", "ResNet-152 (v1.5)", R152, "78.312 / 94.046")

enter = Family(resnet, "arXiv 1611.05431")
resnext50_32x4d = enter(
    "resnext50_32x4d", "ResNeXt-50 32x4d", replace(R50, groups=32, width=4), "77.618 / 93.698"
)
resnext101_32x8d = enter(
    "resnext101_32x8d", "ResNeXt-101 32x8d", replace(R101, groups=32, width=8), "79.312 / 94.526"
)
resnext101_64x4d = enter(
    "resnext101_64x4d",
    "ResNeXt-101 64x4d",
    replace(R101, groups=64, width=4),
    "83.246 / 96.454",
    resize=232,
)

enter = Family(resnet, "arXiv 1605.07146")
wide_resnet50_2 = enter(
    "wide_resnet50_2", "Wide ResNet-50-2", replace(R50, width=128), "78.468 / 94.086"
)
wide_resnet101_2 = enter(
    "wide_resnet101_2", "Wide ResNet-101-2", replace(R101, width=128), "78.848 / 94.284"
)

enter = Family(resnet, "arXiv 1512.03385", source="Keras", mode="caffe")
resnet50_keras = resnet50_v1 = enter(
    "resnet50_keras",
    "ResNet-50",
    replace(R50, style=KERAS),
    "74.9 / 92.1",
    aliases=("resnet50_v1",),
)
resnet101_keras = resnet101_v1 = enter(
    "resnet101_keras",
    "ResNet-101",
    replace(R101, style=KERAS),
    "76.4 / 92.8",
    aliases=("resnet101_v1",),
)
resnet152_keras = resnet152_v1 = enter(
    "resnet152_keras",
    "ResNet-152",
    replace(R152, style=KERAS),
    "76.6 / 93.1",
    aliases=("resnet152_v1",),
)
