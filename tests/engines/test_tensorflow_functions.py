"""TensorFlow's functions and Keras's models as graphs: each operation, loops, layers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorflow_checks import RNG, F, close, floats

import neuralsym
from neuralsym.engines import tensorflow as engine
from neuralsym.myelin import Flow, FlowBuilder, Network

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
tf2 = pytest.importorskip("tensorflow", reason="tensorflow is not installed")
tf: Any = tf2.compat.v1

pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]


# -- operations ----------------------------------------------------------------------------------
W = floats(3, 3, 4, 8)
PICTURE = floats(2, 7, 6, 4)


STATISTICS = floats(4), floats(4), floats(4), np.abs(floats(4)) + F(0.5)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "conv": (lambda x: tf2.nn.relu6(tf2.nn.conv2d(x, W, [1, 2, 2, 1], "SAME")), (PICTURE,)),
    "explicit pads": (
        lambda x: tf2.nn.conv2d(x, W, 1, [[0, 0], [1, 2], [0, 1], [0, 0]], dilations=2),
        (PICTURE,),
    ),
    "depthwise": (
        lambda x: tf2.nn.depthwise_conv2d(x, W[:, :, :, :2], [1, 1, 1, 1], "VALID"),
        (PICTURE,),
    ),
    "pools": (
        lambda x: (tf2.nn.max_pool2d(x, 3, 2, "SAME"), tf2.nn.avg_pool2d(x, [2, 3], 2, "SAME")),
        (PICTURE,),
    ),
    "batch norm": (
        lambda x: tf.nn.fused_batch_norm(x, *STATISTICS, 1e-3, is_training=False)[0],
        (PICTURE,),
    ),
    "resizing": (
        lambda x: (
            tf2.image.resize(x, (5, 9)),
            tf2.image.resize(x, (13, 4), "nearest"),
            tf.image.resize_bilinear(x, (5, 9), align_corners=True),
            tf.image.resize_nearest_neighbor(x, (5, 9)),
        ),
        (PICTURE,),
    ),
    "cubic resizing": (lambda x: tf2.image.resize(x, (9, 9), "bicubic"), (PICTURE,)),
    "depth and space": (
        lambda x: (tf2.nn.depth_to_space(x, 2), tf2.nn.space_to_depth(x[:, :6], 2)),
        (PICTURE,),
    ),
    "local norm": (lambda x: tf2.nn.local_response_normalization(x, 2, 1.0, 0.3, 0.7), (PICTURE,)),
    "subscripts": (
        lambda x: (
            x[..., ::-1],
            x[1, tf2.newaxis, 2:-1:2],
            x[:, -1],
            x[tf2.newaxis, ..., tf2.newaxis, 0],
            x[-1:, 5:2:-1, ..., 1:3],
        ),
        (PICTURE,),
    ),
    "moving subscripts": (lambda x, n: x[:, n : n + 2, n], (PICTURE, np.int32(3))),
    "sizes": (
        lambda x: (
            tf2.reshape(x, [tf2.shape(x)[0], -1]),
            tf2.fill([tf2.shape(x)[1], 2], 0.5),
            tf2.zeros_like(x) + tf2.ones_like(x),
            tf2.broadcast_to(x[0, 0, 0], tf2.shape(x)),
        ),
        (PICTURE,),
    ),
    "lookups": (
        lambda x, i: (
            tf2.gather(x, i, axis=1),
            tf2.gather(x, i),
            tf2.gather(x, i, axis=1, batch_dims=1),
            tf2.gather_nd(x, tf2.stack([i, i], -1)),
            tf2.one_hot(i, 4, on_value=2.0, off_value=-1.0, axis=0),
        ),
        (floats(2, 3, 4), np.array([[1, 0], [0, 1]], np.int32)),
    ),
    "parts": (
        lambda x: (
            *tf2.split(x, 2, axis=1),
            *tf2.split(x, [1, -1], axis=0),
            tf2.stack(tf2.unstack(x, axis=1), axis=1),
            tf2.concat([x, x], -1),
            tf2.tile(x, [1, 2]),
            tf2.expand_dims(x, 1),
        ),
        (floats(3, 4),),
    ),
    "borders": (
        lambda x: (
            tf2.pad(x, [[1, 0], [0, 2]], constant_values=3.0),
            tf2.pad(x, [[1, 0], [0, 2]], "REFLECT"),
            tf2.reverse(x, [0, 1]),
            tf2.reverse_sequence(x, [1, 3, 2], seq_axis=1),
        ),
        (floats(3, 4),),
    ),
    "choices": (
        lambda x: (
            tf2.where(x > 0),
            tf2.where(x > 0, x, -x),
            *tf2.math.top_k(x, 2),
            tf2.cumsum(x, 1, exclusive=True, reverse=True),
            tf2.linalg.band_part(x, 1, 0),
            tf2.argmax(x, 1),
            tf2.clip_by_value(x, -0.5, 0.5),
        ),
        (floats(3, 4),),
    ),
    "numbers": (
        lambda x, y: (
            x // y, x % y, tf2.truncatediv(x, y), tf2.truncatemod(x, y),
            tf2.bitwise.bitwise_and(x, y),
            tf2.cast(x, tf2.float32) / tf2.cast(y, tf2.float32), tf2.pow(x, 2), x == y, x != y,
        ),
        (np.array([-7, 7, 5, -6], np.int32), np.array([2, -3, 5, 4], np.int32)),
    ),
    "elementwise": (
        lambda x: (
            tf2.nn.leaky_relu(x, 0.1), tf2.nn.selu(x), tf2.math.log1p(tf2.abs(x)),
            tf2.math.expm1(x), tf2.math.erfc(x),
            tf2.math.divide_no_nan(x, tf2.nn.relu(x)), tf2.math.is_nan(x),
            tf2.math.rsqrt(tf2.abs(x)), tf2.math.squared_difference(x, 1.0), tf2.round(x),
            tf2.add_n([x, x, x]), tf2.nn.log_softmax(x), tf2.nn.l2_loss(x), tf2.norm(x, axis=1),
        ),
        (floats(3, 4),),
    ),
    "reductions": (
        lambda x: (
            tf2.reduce_mean(x, [0, 2], keepdims=True), tf2.reduce_max(x), tf2.reduce_prod(x, 1),
            tf2.reduce_any(x > 0, 1), tf2.reduce_logsumexp(x, 1), tf2.reduce_sum(x, []),
        ),
        (floats(2, 3, 4),),
    ),
    "products": (
        lambda x: (
            tf2.einsum("bij,bkj->bik", x, x), tf2.matmul(x, x, transpose_a=True),
            tf2.linalg.matvec(x, x[:, 0]), tf2.tensordot(x, x, [[2], [2]]),
        ),
        (floats(2, 3, 4),),
    ),
    "scattering": (
        lambda x: (
            tf2.scatter_nd([[1], [1], [3]], x, [5, 4]),
            tf2.tensor_scatter_nd_update(x, [[1]], x[:1]),
            tf2.tensor_scatter_nd_add(x, [[1], [1]], x[:2]),
        ),
        (floats(3, 4),),
    ),
}  # fmt: skip


def check(function: Callable[..., Any], feeds: Sequence[Any], within: float = 1e-6) -> None:
    specs = [tf2.TensorSpec(np.shape(f), np.asarray(f).dtype) for f in feeds]
    wanted = tf2.nest.flatten(tf2.function(function)(*feeds))
    network = neuralsym.Network(engine.to_symbolic(function, inputs=specs))
    names = [p.name for p in network.inputs]
    found = list(network.run(dict(zip(names, feeds, strict=True))).values())
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        close(got, want.numpy(), within)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operations(name: str) -> None:
    function, feeds = FUNCTIONS[name]
    # TensorFlow takes cubic weights from a table of 1024 steps.
    check(function, feeds, {"resizing": 4e-6, "cubic resizing": 2 / 1024}.get(name, 1e-6))


def _power(x: Any, n: Any) -> Any:
    """A loop that a condition ends, with a branch inside of it."""

    def step(total: Any) -> Any:
        small = tf2.reduce_sum(total) < 10
        return [tf2.cond(small, lambda: total * 3.0, lambda: total + x)]

    return tf2.while_loop(lambda t: tf2.reduce_sum(t) < n, step, [x])


def _collected(x: Any) -> Any:
    """Lists that are read and written, of which the last elements stay zero."""
    array = tf2.TensorArray(tf2.float32, 6, element_shape=[3])

    def step(i: Any, array: Any, total: Any) -> Any:
        total = total + x[i]
        return i + 1, array.write(i, total), total

    _, array, total = tf2.while_loop(
        lambda i, *_: i < 4, step, (tf2.constant(0), array, tf2.zeros(3))
    )
    return array.stack(), total


def test_loops() -> None:
    check(_power, [np.abs(floats(3)) + F(0.1), F(50)])
    check(_collected, [floats(5, 3)])
    graph = engine.to_symbolic(_collected, inputs=[tf2.TensorSpec([5, 3], tf2.float32)])
    assert [n.op_type for n in graph.nodes].count("Loop") == 1
    flow = Flow()
    source = engine.open_source(_collected, [tf2.TensorSpec([5, 3], tf2.float32)])
    FlowBuilder(source, flow).add(flow.func("f"))
    again = Network.compile(Flow.from_bytes(flow.to_bytes()))
    assert [c.name for c in again.cells] == ["f"]


# -- Keras ---------------------------------------------------------------------------------------
def layers() -> Any:
    keras = pytest.importorskip("keras", reason="keras is not installed")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("keras runs over another framework: KERAS_BACKEND=tensorflow")
    return keras


def _conv(keras: Any) -> Any:
    layers = keras.layers
    return [
        keras.Input((9, 8, 3)), layers.ZeroPadding2D(1), layers.Conv2D(6, 3, strides=2),
        layers.BatchNormalization(), layers.ReLU(), layers.DepthwiseConv2D(3, padding="same"),
        layers.MaxPooling2D(2, padding="same"), layers.Conv2DTranspose(4, 3, 2, padding="same"),
        layers.AveragePooling2D(2), layers.Flatten(), layers.Dropout(0.5),
        layers.Dense(5, activation="softmax"),
    ]  # fmt: skip


def _recurrent(keras: Any) -> Any:
    layers = keras.layers
    return [
        keras.Input((None, 3)), layers.LSTM(5, return_sequences=True),
        layers.Bidirectional(layers.GRU(4, return_sequences=True)),
        layers.SimpleRNN(3, return_sequences=True), layers.LSTM(4), layers.Dense(2),
    ]  # fmt: skip


@pytest.mark.parametrize(("build", "shape"), [(_conv, (2, 9, 8, 3)), (_recurrent, (2, 6, 3))])
def test_keras_models(build: Callable[[Any], Any], shape: tuple[int, ...], tmp_path: Path) -> None:
    keras = layers()
    model = keras.Sequential(build(keras))
    for variable in model.weights:
        positive = "variance" in variable.path or "gamma" in variable.path
        value = RNG.uniform(0.5, 1.5, variable.shape) if positive else 0.4 * floats(*variable.shape)
        variable.assign(value)
    x, other = floats(*shape), floats(*shape)
    wanted = model(x).numpy()
    assert np.abs(wanted - model(other).numpy()).max() > 1e-4
    graph = engine.to_symbolic(model)
    assert {graph.names[w.node] for w in graph.weights} >= {v.path for v in model.trainable_weights}
    network = neuralsym.Network(graph)
    assert network.name == model.name
    close(network(x), wanted, 2e-6)
    close(network(other), model(other), 2e-6)
    model.export(str(tmp_path / "exported"), verbose=False)
    close(neuralsym.load(tmp_path / "exported")(x), wanted, 2e-6)
    network.save(tmp_path / "again.onnx")
    close(neuralsym.load(tmp_path / "again.onnx")(x), wanted, 2e-6)


def test_keras_models_with_several_inputs_and_outputs() -> None:
    keras = layers()
    ids, numbers = keras.Input((4,), dtype="int32", name="ids"), keras.Input((3,), name="numbers")
    x = keras.layers.Embedding(9, 5, mask_zero=True)(ids)
    x = keras.layers.LSTM(3)(x)
    both = keras.layers.Concatenate()([keras.layers.Add()([x, numbers]), numbers])
    first = keras.layers.Dense(2, name="first")(both)
    second = keras.layers.Dense(1, name="second", activation="sigmoid")(both)
    model = keras.Model({"ids": ids, "numbers": numbers}, {"a": first, "b": second})
    feed = {"ids": RNG.integers(0, 9, (2, 4)).astype(np.int32), "numbers": floats(2, 3)}
    network = neuralsym.Network(engine.to_symbolic(model))
    assert {p.name for p in network.inputs} == {"ids", "numbers"}
    found, wanted = network.run(feed), model(feed)
    for name in ("a", "b"):
        close(found[name], wanted[name])
