"""From sums to outputs: stored as they are, as real numbers, or scaled, rounded and saturated.

A scaled sum is clamped to bounds that are whole numbers, so rounding and clamping may change
places, and small enough then for the shortest exact rounding there is: added to 1.5 * 2^23, a
float32 has the rounded integer (ties to even) in its low bits. In float64 it is 1.5 * 2^52.
"""

from __future__ import annotations

from dataclasses import dataclass

from neuralsym.cpu.ir import Function
from neuralsym.cpu.templates.epilogue import constant
from neuralsym.cpu.templates.int8_form import Int8Text, Int8Word
from neuralsym.cpu.templates.tiles import tile_places
from neuralsym.dtypes import NumberType

MAGIC = 1.5 * 2.0**23
MAGIC_BITS = 0x4B400000
WIDE_MAGIC = 1.5 * 2.0**52

SIGN = {NumberType.INT8: "sext", NumberType.UINT8: "zext"}


@dataclass(frozen=True)
class Results:
    """`rows` x `columns` pixels of `vectors` output vectors; values are listed pixel by pixel."""

    text: Int8Text
    rows: int
    columns: int
    vectors: int

    @property
    def pixels(self) -> int:
        return self.rows * self.columns

    def biases(self, f: Function) -> list[str]:
        """The bias of each vector."""
        size = 4 * self.text.width
        return [f.load(self.text.sums, f.at("%bias", j * size)) for j in range(self.vectors)]

    def finish(self, f: Function, sums: list[str]) -> None:
        """Store what becomes of the sums, one after the other: each frees its registers."""
        text = self.text
        places = self._places(f, "%output", Int8Word.OUTPUT_BLOCK, Int8Word.OUTPUT_ROW)
        numbers = _Numbers(self, f)
        beside = self._beside(f) if text.residual is not None else places
        masks = []
        if text.ragged:
            masks = [
                f.lane_mask(f.sub("%lanes", j * text.width), text.width)
                for j in range(self.vectors)
            ]
        for i, value in enumerate(sums):
            j = i % self.vectors
            if text.output is NumberType.INT32:
                made = value
            elif text.exact and text.quantised:
                made = numbers.exact(value, j)
            else:
                made = numbers.scaled(value, j)
                if text.quantised:
                    made = numbers.rounded(made, beside[i])
            self._store(f, made, places[i], masks[j] if masks else None)

    # -- memory ----------------------------------------------------------------------------
    def _store(self, f: Function, value: str, place: str, mask: str | None) -> None:
        text = self.text
        element = {NumberType.INT32: "i32", NumberType.FLOAT32: "float"}.get(text.output, "i8")
        kind, align = f"<{text.width} x {element}>", text.output.itemsize
        if mask is not None and text.rows_only:
            f.masked_store(kind, value, place, mask, align)
            return
        if mask is not None:
            lanes = f"<{text.width} x i1>"
            value = f.value(f"select {lanes} {mask}, {kind} {value}, {kind} zeroinitializer")
        f.store(kind, value, place, align)

    def _beside(self, f: Function) -> list[str]:
        """Addresses of the residual's vectors."""
        return self._places(f, "%residual", Int8Word.RESIDUAL_BLOCK, Int8Word.RESIDUAL_ROW, 1)

    def _places(
        self, f: Function, base: str, block: Int8Word, row: Int8Word, itemsize: int | None = None
    ) -> list[str]:
        """Addresses of the tile's vectors, in blocks (or in rows, with one column)."""
        size = self.text.width * (itemsize or self.text.output.itemsize)
        block_stride = f.word(block) if self.vectors > 1 else "0"
        row_stride = f.word(row) if self.rows > 1 else "0"
        tile = self.rows, self.columns, self.vectors
        return tile_places(f, base, tile, row_stride, size, block_stride)


class _Numbers:
    """The formulas of a tile; their constants are loaded once."""

    def __init__(self, out: Results, f: Function) -> None:
        self.text, self.f = out.text, f
        text = out.text
        if text.output is NumberType.INT32:
            return
        first, size = f.at("%bias", f.word(Int8Word.SCALES)), 4 * text.width
        self.scales = [f.load(text.reals, f.at(first, j * size)) for j in range(out.vectors)]
        if not text.quantised:
            return
        self.bounds = self._number(Int8Word.LOW), self._number(Int8Word.HIGH)
        if text.exact:
            double = f"<{text.width} x double>"
            self.wide = [f.value(f"fpext {text.reals} {s} to {double}") for s in self.scales]
            self.wide_bounds = [f.value(f"fpext {text.reals} {b} to {double}") for b in self.bounds]
        if text.residual is not None:
            words = (Int8Word.KEEP, Int8Word.OTHER, Int8Word.OTHER_ZERO)
            self.keep, self.other, self.other_zero = map(self._number, words)
            self.sum_bounds = self._number(Int8Word.SUM_LOW), self._number(Int8Word.SUM_HIGH)
        last = Int8Word.OFFSET if text.residual is None else Int8Word.SUM_OFFSET
        self.offset = f.splat(f.load("i32", f.at("%desc", 8 * last)), "i32", text.width)

    def scaled(self, value: str, j: int) -> str:
        """The sum times the scale of its channel."""
        kind = self.text.reals
        real = self.f.value(f"sitofp {self.text.sums} {value} to {kind}")
        return self.f.value(f"fmul {kind} {real}, {self.scales[j]}")

    def rounded(self, value: str, place: str) -> str:
        """Integers as bytes of the output type, with the residual at `place` added."""
        f, text, kind = self.f, self.text, self.text.reals
        value = self._between(value, kind, *self.bounds)
        magic = constant(MAGIC, text.width)
        if text.residual is not None:
            own = self._whole(value)
            own = f.call("fmuladd", kind, own, self.keep, self.other_zero)
            short = f.load(f"<{text.width} x i8>", place, 1)
            wide = f.value(f"{SIGN[text.residual]} <{text.width} x i8> {short} to {text.sums}")
            beside = f.value(f"sitofp {text.sums} {wide} to {kind}")
            value = f.call("fmuladd", kind, beside, self.other, own)
            value = self._between(value, kind, *self.sum_bounds)
        high = f.value(f"fadd {kind} {value}, {magic}")
        bits = f.value(f"bitcast {kind} {high} to {text.sums}")
        whole = f.value(f"add {text.sums} {bits}, {self.offset}")
        return f.value(f"trunc {text.sums} {whole} to <{text.width} x i8>")

    def _whole(self, value: str) -> str:
        """The nearest whole number, as a float32; the smallest vectors may lack the instruction."""
        f, kind = self.f, self.text.reals
        if self.text.width > 4:
            return f.call("rint", kind, value)
        magic = constant(MAGIC, self.text.width)
        high = f.value(f"fadd {kind} {value}, {magic}")
        return f.value(f"fsub {kind} {high}, {magic}")

    def exact(self, value: str, j: int) -> str:
        """The sum scaled in float64, rounded, as bytes of the output type."""
        f, text = self.f, self.text
        double, long = f"<{text.width} x double>", f"<{text.width} x i64>"
        wide = f.value(f"sitofp {text.sums} {value} to {double}")
        wide = f.value(f"fmul {double} {wide}, {self.wide[j]}")
        wide = self._between(wide, double, *self.wide_bounds)
        magic = constant(WIDE_MAGIC, text.width, "double")
        wide = f.value(f"fadd {double} {wide}, {magic}")
        bits = f.value(f"bitcast {double} {wide} to {long}")
        whole = f.value(f"trunc {long} {bits} to {text.sums}")
        whole = f.value(f"add {text.sums} {whole}, {self.offset}")
        return f.value(f"trunc {text.sums} {whole} to <{text.width} x i8>")

    def _between(self, value: str, kind: str, least: str, most: str) -> str:
        """min(max(value, least), most); a NaN becomes `least`, as QuantizeLinear has it."""
        f, lanes = self.f, f"<{self.text.width} x i1>"
        above = f.value(f"fcmp ogt {kind} {value}, {least}")
        value = f.value(f"select {lanes} {above}, {kind} {value}, {kind} {least}")
        below = f.value(f"fcmp olt {kind} {value}, {most}")
        return f.value(f"select {lanes} {below}, {kind} {value}, {kind} {most}")

    def _number(self, word: Int8Word) -> str:
        f = self.f
        return f.splat(f.load("float", f.at("%desc", 8 * word)), "float", self.text.width)
