"""Models of one node, for tests: from inputs, attributes and the number of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
F = np.float32
I = np.int64  # noqa: E741
B = np.bool_


class Case(NamedTuple):
    """A model and what it is fed, by input."""

    model: onnx.ModelProto
    feed: dict[str, Any]


class One(NamedTuple):
    """The parts of a one-node model; the inputs numbered in `stored` are initializers."""

    inputs: Sequence[Array | None]
    attrs: dict[str, Any] = {}  # noqa: RUF012
    outputs: int = 1
    stored: Sequence[int] = ()


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([sum(shape), len(shape), seed]).standard_normal(shape).astype(F)


def ints(*values: int) -> Array:
    return np.array(values, I)


def texts(*values: str) -> Array:
    return np.array(values, object)


X = floats(2, 3, 4)
P = np.abs(X) + F(0.5)
IMAGE = floats(1, 2, 4, 6)
NORM = [floats(3), floats(3, seed=1), floats(3, seed=2), np.abs(floats(3)) + F(0.5)]
EMPTY = np.zeros(0, F)
BITS = np.array([[1, 6], [255, 16]], np.uint8)
BOOLS = np.array([[True, False], [True, True]])
OTHER = np.array([[False, False], [True, False]])


def model_of(
    name: str, opset: int, one: One, domain: str = "", declare: bool = True
) -> onnx.ModelProto:
    names = ["" if a is None else f"x{i}" for i, a in enumerate(one.inputs)]
    results = [f"y{i}" for i in range(one.outputs)]
    node = helper.make_node(name, names, results, "node", domain=domain, **one.attrs)
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for i, (n, a) in enumerate(zip(names, one.inputs, strict=True))
        if a is not None and i not in one.stored
    ]
    tensors = [numpy_helper.from_array(one.inputs[i], names[i]) for i in one.stored]
    graph = helper.make_graph([node], "g", values, [], tensors)
    graph.output.extend(onnx.ValueInfoProto(name=n) for n in results)
    opsets = [helper.make_opsetid("", base_opset(domain, opset))]
    if domain:
        opsets.append(helper.make_opsetid(domain, opset))
    model = helper.make_model(graph, ir_version=10, opset_imports=opsets)
    model.ir_version = max(8, helper.find_min_ir_version_for(opsets, True))
    return model


def base_opset(domain: str, opset: int) -> int:
    if domain == "ai.onnx.ml":
        return {1: 8, 2: 11, 3: 15, 4: 19, 5: 21}[opset]
    return 26 if domain else opset
