"""The form of a convolution kernel: its descriptor, and what its text depends on.

Descriptor, int64 words (`ConvWord`); every stride is in bytes, every activation address is that of
the first inner pixel of the first channel block:

| words | meaning |
|---|---|
| INPUT, WEIGHTS, BIAS, OUTPUT, RESIDUAL | addresses of the operands; RESIDUAL unused without one |
| TILES | table [tiles][4]: input offset, output offset, residual offset, shape number |
| BLOCKS | table [blocks][5]: first input block, offset of the weights, first output vector, |
| | weight bytes of one input block, number of the count of vectors |
| TAPS | table [taps]: offset of the tap from the tile's first input |
| BATCH, TILE_COUNT, BLOCK_COUNT, TAP_COUNT | lengths of the loops |
| INPUT_BLOCKS | input blocks (planar: channels) of one group |
| CHUNK | input blocks of one chunk |
| OUTPUT_CHANNELS | true channel count; lanes past it are stored as zero |
| *_BATCH, *_BLOCK, *_ROW of INPUT, OUTPUT, RESIDUAL | strides of batch entry, block, and row of a |
| | tile with several (for the input: of an output row) |

The residual must not be the output itself where `chunked` is set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import Literal

from neuralsym.cpu.templates.epilogue import Activation, identity

Order = Literal["weights", "pixels"]

TILE_COLUMNS = 4
BLOCK_COLUMNS = 5


class ConvWord(IntEnum):
    """Positions in the descriptor of a convolution."""

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
    CHUNK = auto()
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


@dataclass(frozen=True)
class ConvText:
    """What the text of a convolution kernel depends on.

    width: lanes of a vector. tiles: shapes (rows, columns) of pixel tiles. vectors: how many
    output vectors a block may have. step: bytes between the inputs of neighbouring pixels.
    unroll: how many neighbouring inputs each tap reads: the channels of a block, or 1 of a planar
    input (whose taps may overlap those of the next pixel: unrolled, LLVM would share the loads
    and run out of registers). run, apart: how many taps stand `apart` bytes from each other in the
    table and are taken together, which depthwise kernels do: pixels then share what they read.
    tail: how many inputs of the last block are read, where the others are so many that it pays to
    leave them out; 0 reads all. halves: where over 0, the outputs are so many half vectors: a
    vector of sums holds each output twice, of even and of odd inputs, which are added at the end.
    order: "weights" keeps a chunk of weights in cache and walks the pixels, "pixels" keeps a tile
    and walks the weights. chunked: partial sums go to the output between chunks of input
    channels. prefetch: in how many parts a pass over the pixels fetches the next chunk of weights
    (0: not at all). ragged: the channel count is no multiple of the width. depthwise: groups lie
    within a vector, `each` channels in and out (`depthwise`).
    """

    width: int
    tiles: tuple[tuple[int, int], ...]
    vectors: tuple[int, ...]
    step: int
    unroll: int
    order: Order = "pixels"
    chunked: bool = False
    prefetch: int = 0
    residual: bool = False
    ragged: bool = False
    depthwise: bool = False
    each: int = 1
    run: int = 1
    apart: int = 0
    tail: int = 0
    halves: int = 0
    activation: Activation = field(default_factory=identity)

    def tap_bytes(self, vectors: int) -> int:
        """The weights of one tap and input block, for a block of so many output vectors."""
        lines = self.unroll // 2 * self.halves if self.halves else self.unroll * vectors
        return 4 * self.width * lines
