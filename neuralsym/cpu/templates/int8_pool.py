"""Pooling of bytes in blocks of channels: the largest of a window, or its rescaled mean.

    max:      y = largest x of the window
    average:  y = saturate(round((sum of x - count * x_zero) * ratio / divisor) + zero)

Windows are cut at the borders, so no halo is needed. The sums are exact; ratio is the scale of x
over that of y, and the quotient is float32.

Descriptor (`PoolWord`): addresses of the first inner pixels; the batch and the blocks; for each of
the three axes the number of outputs and a table [outputs][3] of the offset of the first tap, how
many taps lie inside, and how many count as divisor; bytes from tap to tap along each axis; strides
of batch entry, block, slice, row and pixel of the output; channels; numbers of the formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Literal

import numpy as np

from neuralsym.cpu.ir import Function, Loop, Module
from neuralsym.cpu.program import Word, float32_word
from neuralsym.cpu.templates.epilogue import constant
from neuralsym.cpu.templates.int8_output import MAGIC, MAGIC_BITS
from neuralsym.cpu.templates.layout import Plane, Triple, Words
from neuralsym.dtypes import NumberType

COLUMNS = 3


class PoolWord(IntEnum):
    """Positions in the descriptor."""

    INPUT = 0
    OUTPUT = auto()
    BATCH = auto()
    BLOCKS = auto()
    COUNT_0 = auto()
    COUNT_1 = auto()
    COUNT_2 = auto()
    TABLE_0 = auto()
    TABLE_1 = auto()
    TABLE_2 = auto()
    TAP_0 = auto()
    TAP_1 = auto()
    TAP_2 = auto()
    INPUT_BATCH = auto()
    INPUT_BLOCK = auto()
    OUTPUT_BATCH = auto()
    OUTPUT_BLOCK = auto()
    OUTPUT_0 = auto()
    OUTPUT_1 = auto()
    OUTPUT_2 = auto()
    CHANNELS = auto()
    X_ZERO = auto()
    RATIO = auto()
    LOW = auto()
    HIGH = auto()
    OFFSET = auto()


@dataclass(frozen=True)
class Int8PoolText:
    """width: channels of a block. reduce, kind: see the module. ragged: the last block is not
    full, and its other lanes become zero."""

    width: int
    reduce: Literal["max", "average"]
    kind: NumberType
    ragged: bool

    @property
    def bytes(self) -> str:
        return f"<{self.width} x i8>"

    @property
    def sums(self) -> str:
        return f"<{self.width} x i32>"


@dataclass(frozen=True)
class Mean:
    """The numbers of the formula of an average; bounds are those of the result."""

    ratio: float = 1.0
    x_zero: int = 0
    zero: int = 0
    low: int = 0
    high: int = 255


def int8_pool_text(text: Int8PoolText, name: str) -> str:
    """The IR text of the kernel `name`; workers share the planes of channel blocks."""
    module = Module()
    f = module.function(name)
    blocks = f.word(PoolWord.BLOCKS)
    low, high = f.share(f.mul(f.word(PoolWord.BATCH), blocks))
    with f.loop(high, start=low) as plane:
        batch, block = f.sdiv(plane.index, blocks), f.srem(plane.index, blocks)
        source = f.at(f.operand(PoolWord.INPUT), f.mul(batch, f.word(PoolWord.INPUT_BATCH)))
        source = f.at(source, f.mul(block, f.word(PoolWord.INPUT_BLOCK)))
        target = f.at(f.operand(PoolWord.OUTPUT), f.mul(batch, f.word(PoolWord.OUTPUT_BATCH)))
        target = f.at(target, f.mul(block, f.word(PoolWord.OUTPUT_BLOCK)))
        lanes = f.sub(f.word(PoolWord.CHANNELS), f.mul(block, text.width))
        counts = [f.word(PoolWord(PoolWord.COUNT_0 + axis)) for axis in range(3)]
        with f.loop(counts[0]) as d, f.loop(counts[1]) as h, f.loop(counts[2]) as w:
            _pixel(f, text, source, target, lanes, (d, h, w))
    f.do("ret i32 0")
    return str(module)


def _pixel(
    f: Function, text: Int8PoolText, source: str, target: str, lanes: str, at: Sequence[Loop]
) -> None:
    """One output pixel of one block."""
    taps, divisors = [], []
    for axis, loop in enumerate(at):
        table = f.operand(PoolWord(PoolWord.TABLE_0 + axis))
        row = f.at(table, f.mul(loop.index, 8 * COLUMNS))
        source = f.at(source, f.load("i64", row, 8))
        taps.append(f.load("i64", f.at(row, 8), 8))
        divisors.append(f.load("i64", f.at(row, 16), 8))
        stride = f.word(PoolWord(PoolWord.OUTPUT_0 + axis))
        target = f.at(target, f.mul(loop.index, stride))
    steps = [f.word(PoolWord(PoolWord.TAP_0 + axis)) for axis in range(3)]
    is_max = text.reduce == "max"
    kind = text.bytes if is_max else text.sums
    first = "zeroinitializer"
    if is_max and text.kind is NumberType.INT8:
        first = "<" + ", ".join(["i8 -128"] * text.width) + ">"
    with f.loop(taps[0], (kind, first), ("ptr", source)) as d:
        with f.loop(taps[1], (kind, d.values[0]), ("ptr", d.values[1])) as h:
            with f.loop(taps[2], (kind, h.values[0]), ("ptr", h.values[1])) as w:
                value = f.load(text.bytes, w.values[1], 1)
                w.next(_joined(f, text, w.values[0], value), f.at(w.values[1], steps[2]))
            h.next(w.values[0], f.at(h.values[1], steps[1]))
        d.next(h.values[0], f.at(d.values[1], steps[0]))
    result = d.values[0]
    if not is_max:
        count = f.mul(f.mul(taps[0], taps[1]), taps[2])
        divisor = f.mul(f.mul(divisors[0], divisors[1]), divisors[2])
        result = _mean(f, text, result, count, divisor)
    if text.ragged:
        mask = f.lane_mask(lanes, text.width)
        result = f.value(
            f"select <{text.width} x i1> {mask}, {text.bytes} {result}, "
            f"{text.bytes} zeroinitializer"
        )
    f.store(text.bytes, result, target, 1)


def _joined(f: Function, text: Int8PoolText, sums: str, value: str) -> str:
    signed = text.kind is NumberType.INT8
    if text.reduce == "max":
        return f.call("smax" if signed else "umax", text.bytes, sums, value)
    wide = f.value(f"{'sext' if signed else 'zext'} {text.bytes} {value} to {text.sums}")
    return f.value(f"add {text.sums} {sums}, {wide}")


def _mean(f: Function, text: Int8PoolText, sums: str, count: str, divisor: str) -> str:
    width, kind = text.width, f"<{text.width} x float>"
    zeros = f.value(f"trunc i64 {f.mul(count, f.word(PoolWord.X_ZERO))} to i32")
    sums = f.value(f"sub {text.sums} {sums}, {f.splat(zeros, 'i32', width)}")
    ratio = f.load("float", f.at("%desc", 8 * PoolWord.RATIO))
    factor = f.value(f"fdiv float {ratio}, {f.value(f'sitofp i64 {divisor} to float')}")
    value = f.value(f"sitofp {text.sums} {sums} to {kind}")
    value = f.value(f"fmul {kind} {value}, {f.splat(factor, 'float', width)}")
    for word, how in ((PoolWord.LOW, "ogt"), (PoolWord.HIGH, "olt")):
        bound = f.splat(f.load("float", f.at("%desc", 8 * word)), "float", width)
        inside = f.value(f"fcmp {how} {kind} {value}, {bound}")
        value = f.value(f"select <{width} x i1> {inside}, {kind} {value}, {kind} {bound}")
    value = f.value(f"fadd {kind} {value}, {constant(MAGIC, width)}")
    bits = f.value(f"bitcast {kind} {value} to {text.sums}")
    shift = f.splat(f.load("i32", f.at("%desc", 8 * PoolWord.OFFSET)), "i32", width)
    whole = f.value(f"add {text.sums} {bits}, {shift}")
    return f.value(f"trunc {text.sums} {whole} to {text.bytes}")


@dataclass(frozen=True)
class Windows:
    """A window over spatial values as (depth, height, width); counts_pads: of an average."""

    kernel: Triple
    strides: Triple
    dilations: Triple
    before: Triple
    after: Triple
    counts_pads: bool = False


def axis_table(window: Windows, axis: int, size: int, outputs: int, step: int) -> Words:
    """Rows of (offset of the first tap inside, taps inside, taps that count)."""
    kernel, dilation = window.kernel[axis], window.dilations[axis]
    rows = []
    for i in range(outputs):
        start = i * window.strides[axis] - window.before[axis]
        taps = start + dilation * np.arange(kernel)
        inside = taps[(taps >= 0) & (taps < size)]
        counted = (
            int((taps < size + window.after[axis]).sum()) if window.counts_pads else len(inside)
        )
        first = int(inside[0]) if len(inside) else 0
        rows.append((first * step, len(inside), counted))
    return np.array(rows, np.int64).reshape(-1, COLUMNS)


def int8_pool_words(
    window: Windows,
    source: Plane,
    target: Plane,
    batch: int,
    places: tuple[Word, Word],
    mean: Mean | None = None,
) -> list[Word]:
    """The descriptor, one word for each PoolWord."""
    steps = (source.slice, source.row, source.pixel)
    mean = mean or Mean()
    words: dict[PoolWord, Word] = {
        PoolWord.INPUT: places[0],
        PoolWord.OUTPUT: places[1],
        PoolWord.BATCH: batch,
        PoolWord.BLOCKS: target.blocks,
        PoolWord.INPUT_BATCH: source.batch,
        PoolWord.INPUT_BLOCK: source.block,
        PoolWord.OUTPUT_BATCH: target.batch,
        PoolWord.OUTPUT_BLOCK: target.block,
        PoolWord.OUTPUT_0: target.slice,
        PoolWord.OUTPUT_1: target.row,
        PoolWord.OUTPUT_2: target.pixel,
        PoolWord.CHANNELS: target.channels,
        PoolWord.X_ZERO: mean.x_zero,
        PoolWord.RATIO: float32_word(mean.ratio),
        PoolWord.LOW: float32_word(mean.low - mean.zero),
        PoolWord.HIGH: float32_word(mean.high - mean.zero),
        PoolWord.OFFSET: (mean.zero - MAGIC_BITS) & 0xFFFFFFFF,
    }
    for axis in range(3):
        words[PoolWord(PoolWord.COUNT_0 + axis)] = target.size[axis]
        words[PoolWord(PoolWord.TABLE_0 + axis)] = axis_table(
            window, axis, source.size[axis], target.size[axis], steps[axis]
        )
        words[PoolWord(PoolWord.TAP_0 + axis)] = steps[axis] * window.dilations[axis]
    return [words[w] for w in PoolWord]
