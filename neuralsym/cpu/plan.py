"""From a segment and the sizes of a run to bytes and rows: what the table interpreter walks.

A plan holds, for one segment and one set of sizes, the offset of every buffer in the segment's
block, and the descriptor words of all rows with the places where an instance adds the addresses of
its blocks. It belongs to a cell; instances share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.agreement import check_sizes
from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.host import HostKernel
from neuralsym.cpu.place import Piece, place
from neuralsym.cpu.program import (
    Buffer,
    Operand,
    Program,
    Role,
    Row,
    Segment,
    Sizes,
    Step,
    owner,
)
from neuralsym.cpu.rows import ROW_WORDS, SERIAL, aligned_words
from neuralsym.cpu.turns import find_turns
from neuralsym.errors import ExecutionError

FOREVER = 2**31

MOST_BYTES = 2**47
"""No buffer is larger: what 64-bit processors can address."""


class Owner(Protocol):
    """The cell that plans are made for: constants and code."""

    def constant_address(self, buffer: Buffer) -> int: ...
    def expect(self, code: Code) -> None: ...
    def code_addresses(self, codes: Sequence[Code]) -> dict[Code, int]: ...
    def clear_halo(self, buffer: Buffer, sizes: Sizes) -> Row: ...


@dataclass(eq=False)
class Plan:
    """One segment laid out for one set of sizes.

    `words` and `rows` become an instance's own by adding block addresses at `relocations` (for
    each segment, positions in `words`) and the address of its words to column 1 of `rows`.
    """

    sizes: Sizes
    places: dict[Buffer, int]
    """Offsets in this segment's block, of the buffers that own memory there."""
    nbytes: int
    words: NDArray[np.int64]
    rows: NDArray[np.int64]
    relocations: dict[int, NDArray[np.int64]]
    row_steps: list[Step]
    tables: NDArray[np.int64]
    """The arrays among the words, which the words refer to by address."""
    table_uses: NDArray[np.int64]
    """The positions of those words."""
    constant_uses: list[tuple[int, Buffer]]
    """The positions of words that lie inside constants, with the buffers that hold these."""
    codes: list[Code | int]
    """The code of each row, or the address of a host callback."""
    has_host: bool = False


def plan_segment(
    program: Program, index: int, sizes: Sizes, before: Sequence[Plan], cell: Owner
) -> Plan:
    """The plan of segment `index`; `before` are those of the segments that ran already.

    Raises ShapeMismatch when the sizes contradict each other.
    """
    made = _Planner(program, index, sizes, before, cell)
    return made.plan()


@dataclass(eq=False)
class _Slot:
    """Memory that one buffer, or several that follow each other in place, lie in."""

    size: int
    first: int
    last: int
    fixed: bool
    """Inputs and outputs: nobody may write over them."""
    offset: int = 0


@dataclass(frozen=True)
class _Turn:
    """Rows, the step of each, and how often they come, for one entry of the batch each time."""

    rows: list[Row]
    steps: list[Step]
    count: int

    @staticmethod
    def of(made: Iterable[tuple[Row, Step]], count: int = 1) -> _Turn:
        pairs = list(made)
        return _Turn([row for row, _ in pairs], [step for _, step in pairs], count)


@dataclass(frozen=True)
class _Piece:
    """The words of a turn, what each grows by from one entry to the next, and its rows."""

    words: NDArray[np.int64]
    strides: NDArray[np.int64]
    table: NDArray[np.int64]
    relocations: dict[int, list[int]]
    constant_uses: list[tuple[int, Buffer]]


class _Planner:
    def __init__(
        self, program: Program, index: int, sizes: Sizes, before: Sequence[Plan], cell: Owner
    ) -> None:
        self.program, self.index, self.sizes, self.before = program, index, sizes, before
        self.cell = cell
        self.segment: Segment = program.segments[index]
        self.slots: dict[Buffer, _Slot] = {}
        self.known: dict[Buffer, int] = {}
        self.addresses: dict[Buffer, tuple[int, int]] = {}
        self.turns = find_turns(program, index, sizes)
        self.single = self.turns.single(self.segment.steps) if self.turns else set()

    def plan(self) -> Plan:
        for step in self.segment.steps:
            if step.relies_on_sizes and step not in self.segment.late:
                check_sizes(step, self.sizes, self.segment.defines)
        self._live_ranges()
        self._share_in_place()
        scratch = self._scratch()
        slots = list(dict.fromkeys([*self.slots.values(), *scratch.values()]))
        for buffer, slot in self.slots.items():
            if slot.size > MOST_BYTES:
                raise ExecutionError(
                    f"{buffer.name!r} ({buffer.type}) would take {slot.size / 2**40:,.0f} TiB of "
                    f"memory at the sizes of this run"
                )
        offsets, nbytes = place([Piece(s.size, s.first, s.last) for s in slots])
        for slot, offset in zip(slots, offsets, strict=True):
            slot.offset = offset
        self.slots.update(scratch)
        return self._table(self._rows(), nbytes)

    # -- memory ----------------------------------------------------------------------------
    def _live_ranges(self) -> None:
        """From the first step that writes a buffer to the last that reads it."""
        if self.index == 0:
            for buffer in self.program.inputs.values():
                if buffer.role is Role.INPUT:
                    self._new_slot(buffer, -1, fixed=True).last = FOREVER
        else:
            for buffer in self.program.segments[self.index - 1].defines:
                if buffer.role is not Role.HOST:
                    self._new_slot(buffer, -1, fixed=False)
        undefined = set(self.segment.defines)
        for time, step in enumerate(self.segment.steps):
            for buffer in step.operands:
                slot = self.slots.get(owner(buffer))
                if slot is not None:
                    slot.last = max(slot.last, time)
            for buffer in step.outputs:
                whole = owner(buffer)
                if whole.role in (Role.HOST, Role.CONSTANT) or buffer in undefined:
                    continue
                slot = self.slots.get(whole)
                if slot is None and self._elsewhere(whole) is None:
                    slot = self._new_slot(whole, time, fixed=False)
                if slot is not None:
                    slot.last = max(slot.last, time)
        for buffer in self._kept():
            slot = self.slots.get(owner(buffer))
            if slot is not None:
                slot.last, slot.fixed = FOREVER, True
        self._span_regions()

    def _span_regions(self) -> None:
        """What holds the whole batch lives as long as a region that reads or writes it."""
        for low, high in self.turns.regions if self.turns else ():
            for step in self.segment.steps[low : high + 1]:
                for buffer in (*step.operands, *step.outputs):
                    slot = self.slots.get(owner(buffer))
                    if slot is not None and owner(buffer) not in self.single:
                        slot.first, slot.last = min(slot.first, low), max(slot.last, high)

    def _new_slot(self, buffer: Buffer, first: int, *, fixed: bool) -> _Slot:
        slot = _Slot(self._nbytes(buffer), first, first, fixed)
        self.slots[buffer] = slot
        return slot

    def _sizes_of(self, buffer: Buffer) -> Sizes:
        """Those of one entry for what a region alone reads and writes."""
        return self.turns.sizes if self.turns and owner(buffer) in self.single else self.sizes

    def _nbytes(self, buffer: Buffer) -> int:
        return self._sizes_of(buffer).nbytes(buffer)

    def _kept(self) -> Iterable[Buffer]:
        """What must stay behind the segment's end: results, and what later segments read."""
        yield from self.program.outputs.values()
        yield from self.program.updates.values()
        for segment in self.program.segments[self.index + 1 :]:
            for step in segment.steps:
                yield from step.operands

    def _share_in_place(self) -> None:
        """Let an output take the memory of an input that dies there, where the kernel allows it."""
        for time, step in enumerate(self.segment.steps):
            for i, o in step.in_place:
                source, target = step.inputs[i], step.outputs[o]
                if source is None or not self._may_share(step, time, source, target):
                    continue
                kept, gone = self.slots[owner(source)], self.slots[target]
                kept.last, kept.fixed = gone.last, gone.fixed
                self.slots[target] = kept
                break

    def _may_share(self, step: Step, time: int, source: Buffer, target: Buffer) -> bool:
        whole = owner(source)
        old, new = self.slots.get(whole), self.slots.get(target)
        if old is None or new is None or old is new or old.fixed or target.view is not None:
            return False
        if old.last != time or new.first != time or whole.role is not Role.LOCAL:
            return False
        size = self._nbytes
        if size(source) != old.size or new.size > old.size or source.layout != target.layout:
            return False
        for other in step.operands:
            if other is not source and self.slots.get(owner(other)) is old:
                return False
        return True

    def _scratch(self) -> dict[Buffer, _Slot]:
        made: dict[Buffer, _Slot] = {}
        for time, step in enumerate(self.segment.steps):
            sizes = self.turns.of_step(time, self.sizes) if self.turns else self.sizes
            for scratch in step.scratch.values():
                made[scratch.buffer] = _Slot(scratch.size(sizes), time, time, False)
        return made

    # -- rows ------------------------------------------------------------------------------
    def _rows(self) -> list[_Turn]:
        made: list[_Turn] = []
        cleared: set[Buffer] = set()
        steps, at = self.segment.steps, 0
        for low, high in self.turns.regions if self.turns else ():
            region = steps[low : high + 1]
            made.append(_Turn.of(self._rows_of(steps[at:low], cleared)))
            made.append(_Turn.of(self._whole_halos(region, cleared)))
            assert self.turns is not None
            rows = self._rows_of(region, cleared, self.turns.sizes)
            made.append(_Turn.of(rows, self.turns.count))
            at = high + 1
        made.append(_Turn.of(self._rows_of(steps[at:], cleared)))
        return made

    def _rows_of(
        self, steps: Sequence[Step], cleared: set[Buffer], sizes: Sizes | None = None
    ) -> Iterator[tuple[Row, Step]]:
        """The rows of some steps, each halo zeroed before it is first written to."""
        for step in steps:
            for buffer in step.outputs:
                whole = owner(buffer)
                if whole.layout.halo and whole not in cleared:
                    cleared.add(whole)
                    yield self.cell.clear_halo(whole, self._sizes_of(whole)), step
            assert step.kernel is not None
            for row in step.kernel.rows(step, sizes or self.sizes):
                if isinstance(row.code, Code):
                    self.cell.expect(row.code)
                yield row, step

    def _whole_halos(
        self, steps: Sequence[Step], cleared: set[Buffer]
    ) -> Iterator[tuple[Row, Step]]:
        """Before a region: the halos of what holds the whole batch."""
        for step in steps:
            for whole in dict.fromkeys(owner(b) for b in step.outputs):
                if whole.layout.halo and whole not in self.single and whole not in cleared:
                    cleared.add(whole)
                    yield self.cell.clear_halo(whole, self.sizes), step

    def _table(self, turns: list[_Turn], nbytes: int) -> Plan:
        """Descriptors end to end, with what is to be added where."""
        codes = [row.code for t in turns for row in t.rows if isinstance(row.code, Code)]
        code_addresses = self.cell.code_addresses(codes)
        tables = _Tables()
        words: list[NDArray[np.int64]] = []
        relocations: dict[int, list[NDArray[np.int64]]] = {}
        constant_uses: list[tuple[int, Buffer]] = []
        table: list[NDArray[np.int64]] = []
        at = 0
        for turn in turns:
            piece = self._piece(turn, code_addresses, tables)
            for entry in range(turn.count):
                words.append(piece.words + entry * piece.strides)
                table.append(piece.table + np.array([0, 8 * at, 0, 0]))
                for block, where in piece.relocations.items():
                    relocations.setdefault(block, []).append(np.array(where, np.int64) + at)
                constant_uses += [(position + at, b) for position, b in piece.constant_uses]
                at += len(piece.words)
        kept = tables.array()
        made = np.concatenate([*words, np.zeros(1, np.int64)])
        places = {block: np.concatenate(parts) for block, parts in relocations.items()}
        uses = places.pop(TABLE, np.zeros(0, np.int64))
        made[uses] += kept.ctypes.data
        return Plan(
            self.sizes,
            {b: s.offset for b, s in self.slots.items()},
            nbytes,
            made,
            np.concatenate(table),
            places,
            [step for t in turns for step in t.steps * t.count],
            kept,
            uses,
            constant_uses,
            [row.code for t in turns for row in t.rows * t.count],
            has_host=any(isinstance(s.kernel, HostKernel) for s in self.segment.steps),
        )

    def _piece(self, turn: _Turn, code_addresses: Mapping[Code, int], tables: _Tables) -> _Piece:
        """The words of some rows, for the first entry where they take turns."""
        words: list[int] = []
        strides: list[int] = []
        relocations: dict[int, list[int]] = {}
        constant_uses: list[tuple[int, Buffer]] = []
        table = np.zeros((len(turn.rows), ROW_WORDS), np.int64)
        for number, row in enumerate(turn.rows):
            code = row.code
            address = code_addresses[code] if isinstance(code, Code) else code
            table[number, :3] = address, 8 * len(words), SERIAL if row.serial else 0
            for word in row.words:
                strides.append(0)
                if isinstance(word, Operand):
                    block, value = self._address(word.buffer, tables)
                    if block == ABSOLUTE:
                        constant_uses.append((len(words), owner(word.buffer)))
                    else:
                        relocations.setdefault(block, []).append(len(words))
                    strides[-1] = self._stride(word.buffer) if turn.count > 1 else 0
                    words.append(value + word.offset)
                elif isinstance(word, np.ndarray):
                    relocations.setdefault(TABLE, []).append(len(words))
                    words.append(tables.add(word))
                else:
                    words.append(int(word))
        grown = np.array(strides, np.int64)
        return _Piece(np.array(words, np.int64), grown, table, relocations, constant_uses)

    def _stride(self, buffer: Buffer) -> int:
        """The bytes from an entry of the batch to the next, in what holds all of them."""
        if self.turns is None or buffer.is_settled or owner(buffer) not in self.turns.shared:
            return 0
        return self.sizes.strides(buffer)[0]

    def _address(self, buffer: Buffer, tables: _Tables) -> tuple[int, int]:
        """(segment of the block, offset), or (ABSOLUTE, address), or (TABLE, offset)."""
        found = self.addresses.get(buffer)
        if found is None:
            whole = owner(buffer)
            if whole.known is not None and self._slot_of(whole) is None:
                found = TABLE, tables.add(self.sizes.value(whole))
            elif whole.role is Role.CONSTANT:
                found = ABSOLUTE, self.cell.constant_address(whole)
            else:
                home = self._slot_of(whole)
                assert home is not None, f"{buffer.name} has no memory"
                found = home
            if buffer is not whole:
                found = found[0], found[1] + self.sizes.offset(buffer)
            self.addresses[buffer] = found
        return found

    def _slot_of(self, whole: Buffer) -> tuple[int, int] | None:
        slot = self.slots.get(whole)
        return (self.index, slot.offset) if slot is not None else self._elsewhere(whole)

    def _elsewhere(self, whole: Buffer) -> tuple[int, int] | None:
        for number, plan in enumerate(self.before):
            if whole in plan.places:
                return number, plan.places[whole]
        return None


ABSOLUTE, TABLE = -1, -2


class _Tables:
    """Arrays that descriptors refer to, one behind the other."""

    def __init__(self) -> None:
        self.parts: list[NDArray[np.int64]] = []
        self.seen: dict[int, tuple[Any, int]] = {}
        self.length = 0

    def add(self, array: NDArray[Any]) -> int:
        """The byte offset at which the array will lie; the same array is kept once."""
        known = self.seen.get(id(array))
        if known is not None:
            return known[1]
        data = np.ascontiguousarray(array).view(np.uint8).reshape(-1) if array.size else None
        size = 0 if data is None else data.size
        padded = np.zeros(-(-max(size, 1) // 64) * 64, np.uint8)
        if data is not None:
            padded[:size] = data
        at = self.length
        self.parts.append(padded.view(np.int64))
        self.length += padded.size
        self.seen[id(array)] = (array, at)
        return at

    def array(self) -> NDArray[np.int64]:
        made = aligned_words(max(self.length // 8, 1))
        if self.parts:
            made[: self.length // 8] = np.concatenate(self.parts)
        return made
