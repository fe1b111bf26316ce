"""Normalisations that files write out: every exporter's way, and what is none."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same, drawn, feeds, ops_of, run

from neuralsym.core.graph import Graph
from neuralsym.passes.pipeline import optimise

HEAD = """
input x: float32[N, 5, 8]
input h: float16[N, 5, 8]
input picture: float32[N, 6, H, W]
weight gamma: float32[8]
weight beta: float32[1, 1, 8]
weight gamma_half: float16[8]
weight rows: float32[5, 1]
weight gamma_both: float32[5, 8]
weight gamma_c: float32[6, 1, 1]
weight beta_c: float32[6, 1, 1]
constant last: int64[1] = [-1]
constant lasts: int64[2] = [1, 2]
constant middle: int64[1] = [1]
constant groups: int64[3] = [0, 3, -1]
constant back: int64[4] = [0, 6, 9, 7]
constant ones: float32[3] = [1.0, 1.0, 1.0]
constant zeros: float32[3] = [0.0, 0.0, 0.0]
constant half: float32[] = 0.5
constant minus_half: float32[] = -0.5
constant one: float32[] = 1.0
constant two: float32[] = 2.0
constant eps: float32[] = 1e-5
"""
DEVIATION = "m = ReduceMean(x, last)\nd = Sub(x, m)\n"
SQUARES = {
    "pow": "p = Pow(d, two)\n",
    "product": "p = Mul(d, d)\n",
    "another": "o = Sub(x, m)\np = Mul(o, o)\n",
}
VARIANCE = "v = ReduceMean(p, last)\ne = Add(v, eps)\n"
ENDS = {
    "div": "r = Sqrt(e)\nn = Div(d, r)\n",
    "pow": "r = Pow(e, half)\nn = Div(d, r)\n",
    "reciprocal": "q = Sqrt(e)\nr = Reciprocal(q)\nn = Mul(d, r)\n",
    "inverse": "q = Sqrt(e)\nr = Div(one, q)\nn = Mul(r, d)\n",
    "minus": "r = Pow(e, minus_half)\nn = Mul(d, r)\n",
}
AFFINE = "g = Mul(n, gamma)\ny = Add(beta, g)"
LAYER = DEVIATION + SQUARES["pow"] + VARIANCE + ENDS["div"]


def case(body: str, rng: np.random.Generator) -> Graph:
    text = f"{HEAD}{body}\noutput y".replace("[N, 6, H, W]", "[N, 6, 9, 7]")
    return drawn(text, rng)


@pytest.mark.parametrize("square", SQUARES)
@pytest.mark.parametrize("end", ENDS)
def test_layer_norm(square: str, end: str, rng: np.random.Generator) -> None:
    graph = case(DEVIATION + SQUARES[square] + VARIANCE + ENDS[end] + AFFINE, rng)
    made = optimise(graph, 1)
    assert ops_of(made) == ["LayerNormalization"]
    node = made.find("LayerNormalization")[0]
    assert node.attr("axis") == -1 and abs(node.attr("epsilon") - 1e-5) < 1e-11
    assert_same(graph, made, rng)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (LAYER + "y = Mul(n, gamma)", ["LayerNormalization"]),
        (LAYER + "y = Identity(n)", ["LayerNormalization"]),
        (LAYER + "y = Add(n, beta)", ["LayerNormalization"]),
        (LAYER + "y = Mul(n, rows)", ["LayerNormalization", "Mul"]),
        (LAYER.replace("last", "lasts") + "y = Mul(n, gamma_both)", ["LayerNormalization"]),
        (LAYER.replace("last", "lasts") + "y = Mul(n, rows)", ["LayerNormalization"]),
        (LAYER.replace("ReduceMean(x, last)", "ReduceMean(x, middle)") + "y = Identity(n)", None),
        (LAYER.replace("last", "middle") + "y = Identity(n)", None),
    ],
)
def test_which_axes(body: str, left: list[str] | None, rng: np.random.Generator) -> None:
    graph = case(body, rng)
    made = optimise(graph, 1)
    if left is None:
        assert "LayerNormalization" not in ops_of(made)
    else:
        assert ops_of(made) == left
    assert_same(graph, made, rng)


def test_layer_norm_of_keras(rng: np.random.Generator) -> None:
    body = (
        DEVIATION + SQUARES["product"] + VARIANCE + "q = Sqrt(e)\nr = Reciprocal(q)\n"
        "k = Mul(r, gamma)\nf = Mul(m, k)\ns = Sub(beta, f)\nz = Mul(x, k)\ny = Add(z, s)"
    )
    graph = case(body, rng)
    made = optimise(graph, 1)
    assert ops_of(made) == ["LayerNormalization"]
    assert_same(graph, made, rng)


@pytest.mark.parametrize("end", ENDS)
def test_rms_norm(end: str, rng: np.random.Generator) -> None:
    last = ENDS[end].replace("Div(d", "Div(x").replace("(d, r)", "(x, r)").replace("r, d", "r, x")
    graph = case(f"p = Pow(x, two)\n{VARIANCE}{last}y = Mul(gamma, n)", rng)
    made = optimise(graph, 1)
    assert ops_of(made) == ["RMSNormalization"]
    assert_same(graph, made, rng)


@pytest.mark.parametrize("name", ["LayerNormalization", "RMSNormalization"])
def test_halves_that_are_computed_in_float32(name: str, rng: np.random.Generator) -> None:
    core = LAYER if name == "LayerNormalization" else (
        "p = Mul(x, x)\n" + VARIANCE + "r = Sqrt(e)\nn = Div(x, r)\n"
    )  # fmt: skip
    body = core.replace("x", "w") + "o = Cast(n; to=10)\ny = Mul(o, gamma_half)"
    graph = case("w = Cast(h; to=1)\n" + body, rng)
    made = optimise(graph, 1)
    assert ops_of(made) == [name]
    values = feeds(graph, rng)
    before, after = run(graph, values)[0], run(made, values)[0]
    # Two roundings to halves, of the norm and of its product.
    np.testing.assert_allclose(after, before, rtol=2 * 2.0**-10, atol=1e-4)


def test_group_norm(rng: np.random.Generator) -> None:
    body = (
        "r = Reshape(picture, groups)\ni = InstanceNormalization(r, ones, zeros)\n"
        "b = Reshape(i, back)\ng = Mul(b, gamma_c)\ny = Add(g, beta_c)"
    )
    graph = case(body, rng)
    made = optimise(graph, 1)
    assert ops_of(made) == ["GroupNormalization"]
    assert made.find("GroupNormalization")[0].attr("num_groups") == 3
    assert_same(graph, made, rng)


def test_rows_of_equal_numbers_and_of_infinities(rng: np.random.Generator) -> None:
    graph = case(LAYER + AFFINE, rng)
    x = np.zeros((1, 5, 8), np.float32)
    x[0, 1] = 3.0
    x[0, 2, 3] = np.inf
    x[0, 3, 3] = np.nan
    values = {**feeds(graph, rng), "x": x}
    before, after = run(graph, values)[0], run(optimise(graph, 1), values)[0]
    np.testing.assert_array_equal(np.isnan(before), np.isnan(after))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_rows_of_unknown_size_are_left_alone(rng: np.random.Generator) -> None:
    text = f"{HEAD}{LAYER}y = Identity(n)\noutput y".replace(
        "x: float32[N, 5, 8]", "x: float32[N, 5, T]"
    )
    graph = drawn(text, rng)
    made = optimise(graph, 1)
    assert "LayerNormalization" not in ops_of(made)
    assert_same(graph, made, rng)
