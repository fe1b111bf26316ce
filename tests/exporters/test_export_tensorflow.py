"""Files that tf2onnx writes from TensorFlow functions, against TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from export_checks import agree

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="tensorflow is not installed")
tf2onnx = pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")

pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]

RNG = np.random.default_rng(9)
W = RNG.standard_normal((3, 3, 4, 8)).astype(np.float32)


def image(x: Any) -> Any:
    y = tf.nn.conv2d(x, W, [1, 2, 2, 1], "SAME")
    y = tf.nn.relu6(tf.nn.bias_add(y, np.arange(8, dtype=np.float32)))
    y = tf.image.resize(y, (7, 5))
    return tf.nn.max_pool2d(y, 3, 2, "VALID"), tf.image.resize(x, (4, 4), "nearest")


def loops(x: Any) -> Any:
    def step(i: Any, total: Any) -> Any:
        total = tf.cond(tf.reduce_sum(total) > 20, lambda: total / 2, lambda: total * 3 + x)
        return i + 1, total

    _, made = tf.while_loop(lambda i, t: i < 4, step, (tf.constant(0), x))
    return made


def activations(x: Any) -> Any:
    y = tf.nn.leaky_relu(x, 0.1) + tf.nn.selu(x) * tf.nn.softsign(x)
    return tf.nn.log_softmax(y), tf.nn.crelu(x), tf.clip_by_value(x, -0.5, 0.5), tf.math.erf(x)


def indices(x: Any) -> Any:
    values, places = tf.math.top_k(x, 2)
    hot = tf.one_hot(places, 4, on_value=2.0, off_value=-1.0)
    taken = tf.gather(x, [2, 0], axis=1, batch_dims=0)
    return values, places, hot, taken, x[..., ::-1], x[1:, tf.newaxis, :2], tf.where(x > 0)


def algebra(x: Any) -> Any:
    square = tf.einsum("bij,bkj->bik", x, x) + tf.eye(3)
    return tf.nn.l2_normalize(square, -1), tf.cumsum(x, 1), tf.math.reduce_logsumexp(x, [1])


def sizes(x: Any) -> Any:
    shape = tf.shape(x)
    flat = tf.reshape(x, [shape[0], -1])
    return tf.concat([flat, tf.fill([shape[0], 1], 0.5)], 1), tf.pad(flat, [[0, 0], [1, 2]])


def segments(x: Any) -> Any:
    parts = tf.split(x, [1, 2, 1], axis=1)
    stacked = tf.stack([parts[0], parts[2]], 0)
    return stacked, tf.tile(parts[1], [1, 2]), tf.unstack(x, axis=0)[0], tf.transpose(x)


def integers(x: Any) -> Any:
    n = tf.cast(tf.abs(x) * 10, tf.int32)  # tf2onnx writes // of negatives as if it truncated
    return n // 3, n % 4, tf.cast(n > 2, tf.float32), tf.round(x), tf.math.cumprod(n)[:, -1]


class Recurrent(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(2)
        self.w = tf.Variable(rng.standard_normal((4, 6)).astype(np.float32))
        self.u = tf.Variable(rng.standard_normal((6, 6)).astype(np.float32) * 0.3)

    def __call__(self, x: Any) -> Any:
        state = tf.zeros([tf.shape(x)[0], 6])
        for t in range(5):
            state = tf.sigmoid(x[:, t] @ self.w + state @ self.u)
        return state


def boxes(x: Any) -> Any:
    corners = tf.concat([x[:, :2], x[:, :2] + tf.abs(x[:, 2:]) + 0.1], 1)
    kept = tf.image.non_max_suppression(corners, tf.reduce_sum(x, 1), 4, 0.3)
    return tf.gather(corners, kept)


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], list[int | None]]] = {
    "image": (image, (2, 9, 8, 4), [None, 9, 8, 4]),
    "loops": (loops, (3,), [3]),
    "activations": (activations, (5, 3), [None, 3]),
    "indices": (indices, (3, 4), [None, 4]),
    "algebra": (algebra, (2, 3, 4), [None, 3, 4]),
    "sizes": (sizes, (2, 3, 4), [None, None, 4]),
    "segments": (segments, (3, 4), [3, 4]),
    "integers": (integers, (3, 4), [None, 4]),
    "recurrent": (Recurrent(), (2, 5, 4), [None, 5, 4]),
    "boxes": (boxes, (8, 4), [None, 4]),
}


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, opset: int) -> None:
    function, shape, free = FUNCTIONS[name]
    signature = [tf.TensorSpec(free, tf.float32, name="x")]
    x = RNG.standard_normal(shape).astype(np.float32)
    made, _ = tf2onnx.convert.from_function(
        tf.function(function), input_signature=signature, opset=opset
    )
    wanted = [v.numpy() for v in tf.nest.flatten(function(tf.constant(x)))]
    agree(made, [x], wanted)
