"""Inception-ResNet-v2: Keras numbers convolutions in graph order, timm names branches.

Ours and Keras's batch norms have no gamma; timm's is taken into the variance.
"""

from __future__ import annotations

from neuralsym.errors import WeightsError
from neuralsym.weights.names import Array, Keys, Parts, Scheme, Shapes, Source, layers_of, paths
from neuralsym.weights.schemes.inception_v3 import counted

EPSILON = 1e-3


def keras(architecture: str, shapes: Shapes) -> Keys:
    """The n-th convolution and the n-th batch norm but the last; those without one have names."""
    templates = {
        "block{size}_{i}/up": "block{size}_{i}_conv",
        "conv_7b/conv_bn/conv2d": "conv_7b",
        "conv_7b/conv_bn/normalisation": "conv_7b_bn",
        "fc": "predictions",
    }
    automatic = counted(layer for layer in layers_of(shapes) if not layer.startswith("conv_7b"))
    return paths("keras", {**templates, **automatic})(architecture, shapes)


# timm's branches of each kind of block in graph order, and the place of the residual ones.
FIRST, SECOND = ("branch0",), tuple(f"branch1.{i}" for i in (0, 1, 2))
THIRD = tuple(f"branch2.{i}" for i in (0, 1, 2))
BRANCHES = {
    "mixed_5b": (*FIRST, *SECOND[:2], *THIRD, "branch3.1"),
    "block35": (*FIRST, *SECOND[:2], *THIRD),
    "mixed_6a": (*FIRST, *SECOND),
    "block17": (*FIRST, *SECOND),
    "mixed_7a": ("branch0.0", "branch0.1", *SECOND[:2], *THIRD),
    "block8": (*FIRST, *SECOND),
}
STEM = ("1a", "2a", "2b", "3b", "4a")
PLACES = {35: "repeat", 17: "repeat_1", 8: "repeat_2"}
KINDS = {"conv2d": "conv", "normalisation": "bn"}


def _place(p: Parts) -> str:
    size, i = int(p["size"]), int(p["i"])
    return "block8" if (size, i) == (8, 10) else f"{PLACES[size]}.{i - 1}"


def _in_block(p: Parts) -> str:
    branch = BRANCHES[f"block{p['size']}"][int(p["k"])]
    return f"{_place(p)}.{branch}.{KINDS[str(p['kind'])]}"


def _mixed(p: Parts) -> str:
    mixed = f"mixed_{p['name']}"
    return f"{mixed}.{BRANCHES[mixed][int(p['k'])]}.{KINDS[str(p['kind'])]}"


TIMM = paths(
    "torch",
    {
        "stem/conv_bn{_k}/{kind:[^/]+}": lambda p: (
            f"conv2d_{STEM[int(p['k'])]}.{KINDS[str(p['kind'])]}"
        ),
        "mixed_{name:[^/]+}/conv_bn{_k}/{kind:[^/]+}": _mixed,
        "block{size}_{i}/up": lambda p: f"{_place(p)}.conv2d",
        "block{size}_{i}/conv_bn{_k}/{kind:[^/]+}": _in_block,
        "conv_7b/conv_bn/{kind:[^/]+}": lambda p: f"conv2d_7b.{KINDS[str(p['kind'])]}",
        "fc": "classif",
    },
)


def _scaled(variance: Array, gamma: Array) -> Array:
    """The variance by which a batch norm without gamma does what one with gamma did."""
    if not (gamma > 0).all():
        raise WeightsError(
            "a batch norm of these weights has a gamma that is not positive; this network has none"
        )
    made: Array = ((variance.astype("float64") + EPSILON) / gamma**2 - EPSILON).astype(
        variance.dtype
    )
    return made


def timm(architecture: str, shapes: Shapes) -> Keys:
    """By the names of branches, with gammas in the variances."""
    given = TIMM(architecture, shapes)
    scaled = {
        name: Source((key, key.replace("running_var", "weight")), _scaled)
        for name, key in given.items()
        if name.endswith("/variance") and isinstance(key, str)
    }
    return {**given, **scaled}


SCHEMES = (
    Scheme("keras", "inception_resnet_v2", keras),
    Scheme("timm", "inception_resnet_v2", timm),
)
