"""One operator computed by onnxruntime or by onnx's reference evaluator, for comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

from neuralsym import ops  # noqa: F401  (it defines the operators)
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import constant, variable
from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options


def one_node(
    op: str,
    inputs: Mapping[str, np.ndarray | None],
    attrs: Mapping[str, Any],
    outputs: int,
    opset: int,
) -> onnx.ModelProto:
    """A model of one node; an input that is None is omitted."""
    names = [name if value is not None else "" for name, value in inputs.items()]
    node = helper.make_node(op, names, [f"o{i}" for i in range(outputs)], **attrs)
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in inputs.items()
        if value is not None
    ]
    results = [onnx.ValueInfoProto(name=f"o{i}") for i in range(outputs)]
    graph = helper.make_graph([node], "one", given, results)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def by_onnxruntime(
    op: str,
    inputs: Mapping[str, np.ndarray | None],
    attrs: Mapping[str, Any] | None = None,
    outputs: int = 1,
    opset: int = 21,
) -> list[np.ndarray]:
    """What onnxruntime computes."""
    model = one_node(op, inputs, attrs or {}, outputs, opset)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    found: list[np.ndarray] = session.run(None, {k: v for k, v in inputs.items() if v is not None})
    return found


def by_reference(
    op: str,
    inputs: Mapping[str, np.ndarray | None],
    attrs: Mapping[str, Any] | None = None,
    outputs: int = 1,
    opset: int = 25,
) -> list[np.ndarray]:
    """What onnx's reference evaluator computes."""
    model = one_node(op, inputs, attrs or {}, outputs, opset)
    feeds = {k: v for k, v in inputs.items() if v is not None}
    with np.errstate(all="ignore"):
        found: list[np.ndarray] = ReferenceEvaluator(model).run(None, feeds)
    return found


def by_us(
    op: str,
    inputs: Mapping[str, np.ndarray | None],
    attrs: Mapping[str, Any] | None = None,
    outputs: int = 1,
    kernel: str | None = None,
    threads: int = 2,
    stored: tuple[str, ...] = (),
) -> list[np.ndarray]:
    """What our compiled graph computes, by the kernel of that name; `stored` are constants."""
    made = [
        None
        if value is None
        else constant(value)
        if name in stored
        else variable(name, value.shape, value.dtype)
        for name, value in inputs.items()
    ]
    results = apply(find_op(op), made, dict(attrs or {}), outputs=outputs)
    variables = [s for s, n in zip(made, inputs, strict=True) if s is not None and n not in stored]
    named = {f"o{i}": s for i, s in enumerate(results)}
    cell = compile_graph(Graph(named, variables), Options(threads=threads))
    if kernel is not None:
        names = [step.kernel.name for step in cell.program.steps if step.kernel is not None]
        assert kernel in names, names
    instance = cell.instance()
    for name, value in inputs.items():
        if value is not None and name not in stored:
            instance[name] = value
    instance.compute()
    return [np.array(instance[name]) for name in cell.program.outputs]
