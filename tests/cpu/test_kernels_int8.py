"""The integer kernels: exact sums for all types, zero points, shapes, instruction sets, threads.

A reference in int64 tells every sum; extremes would saturate the 16-bit sums of pairs that some
instructions make (255 * 127 twice).
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import SETS, cell_of, leaves, run_cell

from neuralsym.core.dim import Dim
from neuralsym.core.leaves import constant, variable
from neuralsym.core.registry import apply, call
from neuralsym.cpu.emit import Code, assembly, compile_object
from neuralsym.cpu.machine import Target
from neuralsym.cpu.templates.int8_form import Int8Text
from neuralsym.cpu.templates.int8_plan import Machine, Output, plan_int8_matmul
from neuralsym.cpu.templates.int8_pool import Int8PoolText, int8_pool_text
from neuralsym.cpu.templates.int8_product import int8_text
from neuralsym.dtypes import NumberType
from neuralsym.ops.evaluate import evaluate
from neuralsym.passes.quantised_ops import IntegerAveragePool, IntegerConv, IntegerMatMul

LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}
TYPES = tuple(LIMITS)
U8 = NumberType.UINT8


def drawn(rng, kind, shape, extreme=False):
    low, high = LIMITS[kind]
    made = rng.integers(low, high, shape, endpoint=True)
    if extreme:
        made = np.where(rng.integers(0, 8, shape) == 0, low, high)
    return made.astype(kind)


def exact_conv(x, w, attrs):
    """The convolution of int64 arrays, padded with zeros."""
    axes = w.ndim - 2
    groups = attrs.get("group", 1)
    strides, dilations = attrs.get("strides", [1] * axes), attrs.get("dilations", [1] * axes)
    pads = attrs.get("pads", [0] * 2 * axes)
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:axes], pads[axes:], strict=True)])
    out = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True)
    ]
    y = np.zeros((x.shape[0], w.shape[0], *out), np.int64)
    each, rows = w.shape[1], w.shape[0] // groups
    for g, taps in product(range(groups), product(*map(range, w.shape[2:]))):
        window = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(taps, dilations, out, strides, strict=True)
        )
        part = x[(slice(None), slice(g * each, (g + 1) * each), *window)]
        chosen = slice(g * rows, (g + 1) * rows)
        y[:, chosen] += np.einsum("nc...,oc->no...", part, w[(chosen, slice(None), *taps)])
    return y


@st.composite
def convolutions(draw):
    axes = draw(st.sampled_from((1, 2, 2, 2, 3)))
    form = draw(st.sampled_from(("dense", "dense", "groups", "depthwise")))
    groups = 1 if form == "dense" else draw(st.sampled_from((2, 3, 16, 20)))
    each = draw(st.sampled_from((1, 2, 4, 16))) if form == "groups" else 1
    channels = groups * each if form != "dense" else draw(st.sampled_from((1, 3, 8, 17, 33, 64)))
    per = 1 if form == "depthwise" else draw(st.sampled_from((1, 2, 16, 19)))
    kernel = [draw(st.integers(1, 3)) for _ in range(axes)]
    dilations = [draw(st.integers(1, 2)) for _ in range(axes)]
    size = [
        (k - 1) * d + draw(st.integers(1, 9 if axes < 3 else 4))
        for k, d in zip(kernel, dilations, strict=True)
    ]
    attrs = {
        "group": groups,
        "dilations": dilations,
        "strides": [draw(st.integers(1, 2)) for _ in range(axes)],
        "pads": [draw(st.integers(0, 2)) for _ in range(2 * axes)],
    }
    shapes = (draw(st.integers(1, 2)), channels, *size), (groups * per, channels // groups, *kernel)
    return (*shapes, attrs, draw(st.sampled_from(TYPES)), draw(st.sampled_from(TYPES)))


@pytest.mark.slow
@settings(max_examples=60, derandomize=True, deadline=None)
@given(convolutions(), st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from(SETS))
def test_sums_of_convolutions(case, seed, extreme, isa):
    x_shape, w_shape, attrs, x_kind, w_kind = case
    rng = np.random.default_rng(seed)
    x, w = drawn(rng, x_kind, x_shape, extreme), drawn(rng, w_kind, w_shape, extreme)
    zx, zw = drawn(rng, x_kind, ()), drawn(rng, w_kind, ())
    if w_kind == "int8" and seed % 2:
        zw = np.int8(0)
    exact = exact_conv(x.astype(np.int64) - int(zx), w.astype(np.int64) - int(zw), attrs)
    for stored in ((1, 2, 3), (1, 3)):
        arrays = [x, w, np.asarray(zx), np.asarray(zw)]
        symbols, fed = leaves(arrays, stored)
        inputs = [symbols[i] for i in range(4) if i not in stored]
        made = call("ConvInteger", *symbols, **attrs)
        cell = cell_of([made], inputs, isa=isa, threads=1 + seed % 2)
        assert any(s.kernel.name == "int8 conv" for s in cell.program.steps)
        (got,) = run_cell(cell, fed)
        assert got.dtype == np.int32 and np.array_equal(got, exact)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=0, max_size=2),
    st.sampled_from((1, 3, 4, 16, 30, 64, 100)),
    st.sampled_from((1, 5, 16, 40, 64, 129)),
    st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES)),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.sampled_from(SETS),
)
def test_sums_of_matrices(rows, inner, columns, kinds, seed, extreme, isa):
    rng = np.random.default_rng(seed)
    a = drawn(rng, kinds[0], (*rows, inner), extreme)
    b = drawn(rng, kinds[1], (inner, columns), extreme)
    za, zb = drawn(rng, kinds[0], ()), drawn(rng, kinds[1], (columns,))
    exact = (a.astype(np.int64) - int(za)) @ (b.astype(np.int64) - zb)
    for stored in ((1, 2, 3), (1, 3)):
        symbols, fed = leaves([a, b, np.asarray(za), zb], stored)
        inputs = [symbols[i] for i in range(4) if i not in stored]
        made = call("MatMulInteger", *symbols)
        cell = cell_of([made], inputs, isa=isa, threads=1 + seed % 2)
        assert any(s.kernel.name == "int8 matmul" for s in cell.program.steps)
        assert np.array_equal(run_cell(cell, fed)[0], exact)


@pytest.mark.parametrize(("kind", "isa"), list(product(TYPES, SETS)))
def test_requantised_to_the_bit(kind, isa):
    """Halves are rounded to even, and what is beyond the bounds is saturated."""
    rng = np.random.default_rng(3)
    low, high = LIMITS[kind]
    x, w = drawn(rng, "uint8", (2, 24, 6, 5)), drawn(rng, "int8", (20, 24, 3, 1))
    z = drawn(rng, kind, (2, 20, 6, 5))
    bias = rng.integers(-2000, 2000, 20).astype(np.int32)
    # Powers of two make every product exact, so that there are halves, and all must agree.
    scales = (2.0 ** rng.integers(-12, -6, 20)).astype(np.float32)
    attrs = {"pads": [1, 0, 1, 0], "x_zero": 7, "output": NumberType(kind)}
    attrs |= {"zero": low + 40, "low": low + 40, "high": high - 3}
    sums = exact_conv(x.astype(np.int64) - 7, w.astype(np.int64), {"pads": [1, 0, 1, 0]})
    levels = np.rint((sums + bias[:, None, None]) * scales[:, None, None].astype(np.float64))
    first = np.clip(levels + low + 40, low + 40, high - 3)
    second = {"keep": 0.5, "other": 0.25, "z_zero": low + 1, "sum_zero": low + 9}
    second |= {"sum_low": low + 2, "sum_high": high - 1}
    total = np.rint((first - low - 40) * 0.5 + (z.astype(np.float64) - low - 1) * 0.25)
    for beside, exact in ((None, first), (z, np.clip(total + low + 9, low + 2, high - 1))):
        symbols, fed = leaves([x, w, scales, bias, beside], (1, 2, 3))
        more = second if beside is not None else {}
        (made,) = apply(IntegerConv, symbols, attrs | more)
        free = [s for i, s in enumerate(symbols) if i in (0, 4) and s is not None]
        for threads in (1, 2):
            (got,) = run_cell(cell_of([made], free, isa=isa, threads=threads), fed)
            assert got.dtype == kind and np.array_equal(got, exact)
        assert np.array_equal(evaluate(made.node, [x, w, scales, bias, beside])[0], exact)


@pytest.mark.parametrize("isa", SETS)
def test_real_results(isa):
    rng = np.random.default_rng(5)
    a, b = drawn(rng, "uint8", (7, 36)), drawn(rng, "int8", (36, 21))
    scales = rng.uniform(1e-4, 1e-2, 21).astype(np.float32)
    bias = rng.integers(-99, 99, 21).astype(np.int32)
    symbols, fed = leaves([a, b, scales, bias], (1, 2, 3))
    (made,) = apply(IntegerMatMul, symbols, {"x_zero": 128, "output": NumberType.FLOAT32})
    (got,) = run_cell(cell_of([made], symbols[:1], isa=isa), fed)
    sums = (a.astype(np.int64) - 128) @ b.astype(np.int64) + bias
    assert np.array_equal(got, sums.astype(np.float32) * scales)


def test_rows_that_come_in_any_number():
    rng = np.random.default_rng(8)
    b = drawn(rng, "int8", (32, 48))
    a = variable("a", (Dim.name("N"), 32), "uint8")
    cell = cell_of([call("MatMulInteger", a, constant(b))], [a])
    for rows in (1, 2, 13, 100, 0):
        given_rows = drawn(rng, "uint8", (rows, 32))
        (got,) = run_cell(cell, {"a": given_rows})
        assert np.array_equal(got, given_rows.astype(np.int64) @ b.astype(np.int64))


def test_of_several_readers_each_sees_its_own_border():
    """Two convolutions that see the same values with different zero points."""
    rng = np.random.default_rng(9)
    x, w = drawn(rng, "uint8", (1, 32, 5, 5)), drawn(rng, "int8", (32, 32, 3, 3))
    symbol = variable("x0", x.shape, "uint8")
    pads = {"pads": [1, 1, 1, 1]}
    zeros = [np.uint8(z) for z in (3, 0, 200)]
    made = [call("ConvInteger", symbol, constant(w), constant(z), **pads) for z in zeros]
    found = run_cell(cell_of(made, [symbol]), {"x0": x})
    for got, zero in zip(found, zeros, strict=True):
        exact = exact_conv(x.astype(np.int64) - int(zero), w.astype(np.int64), pads)
        assert np.array_equal(got, exact)


@pytest.mark.parametrize(("kind", "isa"), list(product(TYPES, SETS)))
def test_maxima_of_bytes(kind, isa):
    rng = np.random.default_rng(1)
    x = drawn(rng, kind, (2, 20, 7, 6))
    attrs = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}
    symbol = variable("x0", x.shape, kind)
    cell = cell_of([call("MaxPool", symbol, **attrs)], [symbol], isa=isa)
    assert any(s.kernel.name == "int8 pool" for s in cell.program.steps)
    (got,) = run_cell(cell, {"x0": x})
    wide = np.pad(x.astype(np.int64), [(0, 0), (0, 0), (1, 1), (0, 1)], constant_values=-999)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 2), (2, 3))[:, :, ::2]
    assert np.array_equal(got, windows.max((-1, -2)))


@settings(max_examples=30, derandomize=True, deadline=None)
@given(
    st.integers(8, 40),
    st.lists(st.integers(1, 37), min_size=1, max_size=2),
    st.sampled_from(TYPES),
    st.sampled_from(SETS),
)
def test_bytes_in_blocks_and_back(channels, size, kind, isa):
    """Rows of any length: whole vectors of pixels, a last one that overlaps, or byte by byte."""
    x = drawn(np.random.default_rng(channels), kind, (2, channels, *size))
    symbol = variable("x0", x.shape, kind)
    made = call(
        "MaxPool", symbol, kernel_shape=[2] * len(size), pads=[1] * len(size) + [0] * len(size)
    )
    cell = cell_of([made], [symbol], isa=isa)
    assert [s.kernel.name for s in cell.program.steps] == ["reorder", "int8 pool", "reorder"]
    wide = np.pad(x.astype(int), [(0, 0), (0, 0), *[(1, 0)] * len(size)], constant_values=-999)
    axes = tuple(range(2, 2 + len(size)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (2,) * len(size), axes)
    exact = windows.max(tuple(range(-len(size), 0)))
    assert np.array_equal(run_cell(cell, {"x0": x})[0], exact)


@st.composite
def averages(draw):
    axes = draw(st.sampled_from((1, 2, 2, 3)))
    kernel = [draw(st.integers(1, 3)) for _ in range(axes)]
    attrs = {
        "kernel_shape": kernel,
        "strides": [draw(st.integers(1, 3)) for _ in range(axes)],
        "pads": [draw(st.integers(0, k - 1)) for k in kernel * 2],
        "ceil_mode": draw(st.integers(0, 1)),
        "count_include_pad": draw(st.integers(0, 1)),
    }
    if draw(st.integers(0, 3)) == 0:
        attrs = {}
    size = [k + draw(st.integers(0, 6)) for k in kernel]
    return (2, draw(st.sampled_from((1, 3, 16, 21))), *size), attrs


@settings(max_examples=40, derandomize=True, deadline=None)
@given(averages(), st.integers(0, 2**32 - 1), st.sampled_from(TYPES), st.sampled_from(SETS))
def test_averages_of_bytes(case, seed, kind, isa):
    """Against the mean in float64: one level beside only where that lies between two."""
    shape, attrs = case
    rng = np.random.default_rng(seed)
    x = drawn(rng, kind, shape)
    low, high = LIMITS[kind]
    zero, x_zero = (int(rng.integers(low, high)) for _ in range(2))
    ratio = np.float32(rng.uniform(0.3, 2))
    symbol = variable("x0", shape, kind)
    numbers = {"zero": zero, "x_zero": x_zero, "low": low, "high": high, "ratio": float(ratio)}
    (made,) = apply(IntegerAveragePool, [symbol], attrs | numbers)
    cell = cell_of([made], [symbol], isa=isa, threads=1 + seed % 2)
    assert "int8 pool" in [s.kernel.name for s in cell.program.steps]
    (got,) = run_cell(cell, {"x0": x})
    real = variable("r", shape, "float64")
    name = "AveragePool" if attrs else "GlobalAveragePool"
    (mean,) = evaluate(call(name, real, **attrs).node, [x.astype(np.float64) - x_zero])
    level = np.clip(mean * np.float64(ratio) + zero, low, high)
    assert got.shape == level.shape
    assert np.all(np.abs(got - level) <= 0.5 + 1e-4)


def test_instructions():
    """Where the machine has it, one instruction multiplies and adds four bytes."""
    for isa in SETS:
        target = Target.of(isa)
        text = product_text(target.width("int32"), "vnni")
        if "+avx512vnni" in target.features or "+avxvnni" in target.features:
            assert "vpdpbusd" in assembly(Code("k", "kernel", text), target)
        pairs = assembly(Code("k", "kernel", product_text(target.width("int32"), "pairs")), target)
        assert "pmaddwd" in pairs or "vpdpwssd" in pairs  # the second adds to the sum as well


def product_text(width, dot, x86=True):
    plan = plan_int8_matmul(64, 64, None, Output(U8), Machine(width, 32, dot))
    return int8_text(plan.text, x86)


def test_assembled_for_arm():
    target = Target.foreign("neon")
    depthwise = Int8Text(4, ((1, 2),), (1,), 4, 1, "pairs", U8, depthwise=True, flip=True)
    texts = [
        product_text(4, "pairs", False),
        int8_text(depthwise, False),
        int8_pool_text(Int8PoolText(4, "average", U8, True), "kernel"),
    ]
    for text in texts:
        assert compile_object(Code("int8", "kernel", text), target)
