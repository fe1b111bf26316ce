"""ShuffleNet V2: torchvision numbers the modules of a branch, ReLUs included."""

from neuralsym.weights.names import Scheme, paths

UNIT = "stage{s}/unit{u}"
THEIRS = "stage{s}.{u-1}"
SCHEMES = (
    Scheme(
        "torchvision",
        "shufflenet_v2_*",
        paths(
            "torch",
            {
                "conv{i}/conv2d": "conv{i}.0",
                "conv{i}/normalisation": "conv{i}.1",
                f"{UNIT}/branch1/depthwise_bn/depthwise_conv2d": f"{THEIRS}.branch1.0",
                f"{UNIT}/branch1/depthwise_bn/normalisation": f"{THEIRS}.branch1.1",
                f"{UNIT}/branch1/conv_bn/conv2d": f"{THEIRS}.branch1.2",
                f"{UNIT}/branch1/conv_bn/normalisation": f"{THEIRS}.branch1.3",
                f"{UNIT}/branch2/depthwise_bn/depthwise_conv2d": f"{THEIRS}.branch2.3",
                f"{UNIT}/branch2/depthwise_bn/normalisation": f"{THEIRS}.branch2.4",
                f"{UNIT}/branch2/conv_bn{{_k}}/conv2d": f"{THEIRS}.branch2.{{5*k}}",
                f"{UNIT}/branch2/conv_bn{{_k}}/normalisation": f"{THEIRS}.branch2.{{5*k+1}}",
                "fc": "fc",
            },
        ),
    ),
)
