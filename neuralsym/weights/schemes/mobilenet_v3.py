"""MobileNetV3: torchvision numbers the modules of one sequence, timm and Keras name them.

timm's own form has another epsilon than torchvision's; its tf_mobilenetv3_* are Keras's networks,
without what these do to pictures first.
"""

from neuralsym.weights.names import Scheme
from neuralsym.weights.schemes.mbconv import (
    Block,
    Names,
    conv_bn,
    numbered,
    of_blocks,
    timm,
    torchvision_ends,
    with_epsilon,
)


def _torchvision_block(block: Block) -> Names:
    return numbered(f"features.{block.number + 1}.block", block)


def _torchvision(blocks: list[Block]) -> Names:
    return torchvision_ends(len(blocks) + 1) | {"fc1": "classifier.0", "fc2": "classifier.3"}


def _timm(blocks: list[Block]) -> Names:
    top = f"blocks.{blocks[-1].stage}.0"
    return {
        **conv_bn("stem", "conv_stem", "bn1"),
        **conv_bn("top", f"{top}.conv", f"{top}.bn1"),
        "fc1": "conv_head",
        "fc2": "classifier",
    }


def _keras_block(block: Block) -> Names:
    prefix = f"expanded_conv_{block.number}" if block.number else "expanded_conv"
    names = {
        f"{block.path}/squeeze_excite/reduce": f"{prefix}_squeeze_excite_conv",
        f"{block.path}/squeeze_excite/expand": f"{prefix}_squeeze_excite_conv_1",
    }
    for part in ("expand", "depthwise", "project"):
        names |= conv_bn(f"{block.path}/{part}", f"{prefix}_{part}", f"{prefix}_{part}_bn")
    return names


def _keras(_: list[Block]) -> Names:
    return {
        **conv_bn("stem", "conv", "conv_bn"),
        **conv_bn("top", "conv_1", "conv_1_bn"),
        "fc1": "conv_2",
        "fc2": "logits",
    }


TIMM = of_blocks("torch", _timm, timm)
TORCHVISION = ("mobilenet_v3_large", "mobilenet_v3_small")
SCHEMES = (
    Scheme("torchvision", TORCHVISION, of_blocks("torch", _torchvision, _torchvision_block)),
    Scheme("timm", TORCHVISION, with_epsilon(TIMM, 1e-5, 1e-3)),
    Scheme("timm", "mobilenet_v3_*_keras", TIMM),
    Scheme("keras", "mobilenet_v3_*_keras", of_blocks("keras", _keras, _keras_block)),
)
