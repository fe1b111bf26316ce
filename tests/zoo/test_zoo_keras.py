"""Every network that the zoo has from Keras, with Keras's weights, against it.

The weights are random, and no number among them is one that a mistake could hide behind: scales
are not 1, shifts are not 0. Sizes are even, where padding differs from torchvision's, and odd.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from zoo_networks import agree, need_room, size_of

from neuralsym import zoo

pytest.importorskip("torch", reason="torch, on which Keras computes here, is not installed")
os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="keras is not installed")
h5py = pytest.importorskip("h5py", reason="h5py, by which Keras writes its files, is not installed")
pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]

CLASSES = 12

# The function of keras.applications for each of our networks, and the arguments it needs.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "convnext_tiny_keras": ("ConvNeXtTiny", {}),
    "convnext_small_keras": ("ConvNeXtSmall", {}),
    "convnext_base_keras": ("ConvNeXtBase", {}),
    "convnext_large_keras": ("ConvNeXtLarge", {}),
    "convnext_xlarge_keras": ("ConvNeXtXLarge", {}),
    "densenet121_keras": ("DenseNet121", {}),
    "densenet169_keras": ("DenseNet169", {}),
    "densenet201_keras": ("DenseNet201", {}),
    "inception_v3_keras": ("InceptionV3", {}),
    "resnet50_keras": ("ResNet50", {}),
    "resnet101_keras": ("ResNet101", {}),
    "resnet152_keras": ("ResNet152", {}),
    "resnet50_v2": ("ResNet50V2", {}),
    "resnet101_v2": ("ResNet101V2", {}),
    "resnet152_v2": ("ResNet152V2", {}),
    "vgg16_keras": ("VGG16", {}),
    "vgg19_keras": ("VGG19", {}),
}
# Not built by Keras with torch beneath it.
REFUSED = ("nasnet_mobile",)


def input_size(name: str) -> tuple[int, int]:
    size = size_of(name)
    return (size, size + 11)


def drawn(model: Any, size: tuple[int, int]) -> Any:
    """The model, with numbers instead of all zeros and ones; see the test for torchvision.

    Batch norms hold the statistics of some pictures, and a drawn deviation from them. Where there
    are none, kernels are drawn so that a signal keeps its size.
    """
    rng = np.random.default_rng(0)
    norms = [x for x in model.layers if isinstance(x, keras.layers.BatchNormalization)]
    for variable in model.trainable_variables:
        if not norms and len(variable.shape) > 1:
            deviation = np.sqrt(2 / np.prod(variable.shape[:-1]))
            variable.assign(rng.normal(0, deviation, variable.shape))
            continue
        values = keras.ops.convert_to_numpy(variable)
        if values.size > 1 and (values == values.flat[0]).all():
            zeros = values.flat[0] == 0
            shape = values.shape
            variable.assign(rng.normal(0, 0.3, shape) if zeros else rng.uniform(0.5, 1.5, shape))
    for norm in norms:
        norm.momentum = 0.0
    model(rng.standard_normal((4, *size, 3)).astype(np.float32), training=True)
    for norm in norms:
        mean, variance = map(keras.ops.convert_to_numpy, (norm.moving_mean, norm.moving_variance))
        norm.moving_mean.assign(mean + 0.3 * np.sqrt(variance) * rng.standard_normal(mean.shape))
        norm.moving_variance.assign(variance * rng.uniform(0.5, 1.5, variance.shape))
    return model


def test_every_network_of_keras_is_here() -> None:
    ours = {name for name in zoo.models() if zoo.info(name).source == "Keras"}
    assert ours == {*MODELS, *REFUSED}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_keras(name: str, tmp_path: Path) -> None:
    need_room(name, 4)
    size = input_size(name)
    function, settings = MODELS[name]
    keras.utils.set_random_seed(0)
    model = getattr(keras.applications, function)(
        weights=None,
        classes=CLASSES,
        classifier_activation=None,
        input_shape=(*size, 3),
        **settings,
    )
    drawn(model, size)
    model.save_weights(tmp_path / "m.weights.h5")
    network = zoo.create(name, size=size, classes=CLASSES)
    loaded = network.load_weights(tmp_path / "m.weights.h5")
    assert loaded.scheme == "keras"
    x = np.random.default_rng(1).standard_normal((2, *size, 3)).astype(np.float32)
    preprocessing = zoo.info(name).preprocessing
    if preprocessing is not None and preprocessing.mode == "raw":
        x = 128 + 64 * x
    expected = keras.ops.convert_to_numpy(model(x, training=False))
    del model
    agree(network(x.transpose(0, 3, 1, 2)), expected)
