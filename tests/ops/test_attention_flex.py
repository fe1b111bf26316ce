"""FlexAttention: all its settings against sums written out, bodies inlined, nothing on the host."""

from __future__ import annotations

import numpy as np
import pytest
from host_free import fed, run
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.dtypes import number_type
from neuralsym.errors import OpError
from neuralsym.ops.evaluate import evaluate

UNITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-22, "float64": 2.0**-50}


def exact(q, k, v, scale=None, score=lambda s: s, prob=lambda p: p):
    """The sums in float64."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = q @ k.swapaxes(-1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    scores = score(scores)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return prob(powers / powers.sum(-1, keepdims=True)) @ v


def attention(q, k, v, shapes=None, **attrs):
    """What the compiled engine gives."""
    arrays = {"q": q, "k": k, "v": v}
    return run(ops.flex_attention(*fed(arrays, shapes), **attrs), arrays)


def drawn(seed, dtype, *shapes):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=s).astype(number_type(dtype).numpy) for s in shapes]


@settings(max_examples=25, deadline=None)
@given(
    st.data(),
    st.sampled_from(sorted(UNITS)),
    st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 3)),
    st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(1, 5), st.integers(1, 4)),
    st.one_of(st.none(), st.sampled_from([0.25, -0.5, 1.5])),
)
def test_grouped_heads_of_every_type(data, dtype, heads, sizes, scale):
    batch, kv_heads, group = heads
    length, kept, size, v_size = sizes
    q, k, v = drawn(
        data.draw(st.integers(0, 99)),
        dtype,
        (batch, kv_heads * group, length, size),
        (batch, kv_heads, kept, size),
        (batch, kv_heads, kept, v_size),
    )
    made = attention(q, k, v, scale=scale)
    wanted = exact(q, k, v, scale)
    assert made.dtype == q.dtype and made.shape == wanted.shape
    # The weights sum to one: errors are those of sums no larger than the largest value.
    bound = 16 * UNITS[dtype] * max(1.0, float(np.abs(v.astype(np.float64)).max()))
    np.testing.assert_allclose(made.astype(np.float64), wanted, rtol=0, atol=bound)


def test_sizes_known_by_name_only():
    q, k, v = drawn(1, "float32", (2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 7))
    shapes = {
        "q": ("N", "H", "L", "E"),
        "k": ("N", "G", "S", "E"),
        "v": ("N", "G", "S", "V"),
    }
    made = attention(q, k, v, shapes)
    np.testing.assert_allclose(made, exact(q, k, v), rtol=1e-5, atol=1e-6)


def test_bodies_change_scores_and_weights_and_see_the_graph_around():
    q, k, v = drawn(2, "float32", (1, 2, 4, 8), (1, 2, 5, 8), (1, 2, 5, 3))
    arrays = {"q": q, "k": k, "v": v}
    bias = variable("bias", (4, 5))
    y = ops.flex_attention(
        *fed(arrays),
        score_mod=lambda s: ops.tanh(s / 2.0) * 2.0 + bias,
        prob_mod=lambda p: p * 0.5,
    )
    (added,) = drawn(3, "float32", (4, 5))
    wanted = exact(q, k, v, score=lambda s: 2 * np.tanh(s / 2) + added, prob=lambda p: p / 2)
    made = run(y, {**arrays, "bias": added})
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)
    # Node by node, as the fallback computes it.
    assert y.node.captures == (bias,)  # which both bodies take
    (value,) = evaluate(y.node, [q, k, v], [added])
    np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


def test_a_graph_of_one_input_is_a_modifier_too():
    q, k, v = drawn(6, "float32", (1, 2, 4, 8), (1, 2, 5, 8), (1, 2, 5, 3))
    scores = variable("scores", ("B", "H", "L", "S"))
    made = attention(q, k, v, score_mod=Graph([ops.abs(scores)], [scores]))
    np.testing.assert_allclose(made, exact(q, k, v, score=np.abs), rtol=1e-5, atol=1e-6)


def test_arrays_are_taken_as_they_are():
    q, k, v = drawn(7, "float64", (1, 1, 2, 3), (1, 1, 4, 3), (1, 1, 4, 2))
    y = ops.flex_attention(q, k, v, score_mod=lambda s: s * 2.0)
    np.testing.assert_allclose(run(y, {}), exact(q, k, v, score=lambda s: s * 2), rtol=1e-12)


def test_softmax_precision_widens_and_narrows():
    q, k, v = drawn(4, "float16", (1, 1, 3, 4), (1, 1, 4, 4), (1, 1, 4, 2))
    # Scores beyond what float16 holds: computed in float32 all the way to the result.
    made = attention(q * np.float16(200), k * np.float16(200), v, scale=1.0)
    wanted = exact(q * np.float16(200), k * np.float16(200), v, 1.0)
    np.testing.assert_allclose(made.astype(np.float64), wanted, rtol=2e-3, atol=1e-3)
    wide = drawn(5, "float64", (1, 1, 3, 4), (1, 1, 4, 4), (1, 1, 4, 2))
    narrow = attention(*wide, softmax_precision="float32")
    assert narrow.dtype == np.float64
    assert 1e-12 < np.abs(narrow - exact(*wide)).max() < 1e-6


def test_nothing_to_attend_in_an_empty_batch():
    q, k, v = (np.zeros((0, 2, 3, 4), np.float32),) * 3
    assert attention(q, k, v).shape == (0, 2, 3, 4)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda s: ops.cast(s, "float64"), "gives float64"),
        (lambda s: ops.reduce_sum(s, keepdims=0), "gives float32"),
    ],
)
def test_bodies_that_do_not_keep_the_scores_are_refused(function, words):
    made = [variable(n, (1, 2, 3, 4)) for n in "qkv"]
    with pytest.raises(OpError, match=words):
        ops.flex_attention(*made, score_mod=function)
