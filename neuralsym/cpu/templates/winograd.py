"""Winograd convolution over blocks of channels, as one kernel of the kernel ABI.

    for each block of panels of tiles, which stays in the second-level cache:
        inputs[place][panel] = B^T d B                  of all channels
        for each group of output vectors:
            for each place, panel:  products[place][panel] = inputs * weights[group][place]
            output = activation(A^T products A + bias + residual)

A tile is a few output pixels of one image (4 x 4 of a 3 x 3 filter: 36 places in place of 144
products); a panel is as many tiles as have their sums in registers. What a worker does is a range
of (block, group); each result is the same sum whoever makes it. The input has a halo for the
filter's own border; past the tiles' last rows and columns zeros are read and nothing is stored.
The descriptor is described in `winograd_form`, how sizes lead to it in `winograd_plan`; errors are
bounded in `winograd_choice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.templates.tiles import dispatch, outer_loop, row_of
from neuralsym.cpu.templates.winograd_form import (
    GROUP_COLUMNS,
    PANEL_COLUMNS,
    SPARE,
    TILE_COLUMNS,
    WinogradText,
    WinogradWord,
)
from neuralsym.cpu.templates.winograd_tile import (
    INPUT_PARAMETERS,
    OUTPUT_PARAMETERS,
    PRODUCT_PARAMETERS,
    emit_input,
    emit_output,
    emit_product,
)


def winograd_text(text: WinogradText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`, a whole convolution."""
    module = Module()
    kernel = module.function(name)
    for edge in (False, True)[: 1 + text.edges]:
        emit_input(module, text, f"tile_in_{edge:d}", edge)
        emit_output(module, text, f"tile_out_{edge:d}", edge)
    for vectors in text.vectors:
        for tiles in text.tiles:
            emit_product(module, text, tiles, vectors, f"products_{tiles}_{vectors}")
    _Walker(kernel, text, {w: kernel.word(w) for w in WinogradWord}).walk()
    kernel.do("ret i32 0")
    return str(module)


@dataclass(frozen=True)
class _Tile:
    """A tile of an image: offsets of its operands, and how much of it there is."""

    source: str
    target: str
    residual: str
    has: list[str]
    wants: list[str]


@dataclass(frozen=True)
class _Walker:
    f: Function
    text: WinogradText
    word: dict[WinogradWord, str]

    def walk(self) -> None:
        f, word = self.f, self.word
        worker = f.value("sext i32 %worker to i64")
        scratch = f.at(
            f.operand(WinogradWord.SCRATCH), f.mul(worker, word[WinogradWord.SCRATCH_BYTES])
        )
        f.store(self.text.kind, "zeroinitializer", scratch)
        inputs = f.at(scratch, SPARE)
        products = f.at(scratch, word[WinogradWord.PRODUCTS])
        groups, blocks = word[WinogradWord.GROUP_COUNT], word[WinogradWord.BLOCK_COUNT]
        panels = word[WinogradWord.PANEL_COUNT]
        low, high = f.share(f.mul(blocks, groups))
        with outer_loop(f, low, high, groups) as (block, start, stop):
            first = f.sdiv(f.mul(panels, block), blocks)
            past = f.sdiv(f.mul(panels, f.add(block, 1)), blocks)
            self._transform(first, past, inputs, scratch)
            with f.loop(stop, start=start) as group:
                self._group(group.index, first, past, inputs, products, scratch)

    def _transform(self, first: str, past: str, inputs: str, scratch: str) -> None:
        """The tiles of the block's panels into the scratch."""
        f, size = self.f, self.text.vector_bytes
        with f.loop(past, start=first) as panel:
            target = f.at(inputs, f.mul(f.sub(panel.index, first), self._panel_bytes()))
            low, _, high = self._tiles_of(panel.index)
            with f.loop(high, ("ptr", target), start=low) as each:
                tile = self._tile(each.index)
                source = f.at(f.operand(WinogradWord.INPUT), tile.source)
                values = ("%desc", source, each.values[0], scratch, *tile.has)
                sizes = (self.text.rows.size, self.text.columns.size)
                self._tile_call("tile_in", INPUT_PARAMETERS, values, tile.has, sizes)
                each.next(f.at(each.values[0], size))

    def _group(
        self, group: str, first: str, past: str, inputs: str, products: str, scratch: str
    ) -> None:
        """The products and results of one group of output vectors."""
        f, text, word = self.f, self.text, self.word
        offset, vector, slot = row_of(f, f.operand(WinogradWord.GROUPS), group, GROUP_COLUMNS, 3)
        vectors = self._by_count(slot, text.vectors)
        pixel = f.mul(vectors, text.vector_bytes)
        step = f.mul(f.mul(pixel, text.width), word[WinogradWord.INPUT_BLOCKS])
        part = self._by_count(slot, [64 * text.fetched_lines(v) for v in text.vectors])
        start, *_ = self._tiles_of(first)
        weights = f.at(f.operand(WinogradWord.WEIGHTS), offset)
        carried = (("ptr", weights), ("ptr", inputs), ("ptr", products))
        with f.loop(text.places, *carried) as place:
            weights, source, target = place.values
            beyond = f.at(weights, step)
            with f.loop(past, ("ptr", source), start=first) as panel:
                low, size, _ = self._tiles_of(panel.index)
                turn = f.srem(f.sub(panel.index, first), text.prefetch)
                values = (
                    panel.values[0],
                    weights,
                    f.at(target, f.mul(f.sub(low, start), pixel)),
                    f.at(beyond, f.mul(turn, part)),
                    word[WinogradWord.INPUT_BLOCKS],
                )
                self._product_call(slot, size, values)
                panel.next(f.at(panel.values[0], self._panel_bytes()))
            place.next(
                beyond,
                f.at(source, word[WinogradWord.INPUT_PLACE]),
                f.at(target, word[WinogradWord.PRODUCT_PLACE]),
            )
        self._results(vector, vectors, start, self._tiles_of(past)[0], products, scratch)

    def _results(
        self, vector: str, vectors: str, start: str, stop: str, products: str, scratch: str
    ) -> None:
        f, text, word = self.f, self.text, self.word
        bias = f.at(f.operand(WinogradWord.BIAS), f.mul(vector, text.vector_bytes))
        output = f.at(
            f.operand(WinogradWord.OUTPUT), f.mul(vector, word[WinogradWord.OUTPUT_BLOCK])
        )
        residual = f.at(
            f.operand(WinogradWord.RESIDUAL), f.mul(vector, word[WinogradWord.RESIDUAL_BLOCK])
        )
        lanes = f.sub(word[WinogradWord.OUTPUT_CHANNELS], f.mul(vector, text.width))
        with f.loop(stop, ("ptr", products), start=start) as each:
            tile = self._tile(each.index)
            values = (
                *("%desc", each.values[0], bias),
                *(f.at(output, tile.target), f.at(residual, tile.residual)),
                *(scratch, vectors, lanes, *tile.wants),
            )
            sizes = (text.rows.outputs, text.columns.outputs)
            self._tile_call("tile_out", OUTPUT_PARAMETERS, values, tile.wants, sizes)
            each.next(f.at(each.values[0], f.mul(vectors, text.vector_bytes)))

    def _by_count(self, slot: str, values: Sequence[int]) -> str:
        """The value that belongs to the group's count of vectors."""
        made = str(values[0])
        for i, value in enumerate(values[1:], 1):
            made = self.f.select(self.f.compare("eq", slot, i), "i64", value, made)
        return made

    # -- places ----------------------------------------------------------------------------
    def _panel_bytes(self) -> str:
        size = self.text.tiles[0] * self.text.vector_bytes
        return self.f.mul(self.word[WinogradWord.INPUT_BLOCKS], size)

    def _tiles_of(self, panel: str) -> tuple[str, str, str]:
        """The first tile of a panel, the number of its size, the first tile of the next."""
        f = self.f
        low, size, high = row_of(f, f.operand(WinogradWord.PANELS), panel, PANEL_COLUMNS, 3)
        return low, size, high

    def _tile(self, number: str) -> _Tile:
        """A tile by its number over all images."""
        f, word = self.f, self.word
        image = f.sdiv(number, word[WinogradWord.TILE_COUNT])
        inside = f.sub(number, f.mul(image, word[WinogradWord.TILE_COUNT]))
        entry = row_of(f, f.operand(WinogradWord.TILES), inside, TILE_COLUMNS, TILE_COLUMNS)
        strides = (
            WinogradWord.INPUT_BATCH,
            WinogradWord.OUTPUT_BATCH,
            WinogradWord.RESIDUAL_BATCH,
        )
        source, target, residual = (
            f.add(offset, f.mul(image, word[w])) for offset, w in zip(entry, strides, strict=False)
        )
        return _Tile(source, target, residual, entry[3:5], entry[5:7])

    # -- calls -----------------------------------------------------------------------------
    def _tile_call(
        self,
        name: str,
        parameters: Sequence[tuple[str, str]],
        values: Sequence[str],
        has: Sequence[str],
        sizes: tuple[int, int],
    ) -> None:
        """Call the function for a whole tile, or that for an edge where it is not whole."""
        f, arguments = self.f, _arguments(parameters, values)
        if not self.text.edges:
            f.do(f"call void @{name}_0({arguments})")
            return
        short = [f.compare("slt", h, s) for h, s in zip(has, sizes, strict=True)]
        edge = f.value(f"zext i1 {f.value(f'or i1 {short[0]}, {short[1]}')} to i64")
        dispatch(f, edge, 2, lambda i: f.do(f"call void @{name}_{i}({arguments})"))

    def _product_call(self, slot: str, size: str, values: Sequence[str]) -> None:
        """Call the function for this panel's size and this group's vectors."""
        f, text, arguments = self.f, self.text, _arguments(PRODUCT_PARAMETERS, values)
        case = f.add(f.mul(slot, len(text.tiles)), size)
        cases = [(tiles, vectors) for vectors in text.vectors for tiles in text.tiles]

        def call(i: int) -> None:
            tiles, vectors = cases[i]
            f.do(f"call void @products_{tiles}_{vectors}({arguments})")

        dispatch(f, case, len(cases), call)


def _arguments(parameters: Sequence[tuple[str, str]], values: Sequence[str]) -> str:
    pairs = zip(parameters, values, strict=True)
    return ", ".join(f"{kind} {value}" for (_, kind), value in pairs)
