"""Softmax and its logarithm over rows of all lengths, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from run_text import MACHINES, call, target_of

from neuralsym.cpu.templates.softmax import SoftmaxText, softmax_text

UNIT = 2.0**-24


def computed(x, axis, logarithm=False, width=16, workers=2):
    """x is [before, length, behind]; the axis is the last one where nothing is behind."""
    machine = target_of(width)
    element = "float" if x.dtype == np.float32 else "double"
    text = SoftmaxText(
        machine.width(element), element, x.shape[2] == 1, logarithm, None, machine.scales
    )
    y = np.full_like(x, 7)
    call(softmax_text(text), [x.ctypes.data, y.ctypes.data, *x.shape], workers, width)
    return y


def wanted(x, logarithm=False):
    wide = x.astype(np.float64)
    wide = wide - wide.max(1, keepdims=True)
    total = np.exp(wide).sum(1, keepdims=True)
    return wide - np.log(total) if logarithm else np.exp(wide) / total


@pytest.mark.parametrize("width", [width for width, _ in MACHINES])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("logarithm", [False, True])
def test_rows(width, dtype, logarithm):
    rng = np.random.default_rng(0)
    for length in (1, 2, 7, 15, 16, 17, 63, 64, 65, 130, 1000):
        for behind in (1, 5, 20):
            x = (rng.standard_normal((3, length, behind)) * 20).astype(dtype)
            found, exact = computed(x, 1, logarithm, width), wanted(x, logarithm)
            unit = UNIT if dtype == "float32" else 2.0**-53
            # The difference from the largest is rounded, and so is what is taken off it; in double
            # what is compared with has such errors too.
            fall = np.abs(x.astype(np.float64) - x.max(1, keepdims=True))
            limit = unit * ((1 + logarithm) * fall + 8 + length**0.5) * (1 + (dtype == "float64"))
            error = np.abs(found - exact) / (1 if logarithm else exact)
            assert (error <= limit)[logarithm | (exact > 1e-37)].all()


@pytest.mark.parametrize("width", [width for width, _ in MACHINES])
def test_results_reach_down_to_subnormals(width):
    x = np.array([[0, -87.5, -95.0, -103.0, -104.5, -200.0, -np.inf]], np.float32)[:, :, None]
    for length in (7, 70):
        row = np.full((1, length, 1), -np.inf, np.float32)
        row[:, :7] = x
        found = computed(row, 1, width=width)[0, :, 0]
        exact = wanted(row)[0, :, 0]
        assert np.abs(found - exact).max() <= 2.0**-149 + UNIT * 4
        assert (found[4:] == 0).all() and found[0] == 1
        assert (np.abs(found[1:4] - exact[1:4]) <= 2.0**-149 + 4 * UNIT * exact[1:4]).all()


@pytest.mark.parametrize("length", [5, 16, 100])
def test_what_is_no_number_makes_the_row_none(length):
    for place in (0, length - 1):
        for value in (np.nan, np.inf):
            x = np.zeros((2, length, 1), np.float32)
            x[0, place] = value
            found = computed(x, 1)
            assert np.isnan(found[0]).any() and np.isfinite(found[1]).all()
            if np.isnan(value):
                assert np.isnan(found[0]).all()
    assert np.isnan(computed(np.full((1, length, 1), -np.inf, np.float32), 1)).all()


def test_masked_elements_have_no_weight():
    x = np.zeros((1, 40, 1), np.float32)
    x[0, 10:] = -np.inf
    found = computed(x, 1)[0, :, 0]
    np.testing.assert_array_equal(found[:10], np.float32(0.1))
    np.testing.assert_array_equal(found[10:], 0)


def test_workers_change_no_bit():
    x = np.random.default_rng(3).standard_normal((7, 77, 1)).astype(np.float32)
    np.testing.assert_array_equal(computed(x, 1, workers=1), computed(x, 1, workers=3))
