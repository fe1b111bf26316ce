"""DynamicQuantizeLSTM: the kernels of an LSTM, whose products are of whole numbers as floats."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np

from neuralsym.core.scalar import Scalar, argument
from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.loops import Strided, loop_row
from neuralsym.cpu.kernels.recurrent import Recurrent
from neuralsym.cpu.kernels.recurrent_weights import Arrangement, input_bias
from neuralsym.cpu.library import Library
from neuralsym.cpu.program import Buffer, Operand, Role, Row, Sizes, Step
from neuralsym.cpu.templates.layout import Array
from neuralsym.cpu.templates.recurrent_form import RecurrentText
from neuralsym.cpu.templates.recurrent_quantised import quantised_text
from neuralsym.dtypes import NumberType

W, R, W_SCALE, W_ZERO, R_SCALE, R_ZERO = 1, 2, 8, 9, 10, 11
NAMES = {W: "W", R: "R", W_SCALE: "W_scale", W_ZERO: "W_zero_point", R_SCALE: "R_scale"}
ZERO_OF = {W: W_ZERO, R: R_ZERO}


class QuantisedLstm(Recurrent):
    """Input and state are rounded to bytes by their range, then multiplied as floats.

    Products of bytes, and sums of them below 2^24, are exact in float32.
    """

    name = "quantised recurrent"

    def supports(self, step: Step) -> bool | str:
        for index in (*NAMES, R_ZERO):
            buffer = step.input(index)
            if buffer is None or buffer.role is not Role.CONSTANT:
                return f"{NAMES.get(index, 'R_zero_point')} is no constant"
        if step.input(4) is not None:
            return "its entries have lengths of their own"
        if step.attr("clip"):
            return "it clips, and what goes into the cell's activation is not clipped"
        for index in (3, 7):
            buffer = step.input(index)
            if buffer is not None and buffer.role is not Role.CONSTANT:
                return f"{buffer.name} is no constant"
        return True

    def adjust(self, step: Step) -> None:
        super().adjust(step)
        x = step.inputs[0]
        assert x is not None
        # The scale of the input lies before it.
        step.need_scratch("bytes", lambda sizes: AHEAD + 4 * prod(sizes.shape(x)))

    def _entries(self, step: Step, sizes: Sizes, rows: list[Row]) -> Operand:
        x = step.inputs[0]
        assert x is not None
        memory = step.scratch["bytes"].buffer
        whole, count = Operand(memory, AHEAD), prod(sizes.shape(x))
        code = _quantise(self.target.width("float32"))
        rows.append(Row(code, [Operand(x), whole, Operand(memory), count], serial=True))
        return whole

    def _added(self, step: Step) -> Buffer | None:
        return None  # the products are scaled before

    def _project(
        self,
        step: Step,
        sizes: Sizes,
        text: RecurrentText,
        shape: tuple[int, int, int],
        rows: list[Row],
    ) -> list[Row]:
        made = super()._project(step, sizes, text, shape, rows)
        scales = self._array(step, sizes, text, "input scales", rows)
        assert scales is not None
        m, n, _ = shape
        memory = Operand(step.scratch["bytes"].buffer)
        projected = Operand(step.scratch["projected"].buffer)
        value: Scalar = argument(0) * (argument(1) * argument(2))
        kind = NumberType.FLOAT32
        sides = [Strided(projected, kind, (4 * n, 4), (False, False))] * 2
        sides.append(Strided(memory, kind, (0, 0), (True, True)))
        sides.append(Strided(scales, kind, (0, 4), (True, False)))
        if step.input(3) is not None:
            row = self._array(step, sizes, text, "input bias", rows)
            assert row is not None
            value = value + argument(3)
            sides.append(Strided(row, kind, (0, 4), (True, False)))
        made.append(loop_row(self.target, value, (m, n), sides, (False, False), "scale"))
        return made

    def _arrays(self, step: Step, text: RecurrentText) -> dict[str, list[Arrangement]]:
        made = super()._arrays(step, text)
        gates = tuple(range(text.gates))
        made.pop("b", None)
        made["scales"] = [Arrangement(R_SCALE, "dbgl", gates, text.gates)]
        made["input scales"] = [Arrangement(W_SCALE, "dbgl", gates, text.gates)]
        if step.input(3) is not None:
            made["input bias"] = [input_bias(text)]
        return made

    def _stored(self, step: Step, index: int) -> Array:
        """Weights less their zero points, as the LSTM has them; scales of each column."""
        value = super()._stored(step, index).astype(np.float32)
        if index in ZERO_OF:
            zero = super()._stored(step, ZERO_OF[index]).astype(np.float32)
            lined = zero.reshape(len(value), 1, -1)
            return np.asarray((value - lined).transpose(0, 2, 1))
        if index in (W_SCALE, R_SCALE):
            r = step.inputs[R]
            assert r is not None and r.tensor.shape is not None
            columns = r.tensor.shape[2]
            assert isinstance(columns, int)
            return np.broadcast_to(value.reshape(len(value), -1), (len(value), columns))
        return value


AHEAD = 64
"""Bytes before the numbers of the input, which begin on a line of the cache."""


@cache
def _quantise(width: int) -> Code:
    return Code("quantised", "quantised", quantised_text(width, "quantised"))


def register(library: Library) -> None:
    """Enter the kernel of this module."""
    library.kernel("DynamicQuantizeLSTM", domain="com.microsoft")(QuantisedLstm)
