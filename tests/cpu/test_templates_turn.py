"""Permutations of axes by turning squares and weaving vectors, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_text import MACHINES, call, target_of

from neuralsym.cpu.templates.turn import turn_copy, turn_text, turn_words

DTYPES = ("uint8", "uint16", "uint32", "uint64")


def turned(x, order, width, named=None, workers=2):
    """The permuted array and the way it took; (None, None) where turning is no way."""
    machine = target_of(width)
    flags = [False] * x.ndim if named is None else named
    copy = turn_copy(x.shape, order, flags, x.itemsize, machine.vector_bytes, workers)
    if copy is None:
        return None, None
    # What stands around the result must stay.
    room = np.full(x.size + 128, 77, x.dtype)
    y = room[64:-64].reshape([x.shape[k] for k in order])
    words = turn_words(y.ctypes.data, x.ctypes.data, copy)
    call(turn_text(copy.text), words, workers, width)
    assert (room[:64] == 77).all() and (room[-64:] == 77).all()
    return y, copy.text.way


def values(shape, dtype):
    return np.random.default_rng(1).integers(0, 255, shape).astype(dtype)


@pytest.mark.parametrize("width", [width for width, _ in MACHINES])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "way"),
    [
        ((40, 33), "square"),
        ((64, 16), "square"),
        ((3, 100), "merge"),
        ((100, 2), "split"),
        ((4, 37), "merge"),
        ((3, 3), "split"),
    ],
)
def test_matrices(width, dtype, shape, way):
    x = values(shape, dtype)
    y, taken = turned(x, (1, 0), width)
    assert taken == way
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("dtype", DTYPES)
def test_narrow_matrices_are_cut_squares(dtype):
    for shape in ((5, 100), (100, 7), (9, 11), (1, 1), (1, 20), (20, 1)):
        x = values(shape, dtype)
        y, way = turned(x, (1, 0), 16, [True, True])
        assert way == "any"
        np.testing.assert_array_equal(y, x.T)


@settings(max_examples=60)
@given(st.data())
def test_permutations(data):
    rank = data.draw(st.integers(2, 6))
    sizes = st.sampled_from([1, 2, 3, 4, 5, 17, 24])
    shape = tuple(data.draw(sizes) for _ in range(rank))
    if np.prod(shape) > 1 << 20:
        return
    order = data.draw(st.permutations(range(rank)))
    named = data.draw(st.lists(st.booleans(), min_size=rank, max_size=rank))
    dtype = data.draw(st.sampled_from(DTYPES))
    workers = data.draw(st.integers(1, 3))
    x = values(shape, dtype)
    y, _ = turned(x, order, 16, named, workers)
    if y is not None:
        np.testing.assert_array_equal(y, x.transpose(order))


@given(st.data())
def test_named_sizes_do_not_change_the_text(data):
    """A run of another size needs no other kernel."""
    rank = data.draw(st.integers(2, 5))
    order = data.draw(st.permutations(range(rank)))
    named = data.draw(st.lists(st.booleans(), min_size=rank, max_size=rank))
    fixed = [data.draw(st.sampled_from([1, 2, 3, 16, 20])) for _ in range(rank)]
    texts = set()
    for _ in range(3):
        shape = [
            data.draw(st.integers(1, 40)) if n else d for n, d in zip(named, fixed, strict=True)
        ]
        copy = turn_copy(shape, order, named, 4, 64, 2)
        texts.add(None if copy is None else copy.text)
    assert len(texts) == 1
