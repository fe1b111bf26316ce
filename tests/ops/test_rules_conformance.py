"""Every rule of ours against ONNX's own conformance cases: types, shapes and folded values."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.loader import load_model_tests
from rules_harness import fits, own_types

from neuralsym.core.dim import substitute
from neuralsym.core.leaves import constant, variable
from neuralsym.core.op import OPS, Call
from neuralsym.core.schema import plain_attribute
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType
from neuralsym.dtypes import from_onnx

MODULES = ("cast", "convolution", "image", "indexing", "linear", "normalise", "pool")
MODULES += ("reduction", "reshape", "selection", "tensor")
OPERATORS = sorted(
    name
    for (domain, name), op in OPS.items()
    if domain == "" and op.__module__.removeprefix("neuralsym.ops.") in MODULES
)
WITHOUT_CASES = {"GlobalLpPool", "MaxRoiPool"}


@pytest.fixture(scope="module")
def cases():
    """The cases of one node at the operator's newest version, by operator."""
    found: dict[str, list[Any]] = {}
    with warnings.catch_warnings(action="ignore"):  # onnx makes infinities for its cases
        every = load_model_tests(kind="node")
    for case in every:
        graph = case.model.graph
        opset = max((o.version for o in case.model.opset_import if o.domain == ""), default=0)
        if len(graph.node) != 1 or not case.data_sets:
            continue
        op = OPS.get(("", graph.node[0].op_type))
        values = [*graph.input, *graph.output]
        plain = all(v.type.HasField("tensor_type") for v in values)
        if op is not None and plain and opset >= op.schema.since:
            found.setdefault(op.__name__, []).append(case)
    return found


def typed_arrays(values, infos):
    """Arrays with their number types, by name."""
    made = {}
    for value, info in zip(values, infos, strict=True):
        kind = from_onnx(info.type.tensor_type.elem_type)
        made[info.name] = (np.asarray(value), kind)
    return made


def symbols(node, feed, mode):
    """The inputs as constants, as variables of known sizes, or as variables of named sizes."""
    made = []
    sizes = {}
    for i, name in enumerate(node.input):
        if not name:
            made.append(None)
            continue
        array, kind = feed[name]
        index = kind.is_integer and array.size < 50
        if array.dtype == kind.numpy and array.dtype != object and (mode == "known" or index):
            made.append(constant(Tensor.of(array, kind)))
        elif mode == "named":
            names = [f"x{i}_{k}" for k in range(array.ndim)]
            sizes.update(zip(names, array.shape, strict=True))
            made.append(variable(f"i{i}", names, kind))
        else:
            made.append(variable(f"i{i}", array.shape, kind))
    return tuple(made), sizes


@pytest.mark.parametrize("name", OPERATORS)
def test_conformance(name, cases):
    assert (name in cases) != (name in WITHOUT_CASES)
    for case in cases.get(name, ()):
        graph = case.model.graph
        node = graph.node[0]
        inputs, outputs = case.data_sets[0]
        feed, expected = typed_arrays(inputs, graph.input), typed_arrays(outputs, graph.output)
        attrs = {
            a.name: plain_attribute(onnx.helper.get_attribute_value(a)) for a in node.attribute
        }
        for mode in ("known", "sized", "named"):
            given, sizes = symbols(node, feed, mode)
            call = Call(OPS["", name], given, attrs, len(node.output))
            types = own_types(call)
            assert types is not None, case.name
            folded = call.op.fold(call) or (None,) * len(types)
            for output, type_, value in zip(node.output, types, folded, strict=False):
                if output:
                    check_output(case.name, type_, value, sizes, *expected[output])


def check_output(name, type_, value, sizes, array, kind):
    assert isinstance(type_, TensorType)
    assert type_.dtype is kind, name
    shape = type_.shape
    if shape is not None:
        shape = tuple(None if d is None else substitute(d, sizes) for d in shape)
    assert fits(shape, array.shape), f"{name}: {type_} but {array.shape}"
    if value is not None and value.dtype != object:
        np.testing.assert_array_equal(value, array, err_msg=name)
