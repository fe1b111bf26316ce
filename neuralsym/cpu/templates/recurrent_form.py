"""The form of the recurrent kernels: their descriptor, and what their text depends on.

The hidden units are cut into blocks of one vector. The gates of a block stand side by side, in the
projected input [time or batch][...][direction][block][gate][lane] as in the packed recurrent
weights [phase][direction][block][k][gate of the phase][lane], so that a tile holds all that one
block of the new state needs. Lanes beyond the last unit have zero weights.

Descriptor, int64 words (`RecurrentWord`); strides in bytes:

| words | meaning |
|---|---|
| INPUT | the projected input, its biases added |
| WEIGHTS | the packed recurrent weights |
| PEEPHOLES | [direction][block][i, o, f][lane], for an LSTM that has them |
| BIAS | [direction][block][lane]: the recurrent bias of a GRU's hidden gate, linear before reset |
| FIRST_H, FIRST_C | the initial states, or any address: HAS says which of them are given |
| LENGTHS | int32, the steps of each batch entry, if the text asks for them |
| Y, LAST_H, LAST_C | the outputs; HAS says which of the last states are asked for |
| SCALES | [direction][block][gate][lane]: of the weights, where the state is quantised |
| STATE | memory for `STATES` states of [batch][padded units] of each direction |
| HAS | bits: 1 FIRST_H, 2 FIRST_C, 4 LAST_H, 8 LAST_C |
| REVERSE | whether the first direction goes backwards; the second always does |
| STEPS, BATCH, DIRECTIONS, UNITS, BLOCKS | sizes |
| INPUT_TIME ... INPUT_DIRECTION | strides of the projected input |
| Y_TIME ... Y_DIRECTION | strides of Y |
| STATE_BATCH, STATE_DIRECTION | strides of the initial and last states |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Literal

from neuralsym.core.scalar import Scalar
from neuralsym.cpu.templates.element import Element, InVectors

Cell = Literal["RNN", "GRU", "LSTM"]

STATES = 5
"""The state before and after a step, the cell state, a GRU's update gate and its reset state; the
last is the state in whole numbers where it is quantised."""


class RecurrentWord(IntEnum):
    """Positions in the descriptor."""

    INPUT = 0
    WEIGHTS = auto()
    PEEPHOLES = auto()
    BIAS = auto()
    FIRST_H = auto()
    FIRST_C = auto()
    LENGTHS = auto()
    Y = auto()
    LAST_H = auto()
    LAST_C = auto()
    SCALES = auto()
    STATE = auto()
    HAS = auto()
    REVERSE = auto()
    STEPS = auto()
    BATCH = auto()
    DIRECTIONS = auto()
    UNITS = auto()
    BLOCKS = auto()
    INPUT_TIME = auto()
    INPUT_BATCH = auto()
    INPUT_DIRECTION = auto()
    Y_TIME = auto()
    Y_BATCH = auto()
    Y_DIRECTION = auto()
    STATE_BATCH = auto()
    STATE_DIRECTION = auto()


@dataclass(frozen=True)
class RecurrentText(InVectors):
    """What the text of a recurrent kernel depends on.

    functions: for each direction the expressions of its activations, (f), (f, g) or (f, g, h),
    with the clipping of what goes into them. linear: a GRU multiplies by the reset gate after the
    product, and then hidden_bias says whether that has a bias of its own. coupled: an LSTM's forget
    gate is one less the input gate. lengths: batch entries have lengths of their own. quantised:
    the weights are whole numbers, and an LSTM's state becomes such ones before each step.
    """

    cell: Cell
    functions: tuple[tuple[Scalar, ...], ...]
    width: int
    registers: int
    element: Element = "float"
    linear: bool = False
    hidden_bias: bool = False
    coupled: bool = False
    peepholes: bool = False
    lengths: bool = False
    quantised: bool = False

    @property
    def phases(self) -> tuple[tuple[int, ...], ...]:
        """The gates that are computed together; a later phase needs the results of the one before.

        The gates are counted in ONNX's order: iofc of an LSTM, zrh of a GRU.
        """
        if self.cell == "GRU" and not self.linear:
            return ((0, 1), (2,))
        return (tuple(range(self.gates)),)

    @property
    def gates(self) -> int:
        return {"RNN": 1, "GRU": 3, "LSTM": 4}[self.cell]

    def heights(self, gates: int) -> tuple[int, ...]:
        """How many batch entries a tile takes: as many sums as registers hold, in powers of two."""
        made = [1]
        while made[-1] < 8 and 2 * made[-1] * gates + gates + 1 < self.registers:
            made.append(2 * made[-1])
        return tuple(made)
