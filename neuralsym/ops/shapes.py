"""What the rules about shapes share: merging sizes, exact quotients, limits, known values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.dim import Dim, DimLike, certainly_differ, floor_div, product
from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import FLOAT_LIMIT, bad, check_axis

ELEMENTS_LIMIT = 2**40
"""No operator may claim an output of more elements: memory is never asked for by a mere number."""
_CONCATS = 4
"""Joins within joins that are looked into for known sizes."""
FAR = 2**31 - 1
"""A slice that ends here or later ends at the end: what exporters write for "all"."""


# -- types -------------------------------------------------------------------------------------
def typed(call: Call, shape: Shape | None, index: int = 0) -> list[Type]:
    """One output of the number type of input `index`."""
    return [TensorType(call.dtype(index), shape)]


def bounded(call: Call, dims: Iterable[Size]) -> Shape:
    """The shape of an output, refused when a size is negative or the elements are absurdly many."""
    shape = tuple(dims)
    count = 1
    for d in shape:
        if type(d) is int:
            if d < 0:
                call.fail(f"its output would have the shape {list(shape)}, with a negative size")
            count *= d or 1
    if count > ELEMENTS_LIMIT:
        call.fail(f"its output would have {count} elements; at most {ELEMENTS_LIMIT} can be", bad)
    return shape


def unknown(rank: int) -> Shape:
    """A shape of which only the rank is known."""
    return (None,) * rank


# -- sizes -------------------------------------------------------------------------------------
def merged(call: Call, a: Size, b: Size, what: str, hint: str = "") -> Size:
    """The size of two that must be equal, the more definite one; ShapeMismatch if they differ."""
    if a is None:
        return b
    if b is None or a == b:
        return a
    if type(a) is int:
        if type(b) is int or certainly_differ(b, a):
            call.fail(f"{what}: {a} and {b} differ{hint}")
        return a
    if certainly_differ(a, b):
        call.fail(f"{what}: {a} and {b} differ{hint}")
    return b if type(b) is int else a


def total(dims: Iterable[Size]) -> DimLike | None:
    """The product of sizes; None when one is unknown."""
    known: list[DimLike] = []
    for d in dims:
        if d is None:
            return None
        known.append(d)
    return product(known)


def never_negative(size: Any) -> bool:
    """Whether a size or an expression of sizes is certainly at least zero."""
    if not isinstance(size, Dim):
        return bool(size >= 0)
    return all(factor > 0 for _, factor in size.terms) and all(
        isinstance(atom, str) or _atom_never_negative(atom.function, atom.left, atom.right)
        for atoms, _ in size.terms
        for atom in atoms
    )


def _atom_never_negative(function: str, left: DimLike, right: DimLike) -> bool:
    sides = (never_negative(left), never_negative(right))
    return any(sides) if function == "max" else all(sides)


def exact_quotient(a: DimLike, b: DimLike) -> DimLike | None:
    """a / b where b divides every value of a by its form; None otherwise."""
    if b == 0:
        return None
    if not isinstance(a, Dim):
        return a // b if isinstance(b, int) and a % b == 0 else (0 if a == 0 else None)
    if isinstance(b, int):
        if any(factor % b for _, factor in a.terms):
            return None
        return floor_div(a, b)
    quotient: DimLike = 0
    rest: DimLike = a
    lead, factor = b.terms[0]
    for _ in range(len(a.terms)):
        # The terms of a Dim are in a monomial order, so this is the long division of polynomials.
        if not isinstance(rest, Dim):
            return None
        atoms, number = rest.terms[0]
        left = list(atoms)
        for atom in lead:
            if atom not in left:
                return None
            left.remove(atom)
        if number % factor:
            return None
        step = Dim(((tuple(left), number // factor),)) if left else number // factor
        quotient = quotient + step
        rest = rest - step * b
        if rest == 0:
            return quotient
    return None


# -- axes --------------------------------------------------------------------------------------
def axes_of(call: Call, values: Sequence[Any], rank: int, what: str = "axes") -> list[int]:
    """Axes counted from the left; BadAttribute for one out of range or given twice."""
    made: list[int] = []
    for value in values:
        if not isinstance(value, int):
            call.fail(f"{what} must be numbers, {value} is a size", bad)
        axis = check_axis(call, value, rank, what=what)
        assert axis is not None
        if axis in made:
            call.fail(f"{what}={list(values)} names axis {axis} twice", bad)
        made.append(axis)
    return made


def length(call: Call, index: int) -> int | None:
    """How many entries a vector input has; 1 for a scalar, None when that is not known."""
    shape = call.shape(index)
    if shape is None or len(shape) > 1:
        return None
    if not shape:
        return 1
    return shape[0] if isinstance(shape[0], int) else None


def partial_dims(call: Call, index: int) -> list[Size] | None:
    """A vector input as dimensions, None for an entry that only the run tells.

    Shapes are often joined from sizes of which some are known: `Concat(Shape(x), computed)`. None
    where not even the length is known.
    """
    return _entries(call.input(index), _CONCATS)


def _entries(symbol: Symbol, depth: int) -> list[Size] | None:
    shape = symbol.shape
    if shape == (0,):  # so that the entries bound the parts that are looked into
        return []
    value = symbol.known
    if value is not None and value.ndim <= 1:
        return [d if isinstance(d, Dim) else int(d) for d in value.reshape(-1).tolist()]
    if shape is None or len(shape) != 1 or not isinstance(shape[0], int) or shape[0] > 64:
        return None
    if symbol.op_type == "Concat" and depth:
        parts = [_entries(part, depth - 1) for part in symbol.inputs if part is not None]
        found = [size for part in parts if part is not None for size in part]
        if len(found) == shape[0]:
            return found
    return list(unknown(shape[0]))


def check_vector(call: Call, index: int, entries: Size, what: str) -> None:
    """Input `index`, when given, is a vector of `entries`; `what` says what they stand for."""
    if not call.has(index):
        return
    shape = call.shape(index)
    if shape is None:
        return
    name = call.op.schema.formal_input(index).name
    if len(shape) != 1:
        call.fail(f"{name} has {len(shape)} axes, but it must be a vector: one entry for {what}")
    merged(call, shape[0], entries, f"{name} needs one entry for {what}")


# -- known values ------------------------------------------------------------------------------
def foldable(call: Call, index: int = 0) -> NDArray[Any] | None:
    """The known value of an input if it is worth moving: sizes, indices, a few floats."""
    value = call.known(index)
    if value is None:
        return None
    kind = call.dtype(index)
    if kind is NumberType.STRING or (value.size > FLOAT_LIMIT and not _is_index(kind)):
        return None
    return value


def _is_index(kind: NumberType) -> bool:
    return kind.is_integer or kind is NumberType.BOOL


def fit(sizes: Iterable[Size]) -> bool:
    """Whether the sizes that are numbers fit 64 bits, as values must."""
    return all(isinstance(d, Dim) or d is None or d < 2**63 for d in sizes)


def tidy(value: NDArray[Any], kind: NumberType) -> NDArray[Any]:
    """Objects that have all become ints as an array of ints again."""
    if value.dtype == object and not any(isinstance(v, Dim) for v in value.flat):
        return value.astype(kind.numpy) if fit(value.flat) else value
    return value


def scalar_of(value: NDArray[Any]) -> Any:
    """The single entry of a known value as a plain number or a Dim; None if there are several."""
    if value.size != 1:
        return None
    entry = value.reshape(-1)[0]
    return entry.item() if isinstance(entry, np.generic) else entry
