"""ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture Design (Ma et al. 2018).

Half of the channels go around a unit; a shuffle then mixes the two halves.
"""

from __future__ import annotations

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.layers import layer, max_pool2d, relu, require_shape, scope
from neuralsym.network import Network
from neuralsym.zoo.blocks import conv_bn, depthwise_bn, pooled_head
from neuralsym.zoo.registry import Family, Options, assemble

DEPTHS = {2: 4, 3: 8, 4: 4}
"""The units of each stage (table 5)."""


def shuffle(x: Symbol) -> Symbol:
    """Channels of the two halves in turns: [a1, a2, ..., b1, b2, ...] -> [a1, b1, a2, b2, ...]."""
    _, channels, height, width = require_shape(x, 4)
    halves = ops.reshape(x, [0, 2, channels // 2, height, width])
    return ops.reshape(ops.transpose(halves, perm=(0, 2, 1, 3, 4)), [0, channels, height, width])


@layer
def unit(x: Symbol, filters: int, strides: int, name: str | None = None) -> Symbol:
    """Figure 3c; with a stride of 2, figure 3d, both branches see all of the input."""
    half = filters // 2
    if strides == 1:
        aside, x = ops.split(x, num_outputs=2, axis=1)
    else:
        with scope("branch1"):
            aside = x | depthwise_bn(3, strides) | conv_bn(half, 1, activation=relu)
    with scope("branch2"):
        y = (
            x
            | conv_bn(half, 1, activation=relu)
            | depthwise_bn(3, strides)
            | conv_bn(half, 1, activation=relu)
        )
    return shuffle(ops.concat([aside, y], axis=1))


def shufflenet_v2(name: str, filters: tuple[int, int, int, int], options: Options) -> Network:
    """Stem of 24 filters, three stages, a 1x1 convolution, and one affine map.

    filters: of the three stages and of the last convolution.
    """

    def features(x: Symbol) -> Symbol:
        x = x | conv_bn(24, 3, 2, activation=relu, name="conv1") | max_pool2d(3, 2, padding=1)
        for width, (stage, depth) in zip(filters, DEPTHS.items(), strict=False):
            with scope(f"stage{stage}"):
                for i in range(depth):
                    x = x | unit(width, 2 if i == 0 else 1, name=f"unit{i + 1}")
        return x | conv_bn(filters[-1], 1, activation=relu, name="conv5")

    return assemble(name, features, pooled_head(), **options)


enter = Family(shufflenet_v2, "arXiv 1807.11164")
shufflenet_v2_x0_5 = enter(
    "shufflenet_v2_x0_5", "ShuffleNet V2 0.5x", (48, 96, 192, 1024), "60.552 / 81.746"
)
shufflenet_v2_x1_0 = enter(
    "shufflenet_v2_x1_0", "ShuffleNet V2 1x", (116, 232, 464, 1024), "69.362 / 88.316"
)
shufflenet_v2_x1_5 = enter(
    "shufflenet_v2_x1_5", "ShuffleNet V2 1.5x", (176, 352, 704, 1024), "72.996 / 91.086", resize=232
)
shufflenet_v2_x2_0 = enter(
    "shufflenet_v2_x2_0", "ShuffleNet V2 2x", (244, 488, 976, 2048), "76.23 / 93.006", resize=232
)
