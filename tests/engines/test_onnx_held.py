"""What else a file can hold, loaded, run, written and run again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import neuralsym
from neuralsym.core.graph import Graph
from neuralsym.core.model import Model
from neuralsym.engines import onnx as engine
from neuralsym.errors import FormatError, GraphError, InputError, NeuralsymError

F1 = np.float32
node = helper.make_node


def value(name: str, shape: Sequence[int | str | None] | None = (2,), kind: int = 1) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def tensor(name: str, array: Any, dtype: Any = F1) -> TensorProto:
    return numpy_helper.from_array(np.asarray(array, dtype), name)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    stored: Sequence[TensorProto] = (),
    opset: int = 18,
    ir: int = 8,
    **more: Any,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored, **more)
    return helper.make_model(graph, ir_version=ir, opset_imports=[helper.make_opsetid("", opset)])


def run(source: Any, feeds: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The outputs, the same again from the file that is written of what was read."""
    network = neuralsym.load(source)
    results = network.run(dict(feeds or {}))
    written = engine.of_symbolic(network.model)
    onnx.checker.check_model(written, full_check=True)
    again = neuralsym.load(written.SerializeToString())
    assert [str(p) for p in again.inputs] == [str(p) for p in network.inputs]
    for name, other in again.run(dict(feeds or {})).items():
        assert str(other) == str(results[name])
    assert engine.of_symbolic(again.model) == written
    return results


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
    words = helper.make_tensor("word", TensorProto.STRING, [2], ["ab", "c d"])
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
    assert results["upper"].tolist() == ["AB", "C D"]
    assert [v.tolist() for v in results["s"]] == [[1, 1], [0, 0, 0]]
    assert run(model_of(nodes, inputs, outputs, stored), {**feeds, "o": np.ones(1, F1)})["has"]


# -- functions ---------------------------------------------------------------------------------
def function(
    name: str, inputs: Any, outputs: Any, nodes: Any, opset: int | None = 18, **more: Any
) -> onnx.FunctionProto:
    imports = [helper.make_opsetid("", opset)] if opset else []
    return helper.make_function(
        "my", name, inputs, outputs, nodes, [*imports, helper.make_opsetid("my", 1)], **more
    )


def refers(made: onnx.NodeProto, name: str, kind: int, to: str) -> onnx.NodeProto:
    made.attribute.append(onnx.AttributeProto(name=name, type=kind, ref_attr_name=to))
    return made


def with_functions(model: onnx.ModelProto, *functions: onnx.FunctionProto) -> onnx.ModelProto:
    model.functions.extend(functions)
    model.opset_import.add(domain="my", version=1)
    return model


def call(name: str, inputs: Any, outputs: Any, **attrs: Any) -> onnx.NodeProto:
    return node(name, inputs, outputs, domain="my", **attrs)


def test_defaults_of_attributes_through_several_functions() -> None:
    leaky = refers(node("LeakyRelu", ["p"], ["q"]), "alpha", 1, "slope")
    inner = function("Inner", ["p"], ["q"], [leaky], attribute_protos=[
        helper.make_attribute("slope", 0.25),
    ])  # fmt: skip
    handed = refers(call("Inner", ["p"], ["q"]), "slope", 1, "mine")
    outer = function("Outer", ["p"], ["q"], [handed], attributes=["mine"])
    nodes = [
        call("Inner", ["x"], ["default"]),
        call("Inner", ["x"], ["given"], slope=0.5),
        call("Outer", ["x"], ["handed"], mine=0.75),
        call("Outer", ["x"], ["unset"]),
    ]
    outputs = [value(n) for n in ("default", "given", "handed", "unset")]
    model = with_functions(model_of(nodes, [value("x")], outputs), inner, outer)
    results = run(model, {"x": np.array([-1, 1], F1)})
    assert {k: v[0] for k, v in results.items()} == {
        "default": -0.25, "given": -0.5, "handed": -0.75, "unset": -0.25,
    }  # fmt: skip


def test_overloads_and_names_that_hide_an_operator() -> None:
    one = function("F", ["p"], ["q"], [node("Neg", ["p"], ["q"])])
    two = function("F", ["p"], ["q"], [node("Exp", ["p"], ["q"])])
    two.overload = "other"
    own = function("Relu", ["p"], ["q"], [node("Abs", ["p"], ["q"])])
    own.domain = "ai.onnx"
    nodes = [
        call("F", ["x"], ["a"]),
        call("F", ["x"], ["b"], overload="other"),
        node("Relu", ["x"], ["c"]),
    ]
    outputs = [value(n) for n in "abc"]
    model = with_functions(model_of(nodes, [value("x")], outputs, ir=10), one, two, own)
    results = run(model, {"x": np.array([-1, -1], F1)})
    assert [round(float(results[n][0]), 3) for n in "abc"] == [1, 0.368, 1]
    model.functions.append(one)
    with pytest.raises(FormatError, match="'F' is given twice"):
        engine.to_symbolic(model)


def test_inputs_and_outputs_that_are_left_out() -> None:
    """An omitted input is omitted inside too; outputs that nobody asks for are not computed."""
    clip = function(
        "Between", ["p", "low", "high"], ["q", "r", "p"],
        [node("Clip", ["p", "low", "high"], ["q"]), node("NoSuch", ["p"], ["r"])],
    )  # fmt: skip
    nodes = [
        call("Between", ["x", "", "one"], ["a"]),
        call("Between", ["x", "one"], ["b", "", "c"]),
    ]
    outputs = [value(n) for n in "abc"]
    model = with_functions(model_of(nodes, [value("x")], outputs, [tensor("one", 1.0)]), clip)
    results = run(model, {"x": np.array([-2, 3], F1)})
    assert {k: v.tolist() for k, v in results.items()} == {
        "a": [-2, 1], "b": [1, 3], "c": [-2, 3],
    }  # fmt: skip
    nodes.append(call("Between", ["x"], ["", "d"]))
    model = with_functions(model_of(nodes, [value("x")], [value("d")]), clip)
    with pytest.raises(FormatError, match="NoSuch"):
        engine.to_symbolic(model)


@pytest.mark.parametrize("opset", [None, 11])
def test_functions_in_another_opset(opset: int | None) -> None:
    """Softmax of 11 is over all axes from the first; a function that says none has the model's."""
    soft = function("Soft", ["p"], ["q"], [node("Softmax", ["p"], ["q"])], opset)
    model = model_of([call("Soft", ["x"], ["y"])], [value("x", (1, 2, 2))], [value("y", None)])
    y = run(with_functions(model, soft), {"x": np.zeros((1, 2, 2), F1)})["y"]
    assert y.reshape(-1).tolist() == [0.25 if opset else 0.5] * 4


def test_bodies_inside_functions_and_functions_inside_bodies() -> None:
    """Attributes and inputs of a function are seen in the bodies inside of it."""
    leaky = refers(node("LeakyRelu", ["p"], ["t"]), "alpha", 1, "slope")
    then = helper.make_graph([leaky], "then", [], [value("t", None)])
    other = helper.make_graph([node("Add", ["p", "two"], ["e"])], "else", [], [value("e", None)])
    choose = function(
        "Choose", ["p", "flag"], ["q"],
        [
            node("Constant", [], ["two"], value_float=2.0),
            node("If", ["flag"], ["q"], then_branch=then, else_branch=other),
        ],
        attributes=["slope"],
    )  # fmt: skip
    step = helper.make_graph(
        [
            call("Choose", ["state", "odd"], ["next"], slope=0.5),
            node("Not", ["odd"], ["even"]),
            node("Identity", ["go"], ["on"]),
        ],
        "step",
        [value("i", (), 7), value("go", (), 9), value("state"), value("odd", (), 9)],
        [value("on", (), 9), value("next"), value("even", (), 9)],
    )
    nodes = [node("Loop", ["n", "", "x", "flag"], ["y", "last"], body=step)]
    inputs = [value("x"), value("flag", (), 9), value("n", (), 7)]
    model = with_functions(model_of(nodes, inputs, [value("y")]), choose)
    feeds = {"x": np.array([-4, 4], F1), "flag": np.array(True), "n": np.array(3)}
    assert run(model, feeds)["y"].tolist() == [0, 6]


def test_a_body_given_to_a_function() -> None:
    """Its outer names are those of the graph that calls, not of the function."""
    choose = function(
        "Choose", ["x", "flag"], ["q"],
        [refers(refers(node("If", ["flag"], ["q"]), "then_branch", 5, "a"), "else_branch", 5, "b")],
        attributes=["a", "b"],
    )  # fmt: skip
    nested = function(
        "Nested", ["x", "flag"], ["q"],
        [
            node("If", ["flag"], ["q"], else_branch=helper.make_graph(
                [node("Neg", ["x"], ["n"])], "e", [], [value("n", None)],
            ), then_branch=helper.make_graph(
                [refers(refers(call("Choose", ["x", "flag"], ["c"]), "a", 5, "a"), "b", 5, "b")],
                "t", [], [value("c", None)],
            )),
        ],
        attributes=["a", "b"],
    )  # fmt: skip
    one = helper.make_graph([node("Add", ["x", "z"], ["s"])], "one", [], [value("s")])
    two = helper.make_graph([node("Mul", ["z", "z"], ["m"])], "two", [], [value("m")])
    nodes = [
        node("Exp", ["x"], ["z"]),
        call("Choose", ["z", "flag"], ["y"], a=one, b=two),
        call("Nested", ["z", "flag"], ["w"], a=one, b=two),
    ]
    inputs, outputs = [value("x"), value("flag", (), 9)], [value("y"), value("w")]
    model = with_functions(model_of(nodes, inputs, outputs), choose, nested)
    x = np.zeros(2, F1)
    for flag, wanted in ((True, ([1, 1], [1, 1])), (False, ([1, 1], [-1, -1]))):
        results = run(model, {"x": x, "flag": np.array(flag)})
        assert (results["y"].tolist(), results["w"].tolist()) == wanted


def test_operators_of_onnx_that_are_functions() -> None:
    nodes = [node("Celu", ["x"], ["a"]), node("Gelu", ["a"], ["b"]), node("Mish", ["b"], ["y"])]
    model = model_of(nodes, [value("x")], [value("y")], opset=20)
    reference = onnx.reference.ReferenceEvaluator(model).run(None, {"x": np.array([-1, 2], F1)})
    got = run(model, {"x": np.array([-1, 2], F1)})["y"]
    np.testing.assert_allclose(got, reference[0], rtol=1e-5)


# -- bodies ------------------------------------------------------------------------------------
def test_outer_names_at_every_depth() -> None:
    """The innermost body of four uses a value of each graph around it."""
    names = ["x", "w"]
    deepest = helper.make_graph(
        [node("Sum", ["x", "w", "v1", "v2", "v3"], ["v4"])], "b4", [], [value("v4")]
    )
    body = deepest
    for depth in (3, 2, 1):
        other = helper.make_graph([node("Neg", [f"v{depth}"], [f"e{depth}"])], "e", [], [
            value(f"e{depth}"),
        ])  # fmt: skip
        flag = node("If", [f"f{depth}"], [f"r{depth}"], then_branch=body, else_branch=other)
        body = helper.make_graph(
            [flag, node("Add", [names[0], f"c{depth}"], [f"v{depth}"])][::-1], f"b{depth}", [],
            [value(f"r{depth}")], [tensor(f"c{depth}", float(10**depth))],
        )  # fmt: skip
    nodes = [node("If", ["f0"], ["y"], then_branch=body, else_branch=body)]
    flags = [f"f{i}" for i in range(4)]
    inputs = [value("x"), *(value(f, (), 9) for f in flags)]
    model = model_of(nodes, inputs, [value("y")], [tensor("w", [1, 2])])
    feeds = {"x": np.array([1, 1], F1), **{f: np.array(True) for f in flags}}
    assert run(model, feeds)["y"].tolist() == [1115, 1116]
    assert run(model, {**feeds, "f2": np.array(False)})["y"].tolist() == [-101, -101]


# -- what is said beside -----------------------------------------------------------------------
def annotated() -> onnx.ModelProto:
    made = node("Relu", ["x"], ["a"], "first", doc_string="rectifies")
    made.metadata_props.add(key="namespace", value="block")
    nodes = [made, node("Neg", ["a"], ["y"])]
    stored = [tensor("scale", 0.5), tensor("zero", 3, np.uint8)]
    model = model_of(nodes, [value("x")], [value("y")], stored, doc_string="the graph")
    model.graph.input[0].doc_string = "what comes"
    model.graph.output[0].doc_string = "what goes"
    model.graph.metadata_props.add(key="g", value="1")
    model.metadata_props.add(key="author", value="ü")
    model.doc_string, model.domain, model.model_version = "a model", "org.example", 7
    for name in ("a", "gone"):
        note = model.graph.quantization_annotation.add(tensor_name=name)
        for role, given in (("SCALE_TENSOR", "scale"), ("ZERO_POINT_TENSOR", "zero")):
            note.quant_parameter_tensor_names.add(key=role, value=given)
    return model


def test_descriptions_metadata_and_annotations_are_kept() -> None:
    model = annotated()
    made = engine.of_symbolic(engine.read_model(model))
    onnx.checker.check_model(made, full_check=True)
    assert (made.doc_string, made.domain, made.model_version) == ("a model", "org.example", 7)
    assert made.metadata_props == model.metadata_props
    assert made.graph.doc_string == "the graph"
    assert made.graph.metadata_props == model.graph.metadata_props
    assert made.graph.input[0].doc_string == "what comes"
    assert made.graph.output[0].doc_string == "what goes"
    assert made.graph.node[0].doc_string == "rectifies"
    assert made.graph.node[0].metadata_props == model.graph.node[0].metadata_props
    assert list(made.graph.quantization_annotation) == [model.graph.quantization_annotation[0]]
    assert {t.name for t in made.graph.initializer} == {"scale", "zero"}
    assert engine.of_symbolic(engine.read_model(made)) == made


def test_descriptions_that_are_no_text_hinder_nothing() -> None:
    whole = annotated().SerializeToString()
    for text in (b"a model", b"the graph", b"rectifies", b"namespace", b"block", b"what comes"):
        assert text in whole
        broken = engine.read_model(whole.replace(text, b"\xff" * len(text)))
        made = engine.of_symbolic(broken).SerializeToString()
        assert "\ufffd".encode() * len(text) in made


def test_notes_outlive_pickling_and_saving(tmp_path: Path) -> None:
    import pickle

    network = pickle.loads(pickle.dumps(neuralsym.load(annotated())))
    (path,) = network.save(tmp_path / "m.onnx")
    assert onnx.load(path).graph.doc_string == "the graph"
    plain = Model.of(network.graph)
    assert plain.notes.doc == ""
    assert not engine.of_symbolic(plain).graph.quantization_annotation


def test_an_annotation_of_values_that_are_computed() -> None:
    model = annotated()
    model.graph.node.append(node("Abs", ["scale"], ["computed"]))
    model.graph.output.append(value("computed", ()))
    note = model.graph.quantization_annotation[0]
    note.quant_parameter_tensor_names[0].value = "computed"
    note.quant_parameter_tensor_names[1].value = "nowhere"
    made = engine.of_symbolic(engine.read_model(model))
    (kept,) = made.graph.quantization_annotation
    assert [e.value for e in kept.quant_parameter_tensor_names] == ["computed"]


def test_steps_of_training_are_not_read() -> None:
    model = annotated()
    model.training_info.add()
    with pytest.warns(UserWarning, match="1 training graphs, which are not read"):
        graph = engine.to_symbolic(model)
    assert graph.output_names == ("y",)


def test_types_that_contradict_do_not_hinder_the_run() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Concat", ["a", "a"], ["y"], axis=0)]
    known = [value("a", (7, 7)), value("y", (4,), 7)]
    model = model_of(nodes, [value("x")], [value("y", (9,), 7)], value_info=known)
    with pytest.warns(UserWarning, match="contradict"):
        assert run(model, {"x": np.ones(2, F1)})["y"].tolist() == [1] * 4


# -- how real files are ------------------------------------------------------------------------
def test_a_batch_of_minus_one() -> None:
    """Some exporters write -1 for a size that is free; both inputs may differ in it."""
    x, y = value("x", (2, 3)), value("y", (2, 3))
    for made in (x, y):
        made.type.tensor_type.shape.dim[0].dim_value = -1
    nodes = [node("Relu", ["x"], ["a"]), node("Reshape", ["a", "shape"], ["y"])]
    stored = [tensor("shape", [-1, 3], np.int64)]
    for rows in (1, 4):
        feed = {"x": np.full((rows, 3), -1, F1)}
        assert run(model_of(nodes, [x], [y], stored), feed)["y"].shape == (rows, 3)


def test_results_that_are_no_numbers_by_design() -> None:
    nodes = [
        node("Log", ["x"], ["l"]),
        node("Div", ["x", "x"], ["d"]),
        node("Where", ["c", "x", "nan"], ["w"]),
        node("IsNaN", ["w"], ["n"]),
        node("Max", ["w", "x"], ["m"]),
    ]
    stored = [tensor("nan", np.nan)]
    outputs = [value(n) for n in "ldwm"] + [value("n", (2,), 9)]
    model = model_of(nodes, [value("x"), value("c", (2,), 9)], outputs, stored)
    results = run(model, {"x": np.array([-1, 0], F1), "c": np.array([True, False])})
    assert str(results["l"]) == "[ nan -inf]"
    assert str(results["d"]) == "[ 1. nan]"
    assert str(results["w"]) == "[-1. nan]"
    assert str(results["m"]) == "[-1. nan]"
    assert results["n"].tolist() == [False, True]


def network_of(opset: int) -> tuple[onnx.ModelProto, np.ndarray[Any, Any]]:
    """A small image classifier as frameworks wrote it in opsets 9 to 12, and the images."""
    rng = np.random.default_rng(3)
    stored = [
        tensor("w", rng.standard_normal((4, 2, 3, 3)) / 4), tensor("b", rng.standard_normal(4)),
        *(tensor(n, rng.uniform(0.5, 1.5, 4)) for n in ("gamma", "beta", "mean", "var")),
        tensor("fc", rng.standard_normal((3, 64)) / 8), tensor("fcb", rng.standard_normal(3)),
        tensor("scales", [1, 1, 2, 2]), tensor("roi", np.zeros(0)),
    ]  # fmt: skip
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
        node("BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["n"]),
        node("Clip", ["n"], ["k"], min=0.0, max=6.0)
        if opset < 11
        else node("Clip", ["n", "zero", "six"], ["k"]),
        node("Dropout", ["k"], ["o", ""], ratio=0.4)
        if opset < 12
        else node("Dropout", ["k"], ["o"]),
        node("AveragePool", ["o"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Upsample", ["p", "scales"], ["u"], mode="nearest")
        if opset < 10
        else node("Resize", ["p", "scales"] if opset < 11 else ["p", "roi", "scales"], ["u"]),
        node("Pad", ["u"], ["q"], pads=[0, 0, 1, 0, 0, 0, 0, 1])
        if opset < 11
        else node("Pad", ["u", "pads"], ["q"]),
        node("Slice", ["q"], ["v"], starts=[1, 0], ends=[5, 4], axes=[2, 3])
        if opset < 10
        else node("Slice", ["q", "starts", "ends", "axes"], ["v"]),
        node("Unsqueeze", ["v"], ["t"], axes=[0]),
        node("Squeeze", ["t"], ["s"], axes=[0]),
        node("Flatten", ["s"], ["f"]),
        node("Gemm", ["f", "fc", "fcb"], ["g"], transB=1),
        node("Softmax", ["g"], ["y"]),
    ]
    stored += [
        tensor("zero", 0.0), tensor("six", 6.0), tensor("pads", [0, 0, 1, 0, 0, 0, 0, 1], np.int64),
        tensor("starts", [1, 0], np.int64), tensor("ends", [5, 4], np.int64),
        tensor("axes", [2, 3], np.int64),
    ]  # fmt: skip
    used = {name for n in nodes for name in n.input}
    stored = [t for t in stored if t.name in used]
    inputs = [value("x", ("N", 2, 4, 4)), *(value(t.name, t.dims, t.data_type) for t in stored)]
    model = model_of(nodes, inputs, [value("y", ("N", 3))], stored, opset=opset, ir=3)
    return model, rng.standard_normal((2, 2, 4, 4)).astype(F1)


@pytest.mark.oracle
@pytest.mark.parametrize("opset", [9, 10, 11, 12])
def test_networks_of_older_opsets(opset: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, images = network_of(opset)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = run(model, {"x": images})["y"]
    np.testing.assert_allclose(got, session.run(None, {"x": images})[0], rtol=1e-4, atol=1e-6)


# -- external data -----------------------------------------------------------------------------
def outside(tensor_: TensorProto, **entries: str) -> TensorProto:
    tensor_.ClearField("raw_data")
    tensor_.data_location = TensorProto.EXTERNAL
    for key, text in entries.items():
        tensor_.external_data.add(key=key, value=text)
    return tensor_


def test_data_outside_of_the_file_wherever_a_tensor_may_be(tmp_path: Path) -> None:
    """Initializers, attributes, initializers of bodies and sparse ones; one file for all."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(np.arange(8, dtype=F1).tobytes())
    place = {"location": "./sub/w.bin"}
    inner = outside(tensor("i", [0, 0]), offset="8", length="8", **place)
    then = helper.make_graph([node("Add", ["x", "i"], ["t"])], "b", [], [value("t")], [inner])
    constant = outside(tensor("", [0, 0]), offset="24", **place)
    values = outside(tensor("s", [0]), offset="16", length="4", **place)
    sparse = helper.make_sparse_tensor(values, tensor("", [1], np.int64), [2])
    nodes = [
        node("Constant", [], ["c"], value=constant),
        node("If", ["flag"], ["r"], then_branch=then, else_branch=then),
        node("Sum", ["r", "c", "s"], ["y"]),
    ]
    inputs = [value("x"), value("flag", (), 9)]
    model = model_of(nodes, inputs, [value("y")], sparse_initializer=[sparse])
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    feeds = {"x": np.ones(2, F1), "flag": np.array(True)}
    assert run(path, feeds)["y"].tolist() == [9, 15]
    assert run(engine.load(path), feeds)["y"].tolist() == [9, 15]
    (tmp_path / "other").symlink_to(tmp_path / "sub")
    linked = tmp_path / "linked.onnx"
    linked.write_bytes(path.read_bytes().replace(b"./sub/w.bin", b"other/w.bin"))
    (tmp_path / "up").symlink_to(tmp_path.parent)
    assert engine.read_model(path)
    escaping = path.read_bytes().replace(b"./sub/w.bin", b"up/secret.b")
    (tmp_path.parent / "secret.b").write_bytes(bytes(64))
    (tmp_path / "escaping.onnx").write_bytes(escaping)
    with pytest.raises(FormatError, match="outside of the folder"):
        engine.read_model(tmp_path / "escaping.onnx")


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"offset": "99999999999999999999", "length": "8"}, "which has only"),
        ({"offset": "-8", "length": "8"}, "which has only"),
        ({"offset": "0", "length": "9223372036854775807"}, "which has only"),
        ({"offset": "0", "length": "12"}, "12 bytes, not 8"),
        ({"offset": "1e3"}, "no sensible"),
        ({"offset": "٣"}, "3 on|bytes, not 8|which has only"),
    ],
)
def test_offsets_and_lengths_that_lie(tmp_path: Path, entries: dict[str, str], said: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    made = outside(tensor("w", [0, 0]), location="w.bin", **entries)
    model = model_of([node("Neg", ["w"], ["y"])], [], [value("y")], [made])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(NeuralsymError, match=said):
        engine.read_model(tmp_path / "m.onnx")


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
