"""Shapes of slices, gathers, scatters and selections, against onnx, real values and with names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_harness import Var, check_case, ints, own_shapes, shown

from neuralsym.core.dim import Dim, substitute
from neuralsym.errors import BadAttribute, OpError, ShapeMismatch
from neuralsym.ops.slices import sliced_size

QUICK = settings(max_examples=80, deadline=None)
PLACES = st.integers(-7, 7) | st.sampled_from([2**31 - 1, 2**63 - 1, -(2**31), -(2**63)])
STEPS = st.integers(-3, 3).filter(bool)


@QUICK
@given(st.integers(0, 6), PLACES, PLACES, STEPS, st.booleans())
def test_slice(size, start, end, step, back):
    axis = -1 if back else 1
    inputs = [Var((2, size)), ints(start), ints(end), ints(axis), ints(step)]
    # numpy finds nothing from a start before the beginning backwards; ONNX clamps it to the first
    numpy_agrees = step > 0 or start >= -size
    check_case("Slice", inputs, real=numpy_agrees)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 9), PLACES, PLACES, STEPS, st.integers(0, 3), st.integers(0, 3))
def test_the_size_of_a_slice_is_exact_for_every_size(size, start, end, step, a, b):
    """Symbolic size, start and end, with sizes put in afterwards: the same as by number."""
    expected = sliced_size(size, start, end, step)
    assert substitute(sliced_size(Dim.name("d"), start, end, step), {"d": size}) == expected
    first, last = Dim.name("a") * 2 - 3, Dim.name("d") - Dim.name("b")
    found = sliced_size(Dim.name("d"), first, last, step)
    sizes = {"d": size, "a": a, "b": b}
    assert substitute(found, sizes) == sliced_size(size, a * 2 - 3, size - b, step)


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (0, 2**62, 1, "H"),
        (0, 2**31 - 1, 2, "(H + 1)//2"),
        (1, 2**62, 1, "max(0, H - 1)"),
        (0, -1, 1, "max(0, H - 1)"),
        (-3, 2**62, 1, "min(3, H)"),
        (0, 5, 1, "min(5, H)"),
        (-1, -(2**62), -1, "H"),
        (3, 3, 1, "0"),
        (-2, -4, 1, "0"),
    ],
)
def test_slices_over_names_are_simple_where_they_can_be(start, end, step, expected):
    inputs = [Var(("H",)), ints(start), ints(end), ints(0), ints(step)]
    assert shown(own_shapes("Slice", inputs, {})) == [expected]


def test_slice_of_unknown_places():
    x, places = Var(("N", 3, "W")), Var((1,), "int64")
    assert shown(own_shapes("Slice", [x, places, places, ints(2)], {})) == ["N, 3, ?"]
    assert shown(own_shapes("Slice", [x, places, places, places], {})) == ["?, ?, ?"]
    assert shown(own_shapes("Slice", [x, places, places], {})) == ["?, 3, W"]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([ints(0), ints(1), ints(0), ints(0)], "steps must not be 0"),
        ([ints(0, 0), ints(1), ints(0)], "starts 2, ends 1"),
        ([ints(0), ints(1), ints(2)], "axes=2 is out of range"),
        ([ints(0, 0), ints(1, 1), ints(0, -2)], "twice"),
        ([ints(0, 0, 0), ints(1, 1, 1)], "3 entries"),
    ],
)
def test_slice_refuses_nonsense(inputs, words):
    with pytest.raises(BadAttribute) as caught:
        own_shapes("Slice", [Var((2, 3)), *inputs], {})
    assert words in str(caught.value)


SMALL = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@QUICK
@given(SMALL, st.lists(st.integers(0, 3), max_size=2), st.integers(-4, 3))
def test_gather(shape, places, axis):
    inputs = [Var(shape), np.zeros(places, np.int64)]
    check_case("Gather", inputs, {"axis": axis})
    check_case("Gather", [Var(shape), Var(tuple(places), "int64")], {"axis": axis}, real=False)


@QUICK
@given(SMALL, st.data())
def test_gather_elements_and_scatter_elements(shape, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    places = tuple(data.draw(st.integers(1, d)) for d in shape)
    index = np.zeros(places, np.int64)
    check_case("GatherElements", [Var(shape), index], {"axis": axis})
    check_case("ScatterElements", [Var(shape), index, Var(places)], {"axis": axis}, real=False)


@QUICK
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
def test_gather_nd(shape, data):
    batch = data.draw(st.integers(0, len(shape) - 1))
    taken = data.draw(st.integers(1, len(shape) - batch))
    middle = data.draw(st.lists(st.integers(1, 3), max_size=2))
    index = np.zeros((*shape[:batch], *middle, taken), np.int64)
    check_case("GatherND", [Var(tuple(shape)), index], {"batch_dims": batch}, real=batch == 0)


@QUICK
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
def test_scatter_nd(shape, data):
    taken = data.draw(st.integers(1, len(shape)))
    middle = data.draw(st.lists(st.integers(1, 3), max_size=2))
    index = np.zeros((*middle, taken), np.int64)
    updates = Var((*middle, *shape[taken:]))
    check_case("ScatterND", [Var(tuple(shape)), index, updates], real=False)


def test_scatters_compare_their_updates():
    index = np.zeros((3, 2), np.int64)
    with pytest.raises(ShapeMismatch, match="indices and updates, axis 1"):
        own_shapes("ScatterElements", [Var((3, 2)), index, Var((3, 3))], {})
    with pytest.raises(ShapeMismatch, match="updates has 2 axes, 1 are needed"):
        own_shapes("ScatterND", [Var((3, 2)), index, Var((3, 2))], {})
    with pytest.raises(ShapeMismatch, match="same number"):
        own_shapes("GatherElements", [Var((3, 2)), index[0]], {})
    with pytest.raises(ShapeMismatch, match="too long"):
        own_shapes("GatherND", [Var((3,)), index], {})
    with pytest.raises(OpError, match="'sum'"):
        own_shapes("ScatterND", [Var((3, 2)), index, Var((3,))], {"reduction": "sum"})


def test_tensor_scatter():
    cache, update = Var(("N", 4, 16, 8)), Var(("N", 4, "T", 8))
    assert shown(own_shapes("TensorScatter", [cache, update], {})) == ["N, 4, 16, 8"]
    with pytest.raises(ShapeMismatch, match="the cache only 16"):
        own_shapes("TensorScatter", [cache, Var(("N", 4, 17, 8))], {})
    with pytest.raises(BadAttribute, match="axis=0"):
        own_shapes("TensorScatter", [cache, update], {"axis": 0})


@QUICK
@given(SMALL, st.integers(-4, 3), st.integers(-1, 5))
def test_top_k(shape, axis, k):
    inside = -len(shape) <= axis < len(shape)
    check_case("TopK", [Var(shape), ints(k)], {"axis": axis}, 2, stricter=True, real=inside)


@QUICK
@given(SMALL, st.integers(-5, 4), st.integers(0, 5))
def test_one_hot(shape, axis, depth):
    inputs = [Var(shape, "int64"), ints(depth), Var((2,))]
    check_case("OneHot", inputs, {"axis": axis}, real=False)


def test_one_hot_puts_the_new_axis_last():
    assert own_shapes("OneHot", [Var((2, 3), "int64"), ints(5), Var((2,))], {}) == [(2, 3, 5)]
    free = [Var((2, 3), "int64"), Var((), "int64"), Var((2,))]
    assert own_shapes("OneHot", free, {"axis": 0}) == [(None, 2, 3)]


@QUICK
@given(SMALL, st.lists(st.booleans(), min_size=1, max_size=5), st.integers(-4, 3))
def test_compress(shape, chosen, axis):
    chosen = np.array(chosen)
    inputs = [Var(shape), chosen]
    short = -len(shape) <= axis < len(shape) and len(chosen) <= shape[axis]
    check_case("Compress", inputs, {"axis": axis}, exact=False, real=short)
    check_case("Compress", inputs, exact=False, real=len(chosen) <= np.prod(shape))


def test_sizes_that_depend_on_data_are_unknown():
    assert own_shapes("NonZero", [Var(("N", 3))], {}) == [(2, None)]
    assert own_shapes("Unique", [Var(("N", 3))], {"axis": 1}, 4) == [
        (Dim.name("N"), None),
        (None,),
        (3,),
        (None,),
    ]
    assert shown(own_shapes("Unique", [Var(("N", 3))], {}, 4)) == ["?", "?", "N*3", "?"]


@QUICK
@given(st.lists(st.integers(1, 5), min_size=2, max_size=3).map(tuple), st.integers(0, 1))
def test_shape_keepers(shape, axis):
    check_case("Trilu", [Var(shape)], {"upper": axis})
    lengths = np.ones(shape[1 - axis], np.int64)
    attrs = {"time_axis": axis, "batch_axis": 1 - axis}
    check_case("ReverseSequence", [Var(shape), lengths], attrs)


@QUICK
@given(st.lists(st.integers(1, 5), min_size=3, max_size=3).map(tuple), st.integers(1, 6))
def test_center_crop_pad(shape, size):
    check_case("CenterCropPad", [Var(shape), ints(size, 2)], {"axes": [-1, 0]})
    check_case("CenterCropPad", [Var(shape), ints(size, 2, 3)])


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("Gather", [Var(()), ints(0)], {}),
        ("Gather", [Var((3,)), ints(0)], {"axis": 2**40}),
        ("TopK", [Var((3,)), ints(-1)], {}),
        ("TopK", [Var((3,)), ints(4)], {}),
        ("TopK", [Var((3,)), ints(1, 2)], {}),
        ("TopK", [Var((3,)), ints(1)], {"largest": 2}),
        ("OneHot", [Var((3,), "int64"), ints(-1), Var((2,))], {}),
        ("OneHot", [Var((3,), "int64"), ints(2**45), Var((2,))], {}),
        ("OneHot", [Var((3,), "int64"), ints(2), Var((3,))], {}),
        ("Trilu", [Var((3,))], {}),
        ("Trilu", [Var((3, 3))], {"upper": 5}),
        ("ReverseSequence", [Var((3, 4)), Var((3,), "int64")], {}),
        ("ReverseSequence", [Var((3, 4)), Var((4,), "int64")], {"batch_axis": 2}),
        ("Unique", [Var((3, 4))], {"axis": 2}),
        ("Compress", [Var((3, 4)), Var((4,), "bool")], {"axis": -3}),
        ("CenterCropPad", [Var((3, 4)), ints(1)], {}),
        ("CenterCropPad", [Var((3, 4)), ints(-1, 1)], {}),
        ("GatherND", [Var((3, 4)), Var((1, 1), "int64")], {"batch_dims": -1}),
        ("GatherND", [Var((3, 4)), Var((3, 1), "int64")], {"batch_dims": 2}),
    ],
)
def test_nonsense_is_refused(op, inputs, attrs):
    count = 2 if op == "TopK" else 1
    with pytest.raises(OpError):
        own_shapes(op, inputs, attrs, count)
