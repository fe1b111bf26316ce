"""The types of values: tensors, sequences, optionals and maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from neuralsym.core.dim import Dim, DimLike
from neuralsym.dtypes import NumberType, is_whole
from neuralsym.errors import ShapeMismatch

Size = int | Dim | None
"""One dimension of a shape; None where it depends on data."""
Shape = tuple[Size, ...]
RANK_LIMIT = 64
"""No tensor has more axes: numpy's arrays cannot."""


@dataclass(frozen=True)
class TensorType:
    """A tensor of `dtype`; `shape` is None where even the rank is unknown."""

    dtype: NumberType
    shape: Shape | None = None

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is an int."""
        return self.shape is not None and all(isinstance(d, int) for d in self.shape)

    @property
    def is_known(self) -> bool:
        """Whether every dimension is an int or an expression of names."""
        return self.shape is not None and None not in self.shape

    def __str__(self) -> str:
        return f"{self.dtype}[{shape_text(self.shape)}]"


@dataclass(frozen=True)
class SequenceType:
    element: Type

    def __str__(self) -> str:
        return f"sequence({self.element})"


@dataclass(frozen=True)
class OptionalType:
    element: Type

    def __str__(self) -> str:
        return f"optional({self.element})"


@dataclass(frozen=True)
class MapType:
    key: NumberType
    value: Type

    def __str__(self) -> str:
        return f"map({self.key}, {self.value})"


Type = TensorType | SequenceType | OptionalType | MapType


def is_numeric(type_: Type) -> TypeGuard[TensorType]:
    """Whether such values are tensors of numbers, which have memory of known sizes in a run."""
    return isinstance(type_, TensorType) and type_.dtype is not NumberType.STRING


def shape_text(shape: Shape | None) -> str:
    """`1, 3, H`; `?` for an unknown dimension and `...` for an unknown rank."""
    if shape is None:
        return "..."
    return ", ".join("?" if d is None else str(d) for d in shape)


def as_shape(given: Sequence[int | str | Dim | None] | int | str, what: str = "shape") -> Shape:
    """A shape from what a user writes: sizes, names or expressions of names, None for unknown.

    Raises ShapeMismatch for a negative size, anything that is no dimension, or over 64 axes.
    """
    if isinstance(given, (int, str, Dim)):
        given = (given,)
    if len(given) > RANK_LIMIT:
        raise ShapeMismatch(f"{what} has {len(given)} axes; a tensor has at most {RANK_LIMIT}")
    return tuple(_as_size(d, what, given) for d in given)


def _as_size(given: object, what: str, shape: object) -> Size:
    if given is None or isinstance(given, Dim):
        return given
    if isinstance(given, str):
        if not given:
            raise ShapeMismatch(f"{what} {shape!r}: a dimension's name must not be empty")
        parsed: DimLike = Dim.parse(given)
        return parsed
    if not is_whole(given):
        raise ShapeMismatch(f"{what} {shape!r}: {given!r} is neither a size nor a name")
    size = int(given)
    if size < 0:
        raise ShapeMismatch(
            f"{what} {shape!r}: {size} is negative; name a dimension that is free, such as 'N'"
        )
    return size
