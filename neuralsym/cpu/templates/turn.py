"""Copies that turn a matrix: one axis is dense in the source, another one in the target.

Squares of elements go through registers: rows are read, turned by shuffles, and written as rows.
Where the dense axis of one side is 2 to 4 elements long and lies among the other's, as colours do
in a picture, vectors are woven together or apart instead. What is left to templates/strided.py
are copies whose elements lie apart on both sides.

Descriptor: address of the target, address of the source, 1 where the workers share the blocks of
the last axis and 0 where they share the first axis; for each of `OUTER` axes its size and its byte
strides in target and source; then the axis that is dense in the source: size, stride in the target;
then the one that is dense in the target: size, stride in the source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.program import Word, row_strides
from neuralsym.cpu.templates.strided import Axis

OUTER = 4
LANE = 16
"""Bytes within which the cheap shuffles work."""
MOST = 16
"""Elements of a side: as many rows as half of the registers hold."""

Way = Literal["square", "edge", "any", "split", "merge"]


@dataclass(frozen=True)
class TurnText:
    """What the text depends on.

    way: squares of which none is cut; those that are cut; either, as the sizes of the run have it;
    `count` lines taken out of one, or put into one.
    """

    way: Way
    itemsize: int
    vector_bytes: int
    count: int = 0

    @property
    def side(self) -> int:
        """Elements of a square's side, or of a vector that is woven."""
        return min(MOST, self.vector_bytes // self.itemsize)


@dataclass(frozen=True)
class TurnCopy:
    """One run of the kernel: its text, the axes around, the two dense ones, what is shared."""

    text: TurnText
    outer: tuple[Axis, ...]
    source: Axis
    target: Axis
    share_last: bool


@dataclass(frozen=True)
class _Joined:
    """Axes that follow one another on both sides; `end`: the last one's place in the source."""

    axis: Axis
    named: bool
    end: int


def turn_copy(
    shape: Sequence[int],
    order: Sequence[int],
    named: Sequence[bool],
    itemsize: int,
    vector_bytes: int,
    workers: int = 1,
) -> TurnCopy | None:
    """How to permute the axes of a row-major array by turning; None if that is not what it needs.

    shape: of the source; its axis `order[k]` becomes axis k. named: the axes of the source whose
    sizes another run may change; the text that is chosen does not depend on them.
    """
    if itemsize not in (1, 2, 4, 8) or 0 in shape:
        return None
    joined = _joined(shape, order, named, itemsize)
    if len(joined) < 2 or len(joined) - 2 > OUTER:
        return None
    last = joined.pop()
    dense = max(joined, key=lambda j: j.end)
    if dense.end < last.end:
        return None
    joined.remove(dense)
    outer = [j.axis for j in joined]
    source, target = dense.axis, last.axis
    text = TurnText(_way(dense, last, itemsize, vector_bytes), itemsize, vector_bytes)
    if text.way in ("split", "merge"):
        text = replace(text, count=source.size if text.way == "split" else target.size)
    # The axis whose parts the workers take comes first, unless the last one has more of them.
    outer.sort(key=lambda a: -a.size)
    largest = outer[0].size if outer else 1
    share_last = workers > 1 and largest < 4 * workers
    if not share_last:
        outer[1:] = sorted(outer[1:], key=lambda a: -a.source)
    return TurnCopy(text, tuple(outer), source, target, share_last)


def _joined(
    shape: Sequence[int], order: Sequence[int], named: Sequence[bool], itemsize: int
) -> list[_Joined]:
    """The axes in the target's order, without those that always have size 1."""
    source = row_strides(shape, itemsize)
    target = row_strides([shape[axis] for axis in order], itemsize)
    kept = [axis for axis in range(len(shape)) if shape[axis] != 1 or named[axis]]
    made: list[_Joined] = []
    for axis, stride in zip(order, target, strict=True):
        if axis not in kept:
            continue
        place, size, flag = kept.index(axis), shape[axis], named[axis]
        if made and made[-1].end == place - 1:
            before = made.pop()
            size, flag = size * before.axis.size, flag or before.named
        made.append(_Joined(Axis(size, stride, source[axis]), flag, place))
    return made


def _way(source: _Joined, target: _Joined, itemsize: int, vector_bytes: int) -> Way:
    """How to turn; the answer is the same for all sizes of axes that are named."""
    across, along = source.axis, target.axis
    if not source.named and across.size <= 4 and along.source == across.size * itemsize:
        return "split"
    if not target.named and along.size <= 4 and across.target == along.size * itemsize:
        return "merge"
    if source.named or target.named:
        return "any"
    side = TurnText("any", itemsize, vector_bytes).side
    return "edge" if min(across.size, along.size) < side else "square"


def turn_words(target: Word, source: Word, copy: TurnCopy) -> list[Word]:
    """The descriptor of a copy."""
    words: list[Word] = [target, source, int(copy.share_last)]
    for axis in (*copy.outer, *(Axis(1, 0, 0),) * (OUTER - len(copy.outer))):
        words += [axis.size, axis.target, axis.source]
    return [
        *words,
        copy.source.size,
        copy.source.target,
        copy.target.size,
        copy.target.source,
    ]


def turn_text(text: TurnText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`."""
    module = Module()
    f = module.function(name)
    _Writer(f, text).write()
    return str(module)


class _Writer:
    def __init__(self, f: Function, text: TurnText) -> None:
        self.f, self.text, self.side = f, text, text.side
        self.element = f"i{8 * text.itemsize}"
        self.kind = f"<{self.side} x {self.element}>"
        place = 3 + 3 * OUTER
        self.rows, self.target_stride, self.columns, self.source_stride = (
            f.word(place + k) for k in range(4)
        )

    def write(self) -> None:
        f = self.f
        share_last = f.compare("ne", f.word(2), 0)
        # Blocks along the longer axis of weaving, or along the target's rows.
        self.length = self.rows if self.text.way == "merge" else self.columns
        blocks = f.sdiv(f.add(self.length, self.side - 1), self.side)
        size = f.word(3)
        low, high = f.share(size)
        self.first = f.select(share_last, "i64", 0, low), f.select(share_last, "i64", size, high)
        low, high = f.share(blocks)
        self.blocks = f.select(share_last, "i64", low, 0), f.select(share_last, "i64", high, blocks)
        self.outer = [[f.word(3 + 3 * n + k) for k in range(3)] for n in range(OUTER)]
        self._axis(0, f.operand(0), f.operand(1))
        f.do("ret i32 0")

    def _axis(self, number: int, target: str, source: str) -> None:
        f = self.f
        if number == OUTER:
            self._matrix(target, source)
            return
        size, t, s = self.outer[number]
        low, high = self.first if number == 0 else ("0", size)
        with f.loop(high, start=low) as at:
            here = f.at(target, f.mul(at.index, t))
            self._axis(number + 1, here, f.at(source, f.mul(at.index, s)))

    def _matrix(self, target: str, source: str) -> None:
        f, way = self.f, self.text.way
        if way == "split":
            self._woven(target, source, self._split)
        elif way == "merge":
            self._woven(target, source, self._merge)
        elif way == "any":
            whole = [f.compare("sge", size, self.side) for size in (self.rows, self.columns)]
            f.choose(
                f.value(f"and i1 {whole[0]}, {whole[1]}"),
                [],
                lambda: self._squares(target, source, True),
                lambda: self._squares(target, source, False),
            )
        else:
            self._squares(target, source, way == "square")

    # -- squares ---------------------------------------------------------------------------
    def _squares(self, target: str, source: str, whole: bool) -> list[str]:
        f, side, item = self.f, self.side, self.text.itemsize
        with f.loop(self.blocks[1], start=self.blocks[0]) as block:
            column = f.mul(block.index, side)
            if whole:
                column = f.minimum(column, f.sub(self.columns, side))
            there = f.at(source, f.mul(column, self.source_stride))
            here = f.at(target, f.mul(column, item))
            with f.loop(self.rows, step=side) as at:
                row = f.minimum(at.index, f.sub(self.rows, side)) if whole else at.index
                since = f.at(there, f.mul(row, item))
                to = f.at(here, f.mul(row, self.target_stride))
                if whole:
                    self._square(to, since)
                else:
                    self._edge(to, since, f.sub(self.rows, row), f.sub(self.columns, column))
        return []

    def _square(self, target: str, source: str) -> None:
        f, align = self.f, self.text.itemsize
        lines = [f.load(self.kind, p, align) for p in self._places(source, self.source_stride)]
        made = turned(f, self.side, self.text.itemsize, lines)
        places = self._places(target, self.target_stride)
        for value, place in zip(made, places, strict=True):
            f.store(self.kind, value, place, align)

    def _edge(self, target: str, source: str, rows: str, columns: str) -> None:
        """A square of which only `rows` of the target's rows and `columns` of them are there."""
        f, side, align = self.f, self.side, self.text.itemsize
        wide, high = f.lane_mask(rows, side), f.lane_mask(columns, side)
        last = f.sub(f.minimum(columns, side), 1)
        lines = []
        for i in range(side):
            # Lines that are not there are read once more from the last one, and not written.
            place = f.at(source, f.mul(f.minimum(i, last), self.source_stride))
            lines.append(f.masked_load(self.kind, place, wide, align))
        for i, value in enumerate(turned(f, self.side, self.text.itemsize, lines)):
            with f.when(f.compare("sgt", rows, i)):
                place = f.at(target, f.mul(i, self.target_stride))
                f.masked_store(self.kind, value, place, high, align)

    def _places(self, base: str, stride: str) -> list[str]:
        places = [base]
        for _ in range(self.side - 1):
            places.append(self.f.at(places[-1], stride))
        return places

    # -- weaving ---------------------------------------------------------------------------
    def _woven(self, target: str, source: str, step: Callable[[str, str, str], None]) -> None:
        f, side, item, count = self.f, self.side, self.text.itemsize, self.text.count

        def vectors() -> list[str]:
            with f.loop(self.blocks[1], start=self.blocks[0]) as block:
                step(target, source, f.minimum(f.mul(block.index, side), f.sub(self.length, side)))
            return []

        def elements() -> list[str]:
            """A line shorter than a vector; it is one block."""
            length = f.minimum(f.mul(self.blocks[1], side), self.length)
            with f.loop(length, start=f.mul(self.blocks[0], side)) as at:
                for k in range(count):
                    woven = f.mul(f.add(f.mul(at.index, count), k), item)
                    stride = self.target_stride if self.text.way == "split" else self.source_stride
                    straight = f.add(f.mul(k, stride), f.mul(at.index, item))
                    places = (straight, woven) if self.text.way == "split" else (woven, straight)
                    value = f.load(self.element, f.at(source, places[1]), item)
                    f.store(self.element, value, f.at(target, places[0]), item)
            return []

        f.choose(f.compare("sge", self.length, side), [], vectors, elements)

    def _split(self, target: str, source: str, first: str) -> None:
        f, item, count, side = self.f, self.text.itemsize, self.text.count, self.side
        wide = f"<{count * side} x {self.element}>"
        value = f.load(wide, f.at(source, f.mul(first, count * item)), item)
        for k in range(count):
            lanes = ", ".join(f"i32 {i * count + k}" for i in range(side))
            line = f.value(f"shufflevector {wide} {value}, {wide} poison, <{side} x i32> <{lanes}>")
            place = f.at(target, f.mul(k, self.target_stride))
            f.store(self.kind, line, f.at(place, f.mul(first, item)), item)

    def _merge(self, target: str, source: str, first: str) -> None:
        f, item, count, side = self.f, self.text.itemsize, self.text.count, self.side
        offset = f.mul(first, item)
        lines = []
        for k in range(count):
            place = f.at(source, f.mul(k, self.source_stride))
            lines.append(f.load(self.kind, f.at(place, offset), item))
        double, wide = f"<{2 * side} x {self.element}>", f"<{count * side} x {self.element}>"
        lines += [lines[-1]] * (count % 2)
        every = ", ".join(f"i32 {i}" for i in range(2 * side))
        pairs = [
            f.value(f"shufflevector {self.kind} {a}, {self.kind} {b}, <{2 * side} x i32> <{every}>")
            for a, b in zip(lines[::2], lines[1::2], strict=True)
        ]
        order = ", ".join(f"i32 {k * side + i}" for i in range(side) for k in range(count))
        value = f.value(
            f"shufflevector {double} {pairs[0]}, {double} {pairs[-1]}, "
            f"<{count * side} x i32> <{order}>"
        )
        f.store(wide, value, f.at(target, f.mul(first, count * item)), item)


# -- squares in registers ------------------------------------------------------------------------
def turned(f: Function, side: int, itemsize: int, lines: list[str]) -> list[str]:
    """The columns of a square of integers that is given by its rows.

    Within 16 bytes first, by interleaving rows i and i + half of a group as often as it takes,
    then the same with 16 bytes as the elements.
    """
    kind = f"<{side} x i{8 * itemsize}>"
    lane = min(LANE // itemsize, side)
    lanes = side // lane
    groups = [lines[g * lane : (g + 1) * lane] for g in range(lanes)]
    groups = [_shuffled(f, kind, side, group, lane, 1) for group in groups]
    made: list[str] = [""] * side
    for j in range(lane):
        column = _shuffled(f, kind, side, [group[j] for group in groups], lanes, lane)
        for k, value in enumerate(column):
            made[k * lane + j] = value
    return made


def _shuffled(
    f: Function, kind: str, side: int, lines: list[str], count: int, unit: int
) -> list[str]:
    """Turn squares of `count` units of `unit` elements that lie side by side in `lines`."""
    half, turns = count // 2, count.bit_length() - 1
    for _ in range(turns):
        made = []
        for a, b in zip(lines[:half], lines[half:], strict=True):
            for start in (0, half):
                lanes = ", ".join(f"i32 {i}" for i in _interleaving(side, count, unit, start))
                made.append(
                    f.value(f"shufflevector {kind} {a}, {kind} {b}, <{side} x i32> <{lanes}>")
                )
        lines = made
    return lines


def _interleaving(side: int, count: int, unit: int, start: int) -> list[int]:
    """Half of the units of each group of two vectors, from `start` on, one of each in turns."""
    order = []
    for group in range(0, side, count * unit):
        for k in range(start, start + count // 2):
            for vector in (0, side):
                order += [vector + group + k * unit + e for e in range(unit)]
    return order
