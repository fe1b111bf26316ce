"""RegNet: torchvision letters the convolutions of a block, timm numbers them."""

from neuralsym.weights.names import Scheme, paths

BLOCK = "stage{s}/block{b}"
THEIRS = "trunk_output.block{s}.block{s}-{b-1}"
TORCHVISION = paths(
    "torch",
    {
        "stem/conv2d": "stem.0",
        "stem/normalisation": "stem.1",
        **{
            f"{BLOCK}/{ours}/{layer}": f"{THEIRS}.{theirs}.{i}"
            for ours, theirs in (
                ("conv_bn", "f.a"),
                ("conv_bn_1", "f.b"),
                ("conv_bn_2", "f.c"),
                ("shortcut", "proj"),
            )
            for i, layer in enumerate(("conv2d", "normalisation"))
        },
        f"{BLOCK}/se/reduce": f"{THEIRS}.f.se.fc1",
        f"{BLOCK}/se/expand": f"{THEIRS}.f.se.fc2",
        "fc": "fc",
    },
)
TIMM = paths(
    "torch",
    {
        "stem/conv2d": "stem.conv",
        "stem/normalisation": "stem.bn",
        f"{BLOCK}/conv_bn{{_k}}/conv2d": "s{s}.b{b}.conv{k+1}.conv",
        f"{BLOCK}/conv_bn{{_k}}/normalisation": "s{s}.b{b}.conv{k+1}.bn",
        f"{BLOCK}/shortcut/conv2d": "s{s}.b{b}.downsample.conv",
        f"{BLOCK}/shortcut/normalisation": "s{s}.b{b}.downsample.bn",
        f"{BLOCK}/se/reduce": "s{s}.b{b}.se.fc1",
        f"{BLOCK}/se/expand": "s{s}.b{b}.se.fc2",
        "fc": "head.fc",
    },
)
SCHEMES = (
    Scheme("torchvision", "regnet_*", TORCHVISION),
    Scheme("timm", "regnet_*", TIMM),
)
