"""Activations that files write out in simpler operators, made the one operator that they are.

Where a formula's constants are rounded in the file, the result differs from what the file computes
by no more than the constants do, a relative 1e-6; it is then nearer to the formula's own value.
A GELU that the file doubles before it halves does not overflow any more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import stored
from neuralsym.core.symbol import Node, Symbol
from neuralsym.dtypes import NumberType
from neuralsym.passes.numbers import number_of
from neuralsym.rewrite.pattern import Applied, P, Pattern
from neuralsym.rewrite.rule import Result, Rule, RuleFunction, reject, rule

CLOSE = 1e-6
"""Constants of formulas in files are rounded: 1.4142135 is the square root of two."""


def near(value: float) -> Any:
    """The pattern of a constant that is a formula's number, up to rounding."""
    return P.const(None, value, CLOSE)


def _close(value: float) -> Any:
    return lambda given: abs(given - value) <= CLOSE * abs(value)


def rules(name: str, function: RuleFunction, *patterns: Applied) -> tuple[Rule, ...]:
    """One rule for several ways of writing the same."""
    return tuple(Rule(name, pattern, function) for pattern in patterns)


def attribute_of(constant: Symbol) -> float | None:
    """A stored number as an attribute, which is a float32; None if that would round it."""
    number = number_of(constant)
    if number is None or isinstance(number, bool):
        return None
    rounded = float(np.float32(number))
    return rounded if rounded == number else None


# -- with a sigmoid ----------------------------------------------------------------------------
@rule(P.Mul("x", P.Sigmoid("x")))
def swish(x: Symbol) -> Result:
    """x * sigmoid(x) = swish(x)"""
    return ops.swish(x)


@rule(P.Mul("x", P.Sigmoid(P.Mul("x", P.const("alpha")))))
def swish_of_factor(x: Symbol, alpha: Symbol) -> Result:
    """x * sigmoid(alpha x) = swish(x, alpha)"""
    factor = attribute_of(alpha)
    if factor is None or len(stored(alpha).shape) > (x.rank or 0):
        return reject("its factor is not one number of float32")
    return ops.swish(x, alpha=factor)


@rule(P.Mul("x", P.Tanh(P.Softplus("x"))))
def mish(x: Symbol) -> Result:
    """x * tanh(softplus(x)) = mish(x)"""
    return ops.mish(x)


# -- with bounds -------------------------------------------------------------------------------
@rule(P.Mul("x", P.HardSigmoid("x", alpha=_close(1 / 6), beta=_close(0.5))))
def hard_swish(x: Symbol) -> Result:
    """x * hard_sigmoid(x, 1/6, 1/2) = hard_swish(x)"""
    if x.dtype is NumberType.FLOAT64:
        return reject("its attributes are float32, the arithmetic is float64")
    return ops.hard_swish(x)


_SIX = P.Clip(P.Add("x", near(3.0)), P.const(None, 0.0), near(6.0))
_SIXTH = P.either(P.Div(_SIX, near(6.0)), P.Mul(_SIX, near(1 / 6)))


def _hard_swish(x: Symbol) -> Result:
    """x * clip(x + 3, 0, 6) / 6 = hard_swish(x)"""
    return ops.hard_swish(x)


def _hard_sigmoid(x: Symbol) -> Result:
    """clip(x + 3, 0, 6) / 6 = hard_sigmoid(x, 1/6, 1/2)"""
    if x.dtype is NumberType.FLOAT64:
        return reject("its attributes are float32, the arithmetic is float64")
    return ops.hard_sigmoid(x, alpha=1 / 6, beta=0.5)


_LINE = P.Add(P.Mul("x", P.const("alpha")), P.const("beta"))


@rule(P.Clip(_LINE, P.const(None, 0.0), P.const(None, 1.0)).named("out"))
def hard_sigmoid_of_line(x: Symbol, alpha: Symbol, beta: Symbol, out: Node) -> Result:
    """clip(alpha x + beta, 0, 1) = hard_sigmoid(x, alpha, beta)"""
    slope, offset = attribute_of(alpha), attribute_of(beta)
    if slope is None or offset is None or x.type != out.outputs[0].type:
        return reject("its slope and offset are not two numbers of float32")
    return ops.hard_sigmoid(x, alpha=slope, beta=offset)


_HARD_SWISH = rules(
    "hard_swish_written_out",
    _hard_swish,
    P.Mul("x", _SIXTH),
    P.Div(P.Mul("x", _SIX), near(6.0)),
    P.Mul(P.Mul("x", _SIX), near(1 / 6)),
    P.Mul(P.Mul("x", near(1 / 6)), _SIX),
    P.Mul(P.Div("x", near(6.0)), _SIX),
)
_HARD_SIGMOID = rules(
    "hard_sigmoid_written_out",
    _hard_sigmoid,
    P.Div(_SIX, near(6.0)),
    P.Mul(_SIX, near(1 / 6)),
)


# -- gelu --------------------------------------------------------------------------------------
def _gelu(x: Symbol) -> Result:
    """x * (1 + erf(x / sqrt(2))) / 2 = gelu(x)"""
    return ops.gelu(x)


def _gelu_by_tanh(x: Symbol) -> Result:
    """x * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 = gelu(x, tanh)"""
    return ops.gelu(x, approximate="tanh")


def _half_of(x: Pattern | str) -> Pattern:
    return P.either(P.Mul(x, near(0.5)), P.Div(x, near(2.0)))


def _halves(gate: Pattern) -> list[Applied]:
    """x times a gate, halved in the ways in which exporters write it."""
    return [
        P.Mul(P.Mul("x", gate), near(0.5)),
        P.Div(P.Mul("x", gate), near(2.0)),
        P.Mul("x", _half_of(gate)),
        P.Mul(_half_of("x"), gate),
    ]


_ERF = P.Erf(P.either(P.Div("x", near(math.sqrt(2))), P.Mul("x", near(math.sqrt(0.5)))))
_CUBE = P.either(P.Pow("x", P.const(None, 3.0)), P.Mul("x", P.Mul("x", "x")))
_CUBIC = P.Add("x", P.Mul(_CUBE, near(0.044715)))
_SQUARE = P.either(P.Mul("x", "x"), P.Pow("x", P.const(None, 2.0)))
_BRACKET = P.Add(  # 1 + 0.044715 x^2
    P.either(P.Mul(_SQUARE, near(0.044715)), P.Mul("x", P.Mul("x", near(0.044715)))), near(1.0)
)
_ROOT = math.sqrt(2 / math.pi)
_ARGUMENT = P.either(
    P.Mul(_CUBIC, near(_ROOT)),
    P.Mul(P.Mul("x", near(_ROOT)), _BRACKET),
    P.Mul("x", P.Mul(_BRACKET, near(_ROOT))),
    P.Mul(P.Mul("x", _BRACKET), near(_ROOT)),
)
_GELU = (
    *rules("gelu_written_out", _gelu, *_halves(P.Add(_ERF, near(1.0)))),
    *rules("gelu_of_tanh", _gelu_by_tanh, *_halves(P.Add(P.Tanh(_ARGUMENT), near(1.0)))),
)


# -- with a corner -----------------------------------------------------------------------------
@rule(P.Clip("x", P.const(None, 0.0)))
def relu_of_clip(x: Symbol) -> Result:
    """clip(x, 0) = relu(x)"""
    return ops.relu(x)


@rule(P.Max("x", P.const(None, 0.0)).named("out"))
def relu_of_maximum(x: Symbol, out: Node) -> Result:
    """max(x, 0) = relu(x)"""
    if x.type != out.outputs[0].type:
        return reject("the zero widens the shape")
    return ops.relu(x)


_ZERO = P.const(None, 0.0)
_SLOPED = P.Mul("x", P.const("slope"))


def _leaky_relu(x: Symbol, slope: Symbol, out: Node) -> Result:
    """where(x > 0, x, slope x) = leaky_relu(x, slope)"""
    factor = attribute_of(slope)
    if factor is None or x.type != out.outputs[0].type or not x.dtype.is_float:
        return reject("its slope is not one number of float32")
    return ops.leaky_relu(x, alpha=factor)


_LEAKY_RELU = rules(
    "leaky_relu_of_where",
    _leaky_relu,
    P.Where(P.op("Greater", "GreaterOrEqual")("x", _ZERO), "x", _SLOPED).named("out"),
    P.Where(P.op("Less", "LessOrEqual")("x", _ZERO), _SLOPED, "x").named("out"),
    P.Where(P.op("Less", "LessOrEqual")(_ZERO, "x"), "x", _SLOPED).named("out"),
    P.Where(P.op("Greater", "GreaterOrEqual")(_ZERO, "x"), _SLOPED, "x").named("out"),
)


@rule(P.Max("x", _SLOPED).named("out"))
def leaky_relu_of_maximum(x: Symbol, slope: Symbol, out: Node) -> Result:
    """max(x, slope x) = leaky_relu(x, slope), for 0 < slope < 1"""
    factor = number_of(slope)
    if factor is None or not 0 < factor < 1:
        return reject("its slope is not one number between 0 and 1")
    return _leaky_relu(x, slope, out)


_BELOW = P.Relu(P.Neg("x"))


@rule(P.Add(P.Relu("x"), P.Mul(_BELOW, P.const("slope"))).named("out"))
def prelu_of_two_relus(x: Symbol, slope: Symbol, out: Node) -> Result:
    """relu(x) + slope relu(-x) = prelu(x, -slope)"""
    if x.type != out.outputs[0].type:
        return reject("its slope widens the shape")
    if len(stored(slope).shape) > (x.rank or 0):
        return reject("its slope has more axes than it")
    return ops.prelu(x, -slope)


@rule(P.Sub(P.Relu("x"), P.Mul(_BELOW, P.const("slope"))).named("out"))
def prelu_of_difference(x: Symbol, slope: Symbol, out: Node) -> Result:
    """relu(x) - slope relu(-x) = prelu(x, slope)"""
    if x.type != out.outputs[0].type or len(stored(slope).shape) > (x.rank or 0):
        return reject("its slope widens the shape")
    return ops.prelu(x, slope)


@rule(P.Sum("x", "y"))
def add_of_sum(x: Symbol, y: Symbol) -> Result:
    """sum(x, y) = x + y"""
    return ops.add(x, y)


ACTIVATIONS: tuple[Rule, ...] = (
    swish,
    swish_of_factor,
    mish,
    hard_swish,
    *_HARD_SWISH,
    *_HARD_SIGMOID,
    hard_sigmoid_of_line,
    *_GELU,
    relu_of_clip,
    relu_of_maximum,
    *_LEAKY_RELU,
    leaky_relu_of_maximum,
    prelu_of_two_relus,
    prelu_of_difference,
    add_of_sum,
)
