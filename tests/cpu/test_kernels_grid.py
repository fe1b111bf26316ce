"""GridSample and AffineGrid against onnxruntime and sums written out."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_oracle import by_onnxruntime, by_reference, by_us

from neuralsym.errors import NeuralsymError

PADDINGS = ["zeros", "border", "reflection"]


@pytest.mark.slow
@settings(max_examples=30)
@given(st.data(), st.integers(0, 2**31))
def test_against_onnxruntime(data, seed):
    rng = np.random.default_rng(seed)
    axes = data.draw(st.integers(2, 3))
    space = tuple(data.draw(st.integers(1, 5)) for _ in range(axes))
    modes = ["nearest", "linear", "cubic"] if axes == 2 else ["nearest", "linear"]
    attrs = {
        "mode": data.draw(st.sampled_from(modes)),
        "padding_mode": data.draw(st.sampled_from(PADDINGS)),
        "align_corners": data.draw(st.integers(0, 1)),
    }
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    if 1 in space and attrs["align_corners"] and attrs["padding_mode"] == "reflection":
        return  # others divide by the extent of a single element, zero
    x = rng.normal(size=(2, 3, *space)).astype(dtype)
    grid = rng.uniform(-2.5, 2.5, (2, *(data.draw(st.integers(1, 3)) for _ in space), axes))
    inputs = {"x": x, "grid": grid.astype(dtype)}
    (found,) = by_us("GridSample", inputs, attrs, kernel="gridsample")
    (expected,) = by_onnxruntime("GridSample", inputs, attrs)
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_one_axis_and_four(mode, rng):
    for space in ((6,), (2, 3, 2, 3)):
        x = rng.normal(size=(1, 2, *space)).astype(np.float32)
        grid = rng.uniform(-1.2, 1.2, (1, *[2] * len(space), len(space))).astype(np.float32)
        for padding, corners in itertools.product(PADDINGS, (0, 1)):
            if (mode, padding) == ("cubic", "border"):
                continue
            attrs = {"mode": mode, "padding_mode": padding, "align_corners": corners}
            (found,) = by_us("GridSample", {"x": x, "grid": grid}, attrs, kernel="gridsample")
            (expected,) = by_reference("GridSample", {"x": x, "grid": grid}, attrs)
            np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_border_meets_cubic_taps_one_by_one():
    # onnxruntime and PyTorch clamp each tap; the reference evaluator clamps the point before.
    x = np.array([[[[1, 2, 4, 8]]]], np.float32).repeat(4, 2)
    grid = np.array([[[[-1.1, 0.0]]]], np.float32)
    attrs = {"mode": "cubic", "padding_mode": "border"}
    (found,) = by_us("GridSample", {"x": x, "grid": grid}, attrs)
    (expected,) = by_onnxruntime("GridSample", {"x": x, "grid": grid}, attrs)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found != 1


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bool", "int16", "complex64"])
def test_other_types(dtype, rng):
    x = rng.integers(0, 2 if dtype == "bool" else 100, (1, 2, 4, 5))
    if dtype.startswith("complex"):
        x = x * (1 + 2j)
    grid = rng.uniform(-1, 1, (1, 3, 3, 2)).astype(np.float16)
    for mode in ("nearest", "linear"):
        inputs = {"x": x.astype(dtype), "grid": grid}
        (found,) = by_us("GridSample", inputs, {"mode": mode}, kernel="gridsample")
        exact = x.astype(complex) if dtype.startswith("complex") else x.astype(float)
        parts = [
            by_us("GridSample", {"x": p, "grid": grid}, {"mode": mode})[0]
            for p in (exact.real.copy(), exact.imag.copy())
        ]
        assert found.dtype == dtype
        if np.dtype(dtype).kind in "iu":
            np.testing.assert_array_equal(found, np.rint(parts[0]))
        elif dtype == "bool":
            np.testing.assert_array_equal(found, parts[0] >= 0.5 if mode == "nearest" else found)
        else:
            np.testing.assert_allclose(found, parts[0] + 1j * parts[1], rtol=2e-3)


def test_places_that_are_no_numbers():
    x = np.ones((1, 1, 3, 3), np.float32)
    bad = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30], np.float32)
    grid = np.stack([bad, np.zeros_like(bad)], -1)[None, None]
    for mode, padding in itertools.product(["nearest", "linear", "cubic"], PADDINGS):
        attrs = {"mode": mode, "padding_mode": padding}
        (found,) = by_us("GridSample", {"x": x, "grid": grid}, attrs)
        assert found.shape == (1, 1, 1, 5)
        if (mode, padding) == ("nearest", "zeros"):
            np.testing.assert_array_equal(found.reshape(-1), 0)


def test_nothing_to_sample():
    for x_shape, grid_shape in (
        ((0, 1, 3, 3), (0, 2, 2, 2)),
        ((1, 2, 3, 3), (1, 0, 2, 2)),
        ((1, 2, 0, 3), (1, 2, 2, 2)),
    ):
        for padding in PADDINGS:
            inputs = {"x": np.ones(x_shape, np.float32), "grid": np.zeros(grid_shape, np.float32)}
            (found,) = by_us("GridSample", inputs, {"padding_mode": padding})
            np.testing.assert_array_equal(found, np.zeros((*x_shape[:2], *grid_shape[1:-1])))


@pytest.mark.slow
@settings(max_examples=20)
@given(st.data(), st.integers(0, 2**31))
def test_affine_grid(data, seed):
    axes = data.draw(st.integers(2, 3))
    space = [data.draw(st.integers(1, 5)) for _ in range(axes)]
    corners = data.draw(st.integers(0, 1))
    dtype = data.draw(st.sampled_from(["float32", "float64", "float16"]))
    theta = np.random.default_rng(seed).normal(size=(2, axes, axes + 1)).astype(dtype)
    inputs = {"theta": theta, "size": np.array([2, 3, *space])}
    stored = data.draw(st.sampled_from([("size",), ()]))
    attrs = {"align_corners": corners}
    (found,) = by_us("AffineGrid", inputs, attrs, kernel="affinegrid", stored=stored)
    lines = [
        np.linspace(-1, 1, n) if corners and n > 1 else (2 * np.arange(n) + 1) / n - 1
        for n in space
    ]
    mesh = np.stack([*reversed(np.meshgrid(*lines, indexing="ij")), np.ones(space)], -1)
    expected = np.einsum("nij,...j->n...i", theta.astype(float), mesh)
    assert found.dtype == dtype
    tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=4 * tolerance)


def test_a_size_of_the_run_that_does_not_fit():
    theta = np.zeros((1, 2, 3), np.float32)
    for size in ([1, 1, 2, -2], [2, 1, 2, 2]):
        with pytest.raises(NeuralsymError, match="AffineGrid"):
            by_us("AffineGrid", {"theta": theta, "size": np.array(size)})


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_half_precision_is_rounded_once(mode, dtype, rng):
    x = rng.normal(size=(1, 2, 5, 6)).astype(dtype)
    grid = rng.uniform(-1.3, 1.3, (1, 3, 3, 2)).astype(dtype)
    scales = np.array([1, 1, 1.7, 2.3], "float32")
    roi = np.array([0, 0, -0.3, 0.1, 1, 1, 0.9, 1.2], "float32")
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.0}
    for op, inputs, attrs in (
        ("GridSample", {"x": x, "grid": grid}, {}),
        ("Resize", {"x": x, "r": None, "s": scales}, {}),
        ("Resize", {"x": x, "r": roi, "s": scales}, crop),
    ):
        wide = {
            name: value.astype("float32") if value is not None else None
            for name, value in inputs.items()
        }
        (found,) = by_us(op, inputs, attrs | {"mode": mode})
        (expected,) = by_us(op, wide, attrs | {"mode": mode})
        np.testing.assert_array_equal(found, expected.astype(dtype))
