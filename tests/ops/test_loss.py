"""Losses of every form against sums written out and the reference evaluator, without host steps."""

from __future__ import annotations

import numpy as np
import pytest
from host_free import fed, run
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym import ops
from neuralsym.dtypes import number_type
from neuralsym.errors import ExecutionError

UNITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-20, "float64": 2.0**-48}


def exact(logarithms, target, weight, ignored, reduction):
    """The definition, element by element, in float64."""
    loss = np.zeros(target.shape)
    share = np.zeros(target.shape)
    for place in np.ndindex(target.shape):
        label = target[place]
        if ignored is not None and label == ignored:
            continue
        share[place] = 1.0 if weight is None else weight[label]
        loss[place] = -logarithms[(place[0], label, *place[1:])] * share[place]
    if reduction == "none":
        return loss
    with np.errstate(invalid="ignore"):
        return loss.sum() if reduction == "sum" else np.divide(loss.sum(), share.sum())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_losses(data):
    dtype = data.draw(st.sampled_from(sorted(UNITS)))
    index = data.draw(st.sampled_from(["int32", "int64"]))
    batch, classes = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    places = data.draw(st.lists(st.integers(0, 3), max_size=3))
    reduction = data.draw(st.sampled_from(["none", "sum", "mean"]))
    ignored = data.draw(st.sampled_from([None, 0, -1, 100, -(2**40)]))
    weighted, with_softmax = data.draw(st.booleans()), data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    kind = number_type(dtype).numpy
    x = rng.normal(size=(batch, classes, *places)).astype(kind)
    target = rng.integers(0, classes, (batch, *places)).astype(index)
    if ignored is not None and abs(ignored) < 2**31:
        target[rng.random(target.shape) < 0.3] = ignored
    arrays = {"x": x, "t": target}
    if weighted:
        arrays["w"] = rng.uniform(0.5, 2, classes).astype(kind)
    leaves = fed(arrays)
    attrs = {"ignore_index": ignored, "reduction": reduction}
    logarithms = x.astype(np.float64)
    if with_softmax:
        least = logarithms.max(1, keepdims=True)
        powers = np.exp(logarithms - least)
        logarithms = logarithms - least - np.log(powers.sum(1, keepdims=True))
        made, given_log = run(
            list(ops.softmax_cross_entropy_loss(*leaves, outputs=2, **attrs)), arrays
        )
        assert given_log.dtype == kind
        close(given_log, logarithms, dtype, 1.0)
    else:
        made = run(ops.negative_log_likelihood_loss(*leaves, **attrs), arrays)
    weight = arrays["w"].astype(np.float64) if weighted else None
    wanted = np.asarray(exact(logarithms, target, weight, ignored, reduction))
    assert made.dtype == kind and made.shape == wanted.shape
    close(made, wanted, dtype, max(1.0, float(target.size)))


def close(made, wanted, dtype, terms):
    scale = 1 + np.abs(np.nan_to_num(wanted)).max(initial=0)
    np.testing.assert_allclose(
        made.astype(np.float64), wanted, rtol=0, atol=4 * UNITS[dtype] * scale * np.sqrt(terms)
    )


def test_what_is_ignored_counts_nothing_even_where_its_probability_is_zero():
    x = np.array([[-np.inf, 0.0], [-1.0, -2.0]], np.float32)
    target = np.array([0, 1], np.int64)
    arrays = {"x": x, "t": target}
    y = ops.negative_log_likelihood_loss(*fed(arrays), ignore_index=0, reduction="mean")
    assert run(y, arrays) == 2.0
    y = ops.negative_log_likelihood_loss(*fed(arrays), reduction="none")
    np.testing.assert_array_equal(run(y, arrays), [np.inf, 2.0])


def test_sizes_known_by_name():
    rng = np.random.default_rng(3)
    arrays = {"x": rng.normal(size=(3, 4, 2)).astype(np.float32), "t": rng.integers(0, 4, (3, 2))}
    leaves = fed(arrays, {"x": ("N", "C", "L"), "t": ("N", "L")})
    made = run(ops.negative_log_likelihood_loss(*leaves), arrays)
    np.testing.assert_allclose(made, exact(arrays["x"], arrays["t"], None, None, "mean"), rtol=1e-5)


def test_a_target_that_is_no_class_stops_the_run():
    arrays = {"x": np.zeros((2, 3), np.float32), "t": np.array([0, 3])}
    with pytest.raises(ExecutionError, match="an index lies outside its axis"):
        run(ops.softmax_cross_entropy_loss(*fed(arrays), ignore_index=7), arrays)
