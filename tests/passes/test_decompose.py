"""Operators without kernels become what ONNX defines them by."""

from __future__ import annotations

import numpy as np

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.ops.evaluate import evaluate_graph
from neuralsym.passes.decompose import decompose, expand


def value(graph, **feed):
    return evaluate_graph(graph, {graph[n]: a for n, a in feed.items()})[0]


def test_a_normalisation_becomes_its_body():
    x = variable("x", ("N", 4, 8))
    scale, bias = variable("scale", (8,)), variable("bias", (8,))
    graph = Graph({"y": ops.layer_normalization(x, scale, bias, axis=-1)})
    made = decompose(graph, lambda node: True)
    assert not made.find("LayerNormalization")
    assert made.output_names == ("y",)
    assert made.outputs[0].shape == graph.outputs[0].shape
    rng = np.random.default_rng(0)
    feed = {
        "x": rng.normal(size=(2, 4, 8)).astype(np.float32),
        "scale": rng.normal(size=8).astype(np.float32),
        "bias": rng.normal(size=8).astype(np.float32),
    }
    np.testing.assert_allclose(value(made, **feed), value(graph, **feed), rtol=1e-5, atol=1e-6)


def test_only_what_is_wanted():
    x = variable("x", ("N", 8))
    graph = Graph({"y": ops.celu(x), "z": ops.mish(x)})
    made = decompose(graph, lambda node: node.op_type == "Mish")
    assert made.find("Celu")
    assert not made.find("Mish")
    assert decompose(graph, lambda node: False) is graph


def test_what_would_tell_less_about_shapes_stays():
    x = variable("x", ("N", 3, "H", "W"))
    y = ops.relu(x)
    assert expand(ops.non_zero(y).node) is None
    assert decompose(Graph({"y": ops.non_zero(y)}), lambda node: True).find("NonZero")
