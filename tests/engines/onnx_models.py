"""Models for tests of what files hold, and running them before and after a round trip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import neuralsym
from neuralsym.engines import onnx as engine

F1 = np.float32
node = helper.make_node


def value(name: str, shape: Sequence[int | str | None] | None = (2,), kind: int = 1) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def tensor(name: str, array: Any, dtype: Any = F1) -> TensorProto:
    return numpy_helper.from_array(np.asarray(array, dtype), name)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    stored: Sequence[TensorProto] = (),
    opset: int | None = 18,
    ir: int = 8,
    **more: Any,
) -> onnx.ModelProto:
    """A model of these nodes; it imports nothing where `opset` is None."""
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored, **more)
    imports = [] if opset is None else [helper.make_opsetid("", opset)]
    made = helper.make_model(graph, ir_version=ir, opset_imports=imports)
    if opset is None:
        del made.opset_import[:]
    return made


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
