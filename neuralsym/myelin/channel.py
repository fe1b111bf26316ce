"""Channels: values of one format in a growing row, by which cells are chained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuralsym.cpu.runtime import Parameter
from neuralsym.dtypes import is_whole
from neuralsym.errors import BadAttribute, ExecutionError, InputError, ShapeMismatch

Array = NDArray[Any]


class Channel:
    """A growing row of values in the format of a parameter, by which cells are chained.

    `channel[i]` is a view of an element. Elements are zero when they are made.
    """

    def __init__(self, format: Parameter, size: int = 0) -> None:
        shape, dtype = format.shape, format.dtype
        if shape is None or dtype is None or not all(isinstance(d, int) for d in shape):
            raise ShapeMismatch(
                f"a channel needs values of one shape, {format.name!r} is {format.type}"
            )
        self.format = format
        self._shape = tuple(d for d in shape if isinstance(d, int))
        self._dtype = dtype.numpy
        self._elements: list[Array] = []
        self.resize(size)

    def resize(self, size: int) -> None:
        """Cut the channel off, or add elements of zeros."""
        if size < 0:
            raise BadAttribute(f"a channel has at least 0 elements, not {size}")
        del self._elements[size:]
        while len(self._elements) < size:
            self._elements.append(np.zeros(self._shape, self._dtype))

    def reset(self, size: int = 0) -> None:
        """That many elements, all zero."""
        self._elements.clear()
        self.resize(size)

    def push(self, value: ArrayLike | None = None) -> Array:
        """Add an element at the end, and give it."""
        self.resize(len(self) + 1)
        if value is not None:
            self[-1] = value
        return self._elements[-1]

    def pop(self) -> Array:
        """Take the last element away, and give it."""
        if not self._elements:
            raise ExecutionError("the channel is empty")
        return self._elements.pop()

    def array(self) -> Array:
        """All elements as one array, along a new first axis, or joined along a first axis of 1."""
        if self._shape[:1] == (1,):
            return np.concatenate(self._elements or [np.zeros((0, *self._shape[1:]), self._dtype)])
        return np.array(self._elements, self._dtype).reshape(len(self), *self._shape)

    def check(self, key: object) -> None:
        """InputError for a key that is no element of the channel."""
        if key is None:
            return
        if not is_whole(key) or not -len(self) <= key < len(self):
            raise InputError(f"a channel of {len(self)} elements has no element {key!r}")

    def __len__(self) -> int:
        return len(self._elements)

    def __getitem__(self, index: Any) -> Array:
        self.check(index)
        found: Array = self._elements[index]
        return found

    def __setitem__(self, index: Any, value: ArrayLike) -> None:
        self.check(index)
        array = np.asarray(value)
        if array.shape != self._shape:
            raise ShapeMismatch(
                f"an element of the channel has shape {self._shape}, came {array.shape}"
            )
        self._elements[index][...] = array

    def __iter__(self) -> Iterator[Array]:
        return iter(self._elements)

    def __repr__(self) -> str:
        return f"<Channel of {self.format.name!r}: {len(self)} elements>"
