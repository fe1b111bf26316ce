"""Running single operators of ai.onnx.ml here, by onnxruntime and by onnx's reference evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from host_free import host_steps
from onnx import TensorProto, helper

from neuralsym import ops  # noqa: F401  (it defines the operators)
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.core.tensor import Tensor
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options

DOMAIN = "ai.onnx.ml"


def ours(
    op: str,
    arrays: Sequence[Any],
    attrs: dict[str, Any],
    outputs: int = 1,
    *,
    host: Sequence[str] = (),
    free: bool = False,
    threads: int = 1,
    domain: str = DOMAIN,
) -> list[Any]:
    """The outputs through the compiler; the operators of all host steps must be those of `host`.

    free: the first axis of each input is a name.
    """
    inputs = []
    for i, array in enumerate(arrays):
        shape = list(array.shape)
        if free and shape:
            shape[0] = "N" if shape[0] == arrays[0].shape[0] else f"N{i}"
        dtype = "string" if array.dtype == object else array.dtype
        inputs.append(variable(f"x{i}", tuple(shape), dtype))
    made = apply(find_op(op, domain), inputs, attrs, outputs=outputs)
    named = {f"y{i}": symbol for i, symbol in enumerate(made)}
    cell = compile_graph(Graph(named, inputs), Options(threads=threads))
    assert sorted(set(host_steps(cell))) == sorted(set(host)), host_steps(cell)
    instance = cell.instance()
    for i, array in enumerate(arrays):
        instance[f"x{i}"] = array
    instance.compute()
    results = [instance[name] for name in named]
    for symbol, value in zip(made, results, strict=True):
        shape = symbol.tensor.shape
        assert shape is not None and len(shape) == np.ndim(value)
        known = [(a, b) for a, b in zip(shape, np.shape(value), strict=True) if isinstance(a, int)]
        assert all(a == b for a, b in known), (shape, np.shape(value))
    return [np.array(value) for value in results]


def model_of(
    op: str, arrays: Sequence[Any], attrs: dict[str, Any], outputs: int, version: int
) -> onnx.ModelProto:
    """A model of one node."""
    names = [f"x{i}" for i in range(len(arrays))]
    plain = {
        k: onnx.numpy_helper.from_array(v.value) if isinstance(v, Tensor) else v
        for k, v in attrs.items()
    }
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, domain=DOMAIN, **plain)
    values = []
    for name, array in zip(names, arrays, strict=True):
        kind = TensorProto.STRING
        if array.dtype != object:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        values.append(helper.make_tensor_value_info(name, kind, array.shape))
    open_ = [helper.make_value_info(name, onnx.TypeProto()) for name in results]
    graph = helper.make_graph([node], "g", values, open_)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, version)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8
    return model


def runtime(
    op: str, arrays: Sequence[Any], attrs: dict[str, Any], outputs: int = 1, version: int = 3
) -> list[Any]:
    """What onnxruntime gives."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    model = model_of(op, arrays, attrs, outputs, version)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return list(session.run(None, {f"x{i}": a for i, a in enumerate(arrays)}))


def reference(
    op: str, arrays: Sequence[Any], attrs: dict[str, Any], outputs: int = 1, version: int = 3
) -> list[Any]:
    """What onnx's reference evaluator gives."""
    from onnx.reference import ReferenceEvaluator

    model = model_of(op, arrays, attrs, outputs, version)
    made = ReferenceEvaluator(model).run(None, {f"x{i}": a for i, a in enumerate(arrays)})
    return list(made)
