"""Myelin's elementwise operations and the operators that compute them, one row each.

They stand alone as operations of a function, and inside the recipes of `Calculate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import TensorType
from neuralsym.dtypes import NumberType

Build = Callable[..., Symbol]


def _like(x: Symbol, value: float) -> Symbol:
    """A number of the type of x."""
    assert isinstance(x.type, TensorType)
    return ops.constant(value, str(x.type.dtype))


def _truth(x: Symbol) -> Symbol:
    return x if x.dtype == NumberType.BOOL else ops.cast(x, to="bool")


def _inverse(x: Symbol) -> Symbol:
    return ops.reciprocal(x) if x.dtype and x.dtype.is_float else ops.div(_like(x, 1), x)


def _bitwise(logical: Build, bits: Build) -> Build:
    """And, Or, Xor: of truths, or of the bits of integers."""

    def build(x: Symbol, y: Symbol) -> Symbol:
        return bits(x, y) if x.dtype and x.dtype.is_integer else logical(_truth(x), _truth(y))

    return build


def _not(x: Symbol) -> Symbol:
    return ops.bitwise_not(x) if x.dtype and x.dtype.is_integer else ops.not_(_truth(x))


def _mod(x: Symbol, y: Symbol) -> Symbol:
    """The remainder that has the sign of y."""
    if x.dtype and x.dtype.is_float:
        return ops.sub(x, ops.mul(ops.floor(ops.div(x, y)), y))
    return ops.mod(x, y)


def _floor_div(x: Symbol, y: Symbol) -> Symbol:
    if x.dtype and x.dtype.is_float:
        return ops.floor(ops.div(x, y))
    return ops.div(ops.sub(x, ops.mod(x, y)), y)


def _trunc(x: Symbol) -> Symbol:
    return ops.mul(ops.sign(x), ops.floor(ops.abs(x)))


_and = _bitwise(ops.and_, ops.bitwise_and)

DIRECT: dict[str, Build] = {
    "Add": ops.add,
    "Sub": ops.sub,
    "Mul": ops.mul,
    "Div": ops.div,
    "Pow": ops.pow,
    "Minimum": lambda x, y: ops.min([x, y]),
    "Maximum": lambda x, y: ops.max([x, y]),
    "Exp": ops.exp,
    "Log": ops.log,
    "Sqrt": ops.sqrt,
    "Reciprocal": _inverse,
    "Neg": ops.neg,
    "Abs": ops.abs,
    "Sign": ops.sign,
    "Floor": ops.floor,
    "Ceil": ops.ceil,
    "Round": ops.round,
    "Sin": ops.sin,
    "Cos": ops.cos,
    "Tan": ops.tan,
    "Asin": ops.asin,
    "Acos": ops.acos,
    "Atan": ops.atan,
    "Sinh": ops.sinh,
    "Cosh": ops.cosh,
    "Tanh": ops.tanh,
    "Asinh": ops.asinh,
    "Acosh": ops.acosh,
    "Atanh": ops.atanh,
    "Sigmoid": ops.sigmoid,
    "Erf": ops.erf,
    "Relu": ops.relu,
    "Softsign": ops.softsign,
    "Softplus": ops.softplus,
    "Equal": ops.equal,
    "Less": ops.less,
    "LessEqual": ops.less_or_equal,
    "Greater": ops.greater,
    "GreaterEqual": ops.greater_or_equal,
    "Identity": ops.identity,
}
"""Those that one operator computes; the engine writes that operator by this name."""

COMPOSED: dict[str, Build] = {
    "Mod": _mod,
    "Gelu": lambda x: ops.gelu(x, approximate="tanh"),
    "LogSigmoid": lambda x: ops.neg(ops.softplus(ops.neg(x))),
    "Square": lambda x: ops.mul(x, x),
    "Rsqrt": lambda x: ops.reciprocal(ops.sqrt(x)),
    "Log2": lambda x: ops.mul(ops.log(x), _like(x, 1 / math.log(2))),
    "Exp2": lambda x: ops.pow(_like(x, 2), x),
    "Trunc": _trunc,
    "NotEqual": lambda x, y: ops.not_(ops.equal(x, y)),
    "And": _and,
    "Or": _bitwise(ops.or_, ops.bitwise_or),
    "Xor": _bitwise(ops.xor, ops.bitwise_xor),
    "AndNot": lambda x, y: _and(_not(x), y),
    "Not": _not,
    "Cond": lambda p, x, y: ops.where(_truth(p), x, y),
    "Select": lambda p, x: ops.where(_truth(p), x, _like(x, 0)),
    "Cot": lambda x: _inverse(ops.tan(x)),
    "Sec": lambda x: _inverse(ops.cos(x)),
    "Csc": lambda x: _inverse(ops.sin(x)),
    "Acot": lambda x: ops.atan(_inverse(x)),
    "Asec": lambda x: ops.acos(_inverse(x)),
    "Acsc": lambda x: ops.asin(_inverse(x)),
    "Coth": lambda x: _inverse(ops.tanh(x)),
    "Sech": lambda x: _inverse(ops.cosh(x)),
    "Csch": lambda x: _inverse(ops.sinh(x)),
    "Acoth": lambda x: ops.atanh(_inverse(x)),
    "Asech": lambda x: ops.acosh(_inverse(x)),
    "Acsch": lambda x: ops.asinh(_inverse(x)),
    "MulAdd": lambda x, y, z: ops.add(ops.mul(x, y), z),
    "MulSub": lambda x, y, z: ops.sub(ops.mul(x, y), z),
    # TensorFlow's names for the same
    "AddV2": ops.add,
    "BiasAdd": ops.add,
    "RealDiv": ops.div,
    "Inv": _inverse,
    "SquaredDifference": lambda x, y: ops.mul(ops.sub(x, y), ops.sub(x, y)),
    "FloorMod": _mod,
    "FloorDiv": _floor_div,
    "Rint": ops.round,
    "Relu6": lambda x: ops.clip(x, _like(x, 0), _like(x, 6)),
    "Elu": ops.elu,
    "Selu": ops.selu,
    "LogicalAnd": _and,
    "LogicalOr": _bitwise(ops.or_, ops.bitwise_or),
    "LogicalNot": _not,
}
"""Those that take several operators, or have a meaning of their own."""

ELEMENTWISE: dict[str, Build] = {**DIRECT, **COMPOSED}

OF_OPERATOR = {
    **{name: name for name in DIRECT if name not in ("Minimum", "Maximum")},
    "LessOrEqual": "LessEqual",
    "GreaterOrEqual": "GreaterEqual",
    "Min": "Minimum",
    "Max": "Maximum",
}
"""How an operator without settings is called in a flow; Min and Max where they have two inputs."""
