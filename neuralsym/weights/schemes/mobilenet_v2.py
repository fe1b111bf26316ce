"""MobileNetV2: torchvision numbers the modules of one sequence, timm and Keras name them."""

from neuralsym.weights.names import Scheme
from neuralsym.weights.schemes.mbconv import (
    Block,
    Names,
    conv_bn,
    numbered,
    of_blocks,
    timm,
    timm_ends,
    torchvision_ends,
)


def _torchvision_block(block: Block) -> Names:
    place, count = f"features.{block.number + 1}.conv", len(block.parts)
    names = numbered(place, block)
    # the last convolution and its batch norm are modules of the sequence themselves
    last = conv_bn(f"{block.path}/project", f"{place}.{count - 1}", f"{place}.{count}")
    return names | last


def _torchvision(blocks: list[Block]) -> Names:
    return torchvision_ends(len(blocks) + 1) | {"fc": "classifier.1"}


def _keras_block(block: Block) -> Names:
    prefix = f"block_{block.number}" if block.number else "expanded_conv"
    names: Names = {}
    for part in block.parts:
        names |= conv_bn(f"{block.path}/{part}", f"{prefix}_{part}", f"{prefix}_{part}_BN")
    return names


def _keras(_: list[Block]) -> Names:
    return {
        **conv_bn("stem", "Conv1", "bn_Conv1"),
        **conv_bn("top", "Conv_1", "Conv_1_bn"),
        "fc": "predictions",
    }


SCHEMES = (
    Scheme("torchvision", "mobilenet_v2", of_blocks("torch", _torchvision, _torchvision_block)),
    Scheme("timm", "mobilenet_v2", of_blocks("torch", lambda _: timm_ends(), timm)),
    Scheme("keras", "mobilenet_v2_keras", of_blocks("keras", _keras, _keras_block)),
)
