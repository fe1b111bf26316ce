"""Attention over heads of one width: the projections fused in, or taken as they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.ops.base import bad, check_choice, check_range
from neuralsym.ops.contrib.base import (
    Contrib,
    Given,
    cast,
    op,
    rank_of,
    reshape,
    scalar,
    several,
    size,
    squeeze,
    transpose,
    unsqueeze,
    whole,
)
from neuralsym.ops.contrib.declare import BYTES, FLOATS, INT32, declare, needed, optional
from neuralsym.ops.contrib.heads import (
    joined,
    masked,
    scale_of,
    scores,
    softmax,
    split_heads,
    weighted,
    width,
    written_at,
)
from neuralsym.ops.contrib.quantised_linear import scaled_product

_TYPES = {"T": FLOATS, "M": INT32}
_COMMON = {
    "mask_filter_value": optional("FLOAT"),
    "num_heads": needed("INT"),
    "scale": optional("FLOAT"),
    "unidirectional": 0,
}
_CACHED = {
    "do_rotary": optional("INT"),
    "past_present_share_buffer": optional("INT"),
}
_MOST_HEADS = 2**20


class Projected(Contrib, abstract=True):
    """Attention of a sequence to itself; the products that make Q, K and V are part of it."""

    past_at: ClassVar[int]
    mask_at: ClassVar[int]

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_range(call, "num_heads", 1, _MOST_HEADS)
        check_choice(call, "unidirectional", (0, 1))
        if call.attr("do_rotary"):
            call.fail(
                "do_rotary=1 turns Q and K by positions that the operator itself does not define; "
                "use RotaryEmbedding or GroupQueryAttention",
                bad,
            )

    @classmethod
    def projection(cls, given: Given) -> Symbol:
        """Q, K and V side by side: [batch, length, q + k + v]."""
        raise NotImplementedError

    @classmethod
    def more_bias(cls, given: Given) -> Symbol | None:
        return None

    @classmethod
    def filled(cls, given: Given) -> Symbol | None:
        """How much of a shared buffer of past keys is filled, as a vector of one."""
        return None

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        heads = given.attr("num_heads")
        made = cls.projection(given)
        parts = given.attr("qkv_hidden_sizes") or [width(made) // 3] * 3
        if sum(parts) != width(made):
            given.fail(f"Q, K and V of {list(parts)} columns are not the {width(made)} of weights")
        columns = several("Split", [made, whole(*parts)], 3, axis=-1)
        q, k, v = (split_heads(given, x, heads) for x in columns)
        past = present = None
        length = None
        if given.has(cls.past_at):
            past = [squeeze(x, 0) for x in several("Split", [given[cls.past_at]], 2, num_outputs=2)]
            length = size(past[0], 2)
        start = cls.filled(given)
        if past is not None and start is not None:
            end = start + size(k, 2)
            k, v = written_at(past[0], k, start), written_at(past[1], v, start)
            present = [k, v]
            k, v = (op("Slice", x, whole(0), end, whole(2)) for x in (k, v))
            length = start
        elif past is not None:
            k, v = joined(past[0], k), joined(past[1], v)
        mask = masked(given, given.optional(cls.mask_at), q, k, length)
        terms = (mask, cls.more_bias(given))
        y = weighted(softmax(scores(q, k, scale_of(given, width(q)), terms)), v)
        if given.count == 1:
            return [y]
        present = present or [k, v]
        return [y, op("Concat", *(unsqueeze(x, 0) for x in present), axis=0)]


class Attention(Projected):
    """Attention of heads of a sequence to itself: softmax(Q K^T * scale + mask) V of x W + bias.

    past and present hold keys and values: [2, batch, heads, length, head size].
    """

    past_at, mask_at = 4, 3
    schema = declare(
        "Attention",
        "input:T weights:T bias:T? mask_index:M? past:T? attention_bias:T? past_sequence_length:M?",
        "output:T present:T?",
        _TYPES,
        {
            **_COMMON,
            **_CACHED,
            "qkv_hidden_sizes": optional("INTS"),
            "rotary_embedding_dim": optional("INT"),
        },
    )
    ranks = "input:3 weights:2 bias:1 mask_index:1,2,3,4 past:5 attention_bias:4"

    @classmethod
    def projection(cls, given: Given) -> Symbol:
        made = op("MatMul", given[0], given[1])
        return made + given[2] if given.has(2) else made

    @classmethod
    def more_bias(cls, given: Given) -> Symbol | None:
        return given.optional(5)

    @classmethod
    def filled(cls, given: Given) -> Symbol | None:
        if not given.attr("past_present_share_buffer") or not given.has(6):
            return None
        return reshape(cast(given[6], "int64"), 1)


class QAttention(Projected):
    """Attention whose input and weights are bytes; the bias and what follows are reals."""

    past_at, mask_at = 8, 5
    schema = declare(
        "QAttention",
        "input:T1 weight:T2 bias:T3 input_scale:T3 weight_scale:T3 mask_index:T4? "
        "input_zero_point:T1? weight_zero_point:T2? past:T3?",
        "output:T3 present:T3?",
        {"T1": BYTES, "T2": BYTES, "T3": ("float", "float16"), "T4": INT32},
        {**_COMMON, **_CACHED},
    )
    ranks = "input:3 weight:2 bias:1 mask_index:1,2,3,4 past:5"

    @classmethod
    def projection(cls, given: Given) -> Symbol:
        scale = scalar(given[3]) * given[4]
        zeros = given.optional(6), given.optional(7)
        return scaled_product(given[0], zeros[0], given[1], zeros[1], scale) + given[2]


class MultiHeadAttention(Contrib):
    """Attention of queries to keys and values that are projected already, plus a bias for them.

    query is [batch, length, hidden], or [batch, length, heads, 3, size] with key and value inside;
    key may hold the values as [batch, length, heads, 2, size], and keys and values may come as
    [batch, heads, length, size]. The fourth output are the scores before the softmax.
    """

    schema = declare(
        "MultiHeadAttention",
        "query:T key:T? value:T? bias:T? key_padding_mask:M? attention_bias:T? past_key:T? "
        "past_value:T? past_sequence_length:M? cache_indirection:M?",
        "output:T present_key:T? present_value:T? qk:T?",
        _TYPES,
        _COMMON,
    )
    ranks = (
        "query:3,5 key:3,4,5 value:3,4 bias:1 key_padding_mask:1,2,3 attention_bias:4 past_key:4 "
        "past_value:4"
    )

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_range(call, "num_heads", 1, _MOST_HEADS)
        check_choice(call, "unidirectional", (0, 1))
        if call.has(9):
            call.fail("cache_indirection belongs to beam search, which is not supported here", bad)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        q, k, v = _projected(given, given.optional(3))
        past = start = None
        if given.has(6):
            past = size(given[6], 2)
            if given.has(8):
                start = reshape(cast(given[8], "int64"), 1)
        return _cached_attention(
            given, q, k, v, past_at=6, past=past, start=start,
            mask=given.optional(4), bias=given.optional(5),
        )  # fmt: skip


def _cached_attention(
    given: Given,
    q: Symbol,
    k: Symbol,
    v: Symbol,
    *,
    past_at: int,
    past: Symbol | None,
    start: Symbol | None,
    mask: Symbol | None,
    bias: Symbol | None,
) -> list[Symbol]:
    """The weighted values, the keys and values with those of the past, the scores."""
    presents = None
    if past is not None and start is not None:
        # The past is a buffer of which only the places before `start` are filled.
        end = start + size(k, 2)
        presents = written_at(given[past_at], k, start), written_at(given[past_at + 1], v, start)
        k, v = (op("Slice", x, whole(0), end, whole(2)) for x in presents)
        past = start
    elif past is not None:
        k, v = joined(given[past_at], k), joined(given[past_at + 1], v)
    terms = (masked(given, mask, q, k, past), bias)
    raw = scores(q, k, scale_of(given, width(q)), terms)
    y = weighted(softmax(raw), v)
    return [y, *(presents or (k, v)), raw][: given.count]


def _projected(given: Given, bias: Symbol | None) -> tuple[Symbol, Symbol, Symbol]:
    """Q, K and V over [batch, heads, length, size], the bias added."""
    heads = given.attr("num_heads")
    query = given[0]
    if rank_of(query) == 5:
        q, k, v = (
            transpose(squeeze(x, 3), 0, 2, 1, 3)
            for x in several("Split", [query], 3, axis=3, num_outputs=3)
        )
        size_ = width(query, 4)
        return _biased(given, q, k, v, bias, (size_, size_, size_))
    q = split_heads(given, query, heads)
    if not given.has(1):
        if given.has(2):
            given.fail("value is given without key")
        hidden = width(query)
        columns = several("Split", [query], 3, axis=-1, num_outputs=3)
        if hidden % 3:
            given.fail(f"query alone holds Q, K and V, but {hidden} columns are no triple")
        q, k, v = (split_heads(given, x, heads) for x in columns)
        return _biased(given, q, k, v, bias, (width(q), width(k), width(v)))
    key, rank = given[1], given.rank(1)
    if rank == 5:
        k, v = (
            transpose(squeeze(x, 3), 0, 2, 1, 3)
            for x in several("Split", [key], 2, axis=3, num_outputs=2)
        )
    elif not given.has(2):
        given.fail("value is needed where key does not hold it")
    elif rank == 4:
        # Keys and values of an encoder come projected; only the queries take their bias.
        k, v = key, given[2]
        if bias is not None:
            first = op("Slice", bias, whole(0), whole(width(query)), whole(0))
            q = q + unsqueeze(reshape(first, heads, width(q)), 1)
        return q, k, v
    else:
        k, v = split_heads(given, key, heads), split_heads(given, given[2], heads)
    return _biased(given, q, k, v, bias, (width(q), width(k), width(v)))


def _biased(
    given: Given,
    q: Symbol,
    k: Symbol,
    v: Symbol,
    bias: Symbol | None,
    head_sizes: tuple[int, int, int],
) -> tuple[Symbol, Symbol, Symbol]:
    if bias is None:
        return q, k, v
    heads = given.attr("num_heads")
    parts = several("Split", [bias, whole(*(heads * s for s in head_sizes))], 3, axis=0)
    rows = (unsqueeze(reshape(b, heads, s), 1) for b, s in zip(parts, head_sizes, strict=True))
    a, b, c = rows
    return q + a, k + b, v + c


class DecoderMaskedMultiHeadAttention(Contrib):
    """MultiHeadAttention of one new query for each row, over a buffer of past keys and values.

    With keys of four axes it attends to an encoder's; else key and value, of length one, are
    written into the buffer behind the `past_sequence_length` that are there.
    """

    schema = declare(
        "DecoderMaskedMultiHeadAttention",
        "query:T key:T? value:T? mask_index:M? attention_bias:T? past_key:T? past_value:T? "
        "past_sequence_length:M? beam_width:M? cache_indirection:M? bias:T?",
        "output:T present_key:T? present_value:T? qk:T?",
        {"T": ("float", "float16"), "M": INT32},
        {
            "mask_filter_value": optional("FLOAT"),
            "num_heads": needed("INT"),
            "output_qk": optional("INT"),
            "past_present_share_buffer": optional("INT"),
            "scale": optional("FLOAT"),
        },
    )
    ranks = "query:3 key:3,4 value:3,4 mask_index:2 attention_bias:4 past_key:4 past_value:4 bias:1"

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_range(call, "num_heads", 1, _MOST_HEADS)
        if call.has(9):
            call.fail("cache_indirection belongs to beam search, which is not supported here", bad)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        q, k, v = _projected(given, given.optional(10))
        past = start = None
        if given.has(5) and not (given.has(1) and given.rank(1) == 4):
            past = size(given[5], 2)
            if given.attr("past_present_share_buffer") and given.has(7):
                start = reshape(cast(given[7], "int64"), 1)
        return _cached_attention(
            given, q, k, v, past_at=5, past=past, start=start,
            mask=given.optional(3), bias=given.optional(4),
        )  # fmt: skip
