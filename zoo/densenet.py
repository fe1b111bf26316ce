"""DenseNet-BC: Densely Connected Convolutional Networks (Huang et al. 2016), table 1.

Each layer adds a few channels to those of all layers before it. Keras's form has another epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    Layer,
    avg_pool2d,
    batch_norm,
    conv2d,
    initializers,
    layer,
    max_pool2d,
    relu,
    require_shape,
    scope,
)
from neuralsym.layers.weights import Init
from neuralsym.network import Network
from neuralsym.zoo.blocks import conv_bn, pooled_head
from neuralsym.zoo.registry import Family, Options, assemble


@dataclass(frozen=True)
class Config:
    """A column of table 1: the layers of each dense block.

    growth: the channels that a layer adds, the paper's k; stem: filters of the first convolution.
    """

    depths: Sequence[int]
    growth: int = 32
    stem: int = 64
    epsilon: float = 1e-5
    kernel: Init = initializers.kaiming_normal
    dense: Init = "standard"

    def norm(self, name: str) -> Layer[Symbol, Symbol]:
        return batch_norm(epsilon=self.epsilon, name=name) | relu

    def conv(self, filters: int, kernel: int, name: str) -> Layer[Symbol, Symbol]:
        """A convolution without bias."""
        return conv2d(filters, kernel, use_bias=False, kernel_initializer=self.kernel, name=name)


@layer
def dense_layer(x: Symbol, config: Config, name: str | None = None) -> Symbol:
    """Batch norm, ReLU, 1x1 to four times the growth, then the same with 3x3; beside its input."""
    y = x | config.norm("norm1") | config.conv(4 * config.growth, 1, "conv1")
    y = y | config.norm("norm2") | config.conv(config.growth, 3, "conv2")
    return ops.concat([x, y], axis=1)


@layer
def transition(x: Symbol, config: Config, name: str | None = None) -> Symbol:
    """Half of the channels, half of the size."""
    half = require_shape(x, 4, axis=1)[1] // 2
    return x | config.norm("norm") | config.conv(half, 1, "conv") | avg_pool2d(2)


def densenet(name: str, config: Config, options: Options) -> Network:
    """Stem, dense blocks with transitions between them, batch norm, and one affine map."""

    def features(x: Symbol) -> Symbol:
        stem = conv_bn(
            config.stem,
            7,
            2,
            activation=relu,
            epsilon=config.epsilon,
            kernel_initializer=config.kernel,
            name="stem",
        )
        x = x | stem | max_pool2d(3, 2, padding=1)
        for i, depth in enumerate(config.depths, 1):
            if i > 1:
                x = x | transition(config, name=f"transition{i - 1}")
            with scope(f"block{i}"):
                for j in range(depth):
                    x = x | dense_layer(config, name=f"layer{j + 1}")
        return x | config.norm("norm")

    return assemble(name, features, pooled_head(config.dense), **options)


D121, D161, D169, D201 = (
    Config((6, 12, 24, 16)),
    Config((6, 12, 36, 24), growth=48, stem=96),
    Config((6, 12, 32, 32)),
    Config((6, 12, 48, 32)),
)

enter = Family(densenet, "arXiv 1608.06993")
densenet121 = enter("densenet121", "DenseNet-121", D121, "74.434 / 91.972")
densenet161 = enter("densenet161", "DenseNet-161", D161, "77.138 / 93.56")
densenet169 = enter("densenet169", "DenseNet-169", D169, "75.6 / 92.806")
densenet201 = enter("densenet201", "DenseNet-201", D201, "76.896 / 93.37")


def keras(config: Config) -> Config:
    return replace(config, epsilon=1.001e-5, kernel="glorot_uniform", dense="glorot_uniform")


enter = Family(densenet, "arXiv 1608.06993", source="Keras")
densenet121_keras = enter("densenet121_keras", "DenseNet-121", keras(D121), "75.0 / 92.3")
densenet169_keras = enter("densenet169_keras", "DenseNet-169", keras(D169), "76.2 / 93.2")
densenet201_keras = enter("densenet201_keras", "DenseNet-201", keras(D201), "77.3 / 93.6")
