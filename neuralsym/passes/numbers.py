"""Numbers in fused expressions: which constants are literals, and what literals change nothing."""

from __future__ import annotations

import math

from neuralsym.core.leaves import is_stored, stored
from neuralsym.core.scalar import Expr, Number, Scalar
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType

_LITERAL = {
    NumberType.FLOAT16: float,
    NumberType.BFLOAT16: float,
    NumberType.FLOAT32: float,
    NumberType.FLOAT64: float,
    NumberType.BOOL: bool,
    NumberType.INT8: int,
    NumberType.INT16: int,
    NumberType.INT32: int,
    NumberType.INT64: int,
    NumberType.UINT8: int,
    NumberType.UINT16: int,
    NumberType.UINT32: int,
    NumberType.UINT64: int,
}


def number_of(symbol: Symbol) -> Number | None:
    """The number that a stored symbol of one element is, exactly; None for any other."""
    if not is_stored(symbol):
        return None
    tensor = stored(symbol)
    make = _LITERAL.get(tensor.dtype)
    if make is None or tensor.size != 1 or not tensor.is_drawn:
        return None
    number: Number = make(tensor.value.reshape(()).item())
    return number


_NEUTRAL: dict[str, tuple[tuple[int, float], ...]] = {
    "mul": ((0, 1.0), (1, 1.0)),
    "div": ((1, 1.0),),
    "pow": ((1, 1.0),),
    "sub": ((1, 0.0),),
    "add": ((0, -0.0), (1, -0.0)),
}
"""Function -> where which number changes nothing: minus zero, for zero would change its sign."""


def simplified(expr: Scalar) -> Scalar:
    """The expression without what changes nothing, to the last bit."""
    done: dict[Expr, Scalar] = {}
    stack: list[Scalar] = [expr]
    while stack:
        item = stack[-1]
        if not isinstance(item, Expr) or item in done:
            stack.pop()
            continue
        waiting = [o for o in item.operands if isinstance(o, Expr) and o not in done]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        operands = tuple(done[o] if isinstance(o, Expr) else o for o in item.operands)
        done[item] = _without_neutral(Expr(item.function, operands, item.detail))
    return done[expr] if isinstance(expr, Expr) else expr


def _without_neutral(item: Expr) -> Scalar:
    for place, neutral in _NEUTRAL.get(item.function, ()):
        number, other = item.operands[place], item.operands[1 - place]
        if isinstance(number, (bool, Expr)) or not isinstance(other, Expr):
            continue
        whole = isinstance(number, int)
        if number == neutral and (whole or math.copysign(1, number) == math.copysign(1, neutral)):
            return other
    return item
