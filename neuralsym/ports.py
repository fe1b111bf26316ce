"""The inputs and outputs of a network, and what a user may feed to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralsym.core.symbol import Symbol
from neuralsym.core.types import Shape, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import InputError, ShapeMismatch, TypeMismatch, counted


@dataclass(frozen=True)
class Port:
    """An input or output: its name, and its type's shape and dtype.

    shape holds ints, names or expressions of names, None where data decides; `default` says that
    a run may leave the input out.
    """

    name: str
    type: Type
    default: bool = False

    @property
    def shape(self) -> Shape | None:
        return self.type.shape if isinstance(self.type, TensorType) else None

    @property
    def dtype(self) -> NumberType | None:
        return self.type.dtype if isinstance(self.type, TensorType) else None

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


def as_input(value: Any, port: Port) -> Any:
    """A value as the array that an input takes; TypeMismatch where it would have to change."""
    if not isinstance(port.type, TensorType):
        return value
    dtype = port.type.dtype
    if isinstance(value, Symbol):
        raise TypeMismatch(f"input {port.name!r} takes an array, not a Symbol")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ShapeMismatch(f"input {port}: {error}") from None
    if dtype is NumberType.STRING:
        if array.dtype.kind not in "USOT":
            raise TypeMismatch(f"input {port} takes strings, came {array.dtype}")
        array = array.astype(object)
        for word in array.flat:
            if not isinstance(word, (str, bytes)):
                raise TypeMismatch(f"input {port} takes strings, it holds {word!r}")
        _check_shape(array.shape, port)
        return array
    if array.dtype.kind in "USOT":
        came = f"array of {array.dtype}" if array is value else type(value).__name__
        raise TypeMismatch(f"input {port} takes numbers, came {came}")
    plain = not isinstance(value, (np.ndarray, np.generic))
    if array.dtype != dtype.numpy:
        cast = dtype.is_float and (array.dtype == np.float64 or (plain and array.dtype != bool))
        exact = plain and array.dtype.kind in "iu" and dtype.is_integer
        if exact:
            exact = bool((array.astype(dtype.numpy) == array).all())
        if not cast and not exact:
            raise TypeMismatch(
                f"input {port} was given {array.dtype}; use array.astype({str(dtype)!r})"
            )
        array = array.astype(dtype.numpy)
    _check_shape(array.shape, port)
    return array


def _check_shape(shape: tuple[int, ...], port: Port) -> None:
    wanted = port.shape
    if wanted is None:
        return
    if len(shape) != len(wanted):
        hint = ""
        if len(shape) == len(wanted) - 1:
            hint = "; if the batch axis is missing, array[None] adds it"
        raise ShapeMismatch(f"input {port} was given shape {shape}{hint}")
    for axis, (size, want) in enumerate(zip(shape, wanted, strict=True)):
        if isinstance(want, int) and size != want:
            raise ShapeMismatch(
                f"input {port} was given shape {shape}: axis {axis} is {size}, not {want}"
            )


def by_name(feed: Any, ports: Mapping[str, Port], network: str) -> dict[str, Any]:
    """A feed as a dict by input name; InputError where it cannot be told what goes where."""
    if feed is None:
        return {}
    if isinstance(feed, Mapping):
        return dict(feed)
    required = [n for n, p in ports.items() if not p.default] or list(ports)
    if isinstance(feed, (list, tuple)):
        if len(feed) != len(required):
            names = ", ".join(required) or "none"
            raise InputError(
                f"network {network!r} has {counted(len(required), 'input')} ({names}), "
                f"{counted(len(feed), 'value')} came: a list or tuple "
                "holds one entry for each input; give data as an array"
            )
        return dict(zip(required, feed, strict=True))
    if len(required) != 1:
        raise InputError(
            f"network {network!r} has {counted(len(required), 'input')} ({', '.join(required)}): "
            "give a dict by name"
        )
    return {required[0]: feed}
