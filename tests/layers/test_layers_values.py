"""What layers compute, against plain numpy in float64."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np
import pytest
from layer_values import close
from numpy.typing import NDArray

from neuralsym import Network, Symbol
from neuralsym import layers as nn

Array = NDArray[Any]
RNG = np.random.Generator(np.random.Philox(7))


def computed(layer: Callable[[Symbol], Symbol], x: Array) -> tuple[Array, Network]:
    """The value of a layer on x, and its network with weights drawn anew: none is 0 or 1."""
    free = ("N", *x.shape[1:])
    network: Network = nn.input(free) | layer | nn.get_network()
    for name in network.weights:
        shape = network.weights.tensor(name).shape
        network.set_weight(name, RNG.uniform(0.5, 1.5, shape) * RNG.choice([-1, 1], shape))
        if name.endswith("variance"):
            network.set_weight(name, RNG.uniform(0.5, 1.5, shape))
    return network(x.astype(np.float32)), network


def weight(network: Network, name: str) -> Array:
    (found,) = [n for n in network.weights if n.rpartition("/")[2] == name]
    return network.weights[found].astype(np.float64)


def convolved(
    x: Array, w: Array, pads: Any, strides: Any, dilation: int = 1, groups: int = 1
) -> Array:
    """The sliding-window product, one output position at a time."""
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    reach = [(k - 1) * dilation + 1 for k in w.shape[2:]]
    sizes = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, strides, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *sizes))
    own = w.shape[0] // groups
    for place in itertools.product(*map(range, sizes)):
        window = tuple(
            slice(p * s, p * s + r, dilation) for p, s, r in zip(place, strides, reach, strict=True)
        )
        for g in range(groups):
            part = x[(slice(None), slice(g * w.shape[1], (g + 1) * w.shape[1]), *window)]
            axes = list(range(1, rank + 2))
            kernel = w[g * own : (g + 1) * own]
            y[(slice(None), slice(g * own, (g + 1) * own), *place)] = np.tensordot(
                part, kernel, (axes, axes)
            )
    return y


CONVOLUTIONS = [
    # settings, (before, after) pads of each axis; even sizes show where an odd element goes
    ({"kernel_size": 3}, ((1, 1), (1, 1))),
    ({"kernel_size": 3, "strides": 2}, ((0, 1), (0, 1))),
    ({"kernel_size": 3, "strides": 2, "padding": "same_lower"}, ((1, 0), (1, 0))),
    ({"kernel_size": (2, 4)}, ((0, 1), (1, 2))),
    ({"kernel_size": 5, "padding": "valid"}, ((0, 0), (0, 0))),
    ({"kernel_size": 3, "padding": 2}, ((2, 2), (2, 2))),
    ({"kernel_size": 3, "padding": (0, 1)}, ((0, 0), (1, 1))),
    ({"kernel_size": 3, "padding": ((1, 0), (0, 2)), "strides": (1, 3)}, ((1, 0), (0, 2))),
    ({"kernel_size": 3, "dilation_rate": 2}, ((2, 2), (2, 2))),
    ({"kernel_size": 3, "groups": 2}, ((1, 1), (1, 1))),
]


@pytest.mark.parametrize(("settings", "pads"), CONVOLUTIONS)
def test_conv2d(settings: dict[str, Any], pads: Any) -> None:
    x = RNG.standard_normal((2, 4, 8, 10))
    value, network = computed(nn.conv2d(6, **settings), x)
    strides = settings.get("strides", 1)
    expected = convolved(
        x,
        weight(network, "kernel"),
        pads,
        (strides, strides) if isinstance(strides, int) else strides,
        settings.get("dilation_rate", 1),
        settings.get("groups", 1),
    )
    close(value, expected + weight(network, "bias")[:, None, None])


@pytest.mark.parametrize("rank", [1, 3])
def test_conv_of_other_ranks(rank: int) -> None:
    x = RNG.standard_normal((2, 3, *(5, 6, 4)[:rank]))
    layer = {1: nn.conv1d, 3: nn.conv3d}[rank]
    value, network = computed(layer(4, 3, use_bias=False), x)
    close(value, convolved(x, weight(network, "kernel"), [(1, 1)] * rank, [1] * rank))


def test_depthwise_and_separable() -> None:
    x = RNG.standard_normal((2, 3, 6, 6))
    value, network = computed(nn.depthwise_conv2d(3, depth_multiplier=2, use_bias=False), x)
    (kernel,) = (network.weights[n].astype(np.float64) for n in network.weights)
    close(value, convolved(x, kernel, ((1, 1), (1, 1)), (1, 1), groups=3))
    value, network = computed(nn.separable_conv2d(5, 3, use_bias=False), x)
    first, second = (network.weights[n].astype(np.float64) for n in network.weights)
    middle = convolved(x, first, ((1, 1), (1, 1)), (1, 1), groups=3)
    close(value, convolved(middle, second, ((0, 0), (0, 0)), (1, 1)))


@pytest.mark.parametrize(("strides", "output_padding"), [(1, 0), (2, 0), (2, 1), (3, 2)])
def test_transposed_convolution(strides: int, output_padding: int) -> None:
    """Scattering each input by the kernel: the gradient of a convolution."""
    x = RNG.standard_normal((2, 3, 4))
    layer = nn.transpose_conv1d(
        2, 3, strides, padding=1, output_padding=output_padding, use_bias=False
    )
    value, network = computed(layer, x)
    w = weight(network, "kernel")  # [in, out, k]
    full = np.zeros((2, 2, 3 * strides + 3 + output_padding))
    for i, k in itertools.product(range(4), range(3)):
        full[:, :, i * strides + k] += x[:, :, i] @ w[:, :, k]
    close(value, full[:, :, 1 : full.shape[2] - 1])


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize(
    ("settings", "pads", "extra"),
    [
        ({"pool_size": 2}, 0, 0),
        ({"pool_size": 3, "strides": 2, "padding": 1}, 1, 0),
        ({"pool_size": 3, "strides": 2, "ceil_mode": True}, 0, 1),
    ],
)
def test_pools(kind: str, settings: dict[str, Any], pads: int, extra: int) -> None:
    x = RNG.standard_normal((2, 3, 8, 6))
    value, _ = computed(getattr(nn, f"{kind}_pool2d")(**settings), x)
    size, step = settings["pool_size"], settings.get("strides", settings["pool_size"])
    expected = np.zeros(value.shape)
    padded = np.pad(
        x, [(0, 0), (0, 0), (pads, pads + extra), (pads, pads + extra)], constant_values=np.nan
    )
    for i, j in np.ndindex(*value.shape[2:]):
        window = padded[:, :, i * step : i * step + size, j * step : j * step + size]
        reduce = np.nanmax if kind == "max" else np.nanmean
        expected[:, :, i, j] = reduce(window, axis=(2, 3))
    close(value, expected)


def test_counting_the_border_of_an_average() -> None:
    x = np.ones((1, 1, 4, 4))
    counted, _ = computed(nn.avg_pool2d(3, 1, "same", count_include_pad=True), x)
    left_out, _ = computed(nn.avg_pool2d(3, 1, "same"), x)
    assert counted[0, 0, 0, 0] == pytest.approx(4 / 9)
    assert left_out[0, 0, 0, 0] == 1


def test_global_pools() -> None:
    x = RNG.standard_normal((2, 3, 5, 7))
    close(computed(nn.global_avg_pool2d(), x)[0], x.mean((2, 3)))
    close(computed(nn.global_max_pool2d(keepdims=True), x)[0], x.max((2, 3), keepdims=True))


def test_normalisations() -> None:
    x = RNG.standard_normal((2, 6, 4, 5))
    value, network = computed(nn.normalisation(), x)
    gamma, beta, mean, variance = (
        weight(network, n)[:, None, None] for n in ("gamma", "beta", "mean", "variance")
    )
    close(value, (x - mean) / np.sqrt(variance + 1e-3) * gamma + beta)
    value, network = computed(nn.layer_norm(), x)
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3)
    close(value, scaled * weight(network, "gamma") + weight(network, "beta"))
    value, network = computed(nn.rms_norm(), x)
    close(value, x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight(network, "gamma"))
    value, network = computed(nn.group_norm(3), x)
    parts = x.reshape(2, 3, 2, 4, 5)
    centred = parts - parts.mean((2, 3, 4), keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean((2, 3, 4), keepdims=True) + 1e-3)
    gamma, beta = (weight(network, n)[:, None, None] for n in ("gamma", "beta"))
    close(value, scaled.reshape(x.shape) * gamma + beta)


def test_affine_maps() -> None:
    x = RNG.standard_normal((3, 4, 5))
    value, network = computed(nn.linear(6), x)
    close(value, x @ weight(network, "kernel") + weight(network, "bias"))
    value, network = computed(nn.fully_connected(6), x)
    close(value, x.reshape(3, 20) @ weight(network, "kernel") + weight(network, "bias"))
    value, network = computed(nn.dense(6, activation="relu", use_bias=False), x)
    close(value, np.maximum(x @ weight(network, "kernel"), 0))


def test_shapes() -> None:
    x = RNG.standard_normal((2, 3, 4, 6))
    close(computed(nn.flatten(), x)[0], x.reshape(2, 72))
    close(computed(nn.reshape((6, -1)), x)[0], x.reshape(2, 6, 12))
    close(computed(nn.permute((2, 3, 1)), x)[0], x.transpose(0, 2, 3, 1))
    pads = ((1, 2), (0, 3))
    close(computed(nn.zero_padding2d(pads), x)[0], np.pad(x, [(0, 0), (0, 0), *pads]))
    close(computed(nn.cropping2d(((1, 0), (2, 1))), x)[0], x[:, :, 1:, 2:-1])
    close(computed(nn.upsampling2d(2), x)[0], x.repeat(2, 2).repeat(2, 3))


def test_merges_and_branches() -> None:
    x = RNG.standard_normal((2, 3, 4))

    def twice(x: Symbol) -> Symbol:
        return x * 2

    def less(x: Symbol) -> Symbol:
        return x - 1

    both = nn.fork(twice, less)
    for join, expected in (
        (nn.add(), 3 * x - 1),
        (nn.multiply(), 2 * x * (x - 1)),
        (nn.subtract(), x + 1),
        (nn.average(), (3 * x - 1) / 2),
        (nn.maximum(), np.maximum(2 * x, x - 1)),
        (nn.minimum(), np.minimum(2 * x, x - 1)),
        (nn.concat(axis=1), np.concatenate([2 * x, x - 1], 1)),
        (nn.parallel(less, twice) | nn.add(), 4 * x - 3),
    ):
        close(computed(nn.chain(both, join), x)[0], expected)
    close(computed(nn.residual(twice), x)[0], 3 * x)
    close(computed(nn.lambda_(less), x)[0], x - 1)


def test_what_vanishes_at_inference() -> None:
    x = nn.input(("N", 3))
    for layer in (nn.dropout(0.5), nn.gaussian_noise(1.0), nn.alpha_dropout(0.1)):
        assert layer(x) is x


def sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sparsemax(x: Array) -> Array:
    """The nearest point of the simplex, by bisecting its threshold."""
    low, high = x.min(-1, keepdims=True) - 1, x.max(-1, keepdims=True)
    for _ in range(100):
        middle = (low + high) / 2
        over = np.maximum(x - middle, 0).sum(-1, keepdims=True) > 1
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    return np.maximum(x - low, 0)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x < 0, 0.2 * x, x),
    "elu": lambda x: np.where(x < 0, np.expm1(x), x),
    "selu": lambda x: 1.0507009873554805 * np.where(x < 0, 1.6732632423543772 * np.expm1(x), x),
    "celu": lambda x: np.maximum(x, 0) + np.minimum(0, np.expm1(x)),
    "gelu": lambda x: x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2,
    "silu": lambda x: x * sigmoid(x),
    "swish": lambda x: x * sigmoid(x),
    "hard_silu": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "softplus": lambda x: np.logaddexp(0, x),
    "softmax": softmax,
    "log_softmax": lambda x: np.log(softmax(x)),
    "exponential": np.exp,
    "linear": lambda x: x,
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "log_sigmoid": lambda x: -np.logaddexp(0, -x),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "tanh_shrink": lambda x: x - np.tanh(x),
    "hard_shrink": lambda x: np.where(np.abs(x) > 0.5, x, 0),
    "soft_shrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x < 1, (x + 1) ** 2 / 4, x)),
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "sparsemax": sparsemax,
    "glu": lambda x: x[..., :4] * sigmoid(x[..., 4:]),
}


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activations(name: str) -> None:
    x = np.concatenate([RNG.standard_normal((3, 8)) * 3, [[-9, -6, -1, -0.5, 0, 0.5, 3, 9]]])
    x = x.astype(np.float32).astype(np.float64)
    value, _ = computed(nn.activation(name), x)
    expected = ACTIVATIONS[name](x)
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=2e-6)
    if hasattr(nn, name) and name != "linear":  # the layer `linear` is the affine map
        np.testing.assert_array_equal(computed(getattr(nn, name), x)[0], value)


def test_prelu_and_thresholds() -> None:
    x = RNG.standard_normal((2, 3, 4))
    value, network = computed(nn.prelu(), x)
    (alpha,) = (network.weights[n].astype(np.float64) for n in network.weights)
    close(value, np.where(x < 0, alpha * x, x))
    close(computed(nn.thresholded_relu(0.3), x)[0], np.where(x > 0.3, x, 0))
    close(computed(nn.threshold(0.3, -2.0), x)[0], np.where(x > 0.3, x, -2.0))


def test_embedding() -> None:
    ids = nn.input(("N", 4), dtype="int64")
    network = ids | nn.embedding(10, 3) | nn.get_network()
    (name,) = network.weights
    picked = np.array([[0, 9, 3, 3]])
    np.testing.assert_array_equal(network(picked), network.weights[name][picked])


def test_channels_last_input() -> None:
    network = nn.input(("N", 4, 5, 3), layout="nhwc") | nn.conv2d(2, 3) | nn.get_network()
    x = RNG.standard_normal((2, 4, 5, 3)).astype(np.float32)
    expected = convolved(
        x.transpose(0, 3, 1, 2), weight(network, "kernel"), ((1, 1), (1, 1)), (1, 1)
    )
    close(network(x), expected)
    assert [n.op_type for n in network.graph.nodes].count("Transpose") == 1
