"""Layer, RMS, group and instance normalisation over rows, and LRN over neighbouring channels.

MeanVarianceNormalization and LpNormalization, which exporters do not write, have no kernel: they
are written with other operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from math import prod

import numpy as np

from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.geometry import blockable, inner, plane
from neuralsym.cpu.library import Form, Kernel, Library, Take
from neuralsym.cpu.program import (
    Buffer,
    Operand,
    Role,
    Row,
    Sizes,
    Step,
    Word,
    float32_word,
    float_word,
)
from neuralsym.cpu.templates.lrn import LrnText, lrn_text, reaches
from neuralsym.cpu.templates.normalise import NormaliseText, normalise_text
from neuralsym.dtypes import NumberType

FLOATS = (NumberType.FLOAT32, NumberType.FLOAT64, NumberType.FLOAT16, NumberType.BFLOAT16)


class RowNormalisation(Kernel):
    """Statistics of contiguous rows (templates/normalise.py)."""

    center = True
    per_element = False

    def supports(self, step: Step) -> bool | str:
        for buffer in (*step.inputs, *step.outputs):
            if buffer is not None and buffer.dtype not in FLOATS:
                return f"{buffer.name} is {buffer.dtype}, it takes floats of 16 to 64 bits"
        return True

    def sides(self, step: Step) -> tuple[Buffer, Buffer, Buffer | None]:
        """x, scale and bias."""
        x, scale = step.inputs[:2]
        assert x is not None and scale is not None
        return x, scale, step.input(2)

    def row(self, step: Step, shape: Sequence[int]) -> tuple[int, int, int, int]:
        """How many rows, groups, parts of a row, and elements of a part."""
        raise NotImplementedError

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, scale, bias = self.sides(step)
        y, *statistics = step.outputs
        shape = sizes.shape(x)
        rows, groups, parts, length = self.row(step, shape)
        if rows == 0 or (0 in shape and not statistics):
            return []
        text = NormaliseText(
            x.dtype,
            scale.dtype,
            y.dtype,
            statistics[0].dtype if statistics else None,
            self.center,
            bias is not None,
            self.per_element,
            self.target.vector_bytes,
            self.target.fma,
        )
        places: list[Word] = [Operand(b) for b in (y, x, scale)]
        places.append(Operand(bias) if bias is not None else 0)
        places += [Operand(b) for b in statistics] + [0] * (2 - len(statistics))
        epsilon = float_word(step.attr("epsilon"))
        words = [*places, rows, parts * length, groups, parts, length, epsilon]
        return [Row(_row_code(text), words)]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        x = step.inputs[0]
        assert x is not None
        return 8 * prod(sizes.shape(x))


@cache
def _row_code(text: NormaliseText) -> Code:
    return Code(f"normalise {text.x}", "normalise", normalise_text(text, "normalise"))


class LayerNormalization(RowNormalisation):
    """The axes from `axis` on are a row; scale and bias are of its shape or broadcast to it."""

    per_element = True

    def supports(self, step: Step) -> bool | str:
        answer = super().supports(step)
        if answer is not True:
            return answer
        x, *others = step.inputs
        assert x is not None and x.tensor.shape is not None
        row = x.tensor.shape[step.attr("axis") % x.rank :]
        for buffer in others:
            if buffer is None or buffer.tensor.shape == row:
                continue
            fixed = all(isinstance(d, int) for d in row)
            if buffer.role is not Role.CONSTANT or not fixed or buffer.rank > len(row):
                return f"{buffer.name} does not have the shape of the axes that are normalised"
        return True

    def adjust(self, step: Step) -> None:
        x = step.inputs[0]
        assert x is not None and x.tensor.shape is not None
        row = tuple(x.tensor.shape[step.attr("axis") % x.rank :])
        for i, buffer in enumerate(step.inputs):
            if i == 0 or buffer is None or buffer.tensor.shape == row:
                continue
            fixed = tuple(d for d in row if isinstance(d, int))
            step.pack(f"input {i}", partial(np.broadcast_to, buffer.value, fixed))
        step.in_place = [(0, 0)] if x.dtype is step.outputs[0].dtype else []

    def sides(self, step: Step) -> tuple[Buffer, Buffer, Buffer | None]:
        x, scale, bias = super().sides(step)
        packed = step.constants
        return x, packed.get("input 1", scale), packed.get("input 2", bias) if bias else None

    def row(self, step: Step, shape: Sequence[int]) -> tuple[int, int, int, int]:
        axis = step.attr("axis") % len(shape)
        return prod(shape[:axis]), 1, 1, prod(shape[axis:])


class RMSNormalization(LayerNormalization):
    """The same without the mean."""

    center = False


class InstanceNormalization(RowNormalisation):
    """Each channel of each entry is a row."""

    def adjust(self, step: Step) -> None:
        step.in_place = [(0, 0)]

    def row(self, step: Step, shape: Sequence[int]) -> tuple[int, int, int, int]:
        return shape[0] * shape[1], shape[1], 1, prod(shape[2:])


class GroupNormalization(RowNormalisation):
    """Each group of channels of each entry is a row of as many parts."""

    def adjust(self, step: Step) -> None:
        step.in_place = [(0, 0)]

    def row(self, step: Step, shape: Sequence[int]) -> tuple[int, int, int, int]:
        groups = step.attr("num_groups")
        return shape[0] * groups, groups, shape[1] // groups, prod(shape[2:])


class LRN(Kernel):
    """Elements over a power of the squares of neighbouring channels (templates/lrn.py)."""

    def supports(self, step: Step) -> bool | str:
        x = step.inputs[0]
        assert x is not None
        if x.dtype is not NumberType.FLOAT32:
            return f"{x.name} is {x.dtype}, it takes float32"
        if step.attr("bias") <= 0:
            return "without a positive bias, zeros are divided by zero"
        return True

    def forms(self, step: Step) -> Sequence[Form]:
        x = step.inputs[0]
        width = self.target.width("float32")
        near = max(reaches(step.attr("size"))) <= width
        if x is None or not near or width == 1 or blockable([x]) is not True:
            return super().forms(step)
        return [*super().forms(step), Form((Take(width),), (Take(width),))]

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        shape = sizes.shape(x)
        if 0 in shape:
            return []
        size, width = step.attr("size"), self.target.width("float32")
        # The beta of an ONNX file is a float32: 0.75 is exact.
        text = LrnText(width, size, float(step.attr("beta")), bool(x.layout.block))
        numbers = [float32_word(step.attr("bias")), float32_word(step.attr("alpha") / size)]
        if not x.layout.block:
            pixels = prod(shape[2:])
            words: list[Word] = [Operand(y), Operand(x), shape[0], shape[1], pixels, *numbers]
            return [Row(_lrn_code(text), words)]
        here, there = plane(x, sizes), plane(y, sizes)
        words = [inner(y, sizes), inner(x, sizes), shape[0], here.blocks, *here.size]
        for side in (there, here):
            words += [side.batch, side.block, side.slice, side.row]
        return [Row(_lrn_code(text), [*words, *numbers])]

    def is_apart(self, step: Step) -> bool:
        return True

    def complexity(self, step: Step, sizes: Sizes) -> int:
        x = step.inputs[0]
        assert x is not None
        return int((2 * step.attr("size") + 8) * prod(sizes.shape(x)))


@cache
def _lrn_code(text: LrnText) -> Code:
    return Code("lrn", "lrn", lrn_text(text, "lrn"))


def register(library: Library) -> None:
    """Register the kernels of this module."""
    for kind in (
        LayerNormalization,
        RMSNormalization,
        InstanceNormalization,
        GroupNormalization,
        LRN,
    ):
        library.kernel(kind.__name__, name="normalise" if kind is not LRN else "lrn")(kind)
