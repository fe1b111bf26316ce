"""What operators on sequences, optionals and patterns compute, and what they say of mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralsym import Graph, Network, ops
from neuralsym.core.leaves import make_variable
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import OptionalType, TensorType
from neuralsym.dtypes import NumberType
from neuralsym.errors import ExecutionError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def numbers(count: int) -> list[np.ndarray]:
    return [np.float32(i) for i in range(count)]


def sequence(count: int) -> Symbol:
    """0, 1, ... `count` - 1 as a sequence of scalars."""
    if not count:
        return ops.sequence_empty()
    return ops.sequence_construct([ops.constant(n) for n in numbers(count)])


def run(symbol: Symbol, **feed: Any) -> Any:
    return Network(Graph({"result": symbol})).run(feed)["result"]


def position(value: int) -> tuple[Symbol, dict[str, Any]]:
    """A position that only the run tells."""
    return ops.variable("at", (), "int64"), {"at": np.int64(value)}


# -- positions ---------------------------------------------------------------------------------
@given(st.integers(0, 4), st.integers(-6, 6))
def test_positions(count: int, at: int) -> None:
    symbol, feed = position(at)
    listed = [float(n) for n in numbers(count)]
    inserted = ops.sequence_insert(sequence(count), ops.constant(np.float32(9)), symbol)
    if -count <= at <= count:
        wanted = [*listed]
        wanted.insert(at, 9.0)
        assert [float(v) for v in run(inserted, **feed)] == wanted
    else:
        with pytest.raises(ExecutionError, match=f"position {at} in a sequence of {count}"):
            run(inserted, **feed)
    if not count:
        return
    taken, rest = (
        ops.sequence_at(sequence(count), symbol),
        ops.sequence_erase(sequence(count), symbol),
    )
    if -count <= at < count:
        assert run(taken, **feed) == listed[at]
        del listed[at]
        assert [float(v) for v in run(rest, **feed)] == listed
    else:
        for refused in (taken, rest):
            with pytest.raises(ExecutionError, match=f"allowed are -{count} to {count - 1}"):
                run(refused, **feed)


def test_without_a_position_it_is_the_end() -> None:
    added = ops.sequence_insert(sequence(2), ops.constant(np.float32(9)))
    assert [float(v) for v in run(added)] == [0, 1, 9]
    assert [float(v) for v in run(ops.sequence_erase(sequence(3)))] == [0, 1]
    assert run(ops.sequence_length(sequence(3))) == 3
    with pytest.raises(ExecutionError, match="a sequence of 0: allowed are none"):
        run(ops.sequence_erase(ops.sequence_erase(sequence(1))))


# -- cutting and joining -----------------------------------------------------------------------
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.sampled_from((0, 1, -1)),
    st.sampled_from(("float32", "int8", "string")),
)
def test_pieces_of_given_sizes(sizes: list[int], axis: int, dtype: str) -> None:
    shape = (sum(sizes), 2) if axis == 0 else (2, sum(sizes))
    count = 2 * sum(sizes)
    x = np.array([str(i) for i in range(count)], object) if dtype == "string" else np.arange(count)
    x = x.reshape(shape).astype(object if dtype == "string" else dtype)
    symbol = ops.variable("x", shape, dtype)
    split = ops.variable("split", (len(sizes),), "int64")
    pieces = ops.split_to_sequence(symbol, split, axis=axis)
    found = run(pieces, x=x, split=np.array(sizes))
    assert [p.shape[axis] for p in found] == sizes
    joined = run(ops.concat_from_sequence(pieces, axis=axis), x=x, split=np.array(sizes))
    assert joined.dtype == x.dtype
    assert joined.tolist() == x.tolist()


@given(st.integers(1, 7), st.integers(1, 8))
def test_pieces_of_one_size(whole: int, size: int) -> None:
    x, split = ops.variable("x", (whole,)), ops.variable("split", (), "int64")
    data = np.arange(whole, dtype=np.float32)
    found = run(ops.split_to_sequence(x, split), x=data, split=np.int64(size))
    assert [len(p) for p in found] == [min(size, whole - i) for i in range(0, whole, size)]
    np.testing.assert_array_equal(np.concatenate(found), data)


@pytest.mark.parametrize(("keep", "shape"), [(1, (2, 1)), (0, (2,))])
def test_pieces_of_one(keep: int, shape: tuple[int, ...]) -> None:
    found = run(ops.split_to_sequence(ops.variable("x", (2, 3)), axis=1, keepdims=keep), x=X)
    assert [p.shape for p in found] == [shape] * 3
    stacked = ops.concat_from_sequence(
        ops.split_to_sequence(ops.variable("x", (2, 3)), axis=1, keepdims=0), axis=-1, new_axis=1
    )
    np.testing.assert_array_equal(run(stacked, x=X), X)


def test_pieces_that_do_not_fit() -> None:
    x = ops.variable("x", (2, 3))
    split, size = ops.variable("split", (2,), "int64"), ops.variable("size", (), "int64")
    for wrong in ([1, 1], [4, -1], [2, 2]):
        with pytest.raises(ExecutionError, match="does not sum to the 3 entries"):
            run(ops.split_to_sequence(x, split, axis=1), x=X, split=np.array(wrong))
    with pytest.raises(ExecutionError, match="pieces of 0 entries"):
        run(ops.split_to_sequence(x, size, axis=1), x=X, size=np.int64(0))


def test_elements_that_do_not_join() -> None:
    x, y = ops.variable("x", (2, 3)), ops.variable("y", ("M", "K"))
    both = ops.sequence_construct([x, y])
    feed = {"x": X, "y": np.ones((2, 4), np.float32)}
    with pytest.raises(
        ExecutionError, match=r"shapes \[2, 3\], \[2, 4\], which must differ on axis 0"
    ):
        run(ops.concat_from_sequence(both, axis=0), **feed)
    with pytest.raises(ExecutionError, match="which must be equal"):
        run(ops.concat_from_sequence(both, axis=0, new_axis=1), **feed)
    assert run(ops.concat_from_sequence(both, axis=1), **feed).shape == (2, 7)
    empty = ops.sequence_erase(ops.sequence_construct([x]))
    with pytest.raises(ExecutionError, match="the sequence is empty"):
        run(ops.concat_from_sequence(empty, axis=0), x=X)


# -- optionals, patterns, messages -------------------------------------------------------------
def test_optionals_without_a_value() -> None:
    given_ = make_variable("given", OptionalType(TensorType(NumberType.FLOAT32, (2,))))
    assert not run(ops.optional_has_element(given_), given=None)
    assert run(ops.optional_has_element(given_), given=X[0, :2])
    np.testing.assert_array_equal(run(ops.optional_get_element(given_), given=X[0, :2]), X[0, :2])
    with pytest.raises(ExecutionError, match="the optional holds no value"):
        run(ops.optional_get_element(given_), given=None)


def test_patterns() -> None:
    text = np.array([["a1", "b"], ["aa", ""]], object)
    s = ops.variable("s", (2, 2), "string")
    found = run(ops.regex_full_match(s, pattern="a.?"), s=text)
    assert found.tolist() == [[True, False], [True, False]]
    with pytest.raises(ExecutionError, match=r"the pattern '\(' is no regular expression"):
        run(ops.regex_full_match(s, pattern="("), s=text)


def test_a_message_names_the_step_and_the_line_once() -> None:
    symbol, feed = position(7)
    with pytest.raises(ExecutionError) as caught:
        run(ops.sequence_at(sequence(2), symbol), **feed)
    text = str(caught.value)
    assert text.count("SequenceAt") == 1
    assert text.count("test_sequence_values.py") == 1
    assert "IndexError" not in text
