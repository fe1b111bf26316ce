"""Published networks as functions that return a `Network`, imported as `neuralsym.zoo`.

    zoo.models("resnet*")     zoo.info("resnet50")     zoo.resnet50(batch=1, classes=10)

The bare name is torchvision's architecture, NAME_keras is Keras's. Weights are random, drawn from
`seed`. The input is called `input`; the output `logits`, `probs` or `features`.
"""

from neuralsym.zoo.inception_v3 import inception_v3, inception_v3_keras
from neuralsym.zoo.mnist import mnist
from neuralsym.zoo.preprocess import (
    Prediction,
    Preprocessing,
    decode,
    preprocess,
    preprocess_for,
)
from neuralsym.zoo.registry import Info, Options, create, info, models
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
)
from neuralsym.zoo.squeezenet import squeezenet1_0, squeezenet1_1

__all__ = [
    "Info",
    "Options",
    "Prediction",
    "Preprocessing",
    "create",
    "decode",
    "inception_v3",
    "inception_v3_keras",
    "info",
    "mnist",
    "models",
    "preprocess",
    "preprocess_for",
    "resnet101",
    "resnet101_keras",
    "resnet101_v1",
    "resnet152",
    "resnet152_keras",
    "resnet152_v1",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet50_keras",
    "resnet50_v1",
    "squeezenet1_0",
    "squeezenet1_1",
]
