"""The scalar language in which an elementwise operator states the value of one element.

An `Expr` is a tree over inputs, numbers and the functions of `FUNCTIONS`. From one expression come
numpy values, the compiled loop, LaTeX and Myelin's recipes. All operands of a function have one
number type, that of the tensor; comparisons and logic give booleans; `cast` changes the type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Union

from neuralsym.dtypes import NumberType, number_type

Number = int | float | bool
Scalar = Union["Expr", Number]

FUNCTIONS: dict[str, int] = {
    # arithmetic; `div` truncates on integers, `mod` has the sign of the divisor, `fmod` of x
    **dict.fromkeys(("add", "sub", "mul", "div", "mod", "fmod", "pow", "min", "max"), 2),
    # comparison and logic; `min` and `max` above give NaN if either operand is NaN
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor"), 2),
    # a shift by the width of the type or more leaves 0, or copies of the sign of a signed type
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"), 2),
    **dict.fromkeys(("not", "bit_not", "isnan", "isinf", "neg", "abs", "sign"), 1),
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "sqrt", "rsqrt", "reciprocal"), 1),
    **dict.fromkeys(("exp", "expm1", "log", "log1p", "sigmoid", "erf"), 1),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan"), 1),
    **dict.fromkeys(("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"), 1),
    # where(condition, a, b)
    "where": 3,
}
"""Every function with the number of its operands; `round` is half to even."""


@dataclass(frozen=True)
class Expr:
    """`function` applied to `operands`; `input` and `cast` carry their detail in `detail`."""

    function: str
    operands: tuple[Scalar, ...] = ()
    detail: str = ""
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # Made once and from the operands' own, so that hashing neither repeats nor recurs.
        object.__setattr__(self, "_hash", hash((self.function, self.operands, self.detail)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Expr], tuple[object, ...]]:
        # The hash of a text differs between processes.
        return (Expr, (self.function, self.operands, self.detail))

    def __add__(self, other: Scalar) -> Expr:
        return Expr("add", (self, other))

    def __radd__(self, other: Scalar) -> Expr:
        return Expr("add", (other, self))

    def __sub__(self, other: Scalar) -> Expr:
        return Expr("sub", (self, other))

    def __rsub__(self, other: Scalar) -> Expr:
        return Expr("sub", (other, self))

    def __mul__(self, other: Scalar) -> Expr:
        return Expr("mul", (self, other))

    def __rmul__(self, other: Scalar) -> Expr:
        return Expr("mul", (other, self))

    def __truediv__(self, other: Scalar) -> Expr:
        return Expr("div", (self, other))

    def __rtruediv__(self, other: Scalar) -> Expr:
        return Expr("div", (other, self))

    def __neg__(self) -> Expr:
        return Expr("neg", (self,))

    def __lt__(self, other: Scalar) -> Expr:
        return Expr("lt", (self, other))

    def __le__(self, other: Scalar) -> Expr:
        return Expr("le", (self, other))

    def __gt__(self, other: Scalar) -> Expr:
        return Expr("gt", (self, other))

    def __ge__(self, other: Scalar) -> Expr:
        return Expr("ge", (self, other))


def argument(index: int) -> Expr:
    """The element of input `index`."""
    return Expr("input", (), str(index))


def cast(x: Scalar, dtype: str, how: str = "") -> Expr:
    """The element as another number type, as numpy's astype has it.

    how: for float8e8m0 alone, "up", "down" or "nearest", with "_saturate" to have the nearest value
    for what lies outside in the place of NaN.
    """
    return Expr("cast", (x,), f"{dtype}_{how}" if how else dtype)


def cast_type(expr: Expr) -> NumberType:
    """The number type that a cast gives."""
    return number_type(expr.detail.partition("_")[0])


def cast_mode(expr: Expr) -> str:
    """The `how` of a cast."""
    return expr.detail.partition("_")[2]


def apply(function: str, *operands: Scalar) -> Expr:
    """`function` of the table applied to operands; ValueError for any other."""
    if FUNCTIONS.get(function) != len(operands):
        raise ValueError(f"no scalar function {function!r} of {len(operands)} operands")
    return Expr(function, operands)


def _unary(function: str) -> Callable[[Scalar], Expr]:
    return lambda x: apply(function, x)


def _binary(function: str) -> Callable[[Scalar, Scalar], Expr]:
    return lambda x, y: apply(function, x, y)


# The functions of the table by name, for operators to state their meaning with.
absolute, sign, floor, ceil, round_, sqrt = map(
    _unary, ("abs", "sign", "floor", "ceil", "round", "sqrt")
)
reciprocal, exp, expm1, log, log1p, sigmoid, erf = map(
    _unary, ("reciprocal", "exp", "expm1", "log", "log1p", "sigmoid", "erf")
)
sin, cos, tan, asin, acos, atan = map(_unary, ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh, asinh, acosh, atanh = map(
    _unary, ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")
)
isnan, isinf, not_, bit_not = map(_unary, ("isnan", "isinf", "not", "bit_not"))
minimum, maximum, power, mod, fmod = map(_binary, ("min", "max", "pow", "mod", "fmod"))
equal, and_, or_, xor = map(_binary, ("eq", "and", "or", "xor"))
bit_and, bit_or, bit_xor = map(_binary, ("bit_and", "bit_or", "bit_xor"))
shift_left, shift_right = map(_binary, ("shift_left", "shift_right"))


def where(condition: Scalar, a: Scalar, b: Scalar) -> Expr:
    """`a` where the condition holds, else `b`."""
    return apply("where", condition, a, b)


def size(expr: Scalar) -> int:
    """The number of function applications, each counted once however often it is used."""
    seen: set[Expr] = set()
    stack: list[Scalar] = [expr]
    while stack:
        item = stack.pop()
        if isinstance(item, Expr) and item not in seen:
            seen.add(item)
            stack.extend(item.operands)
    return sum(e.function != "input" for e in seen)


def substitute(expr: Scalar, inputs: dict[int, Scalar]) -> Scalar:
    """The expression with other expressions in the place of its inputs."""
    if not isinstance(expr, Expr):
        return expr
    if expr.function == "input":
        return inputs.get(int(expr.detail), expr)
    return Expr(expr.function, tuple(substitute(o, inputs) for o in expr.operands), expr.detail)
