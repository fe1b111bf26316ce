"""Attention in blocks of keys, as IR: the scores of all keys never stand in memory at once.

    y = softmax(scale q k' + mask) v

For `QUERIES` queries of a head and `KEYS` keys at a time: scores, their maximum so far m, weights
w = exp(scores - m), the sum of weights and the sum of w v so far; what was summed under an earlier
maximum is multiplied by exp(m before - m) (Rabe and Staats 2021, Dao et al. 2022). All in float32.
A row that a mask closes to every key is zero.

Keys are packed first: panels [key size][keys of two vectors], so that scores are products like any
other. A block of queries is one worker's, whatever their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.templates.lanes import falling_exp, horizontal
from neuralsym.cpu.templates.turn import turned
from neuralsym.cpu.vector_lanes import Lanes

QUERIES = 48
KEYS = 128
ITEM = 4
UNROLL = 4

Mask = Literal["", "bool", "float32"]


class Word(IntEnum):
    """Places in the descriptor; strides are those of entries, heads and rows, in bytes."""

    Y = 0
    Q = 1
    PANELS = 2
    V = 3
    MASK = 4
    SCRATCH = 5
    BATCH = 6
    HEADS = 7
    GROUP = 8
    LENGTH = 9
    KEYS = 10
    SCALE = 11
    Y_STRIDES = 12
    Q_STRIDES = 15
    V_STRIDES = 18
    MASK_STRIDES = 21


@dataclass(frozen=True)
class AttentionText:
    """What the text depends on.

    width: lanes of a vector; rows: those of a tile; size, value_size: of a head's key and value;
    mask: its type, "" for none; scales: the machine multiplies by powers of two; closed_is_zero:
    a query that is closed to every key gives zeros, else NaN as a softmax of minus infinities does.
    """

    width: int
    rows: int
    size: int
    value_size: int
    causal: bool = False
    mask: Mask = ""
    scales: bool = False
    closed_is_zero: bool = True

    @property
    def panel(self) -> int:
        """Keys of a panel, and columns of a tile."""
        return 2 * self.width

    @property
    def columns(self) -> int:
        """Columns of the sums in scratch: whole tiles."""
        return -(-self.value_size // self.panel) * self.panel

    @property
    def parts(self) -> tuple[int, ...]:
        """Floats of scratch: queries, weights, sums of values, maxima, sums of weights, factors."""
        rows = (self.size, KEYS, self.columns, 1, 1, 1)
        return tuple(-(-QUERIES * n // 16) * 16 for n in rows)

    @property
    def scratch_bytes(self) -> int:
        """Memory of one worker."""
        return ITEM * sum(self.parts)

    def panel_bytes(self, keys: int) -> int:
        """Memory of the packed keys of one head."""
        return ITEM * -(-keys // self.panel) * self.panel * self.size


def attention_text(text: AttentionText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`."""
    module = Module()
    _Writer(module.function(name), text).write()
    return str(module)


def pack_keys_text(text: AttentionText, name: str = "kernel") -> str:
    """The kernel that packs keys: panels, keys, batch, heads, how many, and their strides (3)."""
    module = Module()
    f = module.function(name)
    width, size, panel = text.width, text.size, text.panel
    kind = f"<{width} x i32>"
    batch, heads, keys = (f.word(i) for i in range(2, 5))
    strides = [f.word(i) for i in range(5, 8)]
    panels = f.sdiv(f.add(keys, panel - 1), panel)
    low, high = f.share(f.mul(f.mul(batch, heads), panels))
    mask = f.lane_mask(size, width) if size < width else None
    last = f.sub(keys, 1)
    with f.loop(high, start=low) as unit:
        head, number = f.sdiv(unit.index, panels), f.srem(unit.index, panels)
        entry, head = f.sdiv(head, heads), f.srem(head, heads)
        source = f.at(f.operand(1), f.mul(entry, strides[0]))
        source = f.at(source, f.mul(head, strides[1]))
        target = f.at(f.operand(0), f.mul(unit.index, size * panel * ITEM))
        for half in range(0, panel, width):
            places = []
            for i in range(width):
                # Behind the last key it is packed again; no weight goes to those.
                key = f.minimum(f.add(f.mul(number, panel), half + i), last)
                places.append(f.at(source, f.mul(key, strides[2])))
            starts = [*range(0, size - width + 1, width)] or [0]
            if size > width and size % width:
                starts.append(size - width)
            for start in starts:
                lines = [f.at(p, start * ITEM) for p in places]
                if mask is None:
                    lines = [f.load(kind, p, ITEM) for p in lines]
                else:
                    lines = [f.masked_load(kind, p, mask, ITEM) for p in lines]
                for j, value in enumerate(turned(f, width, ITEM, lines)[:size]):
                    f.store(kind, value, f.at(target, ((start + j) * panel + half) * ITEM), ITEM)
    f.do("ret i32 0")
    return str(module)


class _Writer:
    def __init__(self, f: Function, text: AttentionText) -> None:
        self.f, self.text = f, text
        self.v = Lanes(f, "float", text.width)
        self.kind = self.v.kind
        self.least, self.zero = self.v.number(-math.inf), self.v.number(0.0)
        worker = f.value("sext i32 %worker to i64")
        place = f.at(f.operand(Word.SCRATCH), f.mul(worker, text.scratch_bytes))
        starts = [ITEM * sum(text.parts[:i]) for i in range(len(text.parts))]
        self.queries, self.weights, self.sums, self.most, self.total, self.factors = (
            f.at(place, start) for start in starts
        )
        self.length, self.keys = f.word(Word.LENGTH), f.word(Word.KEYS)

    def write(self) -> None:
        f, text = self.f, self.text
        heads, group = f.word(Word.HEADS), f.word(Word.GROUP)
        blocks = f.sdiv(f.add(self.length, QUERIES - 1), QUERIES)
        panels = f.sdiv(f.add(self.keys, text.panel - 1), text.panel)
        shared = f.sdiv(heads, group)
        low, high = f.share(f.mul(f.mul(f.word(Word.BATCH), heads), blocks))
        with f.loop(high, start=low) as unit:
            block, head = f.srem(unit.index, blocks), f.sdiv(unit.index, blocks)
            entry, head = f.sdiv(head, heads), f.srem(head, heads)
            kept = f.sdiv(head, group)
            self.first = f.mul(block, QUERIES)
            count = f.minimum(f.sub(self.length, self.first), QUERIES)
            here = (entry, head, self.first)
            self._start(self._place(Word.Q, Word.Q_STRIDES, here), count)
            end = self.keys
            if text.causal:
                end = f.minimum(end, f.add(self.first, count))
            packed = f.mul(f.add(f.mul(entry, shared), kept), panels)
            with f.loop(end, step=KEYS) as at:
                self.key = at.index
                part = f.minimum(f.sub(end, at.index), KEYS)
                number = f.add(packed, f.sdiv(at.index, text.panel))
                panel = f.at(f.operand(Word.PANELS), f.mul(number, text.panel * text.size * ITEM))
                value = self._place(Word.V, Word.V_STRIDES, (entry, kept, at.index))
                mask = ""
                if text.mask:
                    mask = self._place(Word.MASK, Word.MASK_STRIDES, here)
                self._tiles(count, part, panel, value, mask)
            self._finish(self._place(Word.Y, Word.Y_STRIDES, here), count)
        f.do("ret i32 0")

    def _place(self, base: int, strides: int, index: Sequence[str]) -> str:
        f = self.f
        place = f.operand(base)
        for k, i in enumerate(index):
            place = f.at(place, f.mul(i, f.word(strides + k)))
        return place

    def _row(self, base: str, row: str | int, floats: int) -> str:
        return self.f.at(base, self.f.mul(row, floats * ITEM))

    # -- a block of queries ----------------------------------------------------------------
    def _start(self, source: str, count: str) -> None:
        """Queries times the scale; nothing summed yet."""
        f, v, text = self.f, self.v, self.text
        scale = f.splat(f.load("float", f.at("%desc", 8 * Word.SCALE), 8), "float", text.width)
        stride = f.word(Word.Q_STRIDES + 2)
        with f.loop(count) as row:
            place = f.at(source, f.mul(row.index, stride))
            target = self._row(self.queries, row.index, text.size)

            def scaled(at: str, mask: str | None, place: str = place, target: str = target) -> None:
                value = self._read(f.at(place, f.mul(at, ITEM)), mask)
                self._write(v.mul(value, scale), f.at(target, f.mul(at, ITEM)), mask)

            self._vectors(text.size, scaled)
            sums = self._row(self.sums, row.index, text.columns)
            with f.loop(text.columns, step=text.width) as at:
                f.store(self.kind, self.zero, f.at(sums, f.mul(at.index, ITEM)), ITEM)
            f.store("float", "0xFFF0000000000000", self._row(self.most, row.index, 1))
            f.store("float", "0.0", self._row(self.total, row.index, 1))

    def _finish(self, target: str, count: str) -> None:
        f, v, text = self.f, self.v, self.text
        single = Lanes(f, "float", 1)
        stride = f.word(Word.Y_STRIDES + 2)
        with f.loop(count) as row:
            total = f.load("float", self._row(self.total, row.index, 1))
            inverse = single.div(1.0, total)
            if text.mask and text.closed_is_zero:
                inverse = single.where(single.compare("oeq", total, 0.0), 0.0, inverse)
            factor = f.splat(inverse, "float", text.width)
            sums = self._row(self.sums, row.index, text.columns)
            place = f.at(target, f.mul(row.index, stride))

            def divided(
                at: str, mask: str | None, sums: str = sums, place: str = place, by: str = factor
            ) -> None:
                value = self._read(f.at(sums, f.mul(at, ITEM)), None)
                self._write(v.mul(value, by), f.at(place, f.mul(at, ITEM)), mask)

            self._vectors(text.value_size, divided)

    def _vectors(self, size: int, body: Callable[[str, str | None], None]) -> None:
        f, width = self.f, self.text.width
        whole = size // width * width
        if whole:
            with f.loop(whole, step=width) as at:
                body(at.index, None)
        if size > whole:
            body(str(whole), f.lane_mask(size - whole, width))

    def _read(self, place: str, mask: str | None) -> str:
        if mask is None:
            return self.f.load(self.kind, place, ITEM)
        return self.f.masked_load(self.kind, place, mask, ITEM)

    def _write(self, value: str, place: str, mask: str | None) -> None:
        if mask is None:
            self.f.store(self.kind, value, place, ITEM)
        else:
            self.f.masked_store(self.kind, value, place, mask, ITEM)

    # -- a block of keys -------------------------------------------------------------------
    def _tiles(self, count: str, keys: str, panel: str, value: str, mask: str) -> None:
        """All queries, in tiles of as many as fit, then of fewer."""
        f = self.f
        done: str | int = 0
        for rows in (self.text.rows, 4, 1):
            end = f.sub(count, f.srem(f.sub(count, done), rows)) if rows > 1 else count
            with f.loop(end, start=done, step=rows) as at:
                self._scores(at.index, rows, keys, panel)
                with f.loop(f.add(at.index, rows), start=at.index) as row:
                    self._weigh(row.index, keys, mask)
                self._add(at.index, rows, keys, value)
            done = end

    def _scores(self, first: str, rows: int, keys: str, panel: str) -> None:
        f, text = self.f, self.text
        queries = self._row(self.queries, first, text.size)
        weights = self._row(self.weights, first, KEYS)
        with f.loop(keys, step=text.panel) as at:
            here = f.at(panel, f.mul(at.index, text.size * ITEM))

            def line(k: str, here: str = here) -> list[str]:
                place = f.at(here, f.mul(k, text.panel * ITEM))
                return [self._read(f.at(place, i * text.width * ITEM), None) for i in range(2)]

            start = [self.zero] * (2 * rows)
            made = self._product(queries, text.size, rows, text.size, line, start)
            target = f.at(weights, f.mul(at.index, ITEM))
            for r in range(rows):
                for i in range(2):
                    place = f.at(target, (r * KEYS + i * text.width) * ITEM)
                    f.store(self.kind, made[2 * r + i], place, ITEM)

    def _add(self, first: str, rows: int, keys: str, value: str) -> None:
        """Sums of values, times what the maximum has grown by, plus weights times values."""
        f, v, text = self.f, self.v, self.text
        weights = self._row(self.weights, first, KEYS)
        sums = self._row(self.sums, first, text.columns)
        stride = f.word(Word.V_STRIDES + 2)
        factors = []
        for r in range(rows):
            place = f.at(self._row(self.factors, first, 1), r * ITEM)
            factors.append(f.splat(f.load("float", place), "float", text.width))
        with f.loop(text.columns, step=text.panel) as at:
            offset = f.mul(at.index, ITEM)
            masks: list[str | None] = [None, None]
            if text.value_size % text.panel:
                rest = f.sub(str(text.value_size), at.index)
                masks = [f.lane_mask(f.sub(rest, i * text.width), text.width) for i in range(2)]

            def line(k: str, offset: str = offset, masks: list[str | None] = masks) -> list[str]:
                place = f.at(f.at(value, f.mul(k, stride)), offset)
                return [self._read(f.at(place, i * text.width * ITEM), masks[i]) for i in range(2)]

            target = f.at(sums, offset)
            places = [
                f.at(target, (r * text.columns + i * text.width) * ITEM)
                for r in range(rows)
                for i in range(2)
            ]
            start = [
                v.mul(self._read(place, None), factors[k // 2]) for k, place in enumerate(places)
            ]
            made = self._product(weights, KEYS, rows, keys, line, start)
            for place, result in zip(places, made, strict=True):
                f.store(self.kind, result, place, ITEM)

    def _product(
        self,
        left: str,
        stride: int,
        rows: int,
        count: str | int,
        line: Callable[[str], list[str]],
        start: Sequence[str],
    ) -> tuple[str, ...]:
        """start + left[rows][count] times the two vectors of each of `count` lines."""
        f, v, width = self.f, self.v, self.text.width

        def step(k: str, values: Sequence[str]) -> list[str]:
            right = line(k)
            made = []
            for r in range(rows):
                place = f.at(f.at(left, f.mul(k, ITEM)), r * stride * ITEM)
                factor = f.splat(f.load("float", place), "float", width)
                made += [v.fma(factor, right[i], values[2 * r + i]) for i in range(2)]
            return made

        if isinstance(count, int):
            whole, some = str(count // UNROLL * UNROLL), bool(count % UNROLL)
        else:
            whole, some = f.value(f"and i64 {count}, {-UNROLL}"), True
        with f.loop(whole, *((self.kind, s) for s in start), step=UNROLL) as at:
            values: Sequence[str] = at.values
            for i in range(UNROLL):
                values = step(f.add(at.index, i), values)
            at.next(*values)
        if not some:
            return at.values
        with f.loop(count, *((self.kind, s) for s in at.values), start=whole) as at:
            at.next(*step(at.index, at.values))
        return at.values

    # -- weights ---------------------------------------------------------------------------
    def _weigh(self, row: str, keys: str, mask: str) -> None:
        """Scores of a row become weights; maximum, sum and factor of the row follow."""
        f, v, text = self.f, self.v, self.text
        weights = self._row(self.weights, row, KEYS)
        limit = keys
        if text.causal:
            query = f.add(f.add(self.first, row), 1)
            limit = f.minimum(limit, f.sub(query, self.key))
        end = f.value(f"and i64 {f.add(keys, text.panel - 1)}, {-text.panel}")
        beside = ""
        if text.mask:
            beside = f.at(mask, f.mul(row, f.word(Word.MASK_STRIDES + 2)))
            beside = f.at(beside, f.mul(self.key, self._mask_bytes))
        with f.loop(end, *[(self.kind, self.least)] * 2, step=text.panel) as at:
            most = []
            for i, before in enumerate(at.values):
                key = f.add(at.index, i * text.width)
                place = f.at(weights, f.mul(key, ITEM))
                lanes = f.lane_mask(f.sub(limit, key), text.width)
                value = self._read(place, None)
                if text.mask:
                    value = self._masked(value, f.at(beside, f.mul(key, self._mask_bytes)), lanes)
                value = v.where(lanes, value, self.least)
                f.store(self.kind, value, place, ITEM)
                most.append(v.where(v.compare("ogt", value, before), value, before))
            at.next(*most)
        first, second = at.values
        highest = v.where(v.compare("ogt", first, second), first, second)
        single = Lanes(f, "float", 1)

        def larger(a: str, b: str, width: int) -> str:
            lanes = Lanes(f, "float", width)
            return lanes.where(lanes.compare("ogt", a, b), a, b)

        before = f.load("float", self._row(self.most, row, 1))
        now = larger(horizontal(f, highest, "float", text.width, larger), before, 1)
        f.store("float", now, self._row(self.most, row, 1))
        # Of a row that has no open key yet every weight is exp(-inf - 0).
        around = single.where(single.compare("oeq", now, -math.inf), 0.0, now)
        level = f.splat(around, "float", text.width)
        grown = falling_exp(v, v.sub(f.splat(before, "float", text.width), level), text.scales)
        factor = f.value(f"extractelement {self.kind} {grown}, i32 0")
        f.store("float", factor, self._row(self.factors, row, 1))
        with f.loop(end, *[(self.kind, self.zero)] * 2, step=text.panel) as at:
            sums = []
            for i, sum_ in enumerate(at.values):
                place = f.at(weights, f.mul(f.add(at.index, i * text.width), ITEM))
                power = falling_exp(v, v.sub(self._read(place, None), level), text.scales)
                f.store(self.kind, power, place, ITEM)
                sums.append(v.add(sum_, power))
            at.next(*sums)
        both = v.add(*at.values)
        added = horizontal(
            f, both, "float", text.width, lambda a, b, n: Lanes(f, "float", n).add(a, b)
        )
        place = self._row(self.total, row, 1)
        f.store("float", single.fma(f.load("float", place), factor, added), place)

    @property
    def _mask_bytes(self) -> int:
        return 1 if self.text.mask == "bool" else ITEM

    def _masked(self, value: str, place: str, lanes: str) -> str:
        f, width = self.f, self.text.width
        if self.text.mask == "float32":
            return self.v.add(value, f.masked_load(self.kind, place, lanes, ITEM))
        kind = f"<{width} x i8>"
        given = f.masked_load(kind, place, lanes, 1)
        is_open = f.value(f"icmp ne {kind} {given}, zeroinitializer")
        return self.v.where(is_open, value, self.least)
