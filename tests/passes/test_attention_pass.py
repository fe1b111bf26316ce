"""Attention that is written out: which ways of writing are fused, and what they give."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pass_checks import assert_same, drawn, feeds, ops_of, run

from neuralsym import Network, ops
from neuralsym.core.graph import Graph
from neuralsym.core.symbol import Symbol
from neuralsym.passes.pipeline import optimise

HEAD = """
input q: float32[N, T, 12]
input k: float32[N, T, 12]
input v: float32[N, T, 8]
input keys: float32[N, 1, 1, T]
input pairs: float32[N, 1, T, T]
input full: float32[N, 2, T, T]
input rows: float32[N, 1, T, 1]
constant cut: int64[4] = [0, 0, 2, 6]
constant cut_values: int64[4] = [0, 0, 2, 4]
constant joined: int64[3] = [0, 0, 8]
constant scale: float32[] = 0.4
constant two: float32[] = 2.0
q1 = Reshape(q, cut)
q2 = Transpose(q1; perm=(0, 2, 1, 3))
k1 = Reshape(k, cut)
v1 = Reshape(v, cut_values)
v2 = Transpose(v1; perm=(0, 2, 1, 3))
"""
KEYS = "k2 = Transpose(k1; perm=(0, 2, 3, 1))\n"
TWICE = "k0 = Transpose(k1; perm=(0, 2, 1, 3))\nk2 = Transpose(k0; perm=(0, 1, 3, 2))\n"
SCORES = "s = MatMul(q2, k2)\n"
END = (
    "p = Softmax({s}; axis=-1)\no = MatMul(p, v2)\nt = Transpose(o; perm=(0, 2, 1, 3))\n"
    "y = Reshape(t, joined)"
)


def case(body: str, rng: np.random.Generator) -> Graph:
    return drawn(f"{HEAD}{body}\noutput y", rng)


WRITTEN = {
    "plain": KEYS + SCORES + END.format(s="s"),
    "scaled": TWICE + SCORES + "m = Mul(s, scale)\n" + END.format(s="m"),
    "divided": TWICE + SCORES + "m = Div(s, two)\nn = Add(m, keys)\n" + END.format(s="n"),
    "both sides": KEYS
    + "q3 = Mul(q2, scale)\nk3 = Mul(k2, scale)\ns = MatMul(q3, k3)\nn = Add(s, pairs)\n"
    + END.format(s="n"),
    "queries": KEYS + "q3 = Div(q2, two)\ns = MatMul(q3, k2)\n" + END.format(s="s"),
    "full mask": KEYS + SCORES + "m = Mul(s, scale)\nn = Add(full, m)\n" + END.format(s="n"),
}


@pytest.mark.parametrize("way", WRITTEN)
def test_ways_of_writing(way: str, rng: np.random.Generator) -> None:
    graph = case(WRITTEN[way], rng)
    made = optimise(graph, check=True)
    assert ops_of(made) == ["FusedAttention"]
    assert made.find("FusedAttention")[0].attr("q_num_heads") == 2
    values = feeds(graph, rng)
    network = Network(graph)
    assert "by attention" in network.explain() and "attention" in network.explain().splitlines()[0]
    got = network.run(values)["y"]
    # Shares lie between 0 and 1, scores are sums of six products of about 1.
    np.testing.assert_allclose(got, run(graph, values)[0], rtol=0, atol=1e-5)


def test_heads_that_are_changed_first_are_rows_too(rng: np.random.Generator) -> None:
    """As where the cosine of their angle is compared: heads of length one."""
    body = (
        "q0 = LpNormalization(q1; axis=-1, p=2)\nqn = Transpose(q0; perm=(0, 2, 1, 3))\n"
        + KEYS
        + "s = MatMul(qn, k2)\n"
        + END.format(s="s")
    )
    graph = case(body, rng)
    made = optimise(graph, check=True)
    assert "FusedAttention" in ops_of(made) and "Transpose" not in ops_of(made)
    values = feeds(graph, rng)
    got = Network(graph).run(values)["y"]
    np.testing.assert_allclose(got, run(graph, values)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        KEYS + SCORES + "n = Add(s, rows)\n" + END.format(s="n"),  # a number for each query
        KEYS + SCORES + "m = Add(s, keys)\nn = Add(m, full)\n" + END.format(s="n"),  # two masks
        KEYS + SCORES + "m = Tanh(s)\n" + END.format(s="m"),  # a soft cap
        KEYS + SCORES + END.format(s="s").replace("axis=-1", "axis=2"),
        KEYS + SCORES + END.format(s="s").replace("y = Reshape(t, joined)", "y = Relu(t)"),
    ],
)
def test_what_is_something_else_stays(body: str, rng: np.random.Generator) -> None:
    graph = case(body, rng)
    made = optimise(graph, check=True)
    assert "FusedAttention" not in ops_of(made) and "Softmax" in ops_of(made)
    assert_same(graph, made, rng)


@pytest.mark.parametrize("shown", ["s", "p", "o"])
def test_values_that_are_asked_for_are_computed(shown: str, rng: np.random.Generator) -> None:
    graph = drawn(f"{HEAD}{WRITTEN['plain']}\noutput y\noutput {shown}", rng)
    made = optimise(graph, check=True)
    assert "Softmax" in ops_of(made)
    assert_same(graph, made, rng)


def _attend(length: int, keys: int) -> Graph:
    q, k, v = (
        ops.variable(n, (1, 2, size, 8))
        for n, size in zip("qkv", (length, keys, keys), strict=True)
    )
    scores = ops.matmul(q, ops.transpose(k, perm=(0, 1, 3, 2))) * np.float32(0.25)
    return Graph({"y": ops.matmul(ops.softmax(scores, axis=-1), v)})


@pytest.mark.parametrize(
    ("length", "keys", "fused"), [(512, 600, True), (64, 64, False), (4, 999, False)]
)
def test_heads_that_lie_apart(
    length: int, keys: int, fused: bool, rng: np.random.Generator
) -> None:
    graph = _attend(length, keys)
    assert ("FusedAttention" in ops_of(optimise(graph))) == fused
    if fused:
        values = feeds(graph, rng)
        got = Network(graph).run(values)["y"]
        # Means of 600 numbers of about 1.
        np.testing.assert_allclose(got, run(graph, values)[0], rtol=0, atol=1e-5)


def _heads(x: Symbol) -> Symbol:
    return ops.transpose(ops.reshape(x, np.array([0, 0, 2, 6])), perm=(0, 2, 1, 3))


def test_masks_of_infinities_and_scores_that_are_no_numbers(rng: np.random.Generator) -> None:
    q, k, v = (ops.variable(n, ("N", "T", 12)) for n in "qkv")
    mask = ops.variable("mask", ("N", 1, "T", "T"))
    scores = ops.matmul(_heads(q), ops.transpose(_heads(k), perm=(0, 1, 3, 2))) + mask
    y = ops.transpose(ops.matmul(ops.softmax(scores, axis=-1), _heads(v)), perm=(0, 2, 1, 3))
    graph = Graph({"y": ops.reshape(y, np.array([0, 0, 12]))})
    assert ops_of(optimise(graph)) == ["FusedAttention"]
    values = {n: rng.normal(size=(2, 9, 12)).astype(np.float32) for n in "qkv"}
    values["mask"] = np.zeros((2, 1, 9, 9), np.float32)
    values["mask"][0, :, :, ::2] = -math.inf
    values["mask"][1, :, 4] = -math.inf  # closed to every key
    values["q"][0, 3] = math.nan
    values["k"][1, 5, :6] = 1e30
    expected, got = run(graph, values)[0], Network(graph).run(values)["y"]
    assert np.isnan(expected[1, 4]).all()
    for found in (got, run(optimise(graph), values)[0]):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)  # NaN in the same places
