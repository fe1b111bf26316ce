"""ConvNeXt: A ConvNet for the 2020s (Liu et al. 2022, arXiv 2201.03545).

A block is a 7x7 convolution of each channel, then an MLP over the channels of each pixel. Keras's
form takes pixels of 0 to 255 and scales them itself; otherwise the two are equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.layers import (
    conv2d,
    depthwise_conv2d,
    fully_connected,
    global_avg_pool2d,
    layer,
    layer_norm,
    require_shape,
    scope,
    weight,
)
from neuralsym.network import Network
from neuralsym.weights.imagenet import DEVIATION, MEAN
from neuralsym.zoo.registry import Family, Options, assemble
from neuralsym.zoo.transformer import NARROW, mlp

EPSILON = 1e-6


@dataclass(frozen=True)
class Config:
    """Channels and blocks of each stage; scales: the network scales its pixels itself."""

    width: tuple[int, ...]
    depths: tuple[int, ...]
    scales: bool = False


@layer
def scale_pixels(x: Symbol, name: str | None = None) -> Symbol:
    """Pixels of 0 to 255, less ImageNet's mean and over its deviation."""
    mean, deviation = ((255 * a).astype(np.float32).reshape(1, 3, 1, 1) for a in (MEAN, DEVIATION))
    return (x - mean) / deviation


@layer
def channel_norm(x: Symbol, name: str | None = None) -> Symbol:
    """Layer normalisation over the channels of each pixel, [N, C, H, W]."""
    rows = ops.transpose(x, perm=(0, 2, 3, 1)) | layer_norm(epsilon=EPSILON)
    return ops.transpose(rows, perm=(0, 3, 1, 2))


@layer
def convnext_block(x: Symbol, name: str | None = None) -> Symbol:
    """A 7x7 convolution of each channel and an MLP of each pixel, scaled, around a skip."""
    width = require_shape(x, 4, axis=1)[1]
    y = x | depthwise_conv2d(7, padding=3, kernel_initializer=NARROW, name="depthwise")
    y = ops.transpose(y, perm=(0, 2, 3, 1)) | layer_norm(epsilon=EPSILON, name="norm")
    y = y | mlp(4 * width, kernel_initializer=NARROW, name="mlp")
    y = y * weight("layer_scale", (width,), 1e-6)
    return x + ops.transpose(y, perm=(0, 3, 1, 2))


def convnext(name: str, config: Config, options: Options) -> Network:
    """Patches of 4x4, four stages with halvings between them, norm and one affine map."""

    def features(x: Symbol) -> Symbol:
        if config.scales:
            x = x | scale_pixels(name="pixels")
        for stage, (width, depth) in enumerate(zip(config.width, config.depths, strict=True)):
            with scope(f"stage{stage + 1}"):
                with scope("downsample"):
                    step = 2 if stage else 4
                    halve = conv2d(width, step, step, "valid", kernel_initializer=NARROW)
                    norm = channel_norm(name="norm")
                    x = x | norm | halve if stage else x | halve | norm
                for i in range(depth):
                    x = x | convnext_block(name=f"block{i + 1}")
        return x

    def head(x: Symbol, classes: int) -> Symbol:
        means = x | global_avg_pool2d() | layer_norm(epsilon=EPSILON, name="norm")
        return means | fully_connected(classes, kernel_initializer=NARROW, name="head")

    return assemble(name, features, head, **options)


T = Config((96, 192, 384, 768), (3, 3, 9, 3))
S = Config((96, 192, 384, 768), (3, 3, 27, 3))
B = Config((128, 256, 512, 1024), (3, 3, 27, 3))
L = Config((192, 384, 768, 1536), (3, 3, 27, 3))
XL = Config((256, 512, 1024, 2048), (3, 3, 27, 3))

family = Family(convnext, "arXiv 2201.03545", resize=232)
convnext_tiny = family("convnext_tiny", "ConvNeXt-T", T, "82.52 / 96.146", resize=236)
convnext_small = family("convnext_small", "ConvNeXt-S", S, "83.616 / 96.65", resize=230)
convnext_base = family("convnext_base", "ConvNeXt-B", B, "84.062 / 96.87")
convnext_large = family("convnext_large", "ConvNeXt-L", L, "84.414 / 96.976")


keras = replace(family, source="Keras", resize=256, mode="raw")
convnext_tiny_keras = keras(
    "convnext_tiny_keras", "ConvNeXt-T", replace(T, scales=True), "81.3 / -"
)
convnext_small_keras = keras(
    "convnext_small_keras", "ConvNeXt-S", replace(S, scales=True), "82.3 / -"
)
convnext_base_keras = keras(
    "convnext_base_keras", "ConvNeXt-B", replace(B, scales=True), "85.3 / -"
)
convnext_large_keras = keras(
    "convnext_large_keras", "ConvNeXt-L", replace(L, scales=True), "86.3 / -"
)
convnext_xlarge_keras = keras(
    "convnext_xlarge_keras", "ConvNeXt-XL", replace(XL, scales=True), "86.7 / -"
)
