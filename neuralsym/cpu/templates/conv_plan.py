"""Planning a direct convolution: tile shapes, loop order, packed weights, tables, descriptor.

All functions are pure. `plan_conv` looks at sizes once; `conv_tables` and `conv_words` turn a plan
and the geometry of the buffers into what the kernel of `conv.conv_text` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from neuralsym.cpu.program import Word
from neuralsym.cpu.templates.conv_form import ConvText, ConvWord, Order
from neuralsym.cpu.templates.epilogue import Activation, identity
from neuralsym.cpu.templates.layout import (
    Array,
    Plane,
    Triple,
    Words,
    aligned,
    aligned_room,
    even_parts,
    greedy_parts,
    halo_after,
    output_size,
)

MOST_VECTORS = 4


@dataclass(frozen=True)
class ConvShape:
    """A convolution's attributes, spatial values as (depth, height, width).

    channels, outputs: input and output channels in all; groups divides both. before, after: the
    pads. Weights are in ONNX's order [outputs][channels / groups][depth][height][width].
    """

    channels: int
    outputs: int
    kernel: Triple
    strides: Triple = (1, 1, 1)
    dilations: Triple = (1, 1, 1)
    before: Triple = (0, 0, 0)
    after: Triple = (0, 0, 0)
    groups: int = 1

    def output(self, size: Triple) -> Triple:
        return output_size(size, self.kernel, self.strides, self.dilations, self.before, self.after)

    def halo(self, size: Triple) -> tuple[Triple, Triple]:
        """The halo (before, after) that the input's buffer needs."""
        after = halo_after(
            size, self.output(size), self.kernel, self.strides, self.dilations, self.before
        )
        return self.before, after

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1] * self.kernel[2]


@dataclass(frozen=True)
class ConvPlan:
    """How a convolution is cut: the kernel's text, the blocks of output channels, the chunks.

    blocks: for each block of output channels its first output vector, its count of vectors and
    its group. chunk: input blocks (planar: channels) of one pass.
    """

    shape: ConvShape
    text: ConvText
    planar: bool
    blocks: tuple[tuple[int, int, int], ...]
    chunk: int

    @property
    def vectors(self) -> int:
        """Output vectors of all blocks but the last of each group."""
        return self.text.vectors[0]

    @property
    def input_blocks(self) -> int:
        """Input blocks (planar: channels) of one group."""
        each = self.shape.channels // self.shape.groups
        return each if self.planar else -(-each // self.text.width)


def can_convolve(shape: ConvShape, width: int) -> bool:
    """Whether the blocked kernels serve these groups: each must fill whole vectors."""
    if shape.groups == 1:
        return True
    each = (shape.channels // shape.groups, shape.outputs // shape.groups)
    return all(count % width == 0 for count in each)


def wants_planar(shape: ConvShape, width: int) -> bool:
    """Whether the input is better read in plain order, as in a network's first layer."""
    return shape.groups == 1 and 2 * shape.channels <= width


def plan_conv(
    shape: ConvShape,
    source: Plane,
    target: Plane,
    residual: Plane | None = None,
    *,
    width: int,
    registers: int,
    activation: Activation | None = None,
    cache: int = 1 << 20,
    vectors: int | None = None,
    halves: bool = False,
) -> ConvPlan:
    """Choose tiles, order and chunks for `shape` over these buffers.

    width: float32 lanes of a vector. registers: vector registers of the machine. cache: bytes of
    the second-level cache. A planar `source` (lanes 1) gets the planar kernel. vectors: the
    output vectors of a block; two plans with the same `vectors` read the same packed weights, so
    give those of the first plan (`ConvPlan.vectors`) when planning again for another size.
    halves: `ConvText.halves` may be used, which is faster where the last vector is half empty.
    """
    planar = source.lanes == 1
    groups = shape.groups
    vectors_each = -(-shape.outputs // groups // width)
    rows, length = extent(shape, source, target, residual)
    rows = min(rows, target.size[1])  # a tile never crosses from one depth to the next
    most = min(MOST_VECTORS, vectors_each)
    counts = range(1, most + 1) if vectors is None else (vectors,)
    choices = [(v, _pixels(v, registers)) for v in counts]
    vectors, pixels = min(
        choices, key=lambda c: (_cost(c[0], c[1], vectors_each, rows, length), -c[1])
    )
    half = _halves(shape, width) if halves and not planar else 0
    if half:
        vectors, pixels = vectors_each, _pixels(half, registers)
    parts = vector_counts(vectors_each, vectors)
    blocks, at = [], 0
    for group in range(groups):
        for count in parts:
            blocks.append((at, count, group))
            at += count
    inputs = shape.channels // groups if planar else -(-shape.channels // groups // width)
    weight_bytes = 4 * shape.taps * shape.outputs * shape.channels // groups
    order: Order = "pixels"
    chunk, prefetch = inputs, 0
    if not planar and len(blocks) > 1 and weight_bytes > 0.4 * cache:
        order = "weights"
        per_block = shape.taps * width * vectors * width * 4
        chunk = min(inputs, max(1, (cache // 16) // per_block))
        # Even chunks: no short one at the end.
        chunk = -(-inputs // -(-inputs // chunk))
        tiles = len(tile_list(rows, length, pixels))
        prefetch = 4 if tiles >= 4 else 1
    text = ConvText(
        width=width,
        tiles=tuple(sorted(set(tile_list(rows, length, pixels)), reverse=True)),
        vectors=tuple(dict.fromkeys(parts)),
        step=shape.strides[2] * source.pixel,
        unroll=1 if planar else width,
        order=order,
        chunked=chunk < inputs,
        prefetch=prefetch,
        residual=residual is not None,
        ragged=shape.outputs % width != 0,
        tail=0 if planar else _tail(shape.channels // groups, width),
        halves=half,
        activation=activation or identity(),
    )
    return ConvPlan(shape, text, planar, tuple(blocks), chunk)


def _tail(channels: int, width: int) -> int:
    """`ConvText.tail` of so many input channels: from a twentieth of the products on."""
    rest = channels % width
    return rest if rest and 20 * (width - rest) >= channels else 0


def _halves(shape: ConvShape, width: int) -> int:
    """The half vectors that all outputs fill, if they are few and leave half of one empty."""
    count = -(-2 * shape.outputs // width)
    return count if shape.groups == 1 and width > 2 and count in (1, 3, 5) else 0


def _pixels(vectors: int, registers: int) -> int:
    """The most pixels whose sums fit, beside the weights and one broadcast value."""
    fit = (registers - 2 - vectors) // vectors
    return max(1, min(fit, registers - 4))


def extent(
    shape: ConvShape, source: Plane, target: Plane, residual: Plane | None
) -> tuple[int, int]:
    """(rows, pixels of a row) of the output; everything is one row where no gap separates rows."""
    depth, height, length = target.size
    plain = shape.kernel == (1, 1, 1) and shape.strides == (1, 1, 1)
    planes = [source, target] + ([residual] if residual else [])
    if plain and not any(shape.before + shape.after) and all(p.flat for p in planes):
        return 1, depth * height * length
    return depth * height, length


def vector_counts(total: int, vectors: int) -> list[int]:
    """The vectors of each block, `vectors` but for the last."""
    whole, rest = divmod(total, vectors)
    return [vectors] * whole + ([rest] if rest else [])


def tile_list(rows: int, length: int, pixels: int) -> list[tuple[int, int]]:
    """The shapes of all tiles of an output of `rows` x `length`, in order."""
    if length == 0 or rows == 0:
        return [(1, 1)]
    if rows > 1 and 2 * length <= pixels:
        return [(count, length) for count in even_parts(rows, pixels // length)]
    return [(1, count) for count in even_parts(length, pixels)] * rows


@lru_cache(maxsize=4096)  # layers repeat
def _cost(
    vectors: int,
    pixels: int,
    total: int,
    rows: int,
    length: int,
) -> float:
    """Cycles for one input value of all pixels and vectors, of a machine with two FMA units.

    A tile is bound by its products, its loads, or the four cycles between dependent sums; what
    it reads of weights comes from the second-level cache. A load takes a tenth of a cycle even
    where products are the bound: 4 vectors of 6 pixels measured 3 % faster than 2 of 14.
    """
    cost = 0.0
    for count in vector_counts(total, vectors):
        for tile_rows, columns in tile_list(rows, length, pixels):
            size = tile_rows * columns
            cost += max(size * count / 2, (size + count) / 2, 4.0, count * 1.5)
            cost += (size + count) / 10 + 0.25
    return cost


def pack_conv_weights(weights: Array, plan: ConvPlan) -> Array:
    """Weights [outputs][channels / groups][d][h][w] as float32 in the order the kernel reads.

    For each block [input block][tap][channel of the block][vector][lane], padded channels zero;
    planar: [channel][tap][vector][lane].
    """
    width, shape = plan.text.width, plan.shape
    outputs, each = weights.shape[:2]
    full = np.asarray(weights, np.float32).reshape(outputs, each, *shape.kernel)
    lanes_out = -(-outputs // width) * width
    lanes_in = plan.input_blocks * (1 if plan.planar else width)
    if full.shape[:2] == (lanes_out, lanes_in):
        padded = full.reshape(outputs, each, shape.taps)
    else:
        padded = np.zeros((lanes_out, lanes_in, shape.taps), np.float32)
        padded[:outputs, :each] = full.reshape(outputs, each, shape.taps)
    half, blocks = plan.text.halves, plan.input_blocks
    parts = []
    for first, count, _ in plan.blocks:
        part = padded[first * width : (first + count) * width]
        if plan.planar:
            parts.append(part.transpose(1, 2, 0))
        elif half:
            pairs = part[: half * width // 2].reshape(half, width // 2, blocks, width // 2, 2, -1)
            parts.append(pairs.transpose(2, 5, 3, 0, 1, 4))
        else:
            parts.append(part.reshape(count * width, blocks, width, -1).transpose(1, 3, 2, 0))
    # Each is written once, into its place.
    packed, at = aligned_room((sum(part.size for part in parts),), np.float32), 0
    for part in parts:
        packed[at : at + part.size].reshape(part.shape)[...] = part
        at += part.size
    return packed


def pack_conv_bias(bias: Array | None, plan: ConvPlan) -> Array:
    """The bias (zeros if None) as float32, padded to whole vectors."""
    width = plan.text.width
    padded = np.zeros(-(-plan.shape.outputs // width) * width, np.float32)
    if bias is not None:
        padded[: plan.shape.outputs] = bias
    return aligned(padded)


@dataclass(frozen=True)
class ConvTables:
    """The tables of a convolution: tiles, blocks of output channels, taps (see ConvWord)."""

    tiles: Words
    blocks: Words
    taps: Words


def conv_tables(
    plan: ConvPlan, source: Plane, target: Plane, residual: Plane | None = None
) -> ConvTables:
    """The tables for these buffers; other sizes than those planned for work if the tiles fit."""
    return ConvTables(
        tile_table(plan.text.tiles, plan.shape, source, target, residual),
        block_table(plan),
        tap_table(plan.shape, source),
    )


def tile_table(
    shapes: Sequence[tuple[int, int]],
    shape: ConvShape,
    source: Plane,
    target: Plane,
    residual: Plane | None,
) -> Words:
    """Rows (input offset, output offset, residual offset, number of the tile's shape)."""
    rows, length = extent(shape, source, target, residual)
    if rows == 0 or length == 0:
        return np.zeros((0, 4), np.int64)
    height = rows if rows == 1 else target.size[1]
    tall = max(r for r, _ in shapes)
    if tall > 1 and all(c == length for _, c in shapes):
        # Several rows in a tile, never across two depths.
        heights = greedy_or_even(height, [r for r, _ in shapes])
        tiles = [(r, 0, length) for r in heights]
        columns = [(0, length)]
        steps = [(sum(heights[:i]), r) for i, (r, _, _) in enumerate(tiles)]
    else:
        widths = greedy_or_even(length, [c for r, c in shapes if r == 1])
        starts = np.cumsum([0, *widths[:-1]]).tolist()
        columns = list(zip(starts, widths, strict=True))
        steps = [(i, 1) for i in range(height)]
    number = {tile: i for i, tile in enumerate(shapes)}
    kinds = [
        [number[tile_rows, columns_here] for _, columns_here in columns] for _, tile_rows in steps
    ]
    table = np.zeros((rows // height, len(steps), len(columns), 4), np.int64)
    z = np.arange(rows // height).reshape(-1, 1, 1)
    y = np.array([y for y, _ in steps], np.int64).reshape(-1, 1)
    x = np.array([x for x, _ in columns], np.int64)
    table[..., 0] = source.offset(
        (z * shape.strides[0], y * shape.strides[1], x * shape.strides[2])
    )
    table[..., 1] = target.offset((z, y, x))
    if residual is not None:
        table[..., 2] = residual.offset((z, y, x))
    table[..., 3] = kinds
    return table.reshape(-1, 4)


def greedy_or_even(total: int, sizes: Sequence[int]) -> list[int]:
    """`total` in even parts if these sizes allow it, else the largest sizes first."""
    even = even_parts(total, max(sizes))
    return even if set(even) <= set(sizes) else greedy_parts(total, sizes)


def tap_table(shape: ConvShape, source: Plane) -> Words:
    """Offset of every tap from the input that lies under the output pixel, pads taken off."""
    depths, heights, widths = (range(k) for k in shape.kernel)
    return np.array(
        [
            source.offset(
                (
                    d * shape.dilations[0] - shape.before[0],
                    h * shape.dilations[1] - shape.before[1],
                    w * shape.dilations[2] - shape.before[2],
                )
            )
            for d in depths
            for h in heights
            for w in widths
        ],
        np.int64,
    )


def block_table(plan: ConvPlan) -> Words:
    """Rows of `ConvWord.BLOCKS`, from the plan alone."""
    width = plan.text.width
    table, offset = [], 0
    for first, count, group in plan.blocks:
        if plan.text.depthwise:
            size = plan.shape.taps * plan.text.each * count * width * 4
        else:
            size = plan.shape.taps * plan.text.tap_bytes(count)
        slot = plan.text.vectors.index(count)
        table.append((group * plan.input_blocks, offset, first, size, slot))
        offset += size * plan.input_blocks
    return np.array(table, np.int64)


@dataclass(frozen=True)
class ConvAddresses:
    """Where a convolution's operands and tables are; activations by their first inner pixel.

    A table may be given as itself, then the plan keeps it and passes its address.
    """

    source: Word
    weights: Word
    bias: Word
    target: Word
    tiles: Word
    blocks: Word
    taps: Word
    residual: Word | None = None


def conv_words(
    plan: ConvPlan,
    addresses: ConvAddresses,
    batch: int,
    tables: ConvTables,
    source: Plane,
    target: Plane,
    residual: Plane | None = None,
) -> list[Word]:
    """The descriptor, one word for each ConvWord."""
    beside = residual or target
    row = source.row * plan.shape.strides[1]
    words: dict[ConvWord, Word] = {
        ConvWord.INPUT: addresses.source,
        ConvWord.WEIGHTS: addresses.weights,
        ConvWord.BIAS: addresses.bias,
        ConvWord.OUTPUT: addresses.target,
        ConvWord.RESIDUAL: addresses.target if residual is None else addresses.residual or 0,
        ConvWord.TILES: addresses.tiles,
        ConvWord.BLOCKS: addresses.blocks,
        ConvWord.TAPS: addresses.taps,
        ConvWord.BATCH: batch,
        ConvWord.TILE_COUNT: len(tables.tiles),
        ConvWord.BLOCK_COUNT: len(plan.blocks),
        ConvWord.TAP_COUNT: len(tables.taps),
        ConvWord.INPUT_BLOCKS: plan.input_blocks,
        ConvWord.CHUNK: plan.chunk,
        ConvWord.OUTPUT_CHANNELS: plan.shape.outputs,
        ConvWord.INPUT_BATCH: source.batch,
        ConvWord.INPUT_BLOCK: source.block,
        ConvWord.INPUT_ROW: row,
        ConvWord.OUTPUT_BATCH: target.batch,
        ConvWord.OUTPUT_BLOCK: target.block,
        ConvWord.OUTPUT_ROW: target.row,
        ConvWord.RESIDUAL_BATCH: beside.batch,
        ConvWord.RESIDUAL_BLOCK: beside.block,
        ConvWord.RESIDUAL_ROW: beside.row,
    }
    return [words[w] for w in ConvWord]
