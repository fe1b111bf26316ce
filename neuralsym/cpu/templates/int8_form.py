"""The form of an integer product kernel: its descriptor, and what its text depends on.

    sums[pixel][channel] = bias + sum over taps, inputs of u8 * weights      (int32, exact)

One kernel serves convolutions over blocks of channels and matrix products over rows. Inputs are
read four channels at a time, a quad: one 32-bit broadcast times a vector of quads of weights. All
strides are in bytes, every activation address is that of its first inner pixel.

| words | meaning |
|---|---|
| INPUT, WEIGHTS, BIAS, OUTPUT, RESIDUAL | addresses of the operands; RESIDUAL unused without one |
| TILES | table [tiles][4]: input offset, output offset, residual offset, shape number |
| BLOCKS | table [blocks][5]: first input block, offset of the weights, first output vector, |
| | weight bytes of one input block, number of the count of vectors |
| TAPS | table [taps]: offset of the tap from the tile's first input |
| BATCH, TILE_COUNT, BLOCK_COUNT, TAP_COUNT, INPUT_BLOCKS | lengths of the loops |
| OUTPUT_CHANNELS | true channel count |
| *_BATCH, *_BLOCK, *_ROW of INPUT, OUTPUT, RESIDUAL | strides of batch entry, block (of a |
| | row-major output: of a vector), and row of a tile with several |
| SCALES | bytes from the biases to the scales, which lie behind them |
| LOW, HIGH, OFFSET | bounds of the scaled sums (float32), what makes integers of them (int32) |
| KEEP, OTHER, OTHER_ZERO | factors of the result and the residual, what its zero adds (float32) |
| SUM_LOW, SUM_HIGH, SUM_OFFSET | as above, for the sum with the residual |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Literal

from neuralsym.dtypes import NumberType

TILE_COLUMNS = 4
BLOCK_COLUMNS = 5
QUAD = 4
"""Inputs that one lane multiplies at once."""

Dot = Literal["vnni", "pairs"]


class Int8Word(IntEnum):
    """Positions in the descriptor."""

    INPUT = 0
    WEIGHTS = auto()
    BIAS = auto()
    OUTPUT = auto()
    RESIDUAL = auto()
    TILES = auto()
    BLOCKS = auto()
    TAPS = auto()
    BATCH = auto()
    TILE_COUNT = auto()
    BLOCK_COUNT = auto()
    TAP_COUNT = auto()
    INPUT_BLOCKS = auto()
    OUTPUT_CHANNELS = auto()
    INPUT_BATCH = auto()
    INPUT_BLOCK = auto()
    INPUT_ROW = auto()
    OUTPUT_BATCH = auto()
    OUTPUT_BLOCK = auto()
    OUTPUT_ROW = auto()
    RESIDUAL_BATCH = auto()
    RESIDUAL_BLOCK = auto()
    RESIDUAL_ROW = auto()
    SCALES = auto()
    LOW = auto()
    HIGH = auto()
    OFFSET = auto()
    KEEP = auto()
    OTHER = auto()
    OTHER_ZERO = auto()
    SUM_LOW = auto()
    SUM_HIGH = auto()
    SUM_OFFSET = auto()


@dataclass(frozen=True)
class Int8Text:
    """What the text of an integer product depends on.

    width: int32 lanes of a vector. tiles: shapes (rows, columns) of pixel tiles. vectors: how many
    output vectors a block may have. step: bytes between the inputs of neighbouring pixels. unroll:
    quads of an input block. dot: "vnni" multiplies quads of bytes by one instruction, "pairs"
    multiplies 16-bit pairs, with weights of 16 bits. flip: the inputs are signed, and are read as
    unsigned ones that are 128 larger. depthwise: each lane has one input and one weight of its own.
    order, prefetch: as of the float32 convolution (`conv_form`). output: int32, float32, int8 or
    uint8. residual: the type of what is added to a quantised output. exact: sums are scaled in
    float64 instead of float32. rows_only: the output is row-major, where lanes past the last
    channel are not to be touched; otherwise they become zero if `ragged`.
    """

    width: int
    tiles: tuple[tuple[int, int], ...]
    vectors: tuple[int, ...]
    step: int
    unroll: int
    dot: Dot
    output: NumberType
    flip: bool = False
    depthwise: bool = False
    order: Literal["weights", "pixels"] = "pixels"
    prefetch: int = 0
    residual: NumberType | None = None
    exact: bool = False
    ragged: bool = False
    rows_only: bool = False

    @property
    def sums(self) -> str:
        """The type of a vector of sums."""
        return f"<{self.width} x i32>"

    @property
    def reals(self) -> str:
        """The type of a vector of scaled sums."""
        return f"<{self.width} x float>"

    @property
    def quantised(self) -> bool:
        return self.output in (NumberType.INT8, NumberType.UINT8)

    @property
    def weight_vector(self) -> int:
        """Bytes of the weights of one quad (depthwise: of one tap) for one output vector."""
        if self.depthwise:
            return 4 * self.width
        return (4 if self.dot == "vnni" else 8) * self.width

    @property
    def output_vector(self) -> int:
        """Bytes of an output vector."""
        return self.width * self.output.itemsize
