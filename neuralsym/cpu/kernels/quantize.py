"""QuantizeLinear and DequantizeLinear as loops over elements, with a scale for each part of x.

The operator says what an element becomes of its scale and zero point; here is only where those lie:
x is seen as [outer, axis, inner], or in blocks as [outer, blocks, block, inner], and the operands
that do not change along an axis step by zero there. A last block that is not whole is a row of its
own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from neuralsym.core.scalar import Scalar
from neuralsym.core.scalar import size as size_of
from neuralsym.cpu.kernels.elementwise import expression, without_omitted
from neuralsym.cpu.kernels.loops import Strided, loop_row
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, Step, row_strides
from neuralsym.cpu.scalar_ir import supported
from neuralsym.errors import ShapeMismatch
from neuralsym.ops.quantize import Granular


class Part(NamedTuple):
    """What one row computes: its axes, and where in x and in the scales it begins (elements)."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    scales: tuple[int, ...]
    single: tuple[bool, ...]
    """Of each axis, whether it has size 1 whatever the sizes of a run."""
    start: int = 0
    first: int = 0


class GranularKernel(Kernel):
    """One loop, or two where the axis ends within a block."""

    name = "quantise"

    def supports(self, step: Step) -> bool | str:
        if expression(step) is not None:
            return "one scale for all: the loop over elements takes blocks of channels too"
        buffers = [step.outputs[0], *(b for b in step.inputs if b is not None)]
        return supported(_formula(step), [b.dtype for b in buffers])

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, scale, out = step.inputs[0], step.inputs[1], step.outputs[0]
        assert x is not None and scale is not None
        if 0 in sizes.shape(x):
            return []
        given = [b for b in step.inputs if b is not None]
        expr = without_omitted(_formula(step), step.inputs)
        rows = []
        for part in _parts(step, x, scale, sizes):
            operands = [_operand(out, part.start, part.strides)]
            for buffer in given:
                whole = buffer is x
                start, strides = (part.start, part.strides) if whole else (part.first, part.scales)
                operands.append(_operand(buffer, start, strides))
            rows.append(loop_row(self.target, expr, part.dims, operands, part.single, self.name))
        return rows

    def complexity(self, step: Step, sizes: Sizes) -> int:
        return math.prod(sizes.shape(step.outputs[0])) * size_of(_formula(step))


def _formula(step: Step) -> Scalar:
    assert issubclass(step.op, Granular) and step.node is not None
    return step.op.formula(step.node)


def _operand(buffer: Buffer, start: int, strides: tuple[int, ...]) -> Strided:
    size = buffer.dtype.itemsize
    stepped = tuple(s * size for s in strides)
    return Strided(
        Operand(buffer, start * size), buffer.dtype, stepped, tuple(s == 0 for s in strides)
    )


def _parts(step: Step, x: Buffer, scale: Buffer, sizes: Sizes) -> list[Part]:
    shape, scales = sizes.shape(x), sizes.shape(scale)
    if math.prod(scales) == 1:
        return [Part((math.prod(shape),), (1,), (0,), (False,))]
    axis = int(step.attr("axis")) % len(shape)
    size, inner = shape[axis], math.prod(shape[axis + 1 :])
    dims = (math.prod(shape[:axis]), size, inner)
    strides = row_strides(dims, 1)
    block = int(step.attr("block_size") or 0)
    first, last = axis == 0, axis == len(shape) - 1
    if len(scales) == 1 and not block:
        if scales[0] != size:
            raise _mismatch(step, x, scale, sizes)
        return [Part(dims, strides, (0, 1, 0), (first, False, last))]
    if len(scales) != len(shape):
        raise _mismatch(step, x, scale, sizes)
    count = scales[axis]
    block = block or -(-size // count)
    if _without(scales, axis) != _without(shape, axis) or count != -(-size // block):
        raise _mismatch(step, x, scale, sizes)
    whole, rest = divmod(size, block)
    own = row_strides((dims[0], count, inner), 1)
    parts = []
    if whole:
        parts.append(
            Part(
                (dims[0], whole, block, inner),
                (strides[0], block * inner, inner, 1),
                (own[0], own[1], 0, own[2]),
                (first, False, False, last),
            )
        )
    if rest:
        parts.append(
            Part(
                (dims[0], rest, inner),
                strides,
                (own[0], 0, own[2]),
                (first, False, last),
                whole * block * inner,
                whole * inner,
            )
        )
    return parts


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _mismatch(step: Step, x: Buffer, scale: Buffer, sizes: Sizes) -> ShapeMismatch:
    return ShapeMismatch(
        f"{step.describe()}: scales of shape {list(sizes.shape(scale))} do not divide x of shape "
        f"{list(sizes.shape(x))} along axis {step.attr('axis')}; give one for all, one for each "
        "index of the axis, or one for each block_size of them"
    )


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    for op in ("QuantizeLinear", "DequantizeLinear"):
        library.kernel(op)(GranularKernel)
