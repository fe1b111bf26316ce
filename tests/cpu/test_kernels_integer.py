"""MatMulInteger, QLinearMatMul, ConvInteger and QLinearConv: exact, for every form of zero point.

The sums are those of int64 arithmetic, to the bit; requantised values are those of the formula that
ONNX gives: rounded half to even before the zero point is added.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import cell_of, leaves, run_cell
from run_graph import assert_compiled

from neuralsym.core.dim import Dim
from neuralsym.core.leaves import variable
from neuralsym.core.registry import call
from neuralsym.ops.evaluate import evaluate

TYPES = ("int8", "uint8")
LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}


def drawn(rng: Any, kind: str, shape: Any, extreme: bool = False) -> Any:
    low, high = LIMITS[kind]
    made = rng.integers(low, high, shape, endpoint=True)
    if extreme:  # the largest products that there are
        made = np.where(rng.integers(0, 8, shape) == 0, low, high)
    return np.asarray(made).astype(kind)


def run(op: str, arrays: list[Any], stored: tuple[int, ...] = (), **attrs: Any) -> Any:
    symbols, fed = leaves(arrays, stored)
    free = [s for i, s in enumerate(symbols) if s is not None and i not in stored]
    cell = cell_of([call(op, *symbols, **attrs)], free)
    assert_compiled(cell)
    return run_cell(cell, fed)[0]


def wrapped(sums: Any) -> Any:
    """int64 sums as int32, which is what ONNX accumulates in."""
    return sums.astype(np.int64).astype(np.int32)


def requantised(sums: Any, scale: Any, zero: Any) -> Any:
    low, high = LIMITS[zero.dtype.name]
    with np.errstate(all="ignore"):
        levels = np.rint(sums * np.asarray(scale, np.float64)) + zero.astype(np.float64)
    return np.clip(levels, low, high).astype(zero.dtype)


# -- matrices ----------------------------------------------------------------------------------
@st.composite
def matrices(draw: Any) -> Any:
    """Shapes of a and b, and the forms of their zero points (None, "one", "each")."""
    m, n, k = (draw(st.integers(0 if i < 2 else 1, 9)) for i in range(3))
    batch = draw(st.sampled_from([((), ()), ((2,), ()), ((), (3,)), ((2, 1), (3,)), ((3,), (1,))]))
    a, b = (*batch[0], m, k), (*batch[1], k, n)
    kind = draw(st.sampled_from(["matrices", "matrices", "matrices", "row", "column", "dot"]))
    if kind in ("row", "dot"):
        a = (k,)
    if kind in ("column", "dot"):
        b = (k,)
    form = st.sampled_from([None, "scalar", "one", "each"])
    return a, b, draw(form), draw(form)


def zero_of(rng: Any, kind: str, form: str | None, shape: Any, rows: bool) -> Any:
    """The zero point, and the same as it broadcasts to the matrix."""
    if form is None:
        return None, np.int64(0)
    if form != "each" or len(shape) < 2:
        value = drawn(rng, kind, () if form == "scalar" else (1,))
        return value, value.astype(np.int64).reshape(())
    if len(shape) == 2:
        value = drawn(rng, kind, (shape[-2 if rows else -1],))
        return value, value.astype(np.int64)[:, None] if rows else value.astype(np.int64)
    whole = (*shape[:-1], 1) if rows else (*shape[:-2], 1, shape[-1])
    value = drawn(rng, kind, whole)
    return value, value.astype(np.int64)


@given(
    matrices(),
    st.sampled_from(list(product(TYPES, TYPES))),
    st.sampled_from([(), (1,), (1, 3), (3,)]),
    st.integers(0, 2**31),
)
@settings(max_examples=150, deadline=None)
def test_matmul_integer(shapes, kinds, stored, seed):
    (a_shape, b_shape, a_form, b_form), rng = shapes, np.random.default_rng(seed)
    a, b = drawn(rng, kinds[0], a_shape), drawn(rng, kinds[1], b_shape)
    za, wide_za = zero_of(rng, kinds[0], a_form, a_shape, rows=True)
    zb, wide_zb = zero_of(rng, kinds[1], b_form, b_shape, rows=False)
    if zb is None:
        stored = tuple(i for i in stored if i != 3)
    made = run("MatMulInteger", [a, b, za, zb], stored)
    wanted = wrapped((a.astype(np.int64) - wide_za) @ (b.astype(np.int64) - wide_zb))
    assert made.dtype == np.int32 and made.shape == wanted.shape
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("inner", [256, 258, 259, 4000])
@pytest.mark.parametrize("stored", [(), (1, 2, 3)])
def test_long_sums_of_the_largest_products_are_exact(inner, stored):
    rng = np.random.default_rng(inner)
    a, b = (drawn(rng, "uint8", s, extreme=True) for s in ((5, inner), (inner, 7)))
    zeros = np.uint8(0), np.uint8(255)
    made = run("MatMulInteger", [a, b, *zeros], stored)
    wanted = a.astype(np.int64) @ (b.astype(np.int64) - 255)
    np.testing.assert_array_equal(made, wanted)


def test_sums_beyond_32_bits_wrap():
    a = np.full((1, 40000), 255, np.uint8)
    made = run("MatMulInteger", [a, a.reshape(-1, 1)])
    assert made.tolist() == [[40000 * 255 * 255 - 2**32]]


def test_sizes_that_only_a_run_tells():
    a = variable("x0", (Dim.name("M"), Dim.name("K")), "uint8")
    b = variable("x1", (Dim.name("K"), 6), "int8")
    z = variable("x2", (Dim.name("M"),), "uint8")
    cell = cell_of([call("MatMulInteger", a, b, z)], [a, b, z])
    assert_compiled(cell)
    rng = np.random.default_rng(0)
    for m, k in ((1, 1), (4, 700), (3, 0)):
        left, right, zero = (
            drawn(rng, t, s) for t, s in (("uint8", (m, k)), ("int8", (k, 6)), ("uint8", (m,)))
        )
        (made,) = run_cell(cell, {"x0": left, "x1": right, "x2": zero})
        wanted = (left.astype(np.int64) - zero[:, None]) @ right.astype(np.int64)
        np.testing.assert_array_equal(made, wanted)


@pytest.mark.slow
@given(
    matrices(),
    st.sampled_from(list(product(TYPES, TYPES, TYPES))),
    st.booleans(),
    st.integers(0, 2**31),
)
@settings(max_examples=120, deadline=None)
def test_qlinear_matmul(shapes, kinds, stored, seed):
    (a_shape, b_shape, a_form, b_form), rng = shapes, np.random.default_rng(seed)
    a, b = drawn(rng, kinds[0], a_shape), drawn(rng, kinds[1], b_shape)
    za, wide_za = zero_of(rng, kinds[0], a_form or "scalar", a_shape, rows=True)
    zb, wide_zb = zero_of(rng, kinds[1], b_form or "scalar", b_shape, rows=False)
    sa, sb = (2.0 ** rng.integers(-6, -3, z.shape).astype(np.float32) for z in (za, zb))
    sy, zy = np.float32(0.5), drawn(rng, kinds[2], ())
    made = run("QLinearMatMul", [a, sa, za, b, sb, zb, sy, zy], (3, 4, 5) if stored else ())
    sums = (a.astype(np.int64) - wide_za) @ (b.astype(np.int64) - wide_zb)
    column = len(b_shape) == 1
    left = sa.reshape(()) if sa.size == 1 else sa if sa.ndim > 1 or column else sa[:, None]
    if column and sa.ndim > 1:
        left = sa[..., 0]
    right = sb.reshape(()) if sb.size == 1 else sb
    if len(a_shape) == 1 and sb.ndim > 1:
        right = sb[..., 0, :]
    wanted = requantised(sums, left * right / sy, zy)
    assert made.shape == wanted.shape
    np.testing.assert_array_equal(made, wanted)


def test_scales_of_rows_and_columns_in_products_with_vectors():
    rng = np.random.default_rng(8)
    v, m = drawn(rng, "uint8", (4,)), drawn(rng, "int8", (2, 4, 3))
    one, zero, each = np.float32(0.5), np.uint8(3), np.array([0.25, 1, 2], np.float32)
    scales = np.stack([each, each * 2])[:, None, :]
    zeros = np.zeros((2, 1, 3), np.int8)
    made = run("QLinearMatMul", [v, one, zero, m, scales, zeros, np.float32(9), zero])
    sums = (v.astype(np.int64) - 3) @ m.astype(np.int64)
    np.testing.assert_array_equal(made, requantised(sums, one * scales[:, 0] / 9, zero))
    rows, last = np.swapaxes(scales, 1, 2).copy(), np.int8(0)
    turned = np.swapaxes(m, 1, 2).copy()
    arrays = [turned, rows, np.zeros((2, 3, 1), np.int8), v, one, zero, np.float32(9), last]
    made = run("QLinearMatMul", arrays)
    sums = turned.astype(np.int64) @ (v.astype(np.int64) - 3)
    np.testing.assert_array_equal(made, requantised(sums, one * rows[..., 0] / 9, last))


@pytest.mark.parametrize("scale", ["float32", "float16", "bfloat16"])
def test_qlinear_matmul_with_scales_of_each_type(scale):
    dtype = getattr(ml_dtypes, scale, None) or np.dtype(scale)
    rng = np.random.default_rng(3)
    a, b = drawn(rng, "uint8", (3, 20)), drawn(rng, "int8", (20, 4))
    scales = [np.array(v, dtype) for v in (0.01, 0.02, 0.3)]
    arrays = [a, scales[0], np.uint8(100), b, scales[1], np.int8(-3), scales[2], np.uint8(7)]
    made = run("QLinearMatMul", arrays)
    sums = (a.astype(np.int64) - 100) @ (b.astype(np.int64) + 3)
    sa, sb, sy = (v.astype(np.float32) for v in scales)
    np.testing.assert_array_equal(made, requantised(sums, sa * sb / sy, np.uint8(7)))


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"])
def test_qlinear_matmul_of_float8(kind):
    """The product of the values, which onnx's evaluator takes for integers."""
    dtype = getattr(ml_dtypes, kind)
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=s).astype(dtype) for s in ((3, 8), (8, 5)))
    zero, scales = np.zeros((), dtype), [np.float32(v) for v in (0.5, 2, 0.25)]
    made = run("QLinearMatMul", [a, scales[0], zero, b, scales[1], zero, scales[2], zero])
    exact = (a.astype(float) @ b.astype(float)) * 4
    largest = float(ml_dtypes.finfo(dtype).max)
    wanted = np.clip(exact, -largest, largest).astype(dtype).astype(float)
    assert made.dtype == dtype
    np.testing.assert_allclose(made.astype(float), wanted, rtol=float(ml_dtypes.finfo(dtype).eps))


def test_ties_are_rounded_before_the_zero_point_is_added():
    """onnx's evaluator rounds after it, so that 0.5 + 1 becomes 2 rather than 0 + 1."""
    a, one = np.array([[1, 3, 5, -1, -3]], np.int8).T, np.ones((1, 1), np.int8)
    scales = np.float32(0.5), np.float32(1), np.float32(1)
    zero = np.int8(0)
    made = run("QLinearMatMul", [a, scales[0], zero, one, scales[1], zero, scales[2], np.int8(1)])
    assert made[:, 0].tolist() == [1, 3, 3, 1, -1]


@pytest.mark.parametrize("kind", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (3.0, 0.0), (-2.0, 5.0), (0.5, 1.25)])
def test_gemm_of_integers(kind, alpha, beta):
    rng = np.random.default_rng(9)
    a, b, c = (rng.integers(0, 50, s).astype(kind) for s in ((4, 3), (5, 4), (5,)))
    if not kind.startswith("u"):
        a, c = a - 20, c - 20
    elif alpha < 0:
        alpha = 2.0
    made = run("Gemm", [a, b, c], transA=1, transB=1, alpha=alpha, beta=beta)
    wanted = (a.T.astype(np.int64) @ b.T.astype(np.int64)) * alpha + c.astype(np.int64) * beta
    assert made.dtype == np.dtype(kind)
    np.testing.assert_array_equal(made, np.trunc(wanted).astype(kind))


# -- convolutions ------------------------------------------------------------------------------
def convolved(x: Any, w: Any, strides: Any, dilations: Any, pads: Any, groups: int) -> Any:
    """The sums by int64 arithmetic; the border is zero."""
    spatial = x.ndim - 2
    before, after = pads[:spatial], pads[spatial:]
    x = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    sizes = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], w.shape[2:], strides, dilations, strict=True)
    ]
    outputs, each = w.shape[:2]
    made = np.zeros((x.shape[0], outputs, *sizes), np.int64)
    for o in range(outputs):
        start = o // (outputs // groups) * each
        for tap in np.ndindex(*w.shape[2:]):
            where = tuple(
                slice(t * d, t * d + s * (n - 1) + 1, s)
                for t, d, s, n in zip(tap, dilations, strides, sizes, strict=True)
            )
            part = x[(slice(None), slice(start, start + each), *where)]
            weights = w[(o, slice(None), *tap)].reshape(1, -1, *[1] * spatial)
            made[:, o] += (part * weights).sum(1)
    return made


@st.composite
def convolutions(draw: Any) -> Any:
    """Shapes of x and w with the settings."""
    spatial = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 3))
    each, outputs = draw(st.integers(1, 4)), groups * draw(st.integers(1, 3))
    kernel = [draw(st.integers(1, 3)) for _ in range(spatial)]
    dilations = [draw(st.integers(1, 2)) for _ in range(spatial)]
    strides = [draw(st.integers(1, 3)) for _ in range(spatial)]
    pads = [draw(st.integers(0, 2)) for _ in range(2 * spatial)]
    size = [
        d * (k - 1) + 1 + draw(st.integers(0, 5)) for k, d in zip(kernel, dilations, strict=True)
    ]
    x = (draw(st.integers(1, 2)), groups * each, *size)
    settings_ = {"strides": strides, "dilations": dilations, "pads": pads, "group": groups}
    return x, (outputs, each, *kernel), settings_


def conv_zeros(rng: Any, kinds: Any, forms: Any, w_shape: Any) -> Any:
    zx = None if forms[0] is None else drawn(rng, kinds[0], () if forms[0] == "scalar" else (1,))
    if forms[1] is None:
        return zx, None, 0
    shape = {"scalar": (), "one": (1,), "each": (w_shape[0],)}[forms[1]]
    zw = drawn(rng, kinds[1], shape)
    wide = zw.astype(np.int64)
    return zx, zw, wide.reshape(-1, *[1] * (len(w_shape) - 1))


FORMS = st.tuples(
    st.sampled_from([None, "scalar", "one"]), st.sampled_from([None, "scalar", "one", "each"])
)


@given(
    convolutions(),
    st.sampled_from(list(product(TYPES, TYPES))),
    FORMS,
    st.booleans(),
    st.integers(0, 2**31),
)
@settings(max_examples=80, deadline=None)
def test_conv_integer(shapes, kinds, forms, stored, seed):
    (x_shape, w_shape, attrs), rng = shapes, np.random.default_rng(seed)
    x, w = drawn(rng, kinds[0], x_shape), drawn(rng, kinds[1], w_shape)
    zx, zw, wide_zw = conv_zeros(rng, kinds, forms, w_shape)
    held = (1,) if stored and zw is None else (1, 3) if stored else ()
    made = run("ConvInteger", [x, w, zx, zw], held, **attrs)
    wide_zx = 0 if zx is None else int(zx.reshape(()))
    wanted = convolved(
        x.astype(np.int64) - wide_zx,
        w.astype(np.int64) - wide_zw,
        *(attrs[k] for k in ("strides", "dilations", "pads")),
        attrs["group"],
    )
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("channels", [28, 32, 70, 512])
@pytest.mark.parametrize("stored", [(), (1, 2, 3)])
def test_deep_convolutions_of_the_largest_products_are_exact(channels, stored):
    """What float32 cannot hold is summed in parts: any inexact way to convolve shows here."""
    rng = np.random.default_rng(channels)
    x = drawn(rng, "uint8", (1, channels, 6, 6), extreme=True)
    w = drawn(rng, "uint8", (8, channels, 3, 3), extreme=True)
    arrays = [x, w, np.uint8(0), np.uint8(255)]
    made = run("ConvInteger", arrays, stored, pads=[1, 1, 1, 1])
    wanted = convolved(x.astype(np.int64), w.astype(np.int64) - 255, [1, 1], [1, 1], [1] * 4, 1)
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.slow
@given(
    convolutions(),
    st.sampled_from(list(product(TYPES, TYPES, TYPES))),
    st.sampled_from(["scalar", "one", "each"]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**31),
)
@settings(max_examples=80, deadline=None)
def test_qlinear_conv(shapes, kinds, form, has_bias, stored, seed):
    (x_shape, w_shape, attrs), rng = shapes, np.random.default_rng(seed)
    x, w = drawn(rng, kinds[0], x_shape), drawn(rng, kinds[1], w_shape)
    zx, zw, wide_zw = conv_zeros(rng, kinds, ("scalar", form), w_shape)
    sx, sw = np.float32(0.03125), 2.0 ** rng.integers(-5, -2, zw.shape).astype(np.float32)
    sy, zy = np.float32(0.75), drawn(rng, kinds[2], ())
    bias = rng.integers(-5000, 5000, w_shape[:1]).astype(np.int32) if has_bias else None
    arrays = [x, sx, zx, w, sw, zw, sy, zy, bias]
    made = run("QLinearConv", arrays, (3, 4, 5) if stored else (), **attrs)
    sums = convolved(
        x.astype(np.int64) - int(zx),
        w.astype(np.int64) - wide_zw,
        *(attrs[k] for k in ("strides", "dilations", "pads")),
        attrs["group"],
    )
    channel = [-1, *[1] * (x.ndim - 2)]
    if bias is not None:
        sums = sums + bias.reshape(channel)
    scale = (sx * sw / sy).reshape(channel if sw.size > 1 else ())
    np.testing.assert_array_equal(made, requantised(sums, scale, zy))


def test_folded_products_are_those_of_a_run():
    """Where onnx's evaluator knows no zero points of rows or channels, ours are evaluated."""
    rng = np.random.default_rng(6)
    a, b = drawn(rng, "uint8", (3, 4)), drawn(rng, "int8", (4, 5))
    za, zb = drawn(rng, "uint8", (3,)), drawn(rng, "int8", (5,))
    x, w = drawn(rng, "uint8", (1, 2, 9)), drawn(rng, "int8", (3, 2, 3))
    zx, zw = drawn(rng, "uint8", ()), drawn(rng, "int8", (3,))
    for op, arrays in (("MatMulInteger", [a, b, za, zb]), ("ConvInteger", [x, w, zx, zw])):
        symbols, fed = leaves(arrays)
        made = call(op, *symbols)
        (ran,) = run_cell(cell_of([made], symbols), fed)
        np.testing.assert_array_equal(ran, evaluate(made.node, arrays)[0])


@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_automatic_padding_pads_with_the_zero_point(pad):
    rng = np.random.default_rng(5)
    x, w = drawn(rng, "uint8", (1, 2, 7)), drawn(rng, "int8", (3, 2, 4))
    made = run("ConvInteger", [x, w, np.uint8(9)], auto_pad=pad, strides=[2])
    total = 0 if pad == "VALID" else 3
    low = total // 2 + (total % 2 if pad == "SAME_LOWER" else 0)
    wide = x.astype(np.int64) - 9
    wanted = convolved(wide, w.astype(np.int64), [2], [1], [low, total - low], 1)
    np.testing.assert_array_equal(made, wanted)
