"""Keras's weights as files, .weights.h5, .keras and .h5: its applications and other layers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from neuralsym import Network, zoo
from neuralsym.layers import (
    get_network,
    gru,
    input,
    linear,
    lstm,
    multi_head_attention,
    separable_conv1d,
    simple_rnn,
)

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="Keras is not installed")
pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]

# Keras's application: our network, and the size of the test's pictures.
APPLICATIONS = {
    "ResNet50": ("resnet50_keras", 64),
    "InceptionV3": ("inception_v3_keras", 96),
    "MobileNetV2": ("mobilenet_v2_keras", 64),
    "EfficientNetB0": ("efficientnet_b0_keras", 64),
    "DenseNet121": ("densenet121_keras", 64),
    "Xception": ("xception", 96),
}
CLASSES = 11


def calibrated(model: Any, x: Any) -> Any:
    """The model with batch norms that measured `x` and drawn scales: its answer hangs on x.

    Most of what a ReLU is given is positive, or a rounding would grow from layer to layer.
    """
    random = np.random.default_rng(0)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
            if layer.scale:
                layer.gamma.assign(random.uniform(0.5, 1.5, layer.gamma.shape))
            layer.beta.assign(random.normal(1, 0.3, layer.beta.shape))
    model(x, training=True)
    return model


def saved(model: Any, folder: Path) -> list[Path]:
    model.save_weights(folder / "m.weights.h5")
    model.save(folder / "m.keras")
    model.save(folder / "m.h5")
    return sorted(folder.iterdir())


def answer(model: Any, x: NDArray[np.float32]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = keras.ops.convert_to_numpy(model(x, training=False))
    return found


def agree(network: Network, x: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    tolerance = 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(network(x), expected, rtol=0, atol=tolerance)
    assert np.abs(expected[0] - expected[1]).max() > 10 * tolerance


@pytest.mark.parametrize("name", APPLICATIONS)
def test_applications_give_the_outputs_of_keras(name: str, tmp_path: Path) -> None:
    ours, size = APPLICATIONS[name]
    keras.utils.set_random_seed(1)
    make = getattr(keras.applications, name)
    shape = (size, size, 3)
    model = make(weights=None, input_shape=shape, classes=CLASSES, classifier_activation=None)
    x = np.random.default_rng(1).uniform(0, 255, (16, *shape)).astype(np.float32)
    calibrated(model, x)
    x = x[:2]
    expected = answer(model, x)
    first = None
    for path in saved(model, tmp_path):
        network = zoo.create(ours, classes=CLASSES, size=size)
        loaded = network.load_weights(path)
        assert loaded.scheme == "keras"
        assert not loaded.left_out
        if first is None:
            first = network
            agree(network, x.transpose(0, 3, 1, 2), expected)
        for weight in network.weights:
            assert np.array_equal(network.weights[weight], first.weights[weight]), path.name


def test_layers_called_as_in_keras_take_its_weights(tmp_path: Path) -> None:
    of = keras.layers
    given = keras.Input((6, 8))
    y = of.LSTM(4, return_sequences=True, name="first")(given)
    y = of.Bidirectional(of.GRU(3, return_sequences=True), name="both")(y)
    y = of.MultiHeadAttention(2, 3, name="heads")(y, y)
    y = of.SimpleRNN(4, name="last")(y)
    model = keras.Model(given, of.Dense(3, name="out")(y))
    random = np.random.default_rng(0)
    model.set_weights([random.normal(0, 0.4, w.shape) for w in model.weights])
    x = random.normal(size=(2, 6, 8)).astype(np.float32)
    for path in saved(model, tmp_path):
        network = (
            input((2, 6, 8))
            | lstm(4, return_sequences=True, name="first")
            | gru(3, return_sequences=True, bidirectional=True, name="both")
            | multi_head_attention(2, 3, name="heads")
            | simple_rnn(4, name="last")
            | linear(3, name="out")
            | get_network()
        )
        assert network.load_weights(path).scheme == "keras"
        agree(network, x, answer(model, x))


def test_separable_kernels_and_nested_models(tmp_path: Path) -> None:
    of = keras.layers
    inner = keras.Sequential(
        [keras.Input((9, 4)), of.SeparableConv1D(5, 3, name="sep")], name="inner"
    )
    given = keras.Input((9, 4))
    model = keras.Model(given, inner(given))
    random = np.random.default_rng(0)
    model.set_weights([random.normal(0, 0.4, w.shape) for w in model.weights])
    x = random.normal(size=(2, 9, 4)).astype(np.float32)
    for path in saved(model, tmp_path):
        network = (
            input((2, 4, 9)) | separable_conv1d(5, 3, padding="valid", name="sep") | get_network()
        )
        network.load_weights(path)
        agree(network, x.transpose(0, 2, 1), answer(model, x).transpose(0, 2, 1))
