"""The masks of attention joined into the one that ONNX's Attention takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.base import require_shape
from neuralsym.layers.masks import checked_mask


@dataclass(frozen=True)
class Masks:
    """What restricts attention; True where it is allowed.

    attention: bool or added numbers, [T, S], [N, T, S] or [N, heads, T, S]; query: bool [N, T];
    value, key: bool [N, S]; window: only keys less than so many places away.
    """

    attention: Symbol | None
    query: Symbol | None
    value: Symbol | None
    key: Symbol | None
    causal: bool
    window: int | None

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise BadAttribute(f"sliding_window={self.window}: must be at least 1")

    def none_for(self, what: str) -> None:
        """BadAttribute where there is any mask."""
        given = (self.attention, self.query, self.value, self.key, self.window)
        if self.causal or any(m is not None for m in given):
            raise BadAttribute(f"masks are not defined for {what}")

    def combined(self, q: Symbol, k: Symbol) -> Symbol | None:
        """All but the causal one, [N or 1, heads or 1, T or 1, S], for q [N, T, F], k [N, S, F]."""
        parts = []
        for mask, x, axes, what in (
            (self.query, q, [1, 3], "query_mask"),
            (self.value, k, [1, 2], "value_mask"),
            (self.key, k, [1, 2], "key_mask"),
        ):
            if mask is not None:
                parts.append(ops.unsqueeze(checked_mask(mask, x, what), axes))
        if self.window is not None:
            away = ops.abs(ops.unsqueeze(positions(q, 1), [1]) - positions(k, 1))
            parts.append(ops.unsqueeze(away < self.window, [0, 1]))
        added = None
        if self.attention is not None:
            mask = _four(self.attention)
            if mask.dtype.is_float:
                added = mask if mask.dtype == q.dtype else ops.cast(mask, to=q.dtype)
            else:
                parts.append(mask if mask.dtype == "bool" else ops.cast(mask, to="bool"))
        if not parts:
            return added
        joined = reduce(ops.and_, parts)
        if added is None:
            return joined
        return ops.where(joined, added, constant(np.array(-np.inf), str(q.dtype)))

    def combined_rows(self, scores: Symbol) -> Symbol | None:
        """The value mask and the causal one for scores [N, T, S]; what the others are has none."""
        parts = []
        if self.value is not None:
            parts.append(ops.unsqueeze(ops.cast(self.value, to="bool"), [1]))
        if self.causal:
            before = positions(scores, 2) <= ops.unsqueeze(positions(scores, 1), [1])
            parts.append(ops.unsqueeze(before, [0]))
        return reduce(ops.and_, parts) if parts else None


def positions(x: Symbol, axis: int) -> Symbol:
    """0, 1, ... along `axis` of x: int64 [its size]."""
    size = require_shape(x)[axis]
    if isinstance(size, int):
        return constant(np.arange(size, dtype=np.int64))
    count = ops.squeeze(ops.shape(x, start=axis, end=axis + 1), [0])
    return ops.range(0, count, 1)


def largest_negative(x: Symbol) -> float:
    """A score that the softmax makes 0 beside any other, and that alone is no NaN."""
    return -65504.0 if x.dtype == "float16" else -1e9


def _four(mask: Symbol) -> Symbol:
    rank = len(require_shape(mask))
    if rank == 3:
        return ops.unsqueeze(mask, [1])
    if rank not in (2, 4):
        raise ShapeMismatch(
            f"attention_mask is [T, S], [N, T, S] or [N, heads, T, S], came {mask.type}"
        )
    return mask
