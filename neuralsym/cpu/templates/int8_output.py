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
from neuralsym.dtypes import NumberType

MAGIC = 1.5 * 2.0**23
MAGIC_BITS = 0x4B400000
WIDE_MAGIC = 1.5 * 2.0**52

SIGN = {NumberType.INT8: "sext", NumberType.UINT8: "zext"}
TO_REAL = {NumberType.INT8: "sitofp", NumberType.UINT8: "uitofp"}


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
        """Store what becomes of the sums."""
        text = self.text
        places = self._places(f, "%output", Int8Word.OUTPUT_BLOCK, Int8Word.OUTPUT_ROW)
        if text.output is NumberType.INT32:
            values = sums
        elif text.exact and text.quantised:
            values = self._exact(f, sums)
        else:
            values = self._scaled(f, sums)
            if text.quantised:
                values = self._rounded(f, values)
        self._store(f, values, places)

    # -- values ----------------------------------------------------------------------------
    def _scaled(self, f: Function, sums: list[str]) -> list[str]:
        kind, scales = self.text.reals, self._scales(f)
        real = [f.value(f"sitofp {self.text.sums} {s} to {kind}") for s in sums]
        return [f.value(f"fmul {kind} {v}, {scales[i % self.vectors]}") for i, v in enumerate(real)]

    def _scales(self, f: Function) -> list[str]:
        first = f.at("%bias", f.word(Int8Word.SCALES))
        size = 4 * self.text.width
        return [f.load(self.text.reals, f.at(first, j * size)) for j in range(self.vectors)]

    def _rounded(self, f: Function, values: list[str]) -> list[str]:
        """Integers as bytes of the output type, with the residual added."""
        text, kind = self.text, self.text.reals
        magic = constant(MAGIC, text.width)
        values = self._clamped(f, values, Int8Word.LOW, Int8Word.HIGH)
        if text.residual is None:
            return self._integers(f, values, Int8Word.OFFSET)
        keep, other, zero = (
            self._number(f, w) for w in (Int8Word.KEEP, Int8Word.OTHER, Int8Word.OTHER_ZERO)
        )
        places = self._places(f, "%residual", Int8Word.RESIDUAL_BLOCK, Int8Word.RESIDUAL_ROW, 1)
        sums = []
        for value, place in zip(values, places, strict=True):
            high = f.value(f"fadd {kind} {value}, {magic}")
            own = f.value(f"fsub {kind} {high}, {magic}")
            own = f.value(f"fmul {kind} {own}, {keep}")
            short = f.load(f"<{text.width} x i8>", place, 1)
            wide = f.value(f"{SIGN[text.residual]} <{text.width} x i8> {short} to {text.sums}")
            beside = f.value(f"sitofp {text.sums} {wide} to {kind}")
            beside = f.value(f"fsub {kind} {beside}, {zero}")
            sums.append(f.call("fmuladd", kind, beside, other, own))
        sums = self._clamped(f, sums, Int8Word.SUM_LOW, Int8Word.SUM_HIGH)
        return self._integers(f, sums, Int8Word.SUM_OFFSET)

    def _integers(self, f: Function, values: list[str], offset: Int8Word) -> list[str]:
        text, kind = self.text, self.text.reals
        magic = constant(MAGIC, text.width)
        shift = f.splat(f.load("i32", f.at("%desc", 8 * offset)), "i32", text.width)
        made = []
        for value in values:
            high = f.value(f"fadd {kind} {value}, {magic}")
            bits = f.value(f"bitcast {kind} {high} to {text.sums}")
            whole = f.value(f"add {text.sums} {bits}, {shift}")
            made.append(f.value(f"trunc {text.sums} {whole} to <{text.width} x i8>"))
        return made

    def _exact(self, f: Function, sums: list[str]) -> list[str]:
        text = self.text
        double, long = f"<{text.width} x double>", f"<{text.width} x i64>"
        scales = [f.value(f"fpext {text.reals} {s} to {double}") for s in self._scales(f)]
        bounds = [
            f.value(f"fpext {text.reals} {self._number(f, w)} to {double}")
            for w in (Int8Word.LOW, Int8Word.HIGH)
        ]
        magic = constant(WIDE_MAGIC, text.width, "double")
        at = f.at("%desc", 8 * Int8Word.OFFSET)
        shift = f.splat(f.load("i32", at), "i32", text.width)
        made = []
        for i, value in enumerate(sums):
            wide = f.value(f"sitofp {text.sums} {value} to {double}")
            wide = f.value(f"fmul {double} {wide}, {scales[i % self.vectors]}")
            wide = self._between(f, wide, double, bounds[0], bounds[1])
            wide = f.value(f"fadd {double} {wide}, {magic}")
            bits = f.value(f"bitcast {double} {wide} to {long}")
            whole = f.value(f"trunc {long} {bits} to {text.sums}")
            whole = f.value(f"add {text.sums} {whole}, {shift}")
            made.append(f.value(f"trunc {text.sums} {whole} to <{text.width} x i8>"))
        return made

    def _clamped(self, f: Function, values: list[str], low: Int8Word, high: Int8Word) -> list[str]:
        least, most = self._number(f, low), self._number(f, high)
        return [self._between(f, v, self.text.reals, least, most) for v in values]

    def _between(self, f: Function, value: str, kind: str, least: str, most: str) -> str:
        """min(max(value, least), most); a NaN becomes `least`, as QuantizeLinear has it."""
        lanes = f"<{self.text.width} x i1>"
        above = f.value(f"fcmp ogt {kind} {value}, {least}")
        value = f.value(f"select {lanes} {above}, {kind} {value}, {kind} {least}")
        below = f.value(f"fcmp olt {kind} {value}, {most}")
        return f.value(f"select {lanes} {below}, {kind} {value}, {kind} {most}")

    def _number(self, f: Function, word: Int8Word) -> str:
        return f.splat(f.load("float", f.at("%desc", 8 * word)), "float", self.text.width)

    # -- memory ----------------------------------------------------------------------------
    def _store(self, f: Function, values: list[str], places: list[str]) -> None:
        text = self.text
        element = {NumberType.INT32: "i32", NumberType.FLOAT32: "float"}.get(text.output, "i8")
        kind, align = f"<{text.width} x {element}>", text.output.itemsize
        masks = []
        if text.ragged:
            masks = [
                f.lane_mask(f.sub("%lanes", j * text.width), text.width)
                for j in range(self.vectors)
            ]
        for i, (value, place) in enumerate(zip(values, places, strict=True)):
            if masks and text.rows_only:
                f.masked_store(kind, value, place, masks[i % self.vectors], align)
                continue
            if masks:
                mask = masks[i % self.vectors]
                lanes = f"<{text.width} x i1>"
                value = f.value(f"select {lanes} {mask}, {kind} {value}, {kind} zeroinitializer")
            f.store(kind, value, place, align)

    def _places(
        self, f: Function, base: str, block: Int8Word, row: Int8Word, itemsize: int | None = None
    ) -> list[str]:
        """Addresses of the tile's vectors, in blocks (or in rows, with one column)."""
        size = self.text.width * (itemsize or self.text.output.itemsize)
        block_stride = f.word(block) if self.vectors > 1 else "0"
        row_stride = f.word(row) if self.rows > 1 else "0"
        bases = [base]
        for _ in range(1, self.vectors):
            bases.append(f.at(bases[-1], block_stride))
        rows = [bases]
        for _ in range(1, self.rows):
            rows.append([f.at(b, row_stride) for b in rows[-1]])
        return [
            f.at(rows[i][j], c * size)
            for i in range(self.rows)
            for c in range(self.columns)
            for j in range(self.vectors)
        ]
