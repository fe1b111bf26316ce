"""Elements as another number type, by value or by bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.op import Call
from neuralsym.core.registry import call as op_call
from neuralsym.core.scalar import Scalar, argument, cast, maximum, minimum
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType, from_onnx
from neuralsym.errors import TypeMismatch
from neuralsym.ops.base import Elementwise, Movement, bad, check_choice
from neuralsym.ops.ratios import floors
from neuralsym.ops.shapes import foldable
from neuralsym.ops.values import compute


class Cast(Elementwise):
    """Each element as another number type."""

    @classmethod
    def expression(cls, step: Call | Node) -> Scalar | None:
        return conversion(step, from_onnx(step.attr("to")))

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any] | None:
        # numpy and ml_dtypes round twice where they have no direct way between two types.
        expr = cls.expression(node)
        if expr is None:
            return None
        return [compute(expr, [np.asarray(values[0])], node.outputs[0].dtype)]

    @classmethod
    def check(cls, call: Call) -> None:
        target(call)
        check_rounding(call)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return [TensorType(target(call), call.shape(0))]

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        kind = target(call)
        value = cast_known(call, kind)
        if value is None and kind in (NumberType.INT64, NumberType.INT32):
            value = floors(call.input(0)) if call.dtype(0).is_float else None
        return [value]


class CastLike(Elementwise):
    """Each element as the number type of another tensor."""

    @classmethod
    def expansion(cls, node: Node) -> Sequence[Symbol] | None:
        return [cls._cast(node)]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any] | None:
        return Cast.compute(cls._cast(node).node, values[:1])

    @classmethod
    def _cast(cls, node: Node) -> Symbol:
        """The Cast that it is: of the second input, only the type counts."""
        how = {k: v for k, v in node.attrs.items() if k in ("saturate", "round_mode")}
        return op_call("Cast", node.inputs[0], to=node.outputs[0].dtype, **how)

    @classmethod
    def check(cls, call: Call) -> None:
        check_rounding(call)

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

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any] | None:
        return [np.array(values[0], order="C").view(node.outputs[0].dtype.numpy)]


# -- what they share ---------------------------------------------------------------------------
LARGEST: dict[NumberType, float] = {
    NumberType.FLOAT8E4M3FN: 448.0,
    NumberType.FLOAT8E4M3FNUZ: 240.0,
    NumberType.FLOAT8E5M2: 57344.0,
    NumberType.FLOAT8E5M2FNUZ: 57344.0,
}
"""The largest value of each type that saturates when asked to; the others have no choice."""


def conversion(step: Call | Node, kind: NumberType) -> Scalar | None:
    """The first input's element as `kind`, with the step's `saturate` and `round_mode`.

    None for strings, which are no numbers of the loops.
    """
    source = step.inputs[0]
    if source is None or NumberType.STRING in (source.dtype, kind):
        return None
    saturates = bool(step.attr("saturate"))
    if kind is NumberType.FLOAT8E8M0:
        mode = step.attr("round_mode") or "up"
        return cast(argument(0), kind, f"{mode}_saturate" if saturates else mode)
    if kind in LARGEST and saturates:
        return cast(clamped(argument(0), source.dtype, LARGEST[kind]), kind)
    return cast(argument(0), kind)


def clamped(x: Scalar, own: NumberType, largest: float) -> Scalar:
    """A value within +-`largest`, as a float; NaN stays."""
    wide = x if own.is_float else cast(x, NumberType.FLOAT32)
    return maximum(minimum(wide, largest), -largest)


def check_rounding(call: Call) -> None:
    """BadAttribute unless `saturate` and `round_mode` are among their choices."""
    if "saturate" in call.attrs:
        check_choice(call, "saturate", (0, 1))
    if "round_mode" in call.attrs:
        check_choice(call, "round_mode", ("up", "down", "nearest"))


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
