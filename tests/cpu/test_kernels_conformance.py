"""ONNX's conformance cases of the operators whose kernels are about movement and reduction.

What an operator is set by (axes, pads, sizes ...) is a constant here, as in files that people
have, so that the kernels and not the host step run.
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from run_graph import computed, kernels

from neuralsym import load
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options

REDUCTIONS = ("Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
SETTINGS = {
    "Transpose": (),
    "Slice": (1, 2, 3, 4),
    "Expand": (1,),
    "Tile": (1,),
    "Split": (1,),
    "DepthToSpace": (),
    "SpaceToDepth": (),
    "Pad": (1, 3),
    "Gather": (),
    **{f"Reduce{name}": (1,) for name in REDUCTIONS},
    "ArgMax": (),
    "ArgMin": (),
    "CumSum": (1,),
    "CumProd": (1,),
    "LayerNormalization": (),
    "RMSNormalization": (),
    "InstanceNormalization": (),
    "GroupNormalization": (),
    "LRN": (),
    "Resize": (1, 2, 3),
    "GatherND": (),
    "GatherElements": (),
    "ScatterND": (),
    "ScatterElements": (),
    "OneHot": (1,),
    "Trilu": (1,),
    "ConstantOfShape": (0,),
}
HOST = ("tf_crop_and_resize", "crop_and_resize")
"""Cases that are left to the host."""


@cache
def cases():
    found = {}
    with warnings.catch_warnings(action="ignore"):
        every = collect_testcases(None)
    for case in every:
        nodes = case.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type in SETTINGS:
            found[case.name] = case
    return found


def with_settings(model: ModelProto, values) -> ModelProto:
    """The model with the settings of its node as initializers."""
    made = ModelProto()
    made.CopyFrom(model)
    node = made.graph.node[0]
    for index in SETTINGS[node.op_type]:
        name = node.input[index] if index < len(node.input) else ""
        if name in values:
            made.graph.initializer.append(numpy_helper.from_array(values[name], name))
            kept = [i for i in made.graph.input if i.name != name]
            del made.graph.input[:]
            made.graph.input.extend(kept)
    return made


@pytest.mark.parametrize("name", cases())
def test_case(name):
    case = cases()[name]
    graph = case.model.graph
    for inputs, outputs in case.data_sets:
        values = dict(zip((i.name for i in graph.input), inputs, strict=True))
        model = with_settings(case.model, values)
        feeds = {i.name: values[i.name] for i in model.graph.input}
        network = load(model.SerializeToString())
        cell = compile_graph(network.graph, Options(threads=1))
        if not any(word in name for word in HOST):
            assert "host" not in kernels(cell)
        for found, expected in zip(computed(cell, feeds), outputs, strict=True):
            assert found.dtype == expected.dtype
            assert found.shape == expected.shape
            if found.dtype.kind == "f":
                np.testing.assert_allclose(found, expected, case.rtol, max(case.atol, 1e-6))
            else:
                np.testing.assert_array_equal(found, expected)
