"""Softmax in half precision is ONNX's function of operators on that type; it stays near the truth.

The specification (Softmax's function body, and softmax_precision of Attention, which is the type of
the inputs where it is left out) decides how attention in float16 rounds.
"""

from __future__ import annotations

import numpy as np
import pytest
from host_free import fed, run
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym import ops
from neuralsym.dtypes import number_type


def stepwise(x, axis):
    """Each operator of the function body in the type of x; the sum itself is not rounded on the
    way, as numpy's is not for float16."""

    def rounded(value):
        return value.astype(x.dtype).astype(np.float32)

    wide = x.astype(np.float32)
    below = rounded(wide - wide.max(axis, keepdims=True))
    powers = rounded(np.exp(below))
    total = rounded(powers.sum(axis, keepdims=True, dtype=np.float32))
    return (powers / total).astype(x.dtype)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["float16", "bfloat16"]),
    st.integers(1, 3),
    st.integers(1, 70),
    st.integers(0, 99),
    st.sampled_from([0.1, 1.0, 8.0]),
    st.booleans(),
)
def test_softmax_rounds_where_its_function_body_does(dtype, rows, length, seed, scale, last):
    kind = number_type(dtype)
    shape = (rows, length) if last else (length, rows)
    x = (np.random.default_rng(seed).normal(size=shape) * scale).astype(kind.numpy)
    axis = 1 if last else 0
    made = run(ops.softmax(*fed({"x": x}), axis=axis), {"x": x}).astype(np.float64)
    unit = 2.0**-10 if dtype == "float16" else 2.0**-7
    wanted = stepwise(x, axis).astype(np.float64)
    # The exponentials of two libraries may round to neighbours.
    np.testing.assert_allclose(made, wanted, rtol=2 * unit, atol=unit * 2.0**-14)
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(axis, keepdims=True))
    exact = powers / powers.sum(axis, keepdims=True)
    # x - m is rounded to half a unit of its size, which the exponential makes a relative error.
    spread = np.ptp(wide, axis=axis, keepdims=True)
    bound = exact * unit * (2 + spread) + 2.0**-24
    assert np.all(np.abs(made - exact) <= bound)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_log_softmax_keeps_what_is_near_zero(dtype):
    x = np.array([[0.0, -9.0]]).astype(number_type(dtype).numpy)
    made = run(ops.log_softmax(*fed({"x": x}), axis=1), {"x": x}).astype(np.float64)
    np.testing.assert_allclose(made[0, 0], -np.log1p(np.exp(-9.0)), rtol=2.0**-7)


def test_a_wider_softmax_of_float16_attention_is_rounded_once():
    rng = np.random.default_rng(7)
    q, k, v = (rng.normal(size=(1, 1, n, 8)).astype(np.float16) for n in (4, 40, 40))
    arrays = {"q": q, "k": k, "v": v}
    wide = run(ops.attention(*fed(arrays), softmax_precision="float32"), arrays)
    own = run(ops.attention(*fed(arrays)), arrays)
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / np.sqrt(8)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    exact = powers / powers.sum(-1, keepdims=True) @ v.astype(np.float64)
    for made in (wide, own):
        np.testing.assert_allclose(made.astype(np.float64), exact, rtol=0, atol=4e-3)
    assert wide.dtype == own.dtype == np.float16
