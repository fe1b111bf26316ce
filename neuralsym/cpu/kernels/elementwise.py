"""Elementwise operators and fused expressions as compiled loops, over plain or blocked memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.scalar import Expr, Scalar
from neuralsym.core.types import Size
from neuralsym.cpu.kernels.loops import Strided, loop_row
from neuralsym.cpu.library import ROWS, Form, Kernel, Take
from neuralsym.cpu.program import Buffer, Operand, Role, Row, Sizes, Step, row_strides
from neuralsym.cpu.scalar_ir import supported
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch

MAX_RANK = 64
BLOCKED = (NumberType.FLOAT32, NumberType.INT32, NumberType.INT8, NumberType.UINT8)
"""What may lie in blocks of channels."""


class ElementwiseKernel(Kernel):
    """The loop of an operator's `scalar`, or of a Calculate's expression."""

    name = "loop"

    def supports(self, step: Step) -> bool | str:
        expr = expression(step)
        if expr is None:
            return "it states no expression for one element"
        if len(step.outputs) != 1:
            return "it has several outputs"
        buffers = [step.outputs[0], *(b for b in step.inputs if b is not None)]
        answer = supported(expr, [b.dtype for b in buffers])
        if answer is not True:
            return answer
        if max(b.rank for b in buffers) > MAX_RANK:
            return f"its rank is over {MAX_RANK}"
        return True

    def forms(self, step: Step) -> Sequence[Form]:
        """Blocked where an input is, if all others are blocked alike, or constants or scalars."""
        plain = Form((ROWS,) * len(step.inputs), (ROWS,))
        block = max((b.layout.block for b in step.inputs if b is not None), default=0)
        if block and self._can_block(step, block):
            takes: list[Take | None] = []
            for buffer in step.inputs:
                takes.append(None)
                moved = buffer is not None and buffer.role is not Role.CONSTANT
                if moved and buffer is not None and buffer.rank == step.outputs[0].rank:
                    takes[-1] = Take(block)
            return [Form(tuple(takes), (Take(block),)), plain]
        return [plain]

    def _can_block(self, step: Step, block: int) -> bool:
        shape = step.outputs[0].tensor.shape
        if shape is None or not 3 <= len(shape) <= 5:
            return False
        channels = shape[1]
        if not isinstance(channels, int) or (block > 1 and channels % block):
            # Lanes beyond the last channel must stay zero, and f(0) may be anything.
            return False
        for buffer in (*step.inputs, step.outputs[0]):
            if buffer is None:
                continue
            own = buffer.tensor.shape
            if own is None or buffer.dtype not in BLOCKED:
                return False
            wide = (1,) * (len(shape) - len(own)) + own
            alike = len(own) == len(shape) and own[1] == channels
            stored = buffer.role is Role.CONSTANT
            if stored or not alike:
                # One value for all, or a constant with one for each channel.
                free = (wide[0], *wide[2:]) if stored else wide
                if any(d != 1 for d in free):
                    return False
        return True

    def adjust(self, step: Step) -> None:
        out = step.outputs[0]
        for i, buffer in enumerate(step.inputs):
            if buffer is not None and buffer.layout == out.layout and _alike(buffer, out):
                step.in_place.append((i, 0))
        if out.layout.block:
            inputs = list(step.inputs)
            for i, buffer in enumerate(step.inputs):
                if buffer is not None and buffer.role is Role.CONSTANT:
                    inputs[i] = _padded(step, i, buffer, out)
            step.inputs = tuple(inputs)

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        expr = expression(step)
        assert expr is not None
        out = step.outputs[0]
        dims = loop_dims(out, sizes)
        if 0 in dims:
            return []
        given = [b for b in step.inputs if b is not None]
        if len(given) < len(step.inputs):
            expr = without_omitted(expr, step.inputs)
        operands = [operand_of(b, out, dims, sizes) for b in (out, *given)]
        declared = out.tensor.shape
        assert declared is not None
        single = tuple(d == 1 for d in declared) or (True,)
        if out.layout.block:
            single = (single[0], False, *single[2:], False)
        row = loop_row(self.target, expr, dims, operands, single, step.op.__name__.lower())
        return [row]

    def is_apart(self, step: Step) -> bool:
        rank = step.outputs[0].rank
        moving = [b for b in step.inputs if b is not None and b.role is not Role.CONSTANT]
        return all(b.rank == rank for b in moving)

    def complexity(self, step: Step, sizes: Sizes) -> int:
        from neuralsym.core.scalar import size

        expr = expression(step)
        count = int(np.prod(sizes.shape(step.outputs[0])))
        return count * size(expr) if isinstance(expr, Expr) else 0


def expression(step: Step) -> Scalar | None:
    """What the step computes for one element; None where it says no such thing."""
    if "expr" in step.attrs and step.op.__name__ == "Calculate":
        found: Scalar = step.attrs["expr"]
        return found
    state = getattr(step.op, "expression", None)
    made: Scalar | None = state(step) if state is not None else None
    return made


def _alike(buffer: Buffer, out: Buffer) -> bool:
    """Whether an input has the memory that the output needs, whatever the sizes."""
    return (
        buffer.dtype.itemsize == out.dtype.itemsize
        and buffer.tensor.shape == out.tensor.shape
        and buffer.role is Role.LOCAL
    )


def without_omitted(expr: Scalar, inputs: Sequence[Buffer | None]) -> Scalar:
    """The expression over the given inputs alone, as it is over all places for inputs."""
    from neuralsym.core.scalar import argument, substitute

    places = [i for i, b in enumerate(inputs) if b is not None]
    return substitute(expr, {old: argument(new) for new, old in enumerate(places)})


def loop_dims(out: Buffer, sizes: Sizes) -> tuple[int, ...]:
    """The axes of the loop: those of the output, in blocks where its memory is."""
    shape = sizes.shape(out)
    block = out.layout.block
    if not block:
        return shape or (1,)
    return (shape[0], -(-shape[1] // block), *shape[2:], block)


def operand_of(buffer: Buffer, out: Buffer, dims: Sequence[int], sizes: Sizes) -> Strided:
    """A buffer as an operand of the loop over `out`."""
    declared: list[Size] = list(buffer.tensor.shape or ())
    wanted: list[Size] = list(out.tensor.shape or ())
    if buffer.layout.block or (out.layout.block and buffer.rank == len(dims)):
        own = sizes.memory_shape(buffer)
        inner = list(own)
        strides = list(sizes.strides(buffer))
        if buffer.layout.block:
            shape = sizes.shape(buffer)
            inner = [own[0], own[1], *shape[2:], own[-1]]
            declared = [declared[0], None, *declared[2:], None]
            wanted = [wanted[0], None, *wanted[2:], None]
        else:  # a constant packed in blocks, of the loop's own rank
            wanted = [wanted[0], None, *wanted[2:], None]
        offset = sizes.origin(buffer) if buffer.layout.block else 0
    else:
        inner = list(sizes.shape(buffer))
        strides = list(row_strides(inner, buffer.dtype.itemsize))
        offset = 0
        if out.layout.block:
            wanted = [wanted[0], None, *wanted[2:], None]
    missing = len(dims) - len(inner)
    inner = [1] * missing + inner
    strides = [0] * missing + strides
    declared[:0] = [1] * missing
    wanted[:0] = [1] * (len(dims) - len(wanted))
    broadcast = []
    for axis, size in enumerate(dims):
        own_dim, out_dim = declared[axis], wanted[axis]
        if own_dim == 1 and out_dim != 1:
            fixed = True
        elif own_dim == out_dim and own_dim is not None:
            fixed = False
        else:
            fixed = inner[axis] == 1 and size != 1
        broadcast.append(fixed)
        if inner[axis] == 1 and size != 1:
            strides[axis] = 0
        elif inner[axis] != size:
            raise ShapeMismatch(
                f"{buffer.name} is {buffer.type}, here {list(sizes.shape(buffer))}: that does not "
                f"broadcast to {list(sizes.shape(out))} of {out.name}"
            )
    return Strided(Operand(buffer, offset), buffer.dtype, tuple(strides), tuple(broadcast))


def _padded(step: Step, index: int, buffer: Buffer, out: Buffer) -> Buffer:
    """A constant of one value for each channel, in the order of blocks; scalars as they are."""
    if all(d == 1 for d in buffer.tensor.shape or ()):
        return buffer
    rank, block = out.rank, out.layout.block

    def make() -> NDArray[Any]:
        flat = buffer.value.reshape(-1)
        return flat.reshape(1, -1, *(1,) * (rank - 2), block)

    return step.pack(f"channels{index}", make)
