"""Elements as another number type, by value or by bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.op import Call
from neuralsym.core.scalar import Scalar, argument, cast
from neuralsym.core.symbol import Node
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType, from_onnx
from neuralsym.errors import TypeMismatch
from neuralsym.ops.base import Elementwise, Movement, bad, check_choice
from neuralsym.ops.shapes import foldable


class Cast(Elementwise):
    """Each element as another number type."""

    @classmethod
    def expression(cls, step: Call | Node) -> Scalar | None:
        source = step.inputs[0]
        kind = from_onnx(step.attr("to"))
        if source is None or not {source.dtype, kind} <= PLAIN | HALF:
            return None
        return cast(argument(0), kind)

    @classmethod
    def check(cls, call: Call) -> None:
        target(call)
        if "saturate" in call.attrs:
            check_choice(call, "saturate", (0, 1))
        if "round_mode" in call.attrs:
            check_choice(call, "round_mode", ("up", "down", "nearest"))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return [TensorType(target(call), call.shape(0))]

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        return [cast_known(call, target(call))]


class CastLike(Elementwise):
    """Each element as the number type of another tensor."""

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return [TensorType(call.dtype(1), call.shape(0))]

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        return [cast_known(call, call.dtype(1))]


class BitCast(Movement):
    """The bits of each element read as another number type."""

    @classmethod
    def check(cls, call: Call) -> None:
        kind, own = target(call), call.dtype(0)
        if NumberType.STRING in (kind, own) or bits(kind) != bits(own):
            call.fail(f"{own} has {bits(own)} bits, {kind} has {bits(kind)}: they must agree", bad)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return [TensorType(target(call), call.shape(0))]


# -- what they share ---------------------------------------------------------------------------
def target(call: Call) -> NumberType:
    """The number type that `to` names; BadAttribute when it names none."""
    try:
        return from_onnx(call.attrs["to"])
    except TypeMismatch as error:
        call.fail(f"to={call.attrs['to']}: {error}", bad)


def bits(kind: NumberType) -> int:
    """The bits of one element where it is packed."""
    digits = str(kind).removeprefix("bfloat").lstrip("abcdefghijklmnopqrstuvwxyz")
    leading = digits.split("e")[0]
    return int(leading) if leading else 8


def cast_known(call: Call, kind: NumberType) -> NDArray[Any] | None:
    """A known value of plain numbers as another type, where every element has its value in it."""
    value = foldable(call)
    own = call.dtype(0)
    if value is None or not (own.is_numeric or own is NumberType.BOOL):
        return None
    if value.dtype == object:  # sizes: exact in any wide type
        return value if kind in _WIDE else None
    if kind not in PLAIN or own not in PLAIN:
        return None
    if kind.is_integer:
        info = np.iinfo(kind.numpy)
        whole = np.trunc(value.astype(np.float64)) if own.is_float else value
        if value.size and not (whole.min() >= info.min and whole.max() <= info.max):
            return None
    with np.errstate(all="ignore"):  # a double beyond the floats becomes infinite
        return value.astype(kind.numpy)


_WIDE = (
    *(NumberType.INT64, NumberType.INT32, NumberType.UINT64),
    *(NumberType.FLOAT32, NumberType.FLOAT64),
)
PLAIN = frozenset(
    {
        NumberType.BOOL,
        NumberType.INT8,
        NumberType.INT16,
        NumberType.INT32,
        NumberType.INT64,
        NumberType.UINT8,
        NumberType.UINT16,
        NumberType.UINT32,
        NumberType.UINT64,
        NumberType.FLOAT32,
        NumberType.FLOAT64,
    }
)
"""The types between which numpy's casts mean what ONNX's do."""
HALF = frozenset({NumberType.FLOAT16, NumberType.BFLOAT16})
