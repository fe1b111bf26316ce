"""MNASNet: torchvision numbers the modules of a sequence; timm names those of a block."""

from neuralsym.weights.names import Scheme, paths

# The n-th convolution of the stem or of a block, and its batch norm.
BLOCK = "stack{s}/block{b}"
THEIRS = "layers.{s+7}.{b-1}.layers"
TORCHVISION = paths(
    "torch",
    {
        "stem/conv_bn{_k}/conv2d": "layers.{6*k}",
        "stem/conv_bn{_k}/normalisation": "layers.{6*k+1}",
        "stem/depthwise_bn/depthwise_conv2d": "layers.3",
        "stem/depthwise_bn/normalisation": "layers.4",
        f"{BLOCK}/conv_bn{{_k}}/conv2d": f"{THEIRS}.{{6*k}}",
        f"{BLOCK}/conv_bn{{_k}}/normalisation": f"{THEIRS}.{{6*k+1}}",
        f"{BLOCK}/depthwise_bn/depthwise_conv2d": f"{THEIRS}.3",
        f"{BLOCK}/depthwise_bn/normalisation": f"{THEIRS}.4",
        "last/conv2d": "layers.14",
        "last/normalisation": "layers.15",
        "fc": "classifier.1",
    },
)
TIMM = paths(
    "torch",
    {
        "stem/conv_bn/conv2d": "conv_stem",
        "stem/conv_bn/normalisation": "bn1",
        "stem/depthwise_bn/depthwise_conv2d": "blocks.0.0.conv_dw",
        "stem/depthwise_bn/normalisation": "blocks.0.0.bn1",
        "stem/conv_bn_1/conv2d": "blocks.0.0.conv_pw",
        "stem/conv_bn_1/normalisation": "blocks.0.0.bn2",
        f"{BLOCK}/conv_bn/conv2d": "blocks.{s}.{b-1}.conv_pw",
        f"{BLOCK}/conv_bn/normalisation": "blocks.{s}.{b-1}.bn1",
        f"{BLOCK}/depthwise_bn/depthwise_conv2d": "blocks.{s}.{b-1}.conv_dw",
        f"{BLOCK}/depthwise_bn/normalisation": "blocks.{s}.{b-1}.bn2",
        f"{BLOCK}/conv_bn_1/conv2d": "blocks.{s}.{b-1}.conv_pwl",
        f"{BLOCK}/conv_bn_1/normalisation": "blocks.{s}.{b-1}.bn3",
        "last/conv2d": "conv_head",
        "last/normalisation": "bn2",
        "fc": "classifier",
    },
)
SCHEMES = (
    Scheme("torchvision", "mnasnet*", TORCHVISION),
    Scheme("timm", "mnasnet*", TIMM),
)
