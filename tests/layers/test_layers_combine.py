"""Layers made of layers: what they share, copy, and say; the forms in which they are applied."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from neuralsym import BadAttribute, ShapeMismatch, Symbol, ops
from neuralsym import layers as nn


def picture() -> Symbol:
    return nn.input(("N", 4, 8, 8))


def count(*symbols: Symbol) -> int:
    return len((symbols | nn.get_network()).weights)


def small(x: Symbol) -> Symbol:
    """A plain function is a recipe: each use of it makes weights."""
    return x | nn.conv2d(4, 3, use_bias=False)


def test_a_function_is_a_recipe_and_a_layer_is_weights() -> None:
    x = picture()
    assert count(x | small | small) == 2
    tower = nn.fork(small, small) | nn.add
    once, twice = x | tower, x | tower | tower
    assert count(once) == 2
    assert count(twice) == 2, "a layer of functions keeps what they made"


def test_copies_of_combined_layers_share_nothing() -> None:
    x = picture()
    made: list[nn.Layer[Any, Any]] = [
        nn.conv2d(4, 3, use_bias=False) | nn.relu,
        nn.chain(small, nn.relu),
        nn.residual(nn.conv2d(4, 3, use_bias=False)),
        nn.fork(nn.conv2d(4, 3, use_bias=False)) | nn.concat(),
        nn.lambda_(small),
    ]
    for layer in made:
        assert count(x | layer, x | layer) == 1
        assert count(x | layer, x | layer.copy()) == 2


def test_a_copy_has_an_activation_of_its_own() -> None:
    slope = nn.prelu(shared_axes=(2, 3))
    layer = nn.conv2d(4, 3, use_bias=False, activation=slope)
    x = picture()
    assert count(x | layer, x | layer) == 2
    assert count(x | layer, x | layer.copy()) == 4
    assert count(x | nn.conv2d(4, 3, use_bias=False, activation="prelu") | layer) == 4


def test_a_layer_made_in_a_block_and_applied_by_another() -> None:
    @nn.layer
    def twice(x: Symbol, inner: Callable[[Symbol], Symbol]) -> Symbol:
        return x | inner | inner

    @nn.layer
    def block(x: Symbol, filters: int) -> Symbol:
        return x | twice(nn.conv2d(filters, 3, use_bias=False))

    shared = block(4)
    assert count(picture() | shared | shared) == 1


def test_a_layer_without_settings_in_a_combination_is_one_layer() -> None:
    norms = nn.conv2d(4, 1, use_bias=False) | nn.normalisation
    x = picture()
    assert count(x | norms, x | norms) == 5


def test_forms_of_application() -> None:
    x = picture()
    for y in (x | nn.relu, x | nn.relu(), nn.relu(x), nn.relu()(x)):
        assert y.op_type == "Relu"
    assert nn.softmax(x, axis=1).attrs["axis"] == 1
    for y in ([x, x] | nn.concat(), nn.concat([x, x], axis=1), (x, x) | nn.concat):
        assert str(y.type) == "float32[N, 8, 8, 8]"
    fed = np.ones((1, 4, 8, 8), np.float32) | nn.conv2d(2, 3)
    assert str(fed.type) == "float32[1, 2, 8, 8]"


@pytest.mark.slow
def test_a_long_chain_is_no_deep_one() -> None:
    layer = nn.relu()
    for _ in range(3000):
        layer = layer | nn.relu
    assert len((picture() | layer | nn.get_network()).graph) == 3002
    assert len((picture() | nn.chain(*[nn.relu] * 3000) | nn.get_network()).graph) == 3001
    assert nn.chain()(x := picture()) is x


def test_ways_to_join_a_skip() -> None:
    x = picture()
    assert (x | nn.residual(nn.relu)).op_type == "Add"
    assert (x | nn.residual(nn.relu, join=ops.mul)).op_type == "Mul"
    assert (x | nn.residual(nn.relu, join=nn.multiply)).op_type == "Mul"
    joined = x | nn.residual(nn.relu, join=nn.concat(axis=1))
    assert str(joined.type) == "float32[N, 8, 8, 8]"
    wider = x | nn.residual(nn.conv2d(8, 3), shortcut=nn.conv2d(8, 1))
    assert str(wider.type) == "float32[N, 8, 8, 8]"
    with pytest.raises(ShapeMismatch, match=r"N, 8, 8, 8\].*N, 4, 8, 8\]"):
        x | nn.residual(nn.conv2d(8, 3))


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda: nn.fork(), "at least one"),
        (lambda: nn.fork([nn.relu, nn.relu]), r"fork\(\*layers\)"),
        (lambda: nn.fork(picture()), "layers or functions"),
        (lambda: nn.fork(nn.conv2d), "conv2d needs its settings"),
        (lambda: nn.relu | nn.conv2d, "conv2d needs its settings"),
        (lambda: (picture(),) | nn.parallel(nn.relu, nn.relu), "2 layers takes 2 inputs, 1"),
        (lambda: picture() | nn.parallel(nn.relu), "not a tuple"),
        (lambda: 5 | nn.relu, "takes a Symbol, not int"),
        (lambda: nn.conv2d(picture(), 4, 3), r"x \| conv2d\("),
        (lambda: nn.conv2d(4, 3, use_bias="no"), "True or False"),
        (lambda: nn.conv2d(4.5, 3), "an integer"),
        (lambda: nn.conv2d(4, (3, 3.5)), "sequence of integers"),
    ],
)
def test_mistakes(mistake: Callable[[], object], words: str) -> None:
    with pytest.raises(TypeError, match=words) as raised:
        mistake()
    assert "test_layers_combine.py:" in str(raised.value)


def test_settings_of_activations() -> None:
    x = nn.input(("N", 4))
    assert (x | nn.activation("LeakyReLU", negative_slope=0.5)).attrs["alpha"] == 0.5
    assert (x | nn.activation(nn.relu)).op_type == "Relu"
    assert (x | nn.activation(ops.tanh)).op_type == "Tanh"
    with pytest.raises(TypeError, match="'slope'"):
        x | nn.activation("leaky_relu", slope=0.5)
    with pytest.raises(BadAttribute, match="gave int"):
        x | nn.activation(lambda s: 3)  # type: ignore[arg-type, return-value]


def test_forms_of_relu() -> None:
    x = np.array([[-4, -1, -0.5, 0, 0.5, 1, 4, 9]], np.float32)

    def value(**settings: float) -> Any:
        return (nn.input(("N", 8)) | nn.relu(**settings) | nn.get_network())(x)

    np.testing.assert_array_equal(value(max_value=2), np.clip(x, 0, 2))
    np.testing.assert_array_equal(value(negative_slope=0.5), np.where(x < 0, x / 2, x))
    expected = np.where(x >= 1, x, (x - 1) / 4)
    np.testing.assert_array_equal(value(threshold=1, negative_slope=0.25), expected)
    np.testing.assert_array_equal(
        value(threshold=1, negative_slope=0.25, max_value=3), np.minimum(expected, 3)
    )


@pytest.mark.parametrize(
    ("first", "second", "axes", "equation"),
    [
        ((2, 5), (2, 5), 1, "ni,ni->n"),
        ((2, 3, 5), (2, 4, 5), 2, "nak,nbk->nab"),
        ((2, 5, 3), (2, 4, 5), (1, 2), "nka,nbk->nab"),
        ((2, 3, 5, 6), (2, 5), (2, 1), "nakb,nk->nab"),
        ((2, 3, 5), (2, 4, 5), -1, "nak,nbk->nab"),
    ],
)
def test_dot(first: Any, second: Any, axes: Any, equation: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(first), rng.standard_normal(second)
    pair = nn.input(("N", *first[1:]), name="a"), nn.input(("N", *second[1:]), name="b")
    network = pair | nn.dot(axes) | nn.get_network()
    expected = np.einsum(equation, a, b)
    value = next(iter(network.run([a, b]).values()))
    assert value.shape == (expected.shape if expected.ndim > 1 else (2, 1))
    np.testing.assert_allclose(value.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


def test_dot_of_directions_is_their_cosine() -> None:
    pair = nn.input(("N", 3), name="a"), nn.input(("N", 3), name="b")
    network = pair | nn.dot(1, normalize=True) | nn.get_network()
    (value,) = network.run([np.array([[1.0, 2.0, 2.0]]), np.array([[-2.0, -4.0, -4.0]])]).values()
    np.testing.assert_allclose(value, [[-1.0]], rtol=1e-6)


def test_a_layer_shows_its_settings_to_editors_and_readers() -> None:
    signature = inspect.signature(nn.conv2d)
    assert list(signature.parameters)[:4] == ["filters", "kernel_size", "strides", "padding"]
    assert signature.return_annotation == "Layer[Symbol, Symbol]"
    assert "Keras Conv2D" in str(nn.conv2d.__doc__)
    assert repr(nn.softmax) == "<layers.softmax(axis=-1, name=None)>"
    assert str(nn.conv2d(8, 3, padding="valid", name="a")) == "conv2d(8, 3, padding='valid') 'a'"


def test_every_public_name_is_there_and_documented() -> None:
    for name in nn.__all__:
        made = getattr(nn, name)
        assert (made.__doc__ or "").strip(), f"{name} says nothing"
