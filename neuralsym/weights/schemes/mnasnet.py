"""MNASNet: torchvision numbers the modules of a sequence; timm names those of a block."""

from collections.abc import Iterable
from dataclasses import replace

from neuralsym.weights.names import Scheme
from neuralsym.weights.schemes.mbconv import Block, Names, conv_bn, of_blocks, timm, timm_ends

STEM = ("stem/conv", "stem/depthwise", "stem/project")


def _sequence(place: str, paths: Iterable[str]) -> Names:
    """A convolution, its batch norm and a ReLU for each part."""
    names: Names = {}
    for i, path in enumerate(paths):
        names |= conv_bn(path, f"{place}.{3 * i}", f"{place}.{3 * i + 1}")
    return names


def _torchvision(_: list[Block]) -> Names:
    return {
        **_sequence("layers", STEM),
        **conv_bn("top", "layers.14", "layers.15"),
        "fc": "classifier.1",
    }


def _torchvision_block(block: Block) -> Names:
    place = f"layers.{block.stage + 7}.{block.block - 1}.layers"
    return _sequence(place, (f"{block.path}/{part}" for part in block.parts))


def _timm(_: list[Block]) -> Names:
    first = "blocks.0.0"
    return {
        **timm_ends(),
        **conv_bn("stem/conv", "conv_stem", "bn1"),
        **conv_bn("stem/depthwise", f"{first}.conv_dw", f"{first}.bn1"),
        **conv_bn("stem/project", f"{first}.conv_pw", f"{first}.bn2"),
    }


def _timm_block(block: Block) -> Names:
    """There the separable convolution of the stem is a stage too, the first."""
    return timm(replace(block, stage=block.stage + 1))


SCHEMES = (
    Scheme("torchvision", "mnasnet*", of_blocks("torch", _torchvision, _torchvision_block)),
    Scheme("timm", "mnasnet*", of_blocks("torch", _timm, _timm_block)),
)
