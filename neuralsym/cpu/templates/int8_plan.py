"""Planning an integer product: tiles, blocks, packed weights, descriptor. All functions are pure.

A convolution reads blocks of channels; a matrix product is one of tiles of several rows and one
column, whose input blocks are the quads of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from neuralsym.cpu.program import Word, float32_word
from neuralsym.cpu.templates.conv_plan import (
    ConvShape,
    extent,
    tap_table,
    tile_list,
    tile_table,
    vector_counts,
)
from neuralsym.cpu.templates.int8_form import QUAD, Dot, Int8Text, Int8Word
from neuralsym.cpu.templates.int8_output import MAGIC_BITS
from neuralsym.cpu.templates.layout import Array, Plane, Words, aligned, even_parts
from neuralsym.dtypes import NumberType

MOST_VECTORS = 4
MOST_ROWS = 12
FEW_ROWS = 32
"""With at most so many rows, a product has tiles for them alone."""


@dataclass(frozen=True)
class Output:
    """What becomes of the sums.

    kind: int32 (the sums), float32 (times the scales), int8 or uint8 (rounded, plus `zero`,
    saturated to `low` ... `high`). With a residual of the type `residual`, the quantised result q
    becomes round((q - zero) * keep + (residual - other_zero) * other) + sum_zero, saturated to
    `sum_low` ... `sum_high`. exact: scaled in float64.
    """

    kind: NumberType
    zero: int = 0
    low: int = 0
    high: int = 255
    exact: bool = False
    residual: NumberType | None = None
    keep: float = 1.0
    other: float = 1.0
    other_zero: int = 0
    sum_zero: int = 0
    sum_low: int = 0
    sum_high: int = 255


@dataclass(frozen=True)
class Int8Plan:
    """How a product is cut: the kernel's text and its blocks of output channels.

    blocks: for each its first output vector, its count of vectors and its first input block.
    inputs: input blocks of one group. channels: inputs of one group.
    """

    text: Int8Text
    blocks: tuple[tuple[int, int, int], ...]
    inputs: int
    channels: int
    outputs: int
    taps: int

    @property
    def vectors(self) -> int:
        """Output vectors of all blocks but the last of a group."""
        return self.text.vectors[0]

    @property
    def lanes(self) -> int:
        """Output lanes, those past the last channel counted."""
        return sum(count for _, count, _ in self.blocks) * self.text.width


@dataclass(frozen=True)
class Machine:
    """What planning needs to know of the target."""

    width: int
    registers: int
    dot: Dot
    cache: int = 1 << 20


def super_groups(shape: ConvShape, width: int, lanes: int) -> int:
    """How many groups the kernel works with: as many of ONNX's as fill whole blocks make one.

    lanes: the channels of an input block.
    """
    groups = shape.groups
    inputs, outputs = shape.channels // groups, shape.outputs // groups
    for joined in range(1, groups):
        if groups % joined == 0 and not (joined * inputs % lanes or joined * outputs % width):
            return groups // joined
    return 1


def is_depthwise(shape: ConvShape) -> bool:
    """Whether each channel is convolved with one filter of its own."""
    return shape.groups == shape.channels == shape.outputs and shape.groups > 1


def joined_groups(weights: Array, groups: int, made: int) -> Array:
    """Weights [outputs][channels / groups][taps] of `groups` groups, for `made` larger ones."""
    if groups == made:
        return weights
    outputs, each, taps = weights.shape
    per, rows = groups // made, outputs // groups
    wide = np.zeros((outputs, per * each, taps), weights.dtype)
    for group in range(groups):
        at = group % per * each
        chosen = slice(group * rows, (group + 1) * rows)
        wide[chosen, at : at + each] = weights[chosen]
    return wide


def plan_int8_conv(
    shape: ConvShape,
    source: Plane,
    target: Plane,
    residual: Plane | None,
    output: Output,
    machine: Machine,
    *,
    flip: bool = False,
    vectors: int | None = None,
) -> Int8Plan:
    """Choose tiles and order; `target` has blocks of the machine's width.

    vectors: of a plan made before, so that both read the same packed weights.
    """
    width = machine.width
    rows, length = extent(shape, source, target, residual)
    rows = min(rows, target.size[1])  # a tile never crosses from one depth to the next
    text = Int8Text(
        width=width,
        tiles=(),
        vectors=(1,),
        step=shape.strides[2] * source.pixel,
        unroll=source.lanes // QUAD,
        dot=machine.dot,
        output=output.kind,
        flip=flip,
        order="weights",
        residual=output.residual,
        exact=output.exact,
        ragged=shape.outputs % width != 0,
    )
    if is_depthwise(shape):
        tiles = tile_list(rows, length, min(machine.registers - 4, 14))
        text = replace(text, tiles=_shapes(tiles), depthwise=True)
        blocks = tuple((i, 1, i) for i in range(-(-shape.outputs // width)))
        return Int8Plan(text, blocks, 1, shape.channels, shape.outputs, shape.taps)
    groups = super_groups(shape, width, source.lanes)
    each = shape.channels // groups
    inputs = -(-each // source.lanes)
    total = -(-shape.outputs // groups // width)
    vectors, tiles = _tiles(total, rows, length, machine, vectors)
    parts = vector_counts(total, vectors)
    blocks = tuple(
        (group * total + sum(parts[:i]), count, group * inputs)
        for group in range(groups)
        for i, count in enumerate(parts)
    )
    text = replace(text, tiles=_shapes(tiles), vectors=tuple(dict.fromkeys(parts)))
    weight_bytes = inputs * shape.taps * text.unroll * text.weight_vector * total
    if len(blocks) > 1 and weight_bytes > 0.4 * machine.cache:
        text = replace(text, prefetch=4 if len(tiles) >= 4 else 1)
    else:
        text = replace(text, order="pixels")
    return Int8Plan(text, blocks, inputs, each, shape.outputs, shape.taps)


def plan_int8_matmul(
    columns: int,
    inner: int,
    rows: int | None,
    output: Output,
    machine: Machine,
    *,
    flip: bool = False,
) -> Int8Plan:
    """Choose tiles of A[rows][inner] @ B[inner][columns]; `inner` is a multiple of a quad.

    The packed weights are the same for all numbers of rows.
    """
    width = machine.width
    total = max(1, -(-columns // width))
    unroll = next(u for u in (4, 2, 1) if inner % (u * QUAD) == 0)
    vectors = min(total, 4 if machine.registers >= 32 else 2)
    most = min(MOST_ROWS, _pixels(vectors, machine))
    heights = [h for h in (1, 2, 3, 4, 5, 6, 8, 12) if h <= most]
    if rows is not None and 0 < rows <= FEW_ROWS:
        heights = even_parts(rows, most)
    parts = vector_counts(total, vectors)
    text = Int8Text(
        width=width,
        tiles=_shapes([(h, 1) for h in heights]),
        vectors=tuple(dict.fromkeys(parts)),
        step=0,
        unroll=unroll,
        dot=machine.dot,
        output=output.kind,
        flip=flip,
        order="weights",
        exact=output.exact,
        ragged=columns % width != 0,
        rows_only=True,
    )
    blocks = tuple((sum(parts[:i]), count, 0) for i, count in enumerate(parts))
    return Int8Plan(text, blocks, inner // (unroll * QUAD), inner, columns, 1)


def _shapes(tiles: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(set(tiles), reverse=True))


def _pixels(vectors: int, machine: Machine) -> int:
    """The most pixels whose sums fit, beside the weights and the broadcast values."""
    weights, broadcast = (vectors, 2) if machine.dot == "vnni" else (2 * vectors, 4)
    fit = (machine.registers - broadcast - weights) // vectors
    return max(1, min(fit, machine.registers - 6))


def _tiles(
    total: int, rows: int, length: int, machine: Machine, vectors: int | None
) -> tuple[int, list[tuple[int, int]]]:
    """The vectors of a block and the tiles that take the fewest cycles."""
    counts = range(1, min(MOST_VECTORS, total) + 1) if vectors is None else (vectors,)
    best: tuple[float, int, list[tuple[int, int]]] | None = None
    for count in counts:
        tiles = tile_list(rows, length, _pixels(count, machine))
        cost = 0.0
        for vectors_here in vector_counts(total, count):
            for height, columns in tiles:
                size = height * columns
                # Two products a cycle, two loads a cycle, four cycles between dependent sums.
                cost += max(size * vectors_here / 2, (size + vectors_here) / 2, 4.0) + 0.25
        if best is None or cost < best[0]:
            best = cost, count, tiles
    assert best is not None
    return best[1], best[2]


# -- packing -----------------------------------------------------------------------------------
def pack_int8_weights(weights: Array, plan: Int8Plan) -> Array:
    """Weights [outputs][channels][taps] (integers) in the order that the kernel reads.

    For each block [input block][tap][quad][vector][lane][4 bytes]; for pairs of 16 bits
    [...][vector][even, odd][lane][2]; depthwise [block][tap][lane] in 32 bits. Zero is added for
    missing channels.
    """
    text, width = plan.text, plan.text.width
    outputs, each, taps = weights.shape
    if text.depthwise:
        wide = np.zeros((len(plan.blocks) * width, taps), np.int32)
        wide[:outputs] = weights[:, 0]
        return _bytes(wide.reshape(-1, width, taps).transpose(0, 2, 1))
    block = text.unroll * QUAD
    groups = len({first for _, _, first in plan.blocks})
    lanes = plan.lanes // groups
    padded = np.zeros((groups, lanes, plan.inputs * block, taps), np.int16)
    padded[:, : outputs // groups, :each] = weights.reshape(groups, -1, each, taps)
    padded = padded.reshape(groups * lanes, plan.inputs, text.unroll, QUAD, taps)
    parts = []
    for first, count, _ in plan.blocks:
        part = padded[first * width : (first + count) * width]
        # [vector, lane, input, quad, 4, tap] -> [input, tap, quad, vector, lane, 4]
        part = part.reshape(count, width, plan.inputs, text.unroll, QUAD, taps)
        part = part.transpose(2, 5, 3, 0, 1, 4)
        if text.dot == "vnni":
            parts.append(_bytes(part.astype(np.int8)))
        else:
            pairs = np.stack([part[..., 0::2], part[..., 1::2]], axis=-3)
            parts.append(_bytes(pairs))
    return aligned(np.concatenate(parts))


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def pack_bias_and_scales(bias: Array | None, scales: Array | None, plan: Int8Plan) -> Array:
    """[lanes] of int32 (wrapped) and [lanes] of float32, as int32; zeros where None."""
    packed = np.zeros((2, plan.lanes), np.int32)
    if bias is not None:
        packed[0, : plan.outputs] = np.asarray(bias).astype(np.int64).astype(np.int32)
    if scales is not None:
        # A product beyond float32 is saturated all the same.
        packed[1].view(np.float32)[: plan.outputs] = scales
    return aligned(packed)


def weight_sums(weights: Array) -> Array:
    """The sum of each output's weights, by which an offset of all inputs counts, int64."""
    return np.asarray(np.asarray(weights, np.int64).reshape(len(weights), -1).sum(1))


# -- descriptor --------------------------------------------------------------------------------
@dataclass(frozen=True)
class Addresses:
    """Where the operands are; activations by their first inner pixel."""

    source: Word
    weights: Word
    bias: Word
    target: Word
    residual: Word | None = None


@dataclass(frozen=True)
class Geometry:
    """Tables and strides of one run."""

    tiles: Words
    taps: Words
    batch: int
    source: tuple[int, int, int]
    """Bytes to the next batch entry, input block and, within a tile, row of outputs."""
    target: tuple[int, int, int]
    residual: tuple[int, int, int] = field(default=(0, 0, 0))


def conv_geometry(
    plan: Int8Plan,
    shape: ConvShape,
    batch: int,
    source: Plane,
    target: Plane,
    residual: Plane | None,
) -> Geometry:
    """The tables of a convolution over these buffers."""
    beside = residual or target
    return Geometry(
        tile_table(plan.text.tiles, shape, source, target, residual),
        tap_table(shape, source),
        batch,
        (source.batch, source.block, source.row * shape.strides[1]),
        (target.batch, target.block, target.row),
        (beside.batch, beside.block, beside.row),
    )


def matmul_geometry(
    plan: Int8Plan, rows: int, a_row: int, batch: int = 1, a_batch: int = 0, c_batch: int = 0
) -> Geometry:
    """The tables of a product whose A has rows `a_row` bytes apart."""
    text = plan.text
    c_row = plan.outputs * text.output.itemsize
    heights = [h for h, _ in text.tiles]
    parts = even_parts(rows, heights[0])
    if not set(parts) <= set(heights):
        parts, left = [], rows
        for h in heights:
            parts += [h] * (left // h)
            left %= h
    starts = np.cumsum([0, *parts[:-1]])
    numbers = [text.tiles.index((h, 1)) for h in parts]
    zeros = np.zeros(len(parts), np.int64)
    table = np.stack([starts * a_row, starts * c_row, zeros, np.array(numbers)], 1)
    return Geometry(
        np.ascontiguousarray(table, np.int64),
        np.zeros(1, np.int64),
        batch,
        (a_batch, text.unroll * QUAD, a_row),
        (c_batch, text.output_vector, c_row),
    )


def int8_words(plan: Int8Plan, at: Addresses, geometry: Geometry, output: Output) -> list[Word]:
    """The descriptor, one word for each Int8Word."""
    text = plan.text
    own = 0 if output.exact else MAGIC_BITS
    table = _block_table(plan)
    words: dict[Int8Word, Word] = {
        Int8Word.INPUT: at.source,
        Int8Word.WEIGHTS: at.weights,
        Int8Word.BIAS: at.bias,
        Int8Word.OUTPUT: at.target,
        Int8Word.RESIDUAL: at.target if at.residual is None else at.residual,
        Int8Word.TILES: geometry.tiles,
        Int8Word.BLOCKS: table,
        Int8Word.TAPS: geometry.taps,
        Int8Word.BATCH: geometry.batch,
        Int8Word.TILE_COUNT: len(geometry.tiles),
        Int8Word.BLOCK_COUNT: len(table),
        Int8Word.TAP_COUNT: len(geometry.taps),
        Int8Word.INPUT_BLOCKS: plan.inputs,
        Int8Word.OUTPUT_CHANNELS: plan.outputs,
        Int8Word.SCALES: 4 * plan.lanes,
        Int8Word.LOW: float32_word(output.low - output.zero),
        Int8Word.HIGH: float32_word(output.high - output.zero),
        Int8Word.OFFSET: _low_bits(output.zero - own),
        Int8Word.KEEP: float32_word(output.keep),
        Int8Word.OTHER: float32_word(output.other),
        Int8Word.OTHER_ZERO: float32_word(-output.other_zero * output.other),
        Int8Word.SUM_LOW: float32_word(output.sum_low - output.sum_zero),
        Int8Word.SUM_HIGH: float32_word(output.sum_high - output.sum_zero),
        Int8Word.SUM_OFFSET: _low_bits(output.sum_zero - own),
    }
    for first, strides in (
        (Int8Word.INPUT_BATCH, geometry.source),
        (Int8Word.OUTPUT_BATCH, geometry.target),
        (Int8Word.RESIDUAL_BATCH, geometry.residual),
    ):
        for i, stride in enumerate(strides):
            words[Int8Word(first + i)] = stride
    assert text.output is output.kind
    return [words[w] for w in Int8Word]


def _low_bits(value: int) -> int:
    return value & 0xFFFFFFFF


def _block_table(plan: Int8Plan) -> Words:
    text = plan.text
    table, offset = [], 0
    for first, count, source in plan.blocks:
        size = plan.taps * count * text.weight_vector * (1 if text.depthwise else text.unroll)
        table.append((source, offset, first, size, text.vectors.index(count)))
        offset += size * plan.inputs
    return np.array(table, np.int64)
