"""LinearAttention: every rule and form against the recurrence in float64, without host steps."""

from __future__ import annotations

import numpy as np
import pytest
from host_free import fed, run
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym import ops
from neuralsym.dtypes import number_type
from neuralsym.errors import BadAttribute, ShapeMismatch

UNITS = {"float16": 2.0**-9, "bfloat16": 2.0**-6, "float32": 2.0**-18}


def exact(q, k, v, past, decay, beta, q_heads, heads, scale):
    """The recurrence, and the size of what is summed, by running it on absolute values."""
    batch, length = q.shape[:2]
    q, k, v = (
        a.astype(np.float64).reshape(batch, length, h, a.shape[2] // h)
        for a, h in ((q, q_heads), (k, heads), (v, heads))
    )
    size, width = k.shape[3], v.shape[3]
    state = np.zeros((batch, heads, size, width)) if past is None else past.astype(np.float64)
    if decay is not None:
        gates = decay.shape[2] // heads
        decay = np.exp(decay.astype(np.float64).reshape(batch, length, heads, gates))
    made = np.zeros((batch, length, q_heads, width))
    for t in range(length):
        if decay is not None:
            state = state * decay[:, t, :, :, None]
        u = v[:, t]
        if beta is not None:
            rate = beta.astype(np.float64)[:, t, :, None]
            u = rate * (u - np.einsum("bhdm,bhd->bhm", state, k[:, t]))
        state = state + k[:, t, :, :, None] * u[:, :, None, :]
        read = np.repeat(state, q_heads // heads, axis=1)
        made[:, t] = scale * np.einsum("bhdm,bhd->bhm", read, q[:, t])
    return made.reshape(batch, length, q_heads * width), state


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_rules(data):
    rule = data.draw(st.sampled_from(["linear", "gated", "delta", "gated_delta"]))
    dtype = data.draw(st.sampled_from(sorted(UNITS)))
    batch, length = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 5))
    heads, group = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    size, width = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([1, 3, 64, 70]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    kind = number_type(dtype).numpy

    def drawn(*shape, low=-0.5, high=0.5):
        return rng.uniform(low, high, shape).astype(kind)

    arrays = {
        "q": drawn(batch, length, heads * group * size),
        "k": drawn(batch, length, heads * size),
        "v": drawn(batch, length, heads * width),
    }
    if data.draw(st.booleans()):
        state_type = data.draw(st.sampled_from(sorted(UNITS)))
        arrays["past"] = drawn(batch, heads, size, width).astype(number_type(state_type).numpy)
    if "gated" in rule:
        gates = data.draw(st.sampled_from([1, size]))
        arrays["decay"] = drawn(batch, length, heads * gates, low=-2, high=0)
    if "delta" in rule:
        arrays["beta"] = drawn(batch, length, data.draw(st.sampled_from([1, heads])), low=0, high=1)
    scale = data.draw(st.sampled_from([0.0, 0.5]))
    leaves = dict(zip(arrays, fed(arrays), strict=True))
    count = data.draw(st.integers(1, 2))
    outputs = ops.linear_attention(
        *(leaves.get(n) for n in ("q", "k", "v", "past", "decay", "beta")),
        q_num_heads=heads * group,
        kv_num_heads=heads,
        update_rule=rule,
        scale=scale,
    )
    made = run(list(outputs)[:count], arrays, threads=data.draw(st.integers(1, 2)))
    given_values = [arrays.get(n) for n in ("q", "k", "v", "past", "decay", "beta")]
    wanted = exact(*given_values, heads * group, heads, scale or 1 / np.sqrt(size))
    kinds = (arrays["q"].dtype, arrays.get("past", arrays["q"]).dtype)
    for value, right, its in list(zip(made, wanted, kinds, strict=False)):
        assert value.dtype == its and value.shape == right.shape
        unit = max(UNITS[dtype], UNITS[str(number_type(its))])
        np.testing.assert_allclose(
            value.astype(np.float64), right, rtol=unit, atol=unit * (1 + size)
        )


def test_steps_one_by_one_are_the_whole():
    rng = np.random.default_rng(4)
    q, k, v = (rng.normal(size=(1, 6, 8)).astype(np.float32) for _ in range(3))
    attrs = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}

    def through(**arrays):
        leaves = dict(zip(arrays, fed(arrays), strict=True))
        past = leaves.get("past")
        outputs = ops.linear_attention(leaves["q"], leaves["k"], leaves["v"], past, **attrs)
        return run(list(outputs), arrays)

    whole, last = through(q=q, k=k, v=v)
    parts, state = [], np.zeros((1, 2, 4, 4), np.float32)
    for t in range(6):
        now = slice(t, t + 1)
        part, state = through(q=q[:, now], k=k[:, now], v=v[:, now], past=state)
        parts.append(part)
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state, last, rtol=1e-5, atol=1e-6)


def test_sizes_known_by_name():
    rng = np.random.default_rng(5)
    arrays = {n: rng.normal(size=(2, 3, 8)).astype(np.float32) for n in "qkv"}
    leaves = fed(arrays, dict.fromkeys("qkv", ("N", "T", 8)))
    y, state = ops.linear_attention(*leaves, q_num_heads=2, kv_num_heads=2, update_rule="linear")
    made = run([y, state], arrays)
    wanted = exact(*arrays.values(), None, None, None, 2, 2, 0.5)
    for value, right in zip(made, wanted, strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("rule", "given_inputs", "words"),
    [
        ("gated", {}, "needs decay"),
        ("delta", {}, "needs beta"),
        ("linear", {"decay": (1, 2, 2)}, "has no decay"),
        ("linear", {"beta": (1, 2, 2)}, "has no beta"),
    ],
)
def test_inputs_that_do_not_fit_the_rule(rule, given_inputs, words):
    arrays = {n: np.zeros((1, 2, 4), np.float32) for n in "qkv"}
    arrays |= {n: np.zeros(s, np.float32) for n, s in given_inputs.items()}
    leaves = dict(zip(arrays, fed(arrays), strict=True))
    with pytest.raises(BadAttribute, match=words):
        ops.linear_attention(
            *(leaves.get(n) for n in ("q", "k", "v", "past", "decay", "beta")),
            q_num_heads=2,
            kv_num_heads=2,
            update_rule=rule,
        )


def test_decays_and_rates_of_odd_widths_are_refused():
    q, k, v, g, b = fed({n: np.zeros((1, 2, 8), np.float32) for n in "qkvgb"})
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    narrow = fed({"g": np.zeros((1, 2, 6), np.float32)})[0]
    with pytest.raises(ShapeMismatch, match="decays of a head and key size"):
        ops.linear_attention(q, k, v, None, narrow, update_rule="gated", **heads)
    with pytest.raises(ShapeMismatch, match="neither 1 nor 2 heads"):
        ops.linear_attention(q, k, v, None, g, b, **heads)
