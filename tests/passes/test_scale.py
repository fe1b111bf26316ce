"""Factors around products: which go into the weights, which stay, and that values stay."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same, drawn, ops_of

from neuralsym import Network, ops
from neuralsym.core.graph import Graph
from neuralsym.passes.batch_norm import FOLDS
from neuralsym.passes.pipeline import optimise
from neuralsym.rewrite.driver import rewrite

HEAD = """
input x: float32[N, 4, H, W]
input single: float32[N, 1, H, W]
input v: float32[N, 6, 5]
input m: float32[N, 5]
input i: int32[N, 5]
weight w: float32[6, 2, 3, 3]
weight wt: float32[4, 6, 3, 3]
weight w4: float32[6, 4, 1, 1]
weight b: float32[6]
weight gamma_out: float32[6, 1, 1]
weight gamma_in: float32[4, 1, 1]
weight gamma_place: float32[1, 1, 7]
weight l: float32[5, 7]
weight lt: float32[7, 5]
weight lb: float32[7]
weight gamma_column: float32[7]
weight gamma_row: float32[5]
constant whole: int32[5, 2] = [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
constant two: int32[2] = [2, 3]
constant half: float32[] = 0.5
constant bad: float32[4, 1, 1] = [[[inf]], [[1.0]], [[1.0]], [[1.0]]]
constant zeros: float32[4, 1, 1] = [[[0.0]], [[1.0]], [[1.0]], [[1.0]]]
"""


def case(body: str, rng: np.random.Generator) -> Graph:
    return drawn(f"{HEAD}{body}\noutput y", rng)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("c = Conv(x, w, b; group=2)\nd = Div(c, gamma_out)\ny = Sub(d, gamma_out)", ["Conv"]),
        ("c = Conv(x, w; group=2)\nd = Mul(gamma_out, c)\ny = Add(d, half)", ["Conv"]),
        ("c = Conv(x, w; group=2)\ny = Sub(gamma_out, c)", ["Conv", "Sub"]),
        ("c = Conv(x, w; group=2, pads=(1, 1, 1, 1))\ny = Mul(c, gamma_place)", ["Conv", "Mul"]),
        ("c = ConvTranspose(x, wt, b)\nd = Div(c, gamma_out)\ny = Sub(d, half)", ["ConvTranspose"]),
        ("d = Div(x, gamma_in)\ny = Conv(d, w; group=2, pads=(1, 1, 1, 1))", ["Conv"]),
        ("d = Mul(gamma_in, x)\ny = Conv(d, w4, b; pads=(1, 0, 1, 0))", ["Conv"]),
        ("d = Mul(single, gamma_in)\ny = Conv(d, w4)", ["Mul", "Conv"]),
        ("d = Mul(x, gamma_place)\ny = Conv(d, w4)", ["Mul", "Conv"]),
        ("d = Add(x, gamma_in)\ny = Conv(d, w4; pads=(1, 1, 1, 1))", ["Add", "Conv"]),
        ("d = MatMul(v, l)\ny = Mul(d, gamma_column)", ["MatMul"]),
        ("d = MatMul(v, l)\ny = Div(d, gamma_column)", ["MatMul"]),
        ("d = MatMul(v, l)\ny = Mul(d, half)", ["MatMul", "Mul"]),
        ("d = MatMul(v, l)\ne = Add(d, lb)\ny = Div(e, gamma_column)", ["MatMul", "Add"]),
        ("d = MatMul(v, l)\ne = Add(lb, d)\ny = Mul(e, gamma_column)", ["MatMul", "Add"]),
        ("d = Mul(v, gamma_row)\ne = Div(d, gamma_row)\nf = Mul(e, gamma_row)\ny = MatMul(f, l)",
         ["MatMul"]),
        ("d = Gemm(m, l, lb; alpha=0.5, beta=2.0)\ny = Div(d, gamma_column)", ["Gemm"]),
        ("d = Gemm(m, lt, lb; transB=1)\ny = Mul(d, gamma_column)", ["Gemm"]),
        ("d = Gemm(m, l)\ny = Mul(d, gamma_column)", ["Gemm"]),
        ("d = MatMul(i, whole)\ne = Mul(d, two)\ny = Cast(e; to=1)", ["MatMul", "Mul", "Cast"]),
    ],
)  # fmt: skip
def test_factors(body: str, left: list[str], rng: np.random.Generator) -> None:
    graph = case(body, rng)
    made = rewrite(graph, FOLDS)
    assert ops_of(made) == left
    assert_same(graph, made, rng, scale=2)


@pytest.mark.parametrize("body", ["d = Mul(x, bad)", "d = Div(x, zeros)", "d = Div(x, bad)"])
def test_factors_that_are_not_finite_stay(body: str, rng: np.random.Generator) -> None:
    graph = case(f"{body}\ny = Conv(d, w4)", rng)
    assert rewrite(graph, FOLDS) is graph


def test_a_product_that_is_needed_itself_keeps_its_weights(rng: np.random.Generator) -> None:
    graph = drawn(f"{HEAD}c = MatMul(v, l)\ny = Mul(c, gamma_column)\noutput y\noutput c", rng)
    assert rewrite(graph, FOLDS) is graph


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_groups_on_the_engine(groups: int, rng: np.random.Generator) -> None:
    """Grouped transposed convolutions, whose filters lie in another order."""
    x = ops.variable("x", (2, 8, 5, 4))
    w = rng.normal(size=(8, 12 // groups, 3, 3)).astype(np.float32)
    k = rng.uniform(0.5, 2, (1, 12, 1, 1)).astype(np.float32)
    before = rng.uniform(0.5, 2, (8, 1, 1)).astype(np.float32)
    y = ops.conv_transpose(x, w, group=groups) * k
    v = rng.normal(size=(12, 8 // groups, 3, 3)).astype(np.float32)
    z = ops.conv(x / before, v, group=groups, pads=(1, 1, 1, 1)) / k
    graph = Graph({"y": y, "z": z})
    assert sorted(ops_of(optimise(graph, 1))) == ["Conv", "ConvTranspose"]
    value = rng.normal(size=(2, 8, 5, 4)).astype(np.float32)
    plain = Network(Graph({"y": ops.conv_transpose(x, w, group=groups)}))({"x": value})
    plain_z = Network(Graph({"z": ops.conv(x, v, group=groups, pads=(1, 1, 1, 1))}))(
        {"x": (value / before).astype(np.float32)}
    )
    got = Network(graph).run({"x": value})
    # Sums of at most 72 products of numbers of about 1, each rounded three times.
    np.testing.assert_allclose(got["y"], plain * k, rtol=0, atol=72 * 6 * 6e-8 * 4)
    np.testing.assert_allclose(got["z"], plain_z / k, rtol=0, atol=72 * 6 * 6e-8 * 4)
