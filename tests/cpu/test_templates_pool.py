"""Pooling kernels against windows cut out one by one in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_text import call, fill, plane_buffer, read, view

from neuralsym.cpu.templates.global_pool import (
    GlobalPoolText,
    global_pool_text,
    global_pool_words,
)
from neuralsym.cpu.templates.layout import Plane
from neuralsym.cpu.templates.pool import (
    PoolShape,
    plan_pool,
    pool_text,
    pool_words,
    run_table,
)

EPS = np.finfo(np.float32).eps


def windows(shape, x, place):
    """The window of an output place, cut at the borders, and how many values an average counts."""
    cut, counted, inside = [], 1, 1
    for axis in range(3):
        start = place[axis] * shape.strides[axis] - shape.before[axis]
        taps = [start + k * shape.dilations[axis] for k in range(shape.kernel[axis])]
        size = x.shape[2 + axis]
        cut.append([p for p in taps if 0 <= p < size])
        inside *= len(cut[-1])
        counted *= len([p for p in taps if p < size + shape.after[axis]])
    values = x[(slice(None), slice(None), *np.ix_(*cut))]
    flat = values.reshape(*x.shape[:2], -1)
    return flat, counted if shape.count_include_pad else inside


def check(shape, size, out, reduce, channels=20, width=16, batch=1, workers=1, nan=False):
    rng = np.random.default_rng(1)
    source = Plane(channels, size, width, (0, 1, 1), (0, 0, 2))
    target = Plane(channels, out, width, (0, 1, 0), (0, 0, 1))
    x = rng.standard_normal((batch, channels, *size)).astype(np.float32)
    if nan:
        x[0, 0, 0, 2, 2] = np.nan
    # Whatever stands in the halo must not be read.
    xb, yb = plane_buffer(source, batch, 1e30), plane_buffer(target, batch, 7.0)
    fill(xb, source, x)
    text = plan_pool(shape, source, reduce)
    runs = run_table(text, shape, source, target)
    words = pool_words(
        shape,
        xb.ctypes.data + source.origin,
        yb.ctypes.data + target.origin,
        runs.ctypes.data,
        runs,
        batch,
        source,
        target,
    )
    call(pool_text(text), words, workers, width)
    got = read(yb, target, batch)
    exact = x.astype(np.float64)
    for place in np.ndindex(*out):
        values, count = windows(shape, exact, place)
        here = got[(slice(None), slice(None), *place)]
        if reduce == "max":
            np.testing.assert_array_equal(here, values.max(axis=2))
        else:
            bound = EPS * (sum(shape.kernel) + 1) * abs(values).sum(axis=2) / count
            assert (abs(here - values.sum(axis=2) / count) <= bound).all()
    border = view(yb, target, batch)
    assert (border[:, :, :, 0] == 7).all()
    assert (border[:, :, :, :, -1] == 7).all()


def pool2d(kernel, stride, pads=(0, 0, 0, 0), dilation=1, include=False):
    return PoolShape(
        (1, *kernel),
        (1, stride, stride),
        (1, dilation, dilation),
        (0, pads[0], pads[1]),
        (0, pads[2], pads[3]),
        include,
    )


@pytest.mark.parametrize("width", [16, 8, 4])
@pytest.mark.parametrize("reduce", ["max", "average"])
def test_common_pools(reduce, width):
    check(pool2d((3, 3), 2, (1, 1, 1, 1)), (1, 28, 28), (1, 14, 14), reduce, width=width)
    check(pool2d((2, 2), 2), (1, 8, 10), (1, 4, 5), reduce, width=width, batch=2, workers=2)
    check(pool2d((3, 3), 1, (1, 1, 1, 1), include=True), (1, 9, 9), (1, 9, 9), reduce, width=width)


def test_the_ceiling_cuts_the_last_windows():
    for reduce in ("max", "average"):
        for include in (False, True):
            shape = pool2d((3, 3), 2, include=include)
            check(shape, (1, 8, 8), (1, 4, 4), reduce)


def test_nan_is_the_largest():
    check(pool2d((3, 3), 2), (1, 9, 9), (1, 4, 4), "max", nan=True)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    pads=st.tuples(*[st.integers(0, 1)] * 4),
    size=st.tuples(st.integers(8, 12), st.integers(8, 26)),
    reduce=st.sampled_from(["max", "average"]),
    include=st.booleans(),
    batch=st.integers(1, 2),
    workers=st.integers(1, 2),
)
def test_any_geometry(kernel, stride, dilation, pads, size, reduce, include, batch, workers):
    pads = tuple(min(p, kernel[i % 2] - 1) for i, p in enumerate(pads))
    shape = pool2d(kernel, stride, pads, dilation, include)
    out = tuple(
        (size[i] + pads[i] + pads[2 + i] - dilation * (kernel[i] - 1) - 1) // stride + 1
        for i in range(2)
    )
    check(shape, (1, *size), (1, *out), reduce, 16, 16, batch, workers)


def test_three_dimensions():
    shape = PoolShape((2, 3, 3), (2, 2, 1), before=(0, 1, 1), after=(0, 1, 1))
    for reduce in ("max", "average"):
        check(shape, (4, 6, 9), (2, 3, 9), reduce)


@pytest.mark.parametrize("width", [16, 8, 4])
@pytest.mark.parametrize("reduce", ["max", "average"])
@pytest.mark.parametrize("halo", [0, 1])
def test_global(reduce, width, halo):
    rng = np.random.default_rng(2)
    edge = (0, halo, halo)
    batch, channels, size = 3, 21, (1, 13, 55)
    source = Plane(channels, size, width, edge, edge)
    x = rng.standard_normal((batch, channels, *size)).astype(np.float32)
    xb = plane_buffer(source, batch, 1e30)
    fill(xb, source, x)
    out = np.full((batch, channels + 1), 7, np.float32)
    words = global_pool_words(
        xb.ctypes.data + source.origin, out.ctypes.data, batch, source, out.strides[0]
    )
    call(global_pool_text(GlobalPoolText(width, reduce)), words, 2, width)
    exact = x.astype(np.float64).reshape(batch, channels, -1)
    if reduce == "max":
        np.testing.assert_array_equal(out[:, :channels], exact.max(axis=2))
    else:
        bound = EPS * (64 + 13 + 4) * abs(exact).mean(axis=2)
        assert (abs(out[:, :channels] - exact.mean(axis=2)) <= bound).all()
    assert (out[:, channels] == 7).all(), "wrote past the channels"


def test_an_average_over_many_pixels_keeps_its_digits():
    source = Plane(16, (1, 224, 224), 16)
    xb = plane_buffer(source, 1, 0.1)
    out = np.zeros((1, 16), np.float32)
    words = global_pool_words(xb.ctypes.data, out.ctypes.data, 1, source, 64)
    call(global_pool_text(GlobalPoolText(16, "average")), words)
    pieces = 224 * 224 / 256
    assert abs(out - np.float64(np.float32(0.1))).max() <= EPS * (64 + pieces) * 0.1
