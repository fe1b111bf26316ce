"""Planning a Winograd convolution: panels, blocks, packed weights, tables, descriptor.

All functions are pure. Which tiles are taken, and what their error may be, stands in
`winograd_choice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neuralsym.cpu.program import Word
from neuralsym.cpu.templates.conv_plan import ConvShape
from neuralsym.cpu.templates.epilogue import Activation, identity
from neuralsym.cpu.templates.layout import Array, Plane, Words, aligned_room, even_parts
from neuralsym.cpu.templates.winograd_axis import Axis, as_array
from neuralsym.cpu.templates.winograd_form import PANEL_COLUMNS, SPARE, WinogradText, WinogradWord

MOST_VECTORS = 4
FEW_TILES = 32
CACHE = 400 << 10
"""Bytes of transformed inputs in a block whose weights are few, of a second-level cache of 1 MB."""


@dataclass(frozen=True)
class WinogradPlan:
    """How a Winograd convolution is cut.

    grid: tiles of an image as rows and columns of them. panels: how many tiles each panel has, of
    all images; the kernel takes each as one of the sizes of its text. blocks: into how many
    blocks the panels go. groups: for each group of output vectors the first and the count.
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
    free: bool = False,
    workers: int = 1,
    activation: Activation | None = None,
    cache: int = CACHE,
) -> WinogradPlan:
    """Cut a convolution into tiles of `axes` (rows, columns).

    target: where its output lies. free: other numbers of images are to be served by the same text
    and weights. workers: how many share the work. cache: bytes that the transformed inputs of a
    block may fill.
    """
    _, height, length = target.size
    rows, columns = axes
    grid = (-(-height // rows.outputs), -(-length // columns.outputs))
    total = images * grid[0] * grid[1]
    expected = total if not free else grid[0] * grid[1]
    blocks_out = -(-shape.outputs // width)
    vectors = _vectors(expected, blocks_out, registers)
    most = _tiles(vectors, registers)
    panels = even_parts(total, most)
    nominal = -(-expected // most)
    tiles = set(panels) if not free else {most, *range(2, most, 2)}
    tile_bytes = 4 * width * rows.size * columns.size * -(-shape.channels // width)
    sizes = (tile_bytes * max(tiles), tile_bytes * blocks_out * width, cache)
    per_block = nominal // _blocks(nominal, *sizes)
    groups = [(at, min(vectors, blocks_out - at)) for at in range(0, blocks_out, vectors)]
    text = WinogradText(
        width=width,
        rows=rows,
        columns=columns,
        tiles=tuple(sorted(tiles, reverse=True)),
        vectors=tuple(dict.fromkeys(count for _, count in groups)),
        prefetch=max(1, min(per_block, 4)),
        edges=bool(height % rows.outputs or length % columns.outputs),
        residual=residual,
        ragged=shape.outputs % width != 0,
        activation=activation or identity(),
    )
    blocks = _for_workers(_blocks(len(panels), *sizes), len(panels), len(groups), workers)
    return WinogradPlan(shape, text, images, grid, tuple(panels), blocks, tuple(groups))


def _blocks(panels: int, panel_bytes: int, weight_bytes: int, cache: int) -> int:
    """How many blocks so many panels of transformed inputs make.

    Each reads all weights once more, so that blocks may be as large as a third of them: measured
    from 32 to 512 channels, this was within 5 % of the best number.
    """
    return min(panels, -(-panels * panel_bytes // max(cache, weight_bytes // 3)))


def _for_workers(blocks: int, panels: int, groups: int, workers: int) -> int:
    """More blocks where those of one do not give all workers as many groups: some four units (of
    a block and a group) for each."""
    if groups % workers:
        blocks = max(blocks, -(-4 * workers // groups))
        blocks = -(-blocks // workers) * workers
    return min(blocks, panels)


def _tiles(vectors: int, registers: int) -> int:
    """The most tiles whose sums fit, beside the weights and one broadcast value."""
    return (registers - 2 - vectors) // vectors


def _vectors(total: int, vectors: int, registers: int) -> int:
    """The output vectors of a group that let the machine's two FMA units do most.

    A load of an input or of weights takes some of the time even where it is no bottleneck. Where
    tiles are few, weights are what is waited for: wide groups were 1.4 times as slow then.
    """
    most = min(vectors, MOST_VECTORS if total > FEW_TILES else 2)

    def cycles(count: int) -> float:
        parts = [count] * (vectors // count) + [vectors % count] * (vectors % count > 0)
        return sum(
            max(tiles * part / 2, (tiles + part) / 2, 4.0) + (tiles + part) / 10 + 0.25
            for tiles in even_parts(total, _tiles(count, registers))
            for part in parts
        )

    return min(range(1, most + 1), key=lambda v: (cycles(v), -v))


def pack_winograd_weights(weights: Array, plan: WinogradPlan) -> Array:
    """Weights [outputs][channels][h][w] as G g G^T in float32, in the order the kernel reads.

    For each group of output vectors [place][channel][vector][lane]; padded channels are zero. The
    transform is computed in float64 and rounded once.
    """
    text, shape, width = plan.text, plan.shape, plan.text.width
    taps, lanes = shape.taps, plan.input_blocks * width
    full = np.asarray(weights, np.float32).reshape(shape.outputs, shape.channels, taps)
    both = np.kron(as_array(text.rows.filter_matrix), as_array(text.columns.filter_matrix))
    outputs = sum(count for _, count in plan.groups) * width
    packed = aligned_room((text.places * lanes * outputs,), np.float32)
    # All groups use the same memory: fresh pages would take longer than the sums.
    most = lanes * plan.groups[0][1] * width
    filters, products = np.zeros((taps, most)), np.empty((text.places, most))
    at = 0
    for first, count in plan.groups:
        size = lanes * count * width
        part = filters[:, :size].reshape(taps, lanes, -1)
        taken = full[first * width : (first + count) * width]
        part[:, : shape.channels, : len(taken)] = taken.transpose(2, 1, 0)
        part[:, :, len(taken) :] = 0
        for low in range(0, size, COLUMNS):
            some = slice(low, min(low + COLUMNS, size))
            np.matmul(both, filters[:, some], out=products[:, some])
        places = packed[at : at + text.places * size].reshape(text.places, size)
        places[...] = products[:, :size]
        at += places.size
    return packed


COLUMNS = 512
"""Columns of a product that numpy's BLAS takes on one thread, instead of waking several."""


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
        _tile_table(plan, source, target, residual), _panel_table(plan), _group_table(plan)
    )


def _panel_table(plan: WinogradPlan) -> Words:
    """Where panels begin, and which of the text's sizes serves: the least that is enough."""
    sizes = plan.text.tiles
    table = np.zeros((len(plan.panels) + 1, PANEL_COLUMNS), np.int64)
    table[1:, 0] = np.cumsum(plan.panels)
    table[:-1, 1] = [max(i for i, n in enumerate(sizes) if n >= p) for p in plan.panels]
    return table


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
            has = (rows.reach(tall), columns.reach(wide))
            table.append(
                (
                    source.offset((0, y * rows.stride - above, x * columns.stride - left)),
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
