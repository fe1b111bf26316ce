"""neuralsym through onnx's own backend interface, and onnx's own runner of its suite."""

from __future__ import annotations

import unittest
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.base import Backend, BackendRep

import neuralsym
from neuralsym import backend
from neuralsym.backend import NeuralsymBackend
from neuralsym.errors import BadAttribute, FormatError, InputError, ShapeMismatch, TypeMismatch

SAMPLED = 25
"""One of so many cases of the suite is run by default."""
NOT_ALIKE = ("bernoulli", "test_loop16_seq_none")
"""Random numbers that nothing prescribes; a sequence of scalars, whose len() the runner asks."""


@pytest.fixture(scope="module")
def affine() -> onnx.ModelProto:
    """y = x * 2 + 1 and z = max(y), an input with a default among its three."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])
    factor = helper.make_tensor_value_info("factor", TensorProto.FLOAT, [])
    outputs = [
        helper.make_tensor_value_info("y 1", TensorProto.FLOAT, ["N", 3]),
        helper.make_tensor_value_info("z", TensorProto.FLOAT, None),
    ]
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["scaled"]),
        helper.make_node("Add", ["scaled", "one"], ["y 1"]),
        helper.make_node("ReduceMax", ["y 1"], ["z"], keepdims=0),
    ]
    stored = [
        helper.make_tensor("factor", TensorProto.FLOAT, [], [2.0]),
        helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]),
    ]
    graph = helper.make_graph(nodes, "affine", [x, factor], outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


# -- models ------------------------------------------------------------------------------------
def test_it_is_the_interface_of_onnx() -> None:
    assert issubclass(NeuralsymBackend, Backend)
    assert issubclass(backend.NeuralsymRep, BackendRep)
    assert neuralsym.backend is backend


def test_outputs_by_place_and_by_name(affine: onnx.ModelProto) -> None:
    prepared = backend.prepare(affine)
    results = prepared.run([X])
    assert isinstance(results, tuple)
    np.testing.assert_array_equal(results[0], X * 2 + 1)
    np.testing.assert_array_equal(results["y 1"], results[0])
    assert results["z"] == 11
    assert prepared.network.graph.name == "affine"


@pytest.mark.parametrize("inputs", [X, [X], (X,), {"x": X}], ids=["array", "list", "tuple", "dict"])
def test_ways_to_give_inputs(affine: onnx.ModelProto, inputs: Any) -> None:
    y, z = backend.run_model(affine, inputs, "CPU")
    np.testing.assert_array_equal(y, X * 2 + 1)
    assert z.shape == ()


def test_inputs_with_a_default_may_be_given(affine: onnx.ModelProto) -> None:
    y, _ = backend.run_model(affine, [X, np.float32(10)])
    np.testing.assert_array_equal(y, X * 10 + 1)


def test_models_as_bytes_and_files(affine: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "affine.onnx"
    onnx.save(affine, str(path))
    for given in (affine.SerializeToString(), path, str(path)):
        np.testing.assert_array_equal(backend.run_model(given, X)[0], X * 2 + 1)


def test_options_of_compiling(affine: onnx.ModelProto) -> None:
    prepared = backend.prepare(affine, "CPU", threads=1, rtol=1e-3)
    assert prepared.network.options.threads == 1
    with pytest.raises(BadAttribute, match="no option 'thread'; did you mean 'threads'"):
        backend.prepare(affine, thread=1)
    with pytest.raises(BadAttribute, match="run takes no option 'threads'"):
        prepared.run([X], threads=1)


def test_devices(affine: onnx.ModelProto) -> None:
    assert [backend.supports_device(d) for d in ("CPU", "CPU:0")] == [True, True]
    for device in ("CUDA", "CUDA:1", "cpu", "CPU:1", "CPU:", "GPU", ""):
        assert not backend.supports_device(device)
        assert not backend.is_compatible(affine, device)
        with pytest.raises(BadAttribute, match="runs on the CPU, not on"):
            backend.prepare(affine, device)
    backend.prepare(affine, None)


def test_mistaken_inputs(affine: onnx.ModelProto) -> None:
    prepared = backend.prepare(affine)
    with pytest.raises(InputError, match="3 values came"):
        prepared.run([X, X, X])
    with pytest.raises(TypeMismatch, match="int64"):
        prepared.run([X.astype(np.int64)])
    with pytest.raises(ShapeMismatch, match="batch axis"):
        prepared.run([X[0]])


def test_what_is_compatible(affine: onnx.ModelProto) -> None:
    assert backend.is_compatible(affine)
    other = onnx.ModelProto()
    other.CopyFrom(affine)
    other.graph.node[0].op_type = "Nonsense"
    assert not backend.is_compatible(other)
    other.CopyFrom(affine)
    other.graph.node[0].domain = "my.own"
    other.opset_import.add(domain="my.own", version=1)
    assert not backend.is_compatible(other)
    with pytest.raises(FormatError):
        backend.prepare(b"no model")


# -- single nodes -------------------------------------------------------------------------------
def test_a_node() -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    (c,) = backend.run_node(node, [X, X])
    np.testing.assert_array_equal(c, 2 * X)
    named = backend.run_node(node, {"a": X, "b": X[0]}, "CPU")
    np.testing.assert_array_equal(named["c"], X + X[0])


def test_a_node_of_an_older_opset() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"])  # before 13: over all axes from 1 on
    x = np.zeros((2, 2, 2), np.float32)
    np.testing.assert_array_equal(backend.run_node(node, x)[0], x + 0.5)
    np.testing.assert_array_equal(backend.run_node(node, x, opset_version=12)[0], x + 0.25)
    for wrong in (0, 29, "12", True):
        with pytest.raises(BadAttribute, match="opset_version must be 1 to"):
            backend.run_node(node, x, opset_version=wrong)


def test_omitted_inputs_and_outputs() -> None:
    node = helper.make_node("Clip", ["x", "", "high"], ["y"])
    high = np.float32(3)
    for inputs in ([X, high], [X, None, high], {"x": X, "high": high}):
        np.testing.assert_array_equal(backend.run_node(node, inputs)[0], np.minimum(X, 3))
    node = helper.make_node("TopK", ["x", "k"], ["", "places"])
    results = backend.run_node(node, [X, np.array([1], np.int64)])
    np.testing.assert_array_equal(results["places"], [[2], [2]])


def test_the_same_input_twice() -> None:
    node = helper.make_node("Mul", ["x", "x"], ["y"])
    np.testing.assert_array_equal(backend.run_node(node, [X, X])[0], X * X)


def test_outputs_that_the_caller_knows() -> None:
    node = helper.make_node("Transpose", ["x"], ["y"])
    (y,) = backend.run_node(node, X, outputs_info=[(np.float32, (3, 2))])
    assert y.shape == (3, 2)
    with pytest.raises(InputError, match="has 1 outputs, outputs_info tells 2"):
        backend.run_node(node, X, outputs_info=[(np.float32, (3, 2))] * 2)
    with pytest.warns(UserWarning, match="contradict"):
        backend.run_node(node, X, outputs_info=[(np.float32, (5, 5))])


def test_sequences_strings_and_other_domains() -> None:
    node = helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)
    np.testing.assert_array_equal(backend.run_node(node, [[X, X[:1]]])[0], [*X, *X[:1]])
    node = helper.make_node("StringConcat", ["a", "b"], ["y"])
    a, b = np.array(["1", "2"], object), np.array(["x"], object)
    assert backend.run_node(node, [a, b])[0].tolist() == ["1x", "2x"]
    node = helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=2.0)
    np.testing.assert_array_equal(backend.run_node(node, X)[0], X > 2)
    with pytest.raises(InputError, match="empty sequence"):
        backend.run_node(helper.make_node("SequenceLength", ["s"], ["y"]), [[]])


def test_mistaken_nodes() -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    with pytest.raises(InputError, match=r"Add has 2 inputs \(a, b\), 1 value came"):
        backend.run_node(node, X)
    with pytest.raises(InputError, match="Add needs 'b'"):
        backend.run_node(node, {"a": X})
    with pytest.raises(InputError, match="Add has no input 'd'"):
        backend.run_node(node, {"a": X, "b": X, "d": X})
    with pytest.raises(InputError, match="cannot be told from None"):
        backend.run_node(node, [X, None])
    with pytest.raises(BadAttribute, match="CUDA"):
        backend.run_node(node, [X, X], "CUDA")
    with pytest.raises(FormatError, match="did you mean 'Add'"):
        backend.run_node(helper.make_node("Addd", ["a", "b"], ["c"]), [X, X])


# -- onnx's runner ------------------------------------------------------------------------------
def runner_cases() -> dict[str, Any]:
    """The classes of test cases that onnx makes for a backend, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite divides by zero to make its cases
        from onnx.backend.test import BackendTest

        found: dict[str, Any] = BackendTest(NeuralsymBackend, __name__).test_cases
    return found


def run_sample(every: int) -> unittest.TestResult:
    """The result of each test whose name's hash falls into the sample."""
    chosen = unittest.TestSuite()
    for case in runner_cases().values():
        for name in unittest.defaultTestLoader.getTestCaseNames(case):
            own = not any(word in name for word in NOT_ALIKE)
            if "Real" not in case.__name__ and own and zlib.crc32(name.encode()) % every == 0:
                chosen.addTest(case(name))
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen.run(result)
    return result


@pytest.mark.parametrize("every", [SAMPLED, pytest.param(1, marks=pytest.mark.slow)])
def test_the_suite_of_onnx_with_its_own_runner(every: int) -> None:
    result = run_sample(every)
    failed = "\n".join(f"{test}: {text}" for test, text in (*result.failures, *result.errors))
    assert result.wasSuccessful(), failed
    skipped = [test for test, why in result.skipped if "doesn't support device CUDA" not in why]
    assert not skipped, "only what is for another device is passed over"
    assert result.testsRun - len(result.skipped) >= 1900 // every
