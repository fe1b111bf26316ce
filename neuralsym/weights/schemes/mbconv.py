"""What the schemes of MobileNets and EfficientNets share: inverted residuals, one by one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from neuralsym.weights.names import (
    Array,
    Framework,
    KeyFunction,
    Keys,
    Shapes,
    Source,
    layers_of,
    paths,
)

Names = dict[str, str]
"""Templates of paths, ours and theirs."""


@dataclass(frozen=True)
class Block:
    """A block of ours and the parts that it has, of `expand depthwise squeeze_excite project`.

    stage and block count from 1, number from 0 through the network; parts are in graph order.
    """

    path: str
    stage: int
    block: int
    number: int
    parts: tuple[str, ...]


def blocks(shapes: Shapes) -> list[Block]:
    """The blocks of a network in graph order."""
    found: dict[str, list[str]] = {}
    for layer in layers_of(shapes):
        match = re.match(r"(stage\d+/block\d+)/([^/]+)", layer)
        if match and match[2] not in found.setdefault(match[1], []):
            found[match[1]].append(match[2])
    made = []
    for number, (path, parts) in enumerate(found.items()):
        stage, block = (int(n) for n in re.findall(r"\d+", path))
        made.append(Block(path, stage, block, number, tuple(parts)))
    return made


def conv_bn(path: str, conv: str, norm: str) -> Names:
    """The templates of a convolution and its batch norm."""
    return {f"{path}/{{_:(depthwise_)?conv2d}}": conv, f"{path}/normalisation": norm}


def of_blocks(
    framework: Framework, fixed: Callable[[list[Block]], Names], block: Callable[[Block], Names]
) -> KeyFunction:
    """The key function of a network: what is outside of the blocks, and each of them.

    fixed: gets the blocks because names outside of them may count them.
    """

    def keys(architecture: str, shapes: Shapes) -> Keys:
        found = blocks(shapes)
        names = fixed(found)
        for one in found:
            names |= block(one)
        return paths(framework, names)(architecture, shapes)

    return keys


def torchvision_ends(top: int) -> Names:
    """torchvision's first and last convolution; `top` is the number of the last module."""
    return {
        **conv_bn("stem", "features.0.0", "features.0.1"),
        **conv_bn("top", f"features.{top}.0", f"features.{top}.1"),
    }


def timm_ends() -> Names:
    """timm's first and last convolution, and its classifier."""
    return {
        **conv_bn("stem", "conv_stem", "bn1"),
        **conv_bn("top", "conv_head", "bn2"),
        "fc": "classifier",
    }


def numbered(place: str, block: Block) -> Names:
    """torchvision's sequence of a block's parts, in each a convolution 0 and a batch norm 1."""
    names: Names = {}
    for i, part in enumerate(block.parts):
        ours, theirs = f"{block.path}/{part}", f"{place}.{i}"
        if part == "squeeze_excite":
            names |= {f"{ours}/reduce": f"{theirs}.fc1", f"{ours}/expand": f"{theirs}.fc2"}
        else:
            names |= conv_bn(ours, f"{theirs}.0", f"{theirs}.1")
    return names


def timm(block: Block) -> Names:
    """timm's block: a depthwise convolution between pointwise ones, or a fused block."""
    place = f"blocks.{block.stage - 1}.{block.block - 1}"
    last = "conv_pwl" if "expand" in block.parts else "conv_pw"
    convs = {"expand": "conv_pw", "depthwise": "conv_dw", "project": last}
    if "depthwise" not in block.parts:
        whole = block.parts == ("project",)
        convs = {"expand": "conv_exp", "project": "conv" if whole else "conv_pwl"}
    names = {
        f"{block.path}/squeeze_excite/reduce": f"{place}.se.conv_reduce",
        f"{block.path}/squeeze_excite/expand": f"{place}.se.conv_expand",
    }
    full = [part for part in block.parts if part != "squeeze_excite"]
    for i, part in enumerate(full, 1):
        names |= conv_bn(f"{block.path}/{part}", f"{place}.{convs[part]}", f"{place}.bn{i}")
    return names


def with_epsilon(keys: KeyFunction, theirs: float, ours: float) -> KeyFunction:
    """The same for files whose batch norms add `theirs` to the variance where ours add `ours`.

    The difference goes into the variance: their sum, which is all that counts, stays.
    """

    def shifted(variance: Array) -> Array:
        moved: Array = (variance.astype("float64") + (theirs - ours)).astype(variance.dtype)
        return moved

    def found(architecture: str, shapes: Shapes) -> Keys:
        given = keys(architecture, shapes)
        moved = {
            name: Source((key,), shifted)
            for name, key in given.items()
            if name.endswith("/variance") and isinstance(key, str)
        }
        return {**given, **moved}

    return found
