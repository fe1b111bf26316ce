"""Attention of queries over keys and values: dot product, additive, many heads, shared heads.

Masks say True where attending is allowed. Heads are never moved to an axis of their own: ONNX's
Attention takes [N, T, heads * size].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.attention_masks import Masks, largest_negative
from neuralsym.layers.base import Result, require_shape
from neuralsym.layers.dense import linear
from neuralsym.layers.factory import layer, plain_layer
from neuralsym.layers.fold_axes import Folded, folded
from neuralsym.layers.initializers import fans
from neuralsym.layers.noise import check_rates
from neuralsym.layers.weights import Init, weight


def three(xs: Symbol | Sequence[Symbol]) -> tuple[Symbol, Symbol, Symbol]:
    """(query, value, key) of what came: one symbol is all three, two are query and value."""
    given = [xs] if isinstance(xs, Symbol) else list(xs)
    if not 1 <= len(given) <= 3:
        raise BadAttribute(f"takes query, value and key, the last two optional; {len(given)} came")
    query = given[0]
    value = given[1] if len(given) > 1 else query
    return query, value, given[2] if len(given) > 2 else value


@plain_layer
def attention(
    xs: Symbol | Sequence[Symbol],
    use_scale: bool = False,
    score_mode: Literal["dot", "concat"] = "dot",
    *,
    query_mask: Symbol | None = None,
    value_mask: Symbol | None = None,
    use_causal_mask: bool = False,
    return_attention_scores: bool = False,
    dropout: float = 0.0,
    name: str | None = None,
) -> Result:
    """softmax(query key^T) value without projections: (query, value[, key]) -> [N, T, size].

    query [N, T, d], key [N, S, d], value [N, S, size]; key is the value unless given, one symbol
    alone is all three. Nothing is divided by sqrt(d), as in Keras. use_scale: the scores times a
    weight `scale` (). score_mode "concat": concat_score_weight * sum(tanh(scale * (query + key))).
    query_mask bool [N, T]: rows that become 0; value_mask bool [N, S]: places not attended to.
    return_attention_scores: (output, scores [N, T, S]).

    Keras Attention; torch scaled_dot_product_attention (which scales); ONNX Attention, or MatMul,
    Tanh and Softmax for "concat".
    """
    check_rates(dropout=dropout)
    if score_mode not in ("dot", "concat"):
        raise BadAttribute(f"score_mode={score_mode!r} is neither 'dot' nor 'concat'")
    query, value, key = _sequences(xs)
    masks = Masks(None, None, value_mask, None, use_causal_mask, None)
    scale = weight("scale", (), "ones", dtype=query.dtype) if use_scale else None
    if score_mode == "dot":
        q = query if scale is None else query * scale
        y, scores = attend(q, key, value, masks, (1, 1), 1.0, return_attention_scores)
        if scores is not None:
            scores = ops.squeeze(scores, [1])
    else:
        whole = weight("concat_score_weight", (), "ones", dtype=query.dtype)
        both = ops.unsqueeze(query, [2]) + ops.unsqueeze(key, [1])
        both = ops.tanh(both if scale is None else both * scale)
        y, scores = _weighted(whole * ops.reduce_sum(both, [3], keepdims=0), value, masks)
    return _answered(y, scores if return_attention_scores else None, query_mask)


@plain_layer
def additive_attention(
    xs: Symbol | Sequence[Symbol],
    use_scale: bool = True,
    *,
    query_mask: Symbol | None = None,
    value_mask: Symbol | None = None,
    use_causal_mask: bool = False,
    return_attention_scores: bool = False,
    dropout: float = 0.0,
    name: str | None = None,
) -> Result:
    """softmax(sum(scale * tanh(query + key))) value: (query, value[, key]) -> [N, T, size].

    Weight scale [d] unless use_scale is off. The rest as in attention. Bahdanau et al. 2015.

    Keras AdditiveAttention; ONNX Add, Tanh, Mul, ReduceSum, Softmax and MatMul.
    """
    check_rates(dropout=dropout)
    query, value, key = _sequences(xs)
    both = ops.tanh(ops.unsqueeze(query, [2]) + ops.unsqueeze(key, [1]))
    if use_scale:
        size = (int(require_shape(query, axis=2)[2]),)
        both = both * weight(
            "scale", size, "glorot_uniform", fans=fans(size, "vector"), dtype=query.dtype
        )
    masks = Masks(None, None, value_mask, None, use_causal_mask, None)
    y, scores = _weighted(ops.reduce_sum(both, [3], keepdims=0), value, masks)
    return _answered(y, scores if return_attention_scores else None, query_mask)


@layer
def multi_head_attention(
    xs: Symbol | Sequence[Symbol],
    num_heads: int,
    key_dim: int,
    value_dim: int | None = None,
    *,
    use_bias: bool = True,
    output_shape: int | Sequence[int] | None = None,
    attention_axes: int | Sequence[int] | None = None,
    sliding_window: int | None = None,
    use_gate: bool = False,
    packed: bool = False,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    attention_mask: Symbol | None = None,
    query_mask: Symbol | None = None,
    value_mask: Symbol | None = None,
    key_mask: Symbol | None = None,
    use_causal_mask: bool = False,
    return_attention_scores: bool = False,
    dropout: float = 0.0,
    name: str | None = None,
) -> Result:
    """Attention by several heads of projected queries, keys and values: -> [N, T, features].

    What flows: one symbol [N, T, features] (self-attention), or (query, value[, key]). key_dim,
    value_dim: the size of a head; value_dim is key_dim unless given. The output has the query's
    features, or output_shape. attention_axes: of inputs with more axes, those attended over (all
    but the first and last unless given; their sizes must be fixed). sliding_window: only keys
    less than so many places away. use_gate: the heads times sigmoid of a projection of the query.

    attention_mask: bool, or numbers that are added to the scores, [T, S], [N, T, S] or [N, heads,
    T, S]; query_mask [N, T], value_mask and key_mask [N, S] are bool. use_causal_mask: no key
    behind the query. return_attention_scores: (output, scores [N, heads, T, S]).

    Weights: query, key, value/kernel [features, heads*size] and bias, attention_output/kernel
    [heads*value_dim, features] and bias (Keras's with the head axes flattened, torch's
    transposed); packed: one projection `qkv` instead of three, for self-attention.

    Keras MultiHeadAttention; torch MultiheadAttention (its masks say True where not); ONNX MatMul,
    Add and Attention.
    """
    check_rates(dropout=dropout)
    if num_heads < 1 or key_dim < 1 or (value_dim is not None and value_dim < 1):
        raise BadAttribute(
            f"num_heads={num_heads}, key_dim={key_dim}, value_dim={value_dim}: at least 1 each"
        )
    masks = Masks(attention_mask, query_mask, value_mask, key_mask, use_causal_mask, sliding_window)
    wide = value_dim or key_dim
    made = Projections(use_bias, kernel_initializer, bias_initializer, use_gate, packed)
    return made.attend(
        xs,
        (num_heads, num_heads),
        (key_dim, wide),
        masks,
        output_shape,
        attention_axes,
        return_attention_scores,
    )


@layer
def grouped_query_attention(
    xs: Symbol | Sequence[Symbol],
    head_dim: int,
    num_query_heads: int,
    num_key_value_heads: int,
    *,
    use_bias: bool = True,
    sliding_window: int | None = None,
    use_gate: bool = False,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    attention_mask: Symbol | None = None,
    query_mask: Symbol | None = None,
    value_mask: Symbol | None = None,
    key_mask: Symbol | None = None,
    use_causal_mask: bool = False,
    return_attention_scores: bool = False,
    dropout: float = 0.0,
    name: str | None = None,
) -> Result:
    """multi_head_attention in which several heads of queries share one of keys and values.

    num_key_value_heads must divide num_query_heads; with 1 it is multi-query attention. The rest
    as in multi_head_attention (arXiv 2305.13245).

    Keras GroupQueryAttention; torch scaled_dot_product_attention (enable_gqa); ONNX MatMul, Add
    and Attention.
    """
    check_rates(dropout=dropout)
    if head_dim < 1 or num_key_value_heads < 1 or num_query_heads % num_key_value_heads:
        raise BadAttribute(
            f"head_dim={head_dim}, num_query_heads={num_query_heads}, num_key_value_heads="
            f"{num_key_value_heads}: the last must divide the second"
        )
    masks = Masks(attention_mask, query_mask, value_mask, key_mask, use_causal_mask, sliding_window)
    made = Projections(use_bias, kernel_initializer, bias_initializer, use_gate, False)
    heads = (num_query_heads, num_key_value_heads)
    sizes = (head_dim, head_dim)
    return made.attend(xs, heads, sizes, masks, None, None, return_attention_scores)


@dataclass(frozen=True, eq=False)
class Projections:
    """Attention between projections in and out, as both layers of heads have it."""

    use_bias: bool
    kernel: Init
    bias: Init
    use_gate: bool
    packed: bool

    def attend(
        self,
        xs: Symbol | Sequence[Symbol],
        heads: tuple[int, int],
        sizes: tuple[int, int],
        masks: Masks,
        output_shape: int | Sequence[int] | None,
        axes: int | Sequence[int] | None,
        with_scores: bool,
    ) -> Result:
        """The layer's result; heads of queries and of keys, sizes of keys and of values."""
        query, value, key = three(xs)
        alone = query is value is key
        features = require_shape(query, axis=-1)[-1]
        fold = None
        if axes is not None or query.rank != 3:
            masks.none_for("more axes than [N, T, features]")
            if with_scores:
                raise BadAttribute("return_attention_scores is for inputs [N, T, features]")
            fold = folded(query, axes)
            query, value, key = (Folded.of(s, fold.axes).values for s in (query, value, key))
        for each in (query, value, key):
            require_shape(each, rank=3, axis=2)
        q_heads, kv_heads = heads
        key_size, value_size = sizes
        widths = (q_heads * key_size, kv_heads * key_size, kv_heads * value_size)
        if self.packed:
            if not alone:
                raise BadAttribute("packed projections are for self-attention, of one symbol")
            q, k, v = ops.split(self._to(query, sum(widths), "qkv"), widths, axis=2)
        else:
            q = self._to(query, widths[0], "query")
            k = self._to(key, widths[1], "key")
            v = self._to(value, widths[2], "value")
        scale = 1 / math.sqrt(key_size)
        y, scores = attend(q, k, v, masks, heads, scale, with_scores)
        if self.use_gate:
            y = y * ops.sigmoid(self._to(query, q_heads * value_size, "gate"))
        out = [features] if output_shape is None else output_shape
        wide = [out] if isinstance(out, (int, np.integer)) else list(out)
        y = self._to(y, math.prod(wide), "attention_output")
        if len(wide) > 1:
            y = ops.reshape(y, [0, 0, *wide])
        if fold is not None:
            y = fold.back(y)
        return (y, scores) if scores is not None else y

    def _to(self, x: Symbol, units: int, name: str) -> Symbol:
        made = linear(
            units,
            use_bias=self.use_bias,
            kernel_initializer=self.kernel,
            bias_initializer=self.bias,
            name=name,
        )
        return made(x)


def attend(
    q: Symbol,
    k: Symbol,
    v: Symbol,
    masks: Masks,
    heads: tuple[int, int],
    scale: float,
    with_scores: bool = False,
) -> tuple[Symbol, Symbol | None]:
    """ONNX's Attention of [N, T, heads*size] and its scores [N, heads, T, S] if asked for."""
    mask = masks.combined(q, k)
    causal = int(masks.causal)
    if with_scores:
        found = ops.attention(
            q,
            k,
            v,
            mask,
            is_causal=causal,
            q_num_heads=heads[0],
            kv_num_heads=heads[1],
            scale=scale,
            qk_matmul_output_mode=3,
            outputs=4,
        )
        return found[0], found[3]
    y = ops.attention(
        q, k, v, mask, is_causal=causal, q_num_heads=heads[0], kv_num_heads=heads[1], scale=scale
    )
    return y, None


def _sequences(xs: Symbol | Sequence[Symbol]) -> tuple[Symbol, Symbol, Symbol]:
    query, value, key = three(xs)
    for each in (query, value, key):
        require_shape(each, rank=3)
    if require_shape(query)[2] != require_shape(key)[2]:
        raise ShapeMismatch(f"query {query.type} and key {key.type} differ in their last axis")
    return query, value, key


def _weighted(scores: Symbol, value: Symbol, masks: Masks) -> tuple[Symbol, Symbol]:
    """softmax(scores [N, T, S]) value, and the softmax."""
    mask = masks.combined_rows(scores)
    if mask is not None:
        low = constant(np.array(largest_negative(scores)), str(scores.dtype))
        scores = ops.where(mask, scores, low)
    weights = ops.softmax(scores, axis=-1)
    return weights @ value, weights


def _answered(y: Symbol, scores: Symbol | None, query_mask: Symbol | None) -> Result:
    if query_mask is not None:
        y = ops.where(ops.unsqueeze(ops.cast(query_mask, to="bool"), [2]), y, 0.0)
    return y if scores is None else (y, scores)
