"""VGG: Very Deep Convolutional Networks (Simonyan and Zisserman 2014), table 1.

torchvision averages the last feature map to 7x7, so that the input may have any size, and has forms
with batch norm. Keras flattens it as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    adaptive_avg_pool2d,
    conv2d,
    dropout,
    fully_connected,
    initializers,
    max_pool2d,
    relu,
    scope,
)
from neuralsym.layers.weights import Init
from neuralsym.network import Network
from neuralsym.zoo.blocks import KAIMING, conv_bn
from neuralsym.zoo.registry import Family, Options, assemble

FILTERS = (64, 128, 256, 512, 512)
DENSE = initializers.random_normal(0.0, 0.01)


@dataclass(frozen=True)
class Config:
    """A column of table 1: the 3x3 convolutions of each stage.

    pooled: whether the last feature map is averaged to 7x7; hidden: units of the first two affine
    maps; kernel, dense: of both kinds of layers the first values.
    """

    depths: tuple[int, ...]
    norm: bool = False
    pooled: bool = True
    hidden: int = 4096
    kernel: Init = KAIMING
    dense: Init = DENSE


def vgg(name: str, config: Config, options: Options) -> Network:
    """Stages of 3x3 convolutions, each with a pool after it, and three affine maps."""

    def conv(x: Symbol, filters: int, called: str) -> Symbol:
        if config.norm:
            return x | conv_bn(filters, 3, use_bias=True, activation=relu, name=called)
        return x | conv2d(
            filters, 3, activation=relu, kernel_initializer=config.kernel, name=called
        )

    def features(x: Symbol) -> Symbol:
        for stage, (filters, depth) in enumerate(zip(FILTERS, config.depths, strict=True), 1):
            with scope(f"stage{stage}"):
                for i in range(depth):
                    x = conv(x, filters, f"conv{i + 1}")
                x = x | max_pool2d(2)
        return x

    def head(x: Symbol, classes: int) -> Symbol:
        if config.pooled:
            x = x | adaptive_avg_pool2d(7)
        for called in ("fc1", "fc2"):
            hidden = fully_connected(
                config.hidden, activation=relu, kernel_initializer=config.dense, name=called
            )
            x = x | hidden | dropout(0.5)
        return x | fully_connected(classes, kernel_initializer=config.dense, name="fc3")

    return assemble(name, features, head, **options)


A, B, D, E = (
    Config(depths)
    for depths in ((1, 1, 2, 2, 2), (2, 2, 2, 2, 2), (2, 2, 3, 3, 3), (2, 2, 4, 4, 4))
)

enter = Family(vgg, "arXiv 1409.1556")
vgg11 = enter("vgg11", "VGG-11", A, "69.02 / 88.628")
vgg13 = enter("vgg13", "VGG-13", B, "69.928 / 89.246")
vgg16 = enter("vgg16", "VGG-16", D, "71.592 / 90.382")
vgg19 = enter("vgg19", "VGG-19", E, "72.376 / 90.876")
vgg11_bn = enter("vgg11_bn", "VGG-11 with batch norm", replace(A, norm=True), "70.37 / 89.81")
vgg13_bn = enter("vgg13_bn", "VGG-13 with batch norm", replace(B, norm=True), "71.586 / 90.374")
vgg16_bn = enter("vgg16_bn", "VGG-16 with batch norm", replace(D, norm=True), "73.36 / 91.516")
vgg19_bn = enter("vgg19_bn", "VGG-19 with batch norm", replace(E, norm=True), "74.218 / 91.842")


def keras(config: Config) -> Config:
    return replace(config, pooled=False, kernel="glorot_uniform", dense="glorot_uniform")


enter = Family(vgg, "arXiv 1409.1556", source="Keras", mode="caffe")
vgg16_keras = enter("vgg16_keras", "VGG-16", keras(D), "71.3 / 90.1")
vgg19_keras = enter("vgg19_keras", "VGG-19", keras(E), "71.3 / 90.0")
