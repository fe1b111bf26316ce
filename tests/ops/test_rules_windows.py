"""Sizes of convolutions and pools, against onnx, against real values, and with names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_harness import Var, check_case, own_shapes, shown

from neuralsym.errors import BadAttribute, ShapeMismatch

QUICK = settings(max_examples=60, deadline=None)


@st.composite
def windows(draw, axes, kernel_name="kernel_shape"):
    """Attributes of a window over so many axes, of any padding."""
    attrs = {}
    per_axis = lambda low, high: draw(  # noqa: E731
        st.lists(st.integers(low, high), min_size=axes, max_size=axes)
    )
    if draw(st.booleans()):
        attrs["strides"] = per_axis(1, 4)
    if draw(st.booleans()):
        attrs["dilations"] = per_axis(1, 3)
    padding = draw(st.sampled_from(["none", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if padding == "pads":
        attrs["pads"] = per_axis(0, 3) + per_axis(0, 3)
    elif padding != "none":
        attrs["auto_pad"] = padding
    return attrs


@st.composite
def convolutions(draw):
    axes = draw(st.integers(1, 3))
    group = draw(st.integers(1, 3))
    channels = group * draw(st.integers(1, 2))
    filters = group * draw(st.integers(1, 2))
    x = (draw(st.integers(0, 2)), channels, *draw(sizes(axes, 1, 9)))
    w = (filters, channels // group, *draw(sizes(axes, 1, 4)))
    attrs = draw(windows(axes))
    if group > 1:
        attrs["group"] = group
    if draw(st.booleans()):
        attrs["kernel_shape"] = list(w[2:])
    bias = [Var((filters,))] if draw(st.booleans()) else []
    return [Var(x), Var(w), *bias], attrs


def sizes(axes, low, high):
    return st.lists(st.integers(low, high), min_size=axes, max_size=axes)


@QUICK
@given(convolutions(), st.booleans())
def test_conv(case, by_size):
    inputs, attrs = case
    # onnx's inference lets a window larger than its input pass as size 0
    check_case("Conv", inputs, attrs, stricter=True, real=False, by_size=by_size)


@QUICK
@given(convolutions(), st.booleans())
def test_conv_transpose(case, by_size):
    (x, w, *bias), attrs = case
    group = attrs.get("group", 1)
    w = Var((x.shape[1], w.shape[0] // group, *w.shape[2:]))
    if attrs.get("auto_pad", "NOTSET").startswith("SAME"):
        attrs.pop("dilations", None)
    check_case("ConvTranspose", [x, w, *bias], attrs, stricter=True, real=False, by_size=by_size)


@st.composite
def pools(draw):
    axes = draw(st.integers(1, 3))
    x = (draw(st.integers(1, 2)), draw(st.integers(1, 2)), *draw(sizes(axes, 1, 9)))
    attrs = draw(windows(axes))
    attrs["kernel_shape"] = draw(sizes(axes, 1, 4))
    if draw(st.booleans()):
        attrs["ceil_mode"] = 1
    return [Var(x)], attrs


@QUICK
@given(pools(), st.sampled_from(["MaxPool", "AveragePool", "LpPool"]))
def test_pools(case, op):
    inputs, attrs = case
    check_case(op, inputs, attrs, stricter=True, real=False)


@settings(max_examples=40, deadline=None)
@given(pools())
def test_pools_give_the_shapes_of_real_values(case):
    inputs, attrs = case
    # the reference evaluator knows neither the clipping of ceil_mode with padding given by
    # auto_pad nor dilated max pools of all ranks; explicit padding is where it can be trusted
    attrs.pop("auto_pad", None)
    attrs.pop("dilations", None)
    check_case("AveragePool", inputs, attrs, stricter=True)


@QUICK
@given(convolutions(), st.data())
def test_conv_transpose_with_output_padding(case, data):
    (x, w, *_), attrs = case
    attrs.pop("auto_pad", None)
    group = attrs.get("group", 1)
    w = Var((x.shape[1], w.shape[0] // group, *w.shape[2:]))
    strides = attrs.setdefault("strides", [1] * (len(x.shape) - 2))
    attrs["output_padding"] = [data.draw(st.integers(0, s - 1)) for s in strides]
    check_case("ConvTranspose", [x, w], attrs, stricter=True, real=False)


@pytest.mark.parametrize(
    ("strides", "kernel", "extra", "expected"),
    [(3, 4, 0, 12), (3, 2, 0, 11), (3, 4, 1, 12), (2, 1, 0, 7), (2, 1, 1, 8)],
)
def test_conv_transpose_same(strides, kernel, extra, expected):
    attrs = {"strides": [strides], "auto_pad": "SAME_UPPER", "output_padding": [extra]}
    inputs = [Var((1, 1, 4)), Var((1, 1, kernel))]
    assert own_shapes("ConvTranspose", inputs, attrs) == [(1, 1, expected)]


def test_conv_transpose_kernel_below_stride_loses_the_tail():
    inputs = [Var((1, 1, 4)), Var((1, 1, 2))]
    assert own_shapes("ConvTranspose", inputs, {"strides": [3]}) == [(1, 1, 11)]


def test_conv_transpose_output_shape():
    inputs = [Var(("N", 3, "H", "W")), Var((3, 8, 3, 3))]
    attrs = {"strides": [2, 2], "output_shape": [11, 12]}
    assert shown(own_shapes("ConvTranspose", inputs, attrs)) == ["N, 8, 11, 12"]
    with pytest.raises(ShapeMismatch, match="at most 10"):
        own_shapes("ConvTranspose", [Var((1, 3, 4, 4)), inputs[1]], attrs)


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ({"pads": [1, 1, 1, 1]}, "N, 8, H, W"),
        ({"pads": [1, 1, 1, 1], "strides": [2, 2]}, "N, 8, (H + 1)//2, (W + 1)//2"),
        ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, "N, 8, (H + 1)//2, (W + 1)//2"),
        ({"auto_pad": "SAME_LOWER"}, "N, 8, H, W"),
        ({}, "N, 8, H - 2, W - 2"),
        ({"dilations": [2, 3], "pads": [2, 3, 2, 3]}, "N, 8, H, W"),
    ],
)
def test_conv_over_names_is_written_out(attrs, expected):
    inputs = [Var(("N", 3, "H", "W")), Var((8, 3, 3, 3))]
    made = shown(own_shapes("Conv", inputs, attrs))
    assert [m.replace("((H + 1)//2)", "(H + 1)//2") for m in made] == [expected]


def test_ceil_mode_never_starts_a_window_in_the_padding_at_the_end():
    x = [Var((1, 1, 4))]
    assert own_shapes("MaxPool", x, {"kernel_shape": [1], "strides": [3], "ceil_mode": 1}) == [
        (1, 1, 2)
    ]
    x = [Var((1, 1, "L"))]
    attrs = {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}
    assert shown(own_shapes("MaxPool", x, attrs)) == ["1, 1, L//2"]
    attrs = {"kernel_shape": [2], "strides": [2], "pads": [1, 1], "ceil_mode": 1}
    assert shown(own_shapes("MaxPool", x, attrs)) == ["1, 1, L//2 + 1"]


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({"group": 0}, "group=0"),
        ({"group": -1}, "group=-1"),
        ({"group": 2}, "group=2"),
        ({"strides": [0, 1]}, "strides=[0, 1]"),
        ({"strides": [1]}, "2 entries"),
        ({"dilations": [1, -1]}, "dilations=[1, -1]"),
        ({"dilations": [2**62, 1]}, "dilations"),
        ({"kernel_shape": [0, 3]}, "kernel_shape=[0, 3]"),
        ({"pads": [1, 1]}, "4 entries"),
        ({"pads": [-1, 0, 0, 0]}, "must not be negative"),
        ({"pads": [2**62, 0, 0, 0]}, "pads"),
        ({"auto_pad": "SAME_LOWRE"}, "'SAME_LOWRE'"),
        ({"auto_pad": "SAME_UPPER", "pads": [1, 1, 1, 1]}, "exclude each other"),
    ],
)
def test_conv_refuses_attributes_out_of_range(attrs, words):
    with pytest.raises((BadAttribute, ShapeMismatch)) as caught:
        own_shapes("Conv", [Var((1, 3, 8, 8)), Var((8, 3, 3, 3))], attrs)
    assert words in str(caught.value)
    assert "Conv(X: float32[1, 3, 8, 8], W: float32[8, 3, 3, 3])" in str(caught.value)


@pytest.mark.parametrize(
    ("x", "w", "attrs", "hint"),
    [
        ((1, 32, 32, 3), (8, 3, 3, 3), {}, "ops.transpose(x, perm=(0, 3, 1, 2))"),
        ((1, 3, 32, 32), (3, 3, 3, 8), {"kernel_shape": [3, 3]}, "kernel_shape"),
        ((1, 16, 32, 32), (3, 3, 16, 8), {}, "ops.transpose(w, perm=(3, 2, 0, 1))"),
        ((1, 16, 32, 32), (16, 1, 3, 3), {}, "group=16"),
        ((16, 32, 32), (8, 16, 3, 3), {}, "ops.unsqueeze(x, [0])"),
        ((1, 16), (8, 16, 3, 3), {}, "batch, channels"),
        ((1, 3, 2, 2), (8, 3, 3, 3), {}, "padded input has only 2"),
    ],
)
def test_conv_hints_at_the_usual_mistakes(x, w, attrs, hint):
    with pytest.raises(ShapeMismatch) as caught:
        own_shapes("Conv", [Var(x), Var(w)], attrs)
    assert hint in str(caught.value)


def test_conv_compares_the_bias():
    with pytest.raises(ShapeMismatch, match="B needs one entry for a filter"):
        own_shapes("Conv", [Var((1, 3, 8, 8)), Var((8, 3, 3, 3)), Var((3,))], {})


def test_no_output_is_made_by_a_claim():
    with pytest.raises(BadAttribute, match="elements"):
        own_shapes("ConvTranspose", [Var((1, 1, 9)), Var((1, 1, 1))], {"strides": [2**40]})


def test_quantized_and_deformable_convolutions():
    x, w = Var((1, 3, 8, 8), "uint8"), Var((4, 3, 3, 3), "uint8")
    one, zero = np.float32(1), np.uint8(0)
    inputs = [x, one, zero, w, one, zero, one, Var((), "uint8")]
    check_case("QLinearConv", [np.asarray(i) if np.isscalar(i) else i for i in inputs], real=False)
    check_case("ConvInteger", [x, w], real=False)
    inputs = [Var((1, 3, 8, 8)), Var((4, 3, 3, 3)), Var((1, 18, 6, 6))]
    check_case("DeformConv", inputs, real=False)
    with pytest.raises(ShapeMismatch, match="offset"):
        own_shapes("DeformConv", [*inputs[:2], Var((1, 17, 6, 6))], {})


def test_col2im_and_unpooling():
    inputs = [Var((1, 5, 5)), np.array([5, 5]), np.array([1, 5])]
    assert own_shapes("Col2Im", inputs, {}) == [(1, 1, 5, 5)]
    with pytest.raises(ShapeMismatch, match="number of blocks"):
        own_shapes("Col2Im", [Var((1, 5, 6)), *inputs[1:]], {})
    x, places = Var((1, 1, 2, 2)), Var((1, 1, 2, 2), "int64")
    attrs = {"kernel_shape": [2, 2], "strides": [2, 2]}
    check_case("MaxUnpool", [x, places], attrs)
    check_case("MaxUnpool", [x, places, np.array([1, 1, 5, 5])], attrs)
    rois = Var((7, 5))
    check_case("MaxRoiPool", [Var((1, 3, 8, 8)), rois], {"pooled_shape": [2, 3]}, real=False)


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_global_pools(op):
    check_case(op, [Var((2, 3, 4, 5))], real=False)
    with pytest.raises(ShapeMismatch, match="3 or more"):
        own_shapes(op, [Var((2, 3))], {})


def test_causal_convolution_carries_its_state():
    x, w = Var(("N", 4, "L")), Var((4, 1, 3))
    assert shown(own_shapes("CausalConvWithState", [x, w], {}, 2)) == ["N, 4, L", "N, 4, 2"]


@pytest.mark.parametrize("pads", [[2, 0], [0, 2]])
def test_a_pool_refuses_a_window_of_padding_alone(pads):
    with pytest.raises(BadAttribute, match="padding alone"):
        own_shapes("MaxPool", [Var((1, 1, 8))], {"kernel_shape": [2], "pads": pads})
