"""What plain-loop kernels share: half precision through float32 memory, and a fused epilogue.

A kernel calls `reserve` in `adjust` for each operand of a half-precision type, `widened` in `rows`
for each input, `wide_place` for where its output goes, and `finish` for the rows behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from neuralsym.core.scalar import Scalar, argument, cast, substitute
from neuralsym.cpu.kernels.loops import Strided, loop_row
from neuralsym.cpu.machine import Target
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, Step, Word
from neuralsym.cpu.scalar_ir import HALVES
from neuralsym.dtypes import NumberType


def wide_kind(kind: NumberType) -> NumberType:
    """The type that loops compute with."""
    return NumberType.FLOAT32 if kind in HALVES else kind


def reserve(step: Step, key: int, buffer: Buffer | None) -> None:
    """Ask for float32 memory for operand `key` if it is of a half-precision type."""
    if buffer is not None and buffer.dtype in HALVES:
        step.need_scratch(f"wide{key}", lambda sizes: 4 * math.prod(sizes.shape(buffer)))


def wide_place(step: Step, key: int, buffer: Buffer) -> Operand:
    """Where the operand lies in the type that loops compute with."""
    return Operand(step.scratch[f"wide{key}"].buffer if buffer.dtype in HALVES else buffer)


def widened(
    target: Target, step: Step, key: int, buffer: Buffer, sizes: Sizes, rows: list[Row]
) -> Operand:
    """`wide_place` of an input; the row that fills it is added to `rows`."""
    place = wide_place(step, key, buffer)
    if buffer.dtype in HALVES:
        count = math.prod(sizes.shape(buffer))
        sides = [(place, NumberType.FLOAT32), (Operand(buffer), buffer.dtype)]
        rows.append(_row(target, cast(argument(0), "float32"), count, sides))
    return place


def finish(
    target: Target, step: Step, place: Operand, y: Buffer, residual: Buffer | None, sizes: Sizes
) -> list[Row]:
    """The rows that add the residual, apply the activation and narrow: none if nothing is left."""
    value: Scalar = argument(0)
    sides: list[tuple[Word, NumberType]] = [
        (Operand(y), y.dtype),
        (place, wide_kind(y.dtype)),
    ]
    if residual is not None:
        value = argument(0) + cast(argument(1), wide_kind(y.dtype).value)
        sides.append((Operand(residual), residual.dtype))
    activation = step.attr("activation")
    if activation is not None:
        value = substitute(activation, {0: value})
    if value == argument(0) and y.dtype not in HALVES:
        return []
    return [_row(target, value, math.prod(sizes.shape(y)), sides)]


def _row(target: Target, expr: Scalar, count: int, sides: Sequence[tuple[Word, NumberType]]) -> Row:
    operands = [Strided(place, kind, (kind.itemsize,), (False,)) for place, kind in sides]
    return loop_row(target, expr, (count,), operands, (False,), "epilogue")
