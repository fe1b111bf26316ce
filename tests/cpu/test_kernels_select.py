"""TopK, Hardmax, NonZero, Compress and Unique against numpy, and inside larger graphs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from onnx_oracle import by_us
from run_graph import compiled, computed, fed, kernels, run

from neuralsym import ops
from neuralsym.errors import ExecutionError, NeuralsymError

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FEW = ["float32", "float16", "int8", "uint64"]
ALL = [*FEW, "float64", "int16", "int32", "int64", "uint8", "uint16", "uint32", BFLOAT16]
RARE = ("float16", "float64", "int32", "int64")
LONG = ["float32", *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in RARE)]


def elements(dtype):
    """Values of a type that often repeat, with those that are easily forgotten."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return st.sampled_from([info.min, info.max, 0, 1, 2, 3])
    if kind.kind == "b":
        return st.booleans()
    if kind.kind == "c":
        return st.sampled_from([0j, complex(-0.0, -0.0), 1j, 1 + 0j, complex(np.nan, 0), 2 - 1j])
    return st.sampled_from([0.0, -0.0, 1.0, -1.5, 2.0, np.inf, -np.inf, np.nan])


@st.composite
def tensors(draw, dtypes=FEW, least=1, low=0):
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(arrays_of.array_shapes(min_dims=least, max_dims=4, min_side=low, max_side=5))
    return draw(arrays_of.arrays(dtype, shape, elements=elements(dtype)))


def first_k(x, k, axis, largest):
    """The places of the k best: a stable sort of ranks, in which NaN is the largest."""
    _, ranks = np.unique(x, return_inverse=True)
    ranks = ranks.reshape(x.shape)
    order = np.argsort(-ranks if largest else ranks, axis=axis, kind="stable")
    return np.take(order, np.arange(k), axis=axis)


@pytest.mark.slow
@settings(max_examples=80)
@given(tensors(), st.data())
def test_top_k(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    k = data.draw(st.integers(0, x.shape[axis]))
    largest = data.draw(st.integers(0, 1))
    attrs = {"axis": axis, "largest": largest, "sorted": data.draw(st.integers(0, 1))}
    stored = data.draw(st.sampled_from([("k",), ()]))
    inputs = {"x": x, "k": np.array([k])}
    values, indices = by_us("TopK", inputs, attrs, 2, "topk", stored=stored)
    expected = first_k(x, k, axis, largest)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis))
    assert values.dtype == x.dtype


def many(dtype, rng):
    """Two lines of 200 numbers over the whole range of a type, many of them twice."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        made = rng.integers(info.min, info.max, (2, 200), kind, endpoint=True)
    else:
        made = (rng.normal(size=(2, 200)) * 10.0 ** rng.integers(-9, 5, (2, 200))).astype(kind)
        made[:, :6] = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan]
    return np.take_along_axis(made, rng.integers(0, 200, (2, 200)), 1)


@pytest.mark.parametrize("dtype", LONG)
@pytest.mark.parametrize(("k", "largest"), [(200, 1), (200, 0), (30, 1)])
def test_long_lines_are_sorted(dtype, k, largest, rng):
    x = many(dtype, rng)
    outputs = list(ops.top_k(fed("x", x), [k], largest=largest))
    values, indices = run(outputs, {"x": x}, kernel="topk")
    np.testing.assert_array_equal(indices, first_k(x, k, 1, largest))
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_top_k_of_every_type(dtype):
    x = np.array([[3, 1, 2, 1, 0, 3], [0, 0, 5, 4, 5, 1]]).astype(dtype)
    values, indices = run(list(ops.top_k(fed("x", x), [4])), {"x": x}, kernel="topk")
    np.testing.assert_array_equal(indices, [[0, 5, 2, 1], [2, 4, 3, 5]])
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))


def test_a_few_of_a_long_axis(rng):
    x = rng.normal(size=(300_000,)).astype(np.float32)
    values, indices = run(list(ops.top_k(fed("x", x), [5000])), {"x": x}, kernel="topk")
    np.testing.assert_array_equal(indices, np.argsort(-x, kind="stable")[:5000])
    np.testing.assert_array_equal(values, x[indices])


def test_more_than_there_are():
    x, k = np.zeros((2, 3), np.float32), np.array([4])
    with pytest.raises(NeuralsymError, match="best"):
        run(list(ops.top_k(fed("x", x), fed("k", k), name="best")), {"x": x, "k": k})
    with pytest.raises(NeuralsymError, match="negative"):
        run(list(ops.top_k(fed("x", x), fed("k", k))), {"x": x, "k": np.array([-1])})


@settings(max_examples=40)
@given(tensors(["float32", "float16"], low=0), st.data())
def test_hardmax(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    (found,) = by_us("Hardmax", {"x": x}, {"axis": axis}, kernel="hardmax")
    expected = np.zeros_like(x)
    if x.size:
        place = np.expand_dims(np.argmax(x, axis), axis)
        np.put_along_axis(expected, place, np.ones((), x.dtype), axis)
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=60)
@given(tensors([*FEW, "bool", "complex64"], least=1))
def test_non_zero(x):
    (found,) = by_us("NonZero", {"x": x}, kernel="nonzero")
    np.testing.assert_array_equal(found, np.array(np.nonzero(x)).reshape(x.ndim, -1))


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_non_zero_of_a_scalar_has_no_axes(value):
    # The specification: "for scalar input, NonZero produces output shape (0, N)".
    x = np.array(value, np.float32)
    found = run(ops.non_zero(fed("x", x)), {"x": x})
    assert found.shape == (0, int(value != 0))


@settings(max_examples=60)
@given(tensors([*FEW, "bool", "complex128"]), st.data())
def test_compress(x, data):
    axis = data.draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
    size = x.size if axis is None else x.shape[axis]
    condition = data.draw(arrays_of.arrays(bool, st.integers(0, size)))
    attrs = {} if axis is None else {"axis": axis}
    (found,) = by_us("Compress", {"x": x, "c": condition}, attrs, kernel="compress")
    np.testing.assert_array_equal(found, np.compress(condition, x, axis))


@pytest.mark.slow
@settings(max_examples=80)
@given(tensors(["float32", "float16", "int8", "bool", "complex64"]), st.data())
def test_unique(x, data):
    axis = data.draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
    if axis is not None and x.dtype.kind in "fc":
        x = np.nan_to_num(x)  # numpy's slices with NaN are never equal, ours are
    if axis is not None and x.size == 0:
        return  # numpy refuses; an empty slice equals another
    by_value = data.draw(st.integers(0, 1))
    attrs = {"sorted": by_value} | ({} if axis is None else {"axis": axis})
    outputs = data.draw(st.integers(1, 4))
    found = by_us("Unique", {"x": x}, attrs, outputs, "unique")
    values, first, back, counts = np.unique(
        x, axis=axis, return_index=True, return_inverse=True, return_counts=True
    )
    back = back.reshape(-1)
    if not by_value:
        order = np.argsort(first)
        values = np.take(values, order, axis or 0)
        first, counts, back = first[order], counts[order], np.argsort(order)[back]
    for got, wanted in zip(found, (values, first, back, counts), strict=False):
        np.testing.assert_array_equal(got, wanted)


def test_not_a_number_is_one_value():
    x = np.array([np.nan, 1, np.nan, -0.0, 0.0], np.float32)
    found = run(ops.unique(fed("x", x), outputs=4), {"x": x}, kernel="unique")
    for got, wanted in zip(
        found, ([0, 1, np.nan], [3, 1, 0], [2, 1, 2, 0, 0], [2, 1, 2]), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)
    rows = np.array([[np.nan, 1], [np.nan, 1], [0, 1]], np.float32)
    values, first = run(ops.unique(fed("x", rows), axis=0, outputs=2), {"x": rows})
    np.testing.assert_array_equal(values, rows[[2, 0]])
    np.testing.assert_array_equal(first, [2, 0])


def test_what_surrounds_a_size_that_depends_on_data_stays_compiled(rng):
    image = rng.normal(size=(1, 3, 6, 6)).astype(np.float32)
    w = rng.normal(size=(4, 3, 3, 3)).astype(np.float32)
    table = rng.normal(size=(400, 8)).astype(np.float32)
    v = rng.normal(size=(8, 5)).astype(np.float32)
    x = fed("x", image)
    positive = ops.relu(ops.conv(x, w))
    places = ops.non_zero(ops.reshape(positive, [-1]))
    picked = ops.gather(table, ops.squeeze(places, [0]))
    cell = compiled(ops.matmul(picked, v), threads=2)
    names = kernels(cell)
    assert "host" not in names, names
    assert len(cell.program.segments) == 2
    for sign in (1, -1, 0):
        (found,) = computed(cell, {"x": sign * image})
        flat = np.zeros((4, 4, 4))
        for i in range(4):
            for j in range(4):
                window = sign * image[0, :, i : i + 3, j : j + 3].astype(float)
                flat[:, i, j] = np.tensordot(w, window, 3)
        expected = table[np.flatnonzero(np.maximum(flat, 0))] @ v
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_failing_step_is_named():
    x = np.zeros((3, 4), np.float32)
    i = np.array([7])
    y = ops.gather(ops.non_zero(fed("x", x)), fed("i", i), axis=1, name="lookup")
    with pytest.raises(ExecutionError, match="lookup"):
        run(y, {"x": x, "i": i})


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@settings(max_examples=60)
@given(tensors([*FEW, "float64"], low=1), st.data())
def test_arg(op, x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    last, kept = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))
    attrs = {"axis": axis, "select_last_index": last, "keepdims": kept}
    (found,) = by_us(op, {"x": x}, attrs, kernel="arg")
    place = np.argmax if op == "ArgMax" else np.argmin
    expected = place(x, axis, keepdims=bool(kept))
    if last:
        expected = x.shape[axis] - 1 - place(np.flip(x, axis), axis, keepdims=bool(kept))
    np.testing.assert_array_equal(found, expected)


def test_axes_that_are_empty_or_too_short_in_the_run(rng):
    x = fed("x", np.zeros((3, 3), np.float32), ("N", 3))
    empty = {"x": np.zeros((0, 3), np.float32)}
    with pytest.raises(NeuralsymError, match="best"):
        computed(compiled(ops.arg_max(x, axis=0, name="best")), empty)
    first = compiled(list(ops.top_k(x, [5], axis=0, name="first")))
    with pytest.raises(NeuralsymError, match="first"):
        computed(first, {"x": np.zeros((3, 3), np.float32)})
    value = rng.normal(size=(7, 3)).astype(np.float32)
    found, _ = computed(first, {"x": value})
    np.testing.assert_array_equal(found, -np.sort(-value, 0)[:5])
