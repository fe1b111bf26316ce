"""VGG: torchvision and timm number the modules of a sequence, Keras the convolutions of a stage.

timm holds the first two affine maps as convolutions. Keras flattens pictures with the channels
last, so the rows of its first affine map are in another order.
"""

from math import isqrt

import numpy as np

from neuralsym.weights.names import (
    Array,
    KeyFunction,
    Keys,
    Scheme,
    Shapes,
    Source,
    Target,
    layers_of,
    paths,
)


def _numbered(shapes: Shapes) -> dict[str, str]:
    """Our convolutions and batch norms -> their places in `features`."""
    found: dict[str, str] = {}
    place, stage = 0, "stage1"
    for path in layers_of(shapes):
        own, _, inner = path.partition("/")
        if not own.startswith("stage"):
            break
        if own != stage:
            stage, place = own, place + 1  # the pool
        found[path] = f"features.{place}"
        # a ReLU follows a convolution, unless a batch norm comes between
        place += 1 if inner.endswith("/conv2d") else 2
    return found


def _torch(affine: dict[str, Target]) -> KeyFunction:
    def keys(architecture: str, shapes: Shapes) -> Keys:
        templates: dict[str, Target] = {**_numbered(shapes), **affine}
        return paths("torch", templates)(architecture, shapes)

    return keys


def keras(architecture: str, shapes: Shapes) -> Keys:
    templates = {
        "stage{s}/conv{i}": "block{s}_conv{i}",
        "fc2": "fc2",
        "fc3": "predictions",
        "fc1/bias": "fc1/bias",
    }
    found = dict(paths("keras", templates)(architecture, shapes))
    if "fc1/kernel" in shapes:
        found["fc1/kernel"] = Source(("fc1/kernel",), _channels_first, layout=False)
    return found


def _channels_first(kernel: Array) -> Array:
    """The rows of an affine map over a flattened square picture of 512 channels, reordered."""
    side = isqrt(kernel.shape[0] // 512)
    if kernel.ndim != 2 or kernel.shape[0] != 512 * side * side:
        return kernel  # the comparison of shapes then says what came
    rows = kernel.reshape(side, side, 512, -1).transpose(2, 0, 1, 3)
    return np.ascontiguousarray(rows).reshape(kernel.shape)


def _matrix(kernel: Array) -> Array:
    """A convolution over the whole picture as the affine map that it is."""
    return kernel.reshape(len(kernel), -1).T if kernel.ndim > 1 else kernel


SCHEMES = (
    Scheme(
        "torchvision",
        "vgg*",
        _torch({"fc1": "classifier.0", "fc2": "classifier.3", "fc3": "classifier.6"}),
    ),
    Scheme(
        "timm",
        "vgg*",
        _torch(
            {
                "fc1/kernel": Source(("pre_logits.fc1.weight",), _matrix, layout=False),
                "fc1/bias": "pre_logits.fc1.bias",
                "fc2": "pre_logits.fc2",
                "fc3": "head.fc",
            }
        ),
    ),
    Scheme("keras", "vgg*", keras),
)
