"""Attention whose heads of keys serve several heads of queries, and the rotary positions."""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType
from neuralsym.errors import TypeMismatch
from neuralsym.ops.base import bad, check_choice, check_range
from neuralsym.ops.contrib.base import (
    Contrib,
    Given,
    cast,
    counted,
    flipped,
    numbers,
    op,
    part,
    reshape,
    scalar,
    several,
    size,
    sizes,
    squeeze,
    unsqueeze,
    whole,
)
from neuralsym.ops.contrib.declare import (
    BYTES,
    FLOAT,
    FLOATS,
    INT32,
    INT64,
    declare,
    needed,
    optional,
)
from neuralsym.ops.contrib.heads import (
    LOWEST,
    excluded,
    merged,
    scale_of,
    softmax,
    split_heads,
    width,
    written_at,
)
from neuralsym.ops.contrib.packed import unpacked

_MOST_HEADS = 2**20


class RotaryEmbedding(Contrib):
    """Pairs of features turned by angles that grow with the position (arXiv 2104.09864).

    One position stands for the first of each row, those behind it follow.
    """

    schema = declare(
        "RotaryEmbedding",
        "input:T position_ids:M cos_cache:T sin_cache:T",
        "output:T",
        {"T": FLOATS, "M": INT64},
        {
            "interleaved": optional("INT"),
            "is_packed_batching": optional("INT"),
            "num_heads": optional("INT"),
            "rotary_embedding_dim": optional("INT"),
            "scale": optional("FLOAT"),
        },
    )
    ranks = "input:3,4 position_ids:1,2 cos_cache:2 sin_cache:2"

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        x, positions = given[0], given[1]
        turned = 2 * width(given[2])
        heads = given.attr("num_heads") or 0
        flat = given.rank(0) == 3
        if flat:
            if not given.attr("rotary_embedding_dim") or not heads:
                heads = width(x) // turned
            if not heads or width(x) % heads:
                given.fail(f"{width(x)} columns cannot be shared by heads of {turned}")
        length = size(x, 1 if flat else 2)
        if given.rank(1) == 1:
            rows = unsqueeze(counted(length) + positions, 0)
            positions = op("Expand", rows, sizes(size(x, 0), length))
        y = op(
            "RotaryEmbedding",
            x,
            given[2],
            given[3],
            positions,
            interleaved=given.attr("interleaved") or 0,
            num_heads=heads if flat else None,
            rotary_embedding_dim=turned,
        )
        return [y]


class GroupQueryAttention(Contrib):
    """Attention over a cache of keys and values; a head of keys serves several of queries.

    Q, K and V are [batch, length, heads*size], or side by side in query. seqlens_k counts the keys
    of each row less one; the new ones end there. What the cache holds behind them is zero.
    """

    schema = declare(
        "GroupQueryAttention",
        "query:T key:T? value:T? past_key:C? past_value:C? seqlens_k:M total_sequence_length:M "
        "cos_cache:T? sin_cache:T? position_ids:I? attention_bias:T? head_sink:T? k_scale:F? "
        "v_scale:F? q_norm_weight:T? k_norm_weight:T? query_seqlens:M?",
        "output:T present_key:C? present_value:C? output_qk:T?",
        {"T": FLOATS, "C": (*FLOATS, *BYTES, "float8e4m3fn"), "M": INT32, "I": INT64, "F": FLOAT},
        {
            "causal": 1,
            "do_rotary": optional("INT"),
            "k_norm_epsilon": optional("FLOAT"),
            "k_quant_type": "NONE",
            "kv_cache_bit_width": optional("INT"),
            "kv_num_heads": needed("INT"),
            "local_window_size": -1,
            "num_heads": needed("INT"),
            "q_norm_epsilon": optional("FLOAT"),
            "qk_norm_epsilon": 1e-6,
            "qk_output": 0,
            "rotary_interleaved": optional("INT"),
            "scale": optional("FLOAT"),
            "sliding_window_cache": 0,
            "smooth_softmax": -1,
            "softcap": optional("FLOAT"),
            "v_quant_type": "NONE",
        },
    )
    ranks = (
        "query:3 key:3 value:3 past_key:4 past_value:4 cos_cache:2 sin_cache:2 position_ids:2 "
        "attention_bias:4 head_sink:1 q_norm_weight:1 k_norm_weight:1"
    )

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        for name in ("num_heads", "kv_num_heads"):
            check_range(call, name, 1, _MOST_HEADS)
        if call.attr("num_heads") % call.attr("kv_num_heads"):
            call.fail("num_heads is no multiple of kv_num_heads", bad)
        check_choice(call, "causal", (0, 1))
        check_choice(call, "qk_output", (0, 1, 2))
        if call.has(1) is not call.has(2) or call.has(3) is not call.has(4):
            call.fail("keys and values come together: one of a pair is missing", bad)
        if call.attr("do_rotary") and not (call.has(7) and call.has(8)):
            call.fail("do_rotary=1 needs cos_cache and sin_cache", bad)
        _check_cache(call)
        if call.attr("sliding_window_cache"):
            call.fail("sliding_window_cache=1, a cache that forgets, is not supported", bad)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        q, k, v = _heads(given)
        length = size(k, 2)
        totals = unsqueeze(cast(given[5], "int64"), 1) + numbers(1, "int64")
        fresh = unsqueeze(cast(given[16], "int64"), 1) if given.has(16) else length
        start = op("Max", totals - fresh, numbers(0, "int64"))
        if given.attr("do_rotary"):
            at = _positions(given, start, q)
            q, k = _turned(given, q, at), _turned(given, k, at)
        caches = (
            _present(given, 3, _coded(given, "k", k), start, fresh),
            _present(given, 4, _coded(given, "v", v), start, fresh),
        )
        keys, values = _decoded(given, "k", caches[0], k), _decoded(given, "v", caches[1], v)
        products = _products(given, q, keys)
        kept = _kept(given, start, totals, size(q, 2), size(keys, 2))
        below = excluded(products.dtype, kept, LOWEST[products.dtype])
        likely = _probabilities(given, products + below, keys)
        groups = sizes(size(q, 0), given.attr("kv_num_heads"), -1, size(keys, 2))
        summed = op("MatMul", op("Reshape", likely, groups), values)
        y = merged(op("Reshape", summed, op("Shape", q)))
        if given.count < 4:
            return [y, *caches][: given.count]
        zero = numbers(0, products.dtype)
        shown = likely if given.attr("qk_output") == 2 else op("Where", kept, products, zero)
        total = reshape(cast(given[6], "int64"), 1)
        return [y, *caches, part(shown, 3, 0, total)]


_SCALES = {"k": 12, "v": 13}
"""The inputs that hold the scales of a quantised cache."""


def _check_cache(call: Call) -> None:
    """A quantised cache has scales, and the type of its bits."""
    for which, at in _SCALES.items():
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


def _coded(given: Given, which: str, x: Symbol) -> Symbol:
    """New keys or values as the cache holds them: int8, or two numbers of four bits in a byte."""
    if given.attr(f"{which}_quant_type") == "NONE":
        return x
    levels = op("Round", cast(x, "float32") / given[_SCALES[which]])
    if given.attr("kv_cache_bit_width") != 4:
        return cast(op("Clip", levels, -128.0, 127.0), "int8")
    codes = cast(op("Clip", levels, -8.0, 7.0) + 8.0, "uint8")
    halves = reshape(codes, 0, 0, 0, width(x) // 2, 2)
    low, high = (squeeze(h, 4) for h in several("Split", [halves], 2, axis=4, num_outputs=2))
    return op("BitwiseOr", low, op("BitShift", high, numbers(4, "uint8"), direction="LEFT"))


def _decoded(given: Given, which: str, cache: Symbol, new: Symbol) -> Symbol:
    """The numbers of the cache in the type of the new ones."""
    if given.attr(f"{which}_quant_type") == "NONE":
        return cache
    if given.attr("kv_cache_bit_width") == 4:
        levels = cast(unpacked(cache, 4), "float32") - 8.0
    else:
        levels = cast(cache, "float32")
    return cast(levels * given[_SCALES[which]], new.dtype)


def _heads(given: Given) -> tuple[Symbol, Symbol, Symbol]:
    """Q, K and V over [batch, heads, length, size]; normalised where weights say so."""
    heads, kv_heads = given.attr("num_heads"), given.attr("kv_num_heads")
    columns: Sequence[Symbol] = [s for s in given.inputs[:3] if s is not None]
    if len(columns) == 1:
        total = width(given[0])
        if total % (heads + 2 * kv_heads):
            given.fail(f"{total} columns cannot be shared by {heads} + 2*{kv_heads} heads")
        one = total // (heads + 2 * kv_heads)
        parts = whole(heads * one, kv_heads * one, kv_heads * one)
        columns = several("Split", [given[0], parts], 3, axis=-1)
    q = split_heads(given, columns[0], heads)
    k, v = (split_heads(given, x, kv_heads) for x in columns[1:])
    usual = given.attr("qk_norm_epsilon")
    if given.has(14):
        epsilon = given.attr("q_norm_epsilon") or usual
        q = op("RMSNormalization", q, given[14], axis=-1, epsilon=epsilon)
    if given.has(15):
        epsilon = given.attr("k_norm_epsilon") or usual
        k = op("RMSNormalization", k, given[15], axis=-1, epsilon=epsilon)
    return q, k, v


def _positions(given: Given, start: Symbol, q: Symbol) -> Symbol:
    """The place of each new query in its sequence: [batch, length]."""
    length = size(q, 2)
    steps = unsqueeze(counted(length), 0)
    if given.has(9):
        # A prompt takes the first position only, those behind it follow.
        first = reshape(part(reshape(given[9], -1), 0, 0, 1), 1, 1)
        prompt = op("Equal", cast(scalar(given[6]), "int64"), squeeze(length, 0))
        made = op("Where", prompt, first + steps, given[9])
    else:
        made = start + steps
    last = squeeze(size(given[7], 0), 0) - numbers(1, "int64")
    return op("Clip", made, numbers(0, "int64"), last)


def _turned(given: Given, x: Symbol, positions: Symbol) -> Symbol:
    return op(
        "RotaryEmbedding",
        x,
        given[7],
        given[8],
        positions,
        interleaved=given.attr("rotary_interleaved") or 0,
        rotary_embedding_dim=2 * width(given[7]),
    )


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


def _products(given: Given, q: Symbol, keys: Symbol) -> Symbol:
    """The scaled products plus the bias, [batch, heads, queries, keys]."""
    kv_heads, heads = given.attr("kv_num_heads"), given.attr("num_heads")
    batch, length, most = size(q, 0), size(q, 2), size(keys, 2)
    rows = op("Reshape", q, sizes(batch, kv_heads, -1, width(q)))
    made = op("MatMul", rows, flipped(keys)) * scale_of(given, width(q))
    made = op("Reshape", made, sizes(batch, heads, length, most))
    cap = given.attr("softcap")
    if cap:
        made = op("Tanh", made / cap) * cap
    if given.has(10):
        made = made + _as_long(given[10], most)
    return made


def _kept(given: Given, start: Symbol, totals: Symbol, length: Symbol, most: Symbol) -> Symbol:
    """Which places of the cache each query sees: bool[batch, 1, queries, keys]."""
    places = unsqueeze(counted(most), 0, 1)
    kept = op("Less", places, unsqueeze(totals, 1))
    if given.attr("causal"):
        own = unsqueeze(start + unsqueeze(counted(length), 0), 2)
        kept = op("And", kept, op("LessOrEqual", places, own))
        window = given.attr("local_window_size")
        if window > 0:
            kept = op("And", kept, op("Greater", places, own - numbers(window, "int64")))
    return unsqueeze(kept, 1)


def _as_long(bias: Symbol, most: Symbol) -> Symbol:
    """The bias for all places of the cache, which may be longer than the sequence."""
    if bias.shape is not None and most.known is not None and [bias.shape[3]] == most.known.tolist():
        return bias
    zero = numbers(0, "int64")
    more = op("Max", most - size(bias, 3), numbers(0, "int64"))
    return op("Pad", bias, op("Concat", op("Expand", zero, whole(7)), more, axis=0))


def _probabilities(given: Given, raw: Symbol, keys: Symbol) -> Symbol:
    """Softmax over the keys, and over one more score that has no value where a sink is given."""
    if not given.has(11) and given.attr("smooth_softmax") != 1:
        return softmax(raw)
    column = numbers(0, raw.dtype)
    if given.has(11):
        column = reshape(given[11], 1, given.attr("num_heads"), 1, 1)
    column = op(
        "Expand", column, op("Concat", op("Shape", raw, end=3), numbers([1], "int64"), axis=0)
    )
    wide = softmax(op("Concat", raw, column, axis=-1))
    return part(wide, 3, 0, size(keys, 2))
