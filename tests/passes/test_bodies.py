"""Control flow that is settled before a run: branches taken for certain, results nobody uses."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same, feeds, ops_of, run

from neuralsym import Graph, Network, ops
from neuralsym.core.symbol import Symbol
from neuralsym.passes.bodies import drop_body_results, inline_branches
from neuralsym.passes.pipeline import optimise
from neuralsym.passes.shared import share_with_bodies


@pytest.mark.parametrize("taken", [True, False])
def test_a_known_branch_stands_in_its_place(taken: bool, rng: np.random.Generator) -> None:
    x = ops.variable("x", ("N", 4))
    before = ops.relu(x, name="before")
    a, b = ops.if_(
        ops.constant(np.array(taken)),
        lambda: (ops.sin(before + 1.0, name="inner"), ops.cos(x)),
        lambda: (ops.exp(x), ops.tanh(before, name="inner")),
    )
    graph = Graph({"a": a, "b": before * b})
    made = inline_branches(graph)
    assert not made.bodies
    assert ("Sin" in ops_of(made)) == taken
    assert made.output_names == ("a", "b")
    assert_same(graph, made, rng)


def test_branches_in_branches(rng: np.random.Generator) -> None:
    """The squeeze that exporters write: if the size is 1, squeeze, else keep, whatever it is."""
    x = ops.variable("x", ("N", 1, 4))
    is_one = ops.equal(ops.gather(ops.shape(x), np.array(1)), np.array(1))

    def inner() -> Symbol:
        return ops.if_(is_one, lambda: ops.squeeze(x, [1]), lambda: ops.identity(x))

    graph = Graph(ops.relu(ops.if_(ops.not_(is_one), lambda: ops.sin(x), inner)))
    made = optimise(graph, 1)
    assert ops_of(made) == ["Squeeze", "Relu"]
    assert_same(graph, made, rng)


def test_names_of_both_sides_may_be_equal(rng: np.random.Generator) -> None:
    x = ops.variable("x", ("N", 4))
    y = ops.relu(x, name="r")
    z = ops.if_(
        ops.constant(np.array(True)),
        lambda: ops.sin(y + 1.0, name="r"),
        lambda: ops.exp(x, name="r"),
    )
    graph = Graph([z, y])
    made = inline_branches(graph)
    assert ops_of(made) == ["Relu", "Add", "Sin"] and "r" in made
    assert_same(graph, made, rng)


def test_an_unknown_condition_stays() -> None:
    x, c = ops.variable("x", ("N", 4)), ops.variable("c", (), "bool")
    graph = Graph(ops.if_(c, lambda: ops.sin(x), lambda: ops.cos(x)))
    assert inline_branches(graph) is graph
    assert drop_body_results(graph) is graph


def test_results_of_branches_that_nobody_uses_go(rng: np.random.Generator) -> None:
    x, c = ops.variable("x", ("N", 4)), ops.variable("c", (), "bool")
    a, b, d = ops.if_(
        c,
        lambda: (ops.sin(x), ops.cos(x), ops.tanh(x)),
        lambda: (ops.exp(x), ops.neg(x), ops.sqrt(ops.abs(x))),
    )
    graph = Graph({"a": a, "d": d})
    made = drop_body_results(graph)
    (node,) = made.find("If")
    assert len(node.outputs) == 2
    assert "Cos" not in str(made) and "Neg" not in str(made)
    assert_same(graph, made, rng)
    assert b.node is a.node


def test_items_of_loops_that_nobody_uses_go(rng: np.random.Generator) -> None:
    x = ops.variable("x", ("N", 4))
    state, doubles, sines = ops.loop(5, None, lambda i, s: (s + 1.0, s * 2.0, ops.sin(s)), x)
    graph = Graph({"state": state, "sines": sines})
    made = drop_body_results(graph)
    assert "Mul" not in str(made)
    assert_same(graph, made, rng)
    assert drop_body_results(Graph([state, doubles, sines])).find("Loop")[0].outputs[2:]


def test_items_of_scans_keep_their_axes(rng: np.random.Generator) -> None:
    s, x = ops.variable("s", (4,)), ops.variable("x", ("N", 4))
    state, doubles, sines = ops.scan(
        lambda s, z: (s + z, s * 2.0, ops.sin(z)),
        s,
        x,
        output_axes=(0, 1),
        output_directions=(0, 1),
    )
    graph = Graph({"sines": sines})
    made = drop_body_results(graph)
    (node,) = made.find("Scan")
    assert node.attr("scan_output_axes") == (1,) and node.attr("scan_output_directions") == (1,)
    assert len(node.outputs) == 2  # the final state stays
    assert_same(graph, made, rng)
    assert doubles.node is state.node


def test_bodies_take_what_is_computed_around_them(rng: np.random.Generator) -> None:
    x, z = ops.variable("x", ("N", 4)), ops.variable("z", ("N", 4))
    outside = ops.exp(x * 2.0)
    state, items = ops.loop(
        5, None, lambda i, s: (s * 0.1 + ops.exp(x * 2.0) * z, ops.sin(s) + x), x
    )
    graph = Graph({"state": state, "items": items, "outside": outside})
    made = share_with_bodies(graph)
    made.check()
    assert "Exp" not in str(made.bodies[made.find("Loop")[0]]["body"])
    assert_same(graph, made, rng)
    values = feeds(graph, rng)
    got = Network(graph).run(values)
    for name, expected in zip(graph.output_names, run(graph, values), strict=True):
        # Each trip rounds sums of products of numbers of about 1 to 100.
        np.testing.assert_allclose(got[name], expected, rtol=1e-5, atol=1e-5)


def test_both_branches_and_bodies_inside_of_bodies(rng: np.random.Generator) -> None:
    x, c = ops.variable("x", ("N", 4)), ops.variable("c", (), "bool")
    common = ops.tanh(ops.exp(x))

    def inner() -> Symbol:
        deep = ops.if_(c, lambda: ops.sin(ops.exp(x)), lambda: ops.exp(x))
        return deep + ops.exp(x)

    graph = Graph([ops.if_(c, inner, lambda: ops.tanh(ops.exp(x))), common])
    made = share_with_bodies(graph)
    made.check()
    assert str(made).count("= Exp(") == 1 and str(made).count("= Tanh(") == 1
    assert_same(graph, made, rng)


def test_random_numbers_are_not_shared_with_bodies() -> None:
    x, c = ops.variable("x", ("N", 4)), ops.variable("c", (), "bool")
    graph = Graph(
        [
            ops.if_(c, lambda: ops.random_normal_like(x), lambda: x),
            ops.random_normal_like(x),
        ]
    )
    assert share_with_bodies(graph) is graph
