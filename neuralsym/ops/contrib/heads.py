"""The parts of attention that its operators share: heads, masks, caches, the weighted sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType
from neuralsym.ops.contrib.base import (
    Given,
    RankUnknown,
    cast,
    counted,
    flipped,
    numbers,
    op,
    part,
    rank_of,
    reshape,
    shape_of,
    size,
    squeeze,
    transpose,
    unsqueeze,
)

LOWEST = {
    NumberType.FLOAT32: float(np.finfo(np.float32).min),
    NumberType.FLOAT64: float(np.finfo(np.float32).min),
    NumberType.FLOAT16: -65504.0,
    NumberType.BFLOAT16: -3.3895314e38,
}
"""What excludes a key for good: no sum with it can be brought back."""


def width(x: Symbol, axis: int = -1) -> int:
    """A size that must be a number, such as that of the hidden axis."""
    found = shape_of(x)[axis]
    if not isinstance(found, int):
        raise RankUnknown
    return found


def split_heads(given: Given, x: Symbol, heads: int) -> Symbol:
    """[batch, length, heads*size] as [batch, heads, length, size]."""
    hidden = width(x)
    if hidden % heads:
        given.fail(f"{hidden} columns cannot be shared by {heads} heads")
    return transpose(reshape(x, 0, 0, heads, hidden // heads), 0, 2, 1, 3)


def merged(x: Symbol) -> Symbol:
    """[batch, heads, length, size] as [batch, length, heads*size]."""
    return reshape(transpose(x, 0, 2, 1, 3), 0, 0, width(x, 1) * width(x, 3))


def scale_of(given: Given, head_size: int) -> float:
    """The factor of the products: that of the attribute, or 1/sqrt(head size) for none or 0."""
    return float(given.attr("scale") or 1.0 / math.sqrt(head_size))


def scores(q: Symbol, k: Symbol, scale: float, bias: Sequence[Symbol | None] = ()) -> Symbol:
    """q k^T * scale plus what is given, over [batch, heads, queries, keys]."""
    made = op("MatMul", q, flipped(k)) * scale
    for term in bias:
        if term is not None:
            made = made + term
    return made


def causal(queries: Symbol, keys: Symbol, past: Symbol | None) -> Symbol:
    """Which of the keys come no later than each query: bool[queries, keys].

    queries, keys: their numbers, as vectors of one; past: how many keys came before the queries.
    """
    rows = unsqueeze(counted(queries), 1)
    if past is not None:
        rows = rows + past
    return op("LessOrEqual", unsqueeze(counted(keys), 0), rows)


def excluded(dtype: NumberType, kept: Symbol, value: float) -> Symbol:
    """0 where kept, `value` elsewhere."""
    return op("Where", kept, numbers(0.0, dtype), numbers(value, dtype))


def masked(
    given: Given,
    mask: Symbol | None,
    q: Symbol,
    k: Symbol,
    past: Symbol | None,
) -> Symbol | None:
    """What the mask and the order of time add to the scores; None where nothing is.

    mask: 1 for keys that count, [batch, keys], [batch, queries, keys] or [batch, 1, most, most]; or
    the ends of the rows, and their starts behind the ends where it is twice as long as the batch.
    """
    dtype = q.dtype
    value = given.attr("mask_filter_value")
    value = -10000.0 if value is None else value
    made = None
    if mask is not None:
        kept = _kept(mask, q, k)
        made = excluded(dtype, kept, value)
    if given.attr("unidirectional"):
        order = causal(size(q, 2), size(k, 2), past)
        below = numbers(LOWEST[dtype], dtype)
        made = op("Where", order, numbers(0.0, dtype) if made is None else made, below)
    return made


def _kept(mask: Symbol, q: Symbol, k: Symbol) -> Symbol:
    """Which keys count, to be broadcast over [batch, heads, queries, keys]."""
    zero = numbers(0, mask.dtype)
    rank = rank_of(mask)
    if rank == 1:
        return _between(mask, q, k)
    if rank == 2:
        return unsqueeze(op("Greater", mask, zero), 1, 2)
    if rank == 3:
        return unsqueeze(op("Greater", mask, zero), 1)
    last = size(k, 2)
    rows = part(mask, 2, last - size(q, 2), last)
    return op("Greater", part(rows, 3, 0, last), zero)


def _between(ends: Symbol, q: Symbol, k: Symbol) -> Symbol:
    """Which keys lie before the end of their row, and not before its start if there are starts."""
    batch, places = size(q, 0), cast(counted(size(k, 2)), ends.dtype)
    kept = op("Less", places, unsqueeze(part(ends, 0, 0, batch), 1))
    count, rows = shape_of(ends)[0], shape_of(q)[0]
    if count is not None and rows is not None and count in (rows, 3 * rows + 2):
        return unsqueeze(kept, 1, 2)
    if count is not None and rows is not None and count == 2 * rows:
        starts = part(ends, 0, batch, batch + batch)
    else:
        # Only the run knows whether starts follow the ends.
        padded = op("Concat", ends, op("Expand", numbers(0, ends.dtype), batch), axis=0)
        twice = op("Equal", size(ends, 0), batch + batch)
        starts = part(padded, 0, batch, batch + batch) * cast(twice, ends.dtype)
    return unsqueeze(op("And", kept, op("GreaterOrEqual", places, unsqueeze(starts, 1))), 1, 2)


def joined(past: Symbol | None, new: Symbol) -> Symbol:
    """The keys or values that came before and the new ones, [batch, heads, length, size]."""
    return new if past is None else op("Concat", past, new, axis=2)


def written_at(past: Symbol, new: Symbol, start: Symbol, fresh: Symbol | None = None) -> Symbol:
    """`past` with `new`, or the first `fresh` of it, in the places from `start` on, along axis 2.

    start, fresh: int64, one for all or [batch, 1]. Every place is asked what belongs there, so that
    the shape is that of `past` whatever the start.
    """
    place = counted(size(past, 2)) - start
    count = size(new, 2)
    below = op("Less", place, count if fresh is None else fresh)
    inside = op("And", op("GreaterOrEqual", place, numbers(0, "int64")), below)
    index = op("Clip", place, numbers(0, "int64"), squeeze(count, 0) - numbers(1, "int64"))
    if rank_of(place) == 1:
        moved = op("Gather", new, index, axis=2)
        return op("Where", unsqueeze(inside, 0, 2), moved, past)
    at = unsqueeze(index, 1, 3)
    full = op("Concat", op("Shape", new, end=2), size(past, 2), size(new, 3), axis=0)
    moved = op("GatherElements", new, op("Expand", at, full), axis=2)
    return op("Where", unsqueeze(inside, 1, 3), moved, past)


def weighted(probabilities: Symbol, v: Symbol) -> Symbol:
    """The values summed by their weights, heads side by side: [batch, queries, heads*size]."""
    return merged(op("MatMul", probabilities, v))


def softmax(x: Symbol) -> Symbol:
    return op("Softmax", x, axis=-1)
