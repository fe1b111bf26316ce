"""Constants: read-only, checked, made once however many threads ask."""

from __future__ import annotations

import pickle
import threading
import time
from typing import Any

import numpy as np
import pytest

from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch, TypeMismatch


def test_a_value_is_read_only_and_the_givers_array_stays_writable() -> None:
    given = np.zeros(3, np.float32)
    tensor = Tensor.of(given)
    with pytest.raises(ValueError, match="read-only"):
        tensor.value[0] = 1
    given[0] = 1  # the array is the giver's; a tensor is a view of it
    assert given.flags.writeable


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (1.5, "float32"),
        (3, "int64"),
        (True, "bool"),
        ("text", "string"),
        ([1.0, 2.0], "float32"),
        ([1, 2], "int64"),
        (np.float64(1), "float64"),
        (np.arange(3, dtype=np.uint8), "uint8"),
        (["a", "b"], "string"),
    ],
)
def test_the_type_of_python_values(given: Any, dtype: str) -> None:
    assert Tensor.of(given).dtype == dtype


def test_a_lazy_value_is_made_once_by_many_threads() -> None:
    made: list[int] = []

    def make() -> Any:
        time.sleep(0.01)
        made.append(1)
        return np.arange(4, dtype=np.float32)

    tensor = Tensor(NumberType.FLOAT32, (4,), make)
    assert not tensor.is_drawn
    seen: list[Any] = []
    threads = [threading.Thread(target=lambda: seen.append(tensor.value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert all(value is seen[0] for value in seen)
    assert tensor.is_drawn
    assert not tensor.value.flags.writeable


def test_reading_once_keeps_nothing() -> None:
    tensor = Tensor(NumberType.INT64, (2,), lambda: np.array([1, 2]))
    assert tensor.once().tolist() == [1, 2]
    assert not tensor.is_drawn


def test_what_is_made_must_fit() -> None:
    with pytest.raises(ShapeMismatch):
        _ = Tensor(NumberType.FLOAT32, (3,), lambda: np.zeros(2, np.float32)).value
    with pytest.raises(TypeMismatch):
        _ = Tensor(NumberType.FLOAT32, (2,), lambda: np.zeros(2)).value
    with pytest.raises(TypeMismatch, match="neither a number nor a string"):
        Tensor.of([object()])


def test_size_without_drawing() -> None:
    def never() -> Any:
        raise AssertionError("drawn")

    tensor = Tensor(NumberType.FLOAT16, (2, 3), never)
    assert (tensor.size, tensor.nbytes, repr(tensor)) == (6, 12, "Tensor(float16[2, 3])")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4", "string", "complex64"])
def test_pickles(dtype: str) -> None:
    value = ["a", "b"] if dtype == "string" else [1, 2]
    tensor = Tensor.of(value, dtype)
    again = pickle.loads(pickle.dumps(tensor))
    assert again.dtype is tensor.dtype
    assert again.value.tolist() == tensor.value.tolist()
