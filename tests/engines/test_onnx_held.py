"""What graphs of files hold: leaves, names, types of values; loaded, run, written, run again."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import F1, model_of, node, run, tensor, value

import neuralsym
from neuralsym.core.graph import Graph
from neuralsym.engines import onnx as engine
from neuralsym.errors import GraphError, InputError, NeuralsymError


# -- leaves ------------------------------------------------------------------------------------
def test_leaves_as_outputs() -> None:
    """An input, an overridable input, a weight and a constant are outputs, by their own names."""
    stored = [tensor("w", [1, 2]), tensor("c", 3, np.int64), tensor("d", [5, 6])]
    outputs = [value("x"), value("d"), value("w"), value("c", (), 7)]
    results = run(model_of([], [value("x"), value("d")], outputs, stored), {"x": np.ones(2, F1)})
    assert {k: v.tolist() for k, v in results.items()} == {
        "x": [1, 1], "d": [5, 6], "w": [1, 2], "c": 3,
    }  # fmt: skip


def test_what_nothing_uses() -> None:
    nodes = [
        node("Relu", ["x"], ["y"]),
        node("Split", ["x"], ["", "b"], axis=0, num_outputs=2),
        node("Neg", ["lost"], ["dead"]),
        node("Abs", ["unused"], ["lost"]),
    ]
    inputs = [value("x"), value("unused", ("K", 3)), value("w")]
    stored = [tensor("w", [1, 2]), tensor("alone", [1.0])]
    model = model_of(nodes, inputs, [value("y")], stored)
    feeds = {"x": np.array([-1, 2], F1), "unused": np.zeros((0, 3), F1)}
    assert run(model, feeds)["y"].tolist() == [0, 2]
    graph = engine.to_symbolic(model)
    assert graph.input_names == ("x", "unused", "w")
    assert [n.op_type for n in graph.nodes if n.inputs] == ["Relu"]


def test_a_graph_without_inputs() -> None:
    nodes = [node("ConstantOfShape", ["s"], ["y"]), node("Add", ["w", "w"], ["z"])]
    stored = [tensor("s", [2, 0], np.int64), tensor("w", 2.5)]
    results = run(model_of(nodes, [], [value("y", (2, 0)), value("z", ())], stored))
    assert results["y"].shape == (2, 0)
    assert results["z"] == 5


@pytest.mark.parametrize("ir", [3, 4, 8])
def test_weights_that_are_inputs(ir: int) -> None:
    nodes = [node("Mul", ["x", "w"], ["y"])]
    model = model_of(nodes, [value("x"), value("w")], [value("y")], [tensor("w", [2, 3])], ir=ir)
    given = {"x": np.ones(2, F1)}
    assert run(model, given)["y"].tolist() == [2, 3]
    changed = {**given, "w": np.array([5, 6], F1)}
    if ir == 3:
        with pytest.raises(InputError, match="no input 'w'"):
            run(model, changed)
    else:
        assert run(model, changed)["y"].tolist() == [5, 6]


def test_sparse_initializers_and_those_of_bodies() -> None:
    sparse = helper.make_sparse_tensor(tensor("s", [3, 4]), tensor("", [0, 2], np.int64), [3])
    inner = helper.make_graph(
        [node("Add", ["x", "s"], ["t0"]), node("Mul", ["t0", "own"], ["t"])], "b", [],
        [value("t", (3,))], [tensor("own", [1, 2, 3])],
    )  # fmt: skip
    inside = helper.make_sparse_tensor(tensor("u", [9]), tensor("", [[1]], np.int64), [3])
    other = helper.make_graph([node("Add", ["x", "u"], ["e"])], "c", [], [value("e", (3,))])
    other.sparse_initializer.append(inside)
    nodes = [node("If", ["flag"], ["y"], then_branch=inner, else_branch=other)]
    inputs = [value("x", (3,)), value("flag", (), 9)]
    model = model_of(nodes, inputs, [value("y", (3,))], sparse_initializer=[sparse])
    x = np.ones(3, F1)
    assert run(model, {"x": x, "flag": np.array(True)})["y"].tolist() == [4, 2, 15]
    assert run(model, {"x": x, "flag": np.array(False)})["y"].tolist() == [1, 10, 1]


def test_weights_of_bodies_are_weights_of_the_whole() -> None:
    """Those of both branches are called alike, and as a value outside."""

    def branch(number: float) -> onnx.GraphProto:
        inside = [node("Add", ["x", "w"], ["t"])]
        return helper.make_graph(inside, "b", [], [value("t")], [tensor("w", [number, number])])

    nodes = [
        node("If", ["flag"], ["i"], then_branch=branch(1), else_branch=branch(2)),
        node("Neg", ["i"], ["w_1"]),
    ]
    model = model_of(nodes, [value("x"), value("flag", (), 9)], [value("w_1")])
    for flag, wanted in ((True, -1), (False, -2)):
        feeds = {"x": np.zeros(2, F1), "flag": np.array(flag)}
        assert run(model, feeds)["w_1"].tolist() == [wanted, wanted]
    network = neuralsym.load(model)
    assert {k: v.tolist() for k, v in network.weights.items()} == {"w": [2, 2], "w_2": [1, 1]}
    network.set_weight("w", [5, 5])
    assert network.run(feeds)["w_1"].tolist() == [-5, -5]


def test_sizes_of_zero_and_numbers_without_dimensions() -> None:
    nodes = [
        node("Concat", ["x", "none"], ["c"], axis=0),
        node("ReduceSum", ["none"], ["s"], keepdims=0),
        node("Add", ["n", "s"], ["a"]),
        node("MatMul", ["left", "right"], ["m"]),
    ]
    stored = [
        *(tensor("none", np.zeros((0, 2))), tensor("n", 4.0)),
        *(tensor("left", np.zeros((3, 0))), tensor("right", np.zeros((0, 2)))),
    ]
    outputs = [value("c", ("M", 2)), value("a", ()), value("m", (3, 2))]
    for rows in (0, 2):
        given = {"x": np.ones((rows, 2), F1)}
        results = run(model_of(nodes, [value("x", ("N", 2))], outputs, stored), given)
        assert results["c"].shape == (rows, 2)
        assert results["a"] == 4
        assert results["m"].tolist() == [[0, 0]] * 3


# -- names -------------------------------------------------------------------------------------
ODD = [
    *('{"name": ["probs", 1]}', "a b", "größe/ß", "model/dense:0", "0", "12.weight", "-1"),
    *(
        "None",
        "True",
        "x" * 5000,
        "\n\t",
        " ",
        "'",
        '"',
        "\\",
        "%s{}",
        "../up",
        "日本語",
        "e\u0301",
    ),
    *("neuralsym", "add", "add_1", "graph", "_", "输出"),
]


def test_names_of_every_kind() -> None:
    nodes = [
        node("Add", ["x" if i == 0 else ODD[i - 1], "w"], [name], name)
        for i, name in enumerate(ODD)
    ]
    outputs = [value(name) for name in ODD]
    results = run(
        model_of(nodes, [value("x")], outputs, [tensor("w", 1.0)]), {"x": np.zeros(2, F1)}
    )
    assert {k: v.tolist() for k, v in results.items()} == {
        name: [i + 1.0] * 2 for i, name in enumerate(ODD)
    }


def test_nodes_that_share_a_name_or_have_that_of_a_value() -> None:
    nodes = [
        node("Neg", ["x"], ["a"], "same"),
        node("Abs", ["a"], ["b"], "same"),
        node("Exp", ["b"], ["y"], "x"),
        node("Sqrt", ["y"], ["same"], ""),
    ]
    results = run(model_of(nodes, [value("x")], [value("same")]), {"x": np.zeros(2, F1)})
    assert results["same"].tolist() == [1, 1]


def test_a_body_with_names_of_the_graph_around() -> None:
    """What the checker refuses and some exporters write: each name counts where it stands."""
    then = helper.make_graph([node("Neg", ["x"], ["a"])], "b", [], [value("a")])
    nodes = [
        node("Add", ["x", "x"], ["a"]),
        node("If", ["flag"], ["c"], then_branch=then, else_branch=then),
        node("Add", ["a", "c"], ["y"]),
    ]
    model = model_of(nodes, [value("x"), value("flag", (), 9)], [value("y")])
    results = run(model, {"x": np.ones(2, F1), "flag": np.array(True)})
    assert results["y"].tolist() == [1, 1]


# -- sequences, optionals, maps, strings -------------------------------------------------------
def test_inputs_of_every_kind_of_type() -> None:
    tensor_type = helper.make_tensor_type_proto(1, ["N"])
    sequence = helper.make_sequence_type_proto(tensor_type)
    optional = helper.make_optional_type_proto(tensor_type)
    nodes = [
        node("SequenceAt", ["s", "one"], ["a"]),
        node("OptionalHasElement", ["o"], ["has"]),
        node("Equal", ["t", "t"], ["same"]),
        node("SequenceLength", ["s"], ["n"]),
        node("StringNormalizer", ["word"], ["upper"], case_change_action="UPPER"),
    ]
    inputs = [
        helper.make_value_info("s", sequence), helper.make_value_info("o", optional),
        value("t", ("K",), TensorProto.STRING),
    ]  # fmt: skip
    outputs = [
        value("a", ("N",)), value("has", (), 9), value("same", ("K",), 9), value("n", (), 7),
        value("upper", (2,), 8), helper.make_value_info("s", sequence),
    ]  # fmt: skip
    words = helper.make_tensor("word", TensorProto.STRING, [2], ["ab", "größe"])
    stored = [tensor("one", 1, np.int64), words]
    feeds = {
        "s": [np.ones(2, F1), np.zeros(3, F1)],
        "o": None,
        "t": np.array(["a", "日本"], object),
    }
    results = run(model_of(nodes, inputs, outputs, stored), feeds)
    assert results["a"].tolist() == [0, 0, 0]
    assert not results["has"]
    assert results["same"].tolist() == [True, True]
    assert results["n"] == 2
    assert results["upper"].tolist() == ["AB", "GRÖSSE"]
    assert [v.tolist() for v in results["s"]] == [[1, 1], [0, 0, 0]]
    assert run(model_of(nodes, inputs, outputs, stored), {**feeds, "o": np.ones(1, F1)})["has"]


def test_names_that_are_empty_are_refused_where_something_needs_them() -> None:
    ends = [value("x")], [value("y")]
    relu = [node("Relu", ["x"], ["y"])]
    with pytest.raises(GraphError, match="an input has no name"):
        engine.to_symbolic(model_of(relu, [value("x"), value("")], [value("y")]))
    with pytest.raises(GraphError, match="an initializer has no name"):
        engine.to_symbolic(model_of(relu, *ends, [tensor("", [1.0])]))
    with pytest.raises(NeuralsymError, match=r"its input .* is missing|takes 1 inputs"):
        engine.to_symbolic(model_of([node("Relu", [""], ["y"])], *ends))
    graph = engine.to_symbolic(model_of([node("Relu", ["x"], ["y"], "")], *ends))
    assert isinstance(graph, Graph)
    with pytest.raises(GraphError, match="output"):
        engine.to_symbolic(model_of(relu, [value("x")], [value("y"), value("")]))
