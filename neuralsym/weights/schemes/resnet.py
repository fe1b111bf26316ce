"""ResNet, ResNeXt and Wide ResNet: torchvision's and timm's names are equal, Keras has its own."""

from neuralsym.weights.names import Scheme, paths

TORCH = paths(
    "torch",
    {
        "stem/conv_bn/conv2d": "conv1",
        "stem/conv_bn/normalisation": "bn1",
        "stage{s}/block{b}/shortcut/conv2d": "layer{s}.{b-1}.downsample.0",
        "stage{s}/block{b}/shortcut/normalisation": "layer{s}.{b-1}.downsample.1",
        "stage{s}/block{b}/conv_bn{_k}/conv2d": "layer{s}.{b-1}.conv{k+1}",
        "stage{s}/block{b}/conv_bn{_k}/normalisation": "layer{s}.{b-1}.bn{k+1}",
        "fc": "fc",
    },
)
KERAS = paths(
    "keras",
    {
        "stem/conv_bn/conv2d": "conv1_conv",
        "stem/conv_bn/normalisation": "conv1_bn",
        "stage{s}/block{b}/shortcut/conv2d": "conv{s+1}_block{b}_0_conv",
        "stage{s}/block{b}/shortcut/normalisation": "conv{s+1}_block{b}_0_bn",
        "stage{s}/block{b}/conv_bn{_k}/conv2d": "conv{s+1}_block{b}_{k+1}_conv",
        "stage{s}/block{b}/conv_bn{_k}/normalisation": "conv{s+1}_block{b}_{k+1}_bn",
        "fc": "predictions",
    },
)
TORCHVISION = ("resnet*[0-9]", "resnext*", "wide_resnet*")
SCHEMES = (
    Scheme("torchvision", TORCHVISION, TORCH),
    Scheme("timm", TORCHVISION, TORCH),
    Scheme("keras", "resnet*_keras", KERAS),
)
