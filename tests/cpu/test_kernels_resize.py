"""Resize against ONNX's reference evaluator, in both layouts and every mode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference.ops.op_resize import Resize
from run_graph import compiled, computed, fed, kernels, run

from neuralsym import ops
from neuralsym.errors import NeuralsymError

EPS = 2.0**-24
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
)
ATTRIBUTES = {
    "mode": "nearest",
    "coordinate_transformation_mode": "half_pixel",
    "nearest_mode": "round_prefer_floor",
    "cubic_coeff_a": -0.75,
    "exclude_outside": 0,
    "antialias": 0,
    "keep_aspect_ratio_policy": "stretch",
    "extrapolation_value": 0.0,
    "axes": None,
}


def expected(x, scales=None, sizes=None, **attributes):
    node = Resize.__new__(Resize)
    kinds = {**ATTRIBUTES, **attributes}
    (made,) = Resize._run(node, x, None, scales, sizes, **kinds)
    return made


@st.composite
def cases(draw):
    spatial = draw(st.integers(1, 3))
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 3)))
    shape += tuple(draw(st.integers(1, 9)) for _ in range(spatial))
    kinds = {
        "mode": draw(st.sampled_from(["nearest", "linear", "cubic"])),
        "coordinate_transformation_mode": draw(st.sampled_from(COORDINATES)),
        "nearest_mode": draw(
            st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
        ),
        "exclude_outside": draw(st.integers(0, 1)),
    }
    if kinds["mode"] != "nearest":
        kinds["antialias"] = draw(st.integers(0, 1))
    if kinds["mode"] != "cubic":
        kinds["exclude_outside"] = 0
    if draw(st.booleans()):
        # Other ratios round to just beside whole positions, where the reference errs by a place.
        sizes = [*shape[:2], *(n * draw(st.integers(1, 5)) for n in shape[2:])]
        return shape, {"sizes": np.array(sizes, np.int64)}, kinds
    few = st.sampled_from([0.5, 0.6, 1.0, 2.0, 2.5, 4.0])
    scales = [1.0, 1.0, *(draw(few) for _ in range(spatial))]
    if any(int(n * np.float32(s)) == 0 for n, s in zip(shape, scales, strict=True)):
        scales = [1.0, 1.0, *[2.0] * spatial]
    return shape, {"scales": np.array(scales, np.float32)}, kinds


@settings(max_examples=120)
@given(cases(), st.integers(1, 2))
def test_all_modes(case, threads):
    shape, target, kinds = case
    x = np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)
    scales, sizes = target.get("scales"), target.get("sizes")
    y = ops.resize(fed("x", x), None, scales, sizes, **kinds)
    found = run(y, {"x": x}, threads)
    wanted = expected(x, scales, sizes, **kinds)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=64 * EPS * np.abs(x).max())


def test_axes_and_aspect_ratio(rng):
    x = rng.normal(size=(2, 5, 6, 3)).astype(np.float32)
    for policy in ("stretch", "not_larger", "not_smaller"):
        sizes = np.array([7, 12], np.int64)
        kinds = {"mode": "linear", "keep_aspect_ratio_policy": policy, "axes": [1, 2]}
        y = ops.resize(fed("x", x), None, None, sizes, **kinds)
        found = run(y, {"x": x}, kernel="resize")
        wanted = expected(x, None, sizes, **kinds)
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "int64", "bool"])
def test_nearest_of_any_type(dtype, rng):
    x = rng.integers(0, 2, (1, 3, 5, 19)).astype(dtype)
    y = ops.resize(fed("x", x), None, [1, 1, 2, 3])
    found = run(y, {"x": x}, kernel="resize")
    np.testing.assert_array_equal(found, x.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("channels", [16, 20])
def test_between_convolutions(channels, mode, threads, rng):
    x = rng.normal(size=(2, 3, 7, 6)).astype(np.float32)
    w = rng.normal(size=(channels, 3, 3, 3)).astype(np.float32)
    v = np.zeros((channels, channels, 3, 3), np.float32)
    v[np.arange(channels), np.arange(channels), 1, 1] = 1
    maps = ops.conv(fed("x", x), w, pads=[1] * 4)
    large = ops.resize(maps, None, [1, 1, 2, 1.5], mode=mode)
    cell = compiled(ops.conv(large, v, pads=[1] * 4), threads)
    names = kernels(cell)
    at = names.index("resize")
    assert "reorder" not in (names[at - 1], names[at + 1]), names
    first = run(maps, {"x": x})
    wanted = expected(first, np.array([1, 1, 2, 1.5], np.float32), mode=mode)
    limit = 1e-5 * np.abs(wanted).max()
    np.testing.assert_allclose(computed(cell, {"x": x})[0], wanted, atol=limit)


def test_another_size_needs_no_other_kernel(rng):
    x = fed("x", np.zeros((1, 3, 4, 4), np.float32), ("N", 3, "H", "W"))
    cell = compiled(ops.resize(x, None, [1, 1, 2, 2], mode="linear"))
    made = set(cell._codes)
    for shape in ((2, 3, 5, 7), (1, 3, 1, 1), (3, 3, 30, 2)):
        value = rng.normal(size=shape).astype(np.float32)
        wanted = expected(value, np.array([1, 1, 2, 2], np.float32), mode="linear")
        np.testing.assert_allclose(computed(cell, {"x": value})[0], wanted, atol=1e-5)
    assert set(cell._codes) == made


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "dtype", ["float64", "float16", "int8", "uint8", "int64", "bool", "complex64", "complex128"]
)
def test_every_type_and_scales_of_the_run(dtype, mode, rng):
    x = rng.normal(size=(1, 2, 5, 6)) * 90
    x = (x + 1j * x[::-1] if dtype.startswith("complex") else x).astype(dtype)
    scales = np.array([1, 1, 2, 4], np.float32)  # weights are exact, so ties are rounded alike
    y = ops.resize(fed("x", x), None, fed("s", scales), mode=mode)
    cell = compiled(y, 2)
    assert "host" not in kernels(cell), kernels(cell)
    (found,) = computed(cell, {"x": x, "s": scales})
    assert found.dtype == dtype
    wide = x.astype(float) if dtype == "bool" else x
    if dtype.startswith("complex"):
        parts = (expected(part.astype(float), scales, mode=mode) for part in (x.real, x.imag))
        wanted = next(parts) + 1j * next(parts)
    else:
        wanted = expected(wide, scales, mode=mode)
    if dtype == "bool":
        wanted = np.rint(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-3 if dtype == "float16" else 1e-6, atol=1e-4)


def cropped(x, roi, sizes, **attributes):
    kinds = {**ATTRIBUTES, **attributes}
    (made,) = Resize._run(Resize.__new__(Resize), x, roi, None, sizes, **kinds)
    return made


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_crops(dtype, mode, rng):
    x = rng.normal(size=(1, 1, 5, 6)).astype(dtype)
    kinds = {
        "mode": mode,
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 10.0,
    }
    for starts, ends in (
        ((0, 0, 0.2, 0.3), (1, 1, 0.7, 1.4)),
        ((0, 0, -0.5, 0.6), (1, 1, 0.6, 0.6)),
        ((0, 0, 0.9, 0.1), (1, 1, 0.1, 0.9)),
        ((0, 0, 0, 0), (1, 1, 1, 1)),
        ((0, 0, 2, 0), (1, 1, 3, 1)),
    ):
        roi = np.array([*starts, *ends], np.float32)
        for count in ([1, 1, 7, 4], [1, 1, 5, 6], [1, 1, 1, 3]):
            sizes = np.array(count)
            y = ops.resize(fed("x", x), fed("r", roi), None, fed("s", sizes), **kinds)
            cell = compiled(y)
            assert "host" not in kernels(cell), kernels(cell)
            (found,) = computed(cell, {"x": x, "r": roi, "s": sizes})
            wanted = cropped(x, roi, sizes, **kinds)
            np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_crop_without_its_ends():
    x, roi = np.zeros((1, 1, 4, 4), np.float32), np.zeros(4, np.float32)
    kinds = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    y = ops.resize(fed("x", x), fed("r", roi), None, [1, 1, 2, 2], name="crop", **kinds)
    with pytest.raises(NeuralsymError, match="crop"):
        run(y, {"x": x, "r": roi})


def test_sizes_of_the_run_that_are_none(rng):
    x = np.zeros((1, 1, 4, 4), np.float32)
    for scales in ([1, 1, -1, 2], [1, 1, np.nan, 1]):
        s = np.array(scales, np.float32)
        y = ops.resize(fed("x", x), None, fed("s", s), name="grow")
        with pytest.raises(NeuralsymError, match="grow"):
            run(y, {"x": x, "s": s})


def test_antialias_means_nothing_to_the_nearest(rng):
    # The specification: it is for "linear" and "cubic"; the reference evaluator refuses it.
    x = rng.normal(size=(1, 1, 6, 6)).astype(np.float32)
    found = run(ops.resize(fed("x", x), None, [1, 1, 0.5, 0.5], antialias=1), {"x": x})
    np.testing.assert_array_equal(found, expected(x, np.array([1, 1, 0.5, 0.5], np.float32)))


@pytest.mark.parametrize("scale", [0.6, 2.7, 0.3])
def test_nearest_places_are_where_onnxruntime_has_them(scale: float, tmp_path: Path) -> None:
    import onnxruntime

    from neuralsym import layers as nn

    for length in (9, 20, 38):
        net = nn.input((1, 1, length, 2)) | nn.upsample(scale_factor=(scale, 1.0))
        network = net | nn.get_network()
        network.save(tmp_path / "r.onnx")
        x = np.arange(length * 2, dtype=np.float32).reshape(1, 1, length, 2)
        theirs = onnxruntime.InferenceSession(tmp_path / "r.onnx").run(None, {"input": x})[0]
        np.testing.assert_array_equal(network(x), theirs)
