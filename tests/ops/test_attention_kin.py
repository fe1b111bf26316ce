"""Rotary positions, causal convolutions, caches and gates of decoders: no step in Python."""

from __future__ import annotations

import numpy as np
import pytest
from host_free import fed, run
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym import ops
from neuralsym.dtypes import number_type

UNITS = {"float16": 2.0**-9, "bfloat16": 2.0**-6, "float32": 2.0**-20}


def close(made, wanted, dtype, size=1.0):
    assert made.shape == wanted.shape and made.dtype == number_type(dtype).numpy
    bound = 4 * UNITS[dtype] * size
    np.testing.assert_allclose(made.astype(np.float64), wanted, rtol=0, atol=bound)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.data())
def test_rotary_positions(data):
    dtype = data.draw(st.sampled_from(sorted(UNITS)))
    batch, length, heads = (data.draw(st.integers(1, 3)) for _ in range(3))
    half, kept = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([0, 2]))
    flat, interleaved, placed = (data.draw(st.booleans()) for _ in range(3))
    named = data.draw(st.booleans())
    size = 2 * half + kept
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    kind = number_type(dtype).numpy
    x = rng.uniform(-1, 1, (batch, length, heads, size)).astype(kind)
    turns = rng.uniform(0, 6, (7, half) if placed else (batch, length, half))
    given_x = x.reshape(batch, length, -1) if flat else x.transpose(0, 2, 1, 3)
    arrays = {"x": given_x, "c": np.cos(turns).astype(kind), "s": np.sin(turns).astype(kind)}
    if placed:
        arrays["p"] = rng.integers(0, 7, (batch, length))
    attrs = {"interleaved": int(interleaved)}
    if kept:
        attrs["rotary_embedding_dim"] = 2 * half
    if flat:
        attrs["num_heads"] = heads
    shapes = None
    if named:
        middle = ("L", heads * size) if flat else (heads, "L", size)
        shapes = {"x": ("N", *middle), "p": ("N", "L")}
        if not placed:
            shapes |= {"c": ("N", "L", half), "s": ("N", "L", half)}
    made = run(ops.rotary_embedding(*fed(arrays, shapes), **attrs), arrays)
    cosines, sines = (
        (arrays[n][arrays["p"]] if placed else arrays[n]).astype(np.float64)[:, :, None]
        for n in "cs"
    )
    wide = x.astype(np.float64)
    first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
    wanted = wide.copy()
    wanted[..., first] = cosines * wide[..., first] - sines * wide[..., second]
    wanted[..., second] = sines * wide[..., first] + cosines * wide[..., second]
    wanted = wanted.reshape(batch, length, -1) if flat else wanted.transpose(0, 2, 1, 3)
    close(made, wanted, dtype)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_causal_convolutions(data):
    dtype = data.draw(st.sampled_from(sorted(UNITS)))
    batch, channels = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 4))
    length, kernel = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    activation = data.draw(st.sampled_from(["none", "silu", "swish"]))
    biased, carried, named = (data.draw(st.booleans()) for _ in range(3))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    kind = number_type(dtype).numpy

    def drawn(*shape):
        return rng.uniform(-1, 1, shape).astype(kind)

    arrays = {"x": drawn(batch, channels, length), "w": drawn(channels, 1, kernel)}
    if biased:
        arrays["b"] = drawn(channels)
    if carried:
        arrays["past"] = drawn(batch, channels, kernel - 1)
    shapes = None
    if named:
        shapes = {"x": ("N", channels, "L"), "past": ("N", channels, kernel - 1)}
    leaves = dict(zip(arrays, fed(arrays, shapes), strict=True))
    outputs = ops.causal_conv_with_state(
        *(leaves.get(n) for n in ("x", "w", "b", "past")), activation=activation
    )
    made, state = run(list(outputs), arrays)
    past = arrays.get("past", np.zeros((batch, channels, kernel - 1)))
    line = np.concatenate([past, arrays["x"]], 2).astype(np.float64)
    weights = arrays["w"].astype(np.float64)[:, 0]
    wanted = np.stack(
        [(line[:, :, t : t + kernel] * weights).sum(-1) for t in range(length)], axis=-1
    )
    if biased:
        wanted = wanted + arrays["b"].astype(np.float64)[:, None]
    if activation != "none":
        wanted = wanted / (1 + np.exp(-wanted))
    close(made, wanted, dtype, 1 + kernel)
    close(state, line[:, :, length:], dtype, 0)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_updates_of_a_cache(data):
    dtype = data.draw(st.sampled_from(["float16", "float32", "int64", "bool", "complex64"]))
    mode = data.draw(st.sampled_from(["linear", "circular"]))
    shape = data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
    axis = data.draw(st.integers(1, len(shape) - 1))
    shape[axis] = data.draw(st.integers(1, 6))
    length = data.draw(st.integers(1, shape[axis]))
    small = [length if i == axis else n for i, n in enumerate(shape)]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    kind = number_type(dtype).numpy
    arrays = {"past": rng.integers(0, 9, shape).astype(kind)}
    arrays["update"] = rng.integers(0, 9, small).astype(kind)
    if data.draw(st.booleans()):
        most = shape[axis] - length if mode == "linear" else 2 * shape[axis]
        arrays["at"] = rng.integers(0, most + 1, shape[0])
    places = arrays.get("at", np.zeros(shape[0], int))
    y = ops.tensor_scatter(*fed(arrays), axis=axis - len(shape) * int(length == 1), mode=mode)
    made = run(y, arrays)
    wanted = arrays["past"].copy()
    for place in np.ndindex(*small):
        to = list(place)
        to[axis] = (place[axis] + places[place[0]]) % shape[axis]
        wanted[tuple(to)] = arrays["update"][place]
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("dtype", sorted(UNITS))
def test_gates(dtype):
    rng = np.random.default_rng(8)
    kind = number_type(dtype).numpy
    arrays = {n: rng.uniform(-3, 3, (3, 5)).astype(kind) for n in "ab"}
    made = run(ops.swiglu(*fed(arrays), alpha=1.5), arrays)
    a, b = (v.astype(np.float64) for v in arrays.values())
    close(made, a / (1 + np.exp(-1.5 * a)) * b, dtype, 4)
