"""ResNetV2: Keras's names; the networks that timm calls resnetv2 are others."""

from neuralsym.weights.names import Scheme, paths

BLOCK = "stage{s}/block{b}"
THEIRS = "conv{s+1}_block{b}"
SCHEMES = (
    Scheme(
        "keras",
        "resnet*_v2",
        paths(
            "keras",
            {
                "stem/conv2d": "conv1_conv",
                f"{BLOCK}/preact": f"{THEIRS}_preact_bn",
                f"{BLOCK}/shortcut": f"{THEIRS}_0_conv",
                f"{BLOCK}/conv_bn{{_k}}/conv2d": f"{THEIRS}_{{k+1}}_conv",
                f"{BLOCK}/conv_bn{{_k}}/normalisation": f"{THEIRS}_{{k+1}}_bn",
                f"{BLOCK}/last": f"{THEIRS}_3_conv",
                "post": "post_bn",
                "fc": "predictions",
            },
        ),
    ),
)
