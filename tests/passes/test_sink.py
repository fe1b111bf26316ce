"""Transposes that move towards the outputs: where they cancel, where they stay, at random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_checks import assert_same, drawn, ops_of, run

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.symbol import Symbol
from neuralsym.passes.moves import elements
from neuralsym.passes.pipeline import optimise
from neuralsym.passes.sink import sink_transposes

HEAD = """
input x: float32[N, 8, 9, 4]
input z: float32[N, 8, 9, 4]
input s: float32[N, 1, 1, 4]
input f: float32[N, 4, 8, 9]
weight w: float32[4, 4, 3, 3]
weight b: float32[4]
weight gate: float32[1, 1, 1, 4]
weight slopes: float32[4]
constant pictures: int64[2] = [1, 2]
constant channels: int64[1] = [-1]
constant around: int64[8] = [0, 1, 1, 0, 0, 0, 1, 0]
constant starts: int32[2] = [1, 1]
constant ends: int32[2] = [8, -1]
constant axes: int32[2] = [1, -1]
constant first: int64[] = 0
constant firsts: int64[2] = [1, 0]
constant low: float32[] = -0.5
constant high: float32[] = 0.5
constant scale: float32[] = 0.1
constant scales: float32[4] = [0.1, 0.2, 0.3, 0.4]
constant zero: int8[] = 0
constant zeros: int8[4] = [0, 1, 2, 3]
"""


def first(out: str, source: str) -> str:
    """Channels come first."""
    return f"{out} = Transpose({source}; perm=(0, 3, 1, 2))\n"


def last(out: str, source: str) -> str:
    """Channels go last."""
    return f"{out} = Transpose({source}; perm=(0, 2, 3, 1))\n"


def case(body: str, rng: np.random.Generator) -> Graph:
    return drawn(f"{HEAD}{body}\noutput y", rng)


CONV = first("x1", "x") + "c = Conv(x1, w; pads=(1, 1, 1, 1))\n" + last("d", "c")
RESIDUAL = (
    CONV
    + "e = Add(d, b)\nr = Relu(e)\n"
    + first("g", "r")
    + "h = Conv(g, w; pads=(1, 1, 1, 1))\n"
    + last("i", "h")
    + "j = Add(i, b)\nl = Add(j, r)\nq = Relu(l)\n"
    + first("t", "q")
    + "y = Conv(t, w)"
)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (RESIDUAL, ["Transpose", "Conv", "Relu", "Conv", "Add", "Relu", "Conv"]),
        (
            CONV
            + "e = Mul(d, gate)\nm = ReduceMean(e, pictures; keepdims=1)\np = Sigmoid(m)\n"
            + "q = Mul(e, p)\n"
            + first("t", "q")
            + "y = Conv(t, w)",
            ["Transpose", "Conv", "GlobalAveragePool", "Sigmoid", "Mul", "Conv"],
        ),
        (CONV + "p = Pad(d, around)\n" + first("t", "p") + "y = Conv(t, w)",
         ["Transpose", "Conv", "Conv"]),
        (CONV + "q = Mul(d, s)\n" + first("t", "q") + "y = Conv(t, w)",
         ["Transpose", "Conv", "Reshape", "Mul", "Conv"]),
        (CONV + "m = ReduceMean(d, pictures; keepdims=0)\ny = Sigmoid(m)",
         ["Transpose", "Conv", "GlobalAveragePool", "Sigmoid", "Squeeze"]),
        (CONV + "p = PRelu(d, slopes)\n" + first("y", "p"), ["Transpose", "Conv", "PRelu"]),
        (first("p", "x") + first("q", "z") + "y = Concat(p, q; axis=1)", ["Concat", "Transpose"]),
        (last("p", "f") + "q, r = Split(p; axis=3, num_outputs=2)\nt = Sub(q, r)\n"
         + first("y", "t"), ["Split", "Sub"]),
        (last("p", "f") + "q = Slice(p, starts, ends, axes)\n" + first("y", "q"), ["Slice"]),
        (last("p", "f") + "q = Slice(p, starts, ends)\n" + first("y", "q"), ["Slice"]),
        (last("p", "f") + "q = Gather(p, first; axis=3)\ny = Relu(q)", ["Gather", "Relu"]),
        (last("p", "f") + "q = Gather(p, firsts; axis=-1)\n" + first("y", "q"), ["Gather"]),
        (last("p", "f") + "q = ArgMax(p; axis=-1, keepdims=0)\ny = Cast(q; to=1)",
         ["ArgMax", "Cast"]),
        (last("p", "f") + "q = ReduceMax(p, channels; keepdims=1)\n" + first("y", "q"),
         ["ReduceMax"]),
        (last("p", "f") + "q = Clip(p, low, high)\n" + first("y", "q"), ["Clip"]),
        (last("p", "f") + "q = Cast(p; to=11)\nr = Cast(q; to=1)\n" + first("y", "r"), []),
        (last("p", "f") + "q = QuantizeLinear(p, scales, zeros; axis=3)\n"
         "r = DequantizeLinear(q, scales, zeros; axis=-1)\n" + first("y", "r"),
         ["QuantizeLinear", "DequantizeLinear"]),
        (last("p", "f") + "q = QuantizeLinear(p, scale, zero)\n"
         "r = DequantizeLinear(q, scale, zero)\n" + first("y", "r"),
         ["QuantizeLinear", "DequantizeLinear"]),
        (last("p", "f") + "q = Relu(p)\ny = Tanh(q)", ["Relu", "Tanh", "Transpose"]),
        (last("p", "f") + "q = Add(p, x)\ny = Relu(q)", ["Transpose", "Add", "Relu"]),
        (last("p", "f") + "y = Softmax(p; axis=-1)", ["Transpose", "Softmax"]),
    ],
)  # fmt: skip
def test_sinking(body: str, left: list[str], rng: np.random.Generator) -> None:
    graph = case(body, rng)
    made = optimise(graph, 1, check=True)
    assert ops_of(made) == left
    assert_same(graph, made, rng, scale=4)


def test_a_value_that_is_needed_both_ways_is_moved_once(rng: np.random.Generator) -> None:
    body = last("p", "f") + "q = Relu(p)\n" + first("y", "q")
    graph = drawn(f"{HEAD}{body}\noutput y\noutput q", rng)
    made = optimise(graph, 1)
    assert ops_of(made) == ["Relu", "Transpose"]
    assert_same(graph, made, rng)


def test_what_gains_nothing_is_left_as_it_is(rng: np.random.Generator) -> None:
    body = last("p", "f") + "q = Relu(p)\nr = Softmax(p; axis=-1)\ny = Mul(q, r)"
    graph = case(body, rng)
    assert sink_transposes(graph) is graph


def test_bodies_are_changed_too(rng: np.random.Generator) -> None:
    x, c = ops.variable("x", ("N", 3, 4)), ops.variable("c", (), "bool")

    def there_and_back() -> Symbol:
        return ops.transpose(ops.relu(ops.transpose(x, perm=(0, 2, 1))), perm=(0, 2, 1))

    graph = Graph(ops.if_(c, there_and_back, lambda: ops.sin(x)))
    made = optimise(graph, 1)
    assert "Transpose" not in str(made) and "Relu" in str(made)
    assert_same(graph, made, rng)


@pytest.mark.parametrize(
    ("shape", "perm", "left"),
    [
        (("N", 1, 1, 4), (0, 3, 1, 2), "Reshape"),
        ((2, 1, 3), (1, 0, 2), "Reshape"),
        (("N", 1, "T"), (1, 0, 2), "Reshape"),
        (("N", 1, "T"), (0, 2, 1), "Transpose"),
        (("N", 2, 1), (1, 0, 2), "Transpose"),
    ],
)
def test_axes_of_size_one_move_for_nothing(
    shape: tuple[int | str, ...], perm: tuple[int, ...], left: str, rng: np.random.Generator
) -> None:
    graph = Graph(ops.transpose(ops.variable("x", shape), perm=perm))
    made = optimise(graph, 1)
    expected = "Transpose" if shape == ("N", 1, "T") and left == "Reshape" else left
    assert ops_of(made) == [expected]
    assert_same(graph, made, rng)


SHAPE = (2, 3, 4, 5)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_graphs_at_random(data: st.DataObject) -> None:
    """Operators and transposes in any order: the same values, and no more elements are moved."""
    x = ops.variable("x", SHAPE)
    values: list[Symbol] = [x]
    for _ in range(data.draw(st.integers(2, 12))):
        v = data.draw(st.sampled_from(values[-4:]))
        rank = v.rank or 0
        kind = data.draw(
            st.sampled_from(["turn"] * 4 + ["unary", "sum", "row", "mean", "cut", "pad"])
        )
        axis = data.draw(st.integers(-rank, rank - 1))
        if kind == "turn":
            v = ops.transpose(v, perm=data.draw(st.permutations(range(rank))))
        elif kind == "unary":
            v = ops.relu(v - 0.25)
        elif kind == "sum":
            others = [o for o in values if o.shape == v.shape]
            v = v + data.draw(st.sampled_from(others)) * 0.5
        elif kind == "row":
            size = (v.shape or ())[-1]
            v = v * np.linspace(0.5, 1.5, int(str(size)), dtype=np.float32)
        elif kind == "mean" and rank > 2:
            keep = data.draw(st.booleans())
            v = ops.reduce_mean(v, np.array([axis], np.int64), keepdims=keep)
        elif kind == "cut":
            v = ops.slice(v, [0], [3], [axis])
        elif kind == "pad":
            v = ops.pad(v, np.array([1, 0], np.int64), 0.5, np.array([axis], np.int64))
        else:
            v = ops.concat([v, v], axis=axis)
        values.append(v)
    graph = Graph({"y": values[-1], "z": data.draw(st.sampled_from(values))})
    made = optimise(graph, 1, check=True)
    feed = {"x": np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)}
    for before, after in zip(run(graph, feed), run(made, feed), strict=True):
        assert before.shape == after.shape
        # Means of other orders differ by the rounding of a few numbers of about 1.
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)
    assert _moved(made) <= _moved(graph)


def _moved(graph: Graph) -> int:
    return sum(elements(n.outputs[0]) for n in graph.find("Transpose"))


def test_a_long_net_of_channels_last_stays_linear() -> None:
    y = ops.variable("x", ("N", 8, 8, 4))
    y = ops.transpose(y, perm=(0, 3, 1, 2))
    for _ in range(600):
        inner = ops.relu(ops.transpose(y, perm=(0, 2, 3, 1)) + 0.5)
        y = ops.transpose(inner, perm=(0, 3, 1, 2)) * 0.5
    made = optimise(Graph({"y": y}), 1)
    assert ops_of(made).count("Transpose") == 1
