"""Factors and summands of stored numbers around products, folded into their weights.

    (conv(x, w) + b) k + c  =  conv(x, w k) + (b k + c)        behind, by channels of the result
    (x @ w + b) k           =  x @ (w k) + b k                 behind, by columns
    conv(x k, w)            =  conv(x, w k)                    before, by channels of the input
    (x k) @ w               =  x @ (k w)                       before, by rows of w

The new weights are computed in float64 and rounded once: a product differs by one rounding of each
of its terms from what it was. One number beside a matrix product is left to its kernel, which
multiplies for nothing and leaves large weights as they are. Zeros that a convolution pads stay
zeros, so its factors may stand before the padding; a summand may not, and stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym import ops
from neuralsym.core.leaves import stored
from neuralsym.core.symbol import Node, Symbol
from neuralsym.passes.derived import derived_weight
from neuralsym.rewrite.pattern import P
from neuralsym.rewrite.rule import Rejected, Result, Rule, reject, rule

Array = NDArray[Any]
Scale = Callable[[Array, Array], Array]
"""The filters times one factor for each channel of the result."""

CONVOLUTIONS = P.op("Conv", "ConvTranspose")
_CONV = CONVOLUTIONS("x", P.const("w"), P.optional(P.const("b"))).named("conv")


def _fold_factor(x: Symbol, w: Symbol, b: Symbol | None, conv: Node, factor: Symbol) -> Result:
    """(conv(x, w) + b) k = conv(x, w k) + b k, for one factor a channel"""
    return _scaled_conv(x, w, b, conv, factor, _times)


def _fold_divisor(x: Symbol, w: Symbol, b: Symbol | None, conv: Node, factor: Symbol) -> Result:
    """(conv(x, w) + b) / k = conv(x, w / k) + b / k, for one divisor a channel"""
    return _scaled_conv(x, w, b, conv, factor, _over)


def _fold_offset(x: Symbol, w: Symbol, b: Symbol | None, conv: Node, offset: Symbol) -> Result:
    """conv(x, w) + b + c = conv(x, w) + (b + c), for one number a channel"""
    return _moved_conv(x, w, b, conv, offset, 1.0)


def _fold_difference(x: Symbol, w: Symbol, b: Symbol | None, conv: Node, offset: Symbol) -> Result:
    """conv(x, w) + b - c = conv(x, w) + (b - c), for one number a channel"""
    return _moved_conv(x, w, b, conv, offset, -1.0)


BEHIND_CONVOLUTIONS: tuple[Rule, ...] = (
    Rule("fold_factor", P.Mul(_CONV, P.const("factor")), _fold_factor),
    Rule("fold_divisor", P.Div(_CONV, P.const("factor")), _fold_divisor),
    Rule("fold_offset", P.Add(_CONV, P.const("offset")), _fold_offset),
    Rule("fold_difference", P.Sub(_CONV, P.const("offset")), _fold_difference),
)


def _times(value: Array, factor: Array) -> Array:
    """The product in double precision, rounded once to the value's: block by block, by numpy."""
    if value.dtype != np.float32 or factor.dtype != np.float64:
        return value * factor
    made = np.empty(np.broadcast_shapes(value.shape, factor.shape), np.float32)
    return np.multiply(value, factor, out=made, casting="same_kind")


def _over(value: Array, factor: Array) -> Array:
    return value / factor


def _scaled_conv(
    x: Symbol, w: Symbol, b: Symbol | None, conv: Node, factor: Symbol, join: Scale
) -> Result:
    channels = channels_of(conv)
    refusal = _not_by_channel(factor, conv, channels) or _unfit(factor, join)
    if refusal is not None:
        return refusal
    scale = scale_filters(conv, join)

    def kernel(w: Array, k: Array) -> Array:
        return scale(w, spread(k, channels))

    made = derived_weight(w, stored(w).shape, [stored(w), stored(factor)], kernel)
    if b is None:
        return again(conv, x, made, None)

    def bias(b: Array, k: Array) -> Array:
        return join(b, spread(k, channels))

    return again(conv, x, made, derived_weight(b, (channels,), [stored(b), stored(factor)], bias))


def _moved_conv(
    x: Symbol, w: Symbol, b: Symbol | None, conv: Node, offset: Symbol, sign: float
) -> Result:
    channels = channels_of(conv)
    refusal = _not_by_channel(offset, conv, channels)
    if refusal is not None:
        return refusal

    def bias(c: Array, *b: Array) -> Array:
        return sum(b, sign * spread(c, channels))

    sources = [stored(offset)] + ([] if b is None else [stored(b)])
    return again(conv, x, w, derived_weight(offset if b is None else b, (channels,), sources, bias))


def scale_filters(conv: Node, join: Scale = _times) -> Scale:
    """How the filters of a convolution are multiplied channel by channel of the result."""
    if conv.op_type == "Conv":
        return lambda w, k: join(w, k.reshape(-1, *[1] * (w.ndim - 1)))
    groups = int(conv.attr("group"))

    def by_groups(w: Array, k: Array) -> Array:
        # Filters of a transposed convolution are (inputs, outputs of the group, ...).
        split = w.reshape(groups, -1, *w.shape[1:])
        factors = k.reshape(groups, 1, -1, *[1] * (w.ndim - 2))
        return join(split, factors).reshape(w.shape)

    return by_groups


def channels_of(conv: Node) -> int:
    """The channels of a convolution's result; its filters are stored."""
    w = conv.inputs[1]
    assert w is not None
    shape = stored(w).shape
    return shape[0] if conv.op_type == "Conv" else shape[1] * int(conv.attr("group"))


def again(conv: Node, x: Symbol, w: Symbol, b: Symbol | None) -> Symbol:
    """The convolution of other operands."""
    function = ops.conv if conv.op_type == "Conv" else ops.conv_transpose
    return function(x, w, b, **conv.attrs)


def spread(value: Array, channels: int) -> Array:
    """One number, or one for each channel, as one for each channel."""
    return np.broadcast_to(value.reshape(-1), (channels,))


def _not_by_channel(given: Symbol, conv: Node, channels: int) -> Rejected | None:
    """The refusal of a constant that is not one number, or one for each channel."""
    return not_along(given, conv.outputs[0].rank, 1, channels)


def not_along(given: Symbol, rank: int | None, axis: int, size: int) -> Rejected | None:
    """The refusal of a stored array that differs along other axes than one of a value's."""
    shape = stored(given).shape
    if rank is None or len(shape) > rank:
        return reject("it changes the rank of the result")
    wide = (1,) * (rank - len(shape)) + shape
    if any(s != 1 for i, s in enumerate(wide) if i != axis % rank):
        return reject(f"its shape {shape} differs along more than one axis")
    found = wide[axis % rank]
    return None if found in (1, size) else reject(f"its shape {shape} widens the result")


def _unfit(factor: Symbol, join: Scale) -> Rejected | None:
    """The refusal of factors that are not finite: times a weight of zero they would be NaN."""
    tensor = stored(factor)
    if not tensor.is_drawn:
        return None
    value = tensor.value
    if not np.all(np.isfinite(value)) or (join is _over and not np.all(value)):
        return reject("not all of its numbers are finite")
    return None


# -- before convolutions -----------------------------------------------------------------------
def _before_conv(
    x: Symbol, w: Symbol, b: Symbol | None, conv: Node, factor: Symbol, join: Scale
) -> Result:
    scaled = conv.inputs[0]
    if scaled is None or x.type != scaled.type:
        return reject("the factor widens the shape")
    shape = stored(w).shape
    groups = int(conv.attr("group"))
    channels = shape[1] * groups
    refusal = not_along(factor, x.rank, 1, channels) or _unfit(factor, join)
    if refusal is not None:
        return refusal

    def kernel(w: Array, k: Array) -> Array:
        # Filters are (outputs, inputs of the group, ...), the outputs group after group.
        split = w.reshape(groups, -1, *w.shape[1:])
        factors = spread(k, channels).reshape(groups, 1, -1, *[1] * (w.ndim - 2))
        return join(split, factors).reshape(w.shape)

    made = derived_weight(w, shape, [stored(w), stored(factor)], kernel)
    return again(conv, x, made, b)


@rule(P.Conv(P.Mul("x", P.const("factor")), P.const("w"), P.optional("b")).named("conv"))
def factor_into_convolution(
    x: Symbol, factor: Symbol, w: Symbol, b: Symbol | None, conv: Node
) -> Result:
    """conv(x k, w) = conv(x, w k), for one factor a channel"""
    return _before_conv(x, w, b, conv, factor, _times)


@rule(P.Conv(P.Div("x", P.const("factor")), P.const("w"), P.optional("b")).named("conv"))
def divisor_into_convolution(
    x: Symbol, factor: Symbol, w: Symbol, b: Symbol | None, conv: Node
) -> Result:
    """conv(x / k, w) = conv(x, w / k), for one divisor a channel"""
    return _before_conv(x, w, b, conv, factor, _over)


# -- matrices ----------------------------------------------------------------------------------
def _columns(w: Symbol, factor: Symbol, rank: int | None, axis: int, join: Scale) -> Result:
    """Weights of two axes with each column or row of the result's factor in them."""
    shape = stored(w).shape
    if len(shape) != 2 or not w.dtype.is_float:
        return reject("its weights are no matrix of floats")
    if stored(factor).size == 1:
        return reject("the kernel multiplies by one number as it goes")
    refusal = not_along(factor, rank, -1, shape[axis]) or _unfit(factor, join)
    if refusal is not None:
        return refusal

    def scaled(w: Array, k: Array) -> Array:
        factors = spread(k, shape[axis])
        return join(w, factors if axis == 1 else factors[:, None])

    return derived_weight(w, shape, [stored(w), stored(factor)], scaled)


_LINEAR = P.MatMul("x", P.const("w")).named("product")
_GEMM = P.Gemm("x", P.const("w"), P.optional(P.const("b"))).named("gemm")


def _behind_product(x: Symbol, w: Symbol, product: Node, factor: Symbol, join: Scale) -> Result:
    made = _columns(w, factor, product.outputs[0].rank, 1, join)
    if not isinstance(made, Symbol):
        return made
    return ops.matmul(x, made)


@rule(P.Mul(_LINEAR, P.const("factor")))
def factor_of_product(x: Symbol, w: Symbol, product: Node, factor: Symbol) -> Result:
    """(x @ w) k = x @ (w k), for one factor a column"""
    return _behind_product(x, w, product, factor, _times)


@rule(P.Div(_LINEAR, P.const("factor")))
def divisor_of_product(x: Symbol, w: Symbol, product: Node, factor: Symbol) -> Result:
    """(x @ w) / k = x @ (w / k), for one divisor a column"""
    return _behind_product(x, w, product, factor, _over)


def _behind_sum(
    x: Symbol, w: Symbol, b: Symbol, product: Node, factor: Symbol, join: Scale
) -> Result:
    made = _columns(w, factor, product.outputs[0].rank, 1, join)
    if not isinstance(made, Symbol):
        return made
    columns = stored(w).shape[1]
    refusal = not_along(b, product.outputs[0].rank, -1, columns)
    if refusal is not None:
        return refusal

    def bias(b: Array, k: Array) -> Array:
        return join(spread(b, columns), spread(k, columns))

    return ops.matmul(x, made) + derived_weight(b, (columns,), [stored(b), stored(factor)], bias)


@rule(P.Mul(P.Add(_LINEAR, P.const("b")), P.const("factor")))
def factor_of_sum(x: Symbol, w: Symbol, b: Symbol, product: Node, factor: Symbol) -> Result:
    """(x @ w + b) k = x @ (w k) + b k, for one factor a column"""
    return _behind_sum(x, w, b, product, factor, _times)


@rule(P.Div(P.Add(_LINEAR, P.const("b")), P.const("factor")))
def divisor_of_sum(x: Symbol, w: Symbol, b: Symbol, product: Node, factor: Symbol) -> Result:
    """(x @ w + b) / k = x @ (w / k) + b / k, for one divisor a column"""
    return _behind_sum(x, w, b, product, factor, _over)


def _behind_gemm(
    x: Symbol, w: Symbol, b: Symbol | None, gemm: Node, factor: Symbol, join: Scale
) -> Result:
    axis = 0 if gemm.attr("transB") else 1
    made = _columns(w, factor, 2, axis, join)
    if not isinstance(made, Symbol) or b is None:
        return made if not isinstance(made, Symbol) else ops.gemm(x, made, None, **gemm.attrs)
    columns = stored(w).shape[axis]
    refusal = not_along(b, 2, -1, columns)
    if refusal is not None:
        return refusal

    def bias(b: Array, k: Array) -> Array:
        return join(spread(b, columns), spread(k, columns))

    total = derived_weight(b, (columns,), [stored(b), stored(factor)], bias)
    return ops.gemm(x, made, total, **gemm.attrs)


@rule(P.Mul(_GEMM, P.const("factor")))
def factor_of_gemm(x: Symbol, w: Symbol, b: Symbol | None, gemm: Node, factor: Symbol) -> Result:
    """(x w + b) k = x (w k) + b k, for one factor a column"""
    return _behind_gemm(x, w, b, gemm, factor, _times)


@rule(P.Div(_GEMM, P.const("factor")))
def divisor_of_gemm(x: Symbol, w: Symbol, b: Symbol | None, gemm: Node, factor: Symbol) -> Result:
    """(x w + b) / k = x (w / k) + b / k, for one divisor a column"""
    return _behind_gemm(x, w, b, gemm, factor, _over)


@rule(P.Sub(P.op("MatMul", "Gemm")().named("product"), P.const("offset")))
def difference_of_product(product: Node, offset: Symbol) -> Result:
    """x @ w - c = x @ w + (-c), which the product's kernel adds as it goes"""
    value = product.outputs[0]
    if not value.dtype.is_float or stored(offset).size == 1:
        return reject("it is of integers, or of one number")
    return value + ops.neg(offset)


@rule(P.MatMul(P.Mul("x", P.const("factor")).named("scaled"), P.const("w")))
def factor_into_product(x: Symbol, w: Symbol, factor: Symbol, scaled: Node) -> Result:
    """(x k) @ w = x @ (k w), for one factor a row of w"""
    made = _columns(w, factor, x.rank, 0, _times)
    if not isinstance(made, Symbol):
        return made
    if x.type != scaled.outputs[0].type:
        return reject("the factor widens the shape")
    return ops.matmul(x, made)


@rule(P.MatMul(P.Div("x", P.const("factor")).named("scaled"), P.const("w")))
def divisor_into_product(x: Symbol, w: Symbol, factor: Symbol, scaled: Node) -> Result:
    """(x / k) @ w = x @ (w / k), for one divisor a row of w"""
    made = _columns(w, factor, x.rank, 0, _over)
    if not isinstance(made, Symbol):
        return made
    if x.type != scaled.outputs[0].type:
        return reject("the divisor widens the shape")
    return ops.matmul(x, made)


SCALES: tuple[Rule, ...] = (
    *BEHIND_CONVOLUTIONS,
    factor_into_convolution,
    divisor_into_convolution,
    factor_of_product,
    divisor_of_product,
    factor_of_sum,
    divisor_of_sum,
    factor_of_gemm,
    divisor_of_gemm,
    difference_of_product,
    factor_into_product,
    divisor_into_product,
)
