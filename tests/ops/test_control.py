"""Control flow: bodies are Python functions, traced once, with captures."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_weight
from neuralsym.core.parse import parse_graph
from neuralsym.core.symbol import Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.traverse import bodies
from neuralsym.errors import BadAttribute, GraphError, ShapeMismatch, TypeMismatch
from neuralsym.ops.evaluate import evaluate_graph

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def value(symbol: Symbol, **feeds: Any) -> Any:
    graph = Graph(symbol)
    return evaluate_graph(graph, {graph[name]: np.asarray(v) for name, v in feeds.items()})[0]


# -- if_ ---------------------------------------------------------------------------------------
def test_if_chooses() -> None:
    x, c = ops.variable("x", ("N", 3)), ops.variable("c", (), "bool")
    y = ops.if_(c, lambda: x + 1.0, lambda: ops.relu(x)[:1])
    assert str(y.type) == "float32[?, 3]"
    assert y.node.captures == (x,)
    np.testing.assert_array_equal(value(y, x=X, c=True), X + 1)
    np.testing.assert_array_equal(value(y, x=X, c=False), X[:1])


def test_if_gives_as_many_as_its_branches() -> None:
    c, x = ops.variable("c", (), "bool"), ops.variable("x", (3,))
    a, b = ops.if_(c, lambda: (x, 1.0), lambda: (x + x, 2.0))
    assert (str(a.type), str(b.type)) == ("float32[3]", "float32[]")
    (only,) = ops.if_(c, lambda: (x,), lambda: (x,))
    assert only.shape == (3,)


def test_if_refuses() -> None:
    x, c = ops.variable("x", (3,)), ops.variable("c", (), "bool")
    with pytest.raises(TypeMismatch, match=r"result 0 is float32\[3\] of then and int64\[\]"):
        ops.if_(c, lambda: x, lambda: 1)
    with pytest.raises(BadAttribute, match="then gives 1 results, else 2"):
        ops.if_(c, lambda: x, lambda: (x, x))
    with pytest.raises(TypeMismatch, match="cond is float32; allowed are bool"):
        ops.if_(x, lambda: x, lambda: x)
    with pytest.raises(TypeMismatch, match="not one bool"):
        ops.if_(ops.greater(x, 0.0), lambda: x, lambda: x)
    with pytest.raises(
        TypeMismatch, match=r"then of if_ is a function, not(.|\n)*test_control\.py"
    ):
        ops.if_(c, x, x)
    with pytest.raises(TypeMismatch, match="else_ of if_ gives object"):
        ops.if_(c, lambda: x, object)


# -- captures ----------------------------------------------------------------------------------
def test_captures_of_nested_bodies_and_of_weights() -> None:
    x, c = ops.variable("x", (3,)), ops.variable("c", (), "bool")
    w = make_weight(Tensor.of(np.ones(3, np.float32)), name="w")

    def inner() -> Symbol:
        fresh = make_weight(Tensor.of(np.full(3, 2, np.float32)), name="fresh")
        return ops.if_(c, lambda: x * w, lambda: x + fresh)

    y = ops.if_(c, inner, lambda: x)
    graph = Graph(y)
    assert {s.name for s in graph.weights} == {"w", "fresh"}
    assert set(y.node.captures) >= {x, c, w}
    graph.check()
    np.testing.assert_array_equal(value(y, x=X[0], c=True), X[0])


def test_what_is_known_outside_is_known_inside() -> None:
    x, c = ops.variable("x", (2, 3)), ops.variable("c", (), "bool")
    shape = ops.shape(x)
    y = ops.if_(c, lambda: ops.reshape(x * 2.0, shape), lambda: x)
    assert y.shape == (2, 3)


def test_a_body_makes_no_variable_and_keeps_its_own() -> None:
    x, c = ops.variable("x", (3,)), ops.variable("c", (), "bool")
    with pytest.raises(GraphError, match="what a run feeds is made outside"):
        ops.if_(c, lambda: ops.variable("new", (3,)), lambda: x)
    leaked: list[Symbol] = []

    def leaking(i: Symbol, h: Symbol) -> Symbol:
        leaked.append(h * 2.0)
        return h + 1.0

    y = ops.loop(3, None, leaking, x)
    Graph(y).check()
    with pytest.raises(GraphError, match="inside of a body"):
        Graph(leaked[0])


def test_names_are_unique_in_the_whole() -> None:
    x, c = ops.variable("x", (3,)), ops.variable("c", (), "bool")

    def body() -> Symbol:
        return ops.relu(x, name="act")

    y = ops.relu(ops.if_(c, body, body) + ops.if_(c, body, body))
    graph = Graph(y)
    names = list(graph.names.values())
    for node in graph:
        for inner in graph.bodies.get(node, {}).values():
            names += inner.names.values()
    # Small constants may be shared; all else has a name of its own.
    assert len(set(names)) == len(names)
    assert {"act", "act_1", "act_2", "act_3", "relu"} <= set(names)
    assert graph.check() is graph
    assert str(Graph(y)) == str(graph)


# -- loop --------------------------------------------------------------------------------------
def test_a_loop_of_known_length_stacks_to_a_known_size() -> None:
    x = ops.variable("x", ("N", 3))
    last, sums = ops.loop(4, None, lambda i, h: (h * 2.0, ops.reduce_sum(h, keepdims=0)), x)
    assert str(last.type) == "float32[N, 3]"
    assert str(sums.type) == "float32[4]"
    np.testing.assert_array_equal(value(last, x=X), X * 16)
    np.testing.assert_array_equal(value(sums, x=X), X.sum() * 2.0 ** np.arange(4))


def test_a_loop_with_a_condition() -> None:
    limit = ops.variable("limit")
    total, steps = ops.loop(
        None, True, lambda i, t: (t + 3.0 < limit, t + 3.0, i), ops.constant(0.0)
    )
    assert str(steps.type) == "int64[?]"
    assert value(total, limit=np.float32(10)) == 12
    assert value(steps, limit=np.float32(10)).tolist() == [0, 1, 2, 3]


def test_a_loop_whose_state_grows_has_unknown_sizes() -> None:
    x = ops.variable("x", ("N", 3))
    grown = ops.loop(3, None, lambda i, h: ops.concat([h, x], axis=0), x)
    assert str(grown.type) == "float32[?, 3]"
    assert value(grown, x=X).shape == (8, 3)
    ranks = ops.loop(3, None, lambda i, h: ops.unsqueeze(h, [0]), x)
    assert str(ranks.type) == "float32[...]"
    assert value(ranks, x=X).shape == (1, 1, 1, 2, 3)


def test_a_loop_without_trips_gives_its_first_state() -> None:
    x = ops.variable("x", (2, 3))
    last, items = ops.loop(0, None, lambda i, h: (h * 2.0, h), x)
    np.testing.assert_array_equal(value(last, x=X), X)
    assert value(items, x=X).shape == (0, 2, 3)


def test_loop_refuses() -> None:
    x = ops.variable("x", (3,))
    with pytest.raises(BadAttribute, match=r"never ends(.|\n)*test_control\.py"):
        ops.loop(None, None, lambda i, h: h, x)
    with pytest.raises(TypeMismatch, match="state 0 begins as float32"):
        ops.loop(3, None, lambda i, h: ops.cast(h, "int32"), x)
    with pytest.raises(BadAttribute, match="gives 1 results, 2 are needed"):
        ops.loop(3, True, lambda i, h: h, x)


# -- scan and sequence_map ---------------------------------------------------------------------
def test_scan() -> None:
    x = ops.variable("x", ("T", 3))
    total, sums = ops.scan(lambda a, b: (a + b, a + b), np.zeros(3, np.float32), x)
    assert str(total.type) == "float32[3]"
    assert str(sums.type) == "float32[T, 3]"
    np.testing.assert_array_equal(value(sums, x=X), X.cumsum(0))
    backwards = ops.scan(lambda a: a * 2.0, (), x, input_directions=[1], input_axes=[1])
    assert str(backwards.type) == "float32[3, T]"
    np.testing.assert_array_equal(value(backwards, x=X), X.T[::-1] * 2)


def test_scan_refuses() -> None:
    x, y = ops.variable("x", (4, 3)), ops.variable("y", (5, 3))
    with pytest.raises(ShapeMismatch, match="lengths 4 and 5"):
        ops.scan(lambda a, b: a + b, (), (x, y))
    with pytest.raises(BadAttribute, match="scan needs inputs"):
        ops.scan(lambda a: a, x)


def test_sequence_map() -> None:
    x = ops.variable("x", (2, 3))
    y = ops.sequence_map(lambda e, k: e * k, ops.sequence_construct([x, x + 1.0]), 2.0)
    assert str(y.type) == "sequence(float32[2, 3])"
    np.testing.assert_array_equal(value(y, x=X)[1], (X + 1) * 2)


# -- in graphs ---------------------------------------------------------------------------------
def everything() -> Graph:
    x, c = ops.variable("x", ("N", 3)), ops.variable("c", (), "bool")

    def step(i: Symbol, h: Symbol) -> tuple[Symbol, Symbol]:
        return ops.if_(c, lambda: h + x, lambda: h * 2.0), ops.reduce_sum(h)

    last, items = ops.loop(3, None, step, x)
    return Graph({"last": last, "items": items})


def test_copies_and_text_of_bodies() -> None:
    graph = everything()
    for made in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph)), parse_graph(str(graph))):
        assert str(made).splitlines()[1:] == str(graph).splitlines()[1:]
        made.check()


def test_map_goes_into_bodies() -> None:
    graph = everything()
    made = graph.map(lambda n, i: ops.sub(*i).outputs if n.op_type == "Mul" else None)
    assert "Sub(" in str(made)
    assert "Mul(" not in str(made)
    assert made.output_names == graph.output_names
    made.check()
    assert graph.map(lambda n, i: None) is graph


def test_replacing_what_a_body_captures() -> None:
    graph = everything()
    made = graph.replace({graph["x"]: ops.variable("x", (2, 3))})
    assert str(made["last"].type) == "float32[2, 3]"
    (node,) = made.find("Loop")
    assert made["x"] in node.captures
    made.check()


def test_a_body_follows_the_known_values_of_its_captures() -> None:
    x, c = ops.variable("x", (2, 3)), ops.variable("c", (), "bool")
    z = ops.variable("z", (6,))
    shape = ops.shape(x)
    y = ops.if_(c, lambda: ops.reshape(z, shape), lambda: ops.reshape(z, shape))
    assert y.shape == (2, 3)
    graph = Graph(y)
    for size, expected in ((3, "float32[3, 2]"), ("M", "float32[M, 2]")):
        other = ops.shape(ops.variable("other", (size, 2)))
        made = graph.replace({shape: other})
        assert str(made.outputs[0].type) == expected
        made.check()
    unknown = ops.variable("sizes", (2,), "int64")
    made = graph.replace({shape: unknown})
    assert str(made.outputs[0].type) == "float32[?, ?]"


def test_a_weight_by_its_name_in_the_body_and_outside() -> None:
    x, c = ops.variable("x", (3,)), ops.variable("c", (), "bool")
    w = make_weight(Tensor.of(np.ones(3, np.float32)), name="w")
    graph = Graph(ops.if_(c, lambda: x * w, lambda: x) + w)
    assert [graph.names[s.node] for s in graph.weights] == ["w"]
    made = graph.with_weights({"w": Tensor.of(np.full(3, 5, np.float32))})
    (node,) = made.find("If")
    assert made["w"] in node.captures
    assert all(len(body.inputs) == len(node.captures) for body in bodies(node).values())
    (result,) = evaluate_graph(made, {made["x"]: X[0], made["c"]: np.array(True)})
    np.testing.assert_array_equal(result, X[0] * 5 + 5)  # type: ignore[arg-type]
