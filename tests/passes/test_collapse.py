"""Chains of one kind made one: the same bits before and after, at random too."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_checks import assert_same, drawn, ops_of, run

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.symbol import Symbol
from neuralsym.errors import NeuralsymError
from neuralsym.passes.collapse import COLLAPSE
from neuralsym.passes.concats import MOST_JOINED, flatten_concats, nest_prefixes
from neuralsym.passes.identity import DROP_IDENTITIES
from neuralsym.passes.pipeline import optimise
from neuralsym.rewrite.driver import rewrite

HEAD = """
input x: float32[N, 4, T]
input z: float32[N, 4, T]
input row: float32[1, 4, 1]
input i: int32[N, 4]
input b: bool[N, 4]
constant shape: int64[3] = [2, 4, 5]
constant yes: bool[1, 4, 1] = [[[True], [True], [True], [True]]]
constant no: bool[] = False
constant some: bool[2] = [True, False]
constant zero: float32[] = 0.0
constant one: float32[] = 1.0
constant six: float32[] = 6.0
constant minus: float32[] = -1.0
"""


def case(body: str, rng: np.random.Generator) -> Graph:
    return drawn(f"{HEAD}{body}\noutput y", rng)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = Cast(x; to=11)\ny = Cast(a; to=1)", []),
        ("a = Cast(x; to=11)\ny = Cast(a; to=7)", ["Cast"]),
        ("a = Cast(i; to=7)\nc = Cast(a; to=11)\ny = Cast(c; to=1)", ["Cast"]),
        ("a = Cast(x; to=10)\ny = Cast(a; to=1)", ["Cast", "Cast"]),
        ("a = Cast(i; to=1)\ny = Cast(a; to=6)", ["Cast", "Cast"]),
        ("a = Cast(b; to=1)\ny = Cast(a; to=6)", ["Cast"]),
        ("a = Relu(x)\ny = Relu(a)", ["Relu"]),
        ("a = Relu(x)\ny = Clip(a, minus, six)", ["Clip"]),
        ("a = Relu(x)\ny = Min(six, a)", ["Clip"]),
        ("a = Clip(x, minus, one)\ny = Relu(a)", ["Clip"]),
        ("a = Clip(x, zero, one)\ny = Clip(a, minus, six)", ["Clip"]),
        ("a = Clip(x, minus, one)\nq = Clip(a, six)\ny = Add(q, x)", ["Clip", "Clip", "Add"]),
        ("a = Neg(x)\ny = Neg(a)", []),
        ("a = Not(b)\ny = Not(a)", []),
        ("y = Where(yes, x, z)", []),
        ("y = Where(no, x, z)", []),
        ("y = Where(no, x, row)", ["Where"]),
        ("y = Where(some, row, row)", ["Where"]),
    ],
)
def test_chains(body: str, left: list[str], rng: np.random.Generator) -> None:
    graph = case(body, rng)
    made = rewrite(graph, (*DROP_IDENTITIES, *COLLAPSE))
    assert ops_of(made) == left
    if "Where(some" not in body and "b)" not in body and "b;" not in body:
        assert_same(graph, made, rng)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("e = Expand(row, shape)\ny = Add(e, w)", ["Add"]),
        ("e = Expand(row, shape)\ny = Sub(w, e)", ["Sub"]),
        ("e = Expand(row, shape)\nf = Expand(row, shape)\ny = Mul(e, f)", ["Expand", "Mul"]),
        ("e = Expand(row, shape)\nc = Greater(e, w)\ny = Where(c, e, w)", ["Greater", "Where"]),
        ("e = Expand(row, shape)\ny = Relu(e)", ["Expand", "Relu"]),
    ],
)
def test_expanding_before_broadcasting(
    body: str, left: list[str], rng: np.random.Generator
) -> None:
    graph = drawn(f"{HEAD}input w: float32[2, 4, 5]\n{body}\noutput y", rng)
    made = rewrite(graph, (*DROP_IDENTITIES, *COLLAPSE))
    assert ops_of(made) == left
    assert_same(graph, made, rng)


def test_concatenations(rng: np.random.Generator) -> None:
    graph = case(
        "a = Concat(x, z; axis=2)\nc = Concat(z, a, x; axis=-1)\ny = Concat(c, a; axis=-1)",
        rng,
    )
    made = flatten_concats(graph)
    assert ops_of(made) == ["Concat", "Concat"]  # the first is used twice, and stays
    assert_same(graph, made, rng)
    other = case("a = Concat(x, z; axis=2)\ny = Concat(a, a; axis=1)", rng)
    assert flatten_concats(other) is other


def test_a_long_chain_of_concatenations_stays_linear() -> None:
    x = ops.variable("x", ("N", 1))
    y = x
    for _ in range(1000):
        y = ops.concat([y, x], axis=1)
    made = flatten_concats(Graph(y))
    widths = [len(n.inputs) for n in made.find("Concat")]
    assert max(widths) <= MOST_JOINED and len(widths) < 2 * 1000 / (MOST_JOINED / 2)


def test_concatenations_that_begin_alike_are_nested(rng: np.random.Generator) -> None:
    graph = case(
        "a = Concat(x, z; axis=2)\nc = Concat(x, z, x; axis=2)\nd = Concat(x, z, x, z; axis=-1)\n"
        "y = Concat(a, c, d; axis=2)",
        rng,
    )
    made = nest_prefixes(graph)
    assert [len(n.inputs) for n in made.find("Concat")] == [2, 2, 2, 3]
    assert_same(graph, made, rng)
    assert nest_prefixes(made) is made


SPECIAL = [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.5, -0.5, 2.0, -2.0, 7.0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["relu", "min", "neg", *range(6)]), min_size=1, max_size=5), st.data()
)
def test_bounds_at_random(chain: list[str | int], data: st.DataObject) -> None:
    x = ops.variable("x", ("N",))
    y: Symbol = x
    bound = st.sampled_from([None, -2.0, -0.5, 0.0, 0.5, 2.0])
    for step in chain:
        if step == "relu":
            y = ops.relu(y)
        elif step == "neg":
            y = ops.neg(y)
        elif step == "min":
            y = ops.min([y, ops.constant(data.draw(st.sampled_from([-1.0, 0.0, 1.0])))])
        else:
            y = ops.clip(y, data.draw(bound), data.draw(bound))
    graph = Graph({"y": y})
    made = optimise(graph, 1)
    values = {"x": np.array(SPECIAL, np.float32)}
    np.testing.assert_array_equal(run(made, values)[0], run(graph, values)[0])
    assert len(made) <= len(graph)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_slices_at_random(data: st.DataObject) -> None:
    x = ops.variable("x", (5, 6))
    y: Symbol = x
    edge = st.one_of(st.integers(-8, 8), st.just(2**62), st.just(-(2**62)))
    for _ in range(data.draw(st.integers(2, 3))):
        axes = data.draw(st.permutations([0, 1]).map(lambda p: p[:1])) if data.draw(
            st.booleans()
        ) else data.draw(st.permutations([0, -1]))  # fmt: skip
        count = len(axes)
        starts, ends = ([data.draw(edge) for _ in range(count)] for _ in range(2))
        steps = [data.draw(st.sampled_from([1, 1, 2, 3, -1, -2])) for _ in range(count)]
        columns = (np.array(v, np.int64) for v in (starts, ends, axes, steps))
        y = ops.slice(y, *columns)
    graph = Graph({"y": y})
    made = optimise(graph, 1)
    values = {"x": np.arange(30, dtype=np.float32).reshape(5, 6)}
    np.testing.assert_array_equal(run(made, values)[0], run(graph, values)[0])


NUMBERS = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(NUMBERS, NUMBERS)))
def test_casts_between_all_types(a: str, b: str) -> None:
    values = np.array([0, 1, 2, 127], np.int64).astype(a)
    for c in NUMBERS:
        x = ops.variable("x", (4,), a)
        graph = Graph({"y": ops.cast(ops.cast(x, b), c)})
        made = rewrite(graph, (*DROP_IDENTITIES, *COLLAPSE))
        before, after = run(graph, {"x": values})[0], run(made, {"x": values})[0]
        assert before.dtype == after.dtype == np.dtype(c)
        np.testing.assert_array_equal(after, before)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_reshapes_at_random(data: st.DataObject) -> None:
    free = data.draw(st.booleans())
    x = ops.variable("x", ("N" if free else 2, 3, 4))
    y: Symbol = x
    for _ in range(data.draw(st.integers(1, 4))):
        rank = y.rank or 0
        kind = data.draw(st.sampled_from(["flat", "shape", "in", "out"]))
        if kind == "flat":
            y = ops.flatten(y, axis=data.draw(st.integers(0, min(rank, 1))))
        elif kind == "shape":
            target = data.draw(st.sampled_from([[-1, 12], [-1, 2, 6], [0, -1], [-1, 3, 2, 2]]))
            y = ops.reshape(y, np.array(target, np.int64))
        elif kind == "in":
            y = ops.unsqueeze(y, [data.draw(st.integers(0, rank))])
        else:
            ones = [i for i, size in enumerate(y.shape or ()) if size == 1]
            if ones:
                y = ops.squeeze(y, [data.draw(st.sampled_from(ones))])
    graph = Graph({"y": y})
    made = optimise(graph, 1)
    assert len(ops_of(made)) <= max(1, len(ops_of(graph)))
    for n in {2, 0 if free else 2}:
        values = {"x": np.arange(n * 12, dtype=np.float32).reshape(n, 3, 4)}
        try:
            expected = run(graph, values)[0]
        except NeuralsymError:
            continue  # no elements say nothing of a size that is asked to follow from them
        got = run(made, values)[0]
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)
