"""Operators on complex numbers, as loops over the bits of their halves: ONNX computes with none.

out[...][2] = condition[...] ? x[...][2] : y[...][2]
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.scalar import argument, where
from neuralsym.cpu.kernels.elementwise import MAX_RANK, loop_dims, operand_of
from neuralsym.cpu.kernels.loops import Strided, loop_row
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Row, Sizes, Step
from neuralsym.dtypes import NumberType

HALF = {NumberType.COMPLEX64: NumberType.UINT32, NumberType.COMPLEX128: NumberType.UINT64}


class ComplexWhere(Kernel):
    """One of two complex numbers for each element."""

    name = "complex where"

    def supports(self, step: Step) -> bool | str:
        out = step.outputs[0]
        if out.dtype not in HALF:
            return f"it is for complex numbers, not {out.dtype.value}"
        return out.rank < MAX_RANK or f"its rank is over {MAX_RANK - 1}"

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        out = step.outputs[0]
        dims = loop_dims(out, sizes)
        if 0 in dims:
            return []
        given = [b for b in step.inputs if b is not None]
        operands = [_halves(operand_of(b, out, dims, sizes)) for b in (out, *given)]
        declared = out.tensor.shape
        assert declared is not None
        single = (*(tuple(d == 1 for d in declared) or (True,)), False)
        expr = where(argument(0), argument(1), argument(2))
        return [loop_row(self.target, expr, (*dims, 2), operands, single, "where")]


def _halves(operand: Strided) -> Strided:
    """The operand with a last axis for the two halves; the condition is one for both."""
    half = HALF.get(operand.kind)
    last = 0 if half is None else half.itemsize
    return Strided(
        operand.address,
        half or operand.kind,
        (*operand.strides, last),
        (*operand.broadcast, half is None),
    )


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    library.kernel("Where")(ComplexWhere)
