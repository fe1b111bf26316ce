"""The innermost function of a dense convolution: the sums of one tile, kept in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.templates.conv_form import ConvText, ConvWord
from neuralsym.cpu.templates.output_tile import FIRST, LAST, TILE_PARAMETERS, OutputTile


def emit_tile(
    module: Module, text: ConvText, shape: tuple[int, int], vectors: int, name: str
) -> None:
    """Add the function `name`: one tile of `shape` pixels by `vectors` output vectors."""
    _Tile(text, OutputTile(text, *shape, vectors)).emit(module, name)


@dataclass(frozen=True)
class _Tile:
    text: ConvText
    out: OutputTile

    def emit(self, module: Module, name: str) -> None:
        f = module.function(name, TILE_PARAMETERS, "void", True, "noinline")
        text, out = self.text, self.out
        outputs, residuals = out.outputs(f), out.residuals(f)
        for address in outputs:
            f.prefetch(address, write=True)
        for address in residuals:
            f.prefetch(address)
        biases = out.biases(f)
        if text.halves:
            sums = self._reduce(f, ["zeroinitializer"] * (text.halves * out.pixels))
            out.finish(f, self._joined(f, sums, biases), outputs, residuals)
            f.do("ret void")
            return
        if not text.chunked:
            out.finish(f, self._reduce(f, biases * out.pixels), outputs, residuals)
            f.do("ret void")
            return
        # Later chunks start at zero and are added at the end: the sums stay shorter, which keeps
        # their rounding error low, and nothing waits for the output to be read.
        first = f.compare("ne", f.value(f"and i64 %part, {FIRST}"), 0)
        biases = [f.select(first, out.kind, b, "zeroinitializer") for b in biases]
        sums = self._reduce(f, biases * out.pixels)
        kinds = [out.kind] * len(sums)
        joined = list(f.choose(first, kinds, lambda: sums, lambda: out.add(f, sums, outputs)))
        last = f.compare("ne", f.value(f"and i64 %part, {LAST}"), 0)

        def whole() -> list[str]:
            out.finish(f, joined, outputs, residuals)
            return []

        def partial() -> list[str]:
            out.store(f, joined, outputs)
            return []

        f.choose(last, [], whole, partial)
        f.do("ret void")

    def _reduce(self, f: Function, sums: list[str]) -> list[str]:
        """sums + input * weights over all input blocks of the chunk, taps and their inputs."""
        text, out = self.text, self.out
        block, count = f.word(ConvWord.INPUT_BLOCK), f.word(ConvWord.TAP_COUNT)
        short, whole = "0", "%blocks"
        if text.tail:
            short = f.value(f"lshr i64 %part, {LAST.bit_length() - 1}")
            whole = f.sub(whole, short)
        start = [("ptr", "%input"), ("ptr", "%weights"), ("ptr", "%ahead")]
        with f.loop(whole, *start, *((out.kind, s) for s in sums)) as outer:
            source, *now = outer.values
            outer.next(f.at(source, block), *self._taps(f, source, now, count, text.unroll))
        if not text.tail:
            return list(outer.values[3:])
        # The last block of the last chunk holds few channels: the others are not read.
        source, *now = outer.values
        return self._taps(f, source, now, f.mul(count, short), text.tail)[2:]

    def _taps(
        self, f: Function, source: str, carried: Sequence[str], count: str, inputs: int
    ) -> list[str]:
        """The weights, those ahead and the sums after so many taps of one input block."""
        text, out = self.text, self.out
        taps = f.operand(ConvWord.TAPS)
        row_stride = f.word(ConvWord.INPUT_ROW) if out.rows > 1 else "0"
        step_bytes = text.tap_bytes(out.vectors)
        kinds = ["ptr", "ptr", *[out.kind] * (len(carried) - 2)]
        with f.loop(count, *zip(kinds, carried, strict=True)) as inner:
            tap = f.load("i64", f.value(f"getelementptr i64, ptr {taps}, i64 {inner.index}"), 8)
            weights, ahead, *now = inner.values
            bases = [f.at(source, tap)]
            for _ in range(1, out.rows):
                bases.append(f.at(bases[-1], row_stride))
            for u in range(0, inputs, 2 if text.halves else 1):
                now = self._multiply(f, now, bases, weights, u)
                self._fetch(f, ahead, u)
            inner.next(f.at(weights, step_bytes), f.at(ahead, step_bytes), *now)
        return list(inner.values)

    def _multiply(
        self, f: Function, sums: list[str], bases: list[str], weights: str, u: int
    ) -> list[str]:
        """Add the products of input `u` of a tap: each pixel's broadcast times each vector.

        Of halves: of inputs `u` and the next, in even and odd lanes.
        """
        text, out = self.text, self.out
        count, first = (text.halves, u // 2) if text.halves else (out.vectors, u)
        loaded = [
            f.load(out.kind, f.at(weights, (first * count + j) * out.vector_bytes))
            for j in range(count)
        ]
        after: list[str] = []
        for row in range(out.rows):
            for column in range(out.columns):
                value = self._spread(f, f.at(bases[row], column * text.step + 4 * u))
                for weight in loaded:
                    after.append(f.call("fmuladd", out.kind, value, weight, sums[len(after)]))
        return after

    def _spread(self, f: Function, address: str) -> str:
        """An input in all lanes, or two in turns."""
        width = self.text.width
        if not self.text.halves:
            return f.splat(f.load("float", address), "float", width)
        pairs = f.splat(f.load("double", address), "double", width // 2)
        kind = f"<{width // 2} x double>" if width > 2 else "double"
        return f.value(f"bitcast {kind} {pairs} to {self.out.kind}")

    def _joined(self, f: Function, sums: list[str], biases: list[str]) -> list[str]:
        """The sums of even and of odd inputs and the bias added, two halves in a vector."""
        text, out = self.text, self.out
        made: list[str] = []
        for pixel in range(out.pixels):
            own = [*sums[pixel * text.halves : (pixel + 1) * text.halves], "zeroinitializer"]
            for j, bias in enumerate(biases):
                low, high = own[2 * j : 2 * j + 2]
                even, odd = (
                    f.value(
                        f"shufflevector {out.kind} {low}, {out.kind} {high}, "
                        f"<{text.width} x i32> <{_every_second(start, text.width)}>"
                    )
                    for start in (0, 1)
                )
                total = f.value(f"fadd {out.kind} {even}, {odd}")
                made.append(f.value(f"fadd {out.kind} {total}, {bias}"))
        return made

    def _fetch(self, f: Function, ahead: str, u: int) -> None:
        """Fetch one part in `prefetch` of the next chunk's weights, a cache line now and then."""
        text, out = self.text, self.out
        if not text.prefetch:
            return
        size = text.tap_bytes(out.vectors) // text.prefetch
        lines = max(1, size // 64)
        for line in range(u * lines // text.unroll, (u + 1) * lines // text.unroll):
            f.prefetch(f.at(ahead, line * 64), 2)


def _every_second(start: int, width: int) -> str:
    return ", ".join(f"i32 {start + 2 * lane}" for lane in range(width))
