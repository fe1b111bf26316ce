"""A recurrent layer over a whole sequence as one kernel of the kernel ABI.

    for each direction, step, phase of the gates, block of hidden units:
        for each tile of batch entries:
            sums = state[tile] * weights[phase][block]        in registers
            for each entry: gates, activations, new state     (templates/recurrent_cell.py)

The products of the input and its weights are made beforehand, for all steps at once. Batch entries
and directions are shared among workers; a worker carries its own from the first step to the last.
Where the state is quantised, by its range over the whole batch, directions alone are shared.
The descriptor is described in `recurrent_form`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.templates.recurrent_cell import CELL_PARAMETERS, emit_cell
from neuralsym.cpu.templates.recurrent_form import STATES, RecurrentText, RecurrentWord
from neuralsym.cpu.templates.recurrent_quantised import call_quantise, emit_quantise
from neuralsym.cpu.templates.tiles import dispatch

LATENCY = 8  # sums that must be under way at once to keep two FMA units of four cycles busy
HAS_FIRST_H, HAS_FIRST_C, HAS_LAST_H, HAS_LAST_C = 1, 2, 4, 8

BAD_LENGTH = 1
"""The status of a kernel that met a length outside the sequence; it keeps to the sequence."""

TILE_PARAMETERS = (
    ("state", "ptr"),
    ("weights", "ptr"),
    ("sums", "ptr"),
    ("stride", "i64"),
    ("count", "i64"),
)


def recurrent_text(text: RecurrentText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`."""
    module = Module()
    kernel = module.function(name)
    for count in sorted({len(phase) for phase in text.phases}):
        heights = text.heights(count)
        for height in heights:
            _emit_tile(module, text, count, height)
        # For each number of entries left, which of the heights comes next.
        slots = [max(i for i, h in enumerate(heights) if h <= max(n, 1)) for n in range(9)]
        numbers = ", ".join(f"i64 {slot}" for slot in slots)
        module.globals.append(f"@slot_{count} = internal constant [9 x i64] [{numbers}]")
    for phase in range(len(text.phases)):
        for variant in range(len(text.functions)):
            emit_cell(module, text, phase, variant, f"cell_{phase}_{variant}")
    if text.quantised:
        emit_quantise(module, text.width)
    walker = _Walker(kernel, text, {w: kernel.word(w) for w in RecurrentWord})
    walker.walk()
    kernel.do(f"ret i32 {walker.status()}")
    return str(module)


def _emit_tile(module: Module, text: RecurrentText, gates: int, height: int) -> None:
    """void @tile: `height` rows of the state times `gates` vectors of each k, into `sums`.

    A low tile needs several sums of each output, of every second or fourth k, to keep the machine
    busy. A high one makes the same sums in several passes: so the bits of a result do not depend on
    how the batch is divided, among tiles or among workers.
    """
    f = module.function(f"tile_{gates}_{height}", TILE_PARAMETERS, "void", True, "noinline")
    total = height * gates
    streams = at_once = _streams(gates)
    while at_once > 1 and at_once * total + gates + 1 >= text.registers:
        at_once //= 2
    rows = ["%state"]
    for _ in range(1, height):
        rows.append(f.at(rows[-1], "%stride"))

    def steps(index: str, sums: list[str], entries: Sequence[int]) -> list[str]:
        offset = f.mul(index, text.bytes)
        place = f.at("%weights", f.mul(index, gates * text.vector_bytes))
        for u in entries:
            first = (u % at_once) * total
            loaded = [
                f.load(text.kind, f.at(place, (u * gates + g) * text.vector_bytes), text.bytes)
                for g in range(gates)
            ]
            for row, base in enumerate(rows):
                scalar = f.load(text.element, f.at(f.at(base, offset), u * text.bytes), text.bytes)
                value = f.splat(scalar, text.element, text.width)
                for g, weight in enumerate(loaded):
                    at = first + row * gates + g
                    sums[at] = f.call("fmuladd", text.kind, value, weight, sums[at])
        return sums

    zeros = [(text.kind, "zeroinitializer")] * (total * at_once)
    whole = f.value("and i64 %count, -4")
    values: list[str] = []
    for low in range(0, streams, at_once):
        entries = [u for u in range(4) if low <= u % streams < low + at_once]
        with f.loop(whole, *zeros, step=4) as many:
            many.next(*steps(many.index, list(many.values), entries))
        made = many.values
        if low == 0:
            carried = [(text.kind, v) for v in made]
            with f.loop("%count", *carried, start=whole) as rest:
                rest.next(*steps(rest.index, list(rest.values), [0]))
            made = rest.values
        values += made
    for i in range(total):
        parts = values[i::total]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [f.value(f"fadd {text.kind} {a}, {b}") for a, b in pairs]
        f.store(text.kind, parts[0], f.at("%sums", i * text.vector_bytes), text.bytes)
    f.do("ret void")


def _streams(sums: int) -> int:
    """How many partial sums of each of so many sums keep the machine busy: a power of two."""
    return 1 << (max(1, min(4, LATENCY // sums)).bit_length() - 1)


@dataclass(frozen=True)
class _Direction:
    """Where the things of one direction are, and the rows that this worker carries."""

    index: str
    low: str
    high: str
    states: tuple[str, ...]
    first_h: str
    first_c: str
    last_h: str
    last_c: str
    input: str
    y: str
    peepholes: str
    bias: str
    scales: str
    backwards: str


class _Walker:
    def __init__(self, f: Function, text: RecurrentText, word: dict[RecurrentWord, str]) -> None:
        self.f, self.text, self.word = f, text, word
        self.blocks, self.units = word[RecurrentWord.BLOCKS], word[RecurrentWord.UNITS]
        self.row = f.mul(self.blocks, text.vector_bytes)
        widest = max(h * len(p) for p in text.phases for h in text.heights(len(p)))
        self.square = f.value(f"alloca [{widest} x {text.kind}], align 64")
        self.scale = f.value(f"alloca {text.element}, align 8") if text.quantised else self.square

    def walk(self) -> None:
        f, word = self.f, self.word
        batch = word[RecurrentWord.BATCH]
        low, high = self._share(batch, word[RecurrentWord.DIRECTIONS])
        with f.loop(word[RecurrentWord.DIRECTIONS]) as each:
            start = f.mul(each.index, batch)
            first = f.maximum(f.sub(low, start), 0)
            last = f.minimum(f.sub(high, start), batch)
            here = self._direction(each.index, first, last)
            self._begin(here)
            some = f.compare("slt", first, last)
            steps = f.select(some, "i64", word[RecurrentWord.STEPS], 0)
            with f.loop(steps) as step:
                self._step(here, step.index)
            self._finish(here)

    def _share(self, batch: str, directions: str) -> tuple[str, str]:
        f = self.f
        if not self.text.quantised:
            return f.share(f.mul(batch, directions))
        low, high = f.share(directions)
        return f.mul(low, batch), f.mul(high, batch)

    def status(self) -> str:
        """BAD_LENGTH if an entry is said to be longer than the sequence, or of negative length."""
        f, word = self.f, self.word
        if not self.text.lengths:
            return "0"
        with f.loop(word[RecurrentWord.BATCH], ("i32", "0")) as entry:
            given = f.load("i32", f.at(f.operand(RecurrentWord.LENGTHS), f.mul(entry.index, 4)), 4)
            length = f.value(f"sext i32 {given} to i64")
            fits = f.compare("ule", length, word[RecurrentWord.STEPS])
            entry.next(f.select(fits, "i32", entry.values[0], BAD_LENGTH))
        return entry.values[0]

    def _direction(self, index: str, low: str, high: str) -> _Direction:
        f, word = self.f, self.word
        plane = f.mul(word[RecurrentWord.BATCH], self.row)
        state = f.at(f.operand(RecurrentWord.STATE), f.mul(index, f.mul(plane, STATES)))
        outer = f.mul(index, word[RecurrentWord.STATE_DIRECTION])
        places = {
            name: f.at(f.operand(which), outer)
            for name, which in (
                ("first_h", RecurrentWord.FIRST_H),
                ("first_c", RecurrentWord.FIRST_C),
                ("last_h", RecurrentWord.LAST_H),
                ("last_c", RecurrentWord.LAST_C),
            )
        }
        backwards = f.compare("ne", f.add(word[RecurrentWord.REVERSE], index), 0)
        return _Direction(
            index,
            low,
            high,
            tuple(f.at(state, f.mul(plane, i)) for i in range(STATES)),
            input=f.at(
                f.operand(RecurrentWord.INPUT), f.mul(index, word[RecurrentWord.INPUT_DIRECTION])
            ),
            y=f.at(f.operand(RecurrentWord.Y), f.mul(index, word[RecurrentWord.Y_DIRECTION])),
            peepholes=f.at(f.operand(RecurrentWord.PEEPHOLES), f.mul(index, f.mul(self.row, 3))),
            bias=f.at(f.operand(RecurrentWord.BIAS), f.mul(index, self.row)),
            scales=f.at(
                f.operand(RecurrentWord.SCALES), f.mul(index, f.mul(self.row, self.text.gates))
            ),
            backwards=backwards,
            **places,
        )

    # -- first and last states -------------------------------------------------------------
    def _has(self, bit: int) -> str:
        return self.f.compare(
            "ne", self.f.value(f"and i64 {self.word[RecurrentWord.HAS]}, {bit}"), 0
        )

    def _begin(self, here: _Direction) -> None:
        """The initial states, zero where none are given and beyond the last unit."""
        pairs = [(here.first_h, here.states[0], HAS_FIRST_H)]
        if self.text.cell == "LSTM":
            pairs.append((here.first_c, here.states[2], HAS_FIRST_C))
        f, text = self.f, self.text
        for source, target, bit in pairs:
            left = f.select(self._has(bit), "i64", self.units, 0)
            with f.loop(here.high, start=here.low) as row, f.loop(self.blocks) as block:
                outer = f.mul(row.index, self.word[RecurrentWord.STATE_BATCH])
                column = f.mul(block.index, text.vector_bytes)
                mask = f.lane_mask(f.sub(left, f.mul(block.index, text.width)), text.width)
                given = f.masked_load(
                    text.kind, f.at(f.at(source, outer), column), mask, text.bytes
                )
                place = f.at(f.at(target, f.mul(row.index, self.row)), column)
                f.store(text.kind, given, place, text.bytes)

    def _finish(self, here: _Direction) -> None:
        """The last states, where they are asked for."""
        f, text = self.f, self.text
        odd = f.compare("ne", f.value(f"and i64 {self.word[RecurrentWord.STEPS]}, 1"), 0)
        last = f.select(odd, "ptr", here.states[1], here.states[0])
        pairs = [(last, here.last_h, HAS_LAST_H)]
        if text.cell == "LSTM":
            pairs.append((here.states[2], here.last_c, HAS_LAST_C))
        for source, target, bit in pairs:
            high = f.select(self._has(bit), "i64", here.high, 0)
            with f.loop(high, start=here.low) as row, f.loop(self.blocks) as block:
                column = f.mul(block.index, text.vector_bytes)
                mask = f.lane_mask(f.sub(self.units, f.mul(block.index, text.width)), text.width)
                place = f.at(f.at(source, f.mul(row.index, self.row)), column)
                value = f.load(text.kind, place, text.bytes)
                outer = f.mul(row.index, self.word[RecurrentWord.STATE_BATCH])
                goal = f.at(f.at(target, outer), column)
                f.masked_store(text.kind, value, goal, mask, text.bytes)

    # -- a step ----------------------------------------------------------------------------
    def _step(self, here: _Direction, step: str) -> None:
        f, text = self.f, self.text
        odd = f.compare("ne", f.value(f"and i64 {step}, 1"), 0)
        before = f.select(odd, "ptr", here.states[1], here.states[0])
        after = f.select(odd, "ptr", here.states[0], here.states[1])
        done = 0
        if text.quantised:
            rows = (self.row, here.low, here.high, self.units)
            scale = call_quantise(f, before, here.states[4], *rows)
            f.store(text.element, scale, self.scale, text.bytes)
        for phase, gates in enumerate(text.phases):
            source = here.states[4] if phase or text.quantised else before
            block_bytes = f.mul(self.units, len(gates) * text.vector_bytes)
            gate = f.mul(self.row, self.units)
            earlier = f.mul(self.word[RecurrentWord.DIRECTIONS], done)
            earlier = f.add(earlier, f.mul(here.index, len(gates)))
            weights = f.at(f.operand(RecurrentWord.WEIGHTS), f.mul(gate, earlier))
            with f.loop(self.blocks) as block:
                at = f.at(weights, f.mul(block.index, block_bytes))
                with f.loop(here.high, start=here.low) as tile:
                    left = f.minimum(f.sub(here.high, tile.index), 8)
                    table = f"getelementptr i64, ptr @slot_{len(gates)}, i64 {left}"
                    slot = f.load("i64", f.value(table), 8)
                    # The heights are powers of two.
                    tile.step = f.value(f"shl i64 1, {slot}")
                    self._tile(source, at, tile.index, slot, len(gates))
                    with f.loop(tile.step) as inside:
                        row = f.add(tile.index, inside.index)
                        size = len(gates) * text.vector_bytes
                        sums = f.at(self.square, f.mul(inside.index, size))
                        self._cell(here, step, phase, (sums, before, after), row, block.index)
            done += len(gates)

    def _tile(self, source: str, weights: str, row: str, slot: str, gates: int) -> None:
        f = self.f
        values = (f.at(source, f.mul(row, self.row)), weights, self.square, self.row, self.units)
        pairs = zip(TILE_PARAMETERS, values, strict=True)
        arguments = ", ".join(f"{kind} {value}" for (_, kind), value in pairs)
        heights = self.text.heights(gates)
        dispatch(
            f,
            slot,
            len(heights),
            lambda i: f.do(f"call void @tile_{gates}_{heights[i]}({arguments})"),
        )

    def _cell(
        self,
        here: _Direction,
        step: str,
        phase: int,
        places: tuple[str, str, str],
        row: str,
        block: str,
    ) -> None:
        f, text, word = self.f, self.text, self.word
        sums, before, after = places
        length, running = word[RecurrentWord.STEPS], "true"
        if text.lengths:
            given = f.load("i32", f.at(f.operand(RecurrentWord.LENGTHS), f.mul(row, 4)), 4)
            length = f.minimum(f.value(f"sext i32 {given} to i64"), length)
            running = f.compare("slt", step, length)
        position = f.select(here.backwards, "i64", f.sub(f.sub(length, 1), step), step)
        if text.lengths:
            position = f.select(running, "i64", position, step)
        column = f.mul(block, text.vector_bytes)
        inner = f.add(f.mul(row, self.row), column)
        # The input has all gates of a block side by side.
        source = f.at(here.input, f.mul(position, word[RecurrentWord.INPUT_TIME]))
        source = f.at(source, f.mul(row, word[RecurrentWord.INPUT_BATCH]))
        y = f.at(here.y, f.mul(position, word[RecurrentWord.Y_TIME]))
        y = f.at(y, f.mul(row, word[RecurrentWord.Y_BATCH]))
        values = (
            sums,
            f.at(source, f.mul(column, text.gates)),
            f.at(before, inner),
            f.at(after, inner),
            f.at(here.states[2], inner),
            f.at(here.states[3], inner),
            f.at(here.states[4], inner),
            f.at(y, column),
            f.at(here.peepholes, f.mul(column, 3)),
            f.at(here.bias, column),
            f.at(here.scales, f.mul(column, text.gates)),
            self.scale,
            f.sub(self.units, f.mul(block, text.width)),
            running,
        )
        pairs = zip(CELL_PARAMETERS, values, strict=True)
        arguments = ", ".join(f"{kind} {value}" for (_, kind), value in pairs)
        variants = len(text.functions)
        dispatch(
            f,
            here.index,
            variants,
            lambda i: f.do(f"call void @cell_{phase}_{i}({arguments})"),
        )
