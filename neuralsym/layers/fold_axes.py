"""Several axes as one, and back: what attention over images or videos runs on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.base import require_shape


@dataclass(frozen=True)
class Folded:
    """x [N, ..., F] as values [N * others, attended, F]."""

    values: Symbol
    axes: tuple[int, ...]
    others: tuple[int, ...]
    order: tuple[int, ...]
    sizes: tuple[int, ...]
    """Of the axes between batch and features, in the order others, attended."""

    @staticmethod
    def of(x: Symbol, axes: tuple[int, ...]) -> Folded:
        """The axes attended over become one, the others join the batch; all need fixed sizes."""
        rank = len(require_shape(x))
        if any(not 0 < a < rank - 1 for a in axes):
            raise BadAttribute(f"attention_axes={axes}: {x.type} has none such between its ends")
        others = tuple(a for a in range(1, rank - 1) if a not in axes)
        order = (0, *others, *axes, rank - 1)
        sizes = tuple(int(require_shape(x, axis=a)[a]) for a in order[1:-1])
        moved = x if order == tuple(range(rank)) else ops.transpose(x, perm=order)
        last = require_shape(x, axis=-1)[-1]
        length = math.prod(sizes[len(others) :])
        return Folded(ops.reshape(moved, [-1, length, last]), axes, others, order, sizes)

    def back(self, y: Symbol) -> Symbol:
        """y [N * others, attended, ...] with the axes of x before its own last ones."""
        tail = [int(n) for n in require_shape(y)[2:]]
        spread = ops.reshape(y, [-1, *self.sizes, *tail])
        perm = [self.order.index(a) for a in range(len(self.sizes) + 1)]
        perm += range(len(perm), len(perm) + len(tail))
        return spread if perm == sorted(perm) else ops.transpose(spread, perm=perm)


def folded(x: Symbol, axes: int | Sequence[int] | None) -> Folded:
    """x with these axes as one; all but the first and last where none are given."""
    rank = len(require_shape(x))
    if rank < 3:
        raise BadAttribute(f"attends along axes between batch and features, came {x.type}")
    given = (
        range(1, rank - 1)
        if axes is None
        else [axes]
        if isinstance(axes, (int, np.integer))
        else axes
    )
    return Folded.of(x, tuple(a % rank for a in given))
