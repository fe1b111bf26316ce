"""Padding and sizes in all the forms that users write, against the formulas of their sources."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralsym import BadAttribute, Symbol
from neuralsym import layers as nn
from neuralsym.layers.window import axis_pairs, axis_sizes, transpose_attributes

small = st.integers(1, 7)


@given(size=st.integers(1, 12), kernel=small, stride=small, dilation=st.integers(1, 3))
def test_sizes_of_transposed_convolutions_are_those_of_keras(
    size: int, kernel: int, stride: int, dilation: int
) -> None:
    def length(padding: Any, output_padding: list[int] | None) -> int:
        made = transpose_attributes(padding, [kernel], [stride], [dilation], output_padding)
        extra = made.get("output_padding", (0,))[0]
        return (size - 1) * stride + reach - sum(made["pads"]) + int(extra)

    reach = (kernel - 1) * dilation + 1
    assert length("same", None) == size * stride
    assert length("valid", None) == size * stride + max(reach - stride, 0)
    assert length("valid", [0]) == (size - 1) * stride + reach
    assert length("same", [0]) == (size - 1) * stride + reach - 2 * (reach // 2)


def test_forms_of_explicit_padding() -> None:
    assert axis_pairs(1, 2, "padding") == ((1, 1), (1, 1))
    assert axis_pairs((1, 2), 2, "padding") == ((1, 1), (2, 2))
    assert axis_pairs(((1, 2), 3), 2, "padding") == ((1, 2), (3, 3))
    assert axis_pairs(((1, 2), (3, 4)), 2, "padding") == ((1, 2), (3, 4))
    assert axis_pairs([[1, 2], [3, 4]], 2, "padding") == ((1, 2), (3, 4))
    assert axis_pairs(np.array([1, 2]), 2, "padding") == ((1, 1), (2, 2))
    assert axis_pairs((1, 2), 1, "padding") == ((1, 2),)  # Keras: (left, right)
    assert axis_pairs((3,), 1, "padding") == ((3, 3),)
    assert axis_sizes(np.array([3, 5]), 2, "kernel_size") == (3, 5)
    assert axis_sizes(np.int64(3), 2, "kernel_size") == (3, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "padding", [-1, (1, 2, 3), (1, 2, 3, 4), ((1, 2, 3), (1, 2)), 1.5, (1, (2, -3)), True, (1,)]
)
def test_padding_of_nonsense(padding: Any) -> None:
    with pytest.raises(BadAttribute, match="padding="):
        axis_pairs(padding, 2, "padding")


def test_padding_by_name_as_the_seed_spells_it() -> None:
    x = nn.input(("N", 3, 8, 8))

    def pads(padding: Any) -> object:
        return (x | nn.conv2d(4, 4, padding=padding)).attrs["pads"]

    assert pads("SAME_UPPER") == pads("same") == (1, 1, 2, 2)
    assert pads("SAME_LOWER") == pads("same_lower") == (2, 2, 1, 1)
    assert pads("VALID") == pads(0) == (0, 0, 0, 0)
    with pytest.raises(BadAttribute, match="one spatial axis"):
        pads("causal")


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize(("kernel", "strides"), [(3, 2), (2, 3), (4, 2), (3, 1)])
def test_a_transposed_convolution_is_the_transpose(padding: Any, kernel: int, strides: int) -> None:
    """<conv(x), y> = <x, transpose(y)> for one kernel: Keras's "same" fits TensorFlow's."""
    rng = np.random.default_rng(kernel * 10 + strides)
    y = rng.standard_normal((1, 3, 5)).astype(np.float32)
    up = nn.transpose_conv1d(2, kernel, strides, padding, use_bias=False)
    transposed = nn.input((1, 3, 5)) | up | nn.get_network()
    (name,) = transposed.weights
    length = transposed.outputs[0].shape[2]  # type: ignore[index]
    x = rng.standard_normal((1, 2, length)).astype(np.float32)
    down = nn.conv1d(
        3, kernel, strides, padding, use_bias=False, kernel_initializer=transposed.weights[name]
    )
    straight = nn.input((1, 2, length)) | down | nn.get_network()
    assert np.vdot(straight(x), y) == pytest.approx(np.vdot(x, transposed(y)), rel=1e-4, abs=1e-4)


def test_weights_follow_the_type_of_the_input() -> None:
    x = nn.input(("N", 3, 4, 4), dtype="float64")
    layers: list[Any] = [
        nn.conv2d(4, 3),
        nn.depthwise_conv2d(3),
        nn.separable_conv2d(4, 3),
        nn.transpose_conv2d(4, 3),
        nn.normalisation,
        nn.fully_connected(2),
        nn.linear(3),
        nn.layer_norm,
        nn.prelu,
        nn.sparsemax,
    ]
    for layer in layers:
        y: Symbol = x | layer
        assert y.dtype == "float64"
