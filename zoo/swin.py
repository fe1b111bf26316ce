"""Swin: Hierarchical Vision Transformer using Shifted Windows (Liu et al. 2021, arXiv 2103.14030).

Attention within windows of tokens, which every other block shifts by half a window; four stages,
each with a quarter of the tokens. V2 (arXiv 2111.09883) compares tokens by their angle, learns the
bias of a pair from its distance, and normalises behind each part. As torchvision has them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    conv2d,
    dense,
    fully_connected,
    global_avg_pool2d,
    layer,
    layer_norm,
    relu,
    require_shape,
    scope,
    weight,
)
from neuralsym.network import Network
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
    pick,
    relative_bias,
    tiles,
    tokens_of,
)

EPSILON = 1e-5
PATCH = 4
FAR = -100.0
"""What is added to the score of two tokens that only a shift has brought together."""

Size = tuple[int, int]


@dataclass(frozen=True)
class Config:
    """Channels of the first stage, blocks and heads of each, the side of a window."""

    width: int
    depths: tuple[int, ...]
    heads: tuple[int, ...]
    window: int = 7
    second: bool = False


# -- windows -------------------------------------------------------------------------------------
def whole_windows(size: Size, window: int) -> Index:
    """The places of a map's tokens, filled up to whole windows by the place behind the last."""
    filled = [math.ceil(n / window) * window for n in size]
    places = np.full(filled, size[0] * size[1], np.int64)
    places[: size[0], : size[1]] = np.arange(size[0] * size[1]).reshape(size)
    return places


def shifted_windows(size: Size, window: int, shift: int) -> tuple[Index, NDArray[np.float32]]:
    """The places of each window's tokens [number, window^2], and FAR between those that are apart.

    The map is rolled by `shift` along each axis that has more than one window; a window that holds
    its end then holds its beginning too.
    """
    places = whole_windows(size, window)
    regions = np.zeros(places.shape, np.int64)
    for axis, length in enumerate(places.shape):
        if shift and window < length:
            places = np.roll(places, -shift, axis)
            along = np.arange(length) >= length - shift
            regions = 2 * regions + np.expand_dims(along, 1 - axis)
    region = tiles(regions, window, window)
    apart = np.where(region[:, :, None] != region[:, None, :], FAR, 0).astype(np.float32)
    return tiles(places, window, window), apart


def for_each_window(bias: Symbol, apart: NDArray[np.float32], batch: Symbol) -> Symbol:
    """What is added to the scores of every entry of a batch [N]: [heads, L, L], or one each."""
    if not apart.any():
        return bias
    sizes = [len(apart), *require_shape(bias, 3)]
    every = ops.unsqueeze(constant(apart), [1]) + bias
    many = ops.expand(every, ops.concat([batch, constant(sizes)], axis=0))
    return ops.reshape(many, [-1, *sizes[1:]])


@layer
def window_attention(
    x: Symbol, size: Size, heads: int, window: int, shift: int, name: str | None = None
) -> Symbol:
    """Attention of the tokens [N, H * W, C] of each window, with a learned bias of each pair."""
    width = require_shape(x, 3, axis=-1)[-1]
    table = weight("relative_position_bias", ((2 * window - 1) ** 2, heads), NARROW)
    windows, apart = shifted_windows(size, window, shift)
    bias = for_each_window(relative_bias(table, window), apart, ops.shape(x, start=0, end=1))
    qkv = cut(x, windows) | dense(3 * width, kernel_initializer=NARROW, name="qkv")
    q, k, v = heads_of(qkv, heads)
    y = attend(q, k, v, (width // heads) ** -0.5, bias)
    y = y | dense(width, kernel_initializer=NARROW, name="proj")
    return paste(y, windows, size[0] * size[1])


# -- the second version's --------------------------------------------------------------------------
@layer
def distance_bias(x: Symbol, heads: int, name: str | None = None) -> Symbol:
    """A bias within 0 to 16 for distances [..., 2], by an MLP."""
    x = x | dense(512, kernel_initializer=NARROW, name="fc1") | relu
    x = x | dense(heads, use_bias=False, kernel_initializer=NARROW, name="fc2")
    return ops.sigmoid(x) * 16.0


def distances(window: int) -> NDArray[np.float32]:
    """[(2 * window - 1)^2, 2]: how far down and right, in logarithms within -1 to 1."""
    far = np.arange(1 - window, window) / (window - 1)
    log = np.sign(far) * np.log2(8 * np.abs(far) + 1) / 3
    return np.stack(np.meshgrid(log, log, indexing="ij"), -1).reshape(-1, 2).astype(np.float32)


def unit(x: Symbol) -> Symbol:
    """The last axis over its length, zeros where it is none."""
    return x / ops.max([ops.reduce_l2(x, [-1]), 1e-12])


@layer
def window_attention_v2(
    x: Symbol, size: Size, heads: int, window: int, shift: int, name: str | None = None
) -> Symbol:
    """window_attention by the cosine of the angle between queries and keys, which have no bias."""
    width = require_shape(x, 3, axis=-1)[-1]
    scale = ops.exp(ops.min([weight("logit_scale", (heads, 1), math.log(10)), math.log(100)]))
    table = constant(distances(window)) | distance_bias(heads, name="distance")
    windows, apart = shifted_windows(size, window, shift)
    bias = for_each_window(relative_bias(table, window), apart, ops.shape(x, start=0, end=1))
    added = weight("qkv_bias", (3 * width,)) * np.repeat([1, 0, 1], width).astype(np.float32)
    qkv = cut(x, windows) | dense(3 * width, use_bias=False, kernel_initializer=NARROW, name="qkv")
    q, k, v = heads_of(qkv + added, heads)
    y = attend(unit(q) * scale, unit(k), v, bias=bias)
    y = y | dense(width, kernel_initializer=NARROW, name="proj")
    return paste(y, windows, size[0] * size[1])


# -- stages --------------------------------------------------------------------------------------
@layer
def swin_block(
    x: Symbol, size: Size, heads: int, shift: int, config: Config, name: str | None = None
) -> Symbol:
    """Attention within windows, then an MLP, each with a skip around it."""
    norm1, norm2 = (layer_norm(epsilon=EPSILON, name=n) for n in ("norm1", "norm2"))
    narrow = mlp(4 * require_shape(x, axis=-1)[-1], name="mlp")
    if config.second:
        x = x + (x | window_attention_v2(size, heads, config.window, shift, name="attn") | norm1)
        return x + (x | narrow | norm2)
    x = x + (x | norm1 | window_attention(size, heads, config.window, shift, name="attn"))
    return x + (x | norm2 | narrow)


@layer
def patch_merging(x: Symbol, size: Size, second: bool, name: str | None = None) -> Symbol:
    """Tokens in fours made one of twice the channels: [N, H * W, C] -> [N, H * W / 4, 2 * C]."""
    width = require_shape(x, 3, axis=-1)[-1]
    fours = tiles(whole_windows(size, 2), 2, 2)[:, [0, 2, 1, 3]]  # columns first, as published
    x = ops.reshape(pick(x, fours), [0, len(fours), 4 * width])
    reduction = dense(2 * width, use_bias=False, kernel_initializer=NARROW, name="reduction")
    norm = layer_norm(epsilon=EPSILON, name="norm")
    return x | reduction | norm if second else x | norm | reduction


def swin(name: str, config: Config, options: Options) -> Network:
    """Patches of 4x4, four stages, and one affine map of the means."""

    def features(x: Symbol) -> Symbol:
        with scope("patches"):
            x = x | conv2d(config.width, PATCH, PATCH, "valid", kernel_initializer="lecun_normal")
            size: Size = require_shape(x)[2:]
            x = x | tokens_of | layer_norm(epsilon=EPSILON, name="norm")
        for stage, (depth, heads) in enumerate(zip(config.depths, config.heads, strict=True)):
            with scope(f"stage{stage + 1}"):
                if stage > 0:
                    x = x | patch_merging(size, config.second, name="merging")
                    size = (size[0] + 1) // 2, (size[1] + 1) // 2
                for i in range(depth):
                    shift = i % 2 * (config.window // 2)
                    x = x | swin_block(size, heads, shift, config, name=f"block{i + 1}")
        return map_of(x | layer_norm(epsilon=EPSILON, name="norm"), size)

    def head(x: Symbol, classes: int) -> Symbol:
        return x | global_avg_pool2d() | fully_connected(classes, name="head")

    return assemble(name, features, head, **options)


family = Family(swin, "arXiv 2103.14030", interpolation="bicubic")
family_v2 = replace(family, paper="arXiv 2111.09883", size=256)
TINY, SMALL = (2, 2, 6, 2), (2, 2, 18, 2)
FEW, MANY = (3, 6, 12, 24), (4, 8, 16, 32)
swin_t = family("swin_t", "Swin-T", Config(96, TINY, FEW), "81.474 / 95.776", resize=232)
swin_s = family("swin_s", "Swin-S", Config(96, SMALL, FEW), "83.196 / 96.36", resize=246)
swin_b = family("swin_b", "Swin-B", Config(128, SMALL, MANY), "83.582 / 96.64", resize=238)
swin_v2_t = family_v2(
    "swin_v2_t", "Swin-T, version 2", Config(96, TINY, FEW, 8, True), "82.072 / 96.132", resize=260
)
swin_v2_s = family_v2(
    "swin_v2_s", "Swin-S, version 2", Config(96, SMALL, FEW, 8, True), "83.712 / 96.816", resize=260
)
swin_v2_b = family_v2(
    "swin_v2_b",
    "Swin-B, version 2",
    Config(128, SMALL, MANY, 8, True),
    "84.112 / 96.864",
    resize=272,
)
