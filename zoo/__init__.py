"""Published networks as functions that return a `Network`, imported as `neuralsym.zoo`.

    zoo.models("resnet*")     zoo.info("resnet50")     zoo.resnet50(batch=1, classes=10)

The bare name is torchvision's architecture, NAME_keras is Keras's. Weights are random, drawn from
`seed`. The input is called `input`; the output `logits`, `probs` or `features`.
"""

from neuralsym.zoo.alexnet import (
    alexnet,
)
from neuralsym.zoo.cifar import (
    cifar10_cnn,
    cifar10_vgg,
)
from neuralsym.zoo.convnext import (
    convnext_base,
    convnext_base_keras,
    convnext_large,
    convnext_large_keras,
    convnext_small,
    convnext_small_keras,
    convnext_tiny,
    convnext_tiny_keras,
    convnext_xlarge_keras,
)
from neuralsym.zoo.densenet import (
    densenet121,
    densenet121_keras,
    densenet161,
    densenet169,
    densenet169_keras,
    densenet201,
    densenet201_keras,
)
from neuralsym.zoo.efficientnet import (
    efficientnet_b0,
    efficientnet_b0_keras,
    efficientnet_b1,
    efficientnet_b1_keras,
    efficientnet_b2,
    efficientnet_b2_keras,
    efficientnet_b3,
    efficientnet_b3_keras,
    efficientnet_b4,
    efficientnet_b4_keras,
    efficientnet_b5,
    efficientnet_b5_keras,
    efficientnet_b6,
    efficientnet_b6_keras,
    efficientnet_b7,
    efficientnet_b7_keras,
)
from neuralsym.zoo.efficientnet_v2 import (
    efficientnet_v2_b0,
    efficientnet_v2_b1,
    efficientnet_v2_b2,
    efficientnet_v2_b3,
    efficientnet_v2_l,
    efficientnet_v2_l_keras,
    efficientnet_v2_m,
    efficientnet_v2_m_keras,
    efficientnet_v2_s,
    efficientnet_v2_s_keras,
)
from neuralsym.zoo.facts import (
    Info,
    info,
)
from neuralsym.zoo.googlenet import (
    googlenet,
)
from neuralsym.zoo.inception_resnet_v2 import (
    inception_resnet_v2,
)
from neuralsym.zoo.inception_v3 import (
    inception_v3,
    inception_v3_keras,
)
from neuralsym.zoo.labels import (
    Prediction,
    class_names,
    decode,
)
from neuralsym.zoo.lstm_text import (
    lstm_text,
)
from neuralsym.zoo.maxvit import (
    maxvit_t,
)
from neuralsym.zoo.mnasnet import (
    mnasnet0_5,
    mnasnet0_75,
    mnasnet1_0,
    mnasnet1_3,
)
from neuralsym.zoo.mnist import (
    mnist,
    mnist_cnn,
    mnist_lenet,
)
from neuralsym.zoo.mobilenet import (
    mobilenet,
    mobilenet_025,
    mobilenet_050,
    mobilenet_075,
)
from neuralsym.zoo.mobilenet_v2 import (
    mobilenet_v2,
    mobilenet_v2_keras,
)
from neuralsym.zoo.mobilenet_v3 import (
    mobilenet_v3_large,
    mobilenet_v3_large_keras,
    mobilenet_v3_small,
    mobilenet_v3_small_keras,
)
from neuralsym.zoo.nasnet import (
    nasnet_large,
    nasnet_mobile,
)
from neuralsym.zoo.preprocess import (
    Preprocessing,
    preprocess,
    preprocess_for,
)
from neuralsym.zoo.registry import (
    Options,
    create,
    models,
)
from neuralsym.zoo.regnet import (
    regnet_x_1_6gf,
    regnet_x_3_2gf,
    regnet_x_8gf,
    regnet_x_16gf,
    regnet_x_32gf,
    regnet_x_400mf,
    regnet_x_800mf,
    regnet_y_1_6gf,
    regnet_y_3_2gf,
    regnet_y_8gf,
    regnet_y_16gf,
    regnet_y_32gf,
    regnet_y_128gf,
    regnet_y_400mf,
    regnet_y_800mf,
)
from neuralsym.zoo.resnet import (
    resnet18,
    resnet34,
    resnet50,
    resnet50_keras,
    resnet50_v1,
    resnet101,
    resnet101_keras,
    resnet101_v1,
    resnet152,
    resnet152_keras,
    resnet152_v1,
    resnext50_32x4d,
    resnext101_32x8d,
    resnext101_64x4d,
    wide_resnet50_2,
    wide_resnet101_2,
)
from neuralsym.zoo.resnet_v2 import (
    resnet50_v2,
    resnet101_v2,
    resnet152_v2,
)
from neuralsym.zoo.shufflenet_v2 import (
    shufflenet_v2_x0_5,
    shufflenet_v2_x1_0,
    shufflenet_v2_x1_5,
    shufflenet_v2_x2_0,
)
from neuralsym.zoo.squeezenet import (
    squeezenet1_0,
    squeezenet1_1,
)
from neuralsym.zoo.style_transfer import (
    style_transfer,
)
from neuralsym.zoo.swin import (
    swin_b,
    swin_s,
    swin_t,
    swin_v2_b,
    swin_v2_s,
    swin_v2_t,
)
from neuralsym.zoo.vgg import (
    vgg11,
    vgg11_bn,
    vgg13,
    vgg13_bn,
    vgg16,
    vgg16_bn,
    vgg16_keras,
    vgg19,
    vgg19_bn,
    vgg19_keras,
)
from neuralsym.zoo.vit import (
    vit_b_16,
    vit_b_32,
    vit_h_14,
    vit_l_16,
    vit_l_32,
)
from neuralsym.zoo.xception import (
    xception,
)

__all__ = [
    "Info",
    "Options",
    "Prediction",
    "Preprocessing",
    "alexnet",
    "cifar10_cnn",
    "cifar10_vgg",
    "class_names",
    "convnext_base",
    "convnext_base_keras",
    "convnext_large",
    "convnext_large_keras",
    "convnext_small",
    "convnext_small_keras",
    "convnext_tiny",
    "convnext_tiny_keras",
    "convnext_xlarge_keras",
    "create",
    "decode",
    "densenet121",
    "densenet121_keras",
    "densenet161",
    "densenet169",
    "densenet169_keras",
    "densenet201",
    "densenet201_keras",
    "efficientnet_b0",
    "efficientnet_b0_keras",
    "efficientnet_b1",
    "efficientnet_b1_keras",
    "efficientnet_b2",
    "efficientnet_b2_keras",
    "efficientnet_b3",
    "efficientnet_b3_keras",
    "efficientnet_b4",
    "efficientnet_b4_keras",
    "efficientnet_b5",
    "efficientnet_b5_keras",
    "efficientnet_b6",
    "efficientnet_b6_keras",
    "efficientnet_b7",
    "efficientnet_b7_keras",
    "efficientnet_v2_b0",
    "efficientnet_v2_b1",
    "efficientnet_v2_b2",
    "efficientnet_v2_b3",
    "efficientnet_v2_l",
    "efficientnet_v2_l_keras",
    "efficientnet_v2_m",
    "efficientnet_v2_m_keras",
    "efficientnet_v2_s",
    "efficientnet_v2_s_keras",
    "googlenet",
    "inception_resnet_v2",
    "inception_v3",
    "inception_v3_keras",
    "info",
    "lstm_text",
    "maxvit_t",
    "mnasnet0_5",
    "mnasnet0_75",
    "mnasnet1_0",
    "mnasnet1_3",
    "mnist",
    "mnist_cnn",
    "mnist_lenet",
    "mobilenet",
    "mobilenet_025",
    "mobilenet_050",
    "mobilenet_075",
    "mobilenet_v2",
    "mobilenet_v2_keras",
    "mobilenet_v3_large",
    "mobilenet_v3_large_keras",
    "mobilenet_v3_small",
    "mobilenet_v3_small_keras",
    "models",
    "nasnet_large",
    "nasnet_mobile",
    "preprocess",
    "preprocess_for",
    "regnet_x_16gf",
    "regnet_x_1_6gf",
    "regnet_x_32gf",
    "regnet_x_3_2gf",
    "regnet_x_400mf",
    "regnet_x_800mf",
    "regnet_x_8gf",
    "regnet_y_128gf",
    "regnet_y_16gf",
    "regnet_y_1_6gf",
    "regnet_y_32gf",
    "regnet_y_3_2gf",
    "regnet_y_400mf",
    "regnet_y_800mf",
    "regnet_y_8gf",
    "resnet101",
    "resnet101_keras",
    "resnet101_v1",
    "resnet101_v2",
    "resnet152",
    "resnet152_keras",
    "resnet152_v1",
    "resnet152_v2",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet50_keras",
    "resnet50_v1",
    "resnet50_v2",
    "resnext101_32x8d",
    "resnext101_64x4d",
    "resnext50_32x4d",
    "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0",
    "shufflenet_v2_x1_5",
    "shufflenet_v2_x2_0",
    "squeezenet1_0",
    "squeezenet1_1",
    "style_transfer",
    "swin_b",
    "swin_s",
    "swin_t",
    "swin_v2_b",
    "swin_v2_s",
    "swin_v2_t",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg16_keras",
    "vgg19",
    "vgg19_bn",
    "vgg19_keras",
    "vit_b_16",
    "vit_b_32",
    "vit_h_14",
    "vit_l_16",
    "vit_l_32",
    "wide_resnet101_2",
    "wide_resnet50_2",
    "xception",
]
