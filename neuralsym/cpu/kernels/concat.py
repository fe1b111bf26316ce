"""Concat: in blocks the inputs are written in place, in rows each is copied to its part.

out[outer][start_k : start_k + size_k][inner] = input_k[outer][size_k][inner]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from neuralsym.core.dim import product
from neuralsym.core.scalar import argument
from neuralsym.cpu.kernels.loops import Strided, loop_row
from neuralsym.cpu.library import ROWS, Form, Kernel, Library, Take
from neuralsym.cpu.program import Operand, Role, Row, Sizes, Step
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch

BITS = {1: NumberType.UINT8, 2: NumberType.UINT16, 4: NumberType.UINT32, 8: NumberType.UINT64}


class Concat(Kernel):
    """A copy of each input behind the other, or nothing where they lie there already."""

    name = "concat"

    def supports(self, step: Step) -> bool | str:
        return step.outputs[0].is_tensor or "not a tensor of numbers"

    def forms(self, step: Step) -> Sequence[Form]:
        """In blocks if at least one input is, and every part begins with a block."""
        plain = Form((ROWS,) * len(step.inputs), (ROWS,))
        block = max((b.layout.block for b in step.inputs if b is not None), default=0)
        if not block or not self._can_join(step, block):
            return [plain]
        take = Take(block)
        return [Form((take,) * len(step.inputs), (take,), joins=True), plain]

    def _can_join(self, step: Step, block: int) -> bool:
        out = step.outputs[0]
        shape = out.tensor.shape
        if shape is None or not 3 <= len(shape) <= 5 or _axis(step) != 1:
            return False
        start = 0
        for buffer in step.inputs:
            if buffer is None or buffer.role is Role.CONSTANT or start % block:
                return False
            own = buffer.tensor.shape
            channels = None if own is None else own[1]
            if not isinstance(channels, int):
                return False
            start += channels
        return True

    def is_apart(self, step: Step) -> bool:
        return _axis(step) != 0

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        out = step.outputs[0]
        if out.layout.block:
            return []
        axis = _axis(step)
        shape = sizes.shape(out)
        declared = out.tensor.shape
        assert declared is not None
        outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        kind = BITS[min(out.dtype.itemsize, 8)]
        size = kind.itemsize
        inner *= out.dtype.itemsize // size
        # The same code whatever the batch is, unless there is none.
        single = product(d if d is not None else 2 for d in declared[:axis]) == 1
        whole = shape[axis] * inner * size
        rows: list[Row] = []
        start = 0
        for buffer in step.inputs:
            assert buffer is not None
            own = sizes.shape(buffer)
            if own[:axis] + own[axis + 1 :] != shape[:axis] + shape[axis + 1 :]:
                raise ShapeMismatch(
                    f"{step.describe()}: {buffer.name} came as {list(own)} and does not fit into "
                    f"{list(shape)}"
                )
            part = own[axis] * inner
            if outer and part:
                target = Operand(out, start * size)
                operands = [
                    Strided(target, kind, (whole, size), (False, False)),
                    Strided(Operand(buffer), kind, (part * size, size), (False, False)),
                ]
                dims, droppable = (outer, part), (single, False)
                rows.append(loop_row(self.target, argument(0), dims, operands, droppable, "concat"))
            start += part
        return rows


def _axis(step: Step) -> int:
    axis = int(step.attr("axis"))
    return axis + step.outputs[0].rank if axis < 0 else axis


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    library.kernel("Concat")(Concat)
