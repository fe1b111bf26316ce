"""Known values: shape arithmetic folds while building, with names as with numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_harness import ints

from neuralsym import ops
from neuralsym.core.dim import Dim
from neuralsym.core.leaves import variable
from neuralsym.core.registry import call
from neuralsym.errors import BadAttribute

QUICK = settings(max_examples=60, deadline=None)


def known(symbol):
    assert symbol.known is not None
    return [str(d) for d in np.reshape(symbol.known, -1).tolist()]


@pytest.fixture
def x():
    return variable("x", ("N", 3, "H", "W"))


def test_the_usual_chain_folds(x):
    """Shape -> Gather -> Unsqueeze -> Concat -> Reshape, as exporters write x.view(n, -1)."""
    n = call("Gather", call("Shape", x), np.array(0))
    shape = call("Concat", call("Unsqueeze", n, ints(0)), ints(-1), axis=0)
    assert known(shape) == ["N", "-1"]
    assert str(call("Reshape", x, shape).type) == "float32[N, H*W*3]"


def test_a_chain_to_double_the_size_folds(x):
    tail = call("Slice", call("Shape", x), ints(2), ints(4))
    double = call("Mul", tail, ints(2))
    sizes = call("Concat", call("Slice", call("Shape", x), ints(0), ints(2)), double, axis=0)
    assert known(sizes) == ["N", "3", "H*2", "W*2"]
    assert str(call("Resize", x, None, None, sizes).type) == "float32[N, 3, H*2, W*2]"


def test_sizes_and_products(x):
    assert known(call("Size", x)) == ["H*N*W*3"]
    shape = call("Shape", x, start=-2)
    assert known(shape) == ["H", "W"]
    assert known(call("ReduceProd", shape, keepdims=0)) == ["H*W"]
    assert known(call("ReduceSum", shape, ints(0))) == ["H + W"]
    assert call("ReduceProd", shape, keepdims=0).known.shape == ()


def test_ints_among_names_become_plain_again(x):
    taken = call("Gather", call("Shape", x), ints(1, 1))
    assert taken.known.dtype == np.int64
    assert taken.known.tolist() == [3, 3]
    one = call("Squeeze", call("Slice", call("Shape", x), ints(1), ints(2)), ints(0))
    assert one.known.dtype == np.int64
    assert one.known.shape == ()


def test_splits_casts_and_copies(x):
    parts = ops.split(call("Shape", x), ints(1, 3))
    assert known(parts[0]) == ["N"]
    assert known(parts[1]) == ["3", "H", "W"]
    narrow = call("Cast", parts[1], to="int32")
    assert known(narrow) == ["3", "H", "W"]
    assert known(call("Identity", call("Cast", narrow, to="int64"))) == ["3", "H", "W"]
    assert call("Cast", parts[1], to="float16").known is None  # it holds no large size


def test_what_depends_on_data_is_not_known():
    x = variable("x", ("N", None))
    assert call("Shape", x).known is None
    assert known(call("Shape", x, end=1)) == ["N"]
    assert call("Gather", variable("i", (4,), "int64"), ints(0)).known is None


def test_an_index_out_of_range_is_left_to_the_run(x):
    assert call("Gather", call("Shape", x), np.array(9)).known is None


def test_long_values_are_not_carried_along():
    big = call("Expand", ints(1), ints(5000))
    assert big.known is None
    assert call("Tile", ints(1, 2), ints(5000)).known is None
    assert call("Tile", ints(1, 2), ints(2)).known.tolist() == [1, 2, 1, 2]
    assert call("Expand", ints(1), ints(3)).known.tolist() == [1, 1, 1]


def test_expand_by_a_shape_with_names(x):
    target = call("Concat", call("Slice", call("Shape", x), ints(0), ints(1)), ints(4), axis=0)
    y = call("Expand", variable("y", (1, 4)), target)
    assert str(y.type) == "float32[N, 4]"
    assert str(call("Tile", variable("z", (2, 4)), target).type) == "float32[N*2, 16]"


ARRAYS = st.lists(st.integers(1, 3), min_size=1, max_size=3).flatmap(
    lambda s: st.just(np.arange(int(np.prod(s)), dtype=np.int64).reshape(s))
)


@QUICK
@given(ARRAYS, st.data())
def test_folded_values_are_the_right_values(array, data):
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    size = array.shape[axis]
    index = np.array(data.draw(st.lists(st.integers(-size, size - 1), max_size=3)), np.int64)
    start, end = (data.draw(st.integers(-4, 4)) for _ in range(2))
    step = data.draw(st.sampled_from([1, 2, -1, -2]))
    gathered = call("Gather", array, index, axis=axis).known
    np.testing.assert_array_equal(gathered, np.take(array, index, axis))
    sliced = call("Slice", array, ints(start), ints(end), ints(axis), ints(step))
    assert sliced.known.shape == sliced.shape
    if step > 0 or start >= -size:
        cut = [slice(None)] * array.ndim
        cut[axis] = slice(start, end, step)
        np.testing.assert_array_equal(sliced.known, array[tuple(cut)])
    np.testing.assert_array_equal(call("Transpose", array).known, array.T)
    joined = call("Concat", array, array, axis=axis).known
    np.testing.assert_array_equal(joined, np.concatenate([array, array], axis))
    added = call("Unsqueeze", array, ints(axis)).known
    flat = call("Reshape", array, ints(-1)).known
    np.testing.assert_array_equal(flat, array.reshape(-1))
    assert call("Squeeze", call("Unsqueeze", array, ints(0)), ints(0)).known.shape == array.shape
    assert added.size == array.size
    total = call("ReduceSum", array, ints(axis), keepdims=0).known
    np.testing.assert_array_equal(total, array.sum(axis))


@QUICK
@given(st.sampled_from(["int8", "uint8", "int32", "int64", "bool", "float64"]), st.data())
def test_folded_casts_keep_values(to, data):
    values = data.draw(st.lists(st.integers(-300, 300), min_size=1, max_size=4))
    made = call("Cast", np.array(values, np.float32), to=to).known
    if made is None:  # some value has no place in the type
        assert to in ("int8", "uint8")
        return
    assert made.dtype == np.dtype(to)
    np.testing.assert_array_equal(made, np.array(values).astype(to))


def test_names_survive_a_round_through_arrays():
    shape = call("Shape", variable("x", ("N", "H")))
    again = call("Reshape", shape, ints(2, 1))
    assert call("Transpose", again).known.tolist() == [[Dim.name("N"), Dim.name("H")]]


def test_a_size_beyond_64_bits_is_not_known():
    assert call("Size", variable("x", (2**40, 2**40))).known is None
    with pytest.raises(BadAttribute, match="elements"):
        call("Flatten", variable("x", (1, 2**40, 2**40)))


def test_a_cast_between_numbers_says_what_it_computes():
    node = call("Cast", variable("x", ("N",), "float16"), to="int32").node
    assert str(node.op.expression(node).detail) == "int32"
    node = call("Cast", variable("x", ("N",), "float32"), to="float8e8m0", round_mode="down").node
    assert str(node.op.expression(node).detail) == "float8e8m0_down_saturate"
    node = call("Cast", variable("x", ("N",), "float32"), to="string").node
    assert node.op.expression(node) is None
