"""Constants that are one number, which fused expressions hold as a literal."""

from __future__ import annotations

from neuralsym.core.leaves import is_stored, stored
from neuralsym.core.scalar import Number
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
