"""Arithmetic and the functions of analysis, one element at a time."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

from numpy.typing import NDArray

from neuralsym.core import scalar as s
from neuralsym.core.dim import DimLike
from neuralsym.core.op import Call
from neuralsym.core.scalar import Expr, Scalar, argument, cast
from neuralsym.core.symbol import Node
from neuralsym.core.types import Shape
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import (
    Elementwise,
    check_choice,
    fold_sizes,
    is_symbolic,
    known_values,
    size_itself,
    size_maximum,
    size_minimum,
    size_quotient,
    size_ratio,
    size_remainder,
)
from neuralsym.ops.ratios import ceilings, floors


# -- arithmetic --------------------------------------------------------------------------------
class Add(Elementwise):
    """The sum of two tensors."""

    commutative = True
    on_sizes = staticmethod(operator.add)

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return a + b


class Sub(Elementwise):
    """The first tensor minus the second."""

    on_sizes = staticmethod(operator.sub)

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return a - b


class Mul(Elementwise):
    """The product of two tensors, element by element."""

    commutative = True
    on_sizes = staticmethod(operator.mul)

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return a * b


class Div(Elementwise):
    """The first tensor divided by the second; integers truncate towards zero."""

    on_sizes = staticmethod(size_quotient)

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return a / b

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        values = known_values(call)
        if values is not None and is_symbolic(values) and call.dtype(0).is_float:
            return [fold_sizes(size_ratio, values)]
        return super().fold(call)


class Mod(Elementwise):
    """The remainder of a division: of the divisor's sign, or of the dividend's with `fmod=1`."""

    on_sizes = staticmethod(size_remainder)

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "fmod", (0, 1))

    @staticmethod
    def scalar(a: Expr, b: Expr, *, fmod: int) -> Scalar:
        return s.fmod(a, b) if fmod else s.mod(a, b)


class Pow(Elementwise):
    """The first tensor raised to the second, in the number type of the first."""

    @staticmethod
    def scalar(x: Expr, y: Expr) -> Scalar:
        return s.power(x, y)

    @classmethod
    def expression(cls, step: Call | Node) -> Scalar | None:
        """The exponent may have another type: both are computed with in the wider."""
        base, exponent = step.inputs
        assert base is not None
        assert exponent is not None
        x, y = argument(0), argument(1)
        if base.dtype == exponent.dtype:
            return s.power(x, y)
        wide = base.dtype
        if base.dtype.is_float:
            floats = (base.dtype, exponent.dtype if exponent.dtype.is_float else base.dtype)
            # A half holds no odd exponent over 2048.
            wide = max(NumberType.FLOAT32, *floats, key=lambda kind: kind.itemsize)
        elif exponent.dtype.is_float:
            wide = NumberType.FLOAT64
        elif exponent.dtype.itemsize >= base.dtype.itemsize:
            wide = exponent.dtype  # products of whole numbers wrap, so their signs do not matter
        return cast(s.power(cast(x, wide), cast(y, wide)), base.dtype)


class Neg(Elementwise):
    """The tensor with its sign changed."""

    on_sizes = staticmethod(operator.neg)

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return -x


class Abs(Elementwise):
    """The magnitude of each element."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.absolute(x)


class Sign(Elementwise):
    """-1, 0 or 1 by the sign of each element; NaN stays."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.sign(x)


class Reciprocal(Elementwise):
    """One divided by each element."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.reciprocal(x)


class Sqrt(Elementwise):
    """The square root; NaN for negative numbers."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.sqrt(x)


# -- of several tensors ------------------------------------------------------------------------
class Max(Elementwise):
    """The largest of the tensors at each place; NaN where one of them is."""

    commutative = True

    @staticmethod
    def on_sizes(*sizes: DimLike) -> DimLike:
        return reduce(size_maximum, sizes)

    @staticmethod
    def scalar(*xs: Expr) -> Scalar:
        return reduce(s.maximum, xs)


class Min(Elementwise):
    """The smallest of the tensors at each place; NaN where one of them is."""

    commutative = True

    @staticmethod
    def on_sizes(*sizes: DimLike) -> DimLike:
        return reduce(size_minimum, sizes)

    @staticmethod
    def scalar(*xs: Expr) -> Scalar:
        return reduce(s.minimum, xs)


class Sum(Elementwise):
    """The sum of all the tensors at each place."""

    commutative = True

    @staticmethod
    def scalar(*xs: Expr) -> Scalar:
        return reduce(operator.add, xs)


class Mean(Elementwise):
    """The mean of the tensors at each place."""

    commutative = True

    @staticmethod
    def scalar(*xs: Expr) -> Scalar:
        return reduce(operator.add, xs) / len(xs) if len(xs) > 1 else xs[0]


class Clip(Elementwise):
    """Each element kept between `min` and `max`; `max` wins where they cross."""

    @staticmethod
    def scalar(x: Expr, low: Expr | None, high: Expr | None) -> Scalar:
        raised = x if low is None else s.maximum(x, low)
        return raised if high is None else s.minimum(raised, high)

    @classmethod
    def check(cls, call: Call) -> None:
        for i in (1, 2):
            if call.has(i) and call.shape(i) not in (None, ()):
                call.fail(f"{'min' if i == 1 else 'max'} must be a scalar")

    @classmethod
    def shape(cls, call: Call) -> Shape | None:
        return call.shape(0)


# -- rounding ----------------------------------------------------------------------------------
class Floor(Elementwise):
    """The next whole number below."""

    on_sizes = staticmethod(size_itself)

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.floor(x)

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        return super().fold(call) or [floors(call.input(0))]


class Ceil(Elementwise):
    """The next whole number above."""

    on_sizes = staticmethod(size_itself)

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.ceil(x)

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        return super().fold(call) or [ceilings(call.input(0))]


class Round(Elementwise):
    """The nearest whole number; halves go to the even one."""

    on_sizes = staticmethod(size_itself)

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.round_(x)


# -- exponentials ------------------------------------------------------------------------------
class Exp(Elementwise):
    """e to the power of each element."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.exp(x)


class Log(Elementwise):
    """The natural logarithm; NaN for negative numbers."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.log(x)


class Erf(Elementwise):
    """The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.erf(x)


# -- trigonometry ------------------------------------------------------------------------------
class Sin(Elementwise):
    """The sine of an angle in radians."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.sin(x)


class Cos(Elementwise):
    """The cosine of an angle in radians."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.cos(x)


class Tan(Elementwise):
    """The tangent of an angle in radians."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.tan(x)


class Asin(Elementwise):
    """The angle whose sine is x; NaN outside -1 to 1."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.asin(x)


class Acos(Elementwise):
    """The angle whose cosine is x; NaN outside -1 to 1."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.acos(x)


class Atan(Elementwise):
    """The angle whose tangent is x."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.atan(x)


class Sinh(Elementwise):
    """The hyperbolic sine."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.sinh(x)


class Cosh(Elementwise):
    """The hyperbolic cosine."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.cosh(x)


class Asinh(Elementwise):
    """The inverse of the hyperbolic sine."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.asinh(x)


class Acosh(Elementwise):
    """The inverse of the hyperbolic cosine; NaN below 1."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.acosh(x)


class Atanh(Elementwise):
    """The inverse of the hyperbolic tangent; NaN outside -1 to 1."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.atanh(x)
