"""Activations: the functions between the layers of a network."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt

from neuralsym.core import scalar as s
from neuralsym.core.op import Call
from neuralsym.core.scalar import Expr, Scalar, argument, cast
from neuralsym.core.symbol import Node
from neuralsym.core.types import Shape, Type
from neuralsym.ops.base import (
    Elementwise,
    Normalisation,
    broadcast_inputs,
    check_axis,
    check_choice,
    same_type,
)


class Relu(Elementwise):
    """max(x, 0); NaN stays."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.maximum(x, 0)


class LeakyRelu(Elementwise):
    """x, times `alpha` below zero."""

    @staticmethod
    def scalar(x: Expr, *, alpha: float) -> Scalar:
        return s.where(x < 0, alpha * x, x)


class PRelu(Elementwise):
    """x, times a slope below zero; the slope broadcasts to x."""

    @classmethod
    def shape(cls, call: Call) -> Shape | None:
        x, both = call.shape(0), broadcast_inputs(call, (0, 1))
        if x is None or both is None:
            return x
        if len(both) > len(x) or any(a != b for a, b in _aligned(x, both)):
            call.fail("slope must broadcast to the shape of X, not beyond it")
        return x

    @staticmethod
    def scalar(x: Expr, slope: Expr) -> Scalar:
        return s.where(x < 0, slope * x, x)


def _aligned(x: Shape, both: Shape) -> list[tuple[int, int]]:
    """The pairs of sizes that are both ints, from the last axis."""
    pairs = zip(reversed(x), reversed(both), strict=False)
    return [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]


class ThresholdedRelu(Elementwise):
    """x above `alpha`, else 0."""

    @staticmethod
    def scalar(x: Expr, *, alpha: float) -> Scalar:
        return s.where(x > alpha, x, 0)


class Elu(Elementwise):
    """x, or alpha*(exp(x) - 1) below zero (arXiv 1511.07289)."""

    @staticmethod
    def scalar(x: Expr, *, alpha: float) -> Scalar:
        return s.where(x < 0, alpha * s.expm1(x), x)


class Selu(Elementwise):
    """gamma times Elu, with the constants that keep mean and variance (arXiv 1706.02515)."""

    @staticmethod
    def scalar(x: Expr, *, alpha: float, gamma: float) -> Scalar:
        return gamma * s.where(x > 0, x, alpha * s.expm1(x))


class Celu(Elementwise):
    """max(x, 0) + min(alpha*(exp(x/alpha) - 1), 0) (arXiv 1704.07483)."""

    @staticmethod
    def scalar(x: Expr, *, alpha: float) -> Scalar:
        return s.maximum(x, 0) + s.minimum(alpha * s.expm1(x / alpha), 0)


class Gelu(Elementwise):
    """x times the normal distribution function of x, exactly or by tanh (arXiv 1606.08415)."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "approximate", ("none", "tanh"))

    @staticmethod
    def scalar(x: Expr, *, approximate: str) -> Scalar:
        if approximate == "tanh":
            return 0.5 * x * (1 + s.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))
        return 0.5 * x * (1 + s.erf(x * sqrt(0.5)))


class Sigmoid(Elementwise):
    """1/(1 + exp(-x))."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.sigmoid(x)


class HardSigmoid(Elementwise):
    """alpha*x + beta kept between 0 and 1."""

    @staticmethod
    def scalar(x: Expr, *, alpha: float, beta: float) -> Scalar:
        return s.maximum(s.minimum(alpha * x + beta, 1), 0)


class HardSwish(Elementwise):
    """x times max(0, min(1, x/6 + 1/2)) (arXiv 1905.02244)."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return x * s.maximum(s.minimum(x * (1 / 6) + 0.5, 1), 0)


class Swish(Elementwise):
    """x times sigmoid(alpha*x) (arXiv 1710.05941)."""

    @staticmethod
    def scalar(x: Expr, *, alpha: float) -> Scalar:
        return x * s.sigmoid(alpha * x)


class SwiGLU(Elementwise):
    """Swish of the first tensor times the second, of the same shape (arXiv 2002.05202)."""

    @classmethod
    def shape(cls, call: Call) -> Shape | None:
        a, b = call.shape(0), call.shape(1)
        if a is None or b is None:
            return a or b
        sizes = zip(a, b, strict=False)
        if len(a) != len(b) or any(
            x != y and isinstance(x, int) and isinstance(y, int) for x, y in sizes
        ):
            call.fail("A and B must have the same shape: nothing is broadcast here")
        return tuple(y if x is None else x for x, y in zip(a, b, strict=True))

    @staticmethod
    def scalar(a: Expr, b: Expr, *, alpha: float) -> Scalar:
        return a * s.sigmoid(alpha * a) * b


class Mish(Elementwise):
    """x*tanh(log(1 + exp(x))) (arXiv 1908.08681).

    With e = exp(-|x|) the hyperbolic tangent is a ratio without overflow or cancellation:
    (1 + 2e)/(1 + 2e + 2e^2) from zero on, (e^2 + 2e)/(e^2 + 2e + 2) below.
    """

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        e = s.exp(-s.absolute(x))
        above = s.where(x >= 0, 1 + 2 * e, e * (e + 2))
        return x * (above / (above + s.where(x >= 0, 2 * e * e, 2)))


class Softplus(Elementwise):
    """log(1 + exp(x)), as max(x, 0) + log1p(exp(-|x|)), which does not overflow."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.maximum(x, 0) + s.log1p(s.exp(-s.absolute(x)))


class Softsign(Elementwise):
    """x/(1 + |x|)."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return x / (1 + s.absolute(x))


class Tanh(Elementwise):
    """The hyperbolic tangent."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.tanh(x)


class Shrink(Elementwise):
    """x moved towards zero by `bias`, and 0 between -lambd and lambd."""

    @staticmethod
    def scalar(x: Expr, *, lambd: float, bias: float) -> Scalar:
        return s.where(x < -lambd, x + bias, s.where(x > lambd, x - bias, 0))

    @classmethod
    def expression(cls, step: Call | Node) -> Scalar | None:
        """Integers are compared and moved as float64: the attributes need not be whole."""
        x = step.inputs[0]
        assert x is not None
        lambd, bias = step.attr("lambd"), step.attr("bias")
        if x.dtype.is_float:
            return cls.scalar(argument(0), lambd=lambd, bias=bias)
        return cast(cls.scalar(cast(argument(0), "float64"), lambd=lambd, bias=bias), x.dtype)


# -- along an axis -----------------------------------------------------------------------------
class AlongAxis(Normalisation, abstract=True):
    """A distribution over the elements along `axis`; the result is of the input's shape."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_axis(call, call.attr("axis"), call.type(0).rank)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        return [same_type(call)]


class Softmax(AlongAxis):
    """exp(x) divided by its sum along `axis`; the largest element is subtracted first."""


class LogSoftmax(AlongAxis):
    """The logarithm of Softmax, without the loss of precision that two steps have."""


class Hardmax(AlongAxis):
    """1 at the first largest element along `axis`, 0 elsewhere."""
