"""Numbers in fused expressions: which constants are literals, and what literals change nothing."""

from __future__ import annotations

import math
import struct

from neuralsym.core.leaves import is_stored, stored
from neuralsym.core.scalar import Expr, Number, Scalar
from neuralsym.core.symbol import Node, Symbol
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


WIDE = (NumberType.FLOAT32, NumberType.FLOAT64)
"""The floats whose roundings nobody looks for; those of halves are kept where the file has them."""
MOST_SCALED = 2.0**20
"""A factor up to this size, or down to its inverse, may be applied after a sum as before it."""


def factor_of(node: Node, value: Symbol) -> float | None:
    """What Mul or Div multiplies `value` with, if it is one number of moderate size and no more.

    Division by other numbers than powers of two differs from it by a rounding.
    """
    if node.op_type not in ("Mul", "Div") or node.op.domain or not value.dtype.is_float:
        return None
    first, second = node.inputs
    if first is None or second is None or node.outputs[0].type != value.type:
        return None
    other = second if first is value else first
    number = number_of(other)
    if number is None or (node.op_type == "Div" and other is first) or first is second:
        return None
    factor = abs(float(number))
    if not 1 / MOST_SCALED <= factor <= MOST_SCALED:
        return None
    return float(number) if node.op_type == "Mul" else 1 / float(number)


def rounded(factor: float, dtype: NumberType) -> float | None:
    """A factor as a float32 attribute; None for float64 arithmetic that would notice it."""
    made = struct.unpack("<f", struct.pack("<f", factor))[0]
    return None if dtype is NumberType.FLOAT64 and made != factor else float(made)


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
