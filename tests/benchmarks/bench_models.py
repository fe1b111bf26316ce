"""The networks of the benchmarks that are not in the zoo, with weights from fixed seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from neuralsym import Graph, Network, Symbol, ops, zoo
from neuralsym.layers import fully_connected, get_network, input, relu


class Weights:
    """Random weights in the order in which they are asked for."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.Generator(np.random.Philox(seed))

    def __call__(self, *shape: int) -> NDArray[np.float32]:
        scale = np.float32(1 / np.sqrt(shape[-2] if len(shape) > 1 else 1))
        return self.rng.standard_normal(shape, np.float32) * scale


def mlp() -> Network:
    """784 - 128 - 64 - 10."""
    x = input(("N", 784))
    hidden = x | fully_connected(128) | relu | fully_connected(64) | relu
    return hidden | fully_connected(10) | get_network("mlp")


def product() -> Network:
    """One row by a matrix of 784 x 10."""
    x = ops.variable("x", (1, 784))
    return Network(Graph({"y": ops.matmul(x, Weights()(784, 10))}, name="784x10"))


def lstm(steps: int = 50, features: int = 32, units: int = 64) -> Network:
    """A layer of LSTM over a sequence; its input is [steps, N, features]."""
    w = Weights()
    x = ops.variable("x", (steps, "N", features))
    y = ops.lstm(
        x,
        w(1, 4 * units, features),
        w(1, 4 * units, units),
        w(1, 8 * units),
        hidden_size=units,
        outputs=2,
    )
    return Network(Graph({"y": y[0], "last": y[1]}, name="lstm"))


def lstm_cell(features: int = 32, units: int = 64) -> Network:
    """One step of an LSTM, its state fed and given back."""
    w = Weights()
    x = ops.variable("x", (1, 1, features))
    state = [ops.variable(name, (1, 1, units)) for name in ("h", "c")]
    weights = (w(1, 4 * units, features), w(1, 4 * units, units), w(1, 8 * units))
    y = ops.lstm(x, *weights, None, *state, hidden_size=units, outputs=3)
    return Network(Graph({"h_next": y[1], "c_next": y[2]}, name="lstm_cell"))


def transformer(length: int = 64, width: int = 128, heads: int = 4) -> Network:
    """A block of attention and of two dense layers, as exporters write it; input [N, 64, 128]."""
    w = Weights()
    depth = width // heads
    x = ops.variable("x", ("N", length, width))

    def dense(value: Symbol, outputs: int) -> Symbol:
        size = value.shape[-1]
        assert isinstance(size, int)
        return ops.matmul(value, w(size, outputs)) + w(outputs)

    def split(value: Symbol) -> Symbol:
        cut = ops.reshape(value, np.array([0, 0, heads, depth]))
        return ops.transpose(cut, perm=[0, 2, 1, 3])

    def normal(value: Symbol) -> Symbol:
        one = np.ones(width, np.float32)
        return ops.layer_normalization(value, one, w(width), axis=-1)

    def gelu(value: Symbol) -> Symbol:
        return value * (ops.erf(value / np.float32(np.sqrt(2))) + 1) * 0.5

    normed = normal(x)
    query, key, given = (split(dense(normed, width)) for _ in range(3))
    scores = ops.matmul(query, ops.transpose(key, perm=[0, 1, 3, 2])) / np.float32(np.sqrt(depth))
    mixed = ops.matmul(ops.softmax(scores, axis=-1), given)
    joined = ops.reshape(ops.transpose(mixed, perm=[0, 2, 1, 3]), np.array([0, 0, width]))
    attended = x + dense(joined, width)
    made = attended + dense(gelu(dense(normal(attended), 4 * width)), width)
    return Network(Graph({"y": made}, name="transformer"))


OTHERS: dict[str, Callable[[], Network]] = {
    "mlp": mlp,
    "lstm": lstm,
    "transformer": transformer,
    "784x10": product,
    "lstm_cell": lstm_cell,
}


def build(name: str) -> Network:
    """A network of OTHERS or of the zoo."""
    return OTHERS[name]() if name in OTHERS else zoo.create(name)
