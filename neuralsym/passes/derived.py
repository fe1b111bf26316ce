"""Stored values that passes compute from others: only when they are needed, and once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.leaves import constant, make_weight
from neuralsym.core.symbol import Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType

SMALL = 64
"""Results of at most so many elements are computed at once if their sources exist."""
DEEPEST = 40
"""A value derived over so many steps is computed at once, so that no chain of them grows long."""

Array = NDArray[Any]


class Derived(Tensor):
    """A tensor that is computed from other tensors at its first use."""

    __slots__ = ("depth",)
    depth: int

    def __init__(
        self,
        dtype: NumberType,
        shape: tuple[int, ...],
        sources: Sequence[Tensor],
        compute: Callable[..., Array],
    ) -> None:
        self.depth = 1 + max((s.depth for s in sources if isinstance(s, Derived)), default=0)

        def make() -> Array:
            # Of an original that nobody else has asked for, no copy is kept.
            arrays = [s.value if isinstance(s, Derived) else s.once() for s in sources]
            with np.errstate(all="ignore"):
                return np.asarray(compute(*arrays))

        super().__init__(dtype, shape, make)
        # A source that exists costs nothing; a chain of sources would recurse.
        if self.depth > DEEPEST or (self.size <= SMALL and all(s.is_drawn for s in sources)):
            self.depth = 0
            _ = self.value


def in_double(
    dtype: NumberType, compute: Callable[..., Array], narrow: int = 0
) -> Callable[..., Array]:
    """`compute` in float64, its result rounded once to `dtype`.

    narrow: so many of the arrays come as they are, to a `compute` that widens and rounds itself.
    """

    def wide(*arrays: Array) -> Array:
        widened = (a.astype(np.float64) for a in arrays[narrow:])
        return compute(*arrays[:narrow], *widened).astype(dtype.numpy, copy=False)

    return wide


def derived_weight(
    like: Symbol,
    shape: Sequence[int],
    sources: Sequence[Tensor],
    compute: Callable[..., Array],
    narrow: int = 0,
) -> Symbol:
    """A weight of `like`'s number type that `compute` gives in float64 from its sources' arrays.

    narrow: see `in_double`.
    """
    dtype = like.dtype
    value = Derived(dtype, tuple(shape), sources, in_double(dtype, compute, narrow))
    return constant(value) if value.is_drawn else make_weight(value)
