"""Gradient nodes of files: read as derivatives, which run, are written, and come back the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_models import node

import neuralsym
from neuralsym.engines import onnx as engine
from neuralsym.errors import FormatError, GraphError, NeuralsymError

F1 = np.float32
TRAINING = "ai.onnx.preview.training"


def value(name: str, shape: Any = (2, 2), kind: int = 1) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def gradient(inputs: list[str], outputs: list[str], **attrs: Any) -> onnx.NodeProto:
    return node("Gradient", inputs, outputs, "slope", domain=TRAINING, **attrs)


def model_of(nodes: Any, inputs: Any, outputs: Any, stored: Any = ()) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(TRAINING, 1)]
    return helper.make_model(graph, ir_version=8, opset_imports=imports)


def run(model: onnx.ModelProto, **feeds: Any) -> dict[str, Any]:
    """The outputs, the same after a round trip that leaves no Gradient."""
    network = neuralsym.load(model)
    results = network.run(feeds)
    written = engine.of_symbolic(network.model)
    assert not any(n.op_type == "Gradient" for n in written.graph.node)
    onnx.checker.check_model(written, full_check=True)
    for name, again in neuralsym.load(written).run(feeds).items():
        np.testing.assert_array_equal(again, results[name])
    return results


A = np.array([[1, -2], [0.5, 3]], F1)
B = np.array([[2, 1], [-1, 1]], F1)


def test_a_small_network() -> None:
    """y = sum(relu(x w + b)): the derivatives of its weights, which only attributes name."""
    nodes = [
        gradient(["w", "b", "x"], ["dw", "db"], xs=["w", "b"], zs=["x"], y="loss"),
        node("Gemm", ["x", "w", "b"], ["h"]),
        node("Relu", ["h"], ["r"]),
        node("ReduceSum", ["r"], ["loss"], keepdims=0),
    ]
    stored = [numpy_helper.from_array(B, "w"), numpy_helper.from_array(np.ones(2, F1), "b")]
    ends = [value("x")], [value("loss", ()), value("dw"), value("db", (2,))]
    results = run(model_of(nodes, *ends, stored), x=A)
    on = (A @ B + 1 > 0).astype(F1)
    np.testing.assert_allclose(results["dw"], A.T @ on, rtol=1e-6)
    np.testing.assert_allclose(results["db"], on.sum(0), rtol=1e-6)


def test_at_another_point_and_with_outputs_left_out() -> None:
    """The node's inputs say where: y = a a b at (c, b), of which only dy/db is asked for."""
    nodes = [
        node("Mul", ["a", "a"], ["aa"]),
        node("Mul", ["aa", "b"], ["y"]),
        node("Neg", ["a"], ["c"]),
        gradient(["c", "b"], ["", "db"], xs=["a", "b"], y="y"),
        gradient(["b", "b"], ["da", ""], xs=["a", "b"], y="y"),
    ]
    ends = [value("a"), value("b")], [value("db"), value("da"), value("y")]
    results = run(model_of(nodes, *ends), a=A, b=B)
    np.testing.assert_allclose(results["db"], A * A)
    np.testing.assert_allclose(results["da"], 2 * B * B)
    np.testing.assert_allclose(results["y"], A * A * B)


def test_of_an_intermediate_tensor_and_of_a_derivative() -> None:
    nodes = [
        node("Exp", ["a"], ["h"]),
        node("Mul", ["h", "h"], ["y"]),
        gradient(["h"], ["dh"], xs=["h"], y="y"),
        gradient(["a"], ["da"], xs=["a"], y="y"),
        gradient(["a"], ["dda"], xs=["a"], y="da"),
    ]
    ends = [value("a")], [value("dh"), value("da"), value("dda")]
    results = run(model_of(nodes, *ends), a=A)
    np.testing.assert_allclose(results["dh"], 2 * np.exp(A), rtol=1e-5)
    np.testing.assert_allclose(results["da"], 2 * np.exp(2 * A), rtol=1e-5)
    np.testing.assert_allclose(results["dda"], 4 * np.exp(2 * A), rtol=1e-5)


def test_inside_a_body() -> None:
    inside = helper.make_graph(
        [node("Mul", ["a", "a"], ["y"]), gradient(["a"], ["da"], xs=["a"], y="y")],
        "then", [], [value("da")],
    )  # fmt: skip
    other = helper.make_graph([node("Identity", ["a"], ["same"])], "else", [], [value("same")])
    nodes = [node("If", ["flag"], ["r"], then_branch=inside, else_branch=other)]
    model = model_of(nodes, [value("a"), value("flag", (), 9)], [value("r")])
    np.testing.assert_allclose(run(model, a=A, flag=np.array(True))["r"], 2 * A)
    inside.node.remove(inside.node[0])
    nodes = [
        node("Mul", ["a", "a"], ["y"]),
        node("If", ["flag"], ["r"], then_branch=inside, else_branch=other),
    ]
    with pytest.raises(GraphError, match="not computed in its body"):
        run(model_of(nodes, [value("a"), value("flag", (), 9)], [value("r")]))


def test_what_is_refused() -> None:
    ends = [value("a")], [value("da")]
    det = [node("Det", ["a"], ["y"], "area"), gradient(["a"], ["da"], xs=["a"], y="y")]
    with pytest.raises(GraphError, match=r"Det.*has no rule") as raised:
        engine.to_symbolic(model_of(det, *ends))
    assert "node 1 (Det 'area')" in str(raised.value)
    for broken in (
        {"xs": ["a", "b"], "y": "a"},
        {"xs": ["a"]},
        {"xs": ["a"], "y": "a", "zs": ["a"]},
    ):
        with pytest.raises(NeuralsymError, match=r"slope|xs"):
            engine.to_symbolic(model_of([gradient(["a"], ["da"], **broken)], *ends))
    with pytest.raises(GraphError, match="uses 'q', which nothing gives"):
        engine.to_symbolic(model_of([gradient(["a"], ["da"], xs=["a"], y="q")], *ends))
    nodes = [node("Shape", ["a"], ["s"]), gradient(["a"], ["da"], xs=["a"], y="s")]
    with pytest.raises(GraphError, match="only floats have derivatives"):
        engine.to_symbolic(model_of(nodes, *ends))
    with pytest.raises(FormatError, match="Gradient needs y, xs"):
        engine.to_symbolic(model_of([gradient(["a"], ["da"], xs=["a"])], *ends))
