"""What the builders of operations share: ranks, casts, and zeros that are not stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType
from neuralsym.engines.flow.step import Step

Built = Symbol | Sequence[Symbol]
Build = Callable[[Step], Built]


def rank_of(step: Step, x: Symbol) -> int:
    if x.rank is None:
        step.wrong("the rank of its input is not known")
    return x.rank


def swapped(step: Step, x: Symbol) -> Symbol:
    """The last two axes exchanged."""
    rank = rank_of(step, x)
    if rank < 2:
        return x
    return ops.transpose(x, perm=(*range(rank - 2), rank - 1, rank - 2))


def flattened(x: Symbol) -> Symbol:
    return ops.reshape(x, np.array([-1]))


def zeros_for(shape: Sequence[int], like: Symbol) -> Symbol:
    """Zeros of a number type, of which none is stored."""
    return ops.expand(ops.constant(0, str(like.dtype)), np.array(shape, np.int64))


def ints(x: Symbol) -> Symbol:
    return x if x.dtype == NumberType.INT64 else ops.cast(x, to="int64")


def counted(x: Symbol) -> Symbol:
    """A number of elements, which Myelin holds in 32 bits."""
    return ops.cast(x, to="int32")
