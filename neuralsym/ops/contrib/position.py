"""Biases of attention that depend on how far a query and a key lie apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.ops.base import bad, check_choice, check_range
from neuralsym.ops.contrib.base import (
    Contrib,
    Given,
    cast,
    counted,
    numbers,
    op,
    reshape,
    several,
    unsqueeze,
    whole,
)
from neuralsym.ops.contrib.declare import INT32, INT64, declare, needed
from neuralsym.ops.contrib.heads import split_heads, width

_TYPES = {"T": ("float", "float16")}


class RelativePositionBias(Contrib):
    """A number for each head and each distance of query and key, looked up in buckets.

    Small distances have a bucket each, larger ones share buckets that widen with their logarithm
    (arXiv 1910.10683). The table says [buckets, heads], but its numbers lie head by head.
    """

    schema = declare(
        "RelativePositionBias",
        "bias_table:T query_length:U key_length:U",
        "output:T",
        {**_TYPES, "U": INT64},
        {"is_bidirectional": 0, "max_distance": needed("INT")},
    )
    ranks = "bias_table:2 query_length:0,1 key_length:0,1"

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "is_bidirectional", (0, 1))
        check_range(call, "max_distance", 1, 2**31)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        buckets, heads = width(given[0], 0), width(given[0], 1)
        rows, columns = (counted(reshape(given[i], 1)) for i in (1, 2))
        ahead = unsqueeze(columns, 0) - unsqueeze(rows, 1)
        zero = numbers(0, "int64")
        first = zero
        if given.attr("is_bidirectional"):
            buckets //= 2
            first = cast(op("Greater", ahead, zero), "int64") * numbers(buckets, "int64")
            distance = op("Abs", ahead)
        else:
            distance = op("Max", zero - ahead, zero)
        index = first + _bucket(distance, buckets, given.attr("max_distance"))
        table = reshape(given[0], heads, width(given[0], 0))
        return [unsqueeze(op("Gather", table, index, axis=1), 0)]


def _bucket(distance: Symbol, buckets: int, largest: int) -> Symbol:
    """The bucket of each distance: half of them exact, the others by logarithm."""
    exact = buckets // 2
    if not exact or largest <= exact:
        return op("Min", distance, numbers(max(buckets - 1, 0), "int64"))
    ratio = op("Max", cast(distance, "float32") / float(exact), 1.0)
    wide = op("Log", ratio) / math.log(largest / exact) * float(buckets - exact)
    far = cast(wide, "int64") + numbers(exact, "int64")
    far = op("Min", far, numbers(buckets - 1, "int64"))
    return op("Where", op("Less", distance, numbers(exact, "int64")), distance, far)


class GatedRelativePositionBias(Contrib):
    """A relative position bias times gates that follow from the queries (arXiv 2106.16138)."""

    schema = declare(
        "GatedRelativePositionBias",
        "query_layer:T query_bias:T rel_pos:T weight:T bias:T eco_a:T token_offset:M?",
        "output:T",
        {**_TYPES, "M": INT32},
        {"num_heads": needed("INT")},
    )
    ranks = "query_layer:3 query_bias:1 rel_pos:4 weight:2 bias:1 eco_a:4"

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_range(call, "num_heads", 1, 2**20)
        if call.has(6):
            call.fail("token_offset: queries without their padding are not supported", bad)

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        queries = split_heads(given, given[0] + given[1], given.attr("num_heads"))
        made = op("MatMul", queries, given[3]) + given[4]
        pairs = reshape(made, 0, 0, 0, 2, width(given[3]) // 2)
        gates = op("Sigmoid", op("ReduceSum", pairs, whole(4), keepdims=0))
        update, reset = several("Split", [gates], 2, axis=3, num_outputs=2)
        return [(update * (reset * given[5] - 1.0) + 2.0) * given[2]]
