"""The caches of keys and values of grouped attention: growing or of a window, real or quantised."""

from __future__ import annotations

from dataclasses import dataclass

from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType
from neuralsym.errors import TypeMismatch
from neuralsym.ops.base import bad, check_choice
from neuralsym.ops.contrib.base import (
    Given,
    cast,
    counted,
    numbers,
    op,
    reshape,
    several,
    size,
    sizes,
    squeeze,
    unsqueeze,
    whole,
)
from neuralsym.ops.contrib.heads import width, written_at
from neuralsym.ops.contrib.packed import unpacked


@dataclass(frozen=True)
class Seen:
    """What the queries attend to, and the caches that are given back.

    places: the positions of the keys in their sequences, int64; filled: which keys there are, both
    over [batch or 1, 1, keys]. bias: what is added to the scores of [..., queries, keys].
    """

    keys: Symbol
    values: Symbol
    places: Symbol
    filled: Symbol
    bias: Symbol | None
    presents: tuple[Symbol, Symbol]


def grown(given: Given, k: Symbol, v: Symbol, start: Symbol, fresh: Symbol, totals: Symbol) -> Seen:
    """The caches with the new keys and values behind the old ones.

    start: int64[batch, 1], how many there were; fresh: how many of the new ones count; totals:
    int64[batch, 1], how many there are.
    """
    presents = (
        _present(given, 3, coded(given, "k", k), start, fresh),
        _present(given, 4, coded(given, "v", v), start, fresh),
    )
    most = size(presents[0], 2)
    places = unsqueeze(counted(most), 0, 1)
    return Seen(
        decoded(given, "k", presents[0], k),
        decoded(given, "v", presents[1], v),
        places,
        op("Less", places, unsqueeze(totals, 1)),
        _as_long(given[10], most) if given.has(10) else None,
        presents,
    )


def windowed(
    given: Given, k: Symbol, v: Symbol, start: Symbol, fresh: Symbol, totals: Symbol
) -> Seen:
    """Caches that keep the last positions only, in order from their first row on.

    All old rows and all new ones are there for the queries; a new cache of the old length is made
    of those that stay. How many stay follows from the total alone.
    """
    zero, one = numbers(0, "int64"), numbers(1, "int64")
    joined = [
        op("Concat", given[at], coded(given, which, x), axis=2)
        for at, which, x in ((3, "k", k), (4, "v", v))
    ]
    capacity = size(given[3], 2)
    old, new = unsqueeze(counted(capacity), 0), unsqueeze(counted(size(k, 2)), 0)
    before, after = _resident(given, start, capacity), _resident(given, totals, capacity)
    places = op("Concat", start - before + old, start + new, axis=1)
    filled = op(
        "Concat",
        op("Less", old, before),
        op("Less", new, op("Expand", fresh, op("Shape", start))),
        axis=1,
    )
    # A row that stays is either one of the old ones or one of those behind them.
    at = totals - after + old
    index = op("Where", op("Less", at, start), at - start + before, at - start + capacity)
    last = squeeze(capacity + size(k, 2), 0) - one
    index = unsqueeze(op("Clip", index, zero, last), 1, 3)
    stays = unsqueeze(op("Less", old, after), 1, 3)
    presents = []
    for x in joined:
        shape = op("Concat", op("Shape", x, end=2), capacity, size(x, 3), axis=0)
        kept = op("GatherElements", x, op("Expand", index, shape), axis=2)
        presents.append(op("Where", stays, kept, numbers(0, x.dtype)))
    bias = None
    if given.has(10):
        # The columns of the bias are positions.
        bias = given[10]
        column = op("Clip", places, zero, squeeze(size(bias, 3), 0) - one)
        wanted = [size(bias, 1), size(bias, 2), size(places, 1)]
        full = op("Concat", size(k, 0), *wanted, axis=0)
        rows = op("Expand", bias, op("Concat", size(k, 0), op("Shape", bias, start=1), axis=0))
        bias = op("GatherElements", rows, op("Expand", unsqueeze(column, 1, 2), full), axis=3)
    return Seen(
        decoded(given, "k", joined[0], k),
        decoded(given, "v", joined[1], v),
        unsqueeze(places, 1),
        unsqueeze(filled, 1),
        bias,
        (presents[0], presents[1]),
    )


def _resident(given: Given, total: Symbol, capacity: Symbol) -> Symbol:
    """How many of the last positions a windowed cache holds after `total` have been seen.

    It forgets several at once: as many as it has rows beyond the window, and one.
    """
    zero, one = numbers(0, "int64"), numbers(1, "int64")
    slack = capacity - numbers(given.attr("local_window_size") - 1, "int64")
    over = op("Max", total - capacity, zero)
    return total - (over + slack - one) / slack * slack


SCALES = {"k": 12, "v": 13}
"""The inputs that hold the scales of a quantised cache."""


def check_cache(call: Call) -> None:
    """A windowed cache has a window, a quantised one scales and the type of its bits."""
    check_choice(call, "sliding_window_cache", (0, 1))
    if call.attr("sliding_window_cache"):
        if not call.has(3) or call.attr("local_window_size") < 1:
            call.fail(
                "sliding_window_cache=1 needs past_key, past_value and local_window_size", bad
            )
        if call.count > 3:
            call.fail("the scores over a windowed cache are not shown: ask for three outputs", bad)
        shape = call.shape(3)
        rows = None if shape is None else shape[2]
        if isinstance(rows, int) and rows < call.attr("local_window_size"):
            call.fail(f"the caches have {rows} rows, less than local_window_size", bad)
    for which, at in SCALES.items():
        name = f"{which}_quant_type"
        check_choice(call, name, ("NONE", "PER_TENSOR", "PER_CHANNEL"))
        if call.attr(name) == "NONE":
            continue
        check_choice(call, "kv_cache_bit_width", (4, 8))
        if not call.has(3) or not call.has(at):
            call.fail(
                f"{name}={call.attr(name)!r} needs past_key, past_value and {which}_scale", bad
            )
        wanted = NumberType.UINT8 if call.attr("kv_cache_bit_width") == 4 else NumberType.INT8
        if call.dtype(3) is not wanted:
            bits = call.attr("kv_cache_bit_width")
            call.fail(f"a cache of {bits} bits is {wanted}, not {call.dtype(3)}", TypeMismatch)


def coded(given: Given, which: str, x: Symbol) -> Symbol:
    """New keys or values as the cache holds them: int8, or two numbers of four bits in a byte."""
    if given.attr(f"{which}_quant_type") == "NONE":
        return x
    levels = op("Round", cast(x, "float32") / given[SCALES[which]])
    if given.attr("kv_cache_bit_width") != 4:
        return cast(op("Clip", levels, -128.0, 127.0), "int8")
    codes = cast(op("Clip", levels, -8.0, 7.0) + 8.0, "uint8")
    halves = reshape(codes, 0, 0, 0, width(x) // 2, 2)
    low, high = (squeeze(h, 4) for h in several("Split", [halves], 2, axis=4, num_outputs=2))
    return op("BitwiseOr", low, op("BitShift", high, numbers(4, "uint8"), direction="LEFT"))


def decoded(given: Given, which: str, cache: Symbol, new: Symbol) -> Symbol:
    """The numbers of the cache in the type of the new ones."""
    if given.attr(f"{which}_quant_type") == "NONE":
        return cache
    if given.attr("kv_cache_bit_width") == 4:
        levels = cast(unpacked(cache, 4), "float32") - 8.0
    else:
        levels = cast(cache, "float32")
    return cast(levels * given[SCALES[which]], new.dtype)


def _present(given: Given, at: int, new: Symbol, start: Symbol, fresh: Symbol) -> Symbol:
    """The cache with `fresh` new keys or values from `start` on: as long as all, or as it was."""
    zero = numbers(0, new.dtype)
    total = reshape(cast(given[6], "int64"), 1)
    if not given.has(at):
        base = op(
            "Expand", zero, op("Concat", op("Shape", new, end=2), total, size(new, 3), axis=0)
        )
        return written_at(base, new, start, fresh)
    past = cast(given[at], new.dtype)
    before = size(past, 2)
    more = op("Max", total - before, numbers(0, "int64"))
    pads = sizes(0, 0, 0, 0, 0, 0, more, 0)
    base = op("Pad", past, pads)
    kept = op("Less", unsqueeze(counted(size(base, 2)), 0), start)
    return written_at(op("Where", unsqueeze(kept, 1, 3), base, zero), new, start, fresh)


def _as_long(bias: Symbol, most: Symbol) -> Symbol:
    """The bias for all places of the cache, which may be longer than the sequence."""
    if bias.shape is not None and most.known is not None and [bias.shape[3]] == most.known.tolist():
        return bias
    zero = numbers(0, "int64")
    more = op("Max", most - size(bias, 3), numbers(0, "int64"))
    return op("Pad", bias, op("Concat", op("Expand", zero, whole(7)), more, axis=0))
