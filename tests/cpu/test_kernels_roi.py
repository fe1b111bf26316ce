"""RoiAlign, MaxRoiPool and NonMaxSuppression against onnxruntime."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_oracle import by_onnxruntime, by_us
from run_graph import compiled, computed, fed, kernels

from neuralsym import ops
from neuralsym.errors import ExecutionError, NeuralsymError


def boxes_of(rng, count, span=20.0):
    return np.sort(rng.uniform(-span / 4, span, (count, 2, 2)), 1).reshape(count, 4)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data(), st.integers(0, 2**31))
def test_roi_align(data, seed):
    rng = np.random.default_rng(seed)
    height, width, count = (data.draw(st.integers(1, 9)) for _ in range(3))
    attrs = {
        "mode": data.draw(st.sampled_from(["avg", "max"])),
        "coordinate_transformation_mode": data.draw(
            st.sampled_from(["half_pixel", "output_half_pixel"])
        ),
        "sampling_ratio": data.draw(st.integers(0, 3)),
        "output_height": data.draw(st.integers(1, 4)),
        "output_width": data.draw(st.integers(1, 4)),
        "spatial_scale": data.draw(st.sampled_from([1.0, 0.5, 0.1])),
    }
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    inputs = {
        "x": rng.normal(size=(2, 3, height, width)).astype(dtype),
        "rois": boxes_of(rng, count).astype(dtype),
        "i": rng.integers(0, 2, count),
    }
    (found,) = by_us("RoiAlign", inputs, attrs, kernel="roialign")
    (expected,) = by_onnxruntime("RoiAlign", inputs, attrs)
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_narrow_regions(dtype, rng):
    x = rng.normal(size=(1, 2, 6, 6)).astype(dtype)
    rois = np.array([[0, 0, 4, 4], [1, 1, 5, 3]], dtype)
    attrs = {"output_height": 2, "output_width": 2}
    i = np.zeros(2, np.int64)
    (found,) = by_us("RoiAlign", {"x": x, "r": rois, "i": i}, attrs, kernel="roialign")
    wide = {"x": x.astype("float32"), "r": rois.astype("float32"), "i": i}
    np.testing.assert_array_equal(found, by_us("RoiAlign", wide, attrs)[0].astype(dtype))


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_a_region_of_any_size_takes_no_time(mode):
    x = np.ones((1, 1, 8, 8), np.float32)
    rois = [[-1e30, -1e30, 1e30, 1e30], [0, 0, 1e9, 1e9], [np.nan] * 4, [0, 0, np.inf, 1]]
    inputs = {"x": x, "r": np.array(rois, np.float32), "i": np.zeros(4, np.int64)}
    attrs = {"mode": mode, "output_height": 2, "output_width": 2}
    by_us("RoiAlign", inputs, attrs)
    start = time.perf_counter()
    (found,) = by_us("RoiAlign", inputs, attrs)
    assert time.perf_counter() - start < 2
    # Only the last cell of the first region meets the map: the others lie left of it or above.
    np.testing.assert_allclose(found[0, 0].ravel()[:3], 0, atol=1e-6)
    # The map covers 8 * 8 of the first cell's 5e8 * 5e8 samples; the largest is one of them.
    np.testing.assert_allclose(found[1, 0, 0, 0], 0 if mode == "avg" else 1, atol=1e-6)


def test_a_region_of_no_picture_is_named():
    x, r = np.zeros((2, 1, 4, 4), np.float32), np.zeros((1, 4), np.float32)
    y = ops.roi_align(fed("x", x), fed("r", r), fed("i", np.array([0])), name="crop")
    for index in (2, -1):
        with pytest.raises(ExecutionError, match="crop"):
            computed(compiled(y), {"x": x, "r": r, "i": np.array([index])})


def test_regions_and_indices_of_other_names_must_agree():
    x = np.zeros((2, 1, 4, 4), np.float32)
    r, i = fed("r", np.zeros((3, 4), np.float32), ("A", 4)), fed("i", np.zeros(3, np.int64), ("B",))
    cell = compiled(ops.roi_align(fed("x", x), r, i))
    with pytest.raises(NeuralsymError, match="a batch index for each region"):
        computed(cell, {"x": x, "r": np.zeros((3, 4), np.float32), "i": np.zeros(2, np.int64)})


@settings(max_examples=40)
@given(st.data(), st.integers(0, 2**31))
def test_max_roi_pool(data, seed):
    rng = np.random.default_rng(seed)
    height, width, count = (data.draw(st.integers(1, 9)) for _ in range(3))
    attrs = {
        "pooled_shape": [data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))],
        "spatial_scale": data.draw(st.sampled_from([1.0, 0.5, 0.1])),
    }
    rois = np.concatenate([rng.integers(0, 2, (count, 1)), boxes_of(rng, count)], 1)
    x = rng.normal(size=(2, 3, height, width))
    inputs = {"x": x.astype("float32"), "rois": rois.astype("float32")}
    (found,) = by_us("MaxRoiPool", inputs, attrs, kernel="maxroipool")
    (expected,) = by_onnxruntime("MaxRoiPool", inputs, attrs)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float16", "float64", ml_dtypes.bfloat16])
def test_max_roi_pool_of_other_types(dtype):
    x = np.arange(16).reshape(1, 1, 4, 4).astype(dtype)
    rois = np.array([[0, 0, 0, 3, 3], [0, 2, 2, 99, 1]], dtype)
    attrs = {"pooled_shape": [2, 2]}
    (found,) = by_us("MaxRoiPool", {"x": x, "r": rois}, attrs, kernel="maxroipool")
    np.testing.assert_array_equal(found[0, 0].astype(float), [[5, 7], [13, 15]])
    with pytest.raises(ExecutionError, match="batch index"):
        by_us("MaxRoiPool", {"x": x, "r": rois + np.ones(5, dtype)}, attrs)


@settings(max_examples=80)
@given(st.data(), st.integers(0, 2**31))
def test_non_max_suppression(data, seed):
    rng = np.random.default_rng(seed)
    batches, classes, count = (data.draw(st.integers(low, 3)) for low in (1, 1, 0))
    count *= 4
    centred = data.draw(st.integers(0, 1))
    low, size = rng.integers(0, 6, (2, batches, count, 2)).astype("float32")
    boxes = np.concatenate([low, size if centred else low + size - 1], 2)
    inputs = {
        "boxes": boxes,
        "scores": rng.integers(0, 5, (batches, classes, count)).astype("float32") / 4,
        "most": np.array([data.draw(st.integers(0, 9))]),
        "overlap": np.array([data.draw(st.sampled_from([0, 0.3, 0.5, 1]))], "float32"),
        "least": np.array([data.draw(st.sampled_from([0, 0.25, 0.6, 2]))], "float32"),
    }
    given_inputs = dict([*inputs.items()][: data.draw(st.integers(2, 5))])
    if len(given_inputs) == 5 and data.draw(st.booleans()):
        given_inputs["overlap"] = None
    attrs = {"center_point_box": centred}
    (found,) = by_us("NonMaxSuppression", given_inputs, attrs, kernel="nonmaxsuppression")
    (expected,) = by_onnxruntime("NonMaxSuppression", given_inputs, attrs)
    np.testing.assert_array_equal(found, expected.reshape(-1, 3))


def test_many_boxes(rng):
    low = rng.uniform(0, 100, (1, 2000, 2)).astype("float32")
    boxes = np.concatenate([low, low + 5], 2)
    inputs = {
        "b": boxes,
        "s": rng.permutation(4000).reshape(1, 2, 2000).astype("float32"),
        "m": np.array([1000]),
        "i": np.array([0.2], "float32"),
    }
    (found,) = by_us("NonMaxSuppression", inputs)
    (expected,) = by_onnxruntime("NonMaxSuppression", inputs)
    np.testing.assert_array_equal(found, expected)


def test_boxes_that_do_not_fit():
    boxes, scores = np.zeros((1, 4, 4), "float32"), np.zeros((1, 2, 5), "float32")
    most = np.array([3])
    with pytest.raises(NeuralsymError, match="score for each box"):
        by_us("NonMaxSuppression", {"b": boxes, "s": scores, "m": most})
    high = np.array([1.5], "float32")
    inputs = {"b": boxes, "s": scores[..., :4], "m": most, "i": high}
    with pytest.raises(ExecutionError, match="iou_threshold"):
        by_us("NonMaxSuppression", inputs)


def test_detection_stays_compiled(rng):
    x = rng.normal(size=(1, 5, 4)).astype("float32")
    w = rng.normal(size=(4, 4)).astype("float32")
    boxes = ops.abs(ops.matmul(fed("x", x), w))
    scores = ops.transpose(ops.reduce_max(boxes, [2], keepdims=1), perm=[0, 2, 1])
    kept = ops.non_max_suppression(boxes, scores, np.array([3]), np.float32([0.5]))
    best = ops.gather(ops.reshape(boxes, [-1, 4]), ops.slice(kept, [2], [3], [1]))
    cell = compiled(ops.exp(best))
    assert "host" not in kernels(cell), kernels(cell)
    (found,) = computed(cell, {"x": x})
    assert found.shape[1:] == (1, 4)
    assert len(found) <= 3
