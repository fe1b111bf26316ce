"""An expansion keeps the sizes that only a file declares, so that it is taken all the same."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from neuralsym import load


def test_declared_sizes_do_not_keep_an_operator_from_its_expansion() -> None:
    """ReduceSum over axes of the run gives sizes that nothing tells; the file declares them."""
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["sum"], keepdims=0),
        helper.make_node("CastLike", ["sum", "like"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2, 2]),
        helper.make_tensor_value_info("axes", TensorProto.INT64, [1]),
        helper.make_tensor_value_info("like", TensorProto.DOUBLE, [1]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.DOUBLE, [3, 2])]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    network = load(model)
    assert network.outputs[0].shape == (3, 2)
    x = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    feed = {"x": x, "axes": np.array([1]), "like": np.zeros(1)}
    np.testing.assert_array_equal(network.run(feed)["y"], x.sum(1, dtype=np.float64))
    assert "by host" not in network.explain()
