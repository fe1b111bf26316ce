"""What one step does to one block of hidden units: gates, activations, the new state.

One function for each phase and each set of activations; it takes the sums of a tile for one batch
entry. All the arithmetic that ONNX states for RNN, GRU and LSTM stands here.
"""

from __future__ import annotations

from dataclasses import dataclass

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.scalar_ir import emit_expr
from neuralsym.cpu.templates.recurrent_form import RecurrentText
from neuralsym.cpu.vector_lanes import Lanes

CELL_PARAMETERS = (
    ("sums", "ptr"),
    ("input", "ptr"),
    ("before", "ptr"),
    ("after", "ptr"),
    ("cell", "ptr"),
    ("update", "ptr"),
    ("reset", "ptr"),
    ("y", "ptr"),
    ("peepholes", "ptr"),
    ("bias", "ptr"),
    ("scales", "ptr"),
    ("scale", "ptr"),
    ("columns", "i64"),
    ("running", "i1"),
)
"""Where the block's vectors are: the sums of the phase's gates, the projected input of all gates,
the state before and after the step, the cell state, the update gate and the reset state; what the
sums are multiplied by, of each column and of all, where they are of whole numbers; how many units
are left from this block on, and whether the batch entry's sequence has not ended yet."""


def emit_cell(module: Module, text: RecurrentText, phase: int, variant: int, name: str) -> None:
    """Add the function `name` for a phase and a direction's activations."""
    f = module.function(name, CELL_PARAMETERS, "void", True, "noinline")
    cell = _Cell(f, text, Lanes(f, text.element, text.width), variant)
    if text.cell == "RNN":
        cell.plain()
    elif text.cell == "LSTM":
        cell.lstm()
    elif text.linear:
        cell.gru()
    elif phase == 0:
        cell.gru_gates()
    else:
        cell.gru_state()
    f.do("ret void")


@dataclass(frozen=True)
class _Cell:
    f: Function
    text: RecurrentText
    v: Lanes
    variant: int

    # -- the three cells -------------------------------------------------------------------
    def plain(self) -> None:
        """h' = f(x W + h R + b)."""
        self._end(self._function(0, self.v.add(self._sum(0), self._input(0))))

    def lstm(self) -> None:
        """c' = f c + i g;  h' = o h(c')."""
        v = self.v
        old = self._load("%cell")
        enter, leave, forget, new = (v.add(self._scaled(i), self._input(i)) for i in range(4))
        if self.text.peepholes:
            enter = v.fma(self._load("%peepholes", 0), old, enter)
            forget = v.fma(self._load("%peepholes", 2), old, forget)
        enter = self._function(0, enter)
        forget = v.sub(1.0, enter) if self.text.coupled else self._function(0, forget)
        state = v.fma(enter, self._function(1, new), v.mul(forget, old))
        if self.text.peepholes:
            leave = v.fma(self._load("%peepholes", 1), state, leave)
        leave = self._function(0, leave)
        self._store("%cell", self._while_running(state, old))
        self._end(v.mul(leave, self._function(2, state)))

    def gru(self) -> None:
        """z, r, and h~ = g(x W + r (h R + b)), linear before reset."""
        v = self.v
        update = self._function(0, v.add(self._sum(0), self._input(0)))
        reset = self._function(0, v.add(self._sum(1), self._input(1)))
        inner = self._sum(2)
        if self.text.hidden_bias:
            inner = v.add(inner, self._load("%bias"))
        self._mix(update, self._function(1, v.fma(reset, inner, self._input(2))))

    def gru_gates(self) -> None:
        """The update gate and the state times the reset gate, for the second phase."""
        v = self.v
        update = self._function(0, v.add(self._sum(0), self._input(0)))
        reset = self._function(0, v.add(self._sum(1), self._input(1)))
        self._store("%update", update)
        self._store("%reset", v.mul(reset, self._load("%before")))

    def gru_state(self) -> None:
        """h~ = g(x W + (r h) R + b)."""
        made = self._function(1, self.v.add(self._sum(0), self._input(2)))
        self._mix(self._load("%update"), made)

    def _mix(self, update: str, made: str) -> None:
        """h' = (1 - z) h~ + z h."""
        v = self.v
        kept = v.mul(update, self._load("%before"))
        self._end(v.fma(v.sub(1.0, update), made, kept))

    # -- values ----------------------------------------------------------------------------
    def _function(self, which: int, value: str) -> str:
        """An activation of the direction."""
        expr = self.text.functions[self.variant][which]
        name = "float64" if self.text.element == "double" else "float32"
        return emit_expr(self.f, expr, [value], name, self.text.width)

    def _sum(self, gate: int) -> str:
        return self._load("%sums", gate)

    def _scaled(self, gate: int) -> str:
        """A sum of an LSTM's gate, of whole numbers the one that they stand for."""
        if not self.text.quantised:
            return self._sum(gate)
        scale = self.f.load(self.text.element, "%scale", self.text.bytes)
        wide = self.f.splat(scale, self.text.element, self.text.width)
        return self.v.mul(self._sum(gate), self.v.mul(wide, self._load("%scales", gate)))

    def _input(self, gate: int) -> str:
        return self._load("%input", gate)

    def _load(self, base: str, vector: int = 0) -> str:
        place = self.f.at(base, vector * self.text.vector_bytes)
        return self.f.load(self.text.kind, place, self.text.bytes)

    def _store(self, base: str, value: str) -> None:
        self.f.store(self.text.kind, value, base, self.text.bytes)

    def _while_running(self, value: str, otherwise: str) -> str:
        """The value, or the other one where the sequence has ended."""
        if not self.text.lengths:
            return value
        return self.f.select("%running", self.text.kind, value, otherwise)

    def _end(self, state: str) -> None:
        """The new state, and Y, which is zero behind the end of a sequence."""
        f, text = self.f, self.text
        before = self._load("%before") if text.lengths else ""
        self._store("%after", self._while_running(state, before))
        shown = self._while_running(state, "zeroinitializer")

        def whole() -> list[str]:
            self._store("%y", shown)
            return []

        def part() -> list[str]:
            mask = f.lane_mask("%columns", text.width)
            f.masked_store(text.kind, shown, "%y", mask, text.bytes)
            return []

        f.choose(f.compare("sge", "%columns", text.width), [], whole, part)
