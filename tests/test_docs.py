"""The Python of README and docs runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from neuralsym import Graph, Network, ops
from neuralsym.engines.flow import Flow

ROOT = Path(__file__).resolve().parent.parent


def code(page: str) -> list[str]:
    found: list[str] = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.S)
    return found


def test_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    images = np.random.default_rng(0).random((2, 3, 32, 32), np.float32)
    pictures = np.random.default_rng(1).random((4, 3, 32, 32), np.float32)
    names: dict[str, Any] = {"images": images, "array": images, "pictures": pictures}
    _classifier().save("mnist.flow")
    names["picture"] = np.zeros((1, 4), np.float32)
    names["photo"] = np.zeros((60, 80, 3), np.uint8)
    for block in code("README.md"):
        exec(block, names)
        if "net" in names:
            names["net"].save("model.onnx")  # what the page's own files are called
    assert [str(p) for p in names["probabilities"].outputs] == ["probs: float32[N, 5]"]
    assert names["z"].name
    assert names["best"] == 2
    assert Path("resnet18.int8.onnx").exists()


def _classifier() -> Flow:
    """A flow of a function `classifier` from x to y, as the page supposes one."""
    flow = Flow()
    add = flow.op("y", "Add")
    add.add_input(flow.var("x", "float32", [-1, 4]))
    add.add_input(flow.var("b", "float32", [4], np.array([0, 1, 3, 2], np.float32)))
    add.add_output(flow.var("y:0", "float32", [-1, 4]))
    flow.func("classifier").add(add)
    return flow


def test_kernels_from_outside_are_the_ones_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = (helper.make_tensor_value_info(name, 1, ["N", 2]) for name in "xy")
    nodes = [
        helper.make_node("Scale", ["x"], ["s"], domain="org.example", factor=3.0),
        helper.make_node("Neg", ["s"], ["y"]),
    ]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("org.example", 1)]
    graph = helper.make_graph(nodes, "g", [x], [y])
    Path("scale.onnx").write_bytes(
        helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    )
    network = Network(Graph({"y": ops.leaky_relu(ops.variable("x", (4,)))}))
    names: dict[str, Any] = {"network": network}
    for block in code("docs/extending.md"):
        exec(block, names)
    given = np.array([-1, 2, -3, 4], np.float32)
    np.testing.assert_allclose(network(given), np.where(given < 0, 0.01 * given, given), rtol=1e-6)
    assert "by leaky_relu" in network.explain()
    assert names["scaled"](given.reshape(2, 2)).tolist() == [[3, -6], [9, -12]]


def test_the_page_on_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Network(Graph({"y": ops.exp(ops.variable("x", ("N", 4)))})).save("model.onnx")
    names: dict[str, Any] = {}
    (block,) = code("docs/measuring.md")
    exec(block, names)
    assert names["found"].best > 0
    assert names["step"].op == "Exp"


def test_the_backend_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x = ops.variable("x", ("N", 3))
    Network(Graph({"y": x * 2})).save("model.onnx")
    array = np.ones((2, 3), np.float32)
    names: dict[str, Any] = {"array": array, "__name__": "page"}
    *blocks, suite = code("docs/backend.md")
    for block in blocks:
        exec(block, names)
    np.testing.assert_array_equal(names["y"], array * 2)
    compile(suite, "docs/backend.md", "exec")  # it makes the tests of onnx's whole suite


def test_the_page_on_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in code("docs/weights.md"):
        exec(block, names)
    assert str(names["loaded"]) == "52 weights loaded by own names"
    assert names["head"].weights["fc/kernel"].tolist() == [[1, 1, 1]] * 4
