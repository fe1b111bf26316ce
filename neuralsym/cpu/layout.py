"""Layouts: which buffers lie in blocks of channels, with how much halo, and where orders change.

Each kernel states the `forms` that it works with. Walking the steps in order, the form that needs
the fewest changes of order is taken; a `Reorder` step is put where a buffer comes in another order
than a kernel takes it, once per buffer and order. Then every blocked buffer gets the largest halo
that its readers ask for. Nothing here depends on the sizes of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from neuralsym.core.leaves import OWN
from neuralsym.core.op import Op
from neuralsym.core.schema import Formal, Schema
from neuralsym.cpu.library import ROWS, Form, Take
from neuralsym.cpu.program import Buffer, Layout, Role, Step, View, owner

if TYPE_CHECKING:
    from neuralsym.cpu.lower import Lowering

_ANY = Formal("X", "single", "T", frozenset())


class Reorder(Op):
    """The same values in another layout; made by the compiler alone."""

    domain = OWN
    schema = Schema(
        "Reorder", OWN, inputs=(_ANY,), outputs=(_ANY,), minimum_inputs=1, maximum_inputs=1
    )


def assign_layouts(
    steps: Sequence[Step], results: Iterable[Buffer], lowering: Lowering
) -> list[Step]:
    """The steps with changes of order put in; sets the layout and view of every buffer."""
    made = _Layouts(lowering, set(results))
    for step in steps:
        made.add(step)
    made.settle_halos()
    return made.steps


class _Layouts:
    """The state of the walk."""

    def __init__(self, lowering: Lowering, results: set[Buffer]) -> None:
        self.lowering = lowering
        self.results = results
        self.steps: list[Step] = []
        self.copies: dict[tuple[Buffer, int], Buffer] = {}
        self.halos: dict[Buffer, list[Take]] = {}

    def add(self, step: Step) -> None:
        assert step.kernel is not None
        form = self._choose(step, step.kernel.forms(step))
        after: list[Step] = []
        self._set_outputs(step, form, after)
        if form.joins and form.outputs[0].block:
            self._join(step)
        else:
            self._take_inputs(step, form)
        self.steps.append(step)
        self.steps += after

    def _choose(self, step: Step, forms: Sequence[Form]) -> Form:
        def cost(form: Form) -> int:
            changes = sum(
                _reordered(b) and t is not None and b is not None and b.layout.block != t.block
                for b, t in zip(step.inputs, form.inputs, strict=True)
            )
            return changes + sum(
                t.block > 0 and b in self.results
                for b, t in zip(step.outputs, form.outputs, strict=True)
            )

        return min(forms, key=cost)

    def _set_outputs(self, step: Step, form: Form, after: list[Step]) -> None:
        """Lay out the outputs; a result of the program is plain and gets a step of its own."""
        outputs = list(step.outputs)
        for i, (buffer, take) in enumerate(zip(step.outputs, form.outputs, strict=True)):
            if not take.block:
                continue
            if buffer in self.results:
                inner = Buffer(f"{buffer.name}.blocked", buffer.type)
                outputs[i] = inner
                after.append(self._reorder(inner, buffer))
                self.copies[buffer, take.block] = inner
                self._ask(inner, Take(take.block))
                buffer = inner
            buffer.layout = Layout(take.block)
            self._ask(buffer, take)
        step.outputs = tuple(outputs)

    def _take_inputs(self, step: Step, form: Form) -> None:
        """Give the step each input in the order that it takes."""
        inputs = list(step.inputs)
        for i, (buffer, take) in enumerate(zip(step.inputs, form.inputs, strict=True)):
            if buffer is None or take is None or not _reordered(buffer):
                continue
            inputs[i] = self._in_order(buffer, take)
        step.inputs = tuple(inputs)
        captures = [self._in_order(b, ROWS) if _reordered(b) else b for b in step.captures]
        step.captures = tuple(captures)

    def _in_order(self, buffer: Buffer, take: Take) -> Buffer:
        if buffer.layout.block != take.block:
            copy = self.copies.get((buffer, take.block))
            if copy is None:
                copy = Buffer(f"{buffer.name}.{_order(take.block)}", buffer.type)
                copy.layout = Layout(take.block)
                self.copies[buffer, take.block] = copy
                self.steps.append(self._reorder(buffer, copy))
                if buffer.layout.block:
                    self._ask(buffer, Take(buffer.layout.block))
            buffer = copy
        if take.block:
            self._ask(buffer, take)
        return buffer

    def _join(self, step: Step) -> None:
        """Make the inputs parts of the output; what cannot be written in place is copied there."""
        whole = step.outputs[0]
        block = whole.layout.block
        channel = 0
        inputs: list[Buffer | None] = []
        seen: set[Buffer] = set()
        for buffer in step.inputs:
            assert buffer is not None
            if self._can_move(buffer, block) and buffer not in seen:
                buffer.view = View(whole, channel)
                part = buffer
            else:
                part = Buffer(f"{whole.name}.part{len(inputs)}", buffer.type)
                part.layout, part.view = Layout(block), View(whole, channel)
                self._ask(part, Take(block))
                if buffer.layout.block:
                    self._ask(buffer, Take(block))
                self.steps.append(self._reorder(buffer, part))
            seen.add(buffer)
            inputs.append(part)
            shape = buffer.tensor.shape
            assert shape is not None and isinstance(shape[1], int)
            channel += shape[1]
        step.inputs = tuple(inputs)

    def _can_move(self, buffer: Buffer, block: int) -> bool:
        return (
            buffer.role is Role.LOCAL
            and buffer.view is None
            and buffer.layout.block == block
            and buffer not in self.results
            and buffer.known is None
        )

    def _reorder(self, source: Buffer, target: Buffer) -> Step:
        from neuralsym.cpu.lower import select

        step = Step(Reorder, {}, f"{target.name}.reorder", (source,), (target,))
        select(step, self.lowering)
        return step

    def _ask(self, buffer: Buffer, take: Take) -> None:
        self.halos.setdefault(buffer, []).append(take)

    def settle_halos(self) -> None:
        """The largest halo of all readers, one for all parts of a whole."""
        largest: dict[Buffer, tuple[tuple[int, int], ...]] = {}
        for buffer, takes in self.halos.items():
            whole = owner(buffer)
            rank = buffer.rank - 2
            halo = largest.get(whole, ((0, 0),) * rank)
            for take in takes:
                wanted = take.halo or ((0, 0),) * rank
                halo = tuple(
                    (max(a, c), max(b, d)) for (a, b), (c, d) in zip(halo, wanted, strict=True)
                )
            largest[whole] = halo
        for buffer in self.halos:
            halo = largest[owner(buffer)]
            if any(any(pair) for pair in halo):
                buffer.layout = replace(buffer.layout, halo=halo)


def _reordered(buffer: Buffer | None) -> bool:
    """Whether a change of order is a matter of the buffer: it is no constant and no object."""
    return (
        buffer is not None
        and buffer.role not in (Role.CONSTANT, Role.HOST)
        and buffer.known is None
    )


def _order(block: int) -> str:
    return f"blocks{block}" if block else "rows"
