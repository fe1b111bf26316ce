"""Softmax, transposed convolution and batch normalisation through the compiler."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import SETS, close, run_op

from neuralsym.core.op import find_op


def exact_softmax(x, axis, logarithm):
    below = x.astype(np.float64) - x.max(axis, keepdims=True)
    total = np.exp(below).sum(axis, keepdims=True)
    return below - np.log(total) if logarithm else np.exp(below) / total


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 15, 16, 17, 40]), min_size=1, max_size=3),
    st.data(),
    st.sampled_from(["float32", "float64", "float16"]),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.sampled_from(SETS),
)
def test_softmax(shape, data, dtype, threads, free, isa):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    logarithm = data.draw(st.booleans())
    x = (np.random.default_rng(0).standard_normal(shape) * 20).astype(dtype)
    op = find_op("LogSoftmax" if logarithm else "Softmax")
    names = {0: (0,)} if free else {}
    how = {"free": names, "threads": threads, "isa": isa, "kernel": "softmax"}
    (got,) = run_op(op, [x], {"axis": axis}, **how)
    exact = exact_softmax(x, axis, logarithm)
    unit = np.finfo(dtype).eps
    bound = unit * (abs(exact) * 8 + (8 if logarithm else 1e-3))
    assert got.dtype == x.dtype and got.shape == x.shape
    assert np.all(abs(got - exact) <= bound)


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_large_and_special_values(axis):
    x = np.array([[1e30, 3.0, np.nan], [-1e30, -np.inf, 0.0], [1.0, 2.0, 0.0]], np.float32)
    (got,) = run_op(find_op("Softmax"), [x], {"axis": axis})
    with np.errstate(invalid="ignore"):
        exact = exact_softmax(x, axis, False)
    np.testing.assert_allclose(got, exact, rtol=1e-6, atol=1e-30)


def exact_transpose(x, w, groups, strides, dilations, extra, before, size):
    axes = x.ndim - 2
    batch, channels = x.shape[:2]
    per = w.shape[1]
    results = []
    for source, filters in ((x, w), (abs(x), abs(w))):
        source, filters = source.astype(np.float64), filters.astype(np.float64)
        full = [
            (x.shape[i + 2] - 1) * strides[i] + (w.shape[i + 2] - 1) * dilations[i] + 1 + extra[i]
            for i in range(axes)
        ]
        y = np.zeros((batch, groups, per, *full))
        part = source.reshape(batch, groups, channels // groups, *x.shape[2:])
        taken = filters.reshape(groups, channels // groups, per, *w.shape[2:])
        for tap in itertools.product(*map(range, w.shape[2:])):
            at = tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(tap, dilations, x.shape[2:], strides, strict=True)
            )
            factor = taken[(slice(None), slice(None), slice(None), *tap)]
            y[(slice(None), slice(None), slice(None), *at)] += np.einsum(
                "gco,ngc...->ngo...", factor, part
            )
        cut = tuple(slice(b, b + n) for b, n in zip(before, size, strict=True))
        results.append(y.reshape(batch, groups * per, *full)[(slice(None), slice(None), *cut)])
    return results


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_conv_transpose(data):
    draw = data.draw
    axes = draw(st.integers(1, 3))
    groups, each, per = draw(st.sampled_from([(1, 3, 4), (2, 2, 3), (1, 16, 32), (4, 1, 1)]))
    small = st.integers(1, 3)
    kernel, strides = [[draw(small) for _ in range(axes)] for _ in range(2)]
    dilations = [draw(st.integers(1, 2)) for _ in range(axes)]
    size = [draw(st.integers(2, 9)) for _ in range(axes)]
    extra = [draw(st.integers(0, max(s, d) - 1)) for s, d in zip(strides, dilations, strict=True)]
    pads = [draw(st.integers(0, min(1, k - 1))) for k in [*kernel, *kernel]]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, groups * each, *size)).astype(np.float32)
    w = rng.standard_normal((groups * each, per, *kernel)).astype(np.float32)
    b = rng.standard_normal(groups * per).astype(np.float32) if draw(st.booleans()) else None
    attrs = {
        "group": groups,
        "strides": strides,
        "dilations": dilations,
        "output_padding": extra,
        "pads": pads,
    }
    threads = draw(st.sampled_from([1, 2]))
    (got,) = run_op(
        find_op("ConvTranspose"), [x, w, b], attrs, stored=(1, 2), free={0: (0,)}, threads=threads
    )
    exact, total = exact_transpose(
        x, w, groups, strides, dilations, extra, pads[:axes], got.shape[2:]
    )
    if b is not None:
        shape = (1, -1) + (1,) * axes
        exact, total = exact + b.reshape(shape), total + abs(b.reshape(shape))
    close(got, exact, total, terms=each * np.prod(kernel) + 1)


@pytest.mark.parametrize("attrs", [{"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"},
                                   {"output_shape": [9, 10]}])  # fmt: skip
def test_conv_transpose_of_a_given_size(attrs):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 2, 4, 5)).astype(np.float32)
    w = rng.standard_normal((2, 3, 4, 3)).astype(np.float32)
    (got,) = run_op(find_op("ConvTranspose"), [x, w], {**attrs, "strides": [2, 2]}, stored=(1,))
    full = (3 * 2 + 4, 4 * 2 + 3)
    surplus = [f - n for f, n in zip(full, got.shape[2:], strict=True)]
    upper = attrs.get("auto_pad") == "SAME_UPPER"
    before = [s // 2 if upper else s - s // 2 for s in surplus]
    exact, total = exact_transpose(x, w, 1, (2, 2), (1, 1), (0, 0), before, got.shape[2:])
    close(got, exact, total, terms=24)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", [(2, 5, 4, 3), (3, 17), (2, 16, 9)])
@pytest.mark.parametrize("isa", [None, SETS[-1]])
def test_batch_norm_by_given_statistics(dtype, shape, isa):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(dtype)
    scale, bias, mean = (rng.standard_normal(shape[1]).astype(dtype) for _ in range(3))
    variance = (rng.random(shape[1]) + 0.5).astype(dtype)
    arrays = [x, scale, bias, mean, variance]
    how = {"kernel": "batch norm", "isa": isa}
    (got,) = run_op(find_op("BatchNormalization"), arrays, {"epsilon": 1e-3}, **how)
    wide = (1, -1) + (1,) * (len(shape) - 2)
    s, b, m, v = (a.astype(np.float64).reshape(wide) for a in arrays[1:])
    exact = (x - m) / np.sqrt(v + np.float64(np.float32(1e-3))) * s + b
    size = (abs(x) + abs(m)) / np.sqrt(v) * abs(s) + abs(b)
    assert got.dtype == x.dtype
    assert np.all(abs(got - exact) <= 6 * np.finfo(dtype).eps * size)
