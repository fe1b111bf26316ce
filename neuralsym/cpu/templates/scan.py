"""Walks along one axis as IR: the place of an extreme value, running sums and products.

    [outer][axis][inner]: for each outer and each vector of inner, for each place along the axis

A tensor whose inner part is narrower than a vector goes element by element, but where nothing is
behind the axis an extreme value is looked for in vectors along it. Running sums of floats
are carried in double and rounded at each place; comparisons take the first NaN (or the last) for
the extreme value, as numpy does.

Descriptor: output, input, sizes of outer, axis and inner, then for running sums the flags exclusive
and reverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.scalar_ir import IR_TYPE, Value, convert
from neuralsym.cpu.templates.lanes import COMPUTED, load, store
from neuralsym.cpu.vector_lanes import constant, repeated, vector
from neuralsym.dtypes import NumberType

STREAMS = 2
How = Literal["arg_max", "arg_min", "sum", "prod"]


@dataclass(frozen=True)
class ScanText:
    """What the text depends on; `last` is whether the last of equal extremes counts,
    `converts_halves` whether the machine converts half precision."""

    how: How
    kind: NumberType
    vector_bytes: int
    last: bool = False
    converts_halves: bool = True


def scan_text(text: ScanText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`."""
    module = Module(converts_halves=text.converts_halves)
    _Writer(module.function(name), text).write()
    return str(module)


class _Writer:
    def __init__(self, f: Function, text: ScanText) -> None:
        self.f, self.text = f, text
        self.computed = COMPUTED[text.kind]
        self.running = NumberType.FLOAT64 if self.computed.is_float else self.computed
        self.lanes = max(text.vector_bytes // max(self.computed.itemsize, 4), 1)
        self.outer, self.size, self.inner = (f.word(2 + i) for i in range(3))
        self.finds = text.how in ("arg_max", "arg_min")
        if not self.finds:
            self.exclusive = f.compare("ne", f.word(5), 0)
            self.reverse = f.compare("ne", f.word(6), 0)

    def write(self) -> None:
        f = self.f
        narrow = f.compare("slt", self.inner, self.lanes)

        def across() -> list[str]:
            f.choose(narrow, [], lambda: self._walk(1), lambda: self._walk(self.lanes))
            return []

        if self.finds and self.lanes > 1:
            f.choose(f.compare("eq", self.inner, 1), [], self._rows, across)
        else:
            across()
        f.do("ret i32 0")

    def _rows(self) -> list[str]:
        """The extreme value of each row of [outer][axis]."""
        f, item = self.f, self.text.kind.itemsize
        low, high = f.share(self.outer)
        with f.loop(high, start=low) as row:
            source = f.at(f.operand(1), f.mul(f.mul(row.index, self.size), item))
            found = Value(self._row(source), NumberType.INT32)
            store(f, found, NumberType.INT64, f.at(f.operand(0), f.mul(row.index, 8)), 1)
        return []

    def _row(self, source: str) -> str:
        """The place of the extreme value: the best of each lane, then the best lane."""
        f, lanes, kind = self.f, self.lanes, self.text.kind
        values, places = vector(IR_TYPE[self.computed], lanes), vector("i32", lanes)
        flags = vector("i1", lanes)
        # The first element stands in all lanes, with its place: it is there and never lost.
        first = f.splat(load(f, kind, source, 1).name, IR_TYPE[self.computed], lanes)
        order = "<" + ", ".join(f"i32 {i}" for i in range(lanes)) + ">"

        def step(index: str, best: str, place: str, mask: str | None) -> tuple[str, str]:
            value = load(f, kind, f.at(source, f.mul(index, kind.itemsize)), lanes, mask).name
            better = self._better(value, best, lanes)
            if mask is not None:
                better = f.value(f"and {flags} {better}, {mask}")
            short = f.splat(f.value(f"trunc i64 {index} to i32"), "i32", lanes)
            here = f.value(f"add {places} {short}, {order}")
            return (
                f.value(f"select {flags} {better}, {values} {value}, {values} {best}"),
                f.value(f"select {flags} {better}, {places} {here}, {places} {place}"),
            )

        many = STREAMS * lanes
        whole = f.value(f"and i64 {self.size}, {-many}")
        start = [(values, first), (places, "zeroinitializer")]
        with f.loop(whole, *start * STREAMS, step=many) as at:
            made: list[str] = []
            for i in range(STREAMS):
                best, place = at.values[2 * i : 2 * i + 2]
                made += step(f.add(at.index, i * lanes), best, place, None)
            at.next(*made)
        pairs = [(at.values[2 * i], at.values[2 * i + 1]) for i in range(STREAMS)]
        carried = [(values, pairs[0][0]), (places, pairs[0][1])]
        with f.loop(self.size, *carried, start=whole, step=lanes) as at:
            mask = f.lane_mask(f.sub(self.size, at.index), lanes)
            at.next(*step(at.index, at.values[0], at.values[1], mask))
        pairs[0] = (at.values[0], at.values[1])
        width = lanes
        while len(pairs) > 1:
            pairs = [self._best(a, b, width) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
        (pair,) = pairs
        while width > 1:
            width //= 2
            low, high = zip(
                *(
                    self._halves(name, kind, width)
                    for name, kind in ((pair[0], IR_TYPE[self.computed]), (pair[1], "i32"))
                ),
                strict=True,
            )
            pair = self._best((low[0], low[1]), (high[0], high[1]), width)
        return pair[1]

    def _halves(self, name: str, element: str, half: int) -> tuple[str, str]:
        """The first and the second half of a vector."""
        f, kind = self.f, vector(element, 2 * half)
        if half == 1:
            low, high = (f.value(f"extractelement {kind} {name}, i32 {i}") for i in range(2))
            return low, high
        parts = []
        for start in (0, half):
            lanes = ", ".join(f"i32 {start + i}" for i in range(half))
            parts.append(
                f.value(f"shufflevector {kind} {name}, {kind} poison, <{half} x i32> <{lanes}>")
            )
        return parts[0], parts[1]

    def _best(self, a: tuple[str, str], b: tuple[str, str], width: int) -> tuple[str, str]:
        """The better of two values of each lane with its place: of equal ones as `last` says."""
        f, kind = self.f, self.computed
        values, places = vector(IR_TYPE[kind], width), vector("i32", width)
        flags = vector("i1", width)
        later = f.value(f"icmp sgt {places} {b[1]}, {a[1]}")
        # Seen from the one that stands earlier, as when walking along the axis.
        value = [
            f.value(f"select {flags} {later}, {values} {x}, {values} {y}")
            for x, y in ((a[0], b[0]), (b[0], a[0]))
        ]
        place = [
            f.value(f"select {flags} {later}, {places} {x}, {places} {y}")
            for x, y in ((a[1], b[1]), (b[1], a[1]))
        ]
        better = self._better(value[1], value[0], width)
        return (
            f.value(f"select {flags} {better}, {values} {value[1]}, {values} {value[0]}"),
            f.value(f"select {flags} {better}, {places} {place[1]}, {places} {place[0]}"),
        )

    def _walk(self, width: int) -> list[str]:
        """All lines of the tensor, `width` of them side by side."""
        f, item = self.f, self.text.kind.itemsize
        blocks = f.sdiv(f.add(self.inner, width - 1), width)
        low, high = f.share(f.mul(self.outer, blocks))
        with f.loop(high, start=low) as unit:
            plane, block = f.sdiv(unit.index, blocks), f.srem(unit.index, blocks)
            column = f.mul(block, width)
            mask = f.lane_mask(f.sub(self.inner, column), width) if width > 1 else None
            line = f.add(f.mul(f.mul(plane, self.size), self.inner), column)
            source = f.at(f.operand(1), f.mul(line, item))
            if self.finds:
                place = f.add(f.mul(plane, self.inner), column)
                self._find(source, f.at(f.operand(0), f.mul(place, 8)), width, mask)
            else:
                self._run(source, f.at(f.operand(0), f.mul(line, item)), width, mask)
        return []

    def _find(self, source: str, target: str, width: int, mask: str | None) -> None:
        f, kind = self.f, self.text.kind
        values, places = vector(IR_TYPE[self.computed], width), vector("i32", width)
        first = load(f, kind, source, width, mask).name
        step = f.mul(self.inner, kind.itemsize)
        carried = [(values, first), (places, "0" if width == 1 else "zeroinitializer")]
        with f.loop(self.size, *carried, start=1) as at:
            value = load(f, kind, f.at(source, f.mul(at.index, step)), width, mask).name
            better = self._better(value, at.values[0], width)
            index = f.value(f"trunc i64 {at.index} to i32")
            here = f.splat(index, "i32", width)
            lanes = vector("i1", width)
            at.next(
                f.value(f"select {lanes} {better}, {values} {value}, {values} {at.values[0]}"),
                f.value(f"select {lanes} {better}, {places} {here}, {places} {at.values[1]}"),
            )
        found = Value(at.values[1], NumberType.INT32)
        store(f, found, NumberType.INT64, target, width, mask)

    def _better(self, value: str, best: str, width: int) -> str:
        """Whether a later value replaces the best so far."""
        f, kind, text = self.f, self.computed, self.text
        type_, lanes = vector(IR_TYPE[kind], width), vector("i1", width)
        word = ("g" if text.how == "arg_max" else "l") + ("e" if text.last else "t")
        if not kind.is_float:
            sign = "u" if kind.startswith("uint") else "s"
            return f.value(f"icmp {sign}{word} {type_} {value}, {best}")
        if text.last:
            ordered = f.value(f"fcmp o{word} {type_} {value}, {best}")
            unknown = f.value(f"fcmp uno {type_} {value}, {value}")
            return f.value(f"or {lanes} {ordered}, {unknown}")
        better = f.value(f"fcmp u{word} {type_} {value}, {best}")
        known = f.value(f"fcmp ord {type_} {best}, {best}")
        return f.value(f"and {lanes} {better}, {known}")

    def _run(self, source: str, target: str, width: int, mask: str | None) -> None:
        f, kind = self.f, self.text.kind
        type_ = vector(IR_TYPE[self.running], width)
        unit = 1 if self.text.how == "prod" else 0
        if self.running.is_float:
            first = constant(unit, IR_TYPE[self.running], width)
        else:
            first = repeated(str(unit), IR_TYPE[self.running], width)
        step = f.mul(self.inner, kind.itemsize)
        with f.loop(self.size, (type_, first)) as at:
            back = f.sub(f.sub(self.size, 1), at.index)
            offset = f.mul(f.select(self.reverse, "i64", back, at.index), step)
            read = load(f, kind, f.at(source, offset), width, mask)
            value = convert(f, read, self.running, width).name
            word = ("f" if self.running.is_float else "") + ("mul" if unit else "add")
            after = f.value(f"{word} {type_} {at.values[0]}, {value}")
            shown = f.select(self.exclusive, type_, at.values[0], after)
            store(f, Value(shown, self.running), kind, f.at(target, offset), width, mask)
            at.next(after)
