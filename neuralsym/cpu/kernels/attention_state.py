"""LinearAttention as a loop over time: a state [key size, value size] for each head.

    S = exp(g) S;  u = v, or beta (v - k S);  S = S + k u;  o = scale q S

The columns of a state do not meet, so they are shared out among the workers in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.widen import finish, reserve, wide_place, widened
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Operand, Row, Sizes, Step
from neuralsym.cpu.scalar_ir import HALVES
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch

FLOATS = (NumberType.FLOAT32, *HALVES)
BLOCK = 64
"""Columns of a state that one worker goes through time with."""


class LinearAttention(Kernel):
    """All update rules, in float32; outputs are rounded once."""

    name = "linear attention"

    def supports(self, step: Step) -> bool | str:
        for buffer in (*step.operands, *step.outputs):
            if buffer.dtype not in FLOATS:
                return f"there is no such loop over {buffer.dtype.value}"
        return True

    def adjust(self, step: Step) -> None:
        for i, buffer in enumerate(step.inputs):
            reserve(step, i, buffer)
        for i, buffer in enumerate(step.outputs):
            reserve(step, -1 - i, buffer)
        if len(step.outputs) < 2:
            step.need_scratch("state", lambda sizes: 4 * math.prod(self._state(step, sizes)))
        step.need_scratch("update", lambda sizes: 4 * BLOCK * sizes.workers)

    def _state(self, step: Step, sizes: Sizes) -> tuple[int, int, int, int]:
        """The shape of the states: batch, heads, key size, value size."""
        key, value = (sizes.shape(b) for b in step.inputs[1:3] if b is not None)
        heads = step.attr("kv_num_heads")
        return key[0], heads, key[2] // heads, value[2] // heads

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        y = step.outputs[0]
        batch, heads, size, width = state = self._state(step, sizes)
        q_heads, length = step.attr("q_num_heads"), sizes.shape(y)[1]
        time = (batch, length)
        decay = step.input(4)
        gates = 0 if decay is None else sizes.shape(decay)[2] // heads
        beta = step.input(5)
        rates = 0 if beta is None else sizes.shape(beta)[2]
        shapes = [
            *((*time, q_heads, size), (*time, heads, size), (*time, heads, width), state),
            *((*time, heads, gates), (*time, rates)),
        ]
        rows: list[Row] = []
        sides: list[Side] = []
        for i, shape in enumerate(shapes):
            buffer = step.input(i)
            if buffer is None:
                sides.append(Side(wide_place(step, -1, y), "float32", (0,) * len(shape)))
                continue
            if math.prod(sizes.shape(buffer)) != math.prod(shape):
                raise ShapeMismatch(
                    f"{step.describe()}: {buffer.name} is {list(sizes.shape(buffer))} here, which "
                    f"does not fit the other inputs: {list(shape)} is needed"
                )
            sides.append(Side(widened(self.target, step, i, buffer, sizes, rows), "float32", shape))
        kept = Operand(step.scratch["state"].buffer) if len(step.outputs) < 2 else None
        place = wide_place(step, -2, step.outputs[1]) if kept is None else kept
        sides += [
            Side(wide_place(step, -1, y), "float32", (*time, q_heads, width), "out"),
            Side(place, "float32", state, "out"),
            Side(Operand(step.scratch["update"].buffer), "float32", (sizes.workers, BLOCK), "out"),
        ]
        scale = step.attr("scale") or 1 / math.sqrt(size or 1)
        rows.append(array_row(step, sizes, _attention, sides, [float(scale)], name="linear"))
        for i, buffer in enumerate(step.outputs):
            wide = wide_place(step, -1 - i, buffer)
            rows += finish(self.target, step, wide, buffer, None, sizes)
        return rows

    def complexity(self, step: Step, sizes: Sizes) -> int:
        _, length, _ = sizes.shape(step.outputs[0])
        group = step.attr("q_num_heads") // step.attr("kv_num_heads")
        return int(2 * (3 + group) * length * math.prod(self._state(step, sizes)))


def _attention(
    query: Any,
    key: Any,
    value: Any,
    past: Any,
    decay: Any,
    beta: Any,
    y: Any,
    states: Any,
    updates: Any,
    scale: Any,
    worker: int,
    workers: int,
) -> None:
    batch, heads, size, width = states.shape
    length, group = y.shape[1], y.shape[2] // max(heads, 1)
    gated, corrected = decay.shape[0] > 0, beta.shape[0] > 0
    blocks = (width + BLOCK - 1) // BLOCK
    units = batch * heads * blocks
    update = updates[worker]
    one, zero, factor = np.float32(1), np.float32(0), np.float32(scale)
    for unit in range(units * worker // workers, units * (worker + 1) // workers):
        n, h, first = unit // blocks // heads, unit // blocks % heads, unit % blocks * BLOCK
        count = min(BLOCK, width - first)
        state = states[n, h, :, first : first + count]
        for d in range(size):
            for m in range(count):
                state[d, m] = past[n, h, d, first + m] if past.shape[0] else zero
        for t in range(length):
            for m in range(count):
                update[m] = value[n, t, h, first + m]
            if gated:
                for d in range(size):
                    gate = np.exp(decay[n, t, h, d if decay.shape[3] > 1 else 0])
                    for m in range(count):
                        state[d, m] *= gate
            if corrected:
                for d in range(size):
                    k = key[n, t, h, d]
                    for m in range(count):
                        update[m] -= state[d, m] * k
                rate = beta[n, t, h if beta.shape[2] > 1 else 0] * one
                for m in range(count):
                    update[m] *= rate
            for g in range(group):
                for m in range(count):
                    y[n, t, h * group + g, first + m] = zero
            for d in range(size):
                k = key[n, t, h, d]
                for m in range(count):
                    state[d, m] += k * update[m]
                for g in range(group):
                    q = query[n, t, h * group + g, d] * factor
                    for m in range(count):
                        y[n, t, h * group + g, first + m] += q * state[d, m]


def register(library: Library) -> None:
    """Enter the kernel of this module."""
    library.kernel("LinearAttention")(LinearAttention)
