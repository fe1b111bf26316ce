"""Optimisers of ai.onnx.preview.training against their pseudo code, without host steps."""

from __future__ import annotations

import numpy as np
import pytest
from host_free import fed, run
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym import ops
from neuralsym.errors import BadAttribute


def adagrad(rate, steps, x, gradient, squares, decay, epsilon, norm):
    gradient = norm * x + gradient
    squares = squares + gradient**2
    return x - rate / (1 + steps * decay) * gradient / (np.sqrt(squares) + epsilon), squares


def adam(rate, steps, x, gradient, mean, squares, alpha, beta, epsilon, norm, post):
    gradient = norm * x + gradient
    mean = alpha * mean + (1 - alpha) * gradient
    squares = beta * squares + (1 - beta) * gradient**2
    if steps > 0:
        rate = rate * np.sqrt(1 - beta**steps) / (1 - alpha**steps)
    return (x - rate * mean / (np.sqrt(squares) + epsilon)) * (1 - post), mean, squares


def momentum(rate, steps, x, gradient, velocity, alpha, beta, norm, nesterov):
    gradient = norm * x + gradient
    velocity = alpha * velocity + (beta if steps > 0 else 1) * gradient
    return x - rate * (gradient + alpha * velocity if nesterov else velocity), velocity


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["adagrad", "adam", "momentum"]),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from(["float32", "float64"]),
    st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=3),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.25]),
    st.booleans(),
    st.integers(0, 99),
)
def test_optimisers(kind, dtype, number, shapes, steps, norm, other, seed):
    rng = np.random.default_rng(seed)
    count = {"adagrad": 3, "adam": 4, "momentum": 3}[kind]
    groups = [[rng.normal(size=s).astype(dtype) for s in shapes] for _ in range(count)]
    groups[-1] = [np.abs(a) for a in groups[-1]]
    rate = np.array(0.5, number)
    arrays = {"r": rate, "t": np.array(steps, np.int64)}
    arrays |= {f"x{k}_{i}": a for k, group in enumerate(groups) for i, a in enumerate(group)}
    leaves = fed(arrays)
    attrs = {"norm_coefficient": norm}
    if kind == "adagrad":
        attrs |= {"decay_factor": 0.125, "epsilon": 2.0**-10}
        function, args = adagrad, (0.125, 2.0**-10, norm)
    elif kind == "adam":
        post = 0.5 if other else 0.0
        attrs |= {"alpha": 0.75, "beta": 0.5, "epsilon": 2.0**-10, "norm_coefficient_post": post}
        function, args = adam, (0.75, 0.5, 2.0**-10, norm, post)
    else:
        attrs |= {"alpha": 0.75, "beta": 0.5, "mode": "nesterov" if other else "standard"}
        function, args = momentum, (0.75, 0.5, norm, other)
    made = run(getattr(ops, kind)(leaves[0], leaves[1], leaves[2:], **attrs), arrays)
    wanted = [
        function(0.5, steps, *(g[i].astype(np.float64) for g in groups), *args)
        for i in range(len(shapes))
    ]
    flat = [results[k] for k in range(count - 1) for results in wanted]
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    for value, exact in zip(made, flat, strict=True):
        assert value.dtype == dtype
        np.testing.assert_allclose(value, exact, rtol=tolerance, atol=tolerance)


def test_a_mode_of_momentum_that_does_not_exist_is_refused():
    x = np.zeros(2, np.float32)
    leaves = fed({"r": np.array(1.0, np.float32), "t": np.array(0), "x": x, "g": x, "v": x})
    with pytest.raises(BadAttribute, match="mode='sideways'"):
        ops.momentum(
            leaves[0],
            leaves[1],
            leaves[2:],
            alpha=1.0,
            beta=1.0,
            norm_coefficient=0.0,
            mode="sideways",
        )
