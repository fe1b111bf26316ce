"""Attention written with other operators: heads, caches, masks, products and the softmax.

Half precision is computed in float32 from the products to the result, which is rounded once: the
specification rounds at each operator of its function, and may be improved on. Query head h goes
with key head h // group, so the query heads are cut in two axes instead of repeating keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from neuralsym.core import registry
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import Size
from neuralsym.dtypes import NumberType, from_onnx
from neuralsym.ops.expansions import (
    HALVES,
    converted,
    reshaped,
    same_size,
    size_of,
    sizes_of,
    whole,
)


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values [batch, heads, length, size]; keys may have fewer heads."""

    q: Symbol
    k: Symbol
    v: Symbol

    @property
    def grouped(self) -> bool:
        """Whether several query heads share a key head, as far as the sizes tell."""
        return not same_size(_axis(self.q, 1), _axis(self.k, 1))

    @property
    def cut(self) -> tuple[Symbol, ...]:
        """The sizes of the scores but their last: batch, key heads, group, length."""
        heads = size_of(self.k, 1)
        group = registry.call("Div", size_of(self.q, 1), heads)
        return size_of(self.q, 0), heads, group, size_of(self.q, 2)

    def scores(self, scale: float | None, wide: NumberType) -> Symbol:
        """Q K^T * scale, [batch, heads, length, keys]; 1/sqrt(size) where no scale is given."""
        size = _axis(self.q, 3)
        if scale is None and isinstance(size, int):
            scale = 1 / math.sqrt(size) if size else 1.0
        if scale is None:
            root = registry.call("Sqrt", converted(size_of(self.q, 3), wide))
            factor = registry.call("Reciprocal", root)
        else:
            factor = number(scale, wide)
        scaled = converted(self.q, wide) * factor
        keys = converted(self.k, wide)
        if not self.grouped:
            turned = registry.call("Transpose", keys, perm=(0, 1, 3, 2))
            return registry.call("MatMul", scaled, turned)
        scaled = reshaped(scaled, *self.cut, size_of(self.q, 3))
        keys = registry.call("Unsqueeze", keys, whole(2))
        turned = registry.call("Transpose", keys, perm=(0, 1, 2, 4, 3))
        made = registry.call("MatMul", scaled, turned)
        return reshaped(made, sizes_of(self.q, 0, 3), size_of(self.k, 2))

    def weighted(self, weights: Symbol) -> Symbol:
        """The values summed by weights [batch, heads, length, keys], which have their type."""
        values = converted(self.v, weights.dtype)
        if not self.grouped:
            return registry.call("MatMul", weights, values)
        weights = reshaped(weights, *self.cut, size_of(self.k, 2))
        made = registry.call("MatMul", weights, registry.call("Unsqueeze", values, whole(2)))
        return reshaped(made, sizes_of(self.q, 0, 3), size_of(self.v, 3))


def expand_attention(node: Node) -> list[Symbol] | None:
    """The outputs of an Attention; None where a rank is not known."""
    given = [node.inputs[i] if i < len(node.inputs) else None for i in range(7)]
    if any(s is not None and s.shape is None for s in given):
        return None
    q, k, v, mask, past_key, past_value, valid = given
    assert q is not None and k is not None and v is not None
    flat = q.rank == 3
    if flat:
        q = _unpacked(q, node.attr("q_num_heads"))
        k, v = (_unpacked(s, node.attr("kv_num_heads")) for s in (k, v))
    if past_key is not None and past_value is not None:
        k = registry.call("Concat", past_key, k, axis=2)
        v = registry.call("Concat", past_value, v, axis=2)
    own, heads = q.dtype, Heads(q, k, v)
    wide = NumberType.FLOAT32 if own in HALVES else own
    stages = [heads.scores(node.attr("scale"), wide)]
    cap = node.attr("softcap")
    capped = stages[0]
    if cap:
        capped = registry.call("Tanh", capped * (1 / cap)) * cap
    stages.append(capped)
    allowed = _allowed(node, heads, past_key, valid, mask)
    added = None
    if mask is not None and mask.dtype is not NumberType.BOOL:
        added = _as_long(converted(mask, wide), size_of(k, 2), number(-math.inf, wide))
    masked, empty = _masked(capped, allowed, added, _may_be_empty(node, valid, mask))
    stages.append(masked)
    asked = node.attr("softmax_precision")
    weights = registry.call(
        "Softmax", converted(masked, wide if asked is None else from_onnx(asked)), axis=-1
    )
    weights = converted(weights, wide)
    if empty is not None:
        weights = registry.call("Where", empty, number(0, wide), weights)
    stages.append(weights)
    product = NumberType.FLOAT64 if v.dtype is NumberType.FLOAT64 else wide
    y = converted(heads.weighted(converted(weights, product)), own)
    if flat:
        y = registry.call("Transpose", y, perm=(0, 2, 1, 3))
        y = reshaped(y, sizes_of(y, 0, 2), size_of(y, 2) * size_of(y, 3))
    shown = converted(stages[node.attr("qk_matmul_output_mode")], own)
    return [y, k, v, shown][: len(node.outputs)]


def number(value: float, dtype: NumberType) -> Symbol:
    """A scalar constant of a floating type."""
    return constant(Tensor.of(np.float64(value), dtype))


def _axis(x: Symbol, axis: int) -> Size:
    assert x.shape is not None
    return x.shape[axis]


def _unpacked(x: Symbol, heads: int) -> Symbol:
    """[batch, length, heads * size] as [batch, heads, length, size]."""
    size = registry.call("Div", size_of(x, 2), whole(heads))
    made = reshaped(x, sizes_of(x, 0, 2), heads, size)
    return registry.call("Transpose", made, perm=(0, 2, 1, 3))


# -- masks -------------------------------------------------------------------------------------
def _allowed(
    node: Node, heads: Heads, past: Symbol | None, valid: Symbol | None, mask: Symbol | None
) -> Symbol | None:
    """Which keys each query may attend, broadcasting to the scores; None for all of them.

    Queries stand at the end of what is cached: behind the past keys, or so that the last one of
    them is the last that `valid` counts.
    """
    length, total = size_of(heads.q, 2), size_of(heads.k, 2)
    found: list[Symbol] = []
    around = None if valid is None else registry.call("Unsqueeze", valid, whole(1, 2, 3))
    left, right = node.attr("left_window_size"), node.attr("right_window_size")
    if node.attr("is_causal"):
        right = 0  # the narrower bound of the two
    keys = _range(total)
    if left >= 0 or right >= 0:
        places = registry.call("Unsqueeze", _range(length), whole(1))
        if past is not None:
            places = places + size_of(past, 2)
        elif around is not None:
            places = places + (around - length)
        if right >= 0:
            last = places + right if right else places
            found.append(registry.call("LessOrEqual", keys, last))
        if left >= 0:
            found.append(registry.call("GreaterOrEqual", keys, places - left))
    if around is not None:
        found.append(registry.call("Less", keys, around))
    if mask is not None and mask.dtype is NumberType.BOOL:
        found.append(_as_long(mask, total, constant(np.array(False))))
    made: Symbol | None = None
    for each in found:
        made = each if made is None else registry.call("And", made, each)
    return made


def _range(size: Symbol) -> Symbol:
    """0, 1, ... below a size, int64."""
    zero, one = (constant(np.array(n, np.int64)) for n in (0, 1))
    return registry.call("Range", zero, registry.call("Squeeze", size, whole(0)), one)


def _as_long(mask: Symbol, total: Symbol, rest: Symbol) -> Symbol:
    """A mask over all keys: one that ends before forbids what is behind."""
    shape = mask.shape
    assert shape is not None
    known = total.known
    if known is not None and same_size(shape[-1], known.reshape(-1)[0]):
        return mask
    missing = registry.call("Max", total - size_of(mask, len(shape) - 1), whole(0))
    pads = registry.call("Concat", whole(0), missing, axis=0)
    return registry.call("Pad", mask, pads, rest, whole(-1))


def _may_be_empty(node: Node, valid: Symbol | None, mask: Symbol | None) -> bool:
    """Whether a query may have no key at all; without these it has the first one."""
    return mask is not None or valid is not None or node.attr("left_window_size") >= 0


def _masked(
    scores: Symbol, allowed: Symbol | None, added: Symbol | None, guarded: bool
) -> tuple[Symbol, Symbol | None]:
    """The scores with masks applied, and which rows have no key at all, if any can."""
    nothing, zero = number(-math.inf, scores.dtype), number(0, scores.dtype)
    bias = added
    if allowed is not None:
        bias = registry.call("Where", allowed, zero if added is None else added, nothing)
    if bias is None:
        return scores, None
    if added is None:
        assert allowed is not None
        scores = registry.call("Where", allowed, scores, nothing)
    else:
        scores = scores + bias
    if not guarded:
        return scores, None
    most = registry.call("ReduceMax", bias, whole(-1), keepdims=1)
    return scores, registry.call("Equal", most, nothing)
