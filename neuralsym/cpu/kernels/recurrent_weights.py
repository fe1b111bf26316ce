"""The weights of a recurrent layer in the order of its kernels: packed when loading, or in the run.

An `Arrangement` says how one input [direction][gate * unit (* k)] is laid out anew, once as numpy
for constants and once as strided copies for what is computed in the run. In the new order the units
are cut into blocks of one vector, the last one filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neuralsym.core.scalar import Scalar, argument
from neuralsym.cpu.kernels.loops import Strided, loop_row
from neuralsym.cpu.machine import Target
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, row_strides
from neuralsym.cpu.templates.layout import Array
from neuralsym.cpu.templates.recurrent_form import RecurrentText
from neuralsym.dtypes import NumberType


@dataclass(frozen=True)
class Arrangement:
    """One array of the kernels, made of an input of the step.

    index: the input. order: the axes of the new array: d (direction), b (block), g (gate), l (lane
    of the block), k (what is summed over). gates: the neighbouring gates that are taken. groups:
    how many the input has. also: gates that are added to the first ones of them.
    """

    index: int
    order: str
    gates: tuple[int, ...]
    groups: int
    also: tuple[int, ...] = ()

    def count(self, shape: Sequence[int], width: int) -> int:
        """Elements of the new array for an input of this shape."""
        units = shape[1] // self.groups
        last = shape[2] if "k" in self.order else 1
        return shape[0] * len(self.gates) * -(-units // width) * width * last

    def packed(self, value: Array, width: int) -> Array:
        """The new array of a constant, flat."""
        directions, rows = value.shape[:2]
        units, last = rows // self.groups, value.shape[2] if "k" in self.order else 1
        split = value.reshape(directions, self.groups, units, last)
        taken = split[:, list(self.gates)].copy()
        if self.also:
            taken[:, : len(self.also)] += split[:, list(self.also)]
        blocks = -(-units // width)
        full = np.zeros((directions, len(self.gates), blocks * width, last), taken.dtype)
        full[:, :, :units] = taken
        named = full.reshape(directions, len(self.gates), blocks, width, last)
        moved = named.transpose(["dgblk".index(axis) for axis in self.order.ljust(5, "k")])
        return np.ascontiguousarray(moved).reshape(-1)

    def rows(
        self, target: Target, source: Buffer, sizes: Sizes, width: int, place: Operand
    ) -> list[Row]:
        """The rows that make the new array at `place` in the run."""
        kind = NumberType.FLOAT64 if source.dtype is NumberType.FLOAT64 else NumberType.FLOAT32
        shape = sizes.shape(source)
        units, last = shape[1] // self.groups, shape[2] if "k" in self.order else 1
        item = last * source.dtype.itemsize
        old = {"d": shape[1] * item, "g": units * item, "b": width * item, "l": item}
        old["k"] = source.dtype.itemsize
        dims = {"d": shape[0], "b": -(-units // width), "g": 1, "l": width, "k": last}
        dims["g"] = len(self.gates)
        steps = row_strides([dims[axis] for axis in self.order], kind.itemsize)
        new = dict(zip(self.order, steps, strict=True))
        if not last:
            return []
        everything = [Strided(place, kind, (kind.itemsize,), (False,))]
        # Zeros first, for the lanes beyond the last unit.
        made = [loop_row(target, 0, (self.count(shape, width),), everything, (False,), "zero")]
        whole, rest = divmod(units, width)
        for start, count, lanes in ((0, whole, width), (whole, 1, rest)):
            for gates, also in self._spans():
                if not count or not lanes:
                    continue
                part = {**dims, "b": count, "l": lanes, "g": len(gates)}
                to = (gates[0] - self.gates[0]) * new["g"] + start * new["b"]
                operands = [self._side(Operand(place.buffer, place.offset + to), kind, new)]
                for first in (*gates[:1], *also[:1]):
                    begin = Operand(source, first * old["g"] + start * old["b"])
                    operands.append(self._side(begin, source.dtype, old))
                value: Scalar = argument(0) + argument(1) if also else argument(0)
                extents, free = [part[axis] for axis in self.order], (False,) * len(self.order)
                made.append(loop_row(target, value, extents, operands, free, "arrange"))
        return made

    def _spans(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Gates with what is added to them, then those to which nothing is."""
        count = len(self.also)
        spans: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        if count:
            spans.append((self.gates[:count], self.also))
        if count < len(self.gates):
            spans.append((self.gates[count:], ()))
        return spans

    def _side(self, place: Operand, kind: NumberType, strides: dict[str, int]) -> Strided:
        steps = tuple(strides[axis] for axis in self.order)
        return Strided(place, kind, steps, (False,) * len(steps))


# -- the arrays of a layer ---------------------------------------------------------------------
def input_weights(text: RecurrentText) -> Arrangement:
    """W as a matrix [features][direction, block, gate, lane]."""
    return Arrangement(1, "kdbgl", tuple(range(text.gates)), text.gates)


def recurrent_weights(text: RecurrentText) -> list[Arrangement]:
    """R, an array for each phase."""
    return [Arrangement(2, "dbkgl", gates, text.gates) for gates in text.phases]


def input_bias(text: RecurrentText) -> Arrangement:
    """What is added to the projected input: both biases, but one for a linear hidden gate."""
    gates = tuple(range(text.gates))
    also = [text.gates + g for g in gates if not (text.linear and g == text.gates - 1)]
    return Arrangement(3, "dbgl", gates, 2 * text.gates, tuple(also))


def hidden_bias(text: RecurrentText) -> Arrangement:
    """The recurrent bias of the hidden gate, which a linear GRU adds before the reset gate."""
    return Arrangement(3, "dbgl", (2 * text.gates - 1,), 2 * text.gates)


PEEPHOLES = Arrangement(7, "dbgl", (0, 1, 2), 3)
