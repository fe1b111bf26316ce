"""Max and average pooling over blocks of channels, with the borders cut to what lies inside.

    for each channel block and batch entry, run of pixels:
        out[pixel] = max, or sum / divisor, over the run's window, cut at the borders

A table of runs holds the cut windows, so no border is ever read, padding costs nothing, and the
divisor of an average may count the padding or not. An average adds each row of a window on its
own and then the rows: its error is at most (kernel width + kernel height + depth) units of
rounding of the mean magnitude. Maxima keep NaN.

Descriptor (`PoolWord`); strides in bytes, activations by their first inner pixel:

| words | meaning |
|---|---|
| INPUT, OUTPUT | addresses of the operands |
| RUNS | table [runs][7]: input offset, output offset, window depth, height, width (as cut), |
| | divisor (the bits of a float32), number of the count of pixels |
| BATCH, BLOCKS, RUN_COUNT | lengths of the loops |
| INPUT_BATCH, INPUT_BLOCK, OUTPUT_BATCH, OUTPUT_BLOCK | strides |
| TAP_SLICE, TAP_ROW, TAP_PIXEL | strides between neighbours in a window (with the dilation) |
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Literal

import numpy as np

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.program import Word
from neuralsym.cpu.templates.layout import Plane, Triple, Words
from neuralsym.cpu.templates.tiles import dispatch, outer_loop, row_of

Reduce = Literal["max", "average"]

RUN_COLUMNS = 7
RUN_PIXELS = 8


class PoolWord(IntEnum):
    """Positions in the descriptor of a pooling."""

    INPUT = 0
    OUTPUT = auto()
    RUNS = auto()
    BATCH = auto()
    BLOCKS = auto()
    RUN_COUNT = auto()
    INPUT_BATCH = auto()
    INPUT_BLOCK = auto()
    OUTPUT_BATCH = auto()
    OUTPUT_BLOCK = auto()
    TAP_SLICE = auto()
    TAP_ROW = auto()
    TAP_PIXEL = auto()


@dataclass(frozen=True)
class PoolText:
    """What a pooling kernel's text depends on.

    pixels: the counts of pixels of a run, 1 among them. step: bytes between the inputs of
    neighbouring output pixels.
    """

    width: int
    reduce: Reduce
    step: int
    pixels: tuple[int, ...] = (RUN_PIXELS, 1)


@dataclass(frozen=True)
class PoolShape:
    """A pooling's attributes, spatial values as (depth, height, width).

    The output's size is given by the caller (ceil mode changes nothing else). A window that
    lies in the padding alone gives -infinity or, for an average, 0 (NaN if the padding counts
    for nothing), as a sum over nothing does.
    """

    kernel: Triple
    strides: Triple
    dilations: Triple = (1, 1, 1)
    before: Triple = (0, 0, 0)
    after: Triple = (0, 0, 0)
    count_include_pad: bool = False


def pool_text(text: PoolText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`, a whole pooling."""
    module = Module()
    f = module.function(name)
    word = {w: f.word(w) for w in PoolWord}
    source, target = f.operand(PoolWord.INPUT), f.operand(PoolWord.OUTPUT)
    table = f.operand(PoolWord.RUNS)
    runs, blocks = word[PoolWord.RUN_COUNT], word[PoolWord.BLOCKS]
    low, high = f.share(f.mul(f.mul(word[PoolWord.BATCH], blocks), runs))
    with outer_loop(f, low, high, runs) as (plane, start, stop):
        batch, block = f.sdiv(plane, blocks), f.srem(plane, blocks)
        here = _base(f, source, batch, block, word, PoolWord.INPUT_BATCH, PoolWord.INPUT_BLOCK)
        there = _base(f, target, batch, block, word, PoolWord.OUTPUT_BATCH, PoolWord.OUTPUT_BLOCK)
        with f.loop(stop, start=start) as each:
            run = row_of(f, table, each.index, RUN_COLUMNS, RUN_COLUMNS)
            place, out = f.at(here, run[0]), f.at(there, run[1])
            dispatch(
                f,
                run[6],
                len(text.pixels),
                lambda case: _run(f, text, text.pixels[case], word, place, out, run),
            )
    f.do("ret i32 0")
    return str(module)


def _base(
    f: Function,
    base: str,
    batch: str,
    block: str,
    word: dict[PoolWord, str],
    batch_word: PoolWord,
    block_word: PoolWord,
) -> str:
    return f.at(f.at(base, f.mul(batch, word[batch_word])), f.mul(block, word[block_word]))


def _run(
    f: Function,
    text: PoolText,
    pixels: int,
    word: dict[PoolWord, str],
    place: str,
    out: str,
    run: list[str],
) -> None:
    """One run: `pixels` neighbours whose windows are cut alike."""
    kind = f"<{text.width} x float>"
    highest = text.reduce == "max"
    first = _minus_infinity(text.width) if highest else "zeroinitializer"
    fresh = [(kind, first)] * pixels
    with f.loop(run[2], ("ptr", place), *fresh) as depth:
        slice_at, *over_depth = depth.values
        with f.loop(run[3], ("ptr", slice_at), *((kind, v) for v in over_depth)) as height:
            row_at, *over_height = height.values
            # An average starts each row anew; a maximum goes on.
            begin = [(kind, v) for v in over_height] if highest else fresh
            with f.loop(run[4], ("ptr", row_at), *begin) as column:
                at, *values = column.values
                loaded = [f.load(kind, f.at(at, i * text.step)) for i in range(pixels)]
                column.next(
                    f.at(at, word[PoolWord.TAP_PIXEL]),
                    *(_join(f, text, v, n) for v, n in zip(values, loaded, strict=True)),
                )
            row = column.values[1:]
            if not highest:
                row = tuple(_join(f, text, v, n) for v, n in zip(over_height, row, strict=True))
            height.next(f.at(row_at, word[PoolWord.TAP_ROW]), *row)
        depth.next(f.at(slice_at, word[PoolWord.TAP_SLICE]), *height.values[1:])
    results = depth.values[1:]
    if not highest:
        bits = f.value(f"trunc i64 {run[5]} to i32")
        divisor = f.splat(f.value(f"bitcast i32 {bits} to float"), "float", text.width)
        results = tuple(f.value(f"fdiv {kind} {v}, {divisor}") for v in results)
    for i, value in enumerate(results):
        f.store(kind, value, f.at(out, i * 4 * text.width))


def _join(f: Function, text: PoolText, a: str, b: str) -> str:
    if text.reduce == "max":
        return maximum(f, a, b, text.width)
    return f.value(f"fadd <{text.width} x float> {a}, {b}")


def maximum(f: Function, a: str, b: str, width: int) -> str:
    """max(a, b) lane by lane; NaN if either is."""
    kind = f"<{width} x float>"
    # `a > b ? a : b` is one instruction and gives b wherever either is NaN.
    greater = f.value(f"fcmp ogt {kind} {a}, {b}")
    most = f.value(f"select <{width} x i1> {greater}, {kind} {a}, {kind} {b}")
    bad = f.value(f"fcmp uno {kind} {a}, {a}")
    return f.value(f"select <{width} x i1> {bad}, {kind} {a}, {kind} {most}")


def _minus_infinity(width: int) -> str:
    return "<" + ", ".join(["float 0xFFF0000000000000"] * width) + ">"


def run_table(text: PoolText, shape: PoolShape, source: Plane, target: Plane) -> Words:
    """Rows of `PoolWord.RUNS`: neighbours of the same cut windows go into one run."""
    largest = max(text.pixels)
    columns = []
    x = 0
    while x < target.size[2]:
        count = 1
        cut = _cut(shape, source, 2, x)
        whole = cut == (x * shape.strides[2] - shape.before[2], shape.kernel[2], shape.kernel[2])
        while (
            whole
            and count < largest
            and x + count < target.size[2]
            and _cut(shape, source, 2, x + count)[1:] == cut[1:]
        ):
            count += 1
        sizes = [largest] if count == largest else [1] * count
        for size in sizes:
            columns.append((x, size, *_cut(shape, source, 2, x)))
            x += size
    table = []
    for z in range(target.size[0]):
        depth_at, depth, depth_padded = _cut(shape, source, 0, z)
        for y in range(target.size[1]):
            row_at, height, height_padded = _cut(shape, source, 1, y)
            for x, size, column_at, width, width_padded in columns:
                counted = depth_padded * height_padded * width_padded
                divisor = counted if shape.count_include_pad else depth * height * width
                table.append(
                    (
                        source.offset((depth_at, row_at, column_at)),
                        target.offset((z, y, x)),
                        depth,
                        height,
                        width,
                        struct.unpack("<i", struct.pack("<f", float(divisor)))[0],
                        text.pixels.index(size),
                    )
                )
    return np.array(table, np.int64).reshape(-1, RUN_COLUMNS)


def _cut(shape: PoolShape, source: Plane, axis: int, index: int) -> tuple[int, int, int]:
    """(first inner position, positions inside, positions inside or in the pads) of a window."""
    start = index * shape.strides[axis] - shape.before[axis]
    taps = [start + k * shape.dilations[axis] for k in range(shape.kernel[axis])]
    inside = [p for p in taps if 0 <= p < source.size[axis]]
    padded = [p for p in taps if p < source.size[axis] + shape.after[axis]]
    return (inside[0] if inside else 0), len(inside), len(padded)


def plan_pool(shape: PoolShape, source: Plane, reduce: Reduce) -> PoolText:
    """The kernel's text for `shape`, by the distance between windows."""
    return PoolText(source.lanes, reduce, shape.strides[2] * source.pixel)


def pool_words(
    shape: PoolShape,
    source_address: Word,
    target_address: Word,
    runs_address: Word,
    runs: Words,
    batch: int,
    source: Plane,
    target: Plane,
) -> list[Word]:
    """The descriptor, one word for each PoolWord."""
    words: dict[PoolWord, Word] = {
        PoolWord.INPUT: source_address,
        PoolWord.OUTPUT: target_address,
        PoolWord.RUNS: runs_address,
        PoolWord.BATCH: batch,
        PoolWord.BLOCKS: target.blocks,
        PoolWord.RUN_COUNT: len(runs),
        PoolWord.INPUT_BATCH: source.batch,
        PoolWord.INPUT_BLOCK: source.block,
        PoolWord.OUTPUT_BATCH: target.batch,
        PoolWord.OUTPUT_BLOCK: target.block,
        PoolWord.TAP_SLICE: source.slice * shape.dilations[0],
        PoolWord.TAP_ROW: source.row * shape.dilations[1],
        PoolWord.TAP_PIXEL: source.pixel * shape.dilations[2],
    }
    return [words[w] for w in PoolWord]
