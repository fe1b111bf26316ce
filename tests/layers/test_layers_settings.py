"""Settings beyond the defaults: axes, switches, broadcasting, awkward values, several inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from layer_values import close
from numpy.typing import NDArray

from neuralsym import BadAttribute, GraphError, Network, ShapeMismatch, Symbol
from neuralsym import layers as nn

Array = NDArray[Any]
RNG = np.random.Generator(np.random.Philox(11))


def drawn(layer: Callable[[Symbol], Symbol], x: Array) -> tuple[Array, dict[str, Array]]:
    """The layer's value on x and its weights by their last names, none of them 0 or 1."""
    network: Network = nn.input(("N", *x.shape[1:])) | layer | nn.get_network()
    for name in network.weights:
        network.set_weight(name, RNG.uniform(0.5, 1.5, network.weights.tensor(name).shape))
    named = {n.rpartition("/")[2]: network.weights[n].astype(np.float64) for n in network.weights}
    return network(x), named


def values(*shape: int) -> Array:
    """Normal float64 values that float32 holds."""
    return RNG.standard_normal(shape).astype(np.float32).astype(np.float64)


# -- normalisation -----------------------------------------------------------------------------
@pytest.mark.parametrize("axis", [1, 2, -1])
def test_batch_norm_of_another_axis(axis: int) -> None:
    x = values(2, 3, 4, 5)
    value, w = drawn(nn.batch_norm(axis, epsilon=0.1), x)
    shape = [1] * 4
    shape[axis] = -1
    gamma, beta, mean, variance = (
        w[n].reshape(shape) for n in ("gamma", "beta", "mean", "variance")
    )
    close(value, (x - mean) / np.sqrt(variance + 0.1) * gamma + beta)


def test_batch_norm_after_a_convolution_uses_its_statistics() -> None:
    """The case that folding takes over; each statistic must show in the answer."""
    x = values(2, 3, 6, 6)
    network = nn.input(x.shape) | nn.conv2d(4, 3) | nn.batch_norm() | nn.get_network()
    plain = nn.input(x.shape) | nn.conv2d(4, 3) | nn.get_network()
    for name in network.weights:
        network.set_weight(name, RNG.uniform(0.5, 1.5, network.weights.tensor(name).shape))
    plain.load_weights({n: network.weights[n] for n in plain.weights})
    gamma, beta, mean, variance = (
        network.weights[f"normalisation/{n}"][:, None, None].astype(np.float64)
        for n in ("gamma", "beta", "mean", "variance")
    )
    close(network(x), (plain(x) - mean) / np.sqrt(variance + 1e-3) * gamma + beta)


@pytest.mark.parametrize(
    ("layer", "kept"),
    [
        (nn.batch_norm(scale=False), {"beta", "mean", "variance"}),
        (nn.batch_norm(center=False), {"gamma", "mean", "variance"}),
        (nn.layer_norm(scale=False), {"beta"}),
        (nn.layer_norm(center=False, scale=False), set()),
        (nn.rms_norm(scale=False), set()),
        (nn.group_norm(-1, center=False), {"gamma"}),
        (nn.instance_norm(scale=False), {"beta"}),
    ],
    ids=str,
)
def test_normalisations_without_some_weights(layer: Any, kept: set[str]) -> None:
    x = values(2, 4, 3, 5)
    value, w = drawn(layer, x)
    assert set(w) == kept
    axes = {"layer_norm": (3,), "rms_norm": (3,)}.get(layer.kind, (2, 3))
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    epsilon = {"instance_norm": 1e-5, "rms_norm": 1e-6}.get(layer.kind, 1e-3)
    shape = (-1,) if layer.kind == "layer_norm" else (-1, 1, 1)
    if layer.kind == "normalisation":
        mean, variance = w["mean"].reshape(shape), w["variance"].reshape(shape)
    elif layer.kind == "rms_norm":
        mean, variance = np.zeros(()), (x**2).mean(axes, keepdims=True)
    expected = (x - mean) / np.sqrt(variance + epsilon)
    expected = expected * w.get("gamma", np.ones(1)).reshape(shape)
    close(value, expected + w.get("beta", np.zeros(1)).reshape(shape))


def test_layer_norm_over_several_axes() -> None:
    x = values(2, 3, 4, 5)
    value, w = drawn(nn.layer_norm((-2, -1), epsilon=1e-5), x)
    centred = x - x.mean((2, 3), keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean((2, 3), keepdims=True) + 1e-5)
    assert w["gamma"].shape == (4, 5)
    close(value, scaled * w["gamma"] + w["beta"])


# -- activations on awkward values ---------------------------------------------------------------
AWKWARD = np.float32([-np.inf, -1e30, -100, -1e-30, -0.0, 0.0, 1e-30, 100, 1e30, np.inf, np.nan])
# What each tends to far to the left and far to the right.
LIMITS = {
    "relu": (0, np.inf), "relu6": (0, 6), "leaky_relu": (-np.inf, np.inf), "elu": (-1, np.inf),
    "selu": (-1.7580993, np.inf), "celu": (-1, np.inf), "gelu": (0, np.inf), "silu": (0, np.inf),
    "sigmoid": (0, 1), "hard_sigmoid": (0, 1), "log_sigmoid": (-np.inf, 0), "tanh": (-1, 1),
    "hard_tanh": (-1, 1), "softsign": (-1, 1), "softplus": (0, np.inf),
    "exponential": (0, np.inf), "mish": (0, np.inf), "hard_silu": (0, np.inf),
    "hard_shrink": (-np.inf, np.inf), "soft_shrink": (-np.inf, np.inf),
    "squareplus": (0, np.inf), "sparse_plus": (0, np.inf), "sparse_sigmoid": (0, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_activations_far_out(name: str) -> None:
    """Large inputs come to the limit, NaN stays NaN, tiny ones are as at 0."""
    network = nn.input((11,)) | nn.activation(name) | nn.get_network()
    y = network(AWKWARD)
    if "shrink" not in name:  # ONNX's Shrink is 0 where x lies on neither side
        assert np.isnan(y[-1])
    left, right = LIMITS[name]
    for value, limit in ((y[2], left), (y[7], right)):
        if np.isfinite(limit):
            assert value == pytest.approx(limit, abs=2e-2)  # softsign(100) is 0.99
        else:
            assert abs(value) >= 20 and np.sign(value) == np.sign(limit)
    np.testing.assert_allclose(y[[3, 4, 6]], y[5], atol=1e-29, rtol=1e-6)
    steep = {"squareplus"}  # x * x is infinite, so is its sum with x
    if name not in steep:
        assert not np.isnan(y[[1, 8]]).any()


@pytest.mark.parametrize("axis", [1, -1])
def test_softmax_of_large_values(axis: int) -> None:
    x = values(2, 3, 4) * 1e4
    e = np.exp(x - x.max(axis, keepdims=True))
    expected = e / e.sum(axis, keepdims=True)
    close(drawn(nn.softmax(axis), x)[0], expected)
    value = drawn(nn.log_softmax(axis), x)[0]
    close(value, x - x.max(axis, keepdims=True) - np.log(e.sum(axis, keepdims=True)))


def test_prelu_with_one_slope_a_channel() -> None:
    x = values(2, 3, 4, 5)
    value, w = drawn(nn.prelu(shared_axes=(2, 3)), x)
    assert w["alpha"].shape == (3, 1, 1)
    close(value, np.where(x < 0, w["alpha"] * x, x))


# -- shapes ------------------------------------------------------------------------------------
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_padding_cropping_and_enlarging_of_each_rank(rank: int) -> None:
    x = values(2, 3, *(4, 5, 6)[:rank])
    pairs = ((1, 2), (0, 3), (2, 0))[:rank]
    pad = {1: nn.zero_padding1d, 2: nn.zero_padding2d, 3: nn.zero_padding3d}[rank]
    crop = {1: nn.cropping1d, 2: nn.cropping2d, 3: nn.cropping3d}[rank]
    close(drawn(pad(pairs), x)[0], np.pad(x, [(0, 0), (0, 0), *pairs]))
    cut = tuple(slice(a, n - b) for (a, b), n in zip(pairs, x.shape[2:], strict=True))
    close(drawn(crop(pairs), x)[0], x[(slice(None), slice(None), *cut)])
    close(drawn(nn.chain(pad(pairs), crop(pairs)), x)[0], x)
    enlarge = {1: nn.upsampling1d, 2: nn.upsampling2d, 3: nn.upsampling3d}[rank]
    expected = x
    for axis, n in enumerate((2, 3, 1)[:rank], 2):
        expected = expected.repeat(n, axis)
    close(drawn(enlarge((2, 3, 1)[:rank]), x)[0], expected)


def test_bilinear_enlarging_takes_pixel_centres() -> None:
    x = values(1, 2, 3, 4)
    weights = {n: np.zeros((2 * n, n)) for n in (3, 4)}
    for n, w in weights.items():
        for i in range(2 * n):
            place = np.clip((i + 0.5) / 2 - 0.5, 0, n - 1)
            low = min(int(place), n - 2)
            w[i, low], w[i, low + 1] = 1 - (place - low), place - low
    expected = np.einsum("nchw,ih,jw->ncij", x, weights[3], weights[4])
    close(drawn(nn.upsampling2d(2, "bilinear"), x)[0], expected)


def test_repeat_vector_and_reshape_with_a_free_batch() -> None:
    x = values(3, 4)
    close(drawn(nn.repeat_vector(2), x)[0], np.stack([x, x], 1))
    close(drawn(nn.reshape((2, -1)), x)[0], x.reshape(3, 2, 2))
    with pytest.raises(ShapeMismatch, match="4 elements"):
        nn.input(("N", 4)) | nn.reshape((3,))


# -- joining -----------------------------------------------------------------------------------
JOINS: list[tuple[Any, Callable[..., Array]]] = [
    (nn.add, lambda *a: a[0] + a[1] + a[2]),
    (nn.multiply, lambda *a: a[0] * a[1] * a[2]),
    (nn.average, lambda *a: (a[0] + a[1] + a[2]) / 3),
    (nn.maximum, lambda *a: np.maximum(np.maximum(a[0], a[1]), a[2])),
    (nn.minimum, lambda *a: np.minimum(np.minimum(a[0], a[1]), a[2])),
]


@pytest.mark.parametrize(("join", "expected"), JOINS, ids=lambda j: getattr(j, "__name__", ""))
def test_three_inputs_are_joined_as_numpy_broadcasts(join: Any, expected: Any) -> None:
    arrays = [values(2, 3, 4), values(3, 1), values(1, 1, 4)]
    inputs = [nn.input(a.shape, name=f"x{i}") for i, a in enumerate(arrays)]
    network = inputs | join() | nn.get_network()
    y = network({f"x{i}": a for i, a in enumerate(arrays)})
    close(y, expected(*arrays))


def test_concat_of_unlike_sizes_names_the_trouble() -> None:
    a, b = nn.input(("N", 3, 8, 8), name="a"), nn.input(("N", 3, 4, 8), name="b")
    with pytest.raises(ShapeMismatch) as raised:
        (a, b) | nn.concat()
    text = str(raised.value)
    assert "concat" in text and "4" in text and "8" in text and "test_layers_settings.py:" in text


# -- the end of a pipe -------------------------------------------------------------------------
def test_several_inputs_and_outputs_run_together() -> None:
    a, b = nn.input(("N", 3), name="a"), nn.input(("N", 5), name="b")
    left, right = a | nn.linear(4, name="left"), b | nn.linear(4, name="right")
    network = (left, right) | nn.get_network(outputs={"sum": left + right, "first": left})
    assert [p.name for p in network.inputs] == ["a", "b"]
    assert [p.name for p in network.outputs] == ["first", "right", "sum"]
    feed = {"a": values(2, 3), "b": values(2, 5)}
    got = network.run(feed)
    w = {n: network.weights[n].astype(np.float64) for n in network.weights}
    first = feed["a"] @ w["left/kernel"] + w["left/bias"]
    second = feed["b"] @ w["right/kernel"] + w["right/bias"]
    close(got["first"], first)
    close(got["right"], second)
    close(got["sum"], first + second)
    assert list(network.run([feed["a"], feed["b"]], ["sum"])) == ["sum"]


@pytest.mark.parametrize(
    ("outputs", "kind", "words"),
    [
        (["a"], BadAttribute, "1 names.*2 outputs"),
        (["a", "a"], BadAttribute, "one name"),
        (3, (BadAttribute, TypeError), "outputs"),
        ([3, 4], BadAttribute, "names, symbols, or a dict"),
        ({"a": 3}, (BadAttribute, TypeError), "Symbol|symbol"),
        (["", "b"], (BadAttribute, GraphError), "name"),
    ],
    ids=str,
)
def test_outputs_that_cannot_be(outputs: Any, kind: Any, words: str) -> None:
    x = nn.input(("N", 3))
    with pytest.raises(kind, match=words) as raised:
        (x | nn.linear(2), x | nn.linear(3)) | nn.get_network(outputs=outputs)
    assert "test_layers_settings.py:" in str(raised.value)


def test_the_seeds_first_network_has_its_parameters() -> None:
    network = (
        nn.input((1, 3, 32, 32))
        | nn.normalisation()
        | nn.conv2d(32, (3, 3))
        | nn.activation("relu")
        | nn.max_pool2d(2)
        | nn.fully_connected(512)
        | nn.activation("relu")
        | nn.fully_connected(10)
        | nn.get_network()
    )
    assert network.summary(as_dict=True)["parameters"] == 4_200_854
    assert sum(network.weights.tensor(n).size for n in network.weights) == 4_200_854
