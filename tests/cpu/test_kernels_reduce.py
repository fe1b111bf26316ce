"""Reductions and walks along an axis, against float64 with bounds from the arithmetic."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_graph import compiled, computed, fed, kernels, run

from neuralsym import ops

EPS = 2.0**-24
FUNCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "l1": lambda x, **k: np.abs(x).sum(**k),
    "l2": lambda x, **k: np.sqrt(np.square(x).sum(**k)),
    "sum_square": lambda x, **k: np.square(x).sum(**k),
    "log_sum": lambda x, **k: np.log(x.sum(**k)),
    "log_sum_exp": lambda x, **k: np.log(np.exp(x).sum(**k)),
}


def reduction(how: str):
    return getattr(ops, f"reduce_{how}")


def bound(how: str, x: np.ndarray, expected: np.ndarray, axes, keep: bool) -> np.ndarray:
    """What float32 arithmetic may be off by: 64 roundings of the sum of absolute values."""
    magnitudes = np.abs(x).sum(axis=axes, keepdims=keep)
    if how in ("max", "min"):
        return np.zeros_like(expected)
    if how in ("sum", "l1"):
        return 66 * EPS * magnitudes
    if how == "mean":
        return 66 * EPS * magnitudes / max(x.size // max(expected.size, 1), 1)
    if how == "prod":
        return 2 * EPS * np.abs(expected) + 2.0**-149
    if how in ("l2", "sum_square"):
        return 68 * EPS * np.abs(expected)
    # A relative error of the sum is an absolute one of its logarithm.
    return 70 * EPS * (1 + np.abs(expected))


@st.composite
def cases(draw):
    rank = draw(st.integers(0, 6))
    shape = [draw(st.integers(1, 4)) for _ in range(rank)]
    if rank:
        shape[draw(st.integers(0, rank - 1))] = draw(st.sampled_from([0, 1, 7, 50, 130]))
    axes = draw(st.permutations(range(rank)))[: draw(st.integers(0, rank))]
    return tuple(shape), axes, draw(st.booleans())


@pytest.mark.parametrize("how", FUNCTIONS)
@settings(max_examples=25)
@given(case=cases(), threads=st.integers(1, 2))
def test_float32(how, case, threads):
    shape, axes, keep = case
    random = np.random.default_rng(len(shape) + sum(shape))
    x = random.uniform(0.5, 1.5, shape) if how in ("prod", "log_sum") else random.normal(size=shape)
    x = x.astype(np.float32)
    if x.size == 0 and how in ("max", "min"):
        return
    y = reduction(how)(fed("x", x), [a - len(shape) for a in axes] or None, keepdims=keep)
    found = run(y, {"x": x}, threads)
    wide, over = x.astype(np.float64), tuple(axes) or None
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        expected = FUNCTIONS[how](wide, axis=over, keepdims=keep)
    assert found.shape == np.shape(expected)
    limit = bound(how, wide, np.asarray(expected), over, keep)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        assert np.all(same | (np.abs(found - expected) <= limit))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 100_000), [1]),
        ((100_003, 5), [0]),
        ((70, 70, 70), [0, 2]),
        ((2, 37, 9, 41), [0, 2, 3]),
        ((33, 1025), [0]),
    ],
)
@pytest.mark.parametrize("how", ["sum", "mean", "l2", "max", "log_sum_exp"])
def test_long_sums_stay_exact(how, shape, axes, rng):
    x = rng.normal(size=shape).astype(np.float32) + 1
    found = run(reduction(how)(fed("x", x), axes), {"x": x}, kernel="reduce")
    wide = x.astype(np.float64)
    expected = FUNCTIONS[how](wide, axis=tuple(axes), keepdims=True)
    limit = bound(how, wide, expected, tuple(axes), True)
    assert np.all(np.abs(found - expected) <= limit)


@pytest.mark.parametrize("how", ["sum", "prod", "max", "min", "l1", "sum_square", "mean"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_integers(how, dtype, rng):
    low = 0 if dtype.startswith("u") else -6
    x = rng.integers(low, 7, (3, 5, 20)).astype(dtype)
    if how == "mean":
        x += 3 * (x > 0).astype(dtype)
    for axes in ([1], [2], [0, 2], [0, 1]):
        found = run(reduction(how)(fed("x", x), axes), {"x": x}, kernel="reduce")
        expected = FUNCTIONS[how](x.astype(object), axis=tuple(axes), keepdims=True)
        if how == "mean":
            expected = np.trunc(expected.astype(float))
        bits = 8 * x.dtype.itemsize
        wrapped = [int(v) % 2**bits for v in expected.reshape(-1)]
        assert [int(v) % 2**bits for v in found.reshape(-1)] == wrapped


@pytest.mark.parametrize("how", ["max", "min"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool"])
def test_bytes(how, dtype, rng):
    x = rng.integers(0, 2 if dtype == "bool" else 250, (4, 70, 3)).astype(dtype)
    for axes in ([0], [1], [2], [1, 2]):
        found = run(reduction(how)(fed("x", x), axes), {"x": x}, kernel="reduce")
        np.testing.assert_array_equal(found, FUNCTIONS[how](x, axis=tuple(axes), keepdims=True))


@pytest.mark.parametrize(("dtype", "digits"), [("float16", 11), ("bfloat16", 8), ("float64", 53)])
@pytest.mark.parametrize("how", FUNCTIONS)
def test_other_floats(how, dtype, digits, rng):
    from neuralsym.dtypes import NumberType

    x = rng.uniform(0.5, 1.5, (3, 40, 21)).astype(NumberType(dtype).numpy)
    for axes in ((1,), (2,)):
        y = reduction(how)(fed("x", x), list(axes))
        # A mean over the last of three axes may have become a pool.
        found = run(y, {"x": x}, kernel=None if how == "mean" else "reduce").astype(np.float64)
        expected = FUNCTIONS[how](x.astype(np.float64), axis=axes, keepdims=True)
        tolerance = 64 * 2.0**-53 if dtype == "float64" else 2.0**-digits + 70 * EPS
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("axis", [0, 1])
def test_nan_and_infinity(axis):
    x = np.zeros((40, 40), np.float32)
    x[3, 3], x[7, 9], x[20, 21], x[20, 2] = np.nan, np.inf, -np.inf, np.inf
    for how in ("sum", "mean", "max", "min", "log_sum_exp"):
        found = run(reduction(how)(fed("x", x), [axis]), {"x": x})
        with np.errstate(all="ignore"):
            expected = FUNCTIONS[how](x.astype(np.float64), axis=axis, keepdims=True)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_exponentials_neither_overflow_nor_vanish():
    x = np.array([[1000.0, 1000.0], [-1000.0, -1000.0], [-np.inf, -np.inf]], np.float32)
    found = run(ops.reduce_log_sum_exp(fed("x", x), [1]), {"x": x})
    expected = [[1000 + np.log(2)], [-1000 + np.log(2)], [-np.inf]]
    np.testing.assert_allclose(found, expected, rtol=2 * EPS)


def test_nothing_is_reduced_where_axes_are_empty_and_that_is_asked_for():
    x = np.array([[3.0, -4.0]], np.float32)
    none = np.zeros(0, np.int64)
    y = ops.reduce_sum_square(fed("x", x), none, noop_with_empty_axes=1)
    np.testing.assert_array_equal(run(y, {"x": x}), x * x)
    y = ops.reduce_sum_square(fed("x", x), none)
    np.testing.assert_array_equal(run(y, {"x": x}), [[25]])


def test_another_batch_needs_no_other_kernel(rng):
    x = fed("x", np.zeros((1, 8, 1), np.float32), ("N", 8, "M"))
    cell = compiled([ops.reduce_sum(x, [2]), ops.reduce_max(x, [1]), ops.argmax(x, axis=1)])
    assert kernels(cell) == ["reduce", "reduce", "arg"]
    made = set(cell._codes)
    for shape in ((1, 8, 1), (3, 8, 40), (40, 8, 1)):
        value = rng.normal(size=shape).astype(np.float32)
        total, largest, place = computed(cell, {"x": value})
        np.testing.assert_allclose(total, value.sum(2, keepdims=True), atol=1e-5)
        np.testing.assert_array_equal(largest, value.max(1, keepdims=True))
        np.testing.assert_array_equal(place, value.argmax(1)[:, None])
    assert set(cell._codes) == made


# -- along one axis ----------------------------------------------------------------------------
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int64"])
def test_arg(dtype, last, threads, rng):
    x = rng.integers(0, 5, (5, 17, 19)).astype(dtype)
    if dtype.startswith("float"):
        x[2, 3, 4] = x[2, 8, 4] = np.nan
    for name in ("argmax", "argmin"):
        for axis in range(3):
            y = getattr(ops, name)(fed("x", x), axis=axis, select_last_index=last, keepdims=0)
            found = run(y, {"x": x}, threads, "arg")
            if last:
                expected = x.shape[axis] - 1 - getattr(np, name)(np.flip(x, axis), axis)
            else:
                expected = getattr(np, name)(x, axis)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_running_sums(dtype, exclusive, reverse, rng):
    x = rng.integers(-3, 4, (4, 18, 33)).astype(dtype)
    for axis in (0, 1, -1):
        y = ops.cumsum(fed("x", x), axis, exclusive=exclusive, reverse=reverse)
        found = run(y, {"x": x}, kernel="running")
        turned = np.flip(x, axis) if reverse else x
        expected = np.cumsum(turned, axis, dtype=np.float64) - (turned if exclusive else 0)
        np.testing.assert_array_equal(found, np.flip(expected, axis) if reverse else expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_pixels_of_blocked_channels(threads, rng):
    x = rng.normal(size=(2, 3, 9, 7)).astype(np.float32)
    w = rng.normal(size=(32, 3, 3, 3)).astype(np.float32)
    y = ops.conv(fed("x", x), w, pads=[1, 1, 1, 1])
    outputs = [ops.reduce_max(y, [2, 3]), ops.reduce_l2(y, [-1, -2], keepdims=0)]
    cell = compiled([*outputs, ops.conv(y, rng.normal(size=(16, 32, 3, 3)), pads=[1] * 4)], threads)
    largest, norm, _ = computed(cell, {"x": x})
    (maps,) = run([y], {"x": x})
    np.testing.assert_allclose(largest, maps.max((2, 3), keepdims=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(norm, np.sqrt((maps.astype(float) ** 2).sum((2, 3))), rtol=1e-5)
    assert kernels(cell).count("reduce") == 2
