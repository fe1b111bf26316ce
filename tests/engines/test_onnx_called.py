"""Functions of files, and bodies: what is seen where."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import helper
from onnx_models import F1, model_of, node, run, tensor, value

from neuralsym.engines import onnx as engine
from neuralsym.errors import FormatError


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
