"""Graphs: reading, changing, naming; nothing of one graph changes another."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_weight
from neuralsym.core.scope import Scope, scope
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType
from neuralsym.errors import GraphError, TypeMismatch, WeightsError


def small() -> Graph:
    x = ops.variable("x", ("N", 4))
    hidden = ops.relu(x @ make_weight(Tensor.of(np.ones((4, 4), np.float32)), name="w"))
    return Graph({"y": ops.sin(hidden) + hidden, "hidden": hidden}, name="small")


# -- symbols and nodes -------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["name", "type", "node", "index", "shape", "label", "anything"])
def test_symbols_are_read_only(name: str) -> None:
    x = ops.variable("x")
    with pytest.raises(AttributeError):
        setattr(x, name, 1)
    with pytest.raises(AttributeError):
        setattr(x.node, name, 1)
    with pytest.raises(AttributeError):
        del x.type


def test_attributes_of_a_node_are_read_only() -> None:
    node = ops.softmax(ops.variable("x", (3,)), axis=0).node
    with pytest.raises(TypeError):
        node.attrs["axis"] = 1  # type: ignore[index]


def test_symbols_are_keys_by_identity_and_copies_of_themselves() -> None:
    x = ops.variable("x", (3,))
    a, b = ops.relu(x), ops.relu(x)
    assert len({a, b, a}) == 2
    assert copy.deepcopy(a) is a
    assert copy.copy(a.node) is a.node
    with pytest.raises(TypeError, match="as part of its Graph"):
        pickle.dumps(a)


def test_a_symbol_has_no_name_before_its_graph() -> None:
    y = ops.relu(ops.variable("x", (3,)))
    line = "test_graph.py:"
    with pytest.raises(GraphError, match=f"this Relu has no name yet(.|\n)*{line}"):
        _ = y.name
    Graph(y)
    assert y.name == "relu"
    assert ops.relu(y, name="mine").name == "mine"


# -- traversal ---------------------------------------------------------------------------------
def test_nodes_come_after_what_they_need() -> None:
    graph = small()
    place = {node: i for i, node in enumerate(graph.nodes)}
    for node in graph:
        assert all(place[s.node] < place[node] for s in node.operands)
    assert len(graph) == len(graph.nodes) == 6


def test_users_find_and_names() -> None:
    graph = small()
    hidden = graph["hidden"]
    assert {n.op_type for n in graph.users[hidden]} == {"Sin", "Add"}
    assert graph.users[graph["y"]] == ()
    assert [n.op_type for n in graph.find("Relu")] == ["Relu"]
    assert graph.find(ops.add(1.0, 2.0).node.op) == [graph["y"].node]
    assert graph.find(lambda n: len(n.inputs) == 2) == [graph["matmul"].node, graph["y"].node]
    assert "hidden" in graph
    assert "nothing" not in graph
    with pytest.raises(GraphError, match="did you mean 'hidden'"):
        _ = graph["hiden"]
    assert graph.output_names == ("y", "hidden")
    assert graph.input_names == ("x",)
    assert graph.value_name(hidden) == "hidden"
    assert [s.name for s in graph.weights] == ["w"]


def test_an_unused_input_is_kept_and_order_is_the_users() -> None:
    a, b, c = (ops.variable(n) for n in "abc")
    graph = Graph(c + a, inputs=[b, a])
    assert graph.input_names == ("b", "a", "c")


def test_several_outputs_of_a_node() -> None:
    values, indices = ops.top_k(ops.variable("x", (5,)), [2])
    graph = Graph((values, indices))
    assert graph.output_names == ("top_k", "top_k:1")
    assert graph["top_k:1"] is indices
    assert indices.outputs == (values, indices)
    assert Graph({"best": values, "where": indices}).output_names == ("best", "where")


def test_outputs_must_be_symbols_and_inputs_variables() -> None:
    x = ops.variable("x")
    with pytest.raises(GraphError, match="an output of a graph is a Symbol, not ndarray"):
        Graph([np.zeros(3)])  # type: ignore[list-item]
    with pytest.raises(GraphError, match="an input of a graph is a variable, not Relu"):
        Graph(x, inputs=[ops.relu(x)])


# -- names -------------------------------------------------------------------------------------
def test_automatic_names_count_by_kind() -> None:
    def build() -> Graph:
        x = ops.variable("x", (3,))
        return Graph(ops.relu(ops.relu(ops.sin(ops.relu(x)))))

    names = list(build().names.values())
    assert names == ["x", "relu", "sin", "relu_1", "relu_2"]
    assert list(build().names.values()) == names


def test_counting_steps_around_the_users_names() -> None:
    x = ops.variable("relu", (3,))
    y = ops.relu(ops.relu(x), name="relu_1")
    assert set(Graph(ops.relu(y)).names.values()) == {"relu", "relu_2", "relu_1", "relu_3"}


def test_a_name_given_twice_is_refused_with_both_lines() -> None:
    x = ops.variable("x", (3,))
    y = ops.relu(x, name="same")
    z = ops.sin(y, name="same")
    with pytest.raises(GraphError) as error:
        Graph(z)
    lines = [int(n) for n in re.findall(r"test_graph\.py:(\d+)", str(error.value))]
    assert len(lines) == 2
    assert lines[1] == lines[0] + 1
    assert "to Relu and to Sin" in str(error.value)


def test_output_names() -> None:
    x = ops.variable("x", (3,))
    y = ops.relu(x, name="act")
    with pytest.raises(GraphError, match="has the name of another node"):
        Graph({"act": ops.sin(y)})
    assert Graph({"act": y}).aliases == (None,)
    graph = Graph({"relu": ops.sin(ops.relu(x))})  # an automatic name gives way
    assert graph.output_names == ("relu",)
    assert set(graph.names.values()) == {"x", "relu_1", "sin"}
    assert Graph((y, y)).output_names == ("act", "act_1")


def test_scopes_name_what_is_inside() -> None:
    x = ops.variable("x", (3,))
    with scope("stem"):
        y = ops.relu(x)
        with scope(kind="block"):
            z = ops.sin(y, name="inner")
        with scope(kind="block"):
            z = ops.sin(z, name="inner")
    names = list(Graph(z).names.values())
    assert names == ["x", "stem/relu", "stem/block/inner", "stem/block_1/inner"]


def test_the_result_of_a_scope_has_the_scopes_name() -> None:
    x = ops.variable("x", (3,))
    results = []
    for name in (None, "mine", None):
        with scope(name, kind="dense") as inside:
            x = ops.relu(ops.sin(x))
            inside.result = x.node
        results.append(x)
    names = Graph(x).names
    assert [names[s.node] for s in results] == ["dense", "mine", "dense_1"]
    again = Scope("dense", "mine")
    twice = Node(x.node.op, (x,), {}, (x.type,), scope=again)
    again.result = twice
    with pytest.raises(GraphError, match="'mine' is given twice"):
        Graph(twice.outputs[0])


def test_names_of_one_graph_do_not_depend_on_another() -> None:
    x = ops.variable("x", (3,))
    y = ops.relu(x)
    first = Graph(y)
    Graph(ops.relu(x) + y)
    assert first.names[y.node] == "relu"


# -- changing ----------------------------------------------------------------------------------
def test_map_keeps_what_it_does_not_touch() -> None:
    graph = small()
    changed = graph.map(lambda n, i: ops.cos(i[0]).outputs if n.op_type == "Sin" else None)
    assert changed["hidden"] is graph["hidden"]
    assert changed["sin"].op_type == "Cos"
    assert changed.output_names == graph.output_names
    assert set(changed.names.values()) == set(graph.names.values())
    assert graph["sin"].op_type == "Sin"
    assert graph.map(lambda n, i: None) is graph


def test_map_names_what_is_new_beside_what_stays() -> None:
    graph = small()
    wrapped = graph.map(lambda n, i: ops.relu(n.outputs[0]).outputs if n.op_type == "Sin" else None)
    assert wrapped["sin"].op_type == "Sin"
    assert len(set(wrapped.names.values())) == len(wrapped)
    wrapped.check()


def test_replace() -> None:
    graph = small()
    x = ops.variable("x", (2, 4))
    made = graph.replace({graph["x"]: x})
    assert made["y"].shape == (2, 4)
    assert made.inputs == (x,)
    assert made.names[made["hidden"].node] == graph.names[graph["hidden"].node]
    assert graph["y"].shape != (2, 4)
    made.check()


def test_replacing_an_output_keeps_its_name() -> None:
    graph = small()
    made = graph.replace({graph["y"]: graph["hidden"]})
    assert made.output_names == ("y", "hidden")
    assert made.outputs[0] is made.outputs[1]


def test_a_user_named_node_may_be_rebuilt_beside_itself() -> None:
    x = ops.variable("x", (3,))
    y = ops.sin(x, name="kept")
    graph = Graph(ops.relu(y) + x)
    made = graph.replace({x: ops.neg(y)})
    assert len(set(made.names.values())) == len(made)


def test_subgraph_cut_in_the_middle() -> None:
    graph = small()
    part = graph.subgraph("y", inputs=["hidden"])
    assert part.input_names == ("hidden",)
    assert [n.op_type for n in part] == ["Variable", "Sin", "Add"]
    assert part.output_names == ("y",)
    assert str(part["hidden"].type) == "float32[N, 4]"
    whole = graph.subgraph(["hidden"])
    assert whole.input_names == ("x",)
    assert whole["hidden"] is graph["hidden"]
    with pytest.raises(GraphError, match="nothing called 'z'"):
        graph.subgraph("z")
    with pytest.raises(GraphError, match="is not in graph"):
        graph.subgraph(ops.sin(ops.variable("other")))


def test_subgraph_of_an_output_that_is_cut() -> None:
    graph = small()
    part = graph.subgraph("hidden", inputs=["hidden"])
    assert len(part) == 1
    assert part.outputs == part.inputs


def test_rename() -> None:
    graph = small()
    made = graph.rename({"x": "image", "y": "probs", "relu": "act"})
    assert made.input_names == ("image",)
    assert made.output_names == ("probs", "hidden")
    assert made["act"] is graph["hidden"]
    assert made.outputs == graph.outputs
    assert graph.input_names == ("x",)
    with pytest.raises(GraphError, match="'w' is taken"):
        graph.rename({"x": "w"})
    with pytest.raises(GraphError, match="nothing called"):
        graph.rename({"nothing": "something"})
    swapped = graph.rename({"x": "w", "w": "x"})
    assert swapped.input_names == ("w",)


def test_with_weights() -> None:
    graph = small()
    value = Tensor.of(np.full((4, 4), 2, np.float32))
    made = graph.with_weights({"w": value})
    assert made["w"].attrs["value"] is value
    assert graph["w"].attrs["value"] is not value
    assert made.names[made["w"].node] == "w"
    with pytest.raises(WeightsError, match=r"'w' is float32\[4, 4\]"):
        graph.with_weights({"w": Tensor.of(np.zeros(3, np.float32))})


def test_updates() -> None:
    count = ops.variable("count", init=np.float32(0))
    x = ops.variable("x")
    graph = Graph(x, updates={count: count + 1.0})
    assert graph.input_names == ("x", "count")
    assert list(graph.updates) == [count]
    made = pickle.loads(pickle.dumps(graph))
    assert str(made) == str(graph)
    doubled = graph.map(lambda n, i: ops.mul(*i).outputs if n.op_type == "Add" else None)
    assert next(iter(doubled.updates.values())).op_type == "Mul"
    doubled.check()


# -- checking ----------------------------------------------------------------------------------
def broken(node: Node, **changes: Any) -> Symbol:
    given = {
        "op": node.op,
        "inputs": node.inputs,
        "attrs": node.attrs,
        "types": tuple(s.type for s in node.outputs),
        **changes,
    }
    return Node(**given).outputs[0]


def test_check_finds_a_wrong_type() -> None:
    graph = small()
    assert graph.check() is graph
    sine = graph["sin"].node
    bad = broken(sine, types=(ops.variable("v", (7, 4, 1)).type,))
    with pytest.raises(GraphError, match=r"Sin.* says float32\[7, 4, 1\], its inputs say"):
        Graph(bad).check()


def test_check_finds_an_order_that_cannot_be() -> None:
    graph = small()
    graph.nodes = graph.nodes[::-1]
    with pytest.raises(GraphError, match="before it is made"):
        graph.check()


# -- copies ------------------------------------------------------------------------------------
def test_copies_are_equal_and_apart() -> None:
    graph = small()
    for made in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph)), graph.copy()):
        assert str(made) == str(graph)
        assert not set(made.nodes) & set(graph.nodes)
        assert made.check() is made
        assert [n.where for n in made] == [n.where for n in graph]
        # A graph made anew of its symbols has the same names again.
        assert (
            str(Graph(dict(zip(made.output_names, made.outputs, strict=True)))).splitlines()[1:]
            == str(Graph(dict(zip(graph.output_names, graph.outputs, strict=True)))).splitlines()[
                1:
            ]
        )


def test_copying_draws_nothing() -> None:
    def never() -> Any:
        raise AssertionError("drawn")

    weight = make_weight(Tensor(NumberType.FLOAT32, (3,), never), name="lazy")
    graph = Graph(weight + 1.0)
    assert "lazy" in str(graph.copy())


# -- Python's operators ------------------------------------------------------------------------
def test_numbers_and_arrays_take_the_type_of_their_partner() -> None:
    x, i = ops.variable("x", (2, 3)), ops.variable("i", (3,), "int64")
    u = ops.variable("u", (3,), "uint8")
    assert (x + 1).dtype == (1 - x).dtype == (x * np.ones(3)).dtype == "float32"
    assert (np.ones((2, 3), np.float32) / x).op_type == "Div"
    assert (x + np.float64(0.5)).dtype == "float32"
    assert (i + 2).dtype == (2 // i).dtype == "int64"
    assert (u + 200).dtype == "uint8"
    for bad in (
        lambda: i + 0.5,
        lambda: i * 2.0,
        lambda: u + 300,
        lambda: u - (-1),
        lambda: x + 1j,
    ):
        with pytest.raises(TypeMismatch, match="no value of"):
            bad()
    with pytest.raises(TypeMismatch, match=r"array\.astype"):
        _ = x + np.ones(3, np.int32)
    with pytest.raises(TypeMismatch, match="neither a Symbol nor a number"):
        _ = x + object()  # type: ignore[operator]
    with pytest.raises(TypeMismatch):
        _ = x + "text"


def test_what_symbols_are_not() -> None:
    x = ops.variable("x", ("N", 3))
    for bad in (lambda: bool(x > 0), lambda: len(x), lambda: float(x), lambda: list(x)):
        with pytest.raises(TypeMismatch, match=r"test_graph\.py"):
            bad()
    assert [s.shape for s in ops.variable("y", (2, 3))] == [(3,), (3,)]


def test_or_applies_functions_and_combines_booleans() -> None:
    x, b = ops.variable("x", (3,)), ops.variable("b", (3,), "bool")
    i = ops.variable("i", (3,), "int32")
    assert (x | ops.relu).op_type == "Relu"
    assert (x | (lambda v: "anything")) == "anything"
    assert (b | b).op_type == (b | True).op_type == "Or"
    assert (i | 1).op_type == "BitwiseOr"
    assert (~b).op_type == "Not"
    assert (~i).op_type == "BitwiseNot"
    with pytest.raises(TypeMismatch, match=r"write \(x \| f\) \+ y"):
        _ = x | ops.relu + x  # type: ignore[operator]


def test_an_error_names_the_users_line() -> None:
    x = ops.variable("x", (2, 3))
    with pytest.raises(Exception, match=r"Add\(A: float32\[2, 3\], B: float32\[4\]\)") as error:
        _ = x + np.zeros(4, np.float32)
    assert f"at {__file__}:{error.tb.tb_lineno}" in str(error.value)


@pytest.mark.parametrize(
    "index",
    [0, -1, slice(1, 3), slice(None, None, -1), (0, 1), (slice(None), 0), (..., 0), (None, 0),
     (0, None), (..., None), (slice(0, -1), ..., -2), ([0, 2],), np.array([1, 0]), (slice(5, 1),)],
)  # fmt: skip
def test_indexing_is_numpys(index: Any) -> None:
    from neuralsym.ops.evaluate import evaluate_graph

    value = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    x = ops.variable("x", value.shape)
    y = x[index]
    (result,) = evaluate_graph(Graph(y), {x: value})
    expected = value[index]
    assert y.shape == expected.shape
    np.testing.assert_array_equal(result, expected)  # type: ignore[arg-type]
