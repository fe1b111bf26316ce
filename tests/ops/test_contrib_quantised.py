"""The quantised operators of com.microsoft, compared with onnxruntime.

Integers may differ by one where a value lies half-way between two: onnxruntime folds the scales of
input and result into one factor, or into a table, and so rounds another number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contrib_oracle import Array, Drawn, agree, applied, close, computed, fed, number
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym.errors import BadAttribute, ShapeMismatch, TypeMismatch

pytestmark = pytest.mark.oracle
SIGNED = pytest.mark.parametrize("signed", [False, True])


def scale_and_zero(value: float, zero: int, signed: bool) -> list[Array]:
    return [number(value), number(zero, np.int8 if signed else np.uint8)]


@st.composite
def two_shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes that broadcast, zero sizes and none included."""
    full = draw(st.lists(st.integers(0, 4), max_size=4))
    pair = []
    for _ in range(2):
        kept = [n if draw(st.booleans()) else 1 for n in full]
        pair.append(tuple(kept[draw(st.integers(0, len(kept))) :]))
    return pair[0], pair[1]


@given(two_shapes(), st.booleans(), st.sampled_from(["QLinearAdd", "QLinearMul"]))
@settings(max_examples=30)
def test_sums_and_products(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], signed: bool, name: str
) -> None:
    draw = Drawn(sum(map(sum, shapes)))
    inputs = [
        draw.bytes(*shapes[0], signed=signed),
        *scale_and_zero(0.1, 3, signed),
        draw.bytes(*shapes[1], signed=signed),
        *scale_and_zero(0.2, 7, signed),
        *scale_and_zero(0.35 if name == "QLinearAdd" else 2.35, 11, signed),
    ]
    symbols = applied(name, inputs)
    if 0 in (symbols[0].shape or ()):
        assert computed(symbols, fed(inputs))[0].shape == symbols[0].shape
    else:
        agree(name, inputs, units=1)


@SIGNED
def test_omitted_zero_points_are_zero(signed: bool) -> None:
    draw = Drawn(1)
    a, b = draw.bytes(3, 4, signed=signed), draw.bytes(4, signed=signed)
    short = [a, number(0.1), None, b, number(0.2), None, number(0.3)]
    whole = [a, *scale_and_zero(0.1, 0, signed), b, *scale_and_zero(0.2, 0, signed),
             *scale_and_zero(0.3, 0, signed)]  # fmt: skip
    want = agree("QLinearAdd", whole, units=1)[0]
    close(computed(applied("QLinearAdd", short), fed(short))[0], want)


@SIGNED
def test_activations(signed: bool) -> None:
    draw = Drawn(2)
    x = [draw.bytes(5, 60, signed=signed), *scale_and_zero(0.05, 3, signed)]
    agree("QLinearSigmoid", [*x, *scale_and_zero(1 / 256, 0, signed)], units=1, dynamic=[(0, 0)])
    y = scale_and_zero(0.07, 9, signed)
    agree("QLinearLeakyRelu", [*x, *y], {"alpha": 0.2}, units=1)


@SIGNED
@pytest.mark.parametrize(("axis", "opset"), [(-1, 13), (1, 13), (0, 13), (1, 12), (0, 11), (2, 1)])
def test_softmax_along_an_axis_or_from_it_on(signed: bool, axis: int, opset: int) -> None:
    draw = Drawn(3)
    x = [draw.bytes(2, 6, 5, signed=signed), *scale_and_zero(0.05, 3, signed)]
    y = scale_and_zero(1 / 256, -128 if signed else 0, signed)
    attrs = {"axis": axis, "opset": opset}
    agree("QLinearSoftmax", [*x, *y], attrs, units=1, constants=(1, 2, 3, 4))


@SIGNED
@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1), "count_include_pad": 1},
        {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1), "ceil_mode": 1},
        {"kernel_shape": (3, 2), "auto_pad": "SAME_UPPER"},
    ],
)
@pytest.mark.parametrize("last", [0, 1])
def test_average_pools(signed: bool, attrs: dict[str, Any], last: int) -> None:
    draw = Drawn(4)
    shape = (2, 9, 8, 3) if last else (2, 3, 9, 8)
    x = [draw.bytes(*shape, signed=signed), *scale_and_zero(0.05, 3, signed)]
    y = scale_and_zero(0.07, 9, signed)
    attrs = {**attrs, "channels_last": last}
    agree("QLinearAveragePool", [*x, *y], attrs, units=1, dynamic=[(0, 0)])


@SIGNED
@pytest.mark.parametrize("last", [0, 1])
def test_global_average_pools(signed: bool, last: int) -> None:
    draw = Drawn(5)
    x = [draw.bytes(2, 5, 4, 3, signed=signed), *scale_and_zero(0.05, 3, signed)]
    y = scale_and_zero(0.03, 9, signed)
    agree("QLinearGlobalAveragePool", [*x, *y], {"channels_last": last}, units=1)


@SIGNED
def test_concat_and_where(signed: bool) -> None:
    draw = Drawn(6)
    a = [draw.bytes(2, 3, signed=signed), *scale_and_zero(0.04, 7, signed)]
    b = [draw.bytes(2, 5, signed=signed), *scale_and_zero(0.05, 3, signed)]
    agree("QLinearConcat", [*scale_and_zero(0.05, 3, signed), *a, *b], {"axis": -1}, units=1)
    condition = draw.rng.random((4, 5)) < 0.5
    x = [draw.bytes(4, 5, signed=signed), *scale_and_zero(0.05, 3, signed)]
    y = [draw.bytes(1, 5, signed=signed), *scale_and_zero(0.07, 9, signed)]
    z = scale_and_zero(0.06, 1, signed)
    constants = (2, 3, 5, 6, 7, 8)
    agree("QLinearWhere", [condition, *x, *y, *z], units=1, constants=constants)


@SIGNED
def test_means_over_axes(signed: bool) -> None:
    # onnxruntime has no CPU kernel for it.
    draw = Drawn(7)
    x = draw.bytes(3, 4, 5, signed=signed)
    inputs = [x, *scale_and_zero(0.05, 3, signed), *scale_and_zero(0.02, 9, signed)]
    for keep in (0, 1):
        attrs = {"axes": (0, -1), "keepdims": keep}
        got = computed(applied("QLinearReduceMean", inputs, attrs), fed(inputs))[0]
        real = (x.astype(np.float64) - 3) * np.float32(0.05)
        levels = np.rint(real.mean((0, 2), keepdims=bool(keep)) / np.float32(0.02)) + 9
        low, high = (-128, 127) if signed else (0, 255)
        close(got, np.clip(levels, low, high).astype(x.dtype), units=1)


WEIGHTS = [(False, False), (False, True), (True, True)]
"""(signed inputs, signed weights) as onnxruntime takes them."""


@pytest.mark.parametrize(("signed", "weights"), WEIGHTS)
def test_convolutions(signed: bool, weights: bool) -> None:
    draw = Drawn(8)
    zero = 0 if weights else 120
    kind = np.int8 if weights else np.uint8
    x, y = scale_and_zero(0.05, 3, signed), scale_and_zero(0.5, 100, signed)
    bias = draw.rng.integers(-1000, 1000, 8).astype(np.int32)
    w = [draw.bytes(8, 4, 3, 3, signed=weights), number(0.01), number(zero, kind)]
    inputs = [draw.bytes(2, 7, 6, 4, signed=signed), *x, *w, *y, bias]
    attrs: dict[str, Any] = {"channels_last": 1, "pads": (1, 1, 1, 1)}
    agree("QLinearConv", inputs, attrs, units=1, constants=(3, 4, 5))
    grouped = [draw.bytes(2, 4, 7, 6, signed=signed), *x, draw.bytes(8, 2, 3, 3, signed=weights),
               np.full(8, 0.01, np.float32), np.full(8, zero, kind), *y]  # fmt: skip
    attrs = {"group": 2, "strides": (2, 2)}
    agree("QLinearConv", grouped, attrs, units=1, constants=(3, 4, 5))


@pytest.mark.parametrize(("signed", "weights"), WEIGHTS)
def test_gemm_and_products(signed: bool, weights: bool) -> None:
    draw = Drawn(9)
    kind = np.int8 if weights else np.uint8
    zero = 0 if weights else 7
    x = scale_and_zero(0.05, 3, signed)
    columns = [np.full(6, 0.01, np.float32), np.full(6, zero, kind)]
    c = draw.rng.integers(-1000, 1000, (1, 6)).astype(np.int32)
    b = draw.bytes(8, 6, signed=weights)
    y = scale_and_zero(0.5, 100, signed)
    a = draw.bytes(3, 8, signed=signed)
    agree("QGemm", [a, *x, b, *columns, c, *y], {"alpha": 1.5}, units=1)
    one = [number(0.01), number(zero, kind)]
    turned = [np.ascontiguousarray(a.T), *x, np.ascontiguousarray(b.T), *one, c[0]]
    agree("QGemm", turned, {"transA": 1, "transB": 1})
    a = draw.bytes(2, 3, 8, signed=signed)
    scales, zeros = [x[0], columns[0]], [x[1], columns[1]]
    inputs = [a, b, *scales, *zeros, draw.reals(6)]
    agree("MatMulIntegerToFloat", inputs, tolerance=1e-4, dynamic=[(0, 0), (0, 1)])
    agree("MatMulIntegerToFloat", [a, draw.bytes(2, 8, 6, signed=weights), *scales[:1], one[0]])


def test_products_of_what_is_quantised_as_it_comes() -> None:
    draw = Drawn(10)
    a = draw.reals(2, 3, 8)
    b = draw.bytes(8, 6, signed=True)
    by_column = [np.full(6, 0.03, np.float32), np.zeros(6, np.int8)]
    agree("DynamicQuantizeMatMul", [a, b, *by_column, draw.reals(6)], dynamic=[(0, 0), (0, 1)])
    b = draw.bytes(8, 6)
    agree("DynamicQuantizeMatMul", [a, b, number([0.03]), number(128, np.uint8)])
    agree("DynamicQuantizeMatMul", [a, b, number(0.03)])
    agree("DynamicQuantizeMatMul", [0 * a, b, number(0.03)])


def test_products_of_sixteen_bits() -> None:
    draw = Drawn(11)
    a, b = (draw.rng.integers(-300, 300, s).astype(np.int16) for s in ((2, 3, 4), (4, 5)))
    agree("MatMulInteger16", [a, b])
    u, v = a.astype(np.uint16), b.astype(np.uint16)
    got = computed(applied("MatMulInteger16", [u, v]), fed([u, v]))[0]
    assert got.dtype == np.uint32
    np.testing.assert_array_equal(got, np.matmul(u.astype(np.uint32), v.astype(np.uint32)))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
def test_the_linear_operators(kind: Any) -> None:
    draw = Drawn(12)
    x = draw.reals(3, 4) * 3
    agree("QuantizeLinear", [x, number(0.1), number(3, kind)])
    by_row = [number([0.1, 0.2, 0.3]), number([1, 2, 3], kind)]
    y = agree("QuantizeLinear", [x, *by_row], {"axis": 0})[0]
    agree("DequantizeLinear", [y, *by_row], {"axis": 0})
    agree("DequantizeLinear", [y, number(0.1)])
    agree("DequantizeLinear", [y.astype(np.int32), number(0.1)])


def test_integer_products_and_sums_by_numpy() -> None:
    # onnxruntime has no CPU kernels for these two.
    draw = Drawn(13)
    a, b = draw.bytes(3, 1, signed=True), draw.bytes(4, signed=True)
    inputs = [a, number(5, np.int8), b]
    got = computed(applied("MulInteger", inputs), fed(inputs))[0]
    np.testing.assert_array_equal(got, (a.astype(np.int32) - 5) * b)
    for signed, kind in ((True, np.int32), (False, np.uint32)):
        x = draw.bytes(3, 4, signed=signed)
        attrs = {"axes": (1,), "keepdims": 0}
        got = computed(applied("ReduceSumInteger", [x], attrs), fed([x]))[0]
        np.testing.assert_array_equal(got, x.sum(1).astype(kind))


def test_mistakes_are_named() -> None:
    draw = Drawn(14)
    x = [draw.bytes(2, 3), *scale_and_zero(0.1, 3, False)]
    with pytest.raises(ShapeMismatch, match="triples"):
        applied("QLinearConcat", [*x[1:], *x, x[0]], {"axis": 0})
    with pytest.raises(TypeMismatch, match="uint8"):
        applied("QLinearSigmoid", [x[0], x[1], number(0, np.int8), number(0.1)])
    with pytest.raises(BadAttribute, match="channels_last=2"):
        applied("QLinearGlobalAveragePool", [x[0], *x[1:], *x[1:]], {"channels_last": 2})
    with pytest.raises(ShapeMismatch, match="QLinearAdd"):
        applied("QLinearAdd", [*x, draw.bytes(2, 2), *x[1:], *x[1:]])
    with pytest.raises(ShapeMismatch, match="QGemm"):
        applied("QGemm", [*x, *x])
