"""MNASNet-B1: Platform-Aware Neural Architecture Search for Mobile (Tan et al. 2018), figure 7."""

from __future__ import annotations

from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    dropout,
    fully_connected,
    global_avg_pool2d,
    initializers,
    layer,
    relu,
    require_shape,
    scope,
)
from neuralsym.network import Network
from neuralsym.zoo.blocks import conv_bn, depthwise_bn, divisible
from neuralsym.zoo.registry import Family, Options, assemble

# Filters, kernel, stride of the first block, factor of expansion, blocks.
STACKS = (
    (24, 3, 2, 3, 3),
    (40, 5, 2, 3, 3),
    (80, 5, 2, 6, 3),
    (96, 3, 1, 6, 2),
    (192, 5, 2, 6, 4),
    (320, 3, 1, 6, 1),
)
DENSE = initializers.variance_scaling(1.0, "fan_out", "uniform")


@layer
def inverted_residual(
    x: Symbol, filters: int, kernel: int, strides: int, factor: int, name: str | None = None
) -> Symbol:
    """1x1 to `factor` times the channels, depthwise, 1x1 to `filters`; around it where they fit."""
    channels = require_shape(x, 4, axis=1)[1]
    y = (
        x
        | conv_bn(channels * factor, 1, activation=relu)
        | depthwise_bn(kernel, strides, activation=relu)
        | conv_bn(filters, 1)
    )
    return x + y if strides == 1 and channels == filters else y


def mnasnet(name: str, alpha: float, options: Options) -> Network:
    """Stem, a separable convolution, six stacks, a 1x1 convolution, and one affine map.

    alpha: what all filters but those of the last convolution are multiplied by.
    """

    def features(x: Symbol) -> Symbol:
        with scope("stem"):
            x = (
                x
                | conv_bn(divisible(32 * alpha), 3, 2, activation=relu)
                | depthwise_bn(3, activation=relu)
                | conv_bn(divisible(16 * alpha), 1)
            )
        for stack, (filters, kernel, strides, factor, depth) in enumerate(STACKS, 1):
            with scope(f"stack{stack}"):
                for i in range(depth):
                    width, step = divisible(filters * alpha), strides if i == 0 else 1
                    x = x | inverted_residual(width, kernel, step, factor, name=f"block{i + 1}")
        return x | conv_bn(1280, 1, activation=relu, name="last")

    def head(x: Symbol, classes: int) -> Symbol:
        affine = fully_connected(classes, kernel_initializer=DENSE, name="fc")
        return x | global_avg_pool2d() | dropout(0.2) | affine

    return assemble(name, features, head, **options)


enter = Family(mnasnet, "arXiv 1807.11626")
mnasnet0_5 = enter("mnasnet0_5", "MNASNet-B1 0.5", 0.5, "67.734 / 87.49")
mnasnet0_75 = enter("mnasnet0_75", "MNASNet-B1 0.75", 0.75, "71.18 / 90.496", resize=232)
mnasnet1_0 = enter("mnasnet1_0", "MNASNet-B1", 1.0, "73.456 / 91.51")
mnasnet1_3 = enter("mnasnet1_3", "MNASNet-B1 1.3", 1.3, "76.506 / 93.522", resize=232)
