"""Planning a Winograd convolution: tiles, panels, blocks, packed weights, tables, descriptor.

All functions are pure. The error of a result y of C input channels stays under

    (C + 24) u (|A|^T ((|G| |g| |G|^T) * (|B|^T |d| |B|)) |A| + |y| + |bias|),   u = 2^-24,

since every transform is at most five roundings deep on each axis, the weights are rounded once,
and one sum has C terms. What stands in the bracket is up to 7 times the sum of |g| |d| for tiles of
2 x 2 outputs, 63 times for 4 x 4; for values of mixed signs errors are some 1 and 3 times those of
the direct sum. Larger tiles are not taken: 6 x 6 would save 10 % of the products and has bounds of
thousands. An infinity or NaN in the input reaches all outputs of the tiles that it lies in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neuralsym.cpu.program import Word
from neuralsym.cpu.templates.conv_plan import ConvShape
from neuralsym.cpu.templates.epilogue import Activation, identity
from neuralsym.cpu.templates.layout import Array, Plane, Words, aligned, even_parts
from neuralsym.cpu.templates.winograd_axis import Axis, as_array
from neuralsym.cpu.templates.winograd_form import SPARE, WinogradText, WinogradWord

MOST_VECTORS = 3
CACHE = 1 << 20
"""Half of the second-level cache of the machines that this was measured on."""


@dataclass(frozen=True)
class WinogradPlan:
    """How a Winograd convolution is cut.

    grid: tiles of an image as rows and columns of them. panels: how many tiles each panel has, of
    all images. blocks: into how many blocks the panels go. groups: for each group of output
    vectors the first and the count.
    """

    shape: ConvShape
    text: WinogradText
    images: int
    grid: tuple[int, int]
    panels: tuple[int, ...]
    blocks: int
    groups: tuple[tuple[int, int], ...]

    @property
    def input_blocks(self) -> int:
        return -(-self.shape.channels // self.text.width)

    @property
    def block_panels(self) -> int:
        """The panels of the largest block."""
        return -(-len(self.panels) // self.blocks)

    @property
    def input_place(self) -> int:
        """Bytes of one place of a block's transformed inputs."""
        panel = self.text.tiles[0] * self.text.vector_bytes
        return _apart(self.block_panels * self.input_blocks * panel)

    @property
    def product_place(self) -> int:
        """Bytes of one place of a block's products with a group of weights."""
        panel = self.text.tiles[0] * self.text.vector_bytes
        return _apart(self.block_panels * self.text.vectors[0] * panel)

    @property
    def products(self) -> int:
        """Where the products begin in the scratch."""
        return SPARE + self.text.places * self.input_place

    @property
    def scratch_bytes(self) -> int:
        """Working memory of one worker."""
        return self.products + self.text.places * self.product_place


def _apart(size: int) -> int:
    """At least `size`, an odd number of cache lines: the same tile of all places then lies in
    different sets of the first-level cache."""
    return (-(-size // 64) | 1) * 64


def plan_winograd(
    shape: ConvShape,
    axes: tuple[Axis, Axis],
    images: int,
    target: Plane,
    residual: bool = False,
    *,
    width: int,
    registers: int,
    activation: Activation | None = None,
    vectors: int | None = None,
    cache: int = CACHE,
) -> WinogradPlan:
    """Cut a convolution into tiles of `axes` (rows, columns).

    target: where its output lies. cache: bytes of the second-level cache that the transformed
    inputs of a block may fill. vectors: the output vectors of a group; plans with the same read
    the same packed weights.
    """
    _, height, length = target.size
    rows, columns = axes
    grid = (-(-height // rows.outputs), -(-length // columns.outputs))
    total = images * grid[0] * grid[1]
    blocks_out = -(-shape.outputs // width)
    if vectors is None:
        vectors = _vectors(total, blocks_out, registers)
    panels = even_parts(total, _tiles(vectors, registers))
    blocks_in = -(-shape.channels // width)
    panel_bytes = rows.size * columns.size * blocks_in * panels[0] * 4 * width
    blocks = min(len(panels), -(-len(panels) * panel_bytes // cache))
    groups = [(at, min(vectors, blocks_out - at)) for at in range(0, blocks_out, vectors)]
    per_block = len(panels) // blocks
    text = WinogradText(
        width=width,
        rows=rows,
        columns=columns,
        tiles=tuple(sorted(set(panels), reverse=True)),
        vectors=tuple(dict.fromkeys(count for _, count in groups)),
        prefetch=4 if per_block >= 4 else 2 if per_block >= 2 else 1,
        edges=bool(height % rows.outputs or length % columns.outputs),
        residual=residual,
        ragged=shape.outputs % width != 0,
        activation=activation or identity(),
    )
    return WinogradPlan(shape, text, images, grid, tuple(panels), blocks, tuple(groups))


def _tiles(vectors: int, registers: int) -> int:
    """The most tiles whose sums fit, beside the weights and one broadcast value."""
    return (registers - 2 - vectors) // vectors


def _vectors(total: int, vectors: int, registers: int) -> int:
    """The output vectors of a group that let the machine's two FMA units do most."""

    def cycles(count: int) -> float:
        parts = [count] * (vectors // count) + [vectors % count] * (vectors % count > 0)
        return sum(
            max(tiles * part / 2, (tiles + part) / 2, 4.0) + 0.25
            for tiles in even_parts(total, _tiles(count, registers))
            for part in parts
        )

    return min(range(1, min(MOST_VECTORS, vectors) + 1), key=lambda v: (cycles(v), -v))


def pack_winograd_weights(weights: Array, plan: WinogradPlan) -> Array:
    """Weights [outputs][channels][h][w] as G g G^T in float32, in the order the kernel reads.

    For each group of output vectors [place][channel][vector][lane]; padded channels are zero. The
    transform is computed in float64 and rounded once.
    """
    text, shape, width = plan.text, plan.shape, plan.text.width
    _, height, length = shape.kernel
    full = np.asarray(weights, np.float32).reshape(shape.outputs, shape.channels, height * length)
    both = np.kron(as_array(text.rows.filter_matrix), as_array(text.columns.filter_matrix))
    lanes = plan.input_blocks * width
    parts = []
    for first, count in plan.groups:
        part = np.zeros((count * width, lanes, height * length))
        taken = full[first * width : (first + count) * width]
        part[: len(taken), : shape.channels] = taken
        places = part.reshape(-1, height * length) @ both.T
        split = places.astype(np.float32).reshape(count * width, lanes, text.places)
        parts.append(split.transpose(2, 1, 0).reshape(-1))
    return aligned(np.concatenate(parts))


@dataclass(frozen=True)
class WinogradTables:
    """The tables of a Winograd convolution (see `winograd_form`)."""

    tiles: Words
    panels: Words
    groups: Words


def winograd_tables(
    plan: WinogradPlan, source: Plane, target: Plane, residual: Plane | None = None
) -> WinogradTables:
    """The tables for these buffers."""
    return WinogradTables(
        _tile_table(plan, source, target, residual),
        np.concatenate([[0], np.cumsum(plan.panels)]).astype(np.int64),
        _group_table(plan),
    )


def _tile_table(plan: WinogradPlan, source: Plane, target: Plane, residual: Plane | None) -> Words:
    rows, columns = plan.text.rows, plan.text.columns
    _, height, length = target.size
    _, above, left = plan.shape.before
    table = []
    for i in range(plan.grid[0]):
        for j in range(plan.grid[1]):
            y, x = i * rows.outputs, j * columns.outputs
            # Of what is left of the output, and of the input that it is made of.
            tall, wide = min(rows.outputs, height - y), min(columns.outputs, length - x)
            has = (tall + rows.taps - 1, wide + columns.taps - 1)
            table.append(
                (
                    source.offset((0, y - above, x - left)),
                    target.offset((0, y, x)),
                    residual.offset((0, y, x)) if residual else 0,
                    *has,
                    *(tall, wide),
                )
            )
    return np.array(table, np.int64)


def _group_table(plan: WinogradPlan) -> Words:
    text = plan.text
    table, offset = [], 0
    for first, count in plan.groups:
        table.append((offset, first, text.vectors.index(count)))
        offset += text.places * plan.input_blocks * text.width * count * text.vector_bytes
    return np.array(table, np.int64)


@dataclass(frozen=True)
class WinogradAddresses:
    """Where the operands and the scratch are; activations by their first inner pixel."""

    source: Word
    weights: Word
    bias: Word
    target: Word
    scratch: Word
    residual: Word | None = None


def winograd_words(
    plan: WinogradPlan,
    addresses: WinogradAddresses,
    tables: WinogradTables,
    source: Plane,
    target: Plane,
    residual: Plane | None = None,
) -> Sequence[Word]:
    """The descriptor, one word for each WinogradWord."""
    beside = residual or target
    words: dict[WinogradWord, Word] = {
        WinogradWord.INPUT: addresses.source,
        WinogradWord.WEIGHTS: addresses.weights,
        WinogradWord.BIAS: addresses.bias,
        WinogradWord.OUTPUT: addresses.target,
        WinogradWord.RESIDUAL: (
            addresses.target if addresses.residual is None else addresses.residual
        ),
        WinogradWord.SCRATCH: addresses.scratch,
        WinogradWord.SCRATCH_BYTES: plan.scratch_bytes,
        WinogradWord.TILES: tables.tiles,
        WinogradWord.PANELS: tables.panels,
        WinogradWord.GROUPS: tables.groups,
        WinogradWord.TILE_COUNT: len(tables.tiles),
        WinogradWord.PANEL_COUNT: len(plan.panels),
        WinogradWord.BLOCK_COUNT: plan.blocks,
        WinogradWord.GROUP_COUNT: len(plan.groups),
        WinogradWord.INPUT_BLOCKS: plan.input_blocks,
        WinogradWord.OUTPUT_CHANNELS: plan.shape.outputs,
        WinogradWord.INPUT_BATCH: source.batch,
        WinogradWord.INPUT_BLOCK: source.block,
        WinogradWord.INPUT_ROW: source.row,
        WinogradWord.OUTPUT_BATCH: target.batch,
        WinogradWord.OUTPUT_BLOCK: target.block,
        WinogradWord.OUTPUT_ROW: target.row,
        WinogradWord.RESIDUAL_BATCH: beside.batch,
        WinogradWord.RESIDUAL_BLOCK: beside.block,
        WinogradWord.RESIDUAL_ROW: beside.row,
        WinogradWord.INPUT_PLACE: plan.input_place,
        WinogradWord.PRODUCT_PLACE: plan.product_place,
        WinogradWord.PRODUCTS: plan.products,
    }
    return [words[w] for w in WinogradWord]
