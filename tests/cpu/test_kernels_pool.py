"""Pooling through the compiler against onnx's reference evaluator and plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import SETS, cell_of, leaves, run_cell, run_op

from neuralsym import ops
from neuralsym.core.op import find_op


def windows(size, out, kernel, stride, dilation, before, after):
    """For each output of an axis the positions of its window: inside, and inside or padding."""
    for o in range(out):
        taps = [o * stride + k * dilation - before for k in range(kernel)]
        padded = [t for t in taps if t < size + after]
        yield [t for t in padded if 0 <= t < size], len(padded)


def exact_pool(x, shape, reduce, kernel, strides, dilations, pads, include=False):
    axes = x.ndim - 2
    y = np.zeros(shape)
    per_axis = [
        list(windows(x.shape[i + 2], shape[i + 2], kernel[i], strides[i], dilations[i],
                     pads[i], pads[axes + i]))
        for i in range(axes)
    ]  # fmt: skip
    for place in np.ndindex(*shape[2:]):
        found = [per_axis[i][p] for i, p in enumerate(place)]
        part = x.astype(np.float64)
        for i, (inside, _) in enumerate(found):
            part = np.take(part, inside, axis=i + 2)
        part = part.reshape(*x.shape[:2], -1)
        if reduce == "max":
            value = part.max(-1)
        else:
            count = np.prod([padded for _, padded in found]) if include else part.shape[-1]
            value = part.sum(-1) / count
        y[(slice(None), slice(None), *place)] = value
    return y


@st.composite
def cases(draw):
    axes = draw(st.integers(1, 3))
    kernel = [draw(st.integers(1, 3)) for _ in range(axes)]
    dilations = [draw(st.integers(1, 2)) for _ in range(axes)]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [draw(st.integers(0, min(2, s - 1))) for s in [*spans, *spans]]
    size = [draw(st.integers(s, s + 12)) for s in spans]
    attrs = {
        "kernel_shape": kernel,
        "strides": [draw(st.integers(1, 3)) for _ in range(axes)],
        "dilations": dilations,
        "pads": pads,
        "ceil_mode": draw(st.integers(0, 1)),
    }
    op = draw(st.sampled_from(["MaxPool", "AveragePool"]))
    if op == "AveragePool":
        attrs["count_include_pad"] = draw(st.integers(0, 1))
    dtype = draw(st.sampled_from(["float32", "float32", "float32", "float64"]))
    return {
        "op": op,
        "attrs": attrs,
        "shape": (draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 16, 20])), *size),
        "free": draw(st.sampled_from([(), (0,), (0, 2)])),
        "threads": draw(st.sampled_from([1, 2])),
        "isa": draw(st.sampled_from(SETS)) if dtype == "float32" else None,
        "dtype": dtype,
    }


@settings(max_examples=40, deadline=None)
@given(cases())
def test_any_geometry(case):
    x = np.random.default_rng(0).standard_normal(case["shape"]).astype(case["dtype"])
    (got,) = run_op(
        find_op(case["op"]),
        [x],
        case["attrs"],
        free={0: case["free"]},
        threads=case["threads"],
        isa=case["isa"],
    )
    a = case["attrs"]
    include = bool(a.get("count_include_pad"))
    reduce = "max" if case["op"] == "MaxPool" else "average"
    exact = exact_pool(
        x, got.shape, reduce, a["kernel_shape"], a["strides"], a["dilations"], a["pads"], include
    )
    if reduce == "max":
        assert np.array_equal(got, exact)
    else:
        np.testing.assert_allclose(got, exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3, 6])
def test_few_channels_lie_in_blocks_too(channels):
    x = np.random.default_rng(0).standard_normal((2, channels, 9, 11)).astype(np.float32)
    attrs = {"kernel_shape": [3, 2], "strides": [2, 2]}
    kernel = "pool loop" if channels == 1 else "pool"
    (largest,) = run_op(find_op("MaxPool"), [x], attrs, kernel="pool")
    (mean,) = run_op(find_op("AveragePool"), [x], attrs, kernel=kernel)
    sides = ([3, 2], [2, 2], [1, 1], [0] * 4)
    assert np.array_equal(largest, exact_pool(x, largest.shape, "max", *sides))
    np.testing.assert_allclose(mean, exact_pool(x, mean.shape, "average", *sides), atol=1e-6)


@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "uint8"])
def test_maxima_of_other_types(dtype, isa):
    x = (np.random.default_rng(0).standard_normal((1, 3, 6, 7)) * 9).astype(dtype)
    attrs = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}
    # Three bytes lie in blocks where vectors are short.
    kernel = ("pool loop", "int8 pool") if dtype.endswith("int8") else "pool loop"
    (got,) = run_op(find_op("MaxPool"), [x], attrs, kernel=kernel, isa=isa)
    exact = exact_pool(x, got.shape, "max", [3, 2], [2, 1], [1, 1], [1, 0, 1, 1])
    assert got.dtype == x.dtype and np.array_equal(got.astype(np.float64), exact)


@pytest.mark.parametrize("order", [0, 1])
def test_indices_of_maxima(order):
    x = np.random.default_rng(0).permutation(2 * 3 * 5 * 6).astype(np.float32).reshape(2, 3, 5, 6)
    attrs = {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [1, 1, 0, 0]}
    values, indices = run_op(
        find_op("MaxPool"), [x], {**attrs, "storage_order": order}, outputs=2, kernel="pool loop"
    )
    flat = x if order == 0 else x.transpose(0, 1, 3, 2)
    assert np.array_equal(np.ascontiguousarray(flat).reshape(-1)[indices], values)


@pytest.mark.parametrize("channels", [3, 32])
def test_nan_and_infinity_stay(channels):
    x = np.zeros((1, channels, 4, 4), np.float32)
    x[0, 0, 1, 1], x[0, 1, 2, 2] = np.nan, -np.inf
    (got,) = run_op(find_op("MaxPool"), [x], {"kernel_shape": [2, 2]})
    expected = np.zeros((1, channels, 3, 3))
    expected[0, 0, :2, :2] = np.nan
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
@pytest.mark.parametrize(("shape", "dtype"), [((2, 20, 5, 6), "float32"), ((2, 3, 7), "float64")])
def test_global(op, shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    (got,) = run_op(find_op(op), [x], free={0: (0,)})
    axes = tuple(range(2, len(shape)))
    wide = x.astype(np.float64)
    exact = {
        "GlobalAveragePool": lambda: wide.mean(axes, keepdims=True),
        "GlobalMaxPool": lambda: wide.max(axes, keepdims=True),
        "GlobalLpPool": lambda: np.sqrt((wide**2).sum(axes, keepdims=True)),
    }[op]()
    np.testing.assert_allclose(got, exact, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-6)


def test_lp_norm():
    x = np.random.default_rng(0).standard_normal((1, 4, 6, 6)).astype(np.float32)
    attrs = {"kernel_shape": [2, 2], "p": 3, "strides": [2, 2]}
    (got,) = run_op(find_op("LpPool"), [x], attrs)
    parts = abs(x.astype(np.float64).reshape(1, 4, 3, 2, 3, 2)) ** 3
    np.testing.assert_allclose(got, parts.sum((3, 5)) ** (1 / 3), rtol=1e-5)


def test_conv_pool_and_global_pool_need_one_reorder():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 3, 20, 20)).astype(np.float32)
    w = rng.standard_normal((32, 3, 3, 3)).astype(np.float32)
    made, fed = leaves([x])
    y = ops.max_pool(ops.conv(made[0], w), [3, 3], strides=[2, 2], ceil_mode=1)
    y = ops.global_average_pool(y[0] if isinstance(y, tuple) else y)
    cell = cell_of([y], made)
    names = [s.kernel.name for s in cell.program.steps]
    assert names[-3:] == ["conv", "pool", "global pool"]
    assert names[:-3] in ([], ["reorder"])  # the second where three channels fill a vector
    (got,) = run_cell(cell, fed)
    assert got.shape == (1, 32, 1, 1)
