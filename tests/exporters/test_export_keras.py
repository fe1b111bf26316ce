"""Files that Keras 3's `model.export(format="onnx")` writes, against Keras.

The backend is what KERAS_BACKEND names, else TensorFlow where it is installed, else torch.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from export_checks import agree

if "KERAS_BACKEND" not in os.environ:
    tensorflow = importlib.util.find_spec("tensorflow") is not None
    os.environ["KERAS_BACKEND"] = "tensorflow" if tensorflow else "torch"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
NEEDED = {"tensorflow": ("tensorflow", "tf2onnx"), "torch": ("torch", "onnxscript")}
for package in ("keras", *NEEDED.get(os.environ["KERAS_BACKEND"], ())):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

import keras  # noqa: E402
from keras import layers  # noqa: E402

pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]


def sequence(shape: tuple[int | None, ...], *parts: Any, dtype: str = "float32") -> Any:
    return keras.Sequential([keras.Input(shape, dtype=dtype), *parts])


def residual() -> Any:
    x = keras.Input((9, 7, 3))
    a = layers.Conv2D(6, 3, padding="same", strides=2, activation="relu")(x)
    b = layers.SeparableConv2D(6, 3, padding="same")(a)
    b = layers.BatchNormalization()(b)
    c = layers.Add()([a, layers.Activation("swish")(b)])
    c = layers.DepthwiseConv2D(3, padding="same")(c)
    return keras.Model(x, [layers.GlobalAveragePooling2D()(c), layers.Flatten()(c)])


def attention() -> Any:
    ids = keras.Input((6,), dtype="int32")
    x = layers.Embedding(20, 8)(ids)
    y = layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
    y = layers.LayerNormalization()(layers.Add()([x, y]))
    y = layers.Dense(8, activation="swish")(y)  # of gelu Keras writes an operator Erfc, no ONNX
    return keras.Model(ids, layers.Dense(20, activation="softmax")(layers.Concatenate()([x, y])))


MODELS: dict[str, Callable[[], Any]] = {
    "dense": lambda: sequence(
        (5,), layers.Dense(8, activation="elu"), layers.Dropout(0.3), layers.UnitNormalization(),
        layers.Dense(3, activation="log_softmax"),
    ),
    "residual": residual,
    "pools": lambda: sequence(
        (8, 9, 2), layers.ZeroPadding2D(1), layers.MaxPooling2D(3, 2, padding="same"),
        layers.LeakyReLU(0.2), layers.AveragePooling2D(2, padding="same"),
        layers.Permute((2, 1, 3)),
    ),
    "upsampled": lambda: sequence(
        (4, 5, 3), layers.Conv2DTranspose(4, 3, strides=2, padding="same"),
        layers.UpSampling2D(2, interpolation="bilinear"), layers.Cropping2D(1),
        layers.GroupNormalization(2),
    ),
    "one_dimension": lambda: sequence(
        (10, 3), layers.Conv1D(4, 3, padding="causal", dilation_rate=2, activation="tanh"),
        layers.SpatialDropout1D(0.1), layers.MaxPooling1D(2), layers.GlobalMaxPooling1D(),
    ),
    "three_dimensions": lambda: sequence(
        (4, 5, 6, 2), layers.Conv3D(3, 2, activation="sigmoid"), layers.AveragePooling3D(2),
    ),
    "lstm": lambda: sequence(
        (7, 4), layers.LSTM(5, return_sequences=True), layers.LSTM(3),
    ),
    "gru": lambda: sequence((7, 4), layers.Bidirectional(layers.GRU(5)), layers.Dense(2)),
    "attention": attention,
    "rescaled": lambda: sequence(
        (4, 3), layers.Rescaling(0.5, 1.0), layers.Reshape((2, 6)), layers.Softmax(),
    ),
}  # fmt: skip
INTEGERS = ("attention",)
FAILS = {"torch": ("three_dimensions", "attention")}
"""What the exporter of a backend fails on itself."""


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, tmp_path: Path) -> None:
    if name in FAILS.get(keras.backend.backend(), ()):
        pytest.skip(f"the exporter of {keras.backend.backend()} fails on it")
    keras.utils.set_random_seed(4)
    model = MODELS[name]()
    rng = np.random.default_rng(1)
    shape = (2, *model.input_shape[1:])
    x = rng.integers(0, 20, shape) if name in INTEGERS else rng.standard_normal(shape)
    x = x.astype(np.int32 if name in INTEGERS else np.float32)
    for weight in model.weights:  # the statistics of normalisations are not trivial
        if "moving" in weight.path:
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
    wanted = model(x, training=False)
    wanted = [keras.ops.convert_to_numpy(v) for v in keras.tree.flatten(wanted)]
    path = tmp_path / "model.onnx"
    model.export(path, format="onnx", verbose=False)
    agree(path, [x], wanted)
