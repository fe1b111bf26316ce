"""DenseNet: torchvision's and timm's names are equal, Keras has its own.

torchvision's oldest files write norm.1 and conv.2 for norm1 and conv2.
"""

from neuralsym.weights.names import Scheme, paths


def _torch(dot: str) -> Scheme:
    layer = "features.denseblock{b}.denselayer{l}"
    return Scheme(
        "torchvision",
        "densenet*",
        paths(
            "torch",
            {
                "stem/conv2d": "features.conv0",
                "stem/normalisation": "features.norm0",
                "block{b}/layer{l}/{kind:norm|conv}{i}": f"{layer}.{{kind}}{dot}{{i}}",
                "transition{t}/{kind:norm|conv}": "features.transition{t}.{kind}",
                "norm": "features.norm5",
                "fc": "classifier",
            },
        ),
    )


KERAS = paths(
    "keras",
    {
        "stem/conv2d": "conv1_conv",
        "stem/normalisation": "conv1_bn",
        "block{b}/layer{l}/norm{i}": "conv{b+1}_block{l}_{i-1}_bn",
        "block{b}/layer{l}/conv{i}": "conv{b+1}_block{l}_{i}_conv",
        "transition{t}/norm": "pool{t+1}_bn",
        "transition{t}/conv": "pool{t+1}_conv",
        "norm": "bn",
        "fc": "predictions",
    },
)
SCHEMES = (
    _torch(""),
    _torch("."),
    Scheme("timm", "densenet*", _torch("").keys),
    Scheme("keras", "densenet*", KERAS),
)
