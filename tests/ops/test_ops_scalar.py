"""Every elementwise operator's `scalar` against onnx's reference evaluator, on awkward values."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import neuralsym.ops as ops
from neuralsym.core import scalar as s
from neuralsym.core.op import OPS, Op
from neuralsym.core.registry import apply
from neuralsym.core.scalar import argument
from neuralsym.core.schema import VERSIONS
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import Elementwise, from_type_name
from neuralsym.ops.evaluate import _PLAIN, _elementwise, _feeds, _reference, settled
from neuralsym.ops.values import compute

Array = NDArray[Any]
FLOATS = np.array(
    [0, 1, 0.5, 1.5, 2.5, 3, 7, 1e-4, 1e-8, 20, 88, 100, 1000, 3e4, 1e10, np.inf, 0.9999]
)
ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "BitShift": [{"direction": "LEFT"}, {"direction": "RIGHT"}],
    "Celu": [{}, {"alpha": 2.0}],
    "Gelu": [{}, {"approximate": "tanh"}],
    "IsInf": [{"detect_negative": n, "detect_positive": p} for n in (0, 1) for p in (0, 1)],
    "Mod": [{}, {"fmod": 1}],
    "Shrink": [{"lambd": 1.5, "bias": 1.0}, {"lambd": 1.5, "bias": 0.7}],
}
# The reference computes these by constants or functions of float32 precision.
SINGLE = {"Gelu", "HardSwish", "Erf"}
STATED = [
    op
    for (domain, _), op in OPS.items()
    if domain in VERSIONS and issubclass(op, Elementwise) and op.scalar is not None
]


def awkward(dtype: NumberType) -> Array:
    if dtype is NumberType.BOOL:
        return np.array([False, True])
    if dtype is NumberType.STRING:
        return np.array(["", "a", "b", "ab"], dtype=object)
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return np.array([*FLOATS, *-FLOATS, np.nan]).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    wanted = [0, 1, 2, 3, 5, 7, -1, -2, -3, -7, 100, -100]
    kept = {v for v in wanted if limits.min <= v <= limits.max}
    return np.array(sorted({*kept, limits.min, limits.max, limits.max - 1}), dtype=dtype.numpy)


def arguments(op: type[Op], dtype: NumberType) -> list[tuple[Array, NumberType]]:
    """Every pair of awkward values, or every value for an operator of one input."""
    values = awkward(dtype)
    if op.__name__ == "Clip":
        low, high = (1, 3) if dtype.startswith("u") else (-2, 3)
        bounds = (np.array(b, dtype.numpy) for b in (low, high))
        return [(values, dtype), *((b, dtype) for b in bounds)]
    first, second = (v.ravel() for v in np.meshgrid(values, values))
    if op.__name__ == "Where":
        condition = np.arange(first.size) % 3 == 0
        return [(condition, NumberType.BOOL), (first, dtype), (second, dtype)]
    if op.schema.inputs[-1].kind == "variadic":
        return [(first, dtype), (second, dtype), (np.roll(first, 3), dtype)]
    return [(values, dtype)] if len(op.schema.inputs) == 1 else [(first, dtype), (second, dtype)]


def numbers(op: type[Op]) -> list[NumberType]:
    """The number types that all tensors of the operator may have."""
    allowed = frozenset.intersection(*(f.allowed for f in op.schema.inputs[-2:]))
    kinds = [from_type_name(name) for name in allowed if name.startswith("tensor(")]
    return sorted(k for k in kinds if k in _PLAIN)


def close(op: type[Op], mine: Array, reference: Array, inputs: list[Array], out: str) -> Array:
    """Equal, or within some units in the last place of what the reference rounds on its way."""
    if not out.startswith(("float", "bfloat")):
        return np.asarray(mine == reference)
    bits = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[out]
    if op.__name__ in SINGLE:
        bits = min(bits, 23)
    unit = 8 * 2.0**-bits
    a, b = mine.astype(np.float64), reference.astype(np.float64)
    scale = np.abs(b)
    if bits < 23 or op.__name__ in SINGLE:  # the reference rounds each step, we the result
        with np.errstate(invalid="ignore"):
            parts = [np.abs(np.broadcast_to(i.astype(np.float64), b.shape)) for i in inputs]
            scale = np.maximum(scale, np.nan_to_num(np.max(parts, axis=0), posinf=0.0))
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= unit * scale + 1e-37
    same = (a == b) | (np.isnan(a) & np.isnan(b)) | near
    if op.__name__ == "PRelu":  # a slope that is not finite counts below zero only
        same |= (inputs[0] == 0) & ~np.isfinite(inputs[1].astype(np.float64))
    if op.__name__ == "SwiGLU":  # the reference's sigmoid is 0 where ours is small
        x = inputs[0].astype(np.float64)
        same |= (x <= -80) | ((x <= -17) & ~np.isfinite(inputs[1].astype(np.float64)))
    return same


@pytest.mark.oracle
@pytest.mark.parametrize("op", STATED, ids=lambda op: op.__name__)
def test_scalar_agrees_with_the_reference(op: type[Op]) -> None:
    tried = 0
    for dtype in numbers(op):
        given = arguments(op, dtype)
        if op.__name__ == "Pow" and dtype.is_integer:  # numpy refuses a negative power
            given[1] = (np.abs(given[1][0] % 5), dtype)
        arrays = [a for a, _ in given]
        symbols = [ops.variable(f"x{i}", a.shape, str(k)) for i, (a, k) in enumerate(given)]
        for attributes in ATTRIBUTES.get(op.__name__, [{}]):
            node = apply(op, symbols, attributes)[0].node
            mine = _elementwise(node, list(arrays))
            assert mine is not None
            with np.errstate(all="ignore"):
                made = _reference(node).run(None, _feeds(node, list(arrays)))[0]
            reference = settled(made, node.outputs[0].type)
            assert isinstance(reference, np.ndarray)
            assert mine.dtype == reference.dtype
            good = close(op, mine, reference, arrays, node.outputs[0].dtype)
            at = np.flatnonzero(~np.asarray(good))[:3]
            shown = [[a.ravel()[i % a.size] for a in (*arrays, mine, reference)] for i in at]
            assert np.all(good), f"{op.__name__} {dtype} {attributes}: {shown}"
            tried += 1
    assert tried


@pytest.mark.parametrize(
    ("name", "x", "wanted"),
    [
        # values by 40-digit arithmetic, where a naive formula overflows or cancels
        ("softplus", -50.0, 1.9287498479639178e-22),
        ("softplus", 800.0, 800.0),
        ("mish", -40.0, -1.6993417021166355e-16),
        ("mish", 60.0, 60.0),
        ("sigmoid", -745.0, 4.9406564584124654e-324),
        ("elu", -1e-12, -9.999999999995e-13),
        ("celu", 1000.0, 1000.0),
        ("softsign", 1e300, 1.0),
    ],
)
def test_awkward_places_keep_their_precision(name: str, x: float, wanted: float) -> None:
    symbol = getattr(ops, name)(ops.variable("x", (), "float64"))
    value = _elementwise(symbol.node, [np.array(x)])
    assert value is not None
    np.testing.assert_allclose(float(value), wanted, rtol=4e-16)


def test_numbers_take_the_type_of_their_partner() -> None:
    x = np.array([1, 2, 3], np.uint8)
    made = compute(s.where(argument(0) > 1, argument(0) * 2, 0), [x], NumberType.UINT8)
    assert (made.dtype, made.tolist()) == (np.uint8, [0, 4, 6])


def test_a_choice_between_numbers_has_the_type_of_the_result() -> None:
    x = np.array([1.0, 3.0], np.float32)
    made = compute(s.where(argument(0) > 2, 2.5, 0), [x], NumberType.FLOAT32)
    assert (made.dtype, made.tolist()) == (np.float32, [0, 2.5])


def test_a_shared_part_is_computed_once_and_depth_is_no_limit() -> None:
    expr = argument(0)
    for _ in range(3000):
        expr = expr * 0.5 + expr * 0.5
    made = compute(expr, [np.array([3.0], np.float32)], NumberType.FLOAT32)
    assert made.tolist() == [3.0]


def test_expressions_are_equal_in_another_process() -> None:
    made = pickle.loads(pickle.dumps(argument(0) * 2))
    assert made == argument(0) * 2
    assert hash(made) == hash(argument(0) * 2)
    script = (
        "import pickle, sys; from neuralsym.core.scalar import argument; "
        "e = pickle.load(sys.stdin.buffer); assert {e: 1}[argument(0) * 2]"
    )
    data = pickle.dumps(argument(0) * 2)
    subprocess.run([sys.executable, "-c", script], input=data, check=True)


def test_a_scalar_that_does_not_fit_its_schema_is_refused() -> None:
    before = dict(OPS)
    try:
        with pytest.raises(TypeError, match="'alhpa'"):

            class LeakyRelu(Elementwise):
                @staticmethod
                def scalar(x: s.Expr, *, alhpa: float) -> s.Scalar:
                    return x * alhpa

        with pytest.raises(TypeError, match="its inputs A, B"):

            class Add(Elementwise):
                @staticmethod
                def scalar(a: s.Expr) -> s.Scalar:
                    return a

    finally:
        OPS.clear()
        OPS.update(before)
