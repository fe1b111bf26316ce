"""The form of a Winograd convolution: its descriptor, and what its text depends on.

Descriptor, int64 words (`WinogradWord`); strides are in bytes, activation addresses are those of
the first inner pixel of the first channel block:

| words | meaning |
|---|---|
| INPUT, WEIGHTS, BIAS, OUTPUT, RESIDUAL | addresses of the operands; RESIDUAL unused without one |
| SCRATCH, SCRATCH_BYTES | working memory, and how much of it a worker has |
| TILES | table [tiles of an image][7]: offsets into input, output, residual; rows and columns |
| | of the input that there are; rows and columns of the output that there are |
| PANELS | table [panels + 1][2]: the first tile of each panel, and which of the text's `tiles` |
| | serves it; in the last row how many tiles there are |
| GROUPS | table [groups][3]: offset of the weights, first output vector, number of the count of |
| | vectors |
| TILE_COUNT, PANEL_COUNT, BLOCK_COUNT, GROUP_COUNT | tiles of one image; panels, blocks of panels |
| | and groups of output vectors in all |
| INPUT_BLOCKS, OUTPUT_CHANNELS | blocks of input channels; true count of output channels |
| *_BATCH, *_BLOCK, *_ROW of INPUT, OUTPUT, RESIDUAL | strides of image, channel block, row |
| INPUT_PLACE, PRODUCT_PLACE | strides in the scratch from one place of a transformed tile to the |
| | next, of inputs and of products |
| PRODUCTS | offset of the products in the scratch; transformed inputs begin at `SPARE` |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, auto

from neuralsym.cpu.templates.epilogue import Activation, identity
from neuralsym.cpu.templates.winograd_axis import Axis

TILE_COLUMNS = 7
PANEL_COLUMNS = 2
GROUP_COLUMNS = 3
SPARE = 128
"""The scratch begins with a vector of zeros, read past the border, and one to be written there."""


class WinogradWord(IntEnum):
    """Positions in the descriptor of a Winograd convolution."""

    INPUT = 0
    WEIGHTS = auto()
    BIAS = auto()
    OUTPUT = auto()
    RESIDUAL = auto()
    SCRATCH = auto()
    SCRATCH_BYTES = auto()
    TILES = auto()
    PANELS = auto()
    GROUPS = auto()
    TILE_COUNT = auto()
    PANEL_COUNT = auto()
    BLOCK_COUNT = auto()
    GROUP_COUNT = auto()
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
    INPUT_PLACE = auto()
    PRODUCT_PLACE = auto()
    PRODUCTS = auto()


@dataclass(frozen=True)
class WinogradText:
    """What the text of a Winograd convolution depends on.

    width: lanes of a vector. rows, columns: the transforms of both axes. tiles: how many tiles
    a panel may have, the most first; with fewer it leaves results that nothing reads. vectors:
    how many output vectors a group may have. prefetch: in how many parts the panels fetch the
    weights of the next place. edges: whether some tiles reach past the border. ragged: the channel
    count is no multiple of the width.
    """

    width: int
    rows: Axis
    columns: Axis
    tiles: tuple[int, ...]
    vectors: tuple[int, ...]
    prefetch: int = 1
    edges: bool = True
    residual: bool = False
    ragged: bool = False
    activation: Activation = field(default_factory=identity)

    @property
    def kind(self) -> str:
        return f"<{self.width} x float>"

    @property
    def vector_bytes(self) -> int:
        return 4 * self.width

    @property
    def places(self) -> int:
        """Products of a tile."""
        return self.rows.size * self.columns.size

    def fetched_lines(self, vectors: int) -> int:
        """Cache lines of the next place's weights that a panel fetches with each input block."""
        size = self.width * vectors * self.vector_bytes
        return -(-size // 64 // self.prefetch)
