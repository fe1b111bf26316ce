"""Rows less their mean, over their deviation, as IR: layer, group, instance and RMS normalisation.

    y = (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * scale + bias

A row is `parts` stretches of `length` elements, one after another. Scale and bias are either one
for each element of a row, or one for each part: row r and part p take number (r % groups) * parts
+ p. Both sums of a row go through four running vectors of float32 over at most 32 terms, then
double (templates/reduce.py), and the deviations are taken from the rounded mean: the error of y is
some 4 units of float32 rounding of |y - bias| plus 2 of |mean| / deviation. Doubles stay double.

Descriptor: y, x, scale, bias, mean, inverse deviation, rows, elements of a row, groups, parts,
length, epsilon (the bits of a double).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.scalar_ir import IR_TYPE, Value, convert
from neuralsym.cpu.templates.lanes import COMPUTED, horizontal, load, store
from neuralsym.cpu.vector_lanes import Lanes
from neuralsym.dtypes import NumberType

STREAMS = 4
PIECE = 32


@dataclass(frozen=True)
class NormaliseText:
    """What the text depends on.

    x, scale, y, statistics: types in memory (statistics None: not written); center: the mean is
    taken off; per_element: scale and bias are one for each element of a row; converts_halves:
    whether the machine converts half precision.
    """

    x: NumberType
    scale: NumberType
    y: NumberType
    statistics: NumberType | None
    center: bool
    bias: bool
    per_element: bool
    vector_bytes: int
    converts_halves: bool = True


def normalise_text(text: NormaliseText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`."""
    module = Module(converts_halves=text.converts_halves)
    _Writer(module.function(name), text).write()
    return str(module)


class _Writer:
    def __init__(self, f: Function, text: NormaliseText) -> None:
        self.f, self.text = f, text
        self.kind = COMPUTED[text.x]
        widest = max(self.kind.itemsize, text.scale.itemsize)
        self.width = max(text.vector_bytes // widest, 1)
        self.v = Lanes(f, IR_TYPE[self.kind], self.width)
        self.wide = Lanes(f, "double", 1)
        self.y, self.x, self.scale, self.bias = (f.operand(i) for i in range(4))
        self.rows, self.size, self.groups, self.parts, self.length = (
            f.word(i) for i in range(6, 11)
        )
        self.epsilon = f.load("double", f.at("%desc", 8 * 11), 8)

    def write(self) -> None:
        f, text = self.f, self.text
        count = f.value(f"sitofp i64 {self.size} to double")
        low, high = f.share(self.rows)
        with f.loop(high, start=low) as row:
            start = f.mul(row.index, self.size)
            source = f.at(self.x, f.mul(start, text.x.itemsize))
            target = f.at(self.y, f.mul(start, text.y.itemsize))
            mean = None
            if text.center:
                total = self._sum(source, lambda value: value)
                mean = self._narrow(self.wide.div(total, count))
            around = None if mean is None else f.splat(mean, self.v.element, self.width)

            def square(value: str, around: str | None = around) -> str:
                less = value if around is None else self.v.sub(value, around)
                return self.v.mul(less, less)

            variance = self.wide.div(self._sum(source, square), count)
            deviation = self.wide.call("sqrt", self.wide.add(variance, self.epsilon))
            inverse = self._narrow(self.wide.div(1.0, deviation))
            if text.statistics is not None:
                self._statistics(row.index, mean, inverse, text.statistics)
            if text.per_element:
                scaled = f.splat(inverse, self.v.element, self.width)
                self._elements(source, target, around, scaled)
            else:
                self._parts(row.index, source, target, around, inverse)
        f.do("ret i32 0")

    def _narrow(self, name: str) -> str:
        return convert(self.f, Value(name, NumberType.FLOAT64), self.kind, 1).name

    def _statistics(self, row: str, mean: str | None, inverse: str, kind: NumberType) -> None:
        f = self.f
        for i, name in ((4, mean), (5, inverse)):
            if name is not None:
                place = f.at(f.operand(i), f.mul(row, kind.itemsize))
                store(f, Value(name, self.kind), kind, place, 1)

    # -- sums ------------------------------------------------------------------------------
    def _sum(self, row: str, term: Callable[[str], str]) -> str:
        """The sum of the terms of a row's elements, as a double."""
        f, width = self.f, self.width
        step = STREAMS * PIECE * width
        with f.loop(self.size, ("double", "0.0"), step=step) as piece:
            stop = f.minimum(f.add(piece.index, step), self.size)
            lanes = self._stretch(row, piece.index, stop, term)
            name = horizontal(
                f,
                lanes,
                self.v.element,
                width,
                lambda a, b, n: Lanes(f, self.v.element, n).add(a, b),
            )
            made = convert(f, Value(name, self.kind), NumberType.FLOAT64, 1).name
            piece.next(self.wide.add(piece.values[0], made))
        return piece.values[0]

    def _stretch(self, row: str, begin: str, stop: str, term: Callable[[str], str]) -> str:
        f, v, width = self.f, self.v, self.width
        item, zero = self.text.x.itemsize, v.number(0.0)
        many = STREAMS * width
        middle = f.add(begin, f.value(f"and i64 {f.sub(stop, begin)}, {-many}"))
        with f.loop(middle, *[(v.kind, zero)] * STREAMS, start=begin, step=many) as at:
            offset = f.mul(at.index, item)
            read = [
                load(f, self.text.x, f.at(row, f.add(offset, i * width * item)), width).name
                for i in range(STREAMS)
            ]
            at.next(*(v.add(s, term(r)) for s, r in zip(at.values, read, strict=True)))
        first, second, third, fourth = at.values
        total = v.add(v.add(first, second), v.add(third, fourth))
        with f.loop(stop, (v.kind, total), start=middle, step=width) as at:
            mask = f.lane_mask(f.sub(stop, at.index), width) if width > 1 else None
            read_ = load(f, self.text.x, f.at(row, f.mul(at.index, item)), width, mask).name
            made = term(read_)
            if mask is not None:
                made = v.where(mask, made, zero)
            at.next(v.add(at.values[0], made))
        return at.values[0]

    # -- results ---------------------------------------------------------------------------
    def _elements(self, source: str, target: str, mean: str | None, inverse: str) -> None:
        """A row whose elements have their own scale and bias."""

        def finish(value: str, place: str, mask: str | None) -> str:
            offset = self.f.mul(place, self.text.scale.itemsize)
            scale = self._operand(self.scale, offset, mask)
            if not self.text.bias:
                return self.v.mul(self.v.mul(value, inverse), scale)
            bias = self._operand(self.bias, offset, mask)
            return self.v.fma(self.v.mul(value, inverse), scale, bias)

        self._map(source, target, self.size, mean, finish)

    def _parts(self, row: str, source: str, target: str, mean: str | None, inverse: str) -> None:
        """A row whose parts have a scale and a bias each."""
        f, text = self.f, self.text
        first = f.mul(f.srem(row, self.groups), self.parts)
        with f.loop(self.parts) as part:
            offset = f.mul(f.add(first, part.index), text.scale.itemsize)
            single = Lanes(f, self.v.element, 1)
            read = [
                convert(f, load(f, text.scale, f.at(base, offset), 1), self.kind, 1).name
                for base in (self.scale, self.bias)
            ]
            factor = f.splat(single.mul(inverse, read[0]), self.v.element, self.width)
            bias = f.splat(read[1], self.v.element, self.width)
            start = f.mul(part.index, self.length)
            here = f.at(source, f.mul(start, text.x.itemsize))
            there = f.at(target, f.mul(start, text.y.itemsize))

            def finish(
                value: str, place: str, mask: str | None, factor: str = factor, bias: str = bias
            ) -> str:
                return self.v.fma(value, factor, bias)

            self._map(here, there, self.length, mean, finish)

    def _operand(self, base: str, offset: str, mask: str | None) -> str:
        f = self.f
        read = load(f, self.text.scale, f.at(base, offset), self.width, mask)
        return convert(f, read, self.kind, self.width).name

    def _map(
        self,
        source: str,
        target: str,
        size: str,
        mean: str | None,
        finish: Callable[[str, str, str | None], str],
    ) -> None:
        """finish(x - mean, place, mask) of all elements."""
        f, width, text = self.f, self.width, self.text

        def body(index: str, mask: str | None) -> None:
            place = f.at(source, f.mul(index, text.x.itemsize))
            value = load(f, text.x, place, width, mask).name
            less = value if mean is None else self.v.sub(value, mean)
            made = Value(finish(less, index, mask), self.kind)
            store(f, made, text.y, f.at(target, f.mul(index, text.y.itemsize)), width, mask)

        whole = f.value(f"and i64 {size}, {-width}")
        with f.loop(whole, step=width) as at:
            body(at.index, None)
        if width > 1:
            rest = f.sub(size, whole)
            with f.when(f.compare("sgt", rest, 0)):
                body(whole, f.lane_mask(rest, width))
