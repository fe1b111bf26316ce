"""BatchNormalization by stored statistics that are no constants: those are folded beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence

from neuralsym.core.scalar import Scalar, apply, argument
from neuralsym.cpu.kernels.loops import Strided, loop_row
from neuralsym.cpu.kernels.widen import wide_kind
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, Step
from neuralsym.cpu.scalar_ir import HALVES
from neuralsym.dtypes import NumberType

FLOATS = (NumberType.FLOAT32, NumberType.FLOAT64, *HALVES)


class BatchNorm(Kernel):
    """(x - mean) * (scale / sqrt(variance + epsilon)) + bias, the factor once for each channel."""

    name = "batch norm"

    def supports(self, step: Step) -> bool | str:
        if step.attr("training_mode"):
            return "it normalises by the batch's own statistics"
        buffers = [b for b in step.inputs if b is not None]
        kinds = {b.dtype for b in buffers}
        if not kinds <= set(FLOATS):
            return "there are loops over floats only"
        if NumberType.FLOAT64 in kinds and len(kinds) > 1:
            return "its inputs are of several types"
        if buffers[0].rank < 2:
            return f"{buffers[0].name} has no channels"
        return True

    def adjust(self, step: Step) -> None:
        scale = step.inputs[1]
        assert scale is not None
        size = wide_kind(step.outputs[0].dtype).itemsize
        step.need_scratch("factor", lambda sizes: size * math.prod(sizes.shape(scale)))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, scale, bias, mean, variance = (b for b in step.inputs if b is not None)
        y = step.outputs[0]
        batch, channels, *spatial = sizes.shape(x)
        pixels = math.prod(spatial)
        kind = wide_kind(y.dtype)
        factor = Operand(step.scratch["factor"].buffer)
        epsilon = float(step.attr("epsilon"))
        value: Scalar = argument(0) / apply("sqrt", argument(1) + epsilon)
        line = [_line(factor, kind), *(_line(Operand(b), b.dtype) for b in (scale, variance))]
        first = loop_row(self.target, value, (channels,), line, (False,), "factor")
        value = (argument(0) - argument(1)) * argument(2) + argument(3)
        operands = [
            _whole(y, channels, pixels),
            _whole(x, channels, pixels),
            _channel(Operand(mean), mean.dtype),
            _channel(factor, kind),
            _channel(Operand(bias), bias.dtype),
        ]
        dims = (batch, channels, pixels)
        return [first, loop_row(self.target, value, dims, operands, (False,) * 3, "batch_norm")]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        return 3 * math.prod(sizes.shape(step.outputs[0]))


def _line(place: Operand, kind: NumberType) -> Strided:
    return Strided(place, kind, (kind.itemsize,), (False,))


def _whole(buffer: Buffer, channels: int, pixels: int) -> Strided:
    size = buffer.dtype.itemsize
    strides = (channels * pixels * size, pixels * size, size)
    return Strided(Operand(buffer), buffer.dtype, strides, (False,) * 3)


def _channel(place: Operand, kind: NumberType) -> Strided:
    return Strided(place, kind, (0, kind.itemsize, 0), (True, False, True))


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    library.kernel("BatchNormalization")(BatchNorm)
