"""Vectors of a table for indices: one each, one for a bag, and back to scores of the indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch, TypeMismatch
from neuralsym.layers.base import Result, require_shape
from neuralsym.layers.factory import layer
from neuralsym.layers.initializers import fans
from neuralsym.layers.weights import Init, weight, with_entries


def _table(input_dim: int, output_dim: int, init: Init, padding_idx: int | None) -> Symbol:
    """The weight `embeddings` [input_dim, output_dim]."""
    if input_dim < 1 or output_dim < 1:
        raise BadAttribute(f"input_dim={input_dim}, output_dim={output_dim}: must be at least 1")
    shape = (input_dim, output_dim)
    if padding_idx is not None:
        if not -input_dim <= padding_idx < input_dim:
            raise BadAttribute(f"padding_idx={padding_idx}: the table has {input_dim} rows")
        row = padding_idx % input_dim
        init = with_entries(init, 0.0, row, row + 1)
    return weight("embeddings", shape, init, fans=fans(shape, "embedding"))


def _indices(x: Symbol) -> None:
    if x.dtype not in ("int32", "int64"):
        raise TypeMismatch(f"takes indices, int32 or int64; came {x.type}")


@layer
def embedding(
    x: Symbol,
    input_dim: int,
    output_dim: int,
    *,
    mask_zero: bool = False,
    padding_idx: int | None = None,
    embeddings_initializer: Init = "random_uniform",
    name: str | None = None,
) -> Result:
    """A vector of a table for each index: integers [...] -> float [..., output_dim].

    mask_zero: index 0 is padding; gives (vectors, mask), a pair that a recurrent layer takes.
    padding_idx: that row of the table begins with zeros (torch). Weight: embeddings [input_dim,
    output_dim], by default uniform within 0.05 (torch draws from N(0, 1)). An index out of range
    is an error when it is run. TypeMismatch unless the indices are int32 or int64.

    Keras Embedding; torch Embedding; Owl embedding; ONNX Gather.
    """
    _indices(x)
    table = _table(input_dim, output_dim, embeddings_initializer, padding_idx)
    found = ops.gather(table, x, axis=0)
    return (found, ops.not_(ops.equal(x, 0))) if mask_zero else found


@layer
def embedding_bag(
    xs: Symbol | Sequence[Symbol],
    input_dim: int,
    output_dim: int,
    mode: Literal["mean", "sum", "max"] = "mean",
    *,
    padding_idx: int | None = None,
    embeddings_initializer: Init = "random_uniform",
    name: str | None = None,
) -> Symbol:
    """The mean, sum or maximum of the vectors of a bag: integers [N, L] -> [N, output_dim].

    Bags of one size L; padding_idx: an index that fills the rest and does not count (a bag of it
    alone gives zeros). For "sum" a second symbol [N, L] may weigh the vectors. Weight as in
    embedding.

    torch EmbeddingBag; ONNX Gather and ReduceMean, ReduceSum or ReduceMax.
    """
    x, *scales = [xs] if isinstance(xs, Symbol) else list(xs)
    if mode not in ("mean", "sum", "max"):
        raise BadAttribute(f"mode={mode!r} is none of 'mean', 'sum', 'max'")
    if len(scales) > 1 or (scales and mode != "sum"):
        raise BadAttribute("takes indices, and for mode='sum' one symbol of their weights")
    _indices(x)
    require_shape(x, rank=2)
    table = _table(input_dim, output_dim, embeddings_initializer, padding_idx)
    found = ops.gather(table, x, axis=0)
    counts = None
    if padding_idx is not None:
        counts = ops.unsqueeze(ops.not_(ops.equal(x, padding_idx % input_dim)), [2])
    if scales:
        (scale,) = scales
        if require_shape(scale) != require_shape(x):
            raise ShapeMismatch(f"weights {scale.type} do not fit indices {x.type}")
        found = found * ops.unsqueeze(scale, [2])
    if counts is None:
        reduce = {"mean": ops.reduce_mean, "sum": ops.reduce_sum, "max": ops.reduce_max}[mode]
        return reduce(found, [1], keepdims=0)
    if mode == "max":
        low = constant(np.array(-np.inf), str(found.dtype))
        most = ops.reduce_max(ops.where(counts, found, low), [1], keepdims=0)
        return ops.where(
            ops.reduce_max(ops.cast(counts, to="int32"), [1], keepdims=0) > 0, most, 0.0
        )
    total = ops.reduce_sum(ops.where(counts, found, 0.0), [1], keepdims=0)
    if mode == "sum":
        return total
    return total / ops.max([ops.reduce_sum(ops.cast(counts, to=found.dtype), [1], keepdims=0), 1.0])


@layer
def reversible_embedding(
    x: Symbol,
    input_dim: int,
    output_dim: int,
    tie_weights: bool = True,
    *,
    logit_soft_cap: float | None = None,
    embeddings_initializer: Init = "random_uniform",
    name: str | None = None,
) -> Symbol:
    """Vectors for indices, and scores of all indices for vectors: one layer, applied twice.

    Integers [...] -> [..., output_dim]; floats [..., output_dim] -> scores [..., input_dim], the
    products with the same table (tie_weights) or with a weight reverse_embeddings [output_dim,
    input_dim]. logit_soft_cap: scores become cap * tanh(scores / cap).

        table = reversible_embedding(1000, 64)
        scores = ids | table | block | table

    Keras ReversibleEmbedding; torch Embedding and Linear of one weight; ONNX Gather, and Transpose
    and MatMul.
    """
    if logit_soft_cap is not None and logit_soft_cap <= 0:
        raise BadAttribute(f"logit_soft_cap={logit_soft_cap}: must be positive")
    if x.dtype in ("int32", "int64"):
        return ops.gather(_table(input_dim, output_dim, embeddings_initializer, None), x, axis=0)
    if not x.dtype.is_float:
        raise TypeMismatch(f"takes indices, int32 or int64, or vectors of floats; came {x.type}")
    if tie_weights:
        table = _table(input_dim, output_dim, embeddings_initializer, None)
        back = ops.transpose(table, perm=(1, 0))
    else:
        shape = (output_dim, input_dim)
        init = embeddings_initializer
        back = weight("reverse_embeddings", shape, init, fans=fans(shape, "embedding"))
    if x.dtype != back.dtype:
        x = ops.cast(x, to=back.dtype)
    scores = ops.matmul(x, back)
    if logit_soft_cap is None:
        return scores
    return ops.tanh(scores / logit_soft_cap) * logit_soft_cap
