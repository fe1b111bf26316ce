"""GoogLeNet: torchvision numbers the branches of a block and the convolutions of a branch."""

from neuralsym.weights.names import Scheme, paths

BRANCHES = {
    "conv1x1": "branch1",
    "reduce3x3": "branch2.0",
    "conv3x3": "branch2.1",
    "reduce5x5": "branch3.0",
    "conv5x5": "branch3.1",
    "project": "branch4.1",
}
STEM = {
    f"conv{{i}}/{ours}": f"conv{{i}}.{theirs}"
    for ours, theirs in (("conv2d", "conv"), ("normalisation", "bn"))
}
BLOCKS = {
    f"inception{{b:..}}/{branch}/{ours}": f"inception{{b}}.{place}.{theirs}"
    for branch, place in BRANCHES.items()
    for ours, theirs in (("conv2d", "conv"), ("normalisation", "bn"))
}
SCHEMES = (
    Scheme(
        "torchvision",
        "googlenet",
        paths("torch", {**STEM, **BLOCKS, "fc": "fc"}),
        ignored=("aux1.*", "aux2.*"),
    ),
)
