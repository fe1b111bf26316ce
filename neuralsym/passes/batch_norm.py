"""Batch normalisation and affine maps of channels, folded into the weights of what precedes them.

With k = gamma / sqrt(variance + epsilon):

    BN(x * W + b) = x * (W k) + (b - mean) k + beta        for a convolution or matrix product
    BN(x)         = x k + (beta - mean k)                  for anything else

The new weights are computed in float64, once, when they are first needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import stored
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.passes.derived import derived_weight
from neuralsym.passes.scale import CONVOLUTIONS, SCALES, Array, Scale, again, scale_filters, spread
from neuralsym.rewrite.driver import Trace, rewrite
from neuralsym.rewrite.pattern import P
from neuralsym.rewrite.rule import Result, Rule, reject, rule

_STATISTICS = (P.const("gamma"), P.const("beta"), P.const("mean"), P.const("var"))


def _normalised(inner: Any) -> Any:
    return P.BatchNormalization(inner, *_STATISTICS).named("bn")


@rule(_normalised(CONVOLUTIONS("x", P.const("w"), P.optional(P.const("b"))).named("conv")))
def fold_into_convolution(
    x: Symbol,
    w: Symbol,
    b: Symbol | None,
    conv: Node,
    gamma: Symbol,
    beta: Symbol,
    mean: Symbol,
    var: Symbol,
    bn: Node,
) -> Result:
    """BN(conv(x, w) + b) = conv(x, w k) + (b - mean) k + beta"""
    if bn.attr("training_mode"):
        return reject("training mode normalises by the batch's own statistics")
    statistics = [stored(s) for s in (gamma, beta, mean, var)]
    epsilon = float(bn.attr("epsilon"))
    kernel, bias = _folded(w, b, statistics, epsilon, scale_filters(conv))
    return again(conv, x, kernel, bias)


@rule(_normalised(P.Gemm("x", P.const("w"), P.optional(P.const("b"))).named("gemm")))
def fold_into_gemm(
    x: Symbol,
    w: Symbol,
    b: Symbol | None,
    gemm: Node,
    gamma: Symbol,
    beta: Symbol,
    mean: Symbol,
    var: Symbol,
    bn: Node,
) -> Result:
    """BN(x w + b) = x (w k) + (b - mean) k + beta"""
    if bn.attr("training_mode"):
        return reject("training mode normalises by the batch's own statistics")
    if b is not None and not _is_row(b):
        return reject("its bias differs from row to row")
    statistics = [stored(s) for s in (gamma, beta, mean, var)]
    factor = float(gemm.attr("beta"))
    by_rows = bool(gemm.attr("transB"))
    kernel, bias = _folded(
        w,
        b,
        statistics,
        float(bn.attr("epsilon")),
        (lambda w, k: w * k[:, None]) if by_rows else (lambda w, k: w * k),
        bias_factor=factor,
    )
    attrs = {k: v for k, v in gemm.attrs.items() if k != "beta"}
    return ops.gemm(x, kernel, bias, **attrs)


_PRODUCT = P.MatMul("x", P.const("w"))


@rule(_normalised(P.either(P.Add(_PRODUCT, P.const("b")), _PRODUCT)))
def fold_into_product(
    x: Symbol,
    w: Symbol,
    gamma: Symbol,
    beta: Symbol,
    mean: Symbol,
    var: Symbol,
    bn: Node,
    b: Symbol | None = None,
) -> Result:
    """BN(x @ w + b) = x @ (w k) + (b - mean) k + beta, for matrices"""
    if bn.attr("training_mode"):
        return reject("training mode normalises by the batch's own statistics")
    if x.rank != 2 or w.rank != 2:
        return reject("the channels are the last axis of matrices only")
    if b is not None and not _is_row(b):
        return reject("its bias differs from row to row")
    statistics = [stored(s) for s in (gamma, beta, mean, var)]
    epsilon = float(bn.attr("epsilon"))
    kernel, bias = _folded(w, b, statistics, epsilon, lambda w, k: w * k)
    return x @ kernel + bias


@rule(_normalised("x"))
def scale_and_shift(
    x: Symbol, gamma: Symbol, beta: Symbol, mean: Symbol, var: Symbol, bn: Node
) -> Result:
    """BN(x) = x k + (beta - mean k)"""
    if bn.attr("training_mode"):
        return reject("training mode normalises by the batch's own statistics")
    if x.rank is None or x.rank < 2:
        return reject("the rank of its input is not known")
    epsilon = float(bn.attr("epsilon"))
    shape = (stored(gamma).shape[0], *[1] * (x.rank - 2))

    def factor(gamma: Array, var: Array) -> Array:
        return (gamma / np.sqrt(var + epsilon)).reshape(shape)

    def offset(gamma: Array, beta: Array, mean: Array, var: Array) -> Array:
        return (beta - mean * gamma / np.sqrt(var + epsilon)).reshape(shape)

    scale = derived_weight(gamma, shape, [stored(gamma), stored(var)], factor)
    sources = [stored(s) for s in (gamma, beta, mean, var)]
    return x * scale + derived_weight(beta, shape, sources, offset)


FOLDS: tuple[Rule, ...] = (
    fold_into_convolution,
    fold_into_gemm,
    fold_into_product,
    *SCALES,
)


def fold_batch_norm(graph: Graph, trace: Trace | None = None) -> Graph:
    """Fold what can be; only then write the other normalisations as factor and offset."""
    return rewrite(rewrite(graph, FOLDS, trace), (scale_and_shift,), trace)


def _folded(
    w: Symbol,
    b: Symbol | None,
    statistics: list[Tensor],
    epsilon: float,
    scale: Scale,
    bias_factor: float = 1.0,
) -> tuple[Symbol, Symbol]:
    """The weights with the normalisation in them; gamma, beta, mean and variance in that order."""
    gamma, beta, mean, var = statistics
    channels = gamma.shape[0]

    def kernel(w: Array, gamma: Array, var: Array) -> Array:
        return scale(w, gamma / np.sqrt(var + epsilon))

    def bias(gamma: Array, beta: Array, mean: Array, var: Array, *b: Array) -> Array:
        k = gamma / np.sqrt(var + epsilon)
        before = spread(b[0], channels) * bias_factor if b else np.zeros(channels)
        return (before - mean) * k + beta

    sources = [gamma, beta, mean, var] + ([stored(b)] if b is not None else [])
    return (
        derived_weight(w, stored(w).shape, [stored(w), gamma, var], kernel, narrow=1),
        derived_weight(w, (channels,), sources, bias),
    )


def _is_row(bias: Symbol) -> bool:
    """Whether a bias of matrices is the same in every row."""
    return all(size == 1 for size in stored(bias).shape[:-1])
