"""onnx's own node tests, built with the operator functions and computed node by node."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, numpy_helper

from neuralsym import ops
from neuralsym.core import proto
from neuralsym.core.dim import evaluate as evaluate_dim
from neuralsym.core.leaves import make_variable
from neuralsym.core.op import OPS, find_op
from neuralsym.core.schema import plain_attribute
from neuralsym.core.symbol import Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType, as_shape
from neuralsym.errors import OpError
from neuralsym.ops.evaluate import evaluate
from neuralsym.ops.functions import HAND_WRITTEN, arguments, function_name

# Cases whose expected values are written with four digits.
PRINTED = ("test_averagepool_2d_ceil_last", "test_gridsample_bicubic", "test_roialign_aligned")
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomUniform"}


def plain(value: Any) -> Any:
    """A test value as `evaluate` takes it."""
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return plain(numpy_helper.to_list(value))
    if isinstance(value, onnx.OptionalProto):
        return plain(numpy_helper.to_optional(value))
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "US":
        value = value.astype(object)
    return value


def suitable(case: Any) -> bool:
    """One node of the pinned opset, without a body."""
    if len(case.model.graph.node) != 1:
        return False
    node = case.model.graph.node[0]
    op = OPS.get((node.domain, node.op_type))
    if op is None or node.op_type in (*HAND_WRITTEN, *RANDOM):
        return False
    if any(a.type == AttributeProto.GRAPH for a in node.attribute):
        return False
    opsets = {o.domain: o.version for o in case.model.opset_import}
    return opsets[node.domain] >= op.schema.since


def sampled(cases: list[Any]) -> list[Any]:
    """For each operator its first case by hash, and a twentieth of the others."""
    seen: set[str] = set()
    kept = []
    for case in sorted(cases, key=lambda c: hashlib.sha256(c.name.encode()).hexdigest()):
        digest = hashlib.sha256(case.name.encode()).digest()[0]
        op = case.model.graph.node[0].op_type
        if op not in seen or digest < 13:
            kept.append(case)
        seen.add(op)
    return kept


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return [case for case in collect_testcases(None) if suitable(case)]


def build(node: onnx.NodeProto, symbols: dict[str, Symbol]) -> tuple[Symbol, ...]:
    """The node through its Python function."""
    op = find_op(node.op_type, node.domain)
    found = arguments(op)
    inputs = [symbols[name] if name else None for name in node.input]
    places: list[Any] = []
    for k, argument in enumerate(a for a in found if a.formal is not None):
        if argument.kind == "inputs":
            places.append(inputs[k:])
        elif k < len(inputs):
            places.append(inputs[k])
    named: dict[str, Any] = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if attribute.type == AttributeProto.TENSOR:
            value = proto.tensor_from_proto(value)
        elif attribute.type == AttributeProto.TYPE_PROTO:
            value = proto.type_from_proto(value)
        else:
            value = plain_attribute(value)
        named[attribute.name] = value
    if any(a.kind == "outputs" for a in found):
        named["outputs"] = max(k for k, name in enumerate(node.output) if name) + 1
    made = getattr(ops, function_name(op))(*places, **named)
    return made if isinstance(made, tuple) else (made,)


def run(case: Any, known: bool) -> None:
    node = case.model.graph.node[0]
    inputs, expected = case.data_sets[0]
    values = {i.name: plain(v) for i, v in zip(case.model.graph.input, inputs, strict=True)}
    symbols = {}
    for declared in case.model.graph.input:
        value = values[declared.name]
        if known and isinstance(value, np.ndarray):
            symbols[declared.name] = ops.constant(Tensor.of(value))
        else:
            type_ = proto.type_from_proto(declared.type)
            symbols[declared.name] = make_variable(declared.name or "empty", type_)
    outputs = build(node, symbols)
    got = evaluate(outputs[0].node, [values[n] if n else None for n in node.input])
    wanted = {o.name: plain(v) for o, v in zip(case.model.graph.output, expected, strict=True)}
    for name, value, symbol in zip(node.output, got, outputs, strict=False):
        if name in wanted:
            bits = 13 if case.name.startswith(PRINTED) else None
            same(value, wanted[name], bits)
            typed(symbol, wanted[name])
            if symbol.known is not None:
                same(np.asarray(symbol.known).astype(wanted[name].dtype), wanted[name])


def same(value: Any, wanted: Any, bits: int | None = None) -> None:
    if isinstance(wanted, list):
        assert len(value) == len(wanted)
        for a, b in zip(value, wanted, strict=True):
            same(a, b)
        return
    if not isinstance(wanted, np.ndarray):
        assert value == wanted
        return
    assert value.shape == wanted.shape
    if wanted.dtype == object:
        assert value.tolist() == wanted.tolist()
        return
    assert value.dtype == wanted.dtype
    if wanted.dtype.kind in "iub" and "float" not in wanted.dtype.name:
        np.testing.assert_array_equal(value, wanted)
        return
    # A few operations, each rounded: some tens of units in the last place.
    bits = bits or {1: 2, 2: 7}.get(wanted.dtype.itemsize, 17)
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    tolerance = 2.0**-bits
    np.testing.assert_allclose(
        value.astype(wide), wanted.astype(wide), rtol=tolerance, atol=tolerance
    )


def typed(symbol: Symbol, wanted: Any) -> None:
    """What inference said holds for the value."""
    if isinstance(symbol.type, TensorType) and isinstance(wanted, np.ndarray):
        assert symbol.dtype.numpy == wanted.dtype
        if symbol.shape is not None:
            assert len(symbol.shape) == wanted.ndim
            pairs = zip(symbol.shape, wanted.shape, strict=True)
            assert all(a == b for a, b in pairs if isinstance(a, int))


def named(case: Any) -> None:
    """Sizes as names: what inference says of the outputs holds when the names get their sizes."""
    node = case.model.graph.node[0]
    inputs, expected = case.data_sets[0]
    symbols = {}
    sizes: dict[str, int] = {}
    for declared, given in zip(case.model.graph.input, inputs, strict=True):
        value, type_ = plain(given), proto.type_from_proto(declared.type)
        tensor = isinstance(type_, TensorType) and isinstance(value, np.ndarray)
        if tensor and ((value.dtype.kind == "i" and value.ndim < 2) or value.ndim == 0):
            symbols[declared.name] = ops.constant(Tensor.of(value))  # a shape, axes, a count
            continue
        if tensor:
            sizes.update({f"d{d}": d for d in value.shape})
            shape = as_shape([f"d{d}" if d > 1 else d for d in value.shape])
            type_ = TensorType(type_.dtype, shape)
        symbols[declared.name] = make_variable(declared.name or "empty", type_)
    outputs = build(node, symbols)
    wanted = {o.name: plain(v) for o, v in zip(case.model.graph.output, expected, strict=True)}
    for name, symbol in zip(node.output, outputs, strict=False):
        value = wanted.get(name)
        if isinstance(value, np.ndarray) and symbol.shape is not None:
            assert len(symbol.shape) == value.ndim
            pairs = zip(symbol.shape, value.shape, strict=True)
            assert all(evaluate_dim(a, sizes) == b for a, b in pairs if a is not None)


def check(cases: list[Any], how: Callable[[Any], None]) -> None:
    failed = []
    for case in cases:
        try:
            how(case)
        except Exception as error:
            failed.append(f"{case.name}: {type(error).__name__}: {str(error)[:200]}")
    assert not failed, "\n".join(failed)


@pytest.mark.oracle
def test_a_sample_of_every_operator(cases: list[Any]) -> None:
    check(sampled(cases), lambda case: run(case, known=False))


@pytest.mark.oracle
def test_known_values_are_those_of_a_run(cases: list[Any]) -> None:
    check(sampled(cases), lambda case: run(case, known=True))


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("known", [False, True])
def test_every_case(cases: list[Any], known: bool) -> None:
    assert len(cases) > 1000
    check(cases, lambda case: run(case, known))


@pytest.mark.oracle
def test_sizes_that_are_names(cases: list[Any]) -> None:
    check(cases, named)


NONSENSE = (-1, 0, 1, 2, -5, 2**31, 2**40, -(2**62), 2**62, 7)


def spoilt(case: Any, random: Random) -> tuple[onnx.NodeProto, dict[str, Symbol]]:
    """The case with an attribute, a shape or a value that is nonsense."""
    node = onnx.NodeProto()
    node.CopyFrom(case.model.graph.node[0])
    specs = find_op(node.op_type, node.domain).schema.attributes
    values: dict[str, Callable[[], Any]] = {
        "INT": lambda: random.choice(NONSENSE),
        "INTS": lambda: [random.choice(NONSENSE) for _ in range(random.randint(1, 4))],
        "FLOAT": lambda: random.choice([float("nan"), float("inf"), -1.0, 0.0, 1e30]),
        "STRING": lambda: "nonsense",
    }
    name = random.choice(sorted(specs)) if specs and random.random() < 0.6 else None
    if name is not None and specs[name].kind in values:
        for attribute in [a for a in node.attribute if a.name == name]:
            node.attribute.remove(attribute)
        value = values[specs[name].kind]()
        node.attribute.append(onnx.helper.make_attribute(name, value))
    symbols = {}
    for declared, given in zip(case.model.graph.input, case.data_sets[0][0], strict=True):
        value, type_ = plain(given), proto.type_from_proto(declared.type)
        if isinstance(type_, TensorType) and isinstance(value, np.ndarray):
            if value.dtype == np.int64 and value.size and random.random() < 0.3:
                value = value.copy()
                value.flat[random.randrange(value.size)] = random.choice(NONSENSE)
            if value.ndim < 2 and random.random() < 0.6:
                symbols[declared.name] = ops.constant(Tensor.of(value))
                continue
            shape = tuple(value.shape)
            if random.random() < 0.3:
                shape = tuple(random.choice((0, 1, 2, 5)) for _ in range(random.randint(0, 5)))
            type_ = TensorType(type_.dtype, None if random.random() < 0.05 else shape)
        symbols[declared.name] = make_variable(declared.name or "empty", type_)
    return node, symbols


def test_nonsense_is_taken_or_refused_but_never_crashes(cases: list[Any]) -> None:
    random = Random(7)

    def attempt(case: Any) -> None:
        node, symbols = spoilt(case, random)
        with contextlib.suppress(OpError):
            build(node, symbols)

    check(cases, attempt)
