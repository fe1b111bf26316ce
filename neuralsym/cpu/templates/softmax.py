"""Softmax and LogSoftmax along any axis, as IR, in three passes over vectors.

    m = max x;  s = sum exp(x - m);  exp(x - m) / s, or x - m - log(s)

Along the last axis a row is cut into vectors that go through several running ones, and is joined
at its ends; a row of one vector stays in registers. Along another axis each lane has a line of its
own. A row is one worker's. Descriptor: x, y, lines before the axis, its length, elements behind it.

A NaN anywhere makes the sum NaN, and so the whole row: the maximum need not carry it. float32 is
multiplied by 1/s, which costs a unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from neuralsym.cpu.ir import Module
from neuralsym.cpu.scalar_ir import Value, convert
from neuralsym.cpu.templates.lanes import falling_exp, horizontal
from neuralsym.cpu.vector_lanes import Lanes, constant
from neuralsym.cpu.vector_math import shared_function
from neuralsym.dtypes import NumberType

STREAMS = 4


@dataclass(frozen=True)
class SoftmaxText:
    """What the kernel's text depends on.

    last: the axis is the last one; rounds: the type to which what comes between is rounded;
    scales: the machine multiplies by powers of two (Target.scales); converts_halves: it converts
    half precision.
    """

    width: int
    element: str
    last: bool
    logarithm: bool
    rounds: NumberType | None = None
    scales: bool = False
    converts_halves: bool = True


def softmax_text(text: SoftmaxText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`."""
    return _Writer(text, name).write()


class _Writer:
    def __init__(self, text: SoftmaxText, name: str) -> None:
        self.text = text
        self.bytes = 8 if text.element == "double" else 4
        self.module = Module(converts_halves=text.converts_halves)
        self.f = self.module.function(name)
        self.v = Lanes(self.f, text.element, text.width)
        self.kind = self.v.kind
        self.least = constant(-math.inf, text.element, text.width)
        self.zero = constant(0.0, text.element, text.width)

    def write(self) -> str:
        f, text = self.f, self.text
        lines, length, behind = f.word(2), f.word(3), f.word(4)
        if text.last:
            low, high = f.share(lines)
            mask = f.lane_mask(length, text.width)

            def rows(body: Callable[[str, str], None]) -> list[str]:
                with f.loop(high, start=low) as row:
                    offset = f.mul(f.mul(row.index, length), self.bytes)
                    body(f.at(f.operand(0), offset), f.at(f.operand(1), offset))
                return []

            f.choose(
                f.compare("sle", length, text.width),
                [],
                lambda: rows(lambda source, target: self._short(source, target, mask)),
                lambda: rows(lambda source, target: self._along(source, target, length)),
            )
        else:
            blocks = f.sdiv(f.add(behind, text.width - 1), text.width)
            low, high = f.share(f.mul(lines, blocks))
            stride = f.mul(behind, self.bytes)
            with f.loop(high, start=low) as unit:
                line, block = f.sdiv(unit.index, blocks), f.srem(unit.index, blocks)
                first = f.mul(block, text.width)
                start = f.add(f.mul(line, f.mul(length, behind)), first)
                offset = f.mul(start, self.bytes)
                mask = f.lane_mask(f.minimum(f.sub(behind, first), text.width), text.width)
                source, target = f.at(f.operand(0), offset), f.at(f.operand(1), offset)
                self._across(source, target, length, stride, mask)
        f.do("ret i32 0")
        return str(self.module)

    # -- along the last axis ---------------------------------------------------------------
    def _short(self, source: str, target: str, mask: str) -> None:
        """A row of no more than one vector."""
        f, v = self.f, self.v
        value = f.masked_load(self.kind, source, mask, self.bytes)
        most = self._joined(v.where(mask, value, self.least), self._larger)
        kept, power = self._power(value, most)
        total = self._joined(v.where(mask, power, self.zero), self._sum)
        made = self._result(kept, self._divisor(total))
        f.masked_store(self.kind, made, target, mask, self.bytes)

    def _along(self, source: str, target: str, length: str) -> None:
        f, v = self.f, self.v

        def read(base: str, index: str, mask: str | None) -> tuple[str, str]:
            place = f.at(base, f.mul(index, self.bytes))
            if mask is None:
                return place, f.load(self.kind, place, self.bytes)
            return place, f.masked_load(self.kind, place, mask, self.bytes)

        def write(value: str, place: str, mask: str | None) -> None:
            if mask is None:
                f.store(self.kind, value, place, self.bytes)
            else:
                f.masked_store(self.kind, value, place, mask, self.bytes)

        def largest(index: str, mask: str | None, most: str) -> str:
            value = read(source, index, mask)[1]
            if mask is not None:
                value = v.where(mask, value, self.least)
            return self._maximum(value, most)

        most = self._vectors(length, self.least, largest, self._maximum)
        most = self._joined(most, self._larger)

        def summed(index: str, mask: str | None, total: str) -> str:
            kept, power = self._power(read(source, index, mask)[1], most)
            write(kept, f.at(target, f.mul(index, self.bytes)), mask)
            if mask is not None:
                power = v.where(mask, power, self.zero)
            return v.add(total, power)

        total = self._joined(self._vectors(length, self.zero, summed, v.add), self._sum)
        last = self._divisor(total)

        def finish(index: str, mask: str | None, nothing: str) -> str:
            place, value = read(target, index, mask)
            write(self._result(value, last), place, mask)
            return nothing

        self._vectors(length, None, finish)

    def _vectors(
        self,
        length: str,
        first: str | None,
        body: Callable[[str, str | None, str], str],
        join: Callable[[str, str], str] | None = None,
    ) -> str:
        """body(index, mask, running value) of all vectors of a row; the running ones joined."""
        f, width = self.f, self.text.width
        many = STREAMS * width
        whole = f.value(f"and i64 {length}, {-many}")
        carried = [] if first is None else [(self.kind, first)] * STREAMS
        with f.loop(whole, *carried, step=many) as at:
            values = at.values or ("",) * STREAMS
            made = [body(f.add(at.index, i * width), None, values[i]) for i in range(STREAMS)]
            at.next(*(made if carried else ()))
        running = list(at.values)
        while join is not None and len(running) > 1:
            running = [join(a, b) for a, b in zip(running[::2], running[1::2], strict=True)]
        with f.loop(length, *((self.kind, r) for r in running), start=whole, step=width) as at:
            mask = f.lane_mask(f.sub(length, at.index), width)
            value = body(at.index, mask, at.values[0] if running else "")
            at.next(*([value] if running else ()))
        return at.values[0] if running else ""

    def _joined(self, value: str, join: Callable[[str, str, int], str]) -> str:
        """All lanes joined, in every lane."""
        f, width, element = self.f, self.text.width, self.text.element
        return f.splat(horizontal(f, value, element, width, join), element, width)

    def _sum(self, a: str, b: str, width: int) -> str:
        return Lanes(self.f, self.text.element, width).add(a, b)

    # -- along another axis ----------------------------------------------------------------
    def _across(self, source: str, target: str, length: str, stride: str, mask: str) -> None:
        f, v = self.f, self.v

        def at(base: str, index: str) -> str:
            return f.at(base, f.mul(index, stride))

        with f.loop(length, (self.kind, self.least)) as each:
            value = f.masked_load(self.kind, at(source, each.index), mask, self.bytes)
            each.next(self._maximum(value, each.values[0]))
        most = each.values[0]
        with f.loop(length, (self.kind, self.zero)) as each:
            value = f.masked_load(self.kind, at(source, each.index), mask, self.bytes)
            value, power = self._power(value, most)
            f.masked_store(self.kind, value, at(target, each.index), mask, self.bytes)
            each.next(v.add(each.values[0], power))
        last = self._divisor(each.values[0])
        with f.loop(length) as each:
            place = at(target, each.index)
            value = f.masked_load(self.kind, place, mask, self.bytes)
            f.masked_store(self.kind, self._result(value, last), place, mask, self.bytes)

    # -- arithmetic ------------------------------------------------------------------------
    def _maximum(self, value: str, most: str) -> str:
        """The larger; `most` if either is NaN."""
        return self._larger(value, most, self.text.width)

    def _larger(self, value: str, most: str, width: int) -> str:
        v = Lanes(self.f, self.text.element, width)
        return v.where(v.compare("ogt", value, most), value, most)

    def _power(self, value: str, most: str) -> tuple[str, str]:
        """What the second pass keeps of an element, and its exponential."""
        below = self._rounded(self.v.sub(value, most))
        power = self._rounded(falling_exp(self.v, below, self.text.scales))
        return (below if self.text.logarithm else power), power

    def _divisor(self, total: str) -> str:
        """What `_result` takes: the sum, its logarithm, or the reciprocal of the sum."""
        if self.text.logarithm:
            return shared_function(self.f, "log", self.text.element, self.text.width, total)
        return self.v.div(1.0, total) if self._multiplies else self._rounded(total)

    @property
    def _multiplies(self) -> bool:
        return self.text.element == "float" and self.text.rounds is None

    def _rounded(self, value: str) -> str:
        """The nearest value of the narrow type, if there is one."""
        kind = self.text.rounds
        if kind is None:
            return value
        return convert(self.f, Value(value, NumberType.FLOAT32), kind, self.text.width).name

    def _result(self, value: str, last: str) -> str:
        if self.text.logarithm:
            return self.v.sub(value, last)
        return self.v.mul(value, last) if self._multiplies else self.v.div(value, last)
