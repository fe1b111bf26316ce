"""Ranges, diagonals, crops, sequences turned round, caches, determinants, one-hot vectors: their
settings known before the run or computed in it, against numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_oracle import by_onnxruntime, by_us
from run_graph import compiled, computed, fed, kernels, run

from neuralsym import ops
from neuralsym.core.leaves import variable
from neuralsym.errors import ExecutionError, NeuralsymError
from neuralsym.ops.evaluate import evaluate

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
EITHER = st.booleans()
"""Whether a setting is a constant."""


# -- ranges --------------------------------------------------------------------------------------
@settings(max_examples=60)
@given(
    st.sampled_from(["int16", "int32", "int64"]),
    st.integers(-50, 50),
    st.integers(-50, 50),
    st.integers(-7, 7).filter(bool),
    EITHER,
)
def test_whole_ranges(dtype, start, limit, delta, known):
    values = [np.array(v, dtype) for v in (start, limit, delta)]
    inputs = dict(zip("abc", values, strict=True))
    (found,) = by_us("Range", inputs, stored=tuple("abc") if known else ())
    np.testing.assert_array_equal(found, np.arange(start, limit, delta, dtype))
    assert found.dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", BFLOAT16], ids=str)
def test_ranges_of_floats(dtype):
    for start, limit, delta in ((0, 1, 0.125), (3, -2, -0.5), (1, 1, 1), (0, 1, -1), (2, 3.5, 0.5)):
        inputs = {n: np.array(v, dtype) for n, v in zip("abc", (start, limit, delta), strict=True)}
        (found,) = by_us("Range", inputs, kernel="range")
        np.testing.assert_array_equal(found, np.arange(start, limit, delta).astype(dtype))
        assert found.dtype == dtype


def test_a_range_in_the_middle_stays_compiled():
    x = fed("x", np.zeros((4, 3), np.float32), ("N", 3))
    count = ops.cast(ops.reduce_max(ops.relu(x), keepdims=0), "int64")
    places = ops.range(np.int64(0), count, np.int64(1))
    cell = compiled(ops.mul(ops.cast(places, "float32"), 2.0))
    assert "host" not in kernels(cell), kernels(cell)
    for high in (0, 1, 5, 3):
        (found,) = computed(cell, {"x": np.full((2, 3), high, np.float32)})
        np.testing.assert_array_equal(found, 2 * np.arange(high))


def test_a_range_without_steps():
    inputs = {n: np.array(v, np.float32) for n, v in zip("abc", (0, 1, 0), strict=True)}
    with pytest.raises(NeuralsymError, match="delta is zero"):
        by_us("Range", inputs)
    inputs["c"] = np.array(np.nan, np.float32)
    with pytest.raises(NeuralsymError, match="Range"):
        by_us("Range", inputs)


# -- diagonals, triangles, one value -------------------------------------------------------------
@settings(max_examples=40)
@given(st.integers(0, 5), st.integers(0, 5), st.integers(-7, 7), st.data())
def test_eye(rows, columns, k, data):
    dtype = data.draw(st.sampled_from(["float32", "bool", "int8", "float16", "uint64"]))
    attrs = {"k": k} | data.draw(st.sampled_from([{}, {"dtype": 11}]))
    (found,) = by_us("EyeLike", {"x": np.zeros((rows, columns), dtype)}, attrs, kernel="eye")
    wanted = "float64" if "dtype" in attrs else dtype
    np.testing.assert_array_equal(found, np.eye(rows, columns, k, wanted))
    assert found.dtype == wanted


@settings(max_examples=40)
@given(st.integers(0, 4), st.integers(0, 4), st.integers(-6, 6), st.data())
def test_triangles(rows, columns, k, data):
    dtype = data.draw(st.sampled_from(["float32", "bool", "complex128", "int8"]))
    x = np.arange(2 * rows * columns).reshape(2, rows, columns).astype(dtype) + np.ones(1, dtype)
    upper = data.draw(st.integers(0, 1))
    (found,) = by_us("Trilu", {"x": x, "k": np.array(k)}, {"upper": upper}, kernel="triangle")
    np.testing.assert_array_equal(found, np.triu(x, k) if upper else np.tril(x, k))


def test_a_shape_of_the_run_filled():
    for shape in ([2, 3], [0, 4], [], [5]):
        inputs = {"s": np.array(shape, np.int64)}
        (found,) = by_us("ConstantOfShape", inputs, {"value": np.array([7], np.int8)})
        np.testing.assert_array_equal(found, np.full(shape, 7, np.int8))
    with pytest.raises(NeuralsymError, match="ConstantOfShape"):
        by_us("ConstantOfShape", {"s": np.array([2, -3])})


# -- one-hot vectors -----------------------------------------------------------------------------
@settings(max_examples=60)
@given(st.data())
def test_one_hot(data):
    kind = data.draw(st.sampled_from(["int64", "int8", "uint64", "float32", "float16"]))
    depth_kind = data.draw(st.sampled_from(["int64", "int32", "uint8", "float32", "float16"]))
    value_kind = data.draw(st.sampled_from(["float32", "bool", "int16", "complex128", "float16"]))
    depth = data.draw(st.integers(0, 5))
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
    low = 0 if kind.startswith("u") else -8
    picks = st.integers(low, 8)
    flat = data.draw(st.lists(picks, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    indices = np.array(flat, kind).reshape(shape)
    axis = data.draw(st.integers(-len(shape) - 1, len(shape)))
    values = np.array([1, 0] if data.draw(EITHER) else [0, 1], value_kind)
    inputs = {"i": indices, "d": np.array([depth], depth_kind), "v": values}
    stored = ("d",) if data.draw(EITHER) else ()
    (found,) = by_us("OneHot", inputs, {"axis": axis}, kernel="onehot", stored=stored)
    at = axis % (len(shape) + 1)
    places = indices.astype(np.int64)
    places = np.where(places < 0, places + depth, places)
    line = np.arange(depth).reshape([-1 if a == at else 1 for a in range(len(shape) + 1)])
    expected = np.where(np.expand_dims(places, at) == line, values[1], values[0])
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == value_kind


def test_one_hot_words_and_by_numpy():
    # The evaluator of onnx takes neither words nor a depth that is a vector of one.
    values = [np.array([1, 5, -1, -4]), np.array([3]), np.array(["no", "yes"], object)]
    named = [fed(n, v) for n, v in zip("id", values[:2], strict=True)]
    words = variable("v", (2,), "string")
    y = ops.one_hot(*named, words)
    (expected,) = evaluate(y.node, values)
    wanted = np.array([["no", "yes", "no"], ["no"] * 3, ["no", "no", "yes"], ["no"] * 3])
    np.testing.assert_array_equal(expected, wanted)
    found = run(y, {"i": values[0], "d": values[1], "v": values[2]})
    np.testing.assert_array_equal(found, wanted)


def test_the_largest_unsigned_index_is_outside():
    i = np.array([2**64 - 1, 1], np.uint64)
    (found,) = by_us("OneHot", {"i": i, "d": np.array([2]), "v": np.array([0, 1])})
    np.testing.assert_array_equal(found, [[0, 0], [0, 1]])


@pytest.mark.parametrize("depth", [-1, np.nan, np.inf])
def test_a_depth_that_is_none(depth):
    d = np.array([depth], np.float32)
    i, v = np.array([0]), np.array([0, 1])
    for stored in ((), ("d",)):
        with pytest.raises(NeuralsymError, match="OneHot"):
            by_us("OneHot", {"i": i, "d": d, "v": v}, stored=stored)


# -- crops, sequences, caches --------------------------------------------------------------------
@settings(max_examples=60)
@given(st.data())
def test_center_crop_pad(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3)))
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    wanted = [data.draw(st.integers(0, 7)) for _ in axes]
    x = np.arange(np.prod(shape)).reshape(shape).astype("float32") + 1
    signed = [a - len(shape) if data.draw(EITHER) else a for a in axes]
    inputs = {"x": x, "s": np.array(wanted, data.draw(st.sampled_from(["int32", "int64"])))}
    stored = ("s",) if data.draw(EITHER) else ()
    (found,) = by_us("CenterCropPad", inputs, {"axes": signed}, stored=stored)
    expected = x
    for axis, size in zip(axes, wanted, strict=True):
        old = expected.shape[axis]
        first = max(old - size, 0) // 2
        expected = np.take(expected, np.arange(first, first + min(old, size)), axis)
        pads = [(0, 0)] * x.ndim
        pads[axis] = (max(size - old, 0) // 2, max(size - old, 0) - max(size - old, 0) // 2)
        expected = np.pad(expected, pads)
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=40)
@given(st.data())
def test_reverse_sequence(data):
    dtype = data.draw(st.sampled_from(["float32", "bool", "float16", "complex128"]))
    shape = tuple(data.draw(st.integers(0, 4)) for _ in range(data.draw(st.integers(2, 4))))
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    time = data.draw(st.integers(0, 1))
    lengths = [data.draw(st.integers(0, shape[time])) for _ in range(shape[1 - time])]
    attrs = {"time_axis": time, "batch_axis": 1 - time}
    inputs = {"x": x, "n": np.array(lengths, np.int64)}
    (found,) = by_us("ReverseSequence", inputs, attrs, kernel="reversesequence")
    expected = np.moveaxis(x.copy(), time, 0)
    for b, n in enumerate(lengths):
        expected[:n, b] = expected[:n, b][::-1].copy()
    np.testing.assert_array_equal(found, np.moveaxis(expected, 0, time))


@pytest.mark.parametrize("length", [5, -1])
def test_a_sequence_that_is_too_long(length):
    x, n = np.zeros((4, 2), np.float32), np.array([1, length])
    y = ops.reverse_sequence(fed("x", x), fed("n", n), name="turn")
    with pytest.raises(ExecutionError, match="turn"):
        run(y, {"x": x, "n": n})


@settings(max_examples=60)
@given(st.data(), st.sampled_from(["linear", "circular"]))
def test_tensor_scatter(data, mode):
    dtype = data.draw(st.sampled_from(["float32", "float16", "int8", "complex128"]))
    shape = [data.draw(st.integers(1, 3)) for _ in range(data.draw(st.integers(2, 4)))]
    axis = data.draw(st.integers(1, len(shape) - 1))
    shape[axis] = data.draw(st.integers(1, 5))
    added = data.draw(st.integers(0, shape[axis]))
    x = np.zeros(shape, dtype)
    part = [*shape[:axis], added, *shape[axis + 1 :]]
    update = np.arange(1, np.prod(part) + 1).reshape(part).astype(dtype)
    highest = shape[axis] - added if mode == "linear" else 9
    starts = [data.draw(st.integers(0, highest)) for _ in range(shape[0])]
    given_starts = data.draw(EITHER)
    inputs = {"x": x, "u": update, "w": np.array(starts)}
    if not given_starts:
        del inputs["w"]
        starts = [0] * shape[0]
    attrs = {"axis": axis - len(shape) if data.draw(EITHER) else axis, "mode": mode}
    (found,) = by_us("TensorScatter", inputs, attrs, kernel="tensorscatter")
    expected = np.moveaxis(x.copy(), axis, 1)
    for n, start in enumerate(starts):
        for i in range(added):
            expected[n, (start + i) % shape[axis]] = np.moveaxis(update, axis, 1)[n, i]
    np.testing.assert_array_equal(found, np.moveaxis(expected, 1, axis))


@pytest.mark.parametrize("start", [3, -1])
def test_an_update_behind_the_end(start):
    x, u, w = np.zeros((1, 4, 2), "float32"), np.ones((1, 2, 2), "float32"), np.array([start])
    y = ops.tensor_scatter(fed("x", x), fed("u", u), fed("w", w), name="cache")
    with pytest.raises(ExecutionError, match="cache"):
        run(y, {"x": x, "u": u, "w": w})


# -- determinants --------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_determinants(dtype, rng):
    for n in (0, 1, 2, 3, 8):
        x = rng.normal(size=(3, 2, n, n)).astype(dtype)
        (found,) = by_us("Det", {"x": x}, kernel="det")
        expected = np.linalg.det(x.astype(float))
        np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == "float16" else 1e-5)
    x = np.array([[[0, 1], [1, 0]], [[1, 2], [2, 4]]], dtype)
    np.testing.assert_array_equal(by_us("Det", {"x": x})[0], [-1, 0])


def test_a_determinant_without_a_pivot():
    x = np.array([[0, 2], [0, np.nan]], np.float32)
    assert np.isnan(by_us("Det", {"x": x})[0])
    (expected,) = by_onnxruntime("Det", {"x": np.eye(3, dtype=np.float32)})
    np.testing.assert_array_equal(by_us("Det", {"x": np.eye(3, dtype=np.float32)})[0], expected)
