"""Activations that files write out: every way of writing becomes the operator, with its values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pass_checks import assert_same, drawn, feeds, ops_of, run

from neuralsym.core.graph import Graph
from neuralsym.passes.activations import ACTIVATIONS
from neuralsym.passes.pipeline import optimise
from neuralsym.rewrite.driver import rewrite

HEAD = """
input x: float32[N, 3, T]
weight slopes: float32[3, 1]
constant zero: float32[] = 0.0
constant half: float32[] = 0.5
constant one: float32[] = 1.0
constant ones: float32[1] = [1.0]
constant two: float32[] = 2.0
constant three: float32[] = 3.0
constant six: float32[] = 6.0
constant sixth: float32[] = 0.16666667
constant whole_three: int64[] = 3
constant root_of_two: float32[] = 1.4142135
constant root_of_half: float32[] = 0.70710677
constant root: float32[] = 0.7978846
constant cubic: float32[] = 0.044715
constant quick: float32[] = 1.702
constant leak: float32[] = 0.1
constant fifth: float32[] = 0.2
"""
ERF = "d = Div(x, root_of_two)\ne = Erf(d)\ng = Add(e, ones)\n"
SCALED_ERF = "d = Mul(root_of_half, x)\ne = Erf(d)\ng = Add(one, e)\n"
CUBE = "c = Pow(x, three)\n"
WHOLE = "c = Pow(x, whole_three)\n"
PRODUCTS = "s = Mul(x, x)\nc = Mul(s, x)\n"
TANH = "k = Mul(c, cubic)\nl = Add(x, k)\nm = Mul(root, l)\nt = Tanh(m)\ng = Add(t, one)\n"
FAST = (
    "p = Mul(x, root)\nk = Mul(x, cubic)\ns = Mul(k, x)\nb = Add(s, one)\nm = Mul(p, b)\n"
    "t = Tanh(m)\ng = Add(one, t)\n"
)
SIX = "a = Add(x, three)\nc = Clip(a, zero, six)\n"


def case(body: str, rng: np.random.Generator) -> Graph:
    return drawn(f"{HEAD}{body}\noutput y", rng)


@pytest.mark.parametrize(
    "gate", [ERF, SCALED_ERF, CUBE + TANH, WHOLE + TANH, PRODUCTS + TANH, FAST]
)
@pytest.mark.parametrize(
    "end",
    [
        "h = Mul(x, g)\ny = Mul(h, half)",
        "h = Mul(g, x)\ny = Div(h, two)",
        "h = Mul(g, half)\ny = Mul(x, h)",
        "h = Mul(x, half)\ny = Mul(h, g)",
        "h = Div(x, two)\ny = Mul(g, h)",
    ],
)
def test_gelu(gate: str, end: str, rng: np.random.Generator) -> None:
    graph = case(gate + end, rng)
    made = rewrite(graph, ACTIVATIONS)
    assert ops_of(made) == ["Gelu"]
    by_tanh = made.find("Gelu")[0].attr("approximate") == "tanh"
    assert by_tanh == (gate not in (ERF, SCALED_ERF))
    assert_same(graph, made, rng)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("s = Sigmoid(x)\ny = Mul(s, x)", "Swish(x)"),
        ("q = Mul(x, quick)\ns = Sigmoid(q)\ny = Mul(x, s)", "Swish(x; alpha=1.702"),
        ("p = Softplus(x)\nt = Tanh(p)\ny = Mul(x, t)", "Mish(x)"),
        (SIX + "d = Div(c, six)\ny = Mul(x, d)", "HardSwish(x)"),
        (SIX + "d = Mul(c, sixth)\ny = Mul(d, x)", "HardSwish(x)"),
        (SIX + "d = Mul(c, x)\ny = Div(d, six)", "HardSwish(x)"),
        (SIX + "d = Mul(x, sixth)\ny = Mul(d, c)", "HardSwish(x)"),
        (SIX + "y = Div(c, six)", "HardSigmoid(x; alpha=0.166666"),
        ("s = HardSigmoid(x; alpha=0.16666667, beta=0.5)\ny = Mul(x, s)", "HardSwish(x)"),
        ("m = Mul(x, fifth)\na = Add(half, m)\ny = Clip(a, zero, one)", None),
        ("m = Mul(x, fifth)\na = Add(m, half)\ny = Clip(a, zero, two)", None),
        ("b = Greater(x, zero)\nm = Mul(x, leak)\ny = Where(b, x, m)", "LeakyRelu(x; alpha=0.1"),
        ("b = Less(x, zero)\nm = Mul(leak, x)\ny = Where(b, m, x)", "LeakyRelu(x; alpha=0.1"),
        ("b = LessOrEqual(zero, x)\nm = Mul(x, leak)\ny = Where(b, x, m)", None),
        ("m = Mul(x, leak)\ny = Max(x, m)", "LeakyRelu(x; alpha=0.1"),
        ("m = Mul(x, two)\ny = Max(x, m)", "Max"),
        ("n = Neg(x)\nr = Relu(n)\nm = Mul(r, slopes)\np = Relu(x)\ny = Add(p, m)", "PRelu"),
        ("n = Neg(x)\nr = Relu(n)\nm = Mul(slopes, r)\np = Relu(x)\ny = Sub(p, m)", "PRelu"),
        ("y = Max(zero, x)", "Relu(x)"),
    ],
)
def test_others(body: str, left: str | None, rng: np.random.Generator) -> None:
    graph = case(body, rng)
    made = optimise(graph, 1)
    if left is None:
        left = "Clip" if "two" in body else "HardSigmoid" if "fifth" in body else "LeakyRelu"
    assert left in str(made)
    assert len(ops_of(made)) == (2 if left == "Max" else 3 if left == "Clip" else 1)
    assert_same(graph, made, rng)


@pytest.mark.parametrize(
    "body",
    [
        ERF + "h = Mul(x, g)\ny = Mul(h, half)",
        CUBE + TANH + "h = Mul(x, g)\ny = Mul(h, half)",
        "q = Mul(x, quick)\ns = Sigmoid(q)\ny = Mul(x, s)",
        SIX + "d = Div(c, six)\ny = Mul(x, d)",
        SIX + "y = Div(c, six)",
        "b = Greater(x, zero)\nm = Mul(x, leak)\ny = Where(b, x, m)",
        "m = Mul(x, leak)\ny = Max(x, m)",
        "n = Neg(x)\nr = Relu(n)\nm = Mul(r, slopes)\np = Relu(x)\ny = Add(p, m)",
    ],
)
def test_special_values(body: str, rng: np.random.Generator) -> None:
    graph = case(body, rng)
    made = optimise(graph, 1)
    assert len(ops_of(made)) == 1
    values = [
        math.nan,
        math.inf,
        -math.inf,
        0.0,
        -0.0,
        1e-45,
        -1e-38,
        1.5e38,
        -1.5e38,
        -3.0,
        3.0,
        88.0,
    ]
    x = np.resize(np.array(values, np.float32), (2, 3, 12))
    before, after = run(graph, {"x": x})[0], run(made, {"x": x})[0]
    np.testing.assert_array_equal(np.isnan(after), np.isnan(before))
    np.testing.assert_array_equal(np.isinf(after), np.isinf(before))
    finite = np.isfinite(before)
    # Constants are rounded by 1e-6 at most; the formulas lie within some roundings of each other.
    np.testing.assert_allclose(after[finite], before[finite], rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("root", "left"),
    [("1.4142135", ["Div", "Erf", "Add", "Mul", "Mul"]), (repr(math.sqrt(2)), ["Gelu"])],
)
def test_double_precision_asks_for_constants_of_its_own(root: str, left: list[str]) -> None:
    text = HEAD.replace("float32", "float64").replace("1.4142135", root)
    graph = drawn(f"{text}{ERF}h = Mul(x, g)\ny = Mul(h, half)\noutput y", np.random.default_rng(0))
    assert ops_of(rewrite(graph, ACTIVATIONS)) == left


def test_a_part_that_is_needed_elsewhere_stays(rng: np.random.Generator) -> None:
    graph = drawn(f"{HEAD}s = Sigmoid(x)\ny = Mul(x, s)\noutput y\noutput s", rng)
    made = rewrite(graph, ACTIVATIONS)
    assert ops_of(made) == ["Sigmoid", "Mul"]


def test_another_value_beside_the_gate_is_no_activation(rng: np.random.Generator) -> None:
    text = f"{HEAD}input z: float32[N, 3, T]\ns = Sigmoid(x)\ny = Mul(z, s)\noutput y"
    graph = drawn(text, rng)
    made = rewrite(graph, ACTIVATIONS)
    assert ops_of(made) == ["Sigmoid", "Mul"]
    assert feeds(graph, rng).keys() == {"x", "z"}
