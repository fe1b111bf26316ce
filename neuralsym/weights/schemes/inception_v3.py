"""InceptionV3: torchvision and timm name branches, Keras numbers convolutions in the same order."""

from collections.abc import Iterable

from neuralsym.weights.names import Keys, Scheme, Shapes, layers_of, paths

# The branches of each kind of block in graph order.
STEM = ("1a_3x3", "2a_3x3", "2b_3x3", "3b_1x1", "4a_3x3")
DOUBLE = ("branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3")
A = ("branch1x1", "branch5x5_1", "branch5x5_2", *DOUBLE, "branch_pool")
B = ("branch3x3", *DOUBLE)
C = (
    "branch1x1",
    *(f"branch7x7_{i}" for i in (1, 2, 3)),
    *(f"branch7x7dbl_{i}" for i in (1, 2, 3, 4, 5)),
    "branch_pool",
)
D = ("branch3x3_1", "branch3x3_2", *(f"branch7x7x3_{i}" for i in (1, 2, 3, 4)))
E = (
    "branch1x1",
    *(f"branch3x3_{i}" for i in ("1", "2a", "2b")),
    *(f"branch3x3dbl_{i}" for i in ("1", "2", "3a", "3b")),
    "branch_pool",
)
BRANCHES = {
    **dict.fromkeys(("5b", "5c", "5d"), A),
    "6a": B,
    **dict.fromkeys(("6b", "6c", "6d", "6e"), C),
    "7a": D,
    **dict.fromkeys(("7b", "7c"), E),
}

_KINDS = {"conv2d": "conv", "normalisation": "bn"}
TORCH = paths(
    "torch",
    {
        "stem/conv_bn{_k}/{kind:.+}": lambda p: (
            f"Conv2d_{STEM[int(p['k'])]}.{_KINDS[str(p['kind'])]}"
        ),
        "mixed_{block:[^/]+}/conv_bn{_k}/{kind:.+}": lambda p: (
            f"Mixed_{p['block']}.{BRANCHES[str(p['block'])][int(p['k'])]}.{_KINDS[str(p['kind'])]}"
        ),
        "fc": "fc",
    },
)


def counted(layers: Iterable[str]) -> dict[str, str]:
    """Keras's automatic names: convolutions and batch norms, each counted in graph order."""
    kinds = {"conv2d": "conv2d", "normalisation": "batch_normalization"}
    counts = dict.fromkeys(kinds, 0)
    found: dict[str, str] = {}
    for layer in layers:
        kind = layer.rpartition("/")[2]
        if kind in kinds:
            found[layer] = kinds[kind] + (f"_{counts[kind]}" if counts[kind] else "")
            counts[kind] += 1
    return found


def keras(architecture: str, shapes: Shapes) -> Keys:
    """All but the classifier by automatic names."""
    templates = {"fc": "predictions", **counted(layers_of(shapes))}
    return paths("keras", templates)(architecture, shapes)


SCHEMES = (
    Scheme("torchvision", "inception_v3", TORCH, ignored=("AuxLogits.*",)),
    Scheme("timm", "inception_v3", TORCH, ignored=("AuxLogits.*",)),
    Scheme("keras", "inception_v3_keras", keras),
)
