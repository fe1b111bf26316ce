"""Bodies of control flow in files: outer names become captures, and names again."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import model_of, node, value

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_weight
from neuralsym.core.tensor import Tensor
from neuralsym.engines import onnx as engine
from neuralsym.errors import GraphError

Array = np.ndarray[Any, Any]
F1 = np.float32


def run(model: onnx.ModelProto, **feed: Array) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    values: list[Array] = onnxruntime.InferenceSession(model.SerializeToString(), options).run(
        None, feed
    )
    return values


def written(graph: Graph) -> onnx.ModelProto:
    """The model of a graph, which passes the checker and comes back the same."""
    model = engine.of_symbolic(graph)
    onnx.checker.check_model(model, full_check=True)
    assert engine.of_symbolic(engine.to_symbolic(model)) == model
    return model


def all_names(graph: onnx.GraphProto) -> list[str]:
    names = [v.name for v in graph.input] + [t.name for t in graph.initializer]
    for n in graph.node:
        names += n.output
        for a in n.attribute:
            if a.HasField("g"):
                names += all_names(a.g)
    return names


# -- from symbols ------------------------------------------------------------------------------
@pytest.mark.oracle
def test_branches_use_what_is_around() -> None:
    flag, x = ops.variable("flag", (), "bool"), ops.variable("x", (3,))
    w = make_weight(Tensor.of(np.array([1, 2, 3], F1)), name="w")
    doubled = x * 2.0
    y = ops.if_(flag, lambda: ops.relu(doubled + w), lambda: doubled)
    model = written(Graph({"y": y}))
    (branches,) = [n for n in model.graph.node if n.op_type == "If"]
    assert all(not a.g.input and not a.g.initializer for a in branches.attribute)
    assert len(set(all_names(model.graph))) == len(all_names(model.graph))
    given = np.array([-5, 0, 1], F1)
    for truth, wanted in [(True, np.maximum(given * 2 + [1, 2, 3], 0)), (False, given * 2)]:
        np.testing.assert_allclose(run(model, flag=np.array(truth), x=given)[0], wanted)


@pytest.mark.oracle
def test_a_branch_may_give_what_is_around_or_stored() -> None:
    flag, x = ops.variable("flag", (), "bool"), ops.variable("x", (2,))
    y = ops.if_(flag, lambda: x, lambda: ops.constant(np.array([7, 8], F1)))
    model = written(Graph({"y": y}))
    given = np.array([1, 2], F1)
    np.testing.assert_array_equal(run(model, flag=np.array(True), x=given)[0], given)
    np.testing.assert_array_equal(run(model, flag=np.array(False), x=given)[0], [7, 8])


@pytest.mark.oracle
def test_loops_and_nested_bodies() -> None:
    x, n = ops.variable("x", (2,)), ops.variable("n", (), "int64")
    factor = ops.exp(x)

    def step(i: Any, total: Any) -> Any:
        even = ops.equal(ops.mod(i, 2), 0)
        return total + ops.if_(even, lambda: factor * 2.0, lambda: total + x)

    model = written(Graph({"y": ops.loop(n, None, step, x)}))
    given = np.array([0.5, -1], F1)
    wanted = given.copy()
    for i in range(4):
        wanted = wanted + (np.exp(given) * 2 if i % 2 == 0 else wanted + given)
    got = run(model, x=given, n=np.array(4, np.int64))[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.oracle
def test_one_body_in_two_places() -> None:
    x = ops.variable("x", (3, 2))

    def step(state: Any, row: Any) -> Any:
        return state + row, state * row

    start = np.zeros(2, F1)
    first, rows = ops.scan(step, [start], [x])
    second, more = ops.scan(step, [first], [rows])
    model = written(Graph({"second": second, "more": more}))
    assert len(set(all_names(model.graph))) == len(all_names(model.graph))
    given = np.arange(6, dtype=F1).reshape(3, 2)

    def plain(state: Array, items: Array) -> tuple[Array, Array]:
        made = []
        for row in items:
            made.append(state * row)
            state = state + row
        return state, np.array(made)

    wanted = plain(*plain(start, given))
    for got, want in zip(run(model, x=given), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_body_asks_for_a_newer_opset() -> None:
    flag, x = ops.variable("flag", (), "bool"), ops.variable("x", (2,))
    y = ops.if_(flag, lambda: ops.gelu(x), lambda: x)
    model = written(Graph(y))
    assert model.opset_import[0].version == 20


# -- from files --------------------------------------------------------------------------------
def branch(name: str, *nodes: Any, out: str, stored: Any = ()) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [value(out, None)], stored)


@pytest.mark.oracle
def test_outer_names_of_a_file() -> None:
    """Captures of outer values, weights and constants, an unsorted body, four bodies deep."""
    deep = branch("d", node("Add", ["x", "w"], ["d0"]), out="d0")
    for i in range(1, 4):
        deep = branch(
            f"b{i}",
            node("Mul", [f"i{i}", f"c{i}"], [f"d{i}"]),
            node("If", ["flag"], [f"i{i}"], then_branch=deep, else_branch=branch("e", out="x")),
            out=f"d{i}",
            stored=[numpy_helper.from_array(np.array(i + 1, F1), f"c{i}")],
        )
    nodes = [
        node("If", ["flag"], ["r"], else_branch=branch("e2", out="x"), then_branch=deep),
        node("Add", ["r", "x"], ["y"]),
    ]
    ends = [value("flag", (), TensorProto.BOOL), value("x")], [value("y", None)]
    stored = [numpy_helper.from_array(np.array([10, 20], F1), "w")]
    model = model_of(nodes, *ends, stored)
    graph = engine.to_symbolic(model)
    assert sorted(s.name for s in graph["r"].node.captures) == ["flag", "w", "x"]
    assert [s.name for s in graph.weights] == ["w"]
    assert graph["y"].shape == (2,)
    again = written(graph)
    given = np.array([1, 2], F1)  # onnxruntime does not take a branch that gives an outer value
    w = np.array([10, 20], F1)
    for truth, wanted in [(True, (given + w) * 24 + given), (False, given * 2)]:
        np.testing.assert_array_equal(run(again, flag=np.array(truth), x=given)[0], wanted)


def test_constants_around_are_known_inside() -> None:
    inside = branch("b", node("Reshape", ["x", "shape"], ["s"]), out="s")
    nodes = [node("If", ["flag"], ["y"], then_branch=inside, else_branch=inside)]
    model = model_of(
        nodes,
        [value("flag", (), TensorProto.BOOL), value("x", (6,))],
        [value("y", None)],
        [numpy_helper.from_array(np.array([2, 3], np.int64), "shape")],
    )
    graph = engine.to_symbolic(model)
    assert graph["y"].shape == (2, 3)
    assert [t.name for t in written(graph).graph.initializer] == ["shape"]


@pytest.mark.oracle
def test_bodies_whose_inputs_have_no_types() -> None:
    def bare(*names: str) -> list[onnx.ValueInfoProto]:
        return [onnx.ValueInfoProto(name=n) for n in names]

    body = helper.make_graph(
        [
            node("Identity", ["go"], ["go_on"]),
            node("Add", ["state", "x"], ["next"]),
            node("Cast", ["i"], ["item"], to=TensorProto.FLOAT),
        ],
        "body",
        bare("i", "go", "state"),
        bare("go_on", "next", "item"),
    )
    nodes = [node("Loop", ["n", "", "x"], ["last", "items"], body=body)]
    model = model_of(
        nodes,
        [value("n", (), TensorProto.INT64), value("x")],
        [value("last", None), value("items", None)],
    )
    graph = engine.to_symbolic(model)
    given = {"n": np.array(3, np.int64), "x": np.array([1, 2], F1)}
    again = engine.of_symbolic(graph)
    assert engine.of_symbolic(engine.to_symbolic(again)) == again
    last, items = run(again, **given)
    np.testing.assert_array_equal(last, [4, 8])
    np.testing.assert_array_equal(items, [0, 1, 2])


def test_a_body_that_uses_what_nothing_gives() -> None:
    inside = branch("b", node("Relu", ["xx"], ["s"]), out="s")
    nodes = [node("If", ["flag"], ["y"], then_branch=inside, else_branch=inside)]
    ends = [value("flag", (), TensorProto.BOOL), value("x")], [value("y", None)]
    with pytest.raises(GraphError, match="uses 'xx', which nothing gives"):
        engine.to_symbolic(model_of(nodes, *ends))


def test_a_body_that_waits_for_its_own_node() -> None:
    inside = branch("b", node("Relu", ["y"], ["s"]), out="s")
    nodes = [node("If", ["flag"], ["y"], then_branch=inside, else_branch=inside)]
    with pytest.raises(GraphError, match=r"node 1 \(If\) depends on itself"):
        engine.to_symbolic(
            model_of(nodes, [value("flag", (), TensorProto.BOOL)], [value("y", None)])
        )
