"""Attention whose heads of keys serve several heads of queries, and the rotary positions."""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
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
from neuralsym.ops.contrib.cache import Seen, check_cache, grown, windowed
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
)

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
        check_cache(call)

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
        seen = (windowed if given.attr("sliding_window_cache") else grown)(
            given, k, v, start, fresh, totals
        )
        products = _products(given, q, seen)
        kept = _kept(given, seen, start, size(q, 2))
        below = excluded(products.dtype, kept, LOWEST[products.dtype])
        likely = _probabilities(given, products + below, seen.keys)
        groups = sizes(size(q, 0), given.attr("kv_num_heads"), -1, size(seen.keys, 2))
        summed = op("MatMul", op("Reshape", likely, groups), seen.values)
        y = merged(op("Reshape", summed, op("Shape", q)))
        if given.count < 4:
            return [y, *seen.presents][: given.count]
        zero = numbers(0, products.dtype)
        shown = likely if given.attr("qk_output") == 2 else op("Where", kept, products, zero)
        total = reshape(cast(given[6], "int64"), 1)
        return [y, *seen.presents, part(shown, 3, 0, total)]


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


def _products(given: Given, q: Symbol, seen: Seen) -> Symbol:
    """The scaled products plus the bias, [batch, heads, queries, keys]."""
    keys = seen.keys
    kv_heads, heads = given.attr("kv_num_heads"), given.attr("num_heads")
    batch, length, most = size(q, 0), size(q, 2), size(keys, 2)
    rows = op("Reshape", q, sizes(batch, kv_heads, -1, width(q)))
    made = op("MatMul", rows, flipped(keys)) * scale_of(given, width(q))
    made = op("Reshape", made, sizes(batch, heads, length, most))
    cap = given.attr("softcap")
    if cap:
        made = op("Tanh", made / cap) * cap
    return made if seen.bias is None else made + seen.bias


def _kept(given: Given, seen: Seen, start: Symbol, length: Symbol) -> Symbol:
    """Which keys each query sees: bool[batch, 1, queries, keys]."""
    kept = seen.filled
    if given.attr("causal"):
        own = unsqueeze(start + unsqueeze(counted(length), 0), 2)
        kept = op("And", kept, op("LessOrEqual", seen.places, own))
        window = given.attr("local_window_size")
        if window > 0:
            kept = op("And", kept, op("Greater", seen.places, own - numbers(window, "int64")))
    return unsqueeze(kept, 1)


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
