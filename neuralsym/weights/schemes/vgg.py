"""VGG: torchvision and timm number the modules of a sequence, Keras the convolutions of a stage.

timm holds the first two affine maps as convolutions.
"""

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


KERAS = paths(
    "keras", {"stage{s}/conv{i}": "block{s}_conv{i}", "fc{i:[12]}": "fc{i}", "fc3": "predictions"}
)


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
    Scheme("keras", "vgg*", KERAS),
)
