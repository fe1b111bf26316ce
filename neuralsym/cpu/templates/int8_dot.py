"""Products of unsigned bytes and signed weights, summed in int32 without saturation.

vpdpbusd multiplies four bytes and adds the exact sum. Without it, the bytes of a quad are spread to
two vectors of 16-bit pairs (its even and its odd bytes), which pmaddwd multiplies: 2 * 255 * 255
fits. Where there is neither, plain 32-bit products.
"""

from __future__ import annotations

from dataclasses import dataclass

from neuralsym.cpu.ir import Function
from neuralsym.cpu.machine import Target
from neuralsym.cpu.templates.int8_form import Dot, Int8Text

LOW_BYTES = 0x00FF00FF
SIGNS = 0x80808080


def dot_of(target: Target) -> Dot:
    """How this machine multiplies bytes best."""
    features = set(target.features.split(","))
    wide = target.isa == "avx512" and "+avx512vnni" in features
    return "vnni" if wide or (target.isa == "avx2" and "+avxvnni" in features) else "pairs"


def repeated(value: int, width: int) -> str:
    """The literal of a vector of int32 that are all `value`."""
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return "<" + ", ".join([f"i32 {signed}"] * width) + ">"


@dataclass(frozen=True)
class Dots:
    """The products of one text. `x86`: whether pmaddwd may be named."""

    text: Int8Text
    x86: bool

    def spread(self, f: Function, place: str) -> tuple[str, ...]:
        """The quad at `place` for every lane, as `multiply` takes it."""
        width, kind = self.text.width, self.text.sums
        quad = f.load("i32", place, 1)
        value = f.splat(quad, "i32", width)
        if self.text.flip:
            value = f.value(f"xor {kind} {value}, {repeated(SIGNS, width)}")
        if self.text.dot == "vnni":
            return (value,)
        mask = repeated(LOW_BYTES, width)
        high = f.value(f"lshr {kind} {value}, {repeated(8, width)}")
        return f.value(f"and {kind} {value}, {mask}"), f.value(f"and {kind} {high}, {mask}")

    def weights(self, f: Function, place: str) -> tuple[str, ...]:
        """The weights of one quad for one output vector."""
        kind, size = self.text.sums, 4 * self.text.width
        count = 1 if self.text.dot == "vnni" else 2
        return tuple(f.load(kind, f.at(place, i * size)) for i in range(count))

    def multiply(
        self, f: Function, sums: str, values: tuple[str, ...], weights: tuple[str, ...]
    ) -> str:
        """The sums plus the products of a quad."""
        if self.text.dot == "vnni":
            return self._vnni(f, sums, values[0], weights[0])
        for value, weight in zip(values, weights, strict=True):
            sums = f.value(f"add {self.text.sums} {sums}, {self.pairs(f, value, weight)}")
        return sums

    def single(self, f: Function, place: str) -> str:
        """One byte for each lane, as `pairs` takes it: the depthwise input."""
        width, kind = self.text.width, self.text.sums
        short = f"<{width} x i8>"
        value = f.load(short, place, 1)
        if self.text.flip:
            signs = "<" + ", ".join(["i8 -128"] * width) + ">"
            value = f.value(f"xor {short} {value}, {signs}")
        return f.value(f"zext {short} {value} to {kind}")

    def _vnni(self, f: Function, sums: str, value: str, weight: str) -> str:
        kind = self.text.sums
        name = f"@llvm.x86.avx512.vpdpbusd.{32 * self.text.width}"
        f.module.declarations.add(f"declare {kind} {name}({kind}, {kind}, {kind})")
        return f.value(f"call {kind} {name}({kind} {sums}, {kind} {value}, {kind} {weight})")

    def pairs(self, f: Function, a: str, b: str) -> str:
        """Products of signed 16-bit pairs, added two by two."""
        width, kind = self.text.width, self.text.sums
        short = f"<{2 * width} x i16>"
        sides = [f.value(f"bitcast {kind} {v} to {short}") for v in (a, b)]
        if not self.x86:
            return self._plain_pairs(f, *sides)
        name = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}[width]
        f.module.declarations.add(f"declare {kind} @llvm.x86.{name}({short}, {short})")
        return f.value(f"call {kind} @llvm.x86.{name}({short} {sides[0]}, {short} {sides[1]})")

    def _plain_pairs(self, f: Function, a: str, b: str) -> str:
        width = self.text.width
        short, wide = f"<{2 * width} x i16>", f"<{2 * width} x i32>"
        a, b = (f.value(f"sext {short} {v} to {wide}") for v in (a, b))
        product = f.value(f"mul {wide} {a}, {b}")
        halves = []
        for first in (0, 1):
            lanes = ", ".join(f"i32 {2 * i + first}" for i in range(width))
            halves.append(
                f.value(f"shufflevector {wide} {product}, {wide} poison, <{width} x i32> <{lanes}>")
            )
        return f.value(f"add {self.text.sums} {halves[0]}, {halves[1]}")
