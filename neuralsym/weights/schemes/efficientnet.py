"""EfficientNet and EfficientNetV2: torchvision numbers modules, timm and Keras name them.

timm's tf_efficientnet_b* and tf_efficientnetv2_b* are Keras's networks, without what these do to
pictures first. Of the others timm's epsilon is 1e-5 throughout.
"""

from __future__ import annotations

import numpy as np

from neuralsym.weights.imagenet import DEVIATION, MEAN
from neuralsym.weights.names import Array, Keys, Scheme, Shapes, Source
from neuralsym.weights.schemes.mbconv import (
    Block,
    Names,
    conv_bn,
    numbered,
    of_blocks,
    timm,
    timm_ends,
    torchvision_ends,
    with_epsilon,
)


def _torchvision_block(block: Block) -> Names:
    return numbered(f"features.{block.stage}.{block.block - 1}.block", block)


def _torchvision(blocks: list[Block]) -> Names:
    return torchvision_ends(blocks[-1].stage + 1) | {"fc": "classifier.1"}


def _keras_block(block: Block, depthwise: str) -> Names:
    prefix = f"block{block.stage}{chr(ord('a') + block.block - 1)}_"
    return {
        **conv_bn(f"{block.path}/expand", f"{prefix}expand_conv", f"{prefix}expand_bn"),
        **conv_bn(f"{block.path}/depthwise", f"{prefix}{depthwise}", f"{prefix}bn"),
        f"{block.path}/squeeze_excite/reduce": f"{prefix}se_reduce",
        f"{block.path}/squeeze_excite/expand": f"{prefix}se_expand",
        **conv_bn(f"{block.path}/project", f"{prefix}project_conv", f"{prefix}project_bn"),
    }


def _keras(_: list[Block]) -> Names:
    return {
        **conv_bn("stem", "stem_conv", "stem_bn"),
        **conv_bn("top", "top_conv", "top_bn"),
        "fc": "predictions",
    }


TIMM = of_blocks("torch", lambda _: timm_ends(), timm)
KERAS_V1 = of_blocks("keras", _keras, lambda block: _keras_block(block, "dwconv"))
KERAS_V2 = of_blocks("keras", _keras, lambda block: _keras_block(block, "dwconv2"))


def _variance(array: Array) -> Array:
    """Keras's trained files hold the deviation itself, and such a network divides twice by its
    root: only then is there a second rescaling, which has no weights. Ours divides once.
    """
    return array**2 if np.allclose(array.ravel(), DEVIATION, atol=1e-6) else array


def keras(architecture: str, shapes: Shapes) -> Keys:
    """B0 to B7, with the statistics of the input."""
    return {
        **KERAS_V1(architecture, shapes),
        "normalization/mean": "normalization/mean",
        "normalization/variance": Source(("normalization/variance",), _variance),
    }


def timm_of_keras(architecture: str, shapes: Shapes) -> Keys:
    """B0 to B7 in timm's files, which leave the statistics of the input to preprocessing."""
    return {
        **TIMM(architecture, shapes),
        "normalization/mean": Source((), lambda: MEAN),
        "normalization/variance": Source((), lambda: DEVIATION**2),
    }


TORCHVISION = ("efficientnet_b[0-7]", "efficientnet_v2_[sml]")
SCHEMES = (
    Scheme("torchvision", TORCHVISION, of_blocks("torch", _torchvision, _torchvision_block)),
    Scheme("timm", "efficientnet_b[0-4]", TIMM),
    Scheme(
        "timm", ("efficientnet_b[5-7]", "efficientnet_v2_[sml]"), with_epsilon(TIMM, 1e-5, 1e-3)
    ),
    Scheme("timm", "efficientnet_b[0-7]_keras", timm_of_keras),
    Scheme("timm", "efficientnet_v2_b[0-3]", TIMM),
    Scheme("keras", "efficientnet_b[0-7]_keras", keras, ignored=("normalization/count",)),
    Scheme("keras", ("efficientnet_v2_b[0-3]", "efficientnet_v2_[sml]_keras"), KERAS_V2),
)
