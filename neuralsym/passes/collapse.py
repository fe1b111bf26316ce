"""Chains of the same kind made one: casts, bounds, slices, and what only widens.

Every rule gives the same bits as the chain does, NaN and empty sizes included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.broadcast import broadcast_shapes
from neuralsym.core.leaves import is_stored, stored
from neuralsym.core.registry import apply, call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Shape
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch
from neuralsym.passes.numbers import number_of
from neuralsym.rewrite.pattern import P
from neuralsym.rewrite.rule import Result, Rule, reject, rule

_END = np.iinfo(np.int64).max


# -- casts -------------------------------------------------------------------------------------
@rule(P.Cast(P.Cast("x").named("first")).named("second"), shared=True)
def join_casts(x: Symbol, first: Node, second: Node) -> Result:
    """cast(cast(x, a), b) = cast(x, b), where a holds every value of x"""
    middle, last = first.outputs[0].dtype, second.outputs[0].dtype
    if not _holds(middle, x.dtype):
        return reject(f"{middle} does not hold every {x.dtype}")
    if x.dtype.is_integer and middle.is_float and not (last.is_float or last is x.dtype):
        return reject("floats out of range are cast in another way than integers")
    return apply(second.op, [x], second.attrs)[0]


_SIGNIFICANT = {
    NumberType.FLOAT16: (11, 16),
    NumberType.BFLOAT16: (8, 128),
    NumberType.FLOAT32: (24, 128),
    NumberType.FLOAT64: (53, 1024),
}
"""Of each float type its bits and its largest exponent."""


def _holds(wide: NumberType, narrow: NumberType) -> bool:
    """Whether every value of one number type is one of another."""
    if wide is narrow:
        return True
    if narrow is NumberType.BOOL:
        return wide.is_integer or wide in _SIGNIFICANT
    if not (_is_plain(narrow) and _is_plain(wide)):
        return False
    if narrow.is_integer and wide.is_integer:
        own, whole = np.iinfo(narrow.numpy), np.iinfo(wide.numpy)
        return bool(whole.min <= own.min and own.max <= whole.max)
    if wide not in _SIGNIFICANT:
        return False
    bits, exponent = _SIGNIFICANT[wide]
    if narrow.is_integer:
        return int(np.iinfo(narrow.numpy).bits) <= min(bits, exponent - 1)
    if narrow not in _SIGNIFICANT:
        return False
    own_bits, own_exponent = _SIGNIFICANT[narrow]
    # The smallest subnormal of each is 2^(2 - exponent - (bits - 1)).
    return own_bits <= bits and own_exponent <= exponent


def _is_plain(dtype: NumberType) -> bool:
    """Whether it is a float of 16 to 64 bits or an integer of whole bytes."""
    return dtype in _SIGNIFICANT or (dtype.is_integer and dtype.numpy.kind in "iu")


# -- bounds ------------------------------------------------------------------------------------
@rule(P.Relu(P.Relu("x")), shared=True)
def join_relus(x: Symbol) -> Result:
    """relu(relu(x)) = relu(x)"""
    return ops.relu(x)


_BOUNDED = P.op("Clip", "Relu")("x", P.optional(P.any("low")), P.optional(P.any("high"))).named(
    "inner"
)


@rule(P.Clip(_BOUNDED, P.optional(P.any()), P.optional(P.any())).named("outer"), shared=True)
def join_clips(x: Symbol, inner: Node, outer: Node, **_: Symbol | None) -> Result:
    """clip(clip(x, a, b), c, d) = clip(x, max(a, c), min(b, d)), for c <= b"""
    first, second = _bounds(inner), _bounds(outer)
    if first is None or second is None:
        return reject("its bounds are not known")
    (a, b), (c, d) = first, second
    if c > b or any(math.isnan(v) for v in (a, b, c, d)):
        return reject("the ranges do not meet")
    low, high = max(a, c), min(b, d)
    return _clip(x, low, high)


@rule(P.Relu(P.Clip("x", P.optional(P.any("low")), P.optional(P.any("high"))).named("inner")))
def relu_into_clip(x: Symbol, inner: Node, **_: Symbol | None) -> Result:
    """relu(clip(x, a, b)) = clip(x, max(a, 0), b), for b >= 0"""
    bounds = _bounds(inner)
    if bounds is None or not bounds[1] >= 0 or math.isnan(bounds[0]):
        return reject("its bounds are not known, or below zero")
    return _clip(x, max(bounds[0], 0), bounds[1])


@rule(P.Min(P.Relu("x"), P.const("high")).named("out"))
def clip_of_minimum(x: Symbol, high: Symbol, out: Node) -> Result:
    """min(relu(x), c) = clip(x, 0, c), for c >= 0"""
    bound = number_of(high)
    if bound is None or x.type != out.outputs[0].type or not bound >= 0:
        return reject("its bound is not one number from zero on")
    return _clip(x, 0, bound)


def _bounds(node: Node) -> tuple[float, float] | None:
    """The bounds of a Clip or Relu, infinite where it has none; None if they are not known."""
    if node.op_type == "Relu":
        return 0, math.inf
    found: list[float] = []
    for i, missing in ((1, -math.inf), (2, math.inf)):
        given = node.inputs[i] if i < len(node.inputs) else None
        value = missing if given is None else number_of(given)
        if value is None:
            return None
        found.append(value)
    return found[0], found[1]


def _clip(x: Symbol, low: float, high: float) -> Symbol:
    """Clip with bounds of its own type; a bound that is infinite for integers is left out."""

    def bound(value: float) -> Any:
        if math.isinf(value):
            return None
        return np.asarray(value).astype(x.dtype.numpy)

    return call("Clip", x, bound(low), bound(high))


# -- pieces ------------------------------------------------------------------------------------
@rule(
    P.Slice(
        P.Slice("x", P.any(), P.any(), *[P.optional(P.any())] * 2).named("first"),
        P.any(),
        P.any(),
        *[P.optional(P.any())] * 2,
    ).named("second")
)
def join_slices(x: Symbol, first: Node, second: Node) -> Result:
    """x[a:b][c:d] = x[a + c:min(b, a + d)], axis by axis"""
    a, b = _cuts(first), _cuts(second)
    if a is None or b is None:
        return reject("what they cut is known only in the run")
    joined = dict(a)
    for axis, (start, end, step) in b.items():
        if axis not in joined:
            joined[axis] = (start, end, step)
            continue
        begin, stop, stride = joined[axis]
        if min(begin, stop, start, end) < 0 or stride < 1 or step < 1:
            return reject("they count from the end of an axis that both cut")
        joined[axis] = (
            min(begin + start * stride, _END),
            min(stop, begin + end * stride, _END),
            stride * step,
        )
    if not joined:
        return reject("they cut nothing")
    columns = zip(
        *((s, e, axis, step) for axis, (s, e, step) in sorted(joined.items())), strict=True
    )
    return call("Slice", x, *(np.array(column, np.int64) for column in columns))


def _cuts(node: Node) -> dict[int, tuple[int, int, int]] | None:
    """Start, end and step by axis; None where a run tells them."""
    rank = node.outputs[0].rank
    columns: list[list[int] | None] = []
    for i in range(1, 5):
        given = node.inputs[i] if i < len(node.inputs) else None
        if given is None:
            columns.append(None)
            continue
        if given.known is None or given.known.dtype == object:
            return None
        columns.append([int(v) for v in given.known.reshape(-1)])
    starts, ends, axes, steps = columns
    if rank is None or starts is None or ends is None:
        return None
    axes = list(range(len(starts))) if axes is None else [axis % rank for axis in axes]
    steps = [1] * len(starts) if steps is None else steps
    if len(set(axes)) != len(axes):
        return None
    return {a: (s, e, t) for a, s, e, t in zip(axes, starts, ends, steps, strict=True)}


@rule(P.Where("condition", "x", "y").named("out"))
def where_of_constant(condition: Symbol, x: Symbol, y: Symbol, out: Node) -> Result:
    """where(true, x, y) = x, and where(false, x, y) = y"""
    if not is_stored(condition) or not stored(condition).is_drawn:
        return reject("its condition is not a constant")
    value = stored(condition).value
    if not value.size or value.any() != value.all():
        return reject("its condition is neither true nor false everywhere")
    chosen = x if value.any() else y
    if chosen.type != out.outputs[0].type or not chosen.tensor.is_known:
        return reject("the choice is broadcast")
    return chosen


# -- what only widens --------------------------------------------------------------------------
_EXPANDED = P.Expand(P.any(), P.any())
_EITHER_ORDER = P.op(
    *("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "And", "Or", "Xor", "Mod"),
    *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
)


def _drop_expand(out: Node) -> Result:
    """expand(x) + y = x + y, where y has the shape already"""
    inputs = [s for s in out.inputs if s is not None]
    bare = [_unexpanded(s) for s in inputs]
    result = out.outputs[0].shape
    chosen = list(inputs)
    for i, symbol in enumerate(bare):
        tried = [*chosen[:i], symbol, *chosen[i + 1 :]]
        if symbol is not inputs[i] and _common(tried) == result:
            chosen = tried
    if chosen == inputs:
        return reject("the shape comes from what is expanded")
    return apply(out.op, chosen, out.attrs)[0]


_ANY = P.any()
_DROP_EXPAND = tuple(
    Rule("drop_expand", pattern.named("out"), _drop_expand, shared=True)
    for pattern in (
        _EITHER_ORDER(_EXPANDED, _ANY),
        _EITHER_ORDER(_ANY, _EXPANDED),
        P.Where(_EXPANDED, _ANY, _ANY),
        P.Where(_ANY, _EXPANDED, _ANY),
        P.Where(_ANY, _ANY, _EXPANDED),
    )
)


def _unexpanded(symbol: Symbol) -> Symbol:
    node = symbol.node
    if node.op_type != "Expand" or node.op.domain:
        return symbol
    x, target = node.inputs
    assert x is not None and target is not None
    known = x.tensor.is_known and symbol.tensor.is_known and target.known is not None
    return x if known else symbol


def _common(symbols: Sequence[Symbol]) -> Shape | None:
    try:
        return broadcast_shapes([s.shape for s in symbols])
    except ShapeMismatch:
        return None


COLLAPSE: tuple[Rule, ...] = (
    join_casts,
    join_relus,
    join_clips,
    relu_into_clip,
    clip_of_minimum,
    join_slices,
    where_of_constant,
    *_DROP_EXPAND,
)
