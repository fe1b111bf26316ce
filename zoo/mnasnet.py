"""MNASNet-B1: Platform-Aware Neural Architecture Search for Mobile (Tan et al. 2018), figure 7."""

from __future__ import annotations

from neuralsym.core.symbol import Symbol
from neuralsym.layers import initializers, require_shape, scope
from neuralsym.network import Network
from neuralsym.zoo.blocks import divisible, pooled_head
from neuralsym.zoo.mbconv import Style, inverted_residual
from neuralsym.zoo.registry import Family, Options, assemble

# Filters, kernel, stride of the first block, factor of expansion, blocks.
STAGES = (
    (24, 3, 2, 3, 3),
    (40, 5, 2, 3, 3),
    (80, 5, 2, 6, 3),
    (96, 3, 1, 6, 2),
    (192, 5, 2, 6, 4),
    (320, 3, 1, 6, 1),
)
DENSE = initializers.variance_scaling(1.0, "fan_out", "uniform")
STYLE = Style()


def mnasnet(name: str, alpha: float, options: Options) -> Network:
    """Stem, a separable convolution, six stages, a 1x1 convolution, and one affine map.

    alpha: what all filters but those of the last convolution are multiplied by.
    """

    def block(x: Symbol, filters: int, kernel: int, strides: int, factor: int, i: int) -> Symbol:
        expanded = factor * require_shape(x, 4, axis=1)[1]
        return x | inverted_residual(
            divisible(filters * alpha),
            kernel,
            strides if i == 0 else 1,
            expanded,
            "relu",
            STYLE,
            name=f"block{i + 1}",
        )

    def features(x: Symbol) -> Symbol:
        with scope("stem"):
            x = x | STYLE.conv(divisible(32 * alpha), 3, 2, "relu", name="conv")
            x = x | STYLE.depthwise(3, activation="relu")
            x = x | STYLE.conv(divisible(16 * alpha), name="project")
        for stage, (filters, kernel, strides, factor, depth) in enumerate(STAGES, 1):
            with scope(f"stage{stage}"):
                for i in range(depth):
                    x = block(x, filters, kernel, strides, factor, i)
        return x | STYLE.conv(1280, activation="relu", name="top")

    return assemble(name, features, pooled_head(DENSE, rate=0.2), **options)


enter = Family(mnasnet, "arXiv 1807.11626")
mnasnet0_5 = enter("mnasnet0_5", "MNASNet-B1 0.5", 0.5, "67.734 / 87.49")
mnasnet0_75 = enter("mnasnet0_75", "MNASNet-B1 0.75", 0.75, "71.18 / 90.496", resize=232)
mnasnet1_0 = enter("mnasnet1_0", "MNASNet-B1", 1.0, "73.456 / 91.51")
mnasnet1_3 = enter("mnasnet1_3", "MNASNet-B1 1.3", 1.3, "76.506 / 93.522", resize=232)
