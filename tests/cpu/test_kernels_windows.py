"""DeformConv, Col2Im, MaxPool with indices and MaxUnpool against onnxruntime and the definition."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_oracle import by_onnxruntime, by_reference, by_us
from run_graph import fed, run

from neuralsym import ops
from neuralsym.errors import ExecutionError, NeuralsymError


# -- deformed convolutions -----------------------------------------------------------------------
@settings(max_examples=50)
@given(st.data(), st.integers(0, 2**31))
def test_deform_conv(data, seed):
    rng = np.random.default_rng(seed)
    groups, shifted = data.draw(st.sampled_from([1, 2])), data.draw(st.sampled_from([1, 2, 4]))
    kernel, strides, dilations = (
        [data.draw(st.integers(1, 3 if n == 0 else 2)) for _ in range(2)] for n in range(3)
    )
    pads = [data.draw(st.integers(0, 1)) for _ in range(4)]
    size = (6, 7)
    out = [
        (n + pads[a] + pads[a + 2] - dilations[a] * (kernel[a] - 1) - 1) // strides[a] + 1
        for a, n in enumerate(size)
    ]
    taps = kernel[0] * kernel[1]
    inputs = {
        "x": rng.normal(size=(2, 4, *size)),
        "w": rng.normal(size=(6, 4 // groups, *kernel)),
        "o": 2 * rng.normal(size=(2, shifted * taps * 2, *out)),
        "b": rng.normal(size=6) if data.draw(st.booleans()) else None,
        "m": rng.normal(size=(2, shifted * taps, *out)) if data.draw(st.booleans()) else None,
    }
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    inputs = {k: None if v is None else v.astype(dtype) for k, v in inputs.items()}
    while inputs and list(inputs.values())[-1] is None:
        inputs.popitem()
    attrs = {
        "kernel_shape": kernel,
        "strides": strides,
        "dilations": dilations,
        "pads": pads,
        "group": groups,
        "offset_group": shifted,
    }
    (found,) = by_us("DeformConv", inputs, attrs, kernel="deformconv")
    (expected,) = by_onnxruntime("DeformConv", inputs, attrs)
    np.testing.assert_allclose(found, expected, atol=1e-4 if dtype == "float32" else 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize("space", [(7,), (4, 5, 6)], ids=str)
def test_without_offsets_it_is_a_convolution(space, dtype, rng):
    axes = len(space)
    x = rng.normal(size=(2, 4, *space)).astype(dtype)
    w = rng.normal(size=(3, 4, *[2] * axes)).astype(dtype)
    offset = np.zeros((2, 2**axes * axes, *[n - 1 for n in space]), dtype)
    (found,) = by_us("DeformConv", {"x": x, "w": w, "o": offset}, kernel="deformconv")
    wide = {"x": x.astype("float64"), "w": w.astype("float64")}
    (expected,) = by_reference("Conv", wide)
    (sizes,) = by_reference("Conv", {k: np.abs(v) for k, v in wide.items()})
    # Each product and each sum of them is rounded to float32, then the result to its type.
    terms = 4 * 2**axes
    bound = terms * np.finfo(np.float32).eps * sizes + float(ml_dtypes.finfo(dtype).eps) * sizes
    assert np.all(np.abs(found.astype(np.float64) - expected) <= bound)
    assert found.dtype == x.dtype


def test_a_shift_by_whole_elements_moves_the_input(rng):
    x = rng.normal(size=(1, 1, 5)).astype(np.float32)
    offset = np.full((1, 1, 5), 2, np.float32)
    w = np.ones((1, 1, 1), np.float32)
    (found,) = by_us("DeformConv", {"x": x, "w": w, "o": offset})
    np.testing.assert_array_equal(found[0, 0], [*x[0, 0, 2:], 0, 0])
    offset[...] = [np.nan, np.inf, -np.inf, 1e30, -1e30]
    np.testing.assert_array_equal(
        by_us("DeformConv", {"x": x, "w": w, "o": offset})[0], [[[0] * 5]]
    )


def test_a_mask_that_does_not_fit():
    inputs = {
        "x": np.zeros((1, 2, 4, 4), "float32"),
        "w": np.zeros((1, 2, 2, 2), "float32"),
        "o": np.zeros((1, 8, 3, 3), "float32"),
        "b": None,
        "m": np.zeros((1, 4, 3, 2), "float32"),
    }
    with pytest.raises(NeuralsymError, match="mask"):
        by_us("DeformConv", inputs)


# -- blocks back into an image -------------------------------------------------------------------
@pytest.mark.slow
@settings(max_examples=60)
@given(st.data(), st.integers(0, 2**31))
def test_col2im(data, seed):
    rng = np.random.default_rng(seed)
    axes = data.draw(st.integers(1, 3))
    image = [data.draw(st.integers(3, 6 if a + 1 < axes else 40)) for a in range(axes)]
    block, strides, dilations = (
        [data.draw(st.integers(1, 2)) for _ in range(axes)] for _ in range(3)
    )
    pads = [data.draw(st.integers(0, 1)) for _ in range(2 * axes)]
    counts = [
        (n + pads[a] + pads[a + axes] - dilations[a] * (block[a] - 1) - 1) // strides[a] + 1
        for a, n in enumerate(image)
    ]
    dtype = data.draw(st.sampled_from(["float32", "int8", "uint16", "float64", "complex64"]))
    values = rng.integers(0, 100, (2, 3 * int(np.prod(block)), int(np.prod(counts))))
    inputs = {"x": values.astype(dtype), "i": np.array(image), "b": np.array(block)}
    attrs = {"strides": strides, "dilations": dilations, "pads": pads}
    stored = ("i", "b") if data.draw(st.booleans()) else ()
    (found,) = by_us("Col2Im", inputs, attrs, kernel="col2im", stored=stored)
    (expected,) = by_reference("Col2Im", inputs, attrs)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_col2im_of_truth_values_and_narrow_floats():
    x = np.array([[[1, 0, 0], [0, 1, 0]]])
    settings_ = {"i": np.array([4]), "b": np.array([2])}
    (found,) = by_us("Col2Im", {"x": x.astype(bool), **settings_}, kernel="col2im")
    np.testing.assert_array_equal(found, [[[True, False, True, False]]])
    (found,) = by_us("Col2Im", {"x": x.astype("float16"), **settings_}, kernel="col2im")
    np.testing.assert_array_equal(found, [[[1, 0, 1, 0]]])
    with pytest.raises(NeuralsymError, match="Col2Im"):
        by_us("Col2Im", {"x": x, "i": np.array([5]), "b": np.array([2])})


# -- pools and back ------------------------------------------------------------------------------
def pooled(x, kernel, strides, dilations, before, counts, by_columns):
    """Maxima and their places by the definition: windows cut at the border, the first of equals."""
    values = np.empty((*x.shape[:2], *counts), x.dtype)
    places = np.empty(values.shape, np.int64)
    space = x.shape[2:]
    for at in np.ndindex(values.shape):
        best = None
        for tap in itertools.product(*map(range, kernel)):
            spot = tuple(
                p * s + t * d - b
                for p, s, t, d, b in zip(at[2:], strides, tap, dilations, before, strict=True)
            )
            if all(0 <= p < n for p, n in zip(spot, space, strict=True)):
                value = x[(*at[:2], *spot)]
                if best is None or value > best[0]:
                    best = (value, spot)
        assert best is not None
        plane = at[0] * x.shape[1] + at[1]
        order = "F" if by_columns else "C"
        inside = np.ravel_multi_index(best[1], space, order=order)
        values[at], places[at] = best[0], plane * int(np.prod(space)) + inside
    return values, places


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data(), st.integers(0, 2**31))
def test_indices_of_maxima(data, seed):
    # The reference evaluator is wrong for uneven pads: the definition decides.
    rng = np.random.default_rng(seed)
    axes = data.draw(st.integers(1, 4))
    space = [data.draw(st.integers(4, 7 - axes // 2)) for _ in range(axes)]
    kernel, strides, dilations = (
        [data.draw(st.integers(1, 2)) for _ in range(axes)] for _ in range(3)
    )
    auto = data.draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    pads = [data.draw(st.integers(0, k - 1)) for k in kernel * 2]
    ceil = data.draw(st.integers(0, 1)) if auto == "NOTSET" else 0
    attrs = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "ceil_mode": ceil}
    attrs |= {"pads": pads} if auto == "NOTSET" else {"auto_pad": auto}
    attrs["storage_order"] = data.draw(st.integers(0, 1))
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    if auto.startswith("SAME"):
        counts = [-(-n // s) for n, s in zip(space, strides, strict=True)]
        total = [
            max((c - 1) * s + e - n, 0)
            for c, s, e, n in zip(counts, strides, spans, space, strict=True)
        ]
        before = [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total]
    else:
        both = pads if auto == "NOTSET" else [0] * (2 * axes)
        before, counts = both[:axes], []
        for a, (n, s, e) in enumerate(zip(space, strides, spans, strict=True)):
            room = n + both[a] + both[a + axes] - e
            count = (-(-room // s) if ceil else room // s) + 1
            # A window that would begin in the padding behind the input is left out.
            counts.append(count - (ceil and (count - 1) * s >= n + both[a]))
    dtype = data.draw(st.sampled_from(["float32", "float16", "int8", "uint8", "float64"]))
    x = rng.integers(0, 50, (2, 2, *space)).astype(dtype)
    values, places = by_us("MaxPool", {"x": x}, attrs, 2, "pool loop")
    wanted = pooled(x, kernel, strides, dilations, before, counts, attrs["storage_order"])
    np.testing.assert_array_equal(values, wanted[0])
    np.testing.assert_array_equal(places, wanted[1])


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_pools_over_four_axes(dtype, rng):
    x = rng.normal(size=(1, 2, 4, 3, 4, 3)).astype(dtype)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(float), [2] * 4, (2, 3, 4, 5))
    windows = windows[:, :, ::2, :, ::2]
    inner = (-4, -3, -2, -1)
    attrs = {"kernel_shape": [2] * 4, "strides": [2, 1, 2, 1]}
    step = float(np.finfo(dtype).eps)
    for op, expected in (
        ("MaxPool", windows.max(inner)),
        ("AveragePool", windows.mean(inner)),
        ("LpPool", np.sqrt((windows**2).sum(inner))),
    ):
        (found,) = by_us(op, {"x": x}, attrs, kernel="pool loop")
        np.testing.assert_allclose(found, expected, atol=8 * step)
    padded = {"kernel_shape": [2] * 4, "pads": [1] * 8, "strides": [9] * 4}
    corner = x[0, 0, 0, 0, 0, 0].astype(float)
    for count, factor in ((0, 1), (1, 16)):
        attrs = padded | {"count_include_pad": count}
        (found,) = by_us("AveragePool", {"x": x}, attrs, kernel="pool loop")
        np.testing.assert_allclose(found[0, 0].ravel()[0], corner / factor, rtol=4 * step)


@pytest.mark.parametrize("space", [(5,), (2, 3, 2), (2, 1, 3, 2), (3, 2, 1, 2, 2)], ids=str)
def test_global_pools_of_every_rank(space, rng):
    # The reference evaluator is wrong for GlobalMaxPool of rank 3.
    x = rng.normal(size=(2, 3, *space)).astype(np.float32)
    flat = x.reshape(2, 3, -1).astype(float)
    for op, expected in (
        ("GlobalMaxPool", flat.max(-1)),
        ("GlobalAveragePool", flat.mean(-1)),
        ("GlobalLpPool", np.abs(flat**3).sum(-1) ** (1 / 3)),
    ):
        attrs = {"p": 3} if op == "GlobalLpPool" else {}
        (found,) = by_us(op, {"x": x}, attrs)
        np.testing.assert_allclose(found.reshape(2, 3), expected, rtol=1e-5, atol=1e-6)
        assert found.shape == (2, 3, *[1] * len(space))


def test_a_window_beside_its_input():
    x = np.zeros((1, 1, 1), np.int8)
    attrs = {"kernel_shape": [2], "dilations": [2], "pads": [1, 1]}
    values, places = by_us("MaxPool", {"x": x}, attrs, 2)
    np.testing.assert_array_equal(values, [[[-128]]])
    np.testing.assert_array_equal(places, [[[-1]]])


@settings(max_examples=40)
@given(st.data(), st.integers(0, 2**31))
def test_max_unpool_puts_back(data, seed):
    rng = np.random.default_rng(seed)
    axes = data.draw(st.integers(1, 3))
    space = [2 * data.draw(st.integers(1, 3)) for _ in range(axes)]
    dtype = data.draw(st.sampled_from(["float32", "float64", "float16"]))
    x = rng.permutation(6 * int(np.prod(space))).reshape(2, 3, *space).astype(dtype) + 1
    attrs = {"kernel_shape": [2] * axes, "strides": [2] * axes}
    values, places = by_us("MaxPool", {"x": x}, attrs, 2)
    extra = [data.draw(st.integers(0, 2)) for _ in range(axes)]
    inputs = {"v": values, "i": places}
    if any(extra):
        inputs["s"] = np.array([2, 3, *(n + e for n, e in zip(space, extra, strict=True))])
    stored = ("s",) if data.draw(st.booleans()) else ()
    (found,) = by_us("MaxUnpool", inputs, attrs, kernel="maxunpool", stored=stored)
    expected = np.where(np.isin(x, values), x, 0)
    expected = np.pad(expected, [(0, 0), (0, 0), *((0, e) for e in extra)])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("place", [16, -1, 2**40])
def test_an_element_of_no_place(place):
    v, i = np.ones((1, 1, 2, 2), np.float32), np.full((1, 1, 2, 2), place)
    y = ops.max_unpool(fed("v", v), fed("i", i), kernel_shape=[2, 2], strides=[2, 2], name="back")
    with pytest.raises(ExecutionError, match="back"):
        run(y, {"v": v, "i": i})
