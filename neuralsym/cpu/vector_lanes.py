"""Vectors of floats as IR: their types, their literals, and arithmetic on them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from neuralsym.cpu.ir import Function


class Lanes:
    """Arithmetic on values of one vector type, with numbers lifted to constants."""

    def __init__(self, f: Function, element: str, width: int) -> None:
        self.f, self.element, self.width = f, element, width
        self.kind = vector(element, width)
        self.mask = vector("i1", width)
        self.integer = "i32" if element == "float" else "i64"
        self.integers = vector(self.integer, width)

    def number(self, value: float) -> str:
        return constant(value, self.element, self.width)

    def whole(self, value: int) -> str:
        return repeated(str(value), self.integer, self.width)

    def _of(self, value: str | float) -> str:
        return value if isinstance(value, str) else self.number(value)

    def add(self, a: str | float, b: str | float) -> str:
        return self.f.value(f"fadd {self.kind} {self._of(a)}, {self._of(b)}")

    def sub(self, a: str | float, b: str | float) -> str:
        return self.f.value(f"fsub {self.kind} {self._of(a)}, {self._of(b)}")

    def mul(self, a: str | float, b: str | float) -> str:
        return self.f.value(f"fmul {self.kind} {self._of(a)}, {self._of(b)}")

    def div(self, a: str | float, b: str | float) -> str:
        return self.f.value(f"fdiv {self.kind} {self._of(a)}, {self._of(b)}")

    def fma(self, a: str | float, b: str | float, c: str | float) -> str:
        """a*b + c, in one rounding where the machine has it."""
        return self.f.call("fmuladd", self.kind, self._of(a), self._of(b), self._of(c))

    def neg(self, a: str) -> str:
        return self.f.value(f"fneg {self.kind} {a}")

    def call(self, intrinsic: str, *arguments: str) -> str:
        return self.f.call(intrinsic, self.kind, *arguments)

    def abs(self, a: str) -> str:
        return self.call("fabs", a)

    def copysign(self, size: str, sign: str) -> str:
        return self.call("copysign", size, sign)

    def compare(self, how: str, a: str | float, b: str | float) -> str:
        return self.f.value(f"fcmp {how} {self.kind} {self._of(a)}, {self._of(b)}")

    def where(self, condition: str, a: str | float, b: str | float) -> str:
        kind, mask = self.kind, self.mask
        return self.f.value(
            f"select {mask} {condition}, {kind} {self._of(a)}, {kind} {self._of(b)}"
        )

    def below(self, value: str, limit: float) -> str:
        """At most `limit`; NaN stays."""
        return self.where(self.compare("ogt", value, limit), limit, value)

    def above(self, value: str, limit: float) -> str:
        return self.where(self.compare("olt", value, limit), limit, value)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """c0 + c1*x + ..., from the highest power down."""
        *rest, last = coefficients
        result = self.number(last)
        for c in reversed(rest):
            result = self.fma(result, x, c)
        return result

    def bits(self, value: str) -> str:
        return self.f.value(f"bitcast {self.kind} {value} to {self.integers}")

    def from_bits(self, value: str) -> str:
        return self.f.value(f"bitcast {self.integers} {value} to {self.kind}")

    def integer_op(self, op: str, a: str, b: str | int) -> str:
        other = b if isinstance(b, str) else self.whole(b)
        return self.f.value(f"{op} {self.integers} {a}, {other}")

    @property
    def magic(self) -> float:
        """Adding it rounds to a whole number, which then stands in the low bits."""
        return 12582912.0 if self.element == "float" else 6755399441055744.0

    def power_of_two(self, whole: str) -> str:
        """2^n of integers n within the exponents."""
        places, bias = (23, 127) if self.element == "float" else (52, 1023)
        biased = self.integer_op("add", whole, bias)
        return self.from_bits(self.integer_op("shl", biased, places))

    @property
    def scales(self) -> bool:
        """Whether there is `scaled`: see `Target.scales`, which the module is told."""
        return self.f.module.scales and self.element == "float" and self.width in (4, 8, 16)

    def scaled(self, value: str, whole: str) -> str:
        """value * 2^whole of whole floats, with one rounding, by one instruction."""
        bits = 32 * self.width
        name, mask = f"@llvm.x86.avx512.mask.scalef.ps.{bits}", f"i{max(self.width, 8)}"
        rounding = (", i32", ", i32 4") if bits == 512 else ("", "")
        kind = self.kind
        kinds = f"{kind}, {kind}, {kind}, {mask}{rounding[0]}"
        self.f.module.declarations.add(f"declare {kind} {name}({kinds})")
        listed = f"{kind} {value}, {kind} {whole}, {kind} zeroinitializer, {mask} -1"
        return self.f.value(f"call {kind} {name}({listed}{rounding[1]})")


def vector(element: str, width: int) -> str:
    """The IR type of `width` elements; of one, the element itself."""
    return element if width == 1 else f"<{width} x {element}>"


def repeated(literal: str, element: str, width: int) -> str:
    """A literal in all lanes."""
    if width == 1:
        return literal
    return "<" + ", ".join([f"{element} {literal}"] * width) + ">"


def constant(value: float, element: str, width: int) -> str:
    """A float literal in all lanes, exact to the bit."""
    if element == "float":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = math.copysign(math.inf, value)
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return repeated(f"0x{bits:016X}", element, width)
