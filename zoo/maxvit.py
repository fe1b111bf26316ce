"""MaxViT: Multi-Axis Vision Transformer (Tu et al. 2022, arXiv 2204.01697).

A layer is an inverted bottleneck with squeeze and excitation, then attention within windows of
neighbours, then attention within grids of tokens that lie far apart. As torchvision has it: the
side of a map must be a multiple of a window's, so a picture's a multiple of 224.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neuralsym.core.symbol import Symbol
from neuralsym.errors import ShapeMismatch
from neuralsym.layers import (
    avg_pool2d,
    batch_norm,
    conv2d,
    dense,
    fully_connected,
    global_avg_pool2d,
    layer,
    layer_norm,
    require_shape,
    scope,
    tanh,
    weight,
)
from neuralsym.network import Network
from neuralsym.zoo.blocks import KAIMING, conv_bn, depthwise_bn, squeeze_excite
from neuralsym.zoo.registry import Family, Options, assemble
from neuralsym.zoo.transformer import (
    NARROW,
    Index,
    attend,
    cut,
    heads_of,
    map_of,
    mlp,
    paste,
    relative_bias,
    tiles,
    tokens_of,
)

BATCH_EPSILON = 1e-3
EPSILON = 1e-5
EXPANSION, SQUEEZE = 4, 0.25


@dataclass(frozen=True)
class Config:
    """Channels of the stem, channels and layers of each block, of a head, the side of a window."""

    stem: int
    width: tuple[int, ...]
    depths: tuple[int, ...]
    head: int = 32
    window: int = 7


@layer
def mb_conv(x: Symbol, filters: int, strides: int, name: str | None = None) -> Symbol:
    """Normalised, widened by 1x1, 3x3 of each channel, gated, narrowed; around it a skip."""
    wide = EXPANSION * filters
    y = x | batch_norm(epsilon=BATCH_EPSILON, name="pre_norm")
    y = y | conv_bn(wide, 1, activation="gelu", epsilon=BATCH_EPSILON, name="conv_a")
    y = y | depthwise_bn(3, strides, activation="gelu", epsilon=BATCH_EPSILON, name="conv_b")
    y = y | squeeze_excite(int(SQUEEZE * filters), "silu", name="squeeze_excitation")
    y = y | conv2d(filters, 1, kernel_initializer=KAIMING, name="conv_c")
    if strides > 1:
        x = x | avg_pool2d(3, strides, padding=1, count_include_pad=True)
    if strides > 1 or require_shape(x, axis=1)[1] != filters:
        x = x | conv2d(filters, 1, kernel_initializer=KAIMING, name="proj")
    return x + y


def partition(size: tuple[int, int], window: int, grid: bool) -> Index:
    """The places of the tokens [number, window^2] of each window, or of each grid."""
    places = np.arange(size[0] * size[1]).reshape(size)
    if grid:
        return tiles(places, size[0] // window, size[1] // window).T
    return tiles(places, window, window)


@layer
def relative_attention(x: Symbol, head: int, window: int, name: str | None = None) -> Symbol:
    """Attention of the tokens [N, window^2, D] to each other with a learned bias of each pair.

    Scores are over the root of D, not of a head's size.
    """
    width = require_shape(x, 3, axis=-1)[-1]
    table = weight("relative_position_bias", ((2 * window - 1) ** 2, width // head), NARROW)
    qkv = x | dense(3 * width, kernel_initializer=NARROW, name="qkv")
    q, k, v = heads_of(qkv, width // head)
    y = attend(q, k, v, scale=width**-0.5, bias=relative_bias(table, window))
    return y | dense(width, kernel_initializer=NARROW, name="proj")


@layer
def partition_attention(
    x: Symbol, head: int, window: int, grid: bool, name: str | None = None
) -> Symbol:
    """A map [N, C, H, W] in pieces, whose tokens attend to each other; an MLP; a map again."""
    size = require_shape(x, 4, axis=1)[2:]
    pieces = partition(size, window, grid)
    y = cut(tokens_of(x), pieces)
    y = y + (
        y
        | layer_norm(epsilon=EPSILON, name="norm1")
        | relative_attention(head, window, name="attn")
    )
    inner = mlp(4 * require_shape(y, axis=-1)[-1], kernel_initializer=NARROW, name="mlp")
    y = y + (y | layer_norm(epsilon=EPSILON, name="norm2") | inner)
    return map_of(paste(y, pieces, size[0] * size[1]), size)


def maxvit(name: str, config: Config, options: Options) -> Network:
    """Stem, four blocks that halve the map, and two affine maps."""

    def features(x: Symbol) -> Symbol:
        with scope("stem"):
            x = x | conv_bn(
                config.stem, 3, 2, activation="gelu", epsilon=BATCH_EPSILON, name="conv1"
            )
            x = x | conv2d(config.stem, 3, padding=1, kernel_initializer=KAIMING, name="conv2")
        for block, (width, depth) in enumerate(zip(config.width, config.depths, strict=True)):
            with scope(f"block{block + 1}"):
                for i in range(depth):
                    with scope(f"layer{i + 1}"):
                        x = x | mb_conv(width, 1 if i else 2, name="conv")
                        _check(x, config.window)
                        for grid in (False, True):
                            x = x | partition_attention(
                                config.head, config.window, grid, name="grid" if grid else "window"
                            )
        return x

    def head(x: Symbol, classes: int) -> Symbol:
        x = x | global_avg_pool2d() | layer_norm(epsilon=EPSILON, name="norm")
        x = x | fully_connected(config.width[-1], name="pre_logits") | tanh
        return x | fully_connected(classes, use_bias=False, name="head")

    return assemble(name, features, head, **options)


def _check(x: Symbol, window: int) -> None:
    size = require_shape(x, 4)[2:]
    if any(n % window for n in size):
        raise ShapeMismatch(
            f"a map of {'x'.join(map(str, size))} is not made of whole windows of {window}x"
            f"{window}: the picture's height and width must be multiples of {32 * window}"
        )


family = Family(maxvit, "arXiv 2204.01697", resize=224, interpolation="bicubic")
maxvit_t = family(
    "maxvit_t", "MaxViT-T", Config(64, (64, 128, 256, 512), (2, 2, 5, 2)), "83.7 / 96.722"
)
