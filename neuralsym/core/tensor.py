"""Constants: a number type, a shape, and a value that may be made only when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuralsym.core.locks import Lock
from neuralsym.dtypes import NumberType, number_type
from neuralsym.errors import ShapeMismatch, TypeMismatch

_LOCK = Lock()


class Tensor:
    """A constant array, read-only, checked against its shape and number type.

    `Tensor(dtype, shape, make)` draws its value by `make()` at the first use of `value`;
    `Tensor.of(array)` holds one that exists. Strings are numpy object arrays of str.
    """

    __slots__ = ("_make", "_value", "dtype", "shape")

    def __init__(
        self, dtype: NumberType, shape: tuple[int, ...], make: Callable[[], NDArray[Any]]
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self._make: Callable[[], NDArray[Any]] | None = make
        self._value: NDArray[Any] | None = None

    @staticmethod
    def of(value: ArrayLike, dtype: NumberType | str | None = None) -> Tensor:
        """A tensor of an array, number, or nested list; Python floats become float32.

        Raises TypeMismatch when `value` is no array of numbers, booleans or strings.
        """
        kind = number_type(dtype) if dtype is not None else None
        if isinstance(value, (float, int, str)) and not isinstance(value, np.generic):
            if kind is None:
                kind = _python_type(value)
            array = np.array(value, dtype=kind.numpy)
        else:
            array = np.asarray(value)
            if array.dtype.kind in "USOT":
                array = _strings(array)
            plain = not isinstance(value, (np.ndarray, np.generic))
            if kind is None and plain and array.dtype == np.float64:
                kind = NumberType.FLOAT32
            if kind is not None and array.dtype != kind.numpy:
                array = array.astype(kind.numpy)
        made = Tensor(kind or number_type(array.dtype), array.shape, lambda: array)
        made._set(array)
        return made

    @property
    def value(self) -> NDArray[Any]:
        """The array; made now if it has not been before."""
        if self._value is None:
            with _LOCK:
                if self._value is None:
                    assert self._make is not None
                    self._set(np.asarray(self._make()))
        assert self._value is not None
        return self._value

    def once(self) -> NDArray[Any]:
        """The array, for one reading: a value that was not made before is not kept."""
        make = self._make
        return self.value if make is None else self._checked(np.asarray(make()))

    @property
    def is_drawn(self) -> bool:
        """Whether the value exists already."""
        return self._value is not None

    @property
    def size(self) -> int:
        size = 1
        for d in self.shape:
            size *= d
        return size

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def seeded(self, seed: int, name: str) -> Tensor:
        """Itself: only what is drawn at random, and is not tied to a seed yet, becomes another."""
        return self

    def _set(self, array: NDArray[Any]) -> None:
        self._value = self._checked(array)
        self._make = None

    def _checked(self, array: NDArray[Any]) -> NDArray[Any]:
        if array.shape != self.shape:
            raise ShapeMismatch(f"a constant of shape {self.shape} was given {array.shape}")
        if array.dtype != self.dtype.numpy:
            raise TypeMismatch(f"a constant of {self.dtype} was given {array.dtype}")
        if array.flags.writeable:
            array = array.view()
            array.flags.writeable = False
        return array

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}{list(self.shape)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Tensor.of, (np.array(self.value), str(self.dtype)))


@dataclass(frozen=True)
class Sparse:
    """A sparse tensor as an attribute holds it: `indices` are linear, or a row for each value."""

    values: Tensor
    indices: Tensor
    shape: tuple[int, ...]


def _python_type(value: float | int | bool | str) -> NumberType:
    if isinstance(value, bool):
        return NumberType.BOOL
    if isinstance(value, int):
        return NumberType.INT64
    return NumberType.STRING if isinstance(value, str) else NumberType.FLOAT32


def _strings(array: NDArray[Any]) -> NDArray[Any]:
    flat = []
    for item in array.reshape(-1).tolist():
        if isinstance(item, bytes):
            item = item.decode("utf-8")
        if not isinstance(item, str):
            raise TypeMismatch(f"{item!r} is neither a number nor a string")
        flat.append(item)
    made = np.empty(len(flat), dtype=object)
    made[:] = flat
    return made.reshape(array.shape)
