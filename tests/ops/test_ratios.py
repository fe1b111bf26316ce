"""Sizes that exporters compute in floats: scaled, rounded, and sizes again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralsym import Graph, Network, ops
from neuralsym.core.dim import evaluate
from neuralsym.core.symbol import Symbol

H = ops.variable("x", ("H", 3))
ROUNDINGS = {
    "floor": (ops.floor, np.floor),
    "ceil": (ops.ceil, np.ceil),
    "cast": (lambda x: ops.cast(x, "int64"), np.trunc),
}


def size(dtype: str = "float32") -> Symbol:
    return ops.cast(ops.shape(H, end=1), dtype)


def told(symbol: Symbol, height: int) -> Any:
    """The known value for a height; None where nothing is known."""
    known = symbol.known
    return None if known is None else evaluate(known.reshape(-1)[0], {"H": height})


@given(
    st.sampled_from(sorted(ROUNDINGS)),
    st.sampled_from(("float32", "float64")),
    st.integers(0, 20_000),
    st.integers(1, 300),
    st.sampled_from((1, 2, 4, 8, 64, 256)),
    st.integers(1, 500),
)
def test_rounded_sizes_are_those_that_floats_give(
    rounding: str, dtype: str, height: int, times: int, parts: int, divisor: int
) -> None:
    ours, numpys = ROUNDINGS[rounding]
    kind = np.dtype(dtype).type
    scaled = kind(height) * kind(times / parts)
    symbol = ops.mul(size(dtype), kind(times / parts))
    assert told(ours(symbol), height) == numpys(scaled)
    assert told(ours(ops.div(symbol, kind(divisor))), height) == numpys(scaled / kind(divisor))


def test_fractions_that_floats_do_not_hold_are_not_computed_with() -> None:
    third = ops.div(size(), np.float32(3))
    assert told(ops.floor(third), 8) == 2
    assert ops.floor(ops.mul(third, np.float32(3))).known is None
    assert ops.floor(ops.mul(size(), np.float32(0.3))).known is None
    assert ops.floor(ops.mul(size(), np.float32(-0.5))).known is None
    assert ops.floor(ops.mul(size(), np.float32(np.inf))).known is None


def test_an_image_resized_by_computed_sizes() -> None:
    x = ops.variable("x", (1, 2, "H", "W"))
    shape = ops.shape(x)
    spatial = ops.cast(ops.slice(shape, [2], [4]), "float32")
    half = ops.cast(ops.floor(ops.mul(spatial, np.array([0.5, 1.5], np.float32))), "int64")
    y = ops.resize(x, None, None, ops.concat([ops.slice(shape, [0], [2]), half], axis=0))
    assert [str(d) for d in y.shape or ()] == ["1", "2", "H//2", "(W*3)//2"]
    network = Network(Graph({"y": y, "sizes": half}))
    for height, width in ((7, 9), (8, 5)):
        found = network.run({"x": np.ones((1, 2, height, width), np.float32)})
        assert found["y"].shape == (1, 2, height // 2, width * 3 // 2)
        assert found["sizes"].tolist() == [height // 2, width * 3 // 2]


@pytest.mark.parametrize("value", [0.5, -1.5, np.nan, np.inf])
def test_plain_numbers_are_folded_as_ever(value: float) -> None:
    number = ops.constant(np.float32(value))
    np.testing.assert_array_equal(ops.floor(number).known, np.floor(np.float32(value)))
    np.testing.assert_array_equal(ops.ceil(number).known, np.ceil(np.float32(value)))
