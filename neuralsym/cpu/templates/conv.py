"""Direct convolution over blocks of channels, as one kernel of the kernel ABI.

    for each block of output channels, chunk of input channels, batch entry, tile of pixels:
        sums[pixels][vectors] = bias
        for each input block, tap:  for each of its channels:
            sums += broadcast(input[pixel * step + tap]) * weights[vectors]
        output[pixels][vectors] = activation(sums + residual)

The input has a physical halo, so a window never leaves its buffer and there are no edge cases.
Loops over tiles and blocks walk tables (see `conv_plan`); the text holds shapes of tiles only.
The descriptor is described in `conv_form`.
"""

from __future__ import annotations

from dataclasses import dataclass

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.templates.conv_form import BLOCK_COLUMNS, TILE_COLUMNS, ConvText, ConvWord
from neuralsym.cpu.templates.conv_tile import emit_tile
from neuralsym.cpu.templates.depthwise import emit_depthwise_tile
from neuralsym.cpu.templates.output_tile import FIRST, LAST, TILE_PARAMETERS
from neuralsym.cpu.templates.tiles import dispatch, outer_loop, row_of


def conv_text(text: ConvText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`, a whole convolution."""
    module = Module()
    kernel = module.function(name)
    cases = []
    for vectors in text.vectors:
        for index, shape in enumerate(text.tiles):
            cases.append(f"tile_{index}_{vectors}")
            if text.depthwise:
                emit_depthwise_tile(module, text, shape, cases[-1])
            else:
                emit_tile(module, text, shape, vectors, cases[-1])
    walk(kernel, text, cases)
    kernel.do("ret i32 0")
    return str(module)


@dataclass(frozen=True)
class _Block:
    """A block of output channels: where its operands start."""

    source: str
    weights: str
    bias: str
    target: str
    residual: str
    input_bytes: str
    lanes: str
    slot: str


@dataclass(frozen=True)
class _Place:
    """A tile of pixels of one batch entry: offsets into the operands."""

    source: str
    target: str
    residual: str
    slot: str


def walk(f: Function, text: ConvText, cases: list[str]) -> None:
    """The loops around the tiles, over this worker's share of them.

    cases: the tile functions, for each count of vectors one for each shape.
    """
    walker = _Walker(f, text, cases, {w: f.word(w) for w in ConvWord})
    if text.order == "pixels":
        walker.pixels_outside()
    else:
        walker.weights_outside()


@dataclass(frozen=True)
class _Walker:
    f: Function
    text: ConvText
    cases: list[str]
    word: dict[ConvWord, str]

    def pixels_outside(self) -> None:
        """A tile stays in the first-level cache while all weights pass by."""
        f, word = self.f, self.word
        tiles = word[ConvWord.TILE_COUNT]
        low, high = f.share(f.mul(word[ConvWord.BATCH], tiles))
        with (
            outer_loop(f, low, high, tiles) as (batch, start, stop),
            f.loop(stop, start=start) as at,
        ):
            place = self._place(batch, at.index)
            with f.loop(word[ConvWord.BLOCK_COUNT]) as each:
                block = self._block(each.index)
                every = word[ConvWord.INPUT_BLOCKS]
                part = str(FIRST | LAST)
                self._run(block, place, block.source, block.weights, every, part, block.weights)

    def weights_outside(self) -> None:
        """A chunk of weights stays in cache while all pixels pass by."""
        f, word, text = self.f, self.word, self.text
        tiles, total = word[ConvWord.TILE_COUNT], word[ConvWord.INPUT_BLOCKS]
        places = f.mul(word[ConvWord.BATCH], tiles)
        low, high = f.share(f.mul(word[ConvWord.BLOCK_COUNT], places))
        step = word[ConvWord.CHUNK] if text.chunked else total
        chunks = f.sdiv(f.add(total, f.sub(step, 1)), step)
        with (
            outer_loop(f, low, high, places) as (number, start, stop),
            f.loop(chunks) as chunk,
        ):
            block = self._block(number)
            first = f.mul(chunk.index, step)
            left = f.sub(total, first)
            count = f.minimum(step, left)
            here = f.at(block.weights, f.mul(first, block.input_bytes))
            beyond = f.at(here, f.mul(count, block.input_bytes))
            source = f.at(block.source, f.mul(first, word[ConvWord.INPUT_BLOCK]))
            is_first = f.value(f"zext i1 {f.compare('eq', first, 0)} to i64")
            is_last = f.value(f"zext i1 {f.compare('sle', left, step)} to i64")
            part = f.add(f.mul(is_first, FIRST), f.mul(is_last, LAST))
            with (
                outer_loop(f, start, stop, tiles) as (batch, low_tile, high_tile),
                f.loop(high_tile, start=low_tile) as at,
            ):
                ahead = self._ahead(beyond, at.index, block.slot)
                place = self._place(batch, at.index)
                self._run(block, place, source, here, count, part, ahead)

    def _block(self, index: str) -> _Block:
        f, word, width = self.f, self.word, self.text.width
        table = f.operand(ConvWord.BLOCKS)
        first, offset, vector, size, slot = row_of(f, table, index, BLOCK_COLUMNS, 5)
        return _Block(
            source=f.at(f.operand(ConvWord.INPUT), f.mul(first, word[ConvWord.INPUT_BLOCK])),
            weights=f.at(f.operand(ConvWord.WEIGHTS), offset),
            bias=f.at(f.operand(ConvWord.BIAS), f.mul(vector, 4 * width)),
            target=f.at(f.operand(ConvWord.OUTPUT), f.mul(vector, word[ConvWord.OUTPUT_BLOCK])),
            residual=f.at(
                f.operand(ConvWord.RESIDUAL), f.mul(vector, word[ConvWord.RESIDUAL_BLOCK])
            ),
            input_bytes=size,
            lanes=f.sub(word[ConvWord.OUTPUT_CHANNELS], f.mul(vector, width)),
            slot=slot,
        )

    def _place(self, batch: str, index: str) -> _Place:
        f, word = self.f, self.word
        entry = row_of(f, f.operand(ConvWord.TILES), index, TILE_COLUMNS, 4)
        strides = (ConvWord.INPUT_BATCH, ConvWord.OUTPUT_BATCH, ConvWord.RESIDUAL_BATCH)
        source, target, residual = (
            f.add(offset, f.mul(batch, word[w])) for offset, w in zip(entry, strides, strict=False)
        )
        return _Place(source, target, residual, entry[3])

    def _run(
        self,
        block: _Block,
        place: _Place,
        source: str,
        weights: str,
        count: str,
        part: str,
        ahead: str,
    ) -> None:
        """Call the tile function for this block's vectors and this place's shape."""
        f = self.f
        values = (
            "%desc",
            f.at(source, place.source),
            weights,
            block.bias,
            f.at(block.target, place.target),
            f.at(block.residual, place.residual),
            ahead,
            count,
            block.lanes,
            part,
        )
        pairs = zip(TILE_PARAMETERS, values, strict=True)
        arguments = ", ".join(f"{kind} {value}" for (_, kind), value in pairs)
        slot = f.add(f.mul(block.slot, len(self.text.tiles)), place.slot)
        cases = self.cases
        dispatch(f, slot, len(cases), lambda i: f.do(f"call void @{cases[i]}({arguments})"))

    def _ahead(self, beyond: str, tile: str, slot: str) -> str:
        """Where this tile's part of the next chunk's weights begins."""
        f, text = self.f, self.text
        if not text.prefetch:
            return beyond
        # Of each tap's weights every tile fetches another part.
        sizes = [text.unroll * v * text.width * 4 // text.prefetch for v in text.vectors]
        size = str(sizes[0])
        for index, other in enumerate(sizes[1:], 1):
            size = f.select(f.compare("eq", slot, index), "i64", other, size)
        share = f.value(f"and i64 {tile}, {text.prefetch - 1}")
        return f.at(beyond, f.mul(share, size))
