"""Softmax and LogSoftmax along any axis, in three passes over vectors.

    m = max x;  s = sum exp(x - m);  exp(x - m) / s, or x - m - log(s)

Along the last axis a row is cut into vectors and joined at its ends; along another, each lane has
a line of its own. A row is one worker's. Descriptor: x, y, lines before the axis, its length,
elements behind it.

In half precision Softmax rounds x - m, the exponentials and their sum to the type of the tensor:
ONNX defines it as a function of operators on that type, and attention in float16 is compared with
just that. It costs a unit in the last place. LogSoftmax computes in float32 up to its result: what
is near zero there would lose all of its digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from neuralsym.cpu.emit import Code
from neuralsym.cpu.ir import Module
from neuralsym.cpu.kernels.widen import finish, halves_work, reserve, wide_place, widened
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Row, Sizes, Step, Word
from neuralsym.cpu.scalar_ir import HALVES, Value, convert
from neuralsym.cpu.templates.epilogue import constant
from neuralsym.cpu.vector_math import shared_function
from neuralsym.dtypes import NumberType

FLOATS = (NumberType.FLOAT32, NumberType.FLOAT64, *HALVES)


class Softmax(Kernel):
    """Exponentials over their sum; the largest element is taken off first, so none overflows."""

    name = "softmax"

    def supports(self, step: Step) -> bool | str:
        y = step.outputs[0]
        if y.dtype not in FLOATS:
            return f"there are loops over floats, not over {y.dtype.value}"
        return halves_work(self.target, y.dtype) if y.rank else f"{y.name} has no axis"

    def adjust(self, step: Step) -> None:
        reserve(step, 0, step.inputs[0])
        reserve(step, -1, step.outputs[0])
        if step.outputs[0].dtype not in HALVES:
            step.in_place.append((0, 0))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        shape = sizes.shape(y)
        if 0 in shape:
            return []
        axis = int(step.attr("axis")) % len(shape)
        element = "double" if y.dtype is NumberType.FLOAT64 else "float"
        rows: list[Row] = []
        source = widened(self.target, step, 0, x, sizes, rows)
        place = wide_place(step, -1, y)
        text = SoftmaxText(
            self.target.width(element),
            element,
            axis == len(shape) - 1,
            step.op.__name__ == "LogSoftmax",
            y.dtype if y.dtype in HALVES and step.op.__name__ == "Softmax" else None,
        )
        behind = math.prod(shape[axis + 1 :])
        words: list[Word] = [source, place, math.prod(shape[:axis]), shape[axis], behind]
        return [*rows, Row(_code(text), words), *finish(self.target, step, place, y, None, sizes)]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        return 4 * math.prod(sizes.shape(step.outputs[0]))


@dataclass(frozen=True)
class SoftmaxText:
    """What the kernel's text depends on.

    last: the axis is the last one; rounds: the type to which what comes between is rounded.
    """

    width: int
    element: str
    last: bool
    logarithm: bool
    rounds: NumberType | None = None


@lru_cache(maxsize=16)
def _code(text: SoftmaxText) -> Code:
    return Code("softmax", "softmax", _Writer(text).write())


class _Writer:
    def __init__(self, text: SoftmaxText) -> None:
        self.text = text
        self.kind = f"<{text.width} x {text.element}>"
        self.bytes = 8 if text.element == "double" else 4
        self.least = constant(-math.inf, text.width, text.element)
        self.module = Module()
        self.f = self.module.function("softmax")

    def write(self) -> str:
        f, text = self.f, self.text
        lines, length, behind = f.word(2), f.word(3), f.word(4)
        if text.last:
            low, high = f.share(lines)
            with f.loop(high, start=low) as row:
                offset = f.mul(f.mul(row.index, length), self.bytes)
                self._along(f.at(f.operand(0), offset), f.at(f.operand(1), offset), length)
        else:
            blocks = f.sdiv(f.add(behind, text.width - 1), text.width)
            low, high = f.share(f.mul(lines, blocks))
            with f.loop(high, start=low) as unit:
                line, block = f.sdiv(unit.index, blocks), f.srem(unit.index, blocks)
                first = f.mul(block, text.width)
                start = f.add(f.mul(line, f.mul(length, behind)), first)
                offset = f.mul(start, self.bytes)
                mask = f.lane_mask(f.minimum(f.sub(behind, first), text.width), text.width)
                stride = f.mul(behind, self.bytes)
                source, target = f.at(f.operand(0), offset), f.at(f.operand(1), offset)
                self._across(source, target, length, stride, mask)
        f.do("ret i32 0")
        return str(self.module)

    # -- along the last axis ---------------------------------------------------------------
    def _along(self, source: str, target: str, length: str) -> None:
        f, width = self.f, self.text.width
        whole = f.value(f"and i64 {length}, {-width}")
        tail = f.mul(whole, self.bytes)
        mask = f.lane_mask(f.sub(length, whole), width)

        def ended(value: str, otherwise: str) -> str:
            return f.value(
                f"select <{width} x i1> {mask}, {self.kind} {value}, {self.kind} {otherwise}"
            )

        with f.loop(whole, (self.kind, self.least), step=width) as each:
            value = f.load(self.kind, f.at(source, f.mul(each.index, self.bytes)), self.bytes)
            each.next(self._maximum(each.values[0], value))
        rest = f.masked_load(self.kind, f.at(source, tail), mask, self.bytes)
        most = self._maximum(each.values[0], ended(rest, self.least))
        most = self._joined(most, self._maximum)
        with f.loop(whole, (self.kind, "zeroinitializer"), step=width) as each:
            offset = f.mul(each.index, self.bytes)
            value = f.load(self.kind, f.at(source, offset), self.bytes)
            value, power = self._power(value, most)
            f.store(self.kind, value, f.at(target, offset), self.bytes)
            each.next(f.value(f"fadd {self.kind} {each.values[0]}, {power}"))
        kept, power = self._power(rest, most)
        total = f.value(f"fadd {self.kind} {each.values[0]}, {ended(power, 'zeroinitializer')}")
        total = self._joined(total, lambda a, b: f.value(f"fadd {self.kind} {a}, {b}"))
        last = self._divisor(total)
        with f.loop(whole, step=width) as each:
            place = f.at(target, f.mul(each.index, self.bytes))
            value = f.load(self.kind, place, self.bytes)
            f.store(self.kind, self._result(value, last), place, self.bytes)
        place = f.at(target, tail)
        f.masked_store(self.kind, self._result(kept, last), place, mask, self.bytes)

    def _joined(self, value: str, join: Callable[[str, str], str]) -> str:
        """All lanes joined, in every lane."""
        f, width = self.f, self.text.width
        step = width // 2
        while step:
            lanes = ", ".join(f"i32 {i ^ step}" for i in range(width))
            other = f.value(
                f"shufflevector {self.kind} {value}, {self.kind} poison, <{width} x i32> <{lanes}>"
            )
            value = join(value, other)
            step //= 2
        return value

    # -- along another axis ----------------------------------------------------------------
    def _across(self, source: str, target: str, length: str, stride: str, mask: str) -> None:
        f = self.f

        def at(base: str, index: str) -> str:
            return f.at(base, f.mul(index, stride))

        with f.loop(length, (self.kind, self.least)) as each:
            value = f.masked_load(self.kind, at(source, each.index), mask, self.bytes)
            each.next(self._maximum(each.values[0], value))
        most = each.values[0]
        with f.loop(length, (self.kind, "zeroinitializer")) as each:
            value = f.masked_load(self.kind, at(source, each.index), mask, self.bytes)
            value, power = self._power(value, most)
            f.masked_store(self.kind, value, at(target, each.index), mask, self.bytes)
            each.next(f.value(f"fadd {self.kind} {each.values[0]}, {power}"))
        last = self._divisor(each.values[0])
        with f.loop(length) as each:
            place = at(target, each.index)
            value = f.masked_load(self.kind, place, mask, self.bytes)
            f.masked_store(self.kind, self._result(value, last), place, mask, self.bytes)

    # -- arithmetic ------------------------------------------------------------------------
    def _maximum(self, a: str, b: str) -> str:
        """max(a, b); NaN if either is."""
        f, mask = self.f, f"<{self.text.width} x i1>"
        greater = f.value(f"fcmp ogt {self.kind} {a}, {b}")
        most = f.value(f"select {mask} {greater}, {self.kind} {a}, {self.kind} {b}")
        bad = f.value(f"fcmp uno {self.kind} {a}, {a}")
        return f.value(f"select {mask} {bad}, {self.kind} {a}, {self.kind} {most}")

    def _power(self, value: str, most: str) -> tuple[str, str]:
        """What the second pass keeps of an element, and its exponential."""
        f = self.f
        below = self._rounded(f.value(f"fsub {self.kind} {value}, {most}"))
        power = shared_function(f, "exp", self.text.element, self.text.width, below)
        power = self._rounded(power)
        return (below if self.text.logarithm else power), power

    def _divisor(self, total: str) -> str:
        if not self.text.logarithm:
            return self._rounded(total)
        return shared_function(self.f, "log", self.text.element, self.text.width, total)

    def _rounded(self, value: str) -> str:
        """The nearest value of the narrow type, if there is one."""
        kind = self.text.rounds
        if kind is None:
            return value
        return convert(self.f, Value(value, NumberType.FLOAT32), kind, self.text.width).name

    def _result(self, value: str, last: str) -> str:
        how = "fsub" if self.text.logarithm else "fdiv"
        return self.f.value(f"{how} {self.kind} {value}, {last}")


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    for op in ("Softmax", "LogSoftmax"):
        library.kernel(op)(Softmax)
