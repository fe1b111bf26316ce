"""Normalisations against float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_graph import compiled, computed, fed, kernels, run

from neuralsym import ops
from neuralsym.cpu.machine import Target
from neuralsym.dtypes import NumberType

EPS = 2.0**-24


def normalised(x, axes, epsilon, center=True):
    wide = x.astype(np.float64)
    if center:
        wide = wide - wide.mean(axes, keepdims=True)
    return wide / np.sqrt(np.square(wide).mean(axes, keepdims=True) + epsilon)


def close(found, expected, scale, ratio=1.0, eps=EPS):
    """Within the error of the kernel: `ratio` is |mean| / deviation."""
    bound = eps * (8 * np.abs(expected) + (8 + 4 * ratio) * np.abs(scale) + 1)
    found = found.astype(np.float64)
    assert found.shape == expected.shape
    assert np.all(np.abs(found - expected) <= bound), np.max(np.abs(found - expected) / bound)


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 5), max_size=2),
    st.lists(st.sampled_from([1, 3, 16, 33, 200]), min_size=1, max_size=2),
    st.booleans(),
    st.integers(1, 2),
)
def test_layer_normalisation(outer, inner, with_bias, threads):
    random = np.random.default_rng(sum(outer) + sum(inner))
    x = random.normal(2, 3, (*outer, *inner)).astype(np.float32)
    scale = random.normal(size=inner).astype(np.float32)
    bias = random.normal(size=inner).astype(np.float32) if with_bias else None
    axes = tuple(range(len(outer), x.ndim))
    y = ops.layer_normalization(fed("x", x), scale, bias, axis=axes[0] - x.ndim, epsilon=1e-3)
    found = run(y, {"x": x}, threads, "normalise")
    expected = normalised(x, axes, 1e-3) * scale + (0 if bias is None else bias)
    close(found, expected, scale, ratio=4)


def test_rows_far_from_zero_keep_their_deviation(rng):
    x = (1000 + rng.normal(size=(4, 4096))).astype(np.float32)
    y = ops.layer_normalization(fed("x", x), np.ones(4096, np.float32))
    close(run(y, {"x": x}), normalised(x, (1,), 1e-5), 1.0, ratio=1000)


def test_statistics_and_broadcast_scale(rng):
    x = rng.normal(1, 2, (3, 5, 40)).astype(np.float32)
    scale = rng.normal(size=(1,)).astype(np.float32)
    outputs = ops.layer_normalization(fed("x", x), scale, axis=1, epsilon=1e-5, outputs=3)
    y, mean, inverse = run(list(outputs), {"x": x}, kernel="normalise")
    close(y, normalised(x, (1, 2), 1e-5) * scale, scale)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean((1, 2), keepdims=True), rtol=1e-6)
    deviation = np.sqrt(wide.var((1, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(inverse, 1 / deviation, rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "eps"), [("float64", 2.0**-50), ("float16", 2.0**-10), ("bfloat16", 2.0**-7)]
)
def test_other_floats(dtype, eps, rng):
    x = rng.normal(size=(3, 70)).astype(NumberType(dtype).numpy)
    scale = np.ones(70).astype(x.dtype)
    for op, center in ((ops.layer_normalization, True), (ops.rms_normalization, False)):
        y = op(fed("x", x), scale, epsilon=1e-5)
        found = run(y, {"x": x}, kernel="normalise")
        close(found, normalised(x, (1,), np.float32(1e-5), center), 1.0, eps=eps)


def test_rms_normalisation(rng):
    x = rng.normal(size=(2, 7, 100)).astype(np.float32)
    scale = rng.normal(size=100).astype(np.float32)
    y = ops.rms_normalization(fed("x", x), scale, epsilon=1e-6)
    close(run(y, {"x": x}, 2, "normalise"), normalised(x, (2,), 1e-6, False) * scale, scale)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("spatial", [(1,), (5,), (7, 9), (3, 4, 6)])
def test_instances_and_groups(spatial, threads, rng):
    x = rng.normal(1, 2, (2, 6, *spatial)).astype(np.float32)
    scale, bias = rng.normal(size=(2, 6)).astype(np.float32)
    column = (6, *(1,) * len(spatial))
    y = ops.instance_normalization(fed("x", x), scale, bias, epsilon=1e-2)
    axes = tuple(range(2, x.ndim))
    expected = normalised(x, axes, 1e-2) * scale.reshape(column) + bias.reshape(column)
    close(run(y, {"x": x}, threads, "normalise"), expected, scale.reshape(column), ratio=4)
    for groups in (1, 2, 3, 6):
        y = ops.group_normalization(fed("x", x), scale, bias, num_groups=groups, epsilon=1e-2)
        split = x.reshape(2, groups, -1)
        made = normalised(split, (2,), 1e-2).reshape(x.shape)
        expected = made * scale.reshape(column) + bias.reshape(column)
        close(run(y, {"x": x}, threads, "normalise"), expected, scale.reshape(column), ratio=4)


def test_nan_stays_in_its_row(rng):
    x = rng.normal(size=(3, 50)).astype(np.float32)
    x[1, 7] = np.nan
    found = run(ops.layer_normalization(fed("x", x), np.ones(50, np.float32)), {"x": x})
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[[0, 2]]).all()


def test_another_batch_needs_no_other_kernel(rng):
    x = fed("x", np.zeros((1, 1, 8), np.float32), ("N", "T", 8))
    cell = compiled(ops.layer_normalization(x, np.ones(8, np.float32)))
    made = set(cell._codes)
    for shape in ((2, 3, 8), (1, 50, 8), (0, 2, 8)):
        value = rng.normal(size=shape).astype(np.float32)
        close(computed(cell, {"x": value})[0], normalised(value, (2,), 1e-5), 1.0)
    assert set(cell._codes) == made


# -- local response ----------------------------------------------------------------------------
def responses(x, size, alpha, beta, bias):
    wide = x.astype(np.float64)
    squares = np.square(wide)
    total = np.zeros_like(wide)
    for c in range(x.shape[1]):
        low, high = max(0, c - (size - 1) // 2), min(x.shape[1], c + size // 2 + 1)
        total[:, c] = squares[:, low:high].sum(1)
    return wide / (bias + alpha / size * total) ** beta


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("beta", [0.75, 0.5, 1.0, 0.6])
@pytest.mark.parametrize("size", [1, 3, 4, 5, 9])
def test_local_responses(size, beta, threads, rng):
    for shape in ((2, 11, 5, 7), (1, 40, 3)):
        x = (10 * rng.normal(size=shape)).astype(np.float32)
        y = ops.lrn(fed("x", x), size=size, alpha=0.02, beta=beta, bias=1.5)
        found = run(y, {"x": x}, threads, "lrn")
        np.testing.assert_allclose(found, responses(x, size, 0.02, beta, 1.5), rtol=20 * EPS)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [3, 5, 8, 16])
@pytest.mark.parametrize("channels", [16, 20, 40])
def test_local_responses_of_blocked_channels(channels, size, threads, rng):
    x = rng.normal(size=(2, 3, 6, 7)).astype(np.float32)
    w = rng.normal(size=(channels, 3, 3, 3)).astype(np.float32)
    v = np.zeros((channels, channels, 3, 3), np.float32)
    v[np.arange(channels), np.arange(channels), 1, 1] = 1
    maps = ops.conv(fed("x", x), w, pads=[1] * 4)
    normal = ops.lrn(maps, size=size, alpha=0.3)
    cell = compiled(ops.conv(normal, v, pads=[1] * 4), threads)
    names = kernels(cell)
    at = names.index("lrn")
    # A window reaches no further than into the blocks before and behind.
    is_blocked = size // 2 <= Target.of().width("float32")
    assert ("reorder" not in (names[at - 1], names[at + 1])) == is_blocked, names
    (last,) = computed(cell, {"x": x})
    first = run(maps, {"x": x})
    expected = responses(first, size, 0.3, 0.75, 1.0)
    np.testing.assert_allclose(last, expected, atol=1e-5 * np.abs(expected).max())
