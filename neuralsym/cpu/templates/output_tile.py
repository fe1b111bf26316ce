"""The output side of a tile: where its sums go, what is added, how they are stored."""

from __future__ import annotations

from dataclasses import dataclass

from neuralsym.cpu.ir import Function
from neuralsym.cpu.templates.conv_form import ConvText, ConvWord
from neuralsym.cpu.templates.tiles import tile_places

TILE_PARAMETERS = (
    ("desc", "ptr"),
    ("input", "ptr"),
    ("weights", "ptr"),
    ("bias", "ptr"),
    ("output", "ptr"),
    ("residual", "ptr"),
    ("ahead", "ptr"),
    ("blocks", "i64"),
    ("lanes", "i64"),
    ("part", "i64"),
)
FIRST, LAST = 1, 2  # bits of `part`: whether this chunk is the first, the last of its block


@dataclass(frozen=True)
class OutputTile:
    """`rows` x `columns` pixels of `vectors` channel vectors; values are listed pixel by pixel."""

    text: ConvText
    rows: int
    columns: int
    vectors: int

    @property
    def kind(self) -> str:
        return f"<{self.text.width} x float>"

    @property
    def vector_bytes(self) -> int:
        return 4 * self.text.width

    @property
    def pixels(self) -> int:
        return self.rows * self.columns

    def outputs(self, f: Function) -> list[str]:
        return self._places(f, "%output", ConvWord.OUTPUT_BLOCK, ConvWord.OUTPUT_ROW)

    def residuals(self, f: Function) -> list[str]:
        if not self.text.residual:
            return []
        return self._places(f, "%residual", ConvWord.RESIDUAL_BLOCK, ConvWord.RESIDUAL_ROW)

    def biases(self, f: Function) -> list[str]:
        """The bias of each vector."""
        return [
            f.load(self.kind, f.at("%bias", j * self.vector_bytes)) for j in range(self.vectors)
        ]

    def add(self, f: Function, sums: list[str], addresses: list[str]) -> list[str]:
        """The sums plus what stands at the addresses."""
        loaded = [f.load(self.kind, a) for a in addresses]
        return [f.value(f"fadd {self.kind} {s}, {v}") for s, v in zip(sums, loaded, strict=True)]

    def store(self, f: Function, sums: list[str], addresses: list[str]) -> None:
        for value, address in zip(sums, addresses, strict=True):
            f.store(self.kind, value, address)

    def finish(
        self, f: Function, sums: list[str], outputs: list[str], residuals: list[str]
    ) -> None:
        """Add the residual, apply the activation, clear the lanes past the channels, store."""
        text = self.text
        if residuals:
            sums = self.add(f, sums, residuals)
        if not text.activation.costly:
            sums = [text.activation.emit(f, s, text.width) for s in sums]
            self.store(f, self._clear(f, sums), outputs)
            return
        self.store(f, sums, outputs)
        row_stride = f.word(ConvWord.OUTPUT_ROW) if self.rows > 1 else "0"
        first = outputs[: self.vectors]
        with f.loop(self.rows) as row, f.loop(self.columns) as column:
            offset = f.add(f.mul(row.index, row_stride), f.mul(column.index, self.vector_bytes))
            places = [f.at(a, offset) for a in first]
            values = [text.activation.emit(f, f.load(self.kind, p), text.width) for p in places]
            self.store(f, self._clear(f, values), places)

    def _places(self, f: Function, base: str, block: ConvWord, row: ConvWord) -> list[str]:
        """Addresses of the tile's vectors in a blocked buffer."""
        block_stride = f.word(block) if self.vectors > 1 else "0"
        row_stride = f.word(row) if self.rows > 1 else "0"
        tile = self.rows, self.columns, self.vectors
        return tile_places(f, base, tile, row_stride, self.vector_bytes, block_stride)

    def _clear(self, f: Function, values: list[str]) -> list[str]:
        """Zero in the lanes past the last channel, even where the activation of zero is not."""
        if not self.text.ragged:
            return values
        width = self.text.width
        masks = [f.lane_mask(f.sub("%lanes", j * width), width) for j in range(self.vectors)]
        return [
            f.value(
                f"select <{width} x i1> {masks[i % self.vectors]}, "
                f"{self.kind} {v}, {self.kind} zeroinitializer"
            )
            for i, v in enumerate(values)
        ]
