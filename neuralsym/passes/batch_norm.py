"""Batch normalisation and affine maps of channels, folded into the weights of what precedes them.

With k = gamma / sqrt(variance + epsilon):

    BN(x * W + b) = x * (W k) + (b - mean) k + beta        for a convolution or matrix product
    BN(x)         = x k + (beta - mean k)                  for anything else

The new weights are computed in float64, once, when they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import stored
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.passes.derived import derived_weight
from neuralsym.rewrite.driver import Trace, rewrite
from neuralsym.rewrite.pattern import P
from neuralsym.rewrite.rule import Rejected, Result, Rule, reject, rule

Array = NDArray[Any]
Scale = Callable[[Array, Array], Array]
"""The filters times one factor for each channel of the result."""

_STATISTICS = (P.const("gamma"), P.const("beta"), P.const("mean"), P.const("var"))
_CONVOLUTIONS = P.op("Conv", "ConvTranspose")


def _normalised(inner: Any) -> Any:
    return P.BatchNormalization(inner, *_STATISTICS).named("bn")


@rule(_normalised(_CONVOLUTIONS("x", P.const("w"), P.optional(P.const("b"))).named("conv")))
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
    kernel, bias = _folded(w, b, statistics, epsilon, _scale_filters(conv))
    return _again(conv, x, kernel, bias)


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


@rule(
    P.Mul(
        _CONVOLUTIONS("x", P.const("w"), P.optional(P.const("b"))).named("conv"), P.const("factor")
    )
)
def fold_factor(x: Symbol, w: Symbol, b: Symbol | None, conv: Node, factor: Symbol) -> Result:
    """(conv(x, w) + b) k = conv(x, w k) + b k, for one factor a channel"""
    channels = _channels(conv)
    refusal = _not_by_channel(factor, conv, channels)
    if refusal is not None:
        return refusal
    scale = _scale_filters(conv)

    def kernel(w: Array, k: Array) -> Array:
        return scale(w, _spread(k, channels))

    made = derived_weight(w, stored(w).shape, [stored(w), stored(factor)], kernel)
    if b is None:
        return _again(conv, x, made, None)

    def bias(b: Array, k: Array) -> Array:
        return b * _spread(k, channels)

    return _again(conv, x, made, derived_weight(b, (channels,), [stored(b), stored(factor)], bias))


@rule(
    P.Add(
        _CONVOLUTIONS("x", P.const("w"), P.optional(P.const("b"))).named("conv"), P.const("offset")
    )
)
def fold_offset(x: Symbol, w: Symbol, b: Symbol | None, conv: Node, offset: Symbol) -> Result:
    """conv(x, w) + b + c = conv(x, w) + (b + c), for one number a channel"""
    channels = _channels(conv)
    refusal = _not_by_channel(offset, conv, channels)
    if refusal is not None:
        return refusal
    if b is None:
        bias = derived_weight(offset, (channels,), [stored(offset)], lambda c: _spread(c, channels))
    else:
        bias = derived_weight(
            b, (channels,), [stored(b), stored(offset)], lambda b, c: b + _spread(c, channels)
        )
    return _again(conv, x, w, bias)


FOLDS: tuple[Rule, ...] = (
    fold_into_convolution,
    fold_into_gemm,
    fold_into_product,
    fold_factor,
    fold_offset,
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
        before = _spread(b[0], channels) * bias_factor if b else np.zeros(channels)
        return (before - mean) * k + beta

    sources = [gamma, beta, mean, var] + ([stored(b)] if b is not None else [])
    return (
        derived_weight(w, stored(w).shape, [stored(w), gamma, var], kernel),
        derived_weight(w, (channels,), sources, bias),
    )


def _scale_filters(conv: Node) -> Scale:
    """How the filters of a convolution are multiplied channel by channel of the result."""
    if conv.op_type == "Conv":
        return lambda w, k: w * k.reshape(-1, *[1] * (w.ndim - 1))
    groups = int(conv.attr("group"))

    def by_groups(w: Array, k: Array) -> Array:
        # Filters of a transposed convolution are (inputs, outputs of the group, ...).
        split = w.reshape(groups, -1, *w.shape[1:])
        factors = k.reshape(groups, 1, -1, *[1] * (w.ndim - 2))
        return (split * factors).reshape(w.shape)

    return by_groups


def _channels(conv: Node) -> int:
    """The channels of a convolution's result; its filters are stored."""
    w = conv.inputs[1]
    assert w is not None
    shape = stored(w).shape
    return shape[0] if conv.op_type == "Conv" else shape[1] * int(conv.attr("group"))


def _again(conv: Node, x: Symbol, w: Symbol, b: Symbol | None) -> Symbol:
    function = ops.conv if conv.op_type == "Conv" else ops.conv_transpose
    return function(x, w, b, **conv.attrs)


def _not_by_channel(given: Symbol, conv: Node, channels: int) -> Rejected | None:
    """The refusal of a constant that is not one number, or one for each channel."""
    shape = stored(given).shape
    rank = conv.outputs[0].rank
    if rank is None or len(shape) > rank:
        return reject("it changes the rank of the result")
    wide = (1,) * (rank - len(shape)) + shape
    if any(size != 1 for axis, size in enumerate(wide) if axis != 1):
        return reject(f"its shape {shape} is more than one number a channel")
    return None if wide[1] in (1, channels) else reject(f"its shape {shape} widens the channels")


def _spread(value: Array, channels: int) -> Array:
    return np.broadcast_to(value.reshape(-1), (channels,))


def _is_row(bias: Symbol) -> bool:
    """Whether a bias of matrices is the same in every row."""
    return all(size == 1 for size in stored(bias).shape[:-1])
