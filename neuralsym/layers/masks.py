"""Which steps of a sequence count: masks as tensors beside the values.

A mask is a bool [N, T], False where a step is padding. Nothing follows a value about unseen:
`masking` and `embedding(mask_zero=True)` give (values, mask), which recurrent layers take as it is
and attention by its settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import ShapeMismatch, TypeMismatch
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import plain_layer


@plain_layer
def masking(
    x: Symbol, mask_value: float = 0.0, *, name: str | None = None
) -> tuple[Symbol, Symbol]:
    """The values and their mask: [N, T, F] -> ([N, T, F], bool [N, T]).

    A step counts unless all its features equal mask_value; the values of the others become 0. The
    pair goes into a recurrent layer as it is: `x | masking() | lstm(8)`. A layer behind that needs
    it again: `values, mask = masking()(x)`, then `lstm(8, mask=mask)`.

    Keras Masking (there the mask follows the value unseen); ONNX Equal, ReduceMin, Where.
    """
    require_shape(x, rank=3)
    same = ops.cast(ops.equal(x, mask_value), to="int32")
    mask = ops.equal(ops.reduce_min(same, [-1], keepdims=0), 0)
    return ops.where(ops.unsqueeze(mask, [-1]), x, 0.0), mask


def checked_mask(mask: Symbol, x: Symbol, what: str = "mask") -> Symbol:
    """The mask [N, T] of x [N, T, ...] as bool; TypeMismatch or ShapeMismatch where it is none."""
    if not (mask.dtype == "bool" or mask.dtype.is_integer):
        raise TypeMismatch(f"{what} is bool, True where a step counts; came {mask.type}")
    if mask.rank not in (None, 2):
        raise ShapeMismatch(f"{what} is [N, T], came {mask.type}")
    for axis, (m, n) in enumerate(zip(mask.shape or (), (x.shape or ())[:2], strict=False)):
        if isinstance(m, int) and isinstance(n, int) and m != n:
            raise ShapeMismatch(f"{what} {mask.type} does not fit {x.type} along axis {axis}")
    return mask if mask.dtype == "bool" else ops.cast(mask, to="bool")


@dataclass(frozen=True)
class Packed:
    """A masked sequence with its valid steps first, and how to put results back in their places."""

    values: Symbol
    lengths: Symbol
    mask: Symbol

    @staticmethod
    def of(x: Symbol, mask: Symbol) -> Packed:
        """x [N, T, F] with the steps where mask [N, T] is True moved to the front, in order."""
        size = require_shape(x)[1]
        steps: Any
        if isinstance(size, int):
            count: Any = [size]
            steps = constant(np.arange(size, dtype=np.int64))
        else:
            count = ops.shape(x, start=1, end=2)
            steps = ops.range(0, ops.squeeze(count, [0]), 1)
        late = ops.where(mask, steps, steps + count)
        _, order = ops.top_k(late, count, axis=1, largest=0)
        values = ops.gather_nd(x, ops.unsqueeze(order, [-1]), batch_dims=1)
        lengths = ops.reduce_sum(ops.cast(mask, to="int32"), [1], keepdims=0)
        return Packed(values, lengths, mask)

    def back(self, y: Symbol, *, zero: bool, reverse: bool = False) -> Symbol:
        """y [N, T, F] with each valid step's row where that step was.

        A masked step has the row of the valid one before it (behind it if reverse), zeros where
        there is none; all masked steps have zeros if `zero`.
        """
        whole = ops.cast(self.mask, to="int64")
        seen = ops.cum_sum(whole, 1)
        if zero:
            known, place = self.mask, seen - 1
        elif reverse:
            place = seen - whole
            known = place < ops.cast(ops.unsqueeze(self.lengths, [1]), to="int64")
        else:
            place = seen - 1
            known = place >= 0
        place = ops.where(known, place, 0)
        rows = ops.gather_nd(y, ops.unsqueeze(place, [-1]), batch_dims=1)
        return ops.where(ops.unsqueeze(known, [-1]), rows, 0.0)
