"""Every network that the zoo has from Keras, with Keras's weights, against it.

The weights are random, and no number among them is one that a mistake could hide behind: scales
are not 1, shifts are not 0. Sizes are even, where padding differs from torchvision's, and odd.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
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
    "efficientnet_b0_keras": ("EfficientNetB0", {}),
    "efficientnet_b1_keras": ("EfficientNetB1", {}),
    "efficientnet_b2_keras": ("EfficientNetB2", {}),
    "efficientnet_b3_keras": ("EfficientNetB3", {}),
    "efficientnet_b4_keras": ("EfficientNetB4", {}),
    "efficientnet_b5_keras": ("EfficientNetB5", {}),
    "efficientnet_b6_keras": ("EfficientNetB6", {}),
    "efficientnet_b7_keras": ("EfficientNetB7", {}),
    "efficientnet_v2_b0": ("EfficientNetV2B0", {}),
    "efficientnet_v2_b1": ("EfficientNetV2B1", {}),
    "efficientnet_v2_b2": ("EfficientNetV2B2", {}),
    "efficientnet_v2_b3": ("EfficientNetV2B3", {}),
    "efficientnet_v2_s_keras": ("EfficientNetV2S", {}),
    "efficientnet_v2_m_keras": ("EfficientNetV2M", {}),
    "efficientnet_v2_l_keras": ("EfficientNetV2L", {}),
    "inception_resnet_v2": ("InceptionResNetV2", {}),
    "inception_v3_keras": ("InceptionV3", {}),
    "mobilenet": ("MobileNet", {}),
    "mobilenet_025": ("MobileNet", {"alpha": 0.25}),
    "mobilenet_050": ("MobileNet", {"alpha": 0.5}),
    "mobilenet_075": ("MobileNet", {"alpha": 0.75}),
    "mobilenet_v2_keras": ("MobileNetV2", {}),
    "mobilenet_v3_large_keras": ("MobileNetV3Large", {}),
    "mobilenet_v3_small_keras": ("MobileNetV3Small", {}),
    "nasnet_large": ("NASNetLarge", {}),
    "nasnet_mobile": ("NASNetMobile", {}),
    "resnet50_keras": ("ResNet50", {}),
    "resnet101_keras": ("ResNet101", {}),
    "resnet152_keras": ("ResNet152", {}),
    "resnet50_v2": ("ResNet50V2", {}),
    "resnet101_v2": ("ResNet101V2", {}),
    "resnet152_v2": ("ResNet152V2", {}),
    "vgg16_keras": ("VGG16", {}),
    "vgg19_keras": ("VGG19", {}),
    "xception": ("Xception", {}),
}
# Keras refuses this function with torch beneath it, but not what the function calls.
MOBILE = {
    "penultimate_filters": 1056,
    "num_blocks": 4,
    "stem_block_filters": 32,
    "skip_reduction": False,
    "filter_multiplier": 2,
    "default_size": 224,
}


def input_size(name: str) -> tuple[int, int]:
    size = size_of(name)
    return (size, size + 11)


def pictures(name: str, size: tuple[int, int], count: int = 2) -> NDArray[np.float32]:
    x = np.random.default_rng(1).standard_normal((count, *size, 3))
    preprocessing = zoo.info(name).preprocessing
    inside = preprocessing is not None and preprocessing.mode == "raw"
    return (128 + 64 * x if inside else x).astype(np.float32)


def drawn(model: Any, given: NDArray[np.float32]) -> Any:
    """The model, with numbers instead of all zeros and ones; see the test for torchvision."""
    rng = np.random.default_rng(0)
    norms = [x for x in model.layers if isinstance(x, keras.layers.BatchNormalization)]
    for variable in model.trainable_variables:
        shape = tuple(variable.shape)
        values = keras.ops.convert_to_numpy(variable)
        if len(shape) == 4 or (len(shape) > 1 and not norms):
            fan = np.prod(shape[:-1]) if shape[-1] > 1 else np.prod(shape[:-2])
            variable.assign(rng.normal(0, np.sqrt(2 / fan), shape))
        elif values.size > 1 and (values == values.flat[0]).all():
            zeros = values.flat[0] == 0
            variable.assign(rng.normal(0, 0.3, shape) if zeros else rng.uniform(0.5, 1.5, shape))
    for layer in model.layers:
        if isinstance(layer, keras.layers.Normalization) and layer.weights:
            layer.adapt_mean.assign(rng.normal(0.5, 0.1, 3))
            layer.adapt_variance.assign(rng.uniform(0.05, 0.1, 3))
            layer.finalize_state()
    for norm in norms:
        norm.beta.assign(rng.normal(1, 0.3, norm.beta.shape))
        object.__setattr__(norm, "call", partial(measure, norm, norm.call, rng))
    model(given, training=False)
    for norm in norms:
        object.__delattr__(norm, "call")
    return model


def measure(norm: Any, call: Any, rng: np.random.Generator, x: Any, **settings: Any) -> Any:
    """What a batch norm gives with the statistics of its input and a drawn deviation from them."""
    values = keras.ops.convert_to_numpy(x)
    mean, variance = values.mean((0, 1, 2)), values.var((0, 1, 2))
    norm.moving_mean.assign(mean + 0.3 * np.sqrt(variance) * rng.standard_normal(mean.shape))
    norm.moving_variance.assign(variance * rng.uniform(0.5, 1.5, variance.shape))
    return call(x, training=False)


def keras_model(name: str, size: tuple[int, int]) -> Any:
    function, settings = MODELS[name]
    make = getattr(keras.applications, function)
    if name == "nasnet_mobile":
        from keras.src.applications.nasnet import NASNet

        make, settings = NASNet, MOBILE
    keras.utils.set_random_seed(0)
    return make(
        weights=None,
        classes=CLASSES,
        classifier_activation=None,
        input_shape=(*size, 3),
        **settings,
    )


def test_every_network_of_keras_is_here() -> None:
    assert {name for name in zoo.models() if zoo.info(name).source == "Keras"} == {*MODELS}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_keras(name: str, tmp_path: Path) -> None:
    need_room(name, 4)
    size = input_size(name)
    model = drawn(keras_model(name, size), pictures(name, size, 8))
    model.save_weights(tmp_path / "m.weights.h5")
    network = zoo.create(name, size=size, classes=CLASSES)
    loaded = network.load_weights(tmp_path / "m.weights.h5")
    assert loaded.scheme == "keras"
    x = pictures(name, size)
    expected = keras.ops.convert_to_numpy(model(x, training=False))
    del model
    agree(network(x.transpose(0, 3, 1, 2)), expected)
