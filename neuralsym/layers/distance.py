"""How alike two inputs are: cosines and distances along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.factory import plain_layer


def _pair(xs: Sequence[Symbol]) -> tuple[Symbol, Symbol]:
    if len(xs) != 2:
        raise BadAttribute(f"takes exactly 2 symbols, {len(xs)} came")
    return xs[0], xs[1]


@plain_layer
def cosine_similarity(
    xs: Sequence[Symbol], axis: int = 1, epsilon: float = 1e-8, *, name: str | None = None
) -> Symbol:
    """a b / (|a| |b|) along an axis, which vanishes; each length is at least epsilon.

    torch CosineSimilarity; ONNX Mul, ReduceSum, ReduceL2, Max and Div.
    """
    a, b = _pair(xs)
    lengths = [ops.max([ops.reduce_l2(x, [axis], keepdims=0), epsilon]) for x in (a, b)]
    return ops.reduce_sum(a * b, [axis], keepdims=0) / (lengths[0] * lengths[1])


@plain_layer
def pairwise_distance(
    xs: Sequence[Symbol],
    p: float = 2.0,
    epsilon: float = 1e-6,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Symbol:
    """The p-norm of a - b + epsilon along the last axis, which vanishes unless keepdims.

    torch PairwiseDistance; ONNX Sub, ReduceL2 (ReduceL1, or Pow and ReduceSum).
    """
    if p <= 0:
        raise BadAttribute(f"p={p}: must be positive")
    a, b = _pair(xs)
    away = a - b + epsilon
    kept = int(keepdims)
    if p == 2:
        return ops.reduce_l2(away, [-1], keepdims=kept)
    if p == 1:
        return ops.reduce_l1(away, [-1], keepdims=kept)
    if p == float("inf"):
        return ops.reduce_max(ops.abs(away), [-1], keepdims=kept)
    total = ops.reduce_sum(ops.pow(ops.abs(away), float(p)), [-1], keepdims=kept)
    return ops.pow(total, 1 / float(p))
