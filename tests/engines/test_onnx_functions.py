"""Local functions of a model: put in their place when it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper
from onnx_models import model_of, node, value

from neuralsym.engines import onnx as engine
from neuralsym.errors import FormatError

LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))


def with_functions(nodes: Any, functions: Any, output: str = "y") -> onnx.ModelProto:
    model = model_of(nodes, [value("x", (2, 3))], [value(output, None)])
    model.functions.extend(functions)
    model.opset_import.add(domain="my", version=1)
    return model


def function(name: str, inputs: Any, outputs: Any, nodes: Any, opset: int = 18, **more: Any) -> Any:
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("my", 1)]
    return helper.make_function("my", name, inputs, outputs, nodes, imports, **more)


def test_functions_are_put_in_their_place() -> None:
    scale = node("LeakyRelu", ["p"], ["t"])
    scale.attribute.append(onnx.AttributeProto(name="alpha", type=1, ref_attr_name="slope"))
    inner = function(
        "Inner", ["p"], ["r"], [scale, node("Neg", ["t"], ["r"])], attributes=["slope"]
    )
    outer = function(
        "Outer",
        ["a"],
        ["b", "c"],
        [node("Inner", ["a"], ["b"], domain="my", slope=0.5), node("Abs", ["b"], ["c"])],
    )
    nodes = [
        node("Outer", ["x"], ["one", "two"], "call", domain="my"),
        node("Outer", ["two"], ["three"], "call", domain="my"),
        node("Add", ["one", "three"], ["y"]),
    ]
    graph = engine.to_symbolic(with_functions(nodes, [inner, outer]))
    assert [n.op_type for n in graph.nodes[1:]] == [
        "LeakyRelu", "Neg", "Abs", "LeakyRelu", "Neg", "Add",
    ]  # fmt: skip
    assert [graph[n].op_type for n in ("one", "two", "three", "y")] == ["Neg", "Abs", "Neg", "Add"]
    assert graph.find("LeakyRelu")[0].attr("alpha") == 0.5
    written = engine.of_symbolic(graph)
    assert not written.functions
    onnx.checker.check_model(written, full_check=True)
    assert engine.of_symbolic(engine.to_symbolic(written)) == written


def test_functions_in_an_opset_of_their_own_and_with_results_passed_on() -> None:
    old = function("Old", ["p", "q"], ["r", "p"], [node("Softmax", ["p"], ["r"], axis=0)], 11)
    nodes = [
        node("Old", ["x", ""], ["s", "same"], domain="my"),
        node("Add", ["s", "same"], ["y"]),
    ]
    graph = engine.to_symbolic(with_functions(nodes, [old]))
    assert len(graph.find("Flatten")) == 1
    assert graph["same"].op_type == "Identity"


def test_functions_that_call_themselves() -> None:
    body = [node("Loopy", ["p"], ["r"], domain="my")]
    model = with_functions(
        [node("Loopy", ["x"], ["y"], domain="my")], [function("Loopy", ["p"], ["r"], body)]
    )
    with pytest.raises(FormatError, match="call itself"):
        engine.to_symbolic(model)
