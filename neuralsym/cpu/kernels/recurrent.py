"""RNN, GRU and LSTM: the input's products for all steps at once, then one kernel for the steps.

Half precision is computed in float32, from the input's products to the last state.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np

from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.geometry import registers, stored_array
from neuralsym.cpu.kernels.recurrent_weights import (
    PEEPHOLES,
    Arrangement,
    hidden_bias,
    input_bias,
    input_weights,
    recurrent_weights,
)
from neuralsym.cpu.kernels.widen import (
    finish,
    reserve,
    wide_kind,
    wide_place,
    widened,
)
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Buffer, Operand, Role, Row, Sizes, Step, Word
from neuralsym.cpu.scalar_ir import HALVES
from neuralsym.cpu.templates.layout import Array
from neuralsym.cpu.templates.matmul import matmul_text
from neuralsym.cpu.templates.matmul_form import MatmulText
from neuralsym.cpu.templates.matmul_plan import (
    Matrix,
    matmul_words,
    pack_b,
    pack_row,
    panel_bytes,
    plan_matmul,
    scratch_bytes,
)
from neuralsym.cpu.templates.recurrent import (
    BAD_LENGTH,
    HAS_FIRST_C,
    HAS_FIRST_H,
    HAS_LAST_C,
    HAS_LAST_H,
    recurrent_text,
)
from neuralsym.cpu.templates.recurrent_form import STATES, RecurrentText, RecurrentWord
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch
from neuralsym.ops.rnn import Recurrent as RecurrentOp
from neuralsym.ops.rnn import activation_functions

FLOATS = (NumberType.FLOAT32, NumberType.FLOAT64, *HALVES)
SMALLEST = 16  # bytes of the narrowest vector: few units need no wide ones


class Recurrent(Kernel):
    """A layer in one or two directions; see templates/recurrent.py."""

    name = "recurrent"
    failures: ClassVar = {BAD_LENGTH: "an entry of sequence_lens lies outside 0 to the steps of X"}

    def supports(self, step: Step) -> bool | str:
        y = step.outputs[0]
        if y.dtype not in FLOATS:
            return f"it computes with floats, not with {y.dtype.value}"
        return True

    def adjust(self, step: Step) -> None:
        y = step.outputs[0]
        for i in (0, 5, 6):
            reserve(step, i, step.input(i))
        for i, output in enumerate(step.outputs):
            reserve(step, -1 - i, output)
        text = self._text(step)
        item = text.bytes

        def units(sizes: Sizes) -> int:
            return -(-_layer(step, sizes)[4] // text.width) * text.width

        def states(sizes: Sizes) -> int:
            _, batch, directions, _, _ = _layer(step, sizes)
            return STATES * item * directions * batch * units(sizes)

        def projected(sizes: Sizes) -> int:
            steps, batch, directions, _, _ = _layer(step, sizes)
            return item * steps * batch * directions * text.gates * units(sizes)

        step.need_scratch("states", states)
        step.need_scratch("projected", projected)
        product = self._product(text, y, packed=False, steps=None)
        if not _is_constant(step.input(1)):
            most = scratch_bytes(product)
            step.need_scratch("panel", lambda sizes: most * sizes.workers)
        for key, made in self._arrays(step, text).items():
            source = step.input(made[0].index)
            if source is not None and not _is_constant(source):
                self._reserve(step, key, made, source, text, product.panel * item)

    def _reserve(
        self,
        step: Step,
        key: str,
        made: Sequence[Arrangement],
        source: Buffer,
        text: RecurrentText,
        slack: int,
    ) -> None:
        """Memory for weights that are arranged in the run; a bias row is read in whole panels."""

        def size(sizes: Sizes) -> int:
            shape = sizes.shape(source)
            return sum(a.count(shape, text.width) for a in made) * text.bytes + slack

        step.need_scratch(key, size)

    # -- rows ------------------------------------------------------------------------------
    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        text = self._text(step)
        steps, batch, directions, features, units = _layer(step, sizes)
        _check_shapes(step, sizes, text.gates)
        if 0 in (batch, directions):
            return []
        rows: list[Row] = []
        blocks = -(-units // text.width)
        columns = directions * blocks * text.gates * text.width
        if steps:
            rows += self._project(step, sizes, text, (steps * batch, columns, features), rows)
        item = text.bytes
        by_batch = bool(step.attr("layout"))
        outs = [wide_place(step, -1 - i, b) for i, b in enumerate(step.outputs)]
        firsts = [self._first(step, i, sizes, rows) for i in (5, 6)]
        last_h = outs[1] if len(outs) > 1 else None
        last_c = outs[2] if len(outs) > 2 else None
        flags = (HAS_FIRST_H, HAS_FIRST_C, HAS_LAST_H, HAS_LAST_C)
        given = (*firsts, last_h, last_c)
        lengths = step.input(4)
        anything = outs[0]
        row, hidden = columns * item, units * item
        times, entries = (1, steps) if by_batch else (batch, 1)
        words: dict[RecurrentWord, Word] = {
            RecurrentWord.INPUT: Operand(step.scratch["projected"].buffer),
            RecurrentWord.WEIGHTS: self._array(step, sizes, text, "r", rows) or anything,
            RecurrentWord.PEEPHOLES: self._array(step, sizes, text, "p", rows) or anything,
            RecurrentWord.BIAS: self._array(step, sizes, text, "hidden", rows) or anything,
            RecurrentWord.FIRST_H: firsts[0] or anything,
            RecurrentWord.FIRST_C: firsts[1] or anything,
            RecurrentWord.LENGTHS: anything if lengths is None else Operand(lengths),
            RecurrentWord.Y: outs[0],
            RecurrentWord.LAST_H: last_h or anything,
            RecurrentWord.LAST_C: last_c or anything,
            RecurrentWord.SCALES: self._array(step, sizes, text, "scales", rows) or anything,
            RecurrentWord.STATE: Operand(step.scratch["states"].buffer),
            RecurrentWord.HAS: sum(f for f, g in zip(flags, given, strict=True) if g is not None),
            RecurrentWord.REVERSE: int(step.attr("direction") == "reverse"),
            RecurrentWord.STEPS: steps,
            RecurrentWord.BATCH: batch,
            RecurrentWord.DIRECTIONS: directions,
            RecurrentWord.UNITS: units,
            RecurrentWord.BLOCKS: blocks,
            RecurrentWord.INPUT_TIME: times * row,
            RecurrentWord.INPUT_BATCH: entries * row,
            RecurrentWord.INPUT_DIRECTION: row // directions,
            RecurrentWord.Y_TIME: times * directions * hidden,
            RecurrentWord.Y_BATCH: hidden * (steps * directions if by_batch else 1),
            RecurrentWord.Y_DIRECTION: hidden * (1 if by_batch else batch),
            RecurrentWord.STATE_BATCH: hidden * (directions if by_batch else 1),
            RecurrentWord.STATE_DIRECTION: hidden * (1 if by_batch else batch),
        }
        rows.append(Row(_code(text), [words[w] for w in RecurrentWord]))
        for place, output in zip(outs, step.outputs, strict=True):
            if output.dtype in HALVES and 0 not in sizes.shape(output):
                rows += finish(self.target, step, place, output, None, sizes)
        return rows

    def _project(
        self,
        step: Step,
        sizes: Sizes,
        text: RecurrentText,
        shape: tuple[int, int, int],
        rows: list[Row],
    ) -> list[Row]:
        """The products of all steps' inputs and the input weights, and the biases."""
        x, w = step.inputs[0], step.inputs[1]
        assert x is not None and w is not None
        m, n, k = shape
        packed = _is_constant(w)
        fixed = x.tensor.shape is not None and all(isinstance(d, int) for d in x.tensor.shape)
        given = self._added(step)
        product = self._product(text, step.outputs[0], packed, m if fixed else None, given)
        a = self._entries(step, sizes, rows)
        item = text.bytes
        bias: Word | None = None
        if packed:
            made = self._arrays(step, text)["w"][0]
            buffer = step.pack(
                f"w{product.panel}",
                lambda: pack_b(
                    made.packed(self._stored(step, 1), text.width).reshape(k, n), product
                ),
            )
            b = Matrix(Operand(buffer), panel_bytes(k, product))
        else:
            place = self._array(step, sizes, text, "w", rows)
            assert place is not None
            b = Matrix(place, item * n)
        if given is not None and _is_constant(given):
            row = self._arrays(step, text)["b"][0]
            bias = Operand(
                step.pack(
                    f"b{product.panel}",
                    lambda: pack_row(row.packed(self._stored(step, 3), text.width), n, product),
                )
            )
        elif given is not None:
            bias = self._array(step, sizes, text, "b", rows)
        scratch = step.scratch.get("panel")
        words = matmul_words(
            product,
            (m, n, k),
            Matrix(a, item * k),
            b,
            Matrix(Operand(step.scratch["projected"].buffer), item * n),
            bias=bias,
            scratch=None if scratch is None else Operand(scratch.buffer),
        )
        return [Row(_product_code(product), words)]

    def _entries(self, step: Step, sizes: Sizes, rows: list[Row]) -> Operand:
        """Where the input of all steps lies; the rows that bring it there are added to `rows`."""
        x = step.inputs[0]
        assert x is not None
        return widened(self.target, step, 0, x, sizes, rows)

    def _added(self, step: Step) -> Buffer | None:
        """What is added to the products of the input."""
        return step.input(3)

    def _stored(self, step: Step, index: int) -> Array:
        """The value of a constant in the type that the kernels compute with, as ONNX has it."""
        buffer = step.input(index)
        assert buffer is not None
        return stored_array(buffer).astype(wide_kind(buffer.dtype).numpy)

    def _first(self, step: Step, index: int, sizes: Sizes, rows: list[Row]) -> Operand | None:
        buffer = step.input(index)
        return None if buffer is None else widened(self.target, step, index, buffer, sizes, rows)

    # -- weights ---------------------------------------------------------------------------
    def _arrays(self, step: Step, text: RecurrentText) -> dict[str, list[Arrangement]]:
        """The arrays that the kernels read, each made of one input."""
        made = {"w": [input_weights(text)], "r": recurrent_weights(text)}
        if step.input(3) is not None:
            made["b"] = [input_bias(text)]
            if text.hidden_bias:
                made["hidden"] = [hidden_bias(text)]
        if text.peepholes:
            made["p"] = [PEEPHOLES]
        return made

    def _array(
        self, step: Step, sizes: Sizes, text: RecurrentText, key: str, rows: list[Row]
    ) -> Operand | None:
        """Where an array of the kernels lies; the rows that make it are added to `rows`."""
        made = self._arrays(step, text).get(key)
        if made is None:
            return None
        source = step.input(made[0].index)
        assert source is not None
        if _is_constant(source):
            return Operand(step.pack(key, lambda: self._joined(step, made, text)))
        buffer, offset = step.scratch[key].buffer, 0
        for arrangement in made:
            place = Operand(buffer, offset)
            rows += arrangement.rows(self.target, source, sizes, text.width, place)
            offset += arrangement.count(sizes.shape(source), text.width) * text.bytes
        return Operand(buffer)

    def _joined(self, step: Step, made: Sequence[Arrangement], text: RecurrentText) -> Array:
        value = self._stored(step, made[0].index)
        return np.concatenate([a.packed(value, text.width) for a in made])

    # -- texts -----------------------------------------------------------------------------
    def _text(self, step: Step) -> RecurrentText:
        y = step.outputs[0]
        element = "double" if y.dtype is NumberType.FLOAT64 else "float"
        item = wide_kind(y.dtype).itemsize
        width = self.target.width(element)
        r = step.inputs[2]
        assert r is not None
        size = r.tensor.shape[_units_axis(step)] if r.tensor.shape is not None else None
        least = SMALLEST // item
        while isinstance(size, int) and width > least and size <= width // 2:
            width //= 2
        kind = step.op.__name__ if issubclass(step.op, RecurrentOp) else "LSTM"
        linear = kind == "GRU" and bool(step.attr("linear_before_reset"))
        assert kind in ("RNN", "GRU", "LSTM")
        return RecurrentText(
            cell=kind,  # type: ignore[arg-type]
            functions=activation_functions(step),
            width=width,
            registers=registers(self.target),
            element="double" if element == "double" else "float",
            linear=linear,
            hidden_bias=linear and step.input(3) is not None,
            coupled=kind == "LSTM" and bool(step.attr("input_forget")),
            peepholes=step.input(7) is not None,
            lengths=step.input(4) is not None,
            quantised=not issubclass(step.op, RecurrentOp),
        )

    def _product(
        self,
        text: RecurrentText,
        y: Buffer,
        packed: bool,
        steps: int | None,
        bias: Buffer | None = None,
    ) -> MatmulText:
        return plan_matmul(
            None,
            width=self.target.width(text.element),
            registers=registers(self.target),
            m=steps,
            b="packed" if packed else "rows",
            element=text.element,
            bias=bias is not None,
        )

    def complexity(self, step: Step, sizes: Sizes) -> int:
        steps, batch, directions, features, units = _layer(step, sizes)
        gates = self._text(step).gates
        return 2 * steps * batch * directions * gates * units * (features + units)


def _layer(step: Step, sizes: Sizes) -> tuple[int, int, int, int, int]:
    """(steps, batch, directions, features, units)."""
    x, r = step.inputs[0], step.inputs[2]
    assert x is not None and r is not None
    first, second, features = sizes.shape(x)
    steps, batch = (second, first) if step.attr("layout") else (first, second)
    directions, units = sizes.shape(r)[0], sizes.shape(r)[_units_axis(step)]
    return steps, batch, directions, features, units


def _units_axis(step: Step) -> int:
    """The axis of R that the state is multiplied along: quantised weights come transposed."""
    return 2 if issubclass(step.op, RecurrentOp) else 1


def _check_shapes(step: Step, sizes: Sizes, gates: int) -> None:
    """ShapeMismatch where operands whose sizes only the run tells do not fit each other."""
    x = step.inputs[0]
    assert x is not None
    _, batch, directions, features, units = _layer(step, sizes)
    count = 2 if step.attr("direction") == "bidirectional" else 1
    gated = gates * units
    weights = [(count, gated, k) for k in (features, units)]
    if _units_axis(step) == 1:
        weights = [(count, k, gated) for k in (features, units)]
    state = (batch, directions, units) if step.attr("layout") else (directions, batch, units)
    wanted: dict[int, tuple[str, tuple[int, ...]]] = {
        1: ("W", weights[0]),
        2: ("R", weights[1]),
        3: ("B", (count, 2 * gated)),
        4: ("sequence_lens", (batch,)),
        5: ("initial_h", state),
        6: ("initial_c", state),
        7: ("P", (count, 3 * units)),
    }
    for index, (name, shape) in wanted.items():
        buffer = step.input(index)
        if buffer is not None and sizes.shape(buffer) != shape:
            raise ShapeMismatch(
                f"{step.describe()}: {name} came as {list(sizes.shape(buffer))}, but X of "
                f"{list(sizes.shape(x))} and {units} units need {list(shape)}"
            )


def _is_constant(buffer: Buffer | None) -> bool:
    return buffer is not None and buffer.role is Role.CONSTANT


@lru_cache(maxsize=64)
def _code(text: RecurrentText) -> Code:
    return Code(text.cell, "recurrent", recurrent_text(text, "recurrent"))


@lru_cache(maxsize=64)
def _product_code(text: MatmulText) -> Code:
    return Code("matmul", "matmul", matmul_text(text, "matmul"))


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    for op in ("RNN", "GRU", "LSTM"):
        library.kernel(op)(Recurrent)
