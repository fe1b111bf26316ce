"""ConvNeXt: torchvision numbers stages and the halvings between them, timm and Keras name them."""

from neuralsym.weights.names import Parts, Scheme, paths

_BLOCK = "features.{2*s-1}.{b-1}"


def _halving(p: Parts) -> str:
    """The stem convolves first, the other halvings normalise first."""
    first = "conv2d" if p["s"] == 1 else "norm/layer_norm"
    return f"features.{{2*s-2}}.{0 if p['part'] == first else 1}"


def _timm_halving(p: Parts) -> str:
    first = "conv2d" if p["s"] == 1 else "norm/layer_norm"
    place = 0 if p["part"] == first else 1
    return f"stem.{place}" if p["s"] == 1 else f"stages.{{s-1}}.downsample.{place}"


TORCHVISION = paths(
    "torch",
    {
        "stage{s}/downsample/{part:.+}": _halving,
        "stage{s}/block{b}/depthwise": f"{_BLOCK}.block.0",
        "stage{s}/block{b}/norm": f"{_BLOCK}.block.2",
        "stage{s}/block{b}/mlp/fc{k}": f"{_BLOCK}.block.{{2*k+1}}",
        "stage{s}/block{b}/layer_scale": f"{_BLOCK}.layer_scale",
        "norm": "classifier.0",
        "head": "classifier.2",
    },
)
_STAGE = "stages.{s-1}.blocks.{b-1}"
TIMM = paths(
    "torch",
    {
        "stage{s}/downsample/{part:.+}": _timm_halving,
        "stage{s}/block{b}/depthwise": f"{_STAGE}.conv_dw",
        "stage{s}/block{b}/layer_scale": f"{_STAGE}.gamma",
        "stage{s}/block{b}/{part:.+}": f"{_STAGE}.{{part}}",
        "norm": "head.norm",
        "head": "head.fc",
    },
)
SCHEMES = (
    Scheme("torchvision", "convnext_*", TORCHVISION),
    Scheme("timm", "convnext_*", TIMM),
)
