"""Xception: Keras names all but the convolutions of shortcuts, which it numbers."""

from neuralsym.weights.names import Scheme, paths

SHORTCUTS = {2: "", 3: "_1", 4: "_2", 13: "_3"}
KERAS = paths(
    "keras",
    {
        "block1/conv{i}/conv2d": "block1_conv{i}",
        "block1/conv{i}/normalisation": "block1_conv{i}_bn",
        "block{b}/sepconv{i}/separable_conv2d": "block{b}_sepconv{i}",
        "block{b}/sepconv{i}/normalisation": "block{b}_sepconv{i}_bn",
        "block{b}/shortcut/conv2d": lambda p: f"conv2d{SHORTCUTS[int(p['b'])]}",
        "block{b}/shortcut/normalisation": lambda p: f"batch_normalization{SHORTCUTS[int(p['b'])]}",
        "fc": "predictions",
    },
)
SCHEMES = (Scheme("keras", "xception", KERAS),)
