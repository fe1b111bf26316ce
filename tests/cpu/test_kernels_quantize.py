"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear: by tensor, axis and block, all types.

Every one runs in compiled steps, and onnx's own cases of all operators that quantise do.
"""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import cell_of, leaves, run_cell
from run_graph import assert_compiled

from neuralsym.core.dim import Dim
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.core.op import find_op
from neuralsym.core.registry import apply, call
from neuralsym.cpu.compiler import run_passes
from neuralsym.cpu.kernels.host import HostKernel
from neuralsym.cpu.library import Library
from neuralsym.cpu.lower import Lowering, lower
from neuralsym.cpu.machine import Target
from neuralsym.cpu.options import Options
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx import to_symbolic
from neuralsym.errors import ShapeMismatch
from neuralsym.ops.evaluate import evaluate

RANGES = {
    **{f"int{b}": (-(2 ** (b - 1)), 2 ** (b - 1) - 1) for b in (2, 4, 8, 16)},
    **{f"uint{b}": (0, 2**b - 1) for b in (2, 4, 8, 16)},
}
FLOAT8 = {
    "float8e4m3fn": 448.0,
    "float8e4m3fnuz": 240.0,
    "float8e5m2": 57344.0,
    "float8e5m2fnuz": 57344.0,
}
SMALL = {"float4e2m1": 6.0, "float6e2m3": 7.5, "float6e3m2": 28.0}
ALL = [*RANGES, *FLOAT8, *SMALL]


def run(op: str, arrays: list[Any], stored: tuple[int, ...] = (), **attrs: Any) -> Any:
    symbols, fed = leaves(arrays, stored)
    cell = cell_of([call(op, *symbols, **attrs)], [s for s in symbols if s is not None and s.name])
    assert_compiled(cell)
    return run_cell(cell, fed)[0]


def spread(values: Any, shape: tuple[int, ...], axis: int, block: int) -> Any:
    """A scale or zero point for each element."""
    values = np.asarray(values)
    if values.size == 1:
        return np.broadcast_to(values.reshape(()), shape)
    if block:
        return np.repeat(values, block, axis).take(range(shape[axis]), axis)
    dims = [1] * len(shape)
    dims[axis] = -1
    return np.broadcast_to(values.reshape(dims), shape)


def typed(values: Any, kind: str) -> Any:
    return np.asarray(values).astype(NumberType(kind).numpy)


def quantised(x: Any, scale: Any, zero: Any, kind: str) -> Any:
    """The answer for float32 operands, as float64: rounded half to even, then moved."""
    with np.errstate(all="ignore"):
        ratio = (x / scale).astype(np.float32).astype(np.float64)
        if kind in RANGES:
            low, high = RANGES[kind]
            made = np.rint(ratio) + zero.astype(np.float64)
            return np.clip(np.where(np.isnan(made), low, made), low, high)
        made = ratio + zero.astype(np.float64)
        largest = {**FLOAT8, **SMALL}[kind]
        return (
            np.clip(made, -largest, largest)
            .astype(np.float32)
            .astype(NumberType(kind).numpy)
            .astype(np.float64)
        )


@st.composite
def granular(draw: Any) -> Any:
    """x's shape, the axis, and the block size: 0 with one scale for each index, None for one."""
    shape = tuple(draw(st.lists(st.integers(0, 7), min_size=1, max_size=4)))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[axis]
    how = draw(st.sampled_from(["tensor", "axis", "block"]))
    if how == "tensor" or size == 0:
        return shape, axis, None, draw(st.sampled_from([(), (1,)]))
    if how == "axis" or size < 2 or len(shape) < 2:
        return shape, axis, 0, (size,)
    block = draw(st.integers(1, size))
    scales = list(shape)
    scales[axis] = -(-size // block)
    return shape, axis, block, tuple(scales)


@given(granular(), st.sampled_from(ALL), st.booleans(), st.integers(0, 2**31))
@settings(max_examples=150, deadline=None)
def test_quantize(how, kind, has_zero, seed):
    (shape, axis, block, scales), rng = how, np.random.default_rng(seed)
    reach = 3.0 if kind in SMALL or kind.endswith("2") else 200.0
    x = (rng.normal(size=shape) * reach * 10.0 ** rng.integers(-1, 3)).astype(np.float32)
    scale = rng.uniform(0.1, 2.0, scales).astype(np.float32)
    low, high = RANGES.get(kind, (-2, 2))
    zero = typed(rng.integers(low, high, scales, endpoint=True), kind)
    if kind in FLOAT8:
        zero = typed(np.zeros(scales), kind)
    attrs = {"axis": axis, **({"block_size": block} if block else {})}
    if not has_zero:
        attrs["output_dtype"] = NumberType(kind).onnx
    made = run("QuantizeLinear", [x, scale, zero if has_zero else None], **attrs)
    assert made.dtype == NumberType(kind).numpy and made.shape == shape
    parts = [spread(v, shape, axis, block or 0) for v in (scale, zero)]
    if not has_zero:
        parts[1] = np.zeros(shape)
    np.testing.assert_array_equal(made.astype(np.float64), quantised(x, *parts, kind))


@given(
    granular(),
    st.sampled_from([*ALL, "int32"]),
    st.sampled_from(["float32", "float16", "bfloat16", "float8e8m0"]),
    st.booleans(),
    st.integers(0, 2**31),
)
@settings(max_examples=150, deadline=None)
def test_dequantize(how, kind, scale_kind, has_zero, seed):
    (shape, axis, block, scales), rng = how, np.random.default_rng(seed)
    if kind in RANGES or kind == "int32":
        low, high = RANGES.get(kind, (-(2**31), 2**31 - 1))
        x, zero = (typed(rng.integers(low, high, s, endpoint=True), kind) for s in (shape, scales))
    else:
        x = typed((rng.normal(size=shape) * 3).astype(np.float32), kind)
        zero = typed(np.zeros(scales), kind)
    scale = typed((2.0 ** rng.uniform(-6, 1, scales)).astype(np.float32), scale_kind)
    attrs = {"axis": axis, **({"block_size": block} if block else {})}
    out = scale_kind
    if scale_kind == "float8e8m0":
        out = attrs["output_dtype"] = "float32"
        attrs["output_dtype"] = NumberType.FLOAT32.onnx
    made = run("DequantizeLinear", [x, scale, zero if has_zero else None], **attrs)
    assert made.dtype == NumberType(out).numpy and made.shape == shape
    parts = [spread(v, shape, axis, block or 0).astype(np.float64) for v in (scale, zero)]
    wanted = (x.astype(np.float64) - (parts[1] if has_zero else 0)) * parts[0]
    with np.errstate(over="ignore"):
        # The product of float32 operands, rounded twice at most.
        wanted = wanted.astype(np.float32).astype(NumberType(out).numpy)
    np.testing.assert_array_equal(made.astype(np.float64), wanted.astype(np.float64))


def test_special_values_and_extremes():
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.5, 3.5, -0.0, -2.5], np.float32)
    scale = np.float32(1)
    assert run("QuantizeLinear", [x, scale, np.uint8(3)]).tolist() == [
        *(0, 255, 0, 255, 0, 5, 7, 3, 1)
    ]
    assert run("QuantizeLinear", [x, scale, np.int16(-3)]).tolist() == [
        *(-32768, 32767, -32768, 32767, -32768, -1, 1, -3, -5)
    ]
    zero = np.zeros((), ml_dtypes.float8_e5m2)
    sat = run("QuantizeLinear", [x, scale, zero]).astype(float)
    not_sat = run("QuantizeLinear", [x, scale, zero], saturate=0).astype(float)
    np.testing.assert_array_equal(sat[:5], [np.nan, 57344, -57344, 57344, -57344])
    np.testing.assert_array_equal(not_sat[:5], [np.nan, np.inf, -np.inf, np.inf, -np.inf])
    assert np.signbit(sat[7])
    # By a scale of zero.
    by_zero = run("QuantizeLinear", [np.array([1, -1, 0], np.float32), np.float32(0), np.int8(9)])
    assert by_zero.tolist() == [127, -128, -128]


def test_the_division_has_the_precision_of_the_scale_or_the_one_asked_for():
    x, scale = np.array([2049.0, 1.0], np.float32), np.array(1, np.float16)
    as_scale = run("QuantizeLinear", [x, scale, np.uint16(0)])
    asked = run("QuantizeLinear", [x, scale, np.uint16(0)], precision=NumberType.FLOAT32.onnx)
    assert as_scale.tolist() == [2048, 1] and asked.tolist() == [2049, 1]
    whole = np.array([-(2**24) - 1, 7, 9], np.int32)
    made = run("QuantizeLinear", [whole, np.float32(2), np.int8(0)])
    assert made.tolist() == [-128, 4, 4]
    made = run("QuantizeLinear", [whole, np.array(2, np.int32), np.int8(0)])
    assert made.tolist() == [-128, 4, 4]
    halves = np.array([1.0009765625, 3.0], np.float16)
    made = run("QuantizeLinear", [halves, np.array(0.001, ml_dtypes.bfloat16), np.int16(0)])
    ratio = (halves.astype(ml_dtypes.bfloat16) / np.array(0.001, ml_dtypes.bfloat16)).astype(float)
    assert made.tolist() == np.rint(ratio).tolist()


@pytest.mark.parametrize("x_kind", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("scale_kind", ["float32", "float16", "bfloat16", "int32", "float8e8m0"])
def test_all_types_of_values_and_scales(x_kind, scale_kind):
    """The division is that of the scale's type, or of x's where the scale's has none."""
    rng = np.random.default_rng(7)
    x = typed((rng.normal(size=(5, 40)) * 60).astype(np.float32), x_kind)
    scale = typed(np.array([0.5, 3, 1, 2, 7], np.float32), scale_kind)
    if scale_kind == "int32":
        scale = np.maximum(scale, 1)
    zero = typed(rng.integers(-5, 5, 5), "int8")
    made = run("QuantizeLinear", [x, scale, zero], axis=0)
    kind = scale_kind if scale_kind.startswith(("float1", "float3", "bf")) else x_kind
    dtype = np.dtype(np.float32) if kind == "int32" else NumberType(kind).numpy
    ratio = (x.astype(dtype) / scale.astype(np.float32).astype(dtype)[:, None]).astype(dtype)
    wanted = np.clip(np.rint(ratio.astype(np.float64)) + zero.astype(int)[:, None], -128, 127)
    np.testing.assert_array_equal(made, wanted)


def test_sizes_that_only_a_run_tells():
    shape = (Dim.name("N"), 4, Dim.name("W"))
    x, scale = variable("x0", shape, "float32"), variable("x1", (4,), "float32")
    zero = variable("x2", (4,), "int4")
    q = call("QuantizeLinear", x, scale, zero)
    cell = cell_of([call("DequantizeLinear", q, scale, zero)], [x, scale, zero])
    assert_compiled(cell)
    scales, zeros = np.array([0.5, 1, 2, 4], np.float32), typed([-3, 0, 1, 5], "int4")
    for n, w in ((1, 1), (3, 5), (0, 2), (2, 33)):
        value = np.random.default_rng(0).normal(size=(n, 4, w)).astype(np.float32) * 10
        (made,) = run_cell(cell, {"x0": value, "x1": scales, "x2": zeros})
        s, z = scales[:, None], zeros.astype(np.float64)[:, None]
        wanted = (np.clip(np.rint(value / s) + z, -8, 7) - z) * s
        np.testing.assert_array_equal(made, wanted)


def test_scales_that_do_not_fit_are_refused_when_the_sizes_are_known():
    x, scale = variable("x0", (2, Dim.name("C")), "float32"), variable("x1", (3,), "float32")
    cell = cell_of([call("QuantizeLinear", x, scale)], [x, scale])
    with pytest.raises(ShapeMismatch, match="the scale has 3 values"):
        run_cell(cell, {"x0": np.zeros((2, 4), np.float32), "x1": np.ones(3, np.float32)})


def test_one_scale_makes_one_loop_with_its_neighbours():
    x = np.random.default_rng(1).normal(size=(3, 50)).astype(np.float32)
    v = variable("x0", x.shape, "float32")
    (scale, zero), _ = leaves([np.float32(0.02), np.uint8(128)], (0, 1))
    q = call("QuantizeLinear", call("Mul", v, v), scale, zero)
    cell = cell_of([call("Relu", call("DequantizeLinear", q, scale, zero))], [v])
    assert [s.kernel.name for s in cell.program.steps] == ["loop"]
    (made,) = run_cell(cell, {"x0": x})
    levels = np.clip(np.rint(x * x / np.float32(0.02)) + 128, 0, 255).astype(np.float32)
    np.testing.assert_array_equal(made, np.maximum((levels - 128) * np.float32(0.02), 0))


@given(st.integers(0, 2**31), st.lists(st.integers(1, 6), max_size=3))
@settings(max_examples=40, deadline=None)
def test_dynamic_quantize(seed, shape):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3) + rng.integers(-3, 4)).astype(
        np.float32
    )
    v = variable("x0", x.shape, "float32")
    symbols = apply(find_op("DynamicQuantizeLinear"), (v,), {})
    cell = cell_of(list(symbols), [v])
    assert_compiled(cell)
    y, scale, zero = run_cell(cell, {"x0": x})
    high, low = max(np.float32(0), x.max()), min(np.float32(0), x.min())
    wanted = np.float32(high - low) / np.float32(255) if high > low else np.float32(1) / 255
    offset = np.clip(np.rint(-low / np.float32(wanted)), 0, 255)
    assert scale.shape == zero.shape == () and scale == np.float32(wanted) and zero == offset
    levels = np.clip(np.rint(x / np.float32(wanted)) + offset, 0, 255)
    np.testing.assert_array_equal(y, levels.astype(np.uint8))


@pytest.mark.parametrize("kind", ["uint8", "int4", "float8e4m3fn", "float6e3m2"])
def test_folded_values_are_those_of_a_run(kind):
    x = np.random.default_rng(2).normal(size=(4, 6)).astype(np.float32) * 40
    scale = np.array([[0.5, 1.5, 2], [1, 0.25, 3]] * 2, np.float32)
    zero = typed(np.ones((4, 3)), kind)
    arrays = [x, scale, zero]
    symbols, fed = leaves(arrays)
    q = call("QuantizeLinear", *symbols, axis=1, block_size=2)
    (made,) = run_cell(cell_of([q], symbols), fed)
    (folded,) = evaluate(q.node, arrays)
    assert made.tobytes() == folded.tobytes()
    (y,) = leaves([made])[0]
    d = call("DequantizeLinear", y, *symbols[1:], axis=1, block_size=2)
    (real,) = run_cell(cell_of([d], [y, *symbols[1:]]), {**fed, "x0": made})
    np.testing.assert_array_equal(real, evaluate(d.node, [made, scale, zero])[0])


# -- onnx's cases ------------------------------------------------------------------------------
FAMILIES = re.compile(
    r"test_(cast|bitcast|quantizelinear|dequantizelinear|dynamicquantizelinear|qlinear|convinteger"
    r"|matmulinteger|basic_convinteger)"
)


@cache
def cases() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx divides by zero to make its cases
        from onnx.backend.test.loader import load_model_tests

        found = load_model_tests(kind="node")
    return {c.name: c for c in found if FAMILIES.match(c.name) and "STRING" not in c.name}


def test_every_case_of_onnx_is_compiled():
    """Their values are compared in tests/conformance; here, that no step runs in Python."""
    assert len(cases()) > 150
    hosts = {}
    options = Options(threads=1)
    lowering = Lowering(Library.default(), Target.of(None), options, lambda body: None)
    for name, case in cases().items():
        model = to_symbolic(case.model)
        graph = model if isinstance(model, Graph) else model.graph
        steps = lower(run_passes(graph, lowering), lowering).steps
        found = [s.op.__name__ for s in steps if isinstance(s.kernel, HostKernel)]
        if found:
            hosts[name] = found
    assert not hosts
