"""Integer convolutions and matrix products as one kernel of the kernel ABI (see `int8_form`).

for each block of output channels, batch entry, tile of pixels:
    sums[pixels][vectors] = bias
    for each input block, tap:  for each quad of its channels:
        sums += dot(broadcast(input[pixel * step + tap]), weights[vectors])
    output[pixels][vectors] = finish(sums)
"""

from __future__ import annotations

from dataclasses import dataclass

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.templates.int8_dot import Dots
from neuralsym.cpu.templates.int8_form import (
    BLOCK_COLUMNS,
    QUAD,
    TILE_COLUMNS,
    Int8Text,
    Int8Word,
)
from neuralsym.cpu.templates.int8_output import Results
from neuralsym.cpu.templates.tiles import dispatch, outer_loop, row_of

PARAMETERS = (
    ("desc", "ptr"),
    ("input", "ptr"),
    ("weights", "ptr"),
    ("bias", "ptr"),
    ("output", "ptr"),
    ("residual", "ptr"),
    ("ahead", "ptr"),
    ("lanes", "i64"),
)


def int8_text(text: Int8Text, x86: bool, name: str = "kernel") -> str:
    """The IR text of the kernel `name`; x86: whether instructions of x86 may be named."""
    module = Module()
    kernel = module.function(name)
    cases = []
    for vectors in text.vectors:
        for index, shape in enumerate(text.tiles):
            cases.append(f"tile_{index}_{vectors}")
            _Tile(text, Results(text, *shape, vectors), Dots(text, x86)).emit(module, cases[-1])
    _Walker(kernel, text, cases).emit()
    kernel.do("ret i32 0")
    return str(module)


@dataclass(frozen=True)
class _Tile:
    """One tile of pixels by output vectors, whose sums stay in registers."""

    text: Int8Text
    out: Results
    dots: Dots

    def emit(self, module: Module, name: str) -> None:
        f = module.function(name, PARAMETERS, "void", True, "noinline")
        sums = self.out.biases(f) * self.out.pixels
        reduce = self._depthwise if self.text.depthwise else self._dense
        self.out.finish(f, reduce(f, sums))
        f.do("ret void")

    def _dense(self, f: Function, sums: list[str]) -> list[str]:
        text, out = self.text, self.out
        taps, count = f.operand(Int8Word.TAPS), f.word(Int8Word.TAP_COUNT)
        blocks, block = f.word(Int8Word.INPUT_BLOCKS), f.word(Int8Word.INPUT_BLOCK)
        step_bytes = text.unroll * out.vectors * text.weight_vector
        start = [("ptr", "%input"), ("ptr", "%weights"), ("ptr", "%ahead")]
        with f.loop(blocks, *start, *((text.sums, s) for s in sums)) as outer:
            source, weights, ahead, *now = outer.values
            carried = (("ptr", weights), ("ptr", ahead), *((text.sums, s) for s in now))
            with f.loop(count, *carried) as inner:
                weights, ahead, *now = inner.values
                bases = self._bases(f, source, taps, inner.index)
                for u in range(text.unroll):
                    now = self._multiply(f, now, bases, weights, u)
                    self._fetch(f, ahead, u)
                inner.next(f.at(weights, step_bytes), f.at(ahead, step_bytes), *now)
            weights, ahead, *now = inner.values
            outer.next(f.at(source, block), weights, ahead, *now)
        return list(outer.values[3:])

    def _bases(self, f: Function, source: str, taps: str, index: str) -> list[str]:
        """Where the rows of the tile have their inputs under a tap."""
        tap = f.load("i64", f.value(f"getelementptr i64, ptr {taps}, i64 {index}"), 8)
        stride = f.word(Int8Word.INPUT_ROW) if self.out.rows > 1 else "0"
        bases = [f.at(source, tap)]
        for _ in range(1, self.out.rows):
            bases.append(f.at(bases[-1], stride))
        return bases

    def _multiply(
        self, f: Function, sums: list[str], bases: list[str], weights: str, u: int
    ) -> list[str]:
        text, out, dots = self.text, self.out, self.dots
        size = text.weight_vector
        loaded = [
            dots.weights(f, f.at(weights, (u * out.vectors + j) * size)) for j in range(out.vectors)
        ]
        after: list[str] = []
        for base in bases:
            for column in range(out.columns):
                values = dots.spread(f, f.at(base, column * text.step + QUAD * u))
                for weight in loaded:
                    after.append(dots.multiply(f, sums[len(after)], values, weight))
        return after

    def _fetch(self, f: Function, ahead: str, u: int) -> None:
        """Fetch one part in `prefetch` of the next block's weights, a cache line now and then."""
        text = self.text
        if not text.prefetch:
            return
        size = text.unroll * self.out.vectors * text.weight_vector // text.prefetch
        lines = max(1, size // 64)
        for line in range(u * lines // text.unroll, (u + 1) * lines // text.unroll):
            f.prefetch(f.at(ahead, line * 64), 2)

    def _depthwise(self, f: Function, sums: list[str]) -> list[str]:
        text, out = self.text, self.out
        taps, count = f.operand(Int8Word.TAPS), f.word(Int8Word.TAP_COUNT)
        with f.loop(count, *((text.sums, s) for s in sums)) as loop:
            at = f.at("%weights", f.mul(loop.index, text.weight_vector))
            weight = f.load(text.sums, at)
            after: list[str] = []
            for base in self._bases(f, "%input", taps, loop.index):
                for column in range(out.columns):
                    value = self.dots.single(f, f.at(base, column * text.step))
                    product = self.dots.pairs(f, value, weight)
                    sums_before = loop.values[len(after)]
                    after.append(f.value(f"add {text.sums} {sums_before}, {product}"))
            loop.next(*after)
        return list(loop.values)


@dataclass(frozen=True)
class _Block:
    """A block of output channels: where its operands start."""

    source: str
    weights: str
    bias: str
    target: str
    residual: str
    beyond: str
    lanes: str
    slot: str


@dataclass(frozen=True)
class _Walker:
    """The loops around the tiles, over this worker's share of them."""

    f: Function
    text: Int8Text
    cases: list[str]

    def emit(self) -> None:
        if self.text.order == "pixels":
            self._pixels_outside()
        else:
            self._weights_outside()

    def _pixels_outside(self) -> None:
        """A tile stays in the first-level cache while all weights pass by."""
        f = self.f
        tiles = f.word(Int8Word.TILE_COUNT)
        low, high = f.share(f.mul(f.word(Int8Word.BATCH), tiles))
        with (
            outer_loop(f, low, high, tiles) as (batch, start, stop),
            f.loop(stop, start=start) as at,
        ):
            place = self._place(batch, at.index)
            with f.loop(f.word(Int8Word.BLOCK_COUNT)) as each:
                block = self._block(each.index)
                self._run(block, place, block.weights)

    def _weights_outside(self) -> None:
        """A block's weights stay in cache while all pixels pass by."""
        f = self.f
        tiles = f.word(Int8Word.TILE_COUNT)
        places = f.mul(f.word(Int8Word.BATCH), tiles)
        low, high = f.share(f.mul(f.word(Int8Word.BLOCK_COUNT), places))
        with outer_loop(f, low, high, places) as (number, start, stop):
            block = self._block(number)
            with (
                outer_loop(f, start, stop, tiles) as (batch, low_tile, high_tile),
                f.loop(high_tile, start=low_tile) as at,
            ):
                self._run(block, self._place(batch, at.index), self._ahead(block, at.index))

    def _block(self, index: str) -> _Block:
        f, width = self.f, self.text.width
        table = f.operand(Int8Word.BLOCKS)
        first, offset, vector, size, slot = row_of(f, table, index, BLOCK_COLUMNS, 5)
        weights = f.at(f.operand(Int8Word.WEIGHTS), offset)
        inputs = f.mul(first, f.word(Int8Word.INPUT_BLOCK))
        outputs = f.mul(vector, f.word(Int8Word.OUTPUT_BLOCK))
        beside = f.mul(vector, f.word(Int8Word.RESIDUAL_BLOCK))
        return _Block(
            source=f.at(f.operand(Int8Word.INPUT), inputs),
            weights=weights,
            bias=f.at(f.operand(Int8Word.BIAS), f.mul(vector, 4 * width)),
            target=f.at(f.operand(Int8Word.OUTPUT), outputs),
            residual=f.at(f.operand(Int8Word.RESIDUAL), beside),
            beyond=f.at(weights, f.mul(size, f.word(Int8Word.INPUT_BLOCKS))),
            lanes=f.sub(f.word(Int8Word.OUTPUT_CHANNELS), f.mul(vector, width)),
            slot=slot,
        )

    def _place(self, batch: str, index: str) -> list[str]:
        """Offsets of a tile in input, output and residual, and the number of its shape."""
        f = self.f
        entry = row_of(f, f.operand(Int8Word.TILES), index, TILE_COLUMNS, 4)
        strides = (Int8Word.INPUT_BATCH, Int8Word.OUTPUT_BATCH, Int8Word.RESIDUAL_BATCH)
        offsets = [
            f.add(offset, f.mul(batch, f.word(w)))
            for offset, w in zip(entry, strides, strict=False)
        ]
        return [*offsets, entry[3]]

    def _run(self, block: _Block, place: list[str], ahead: str) -> None:
        """Call the tile function for this block's vectors and this place's shape."""
        f, cases = self.f, self.cases
        source, target, residual, shape = place
        values = (
            "%desc",
            f.at(block.source, source),
            block.weights,
            block.bias,
            f.at(block.target, target),
            f.at(block.residual, residual),
            ahead,
            block.lanes,
        )
        pairs = zip(PARAMETERS, values, strict=True)
        arguments = ", ".join(f"{kind} {value}" for (_, kind), value in pairs)
        slot = f.add(f.mul(block.slot, len(self.text.tiles)), shape)
        dispatch(f, slot, len(cases), lambda i: f.do(f"call void @{cases[i]}({arguments})"))

    def _ahead(self, block: _Block, tile: str) -> str:
        """Where this tile's part of the next block's weights begins."""
        f, text = self.f, self.text
        if not text.prefetch:
            return block.beyond
        sizes = [text.unroll * v * text.weight_vector // text.prefetch for v in text.vectors]
        size = str(sizes[0])
        for index, other in enumerate(sizes[1:], 1):
            size = f.select(f.compare("eq", block.slot, index), "i64", other, size)
        share = f.value(f"and i64 {tile}, {text.prefetch - 1}")
        return f.at(block.beyond, f.mul(share, size))
