"""ConvNeXt: torchvision numbers stages and the halvings between them, timm and Keras name them."""

from neuralsym.weights.names import Keys, Parts, Scheme, Shapes, paths

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


def keras(architecture: str, shapes: Shapes) -> Keys:
    """Every layer is called after the network; LayerScale's variable has no name of its own."""
    net = architecture.removesuffix("_keras")
    block = f"{net}_stage_{{s-1}}_block_{{b-1}}"
    templates = {
        "stage1/downsample/conv2d": f"{net}_stem_conv",
        "stage1/downsample/norm/layer_norm": f"{net}_stem_layernorm",
        "stage{s}/downsample/conv2d": f"{net}_downsampling_conv_{{s-2}}",
        "stage{s}/downsample/norm/layer_norm": f"{net}_downsampling_layernorm_{{s-2}}",
        "stage{s}/block{b}/depthwise": f"{block}_depthwise_conv",
        "stage{s}/block{b}/norm": f"{block}_layernorm",
        "stage{s}/block{b}/mlp/fc{k}": f"{block}_pointwise_conv_{{k}}",
        "stage{s}/block{b}/layer_scale": f"{block}_layer_scale/variable",
        "norm": f"{net}_head_layernorm",
        "head": f"{net}_head_dense",
    }
    return paths("keras", templates)(architecture, shapes)


SCHEMES = (
    Scheme("torchvision", "convnext_*", TORCHVISION),
    Scheme("timm", "convnext_*", TIMM),
    Scheme("keras", "convnext_*", keras),
)
