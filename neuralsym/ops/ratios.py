"""Sizes scaled by fractions, and what rounding makes of them.

Exporters compute sizes in floats: `Cast(Floor(Cast(H) * 0.5))` is `H//2`. A scaled size is no size
itself, so the rounding looks back at what was multiplied and divided. Floats agree for sizes below
2^15.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.dim import Dim, DimLike, ceil_div, floor_div
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import TensorType
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import FLOAT_LIMIT, never_negative

Sizes = NDArray[Any]
_STEPS = 6
"""Multiplications and casts that are looked back through."""
_FINEST, _LARGEST = 2**9, 2**20
"""The parts of a fraction, and a whole number, that a float32 multiplies a size with exactly."""


def floors(symbol: Symbol) -> Sizes | None:
    """The floor of each scaled size, as sizes; None where it is no scaled size."""
    return _rounded(symbol, floor_div)


def ceilings(symbol: Symbol) -> Sizes | None:
    """The same, rounded up."""
    return _rounded(symbol, ceil_div)


def _rounded(symbol: Symbol, divide: Callable[[DimLike, DimLike], DimLike]) -> Sizes | None:
    found = _ratios(symbol, _STEPS)
    if found is None:
        return None
    sizes = found[0].reshape(-1).tolist()
    scaled = any(isinstance(n, Dim) for n in sizes) and all(map(never_negative, sizes))
    return _each(divide, *found) if scaled else None


def _ratios(symbol: Symbol, steps: int) -> tuple[Sizes, Sizes] | None:
    """A float tensor as numerators, which may be sizes, and denominators, positive integers."""
    if not isinstance(symbol.type, TensorType):
        return None
    if symbol.known is not None:
        return _fractions(symbol.known) if symbol.known.size <= FLOAT_LIMIT else None
    node = symbol.node
    if not steps or symbol.dtype not in (NumberType.FLOAT32, NumberType.FLOAT64):
        return None
    if node.op.domain or node.op_type not in ("Mul", "Div", "Cast", "Identity"):
        return None
    given = [None if s is None else _ratios(s, steps - 1) for s in node.inputs]
    if node.op_type in ("Cast", "Identity"):
        return given[0]
    a, b = given
    if a is None or b is None or not (_exact(a[1]) and _exact(b[1])):
        return None
    if node.op_type == "Mul":
        return _each(mul, a[0], b[0]), _each(mul, a[1], b[1])
    if not all(isinstance(n, int) and n > 0 for n in b[0].reshape(-1).tolist()):
        return None
    return _each(mul, a[0], b[1]), _each(mul, a[1], b[0])


def _exact(denominators: Sizes) -> bool:
    """Whether floats hold such fractions: what is not exact may be rounded, not computed with."""
    return all(n & (n - 1) == 0 for n in denominators.reshape(-1).tolist())


def _fractions(known: NDArray[Any]) -> tuple[Sizes, Sizes] | None:
    """Known sizes and numbers as fractions; None for a number that is no simple one."""
    numerators: list[DimLike] = []
    denominators: list[int] = []
    for value in known.reshape(-1).tolist():
        if isinstance(value, Dim):
            numerators.append(value)
            denominators.append(1)
            continue
        if not np.isfinite(value) or abs(value) > _LARGEST:
            return None
        exact = Fraction(value)
        if exact.denominator > 1 and max(exact.denominator, abs(exact.numerator)) > _FINEST:
            return None
        numerators.append(exact.numerator)
        denominators.append(exact.denominator)
    return _array(numerators, known.shape), _array(denominators, known.shape)


def _each(function: Callable[[Any, Any], Any], left: Sizes, right: Sizes) -> Sizes:
    pairs = np.broadcast(left, right)
    return _array([function(a, b) for a, b in pairs], pairs.shape)


def _array(values: list[Any], shape: tuple[int, ...]) -> Sizes:
    flat = np.empty(len(values), object)
    flat[:] = values
    return flat.reshape(shape)
