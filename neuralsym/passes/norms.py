"""Normalisations that files write out: layer, RMS and group norms, made the operators they are.

First the core is found, as a norm whose scale is ones; then what multiplies it and is added to it
becomes its scale and bias. The kernels sum in another order and, for halves, in float32: results
differ by the rounding of float32 sums of a row, and no intermediate square overflows any more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from neuralsym import ops
from neuralsym.core.leaves import constant, is_stored, stored
from neuralsym.core.registry import call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType
from neuralsym.passes.activations import attribute_of, rules
from neuralsym.passes.derived import derived_weight
from neuralsym.rewrite.pattern import Applied, P, Pattern
from neuralsym.rewrite.rule import Rejected, Result, Rule, reject, rule

_HALVES = (NumberType.FLOAT16, NumberType.BFLOAT16)


def _square(of: Pattern | str) -> Pattern:
    return P.either(P.Mul(of, of), P.Pow(of, P.const(None, 2.0)))


def _divided(value: Pattern | str, variance: Pattern) -> list[Applied]:
    """value / sqrt(variance + epsilon), in the ways in which exporters write it."""
    total = P.Add(variance, P.const("epsilon"))
    root = P.either(P.Sqrt(total), P.Pow(total, P.const(None, 0.5)))
    return [
        P.Div(value, root).named("out"),
        P.Mul(value, _inverse(total, root)).named("out"),
    ]


def _inverse(total: Pattern, root: Pattern) -> Pattern:
    return P.either(
        P.Reciprocal(root), P.Div(P.const(None, 1.0), root), P.Pow(total, P.const(None, -0.5))
    )


def _mean(of: Pattern | str, name: str) -> Applied:
    return P.ReduceMean(of, P.optional(P.any())).named(name)


_DEVIATION = P.Sub("x", _mean("x", "first")).named("deviation")
_VARIANCE = _mean(_square(_DEVIATION), "second")


def _layer_norm(x: Symbol, first: Node, second: Node, epsilon: Symbol, **_: Node) -> Result:
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) = layer_normalization(x, 1)"""
    axis = _trailing_axis(first)
    if isinstance(axis, Rejected):
        return axis
    if axis != _trailing_axis(second):
        return reject("its two means are over different axes")
    return _of_ones("LayerNormalization", x, axis, epsilon)


def _rms_norm(x: Symbol, first: Node, epsilon: Symbol, **_: Node) -> Result:
    """x / sqrt(mean(x^2) + eps) = rms_normalization(x, 1)"""
    axis = _trailing_axis(first)
    if isinstance(axis, Rejected):
        return axis
    return _of_ones("RMSNormalization", x, axis, epsilon)


_LAYER_NORM = rules("layer_norm_written_out", _layer_norm, *_divided(_DEVIATION, _VARIANCE))
_RMS_NORM = rules("rms_norm_written_out", _rms_norm, *_divided("x", _mean(_square("x"), "first")))


def _keras_inverse() -> Applied:
    total = P.Add(_VARIANCE, P.const("epsilon"))
    return P.Mul(_inverse(total, P.Sqrt(total)), P.const("gamma")).named("scale")


@rule(
    P.Add(
        P.Mul("x", _keras_inverse()),
        P.Sub(P.const("beta"), P.Mul(_mean("x", "first"), _keras_inverse())),
    )
)
def layer_norm_of_keras(
    x: Symbol,
    first: Node,
    second: Node,
    epsilon: Symbol,
    gamma: Symbol,
    beta: Symbol,
    **_: Node,
) -> Result:
    """x k + (beta - mean(x) k) = layer_normalization(x, gamma, beta), k = gamma / deviation"""
    plain = _layer_norm(x, first, second, epsilon)
    if not isinstance(plain, Symbol):
        return plain
    row = _row(plain.node)
    scale, bias = _as_row(gamma, row), _as_row(beta, row)
    if scale is None or bias is None:
        return reject("its scale or bias is not along the axes of the means")
    return _again(plain.node, x, scale, bias)


_NORM = P.op("LayerNormalization", "RMSNormalization")


@rule(P.Mul(_NORM("x", P.const("ones")).named("norm"), "gamma"))
def scale_of_norm(x: Symbol, ones: Symbol, gamma: Symbol, norm: Node) -> Result:
    """norm(x, 1) * gamma = norm(x, gamma)"""
    if not _is_ones(ones):
        return reject("it has a scale already")
    scale = _as_row(gamma, _row(norm))
    if scale is None:
        return reject(f"its factor {gamma.type} is not along the axes that are normalised")
    return _again(norm, x, scale)


@rule(P.Add(P.LayerNormalization("x", "scale").named("norm"), "beta"))
def bias_of_norm(x: Symbol, scale: Symbol, beta: Symbol, norm: Node) -> Result:
    """layer_normalization(x, scale) + beta = layer_normalization(x, scale, beta)"""
    bias = _as_row(beta, _row(norm))
    if bias is None:
        return reject(f"its summand {beta.type} is not along the axes that are normalised")
    return _again(norm, x, scale, bias)


@rule(P.Cast(_NORM(P.Cast("x"), P.const("ones")).named("norm")).named("out"))
def norm_of_halves(x: Symbol, ones: Symbol, norm: Node, out: Node) -> Result:
    """half(norm(float32(x), 1)) = norm(x, 1), which computes in float32 by itself"""
    if x.dtype not in _HALVES or out.outputs[0].dtype is not x.dtype:
        return reject("it is not of halves")
    if norm.outputs[0].dtype is not NumberType.FLOAT32 or not _is_ones(ones):
        return reject("it is scaled before it is rounded")
    row = stored(ones).shape
    return _again(norm, x, constant(Tensor.of(np.ones(row, x.dtype.numpy), x.dtype)))


_GROUPS = P.InstanceNormalization(P.Reshape("x", P.any()), P.const("ones"), P.const("zeros"))


@rule(
    P.Add(
        P.Mul(P.Reshape(_GROUPS.named("norm"), P.any()).named("back"), P.const("gamma")),
        P.const("beta"),
    ).named("out")
)
def group_norm(
    x: Symbol,
    ones: Symbol,
    zeros: Symbol,
    gamma: Symbol,
    beta: Symbol,
    norm: Node,
    back: Node,
    out: Node,
) -> Result:
    """instance_normalization by groups * gamma + beta = group_normalization(x, gamma, beta)"""
    shape, inner = x.shape, norm.outputs[0].shape
    if shape is None or inner is None or len(shape) < 3 or len(inner) < 3:
        return reject("the rank of its input is not known")
    if back.outputs[0].shape != shape or out.outputs[0].type != x.type:
        return reject("it changes the shape")
    channels, groups = shape[1], inner[1]
    if not isinstance(channels, int) or not isinstance(groups, int) or inner[0] != shape[0]:
        return reject("its channels are not known")
    if not groups or channels % groups or not _is_ones(ones) or not _is_value(zeros, 0.0):
        return reject("it has a scale or a bias for each group")
    sides = []
    for side in (gamma, beta):
        given = stored(side).shape
        wide = (1,) * (len(shape) - len(given)) + given
        if len(wide) != len(shape) or wide[1] not in (1, channels) or np.prod(wide) != wide[1]:
            return reject(f"its scale or bias {given} is not one number a channel")
        sides.append(_spread(side, (channels,), (-1,)))
    epsilon = norm.attr("epsilon")
    return ops.group_normalization(x, sides[0], sides[1], num_groups=groups, epsilon=epsilon)


NORMS: tuple[Rule, ...] = (
    *_LAYER_NORM,
    *_RMS_NORM,
    layer_norm_of_keras,
    scale_of_norm,
    bias_of_norm,
    norm_of_halves,
    group_norm,
)


def _trailing_axis(mean: Node) -> int | Rejected:
    """The first of the last axes over which a mean is taken, counted from the end."""
    rank = mean.outputs[0].rank
    axes = mean.inputs[1] if len(mean.inputs) > 1 else None
    known = None if axes is None else axes.known
    if rank is None or known is None or not known.size or not mean.attr("keepdims"):
        return reject("its means are not known to be over the last axes, and kept")
    found = sorted(int(axis) % rank for axis in known.reshape(-1))
    if found != list(range(found[0], rank)):
        return reject("its means are over other than the last axes")
    return found[0] - rank


def _of_ones(name: str, x: Symbol, axis: int, epsilon: Symbol) -> Result:
    small = attribute_of(epsilon)
    if small is None:
        return reject("its epsilon is not one number of float32")
    shape = x.shape
    row = () if shape is None else shape[axis:]
    sizes = tuple(size for size in row if isinstance(size, int))
    if not sizes or len(sizes) != len(row):
        return reject("the sizes of the last axes are not known")
    ones = constant(Tensor.of(np.ones(sizes, x.dtype.numpy), x.dtype))
    return call(name, x, ones, axis=axis, epsilon=small)


def _again(norm: Node, x: Symbol, *sides: Symbol) -> Symbol:
    """The norm with another scale or bias."""
    return call(norm.op_type, x, *sides, **norm.attrs)


def _row(norm: Node) -> tuple[object, ...]:
    """The sizes of the axes that are normalised; empty where they are not known."""
    shape = norm.outputs[0].shape
    return () if shape is None else shape[norm.attr("axis") % len(shape) :]


def _as_row(side: Symbol, row: tuple[object, ...]) -> Symbol | None:
    """A factor or summand in the shape of the rows; None for one that differs between rows."""
    if side.shape is not None and side.shape == row:
        return side
    if not is_stored(side) or not row or not all(isinstance(size, int) for size in row):
        return None
    sizes = tuple(size for size in row if isinstance(size, int))
    shape = stored(side).shape
    before, tail = shape[: -len(row)], shape[-len(row) :]
    wide = (1,) * (len(row) - len(tail)) + tail
    if any(size != 1 for size in before):
        return None
    if any(size not in (1, whole) for size, whole in zip(wide, sizes, strict=True)):
        return None
    return _spread(side, sizes, wide)


def _spread(side: Symbol, shape: tuple[int, ...], wide: tuple[int, ...]) -> Symbol:
    """A stored array seen as `wide` and repeated to `shape`."""

    def spread(value: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.broadcast_to(value.reshape(wide), shape)

    return derived_weight(side, shape, [stored(side)], spread)


def _is_ones(symbol: Symbol) -> bool:
    return _is_value(symbol, 1.0)


def _is_value(symbol: Symbol, value: float) -> bool:
    tensor = stored(symbol)
    return tensor.is_drawn and bool(np.all(tensor.value == value))
