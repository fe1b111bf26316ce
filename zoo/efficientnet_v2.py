"""EfficientNetV2: Smaller Models and Faster Training (Tan and Le 2021, arXiv 2104.00298), table 4.

The first stages are of fused blocks. Keras has B0 to B3 too, which are scaled as EfficientNet is;
it pads as TensorFlow does and takes pictures of 0 to 255, which the network scales itself.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.weights.imagenet import DEVIATION, MEAN
from neuralsym.zoo.efficientnet import KERAS, PORTED, Config, Stage, build
from neuralsym.zoo.registry import Architecture, Family

PAPER = "arXiv 2104.00298"
# Times that the channels expand, kernel, stride, filters, blocks, fused.
STAGES = {
    "s": (
        Stage(1, 3, 1, 24, 2, fused=True),
        Stage(4, 3, 2, 48, 4, fused=True),
        Stage(4, 3, 2, 64, 4, fused=True),
        Stage(4, 3, 2, 128, 6),
        Stage(6, 3, 1, 160, 9),
        Stage(6, 3, 2, 256, 15),
    ),
    "m": (
        Stage(1, 3, 1, 24, 3, fused=True),
        Stage(4, 3, 2, 48, 5, fused=True),
        Stage(4, 3, 2, 80, 5, fused=True),
        Stage(4, 3, 2, 160, 7),
        Stage(6, 3, 1, 176, 14),
        Stage(6, 3, 2, 304, 18),
        Stage(6, 3, 1, 512, 5),
    ),
    "l": (
        Stage(1, 3, 1, 32, 4, fused=True),
        Stage(4, 3, 2, 64, 7, fused=True),
        Stage(4, 3, 2, 96, 7, fused=True),
        Stage(4, 3, 2, 192, 10),
        Stage(6, 3, 1, 224, 19),
        Stage(6, 3, 2, 384, 25),
        Stage(6, 3, 1, 640, 7),
    ),
    "b": (
        Stage(1, 3, 1, 16, 1, fused=True),
        Stage(4, 3, 2, 32, 2, fused=True),
        Stage(4, 3, 2, 48, 2, fused=True),
        Stage(4, 3, 2, 96, 3),
        Stage(6, 3, 1, 112, 5),
        Stage(6, 3, 2, 192, 8),
    ),
}


def to_unit(x: Symbol) -> Symbol:
    """Pictures of 0 to 255 as Keras's S, M and L take them."""
    return x * np.float32(1 / 128) - 1.0


def to_imagenet(x: Symbol) -> Symbol:
    """Pictures of 0 to 255 as Keras's B0 to B3 take them."""
    mean, deviation = (constant(v.reshape(3, 1, 1)) for v in (MEAN, DEVIATION))
    return (x * np.float32(1 / 255) - mean) / deviation


def nearest(channels: float) -> int:
    """The nearest multiple of 8, at least 8: the other families round without losing a tenth."""
    return max(8, int(channels + 4) // 8 * 8)


FAMILY = Family(build, PAPER)


def _torchvision(scale: str, accuracy: str, size: int, drop: float) -> Architecture:
    stages, large = STAGES[scale], scale == "l"
    return FAMILY(
        f"efficientnet_v2_{scale}",
        f"EfficientNetV2-{scale.upper()}",
        Config(stages[0].filters, stages, 1280, drop, PORTED),
        accuracy,
        size=size,
        resize=size,
        mode="tf" if large else "torch",
        interpolation="bicubic" if large else "bilinear",
    )


def _keras(scale: str, accuracy: str, size: int) -> Architecture:
    stages = STAGES[scale]
    return FAMILY(
        f"efficientnet_v2_{scale}_keras",
        f"EfficientNetV2-{scale.upper()}",
        Config(stages[0].filters, stages, 1280, 0.2, KERAS, to_unit),
        accuracy,
        source="Keras",
        mode="raw",
        size=size,
        resize=size,
        interpolation="bicubic",
    )


def _scaled(scale: str, width: float, depth: float, accuracy: str, size: int) -> Architecture:
    stages = [
        replace(s, filters=nearest(s.filters * width), depth=ceil(s.depth * depth))
        for s in STAGES["b"]
    ]
    stem, top = nearest(32 * width), nearest(1280 * width)
    return FAMILY(
        f"efficientnet_v2_{scale}",
        f"EfficientNetV2-{scale.upper()}",
        Config(stem, stages, top, 0.2, KERAS, to_imagenet),
        accuracy,
        source="Keras",
        mode="raw",
        size=size,
        resize=size + 32,
        interpolation="bicubic",
    )


efficientnet_v2_s = _torchvision("s", "84.228 / 96.878", 384, 0.2)
efficientnet_v2_m = _torchvision("m", "85.112 / 97.156", 480, 0.3)
efficientnet_v2_l = _torchvision("l", "85.808 / 97.788", 480, 0.4)

efficientnet_v2_s_keras = _keras("s", "83.9 / 96.7", 384)
efficientnet_v2_m_keras = _keras("m", "85.3 / 97.4", 480)
efficientnet_v2_l_keras = _keras("l", "85.7 / 97.5", 480)

efficientnet_v2_b0 = _scaled("b0", 1.0, 1.0, "78.7 / 94.3", 224)
efficientnet_v2_b1 = _scaled("b1", 1.0, 1.1, "79.8 / 95.0", 240)
efficientnet_v2_b2 = _scaled("b2", 1.1, 1.2, "80.5 / 95.1", 260)
efficientnet_v2_b3 = _scaled("b3", 1.2, 1.4, "82.0 / 95.8", 300)
