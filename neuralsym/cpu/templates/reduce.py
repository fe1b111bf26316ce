"""Reductions of any axes as IR: sums, means, products, extremes, norms, logarithms of sums.

Up to three kept and three reduced axes of any strides; whoever writes the descriptor joins
neighbours first. One kernel for each operator and type has both of two ways:

rows: the innermost axis is reduced. Vectors run along it into four running values.
columns: the innermost axis is kept. Each lane is an output; four vectors go down together.

Floats of 32 bits or fewer are added in float32 over stretches of at most 32 terms (rows: 4 x 32
vectors; columns: 64 terms) and the stretches in double: the error of a sum is at most 64 units of
float32 rounding of the sum of absolute values, whatever its length. Products are in double.
Largest and smallest values keep a NaN.

Descriptor: output, input, 1 for columns, the number of terms, then three kept axes (sizes, then
strides in bytes), then three reduced ones. The output is row-major over the kept axes. An axis
that is not needed has size 1; in columns the innermost kept axis is dense, in rows the innermost
reduced one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.scalar_ir import IR_TYPE, Value, convert
from neuralsym.cpu.templates.lanes import COMPUTED, extreme, horizontal, limits, load, store
from neuralsym.cpu.vector_lanes import Lanes, constant, repeated, vector
from neuralsym.cpu.vector_math import exp, function
from neuralsym.dtypes import NumberType

How = Literal[
    "sum", "mean", "prod", "max", "min", "l1", "l2", "sum_square", "log_sum", "log_sum_exp"
]
STREAMS = 4
ROW_PIECE = 32
COLUMN_PIECE = 64


@dataclass(frozen=True)
class ReduceText:
    """What the text depends on: the operation, the type in memory, the bytes of a vector, whether
    the machine converts half precision."""

    how: How
    kind: NumberType
    vector_bytes: int
    converts_halves: bool = True


def reduce_text(text: ReduceText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`."""
    module = Module(converts_halves=text.converts_halves)
    _Writer(module.function(name), text).write()
    return str(module)


class _Writer:
    def __init__(self, f: Function, text: ReduceText) -> None:
        self.f, self.text = f, text
        kind = text.kind
        self.single, self.total = _types(text.how, kind)
        self.lanes = max(text.vector_bytes // max(self.single.itemsize, kind.itemsize), 1)
        self.count = f.word(3)
        self.kept = [f.word(4 + i) for i in range(3)]
        self.kept_strides = [f.word(7 + i) for i in range(3)]
        self.sizes = [f.word(10 + i) for i in range(3)]
        self.strides = [f.word(13 + i) for i in range(3)]

    def write(self) -> None:
        f = self.f
        f.choose(f.compare("ne", f.word(2), 0), [], self._columns, self._rows)
        f.do("ret i32 0")

    # -- the two ways ----------------------------------------------------------------------
    def _rows(self) -> list[str]:
        f = self.f
        inner = f.mul(self.kept[1], self.kept[2])
        low, high = f.share(f.mul(self.kept[0], inner))
        simple = f.compare("eq", f.mul(self.kept[0], self.kept[1]), 1)
        one = f.compare("eq", f.mul(self.sizes[0], self.sizes[1]), 1)
        few = f.compare("sle", self.sizes[2], STREAMS * ROW_PIECE * self.lanes)

        def rows(short: bool) -> list[str]:
            with f.loop(high, start=low) as unit:
                start = self._start(unit.index, inner, simple)
                shift = None
                if self.text.how == "log_sum_exp":
                    shift = self._finite(self._row(start, "max", None, short), self.single, 1)
                made = self._row(start, self.text.how, shift, short)
                place = f.at(f.operand(0), f.mul(unit.index, self.text.kind.itemsize))
                store(f, self._finish(made, shift, 1), self.text.kind, place, 1)
            return []

        short = f.value(f"and i1 {one}, {few}")
        f.choose(short, [], lambda: rows(True), lambda: rows(False))
        return []

    def _start(self, unit: str, inner: str, simple: str) -> str:
        """Where the terms of an output begin; without divisions where one run of axes is kept."""
        f = self.f

        def counted() -> list[str]:
            return [self._move(f.operand(1), (unit,), self.kept_strides[2:])]

        def divided() -> list[str]:
            first, rest = f.sdiv(unit, inner), f.srem(unit, inner)
            places = (first, f.sdiv(rest, self.kept[2]), f.srem(rest, self.kept[2]))
            return [self._move(f.operand(1), places, self.kept_strides)]

        (made,) = f.choose(simple, ["ptr"], counted, divided)
        return made

    def _columns(self) -> list[str]:
        f = self.f
        size, width = self.kept[2], STREAMS * self.lanes
        blocks = f.sdiv(f.add(size, width - 1), width)
        outer = f.mul(self.kept[0], self.kept[1])
        low, high = f.share(f.mul(outer, blocks))
        with f.loop(high, start=low) as unit:
            plane, block = f.sdiv(unit.index, blocks), f.srem(unit.index, blocks)
            column = f.mul(block, width)
            places = (f.sdiv(plane, self.kept[1]), f.srem(plane, self.kept[1]))
            start = self._move(f.operand(1), places, self.kept_strides)
            item = self.text.kind.itemsize
            start = f.at(start, f.mul(column, item))
            place = f.at(f.operand(0), f.mul(f.add(f.mul(plane, size), column), item))
            rest = f.sub(size, column)
            f.choose(
                f.compare("sge", rest, width),
                [],
                partial(self._block, start, place, STREAMS, None),
                partial(self._narrow, start, place, rest),
            )
        return []

    def _narrow(self, start: str, place: str, rest: str) -> list[str]:
        """Fewer columns than a block has: vector by vector, the last under a mask."""
        f = self.f
        with f.loop(rest, step=self.lanes) as at:
            offset = f.mul(at.index, self.text.kind.itemsize)
            mask = f.lane_mask(f.sub(rest, at.index), self.lanes) if self.lanes > 1 else None
            self._block(f.at(start, offset), f.at(place, offset), 1, mask)
        return []

    def _block(self, start: str, place: str, count: int, mask: str | None) -> list[str]:
        shifts: list[str] | None = None
        if self.text.how == "log_sum_exp":
            largest = self._column(start, "max", None, count, mask)
            shifts = [self._finite(name, self.single, self.lanes) for name in largest]
        made = self._column(start, self.text.how, shifts, count, mask)
        size = self.lanes * self.text.kind.itemsize
        for i, name in enumerate(made):
            value = self._finish(name, shifts[i] if shifts else None, self.lanes)
            store(self.f, value, self.text.kind, self.f.at(place, i * size), self.lanes, mask)
        return []

    def _move(self, start: str, places: Sequence[str], strides: Sequence[str]) -> str:
        for place, stride in zip(places, strides, strict=False):
            start = self.f.at(start, self.f.mul(place, stride))
        return start

    # -- terms -----------------------------------------------------------------------------
    def _row(self, start: str, how: How, shift: str | None, short: bool) -> str:
        """One output: the total of all terms as a scalar; short: they are one stretch."""
        f = self.f
        single, total = (self.single, self.single) if how == "max" else (self.single, self.total)
        wide = None if shift is None else f.splat(shift, IR_TYPE[single], self.lanes)
        first = _neutral(how, total, 1)
        scalar = IR_TYPE[total]

        def stretch(row: str, begin: str, stop: str, before: str) -> str:
            if how in ("max", "min") and single.is_float:
                made = self._extreme(row, begin, stop, how)
                return made if short else self._join(how, total, 1, before, made)
            lanes = self._stretch(row, begin, stop, how, wide)
            name = horizontal(
                f,
                lanes,
                IR_TYPE[single],
                self.lanes,
                lambda a, b, width: self._join(how, single, width, a, b),
            )
            made = convert(f, Value(name, single), total, 1).name
            return self._join(how, total, 1, before, made)

        if short:
            return stretch(start, "0", self.sizes[2], first)
        with f.loop(self.sizes[0], (scalar, first)) as outer:
            at = f.at(start, f.mul(outer.index, self.strides[0]))
            with f.loop(self.sizes[1], (scalar, outer.values[0])) as middle:
                row = f.at(at, f.mul(middle.index, self.strides[1]))
                step = STREAMS * ROW_PIECE * self.lanes
                with f.loop(self.sizes[2], (scalar, middle.values[0]), step=step) as piece:
                    stop = f.minimum(f.add(piece.index, step), self.sizes[2])
                    piece.next(stretch(row, piece.index, stop, piece.values[0]))
                middle.next(piece.values[0])
            outer.next(middle.values[0])
        return outer.values[0]

    def _stretch(self, row: str, begin: str, stop: str, how: How, shift: str | None) -> str:
        """Elements [begin, stop) of a row, as a vector of partial results."""
        f, item, single = self.f, self.text.kind.itemsize, self.single
        kind, first = vector(IR_TYPE[single], self.lanes), _neutral(how, single, self.lanes)
        many = STREAMS * self.lanes
        middle = f.add(begin, f.value(f"and i64 {f.sub(stop, begin)}, {-many}"))
        with f.loop(middle, *[(kind, first)] * STREAMS, start=begin, step=many) as at:
            places = [
                f.at(row, f.add(f.mul(at.index, item), i * self.lanes * item))
                for i in range(STREAMS)
            ]
            at.next(
                *(
                    self._join(how, single, self.lanes, v, self._term(p, how, shift))
                    for v, p in zip(at.values, places, strict=True)
                )
            )
        values = list(at.values)
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [self._join(how, single, self.lanes, a, b) for a, b in pairs]

        def join(old: tuple[str, ...], term: str) -> list[str]:
            return [self._join(how, single, self.lanes, old[0], term)]

        return self._rest(row, middle, stop, how, shift, [(kind, values[0])], join)[0]

    def _rest(
        self,
        row: str,
        start: str,
        stop: str,
        how: How,
        shift: str | None,
        values: list[tuple[str, str]],
        join: Callable[[tuple[str, ...], str], list[str]],
    ) -> tuple[str, ...]:
        """The elements from `start` on vector by vector, the last one filled up."""
        f, item, kind = self.f, self.text.kind.itemsize, vector(IR_TYPE[self.single], self.lanes)
        whole = f.add(start, f.value(f"and i64 {f.sub(stop, start)}, {-self.lanes}"))
        with f.loop(whole, *values, start=start, step=self.lanes) as at:
            at.next(*join(at.values, self._term(f.at(row, f.mul(at.index, item)), how, shift)))
        if self.lanes == 1:
            return at.values
        kinds = [k for k, _ in values]
        first = _neutral(how, self.single, self.lanes)

        def part() -> list[str]:
            mask = f.lane_mask(f.sub(stop, whole), self.lanes)
            term = self._term(f.at(row, f.mul(whole, item)), how, shift, mask)
            lanes = vector("i1", self.lanes)
            term = f.value(f"select {lanes} {mask}, {kind} {term}, {kind} {first}")
            return join(at.values, term)

        return f.choose(f.compare("slt", whole, stop), kinds, part, lambda: list(at.values))

    def _extreme(self, row: str, begin: str, stop: str, how: How) -> str:
        """The largest or smallest of a row of floats; NaN is looked for beside, in pairs."""
        f, item, lanes = self.f, self.text.kind.itemsize, self.lanes
        v = Lanes(f, IR_TYPE[self.single], lanes)
        word, first = ("ogt" if how == "max" else "olt"), _neutral(how, self.single, lanes)
        unknown, many = v.number(float("nan")), STREAMS * lanes
        middle = f.add(begin, f.value(f"and i64 {f.sub(stop, begin)}, {-many}"))
        start = [(v.kind, first)] * STREAMS + [(v.kind, v.number(0.0))]
        with f.loop(middle, *start, start=begin, step=many) as at:
            here = f.at(row, f.mul(at.index, item))
            terms = [self._term(f.at(here, i * lanes * item), how, None) for i in range(STREAMS)]
            *best, seen = at.values
            odd = [v.compare("uno", a, b) for a, b in zip(terms[::2], terms[1::2], strict=True)]
            either = f.value(f"or {v.mask} {odd[0]}, {odd[1]}")
            best = [v.where(v.compare(word, t, b), t, b) for t, b in zip(terms, best, strict=True)]
            at.next(*best, v.where(either, unknown, seen))
        *best, seen = at.values
        while len(best) > 1:
            pairs = zip(best[::2], best[1::2], strict=True)
            best = [v.where(v.compare(word, a, b), a, b) for a, b in pairs]

        def join(old: tuple[str, ...], term: str) -> list[str]:
            better = v.where(v.compare(word, term, old[0]), term, old[0])
            return [better, v.where(v.compare("uno", term, term), unknown, old[1])]

        values = [(v.kind, best[0]), (v.kind, seen)]
        best_one, seen = self._rest(row, middle, stop, how, None, values, join)

        def better(a: str, b: str, width: int) -> str:
            some = Lanes(f, v.element, width)
            return some.where(some.compare(word, a, b), a, b)

        made = horizontal(f, best_one, v.element, lanes, better)
        found = v.compare("uno", seen, seen)
        if lanes > 1:
            bits = f.value(f"bitcast {v.mask} {found} to i{lanes}")
            found = f.compare("ne", bits, 0, f"i{lanes}")
        one = Lanes(f, v.element, 1)
        return one.where(found, float("nan"), made)

    def _column(
        self, start: str, how: How, shifts: list[str] | None, count: int, mask: str | None
    ) -> tuple[str, ...]:
        """`count` vectors of outputs."""
        f, lanes = self.f, self.lanes
        single, total = (self.single, self.single) if how == "max" else (self.single, self.total)
        kinds = [vector(IR_TYPE[k], lanes) for k in (single, total)]
        first, zero = _neutral(how, total, lanes), _neutral(how, single, lanes)
        with f.loop(self.sizes[0], *[(kinds[1], first)] * count) as outer:
            at = f.at(start, f.mul(outer.index, self.strides[0]))
            with f.loop(self.sizes[1], *((kinds[1], v) for v in outer.values)) as middle:
                plane = f.at(at, f.mul(middle.index, self.strides[1]))
                carried = [(kinds[1], v) for v in middle.values]
                with f.loop(self.sizes[2], *carried, step=COLUMN_PIECE) as piece:
                    stop = f.minimum(f.add(piece.index, COLUMN_PIECE), self.sizes[2])
                    with f.loop(stop, *[(kinds[0], zero)] * count, start=piece.index) as row:
                        place = f.at(plane, f.mul(row.index, self.strides[2]))
                        row.next(
                            *(
                                self._join(
                                    how,
                                    single,
                                    lanes,
                                    value,
                                    self._term(
                                        f.at(place, i * lanes * self.text.kind.itemsize),
                                        how,
                                        shifts[i] if shifts else None,
                                        mask,
                                    ),
                                )
                                for i, value in enumerate(row.values)
                            )
                        )
                    piece.next(
                        *(
                            self._join(
                                how,
                                total,
                                lanes,
                                t,
                                convert(f, Value(v, single), total, lanes).name,
                            )
                            for t, v in zip(piece.values, row.values, strict=True)
                        )
                    )
                middle.next(*piece.values)
            outer.next(*middle.values)
        return outer.values

    def _term(self, place: str, how: How, shift: str | None, mask: str | None = None) -> str:
        """What the elements at a place contribute."""
        f, lanes = self.f, self.lanes
        read = load(f, self.text.kind, place, lanes, mask)
        value = convert(f, read, self.single, lanes).name
        kind = vector(IR_TYPE[self.single], lanes)
        if how in ("l2", "sum_square"):
            return f.value(f"{'fmul' if self.single.is_float else 'mul'} {kind} {value}, {value}")
        if how == "l1":
            if self.single.is_float:
                return f.call("fabs", kind, value)
            if self.single.startswith("uint"):
                return value
            minus = (
                f.value(f"sub {kind} zeroinitializer, {value}")
                if lanes > 1
                else (f.value(f"sub {kind} 0, {value}"))
            )
            return extreme(f, "max", self.single, lanes, value, minus)
        if how == "log_sum_exp":
            v = Lanes(f, IR_TYPE[self.single], lanes)
            assert shift is not None
            return exp(v, v.sub(value, shift))
        return value

    def _join(self, how: How, kind: NumberType, width: int, a: str, b: str) -> str:
        if how in ("max", "min"):
            return extreme(self.f, how, kind, width, a, b)
        word = ("f" if kind.is_float else "") + ("mul" if how == "prod" else "add")
        return self.f.value(f"{word} {vector(IR_TYPE[kind], width)} {a}, {b}")

    # -- ends ------------------------------------------------------------------------------
    def _finite(self, name: str, kind: NumberType, width: int) -> str:
        """The value, or 0 where it is not finite: what exponents are taken relative to."""
        v = Lanes(self.f, IR_TYPE[kind], width)
        return v.where(v.compare("olt", v.abs(name), float("inf")), name, 0.0)

    def _finish(self, name: str, shift: str | None, width: int) -> Value:
        f, how, total = self.f, self.text.how, self.total
        v = Lanes(f, IR_TYPE[total], width)
        if how == "mean":
            count = f.value(f"sitofp i64 {self.count} to {v.element}")
            name = v.div(name, f.splat(count, v.element, width))
        elif how == "l2":
            name = v.call("sqrt", name)
        elif how in ("log_sum", "log_sum_exp"):
            name = function(f, "log", v.element, width, name)
            if shift is not None:
                name = v.add(name, convert(f, Value(shift, self.single), total, width).name)
        return Value(name, total)


def _types(how: How, kind: NumberType) -> tuple[NumberType, NumberType]:
    """The types of terms and of totals."""
    computed = COMPUTED[kind]
    if how in ("max", "min"):
        return computed, computed
    double = NumberType.FLOAT64
    if not computed.is_float:
        exact = how in ("sum", "prod", "l1", "sum_square")
        return (computed, computed) if exact else (double, double)
    return (double if how == "prod" else computed), double


def _neutral(how: How, kind: NumberType, width: int) -> str:
    """What a reduction of nothing gives."""
    least, largest = limits(kind)
    value = {"prod": 1, "max": least, "min": largest}.get(how, 0)
    element = IR_TYPE[kind]
    if kind.is_float:
        return constant(float(value), element, width)
    bits = int(element[1:])
    signed = int(value) - (1 << bits) if int(value) >> (bits - 1) > 0 else int(value)
    return repeated(str(signed), element, width)
