"""Comparison, logic, bits, and the choice between two tensors."""

from __future__ import annotations

from typing import Any

from neuralsym.core import scalar as s
from neuralsym.core.op import Call
from neuralsym.core.scalar import Expr, Scalar
from neuralsym.ops.base import Elementwise, check_choice, size_equal, size_less


# -- comparison --------------------------------------------------------------------------------
class Equal(Elementwise):
    """Whether two tensors are equal at each place; NaN equals nothing."""

    commutative = True
    on_sizes = staticmethod(size_equal)

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return s.equal(a, b)


class Less(Elementwise):
    """Whether the first is below the second."""

    on_sizes = staticmethod(size_less)

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return a < b


class LessOrEqual(Elementwise):
    """Whether the first is at most the second."""

    @staticmethod
    def on_sizes(a: Any, b: Any) -> bool:
        return not size_less(b, a)

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return a <= b


class Greater(Elementwise):
    """Whether the first is above the second."""

    @staticmethod
    def on_sizes(a: Any, b: Any) -> bool:
        return size_less(b, a)

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return a > b


class GreaterOrEqual(Elementwise):
    """Whether the first is at least the second."""

    @staticmethod
    def on_sizes(a: Any, b: Any) -> bool:
        return not size_less(a, b)

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return a >= b


class IsNaN(Elementwise):
    """Whether each element is NaN."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.isnan(x)


class IsInf(Elementwise):
    """Whether each element is infinite, of the signs that are to be detected."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "detect_negative", (0, 1))
        check_choice(call, "detect_positive", (0, 1))

    @staticmethod
    def scalar(x: Expr, *, detect_negative: int, detect_positive: int) -> Scalar:
        infinite = s.isinf(x)
        if detect_negative and detect_positive:
            return infinite
        if not detect_negative and not detect_positive:
            return s.and_(infinite, False)
        return s.and_(infinite, x < 0 if detect_negative else x > 0)


# -- logic -------------------------------------------------------------------------------------
class And(Elementwise):
    """Whether both are true."""

    commutative = True

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return s.and_(a, b)


class Or(Elementwise):
    """Whether one at least is true."""

    commutative = True

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return s.or_(a, b)


class Xor(Elementwise):
    """Whether exactly one is true."""

    commutative = True

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return s.xor(a, b)


class Not(Elementwise):
    """Whether the element is false."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.not_(x)


class Where(Elementwise):
    """The second tensor where the condition holds, else the third."""

    @staticmethod
    def on_sizes(condition: Any, x: Any, y: Any) -> Any:
        return x if condition else y

    @staticmethod
    def scalar(condition: Expr, x: Expr, y: Expr) -> Scalar:
        return s.where(condition, x, y)


# -- bits --------------------------------------------------------------------------------------
class BitwiseAnd(Elementwise):
    """The bits set in both."""

    commutative = True

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return s.bit_and(a, b)


class BitwiseOr(Elementwise):
    """The bits set in either."""

    commutative = True

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return s.bit_or(a, b)


class BitwiseXor(Elementwise):
    """The bits set in exactly one."""

    commutative = True

    @staticmethod
    def scalar(a: Expr, b: Expr) -> Scalar:
        return s.bit_xor(a, b)


class BitwiseNot(Elementwise):
    """Every bit inverted."""

    @staticmethod
    def scalar(x: Expr) -> Scalar:
        return s.bit_not(x)


class BitShift(Elementwise):
    """The bits of the first moved by as many places as the second says."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "direction", ("LEFT", "RIGHT"))

    @staticmethod
    def scalar(x: Expr, y: Expr, *, direction: str) -> Scalar:
        return s.shift_left(x, y) if direction == "LEFT" else s.shift_right(x, y)
