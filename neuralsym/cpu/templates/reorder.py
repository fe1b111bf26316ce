"""Changing the order of an activation: plain to blocks of channels and back, another halo.

"block" turns [C][pixels] into [C / width][pixels][width] and "unblock" goes back, both by
transposing squares of width x width values in registers; "copy" moves rows between buffers of
the same order; "clear" does nothing but zero the halo, which "block" and "copy" do as well.

Descriptor (`ReorderWord`); strides in bytes, activations by their first inner pixel:

| words | meaning |
|---|---|
| INPUT, OUTPUT | addresses ("clear": OUTPUT alone) |
| BATCH, BLOCKS, CHANNELS | blocks of channels (of a plain copy: channels); true channel count |
| DEPTH, HEIGHT, WIDTH | inner pixels; a copy's WIDTH is in pixels too |
| INPUT_*, OUTPUT_* BATCH, BLOCK, SLICE, ROW | strides; BLOCK of a plain side is that of a channel |
| PIXEL | bytes of an output pixel |
| BEFORE_*, AFTER_* | halo pixels to zero; all 0 leaves the halo alone |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Literal

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.program import Word
from neuralsym.cpu.templates.layout import Plane

Move = Literal["block", "unblock", "copy", "clear"]


class ReorderWord(IntEnum):
    """Positions in the descriptor of a change of order."""

    INPUT = 0
    OUTPUT = auto()
    BATCH = auto()
    BLOCKS = auto()
    CHANNELS = auto()
    DEPTH = auto()
    HEIGHT = auto()
    WIDTH = auto()
    INPUT_BATCH = auto()
    INPUT_BLOCK = auto()
    INPUT_SLICE = auto()
    INPUT_ROW = auto()
    OUTPUT_BATCH = auto()
    OUTPUT_BLOCK = auto()
    OUTPUT_SLICE = auto()
    OUTPUT_ROW = auto()
    PIXEL = auto()
    BEFORE_DEPTH = auto()
    BEFORE_HEIGHT = auto()
    BEFORE_WIDTH = auto()
    AFTER_DEPTH = auto()
    AFTER_HEIGHT = auto()
    AFTER_WIDTH = auto()


@dataclass(frozen=True)
class ReorderText:
    """What the text of a change of order depends on: the vector width and the kind of move."""

    width: int
    move: Move

    @property
    def kind(self) -> str:
        return f"<{self.width} x float>"


@dataclass(frozen=True)
class _Row:
    """One row to move: where it starts on both sides, its pixels, its channels."""

    source: str
    target: str
    pixels: str
    channels: str


def reorder_text(text: ReorderText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`, a whole change of order."""
    module = Module()
    f = module.function(name)
    word = {w: f.word(w) for w in ReorderWord}
    source, target = f.operand(ReorderWord.INPUT), f.operand(ReorderWord.OUTPUT)
    square = f.value(f"alloca [{text.width} x {text.kind}], align 64")
    if text.move != "clear":
        _rows(f, text, word, source, target, square)
    if text.move != "unblock":
        _clear_function(module, text)
        _halos(f, word, target)
    f.do("ret i32 0")
    return str(module)


def _rows(
    f: Function,
    text: ReorderText,
    word: dict[ReorderWord, str],
    source: str,
    target: str,
    square: str,
) -> None:
    """Move this worker's rows."""
    blocks, depth, height = (
        word[w] for w in (ReorderWord.BLOCKS, ReorderWord.DEPTH, ReorderWord.HEIGHT)
    )
    rows = f.mul(depth, height)
    low, high = f.share(f.mul(f.mul(word[ReorderWord.BATCH], blocks), rows))
    with f.loop(high, start=low) as each:
        plane, row = f.sdiv(each.index, rows), f.srem(each.index, rows)
        place = (
            f.sdiv(plane, blocks),
            f.srem(plane, blocks),
            f.sdiv(row, height),
            f.srem(row, height),
        )
        sides = []
        for base, first in ((source, ReorderWord.INPUT_BATCH), (target, ReorderWord.OUTPUT_BATCH)):
            strides = [word[ReorderWord(first + i)] for i in range(4)]
            per_block = strides[1]
            if (text.move == "block") == (base is source) and text.move != "copy":
                per_block = f.mul(per_block, text.width)  # the plain side strides by channel
            steps = (strides[0], per_block, strides[2], strides[3])
            for index, stride in zip(place, steps, strict=True):
                base = f.at(base, f.mul(index, stride))
            sides.append(base)
        left = f.sub(word[ReorderWord.CHANNELS], f.mul(place[1], text.width))
        here = _Row(sides[0], sides[1], word[ReorderWord.WIDTH], left)
        if text.move == "copy":
            _copy(f, text, here, f.mul(here.pixels, word[ReorderWord.PIXEL]))
        else:
            _transposed(f, text, here, word, square)


def _copy(f: Function, text: ReorderText, row: _Row, size: str) -> None:
    """Copy `size` bytes, a multiple of four."""
    vector = 4 * text.width
    whole = f.value(f"and i64 {size}, {-vector}")
    with f.loop(whole, step=vector) as at:
        value = f.load(text.kind, f.at(row.source, at.index))
        f.store(text.kind, value, f.at(row.target, at.index))
    with f.loop(size, start=whole, step=4) as at:
        value = f.load("i32", f.at(row.source, at.index))
        f.store("i32", value, f.at(row.target, at.index))


def _transposed(
    f: Function, text: ReorderText, row: _Row, word: dict[ReorderWord, str], square: str
) -> None:
    """Move a row in squares of width pixels by width channels; the last may be cut."""
    width = text.width
    full = f.compare("sge", row.channels, width)
    whole = f.select(full, "i64", f.value(f"and i64 {row.pixels}, {-width}"), 0)
    blocked = width * 4
    channel = word[ReorderWord.INPUT_BLOCK if text.move == "block" else ReorderWord.OUTPUT_BLOCK]
    with f.loop(whole, step=width) as at:
        plain_at, blocked_at = f.mul(at.index, 4), f.mul(at.index, blocked)
        if text.move == "block":
            rows = _plain_rows(f, f.at(row.source, plain_at), [channel] * (width - 1))
            values = transpose(f, [f.load(text.kind, r) for r in rows], width)
            for i, value in enumerate(values):
                f.store(text.kind, value, f.at(f.at(row.target, blocked_at), i * blocked))
        else:
            start = f.at(row.source, blocked_at)
            loaded = [f.load(text.kind, f.at(start, i * blocked)) for i in range(width)]
            rows = _plain_rows(f, f.at(row.target, plain_at), [channel] * (width - 1))
            for value, place in zip(transpose(f, loaded, width), rows, strict=True):
                f.store(text.kind, value, place)
    with f.loop(row.pixels, start=whole, step=width) as at:
        plain_at, blocked_at = f.mul(at.index, 4), f.mul(at.index, blocked)
        count = f.minimum(f.sub(row.pixels, at.index), width)
        there = [f.compare("sgt", row.channels, i) for i in range(width)]
        masks = [f.lane_mask(f.select(is_there, "i64", count, 0), width) for is_there in there]
        # Channels that are not there stand at the last one that is: an access that is masked out
        # but lies in no page of the process would cost a thousand others.
        steps = [f.select(is_there, "i64", channel, 0) for is_there in there[1:]]
        if text.move == "block":
            rows = _plain_rows(f, f.at(row.source, plain_at), steps)
            loaded = [f.masked_load(text.kind, r, m) for r, m in zip(rows, masks, strict=True)]
            for i, value in enumerate(transpose(f, loaded, width)):
                f.store(text.kind, value, f.at(square, i * blocked), 64 if width == 16 else 4)
            _vectors(f, text, square, f.at(row.target, blocked_at), count)
        else:
            _vectors(f, text, f.at(row.source, blocked_at), square, count)
            loaded = [f.load(text.kind, f.at(square, i * blocked)) for i in range(width)]
            rows = _plain_rows(f, f.at(row.target, plain_at), steps)
            for value, place, mask in zip(transpose(f, loaded, width), rows, masks, strict=True):
                f.masked_store(text.kind, value, place, mask)


def _plain_rows(f: Function, start: str, steps: Sequence[str]) -> list[str]:
    """Where the rows of the channels of a square begin, given from each to the next."""
    rows = [start]
    for step in steps:
        rows.append(f.at(rows[-1], step))
    return rows


def _vectors(f: Function, text: ReorderText, source: str, target: str, count: str) -> None:
    """Copy `count` vectors."""
    with f.loop(count) as each:
        offset = f.mul(each.index, 4 * text.width)
        f.store(text.kind, f.load(text.kind, f.at(source, offset)), f.at(target, offset))


def transpose(f: Function, rows: list[str], width: int, element: str = "float") -> list[str]:
    """The transpose of width x width values, a power of two, in log2(width) exchanges."""
    kind = f"<{width} x {element}>"
    rows = list(rows)
    step = width // 2
    while step:
        for i in range(width):
            if i & step:
                continue
            a, b = rows[i], rows[i + step]
            keep = [lane if not lane & step else width + lane - step for lane in range(width)]
            swap = [lane + step if not lane & step else width + lane for lane in range(width)]
            rows[i], rows[i + step] = (
                f.value(
                    f"shufflevector {kind} {a}, {kind} {b}, <{width} x i32> <"
                    + ", ".join(f"i32 {lane}" for lane in lanes)
                    + ">"
                )
                for lanes in (keep, swap)
            )
        step //= 2
    return rows


def _clear_function(module: Module, text: ReorderText) -> None:
    """void @clear(start, bytes): zero a stretch of memory, a multiple of four bytes."""
    f = module.function("clear", (("start", "ptr"), ("size", "i64")), "void", True, "noinline")
    vector = 4 * text.width
    whole = f.value(f"and i64 %size, {-vector}")
    with f.loop(whole, step=vector) as at:
        f.store(text.kind, "zeroinitializer", f.at("%start", at.index))
    with f.loop("%size", start=whole, step=4) as at:
        f.store("i32", "0", f.at("%start", at.index))
    f.do("ret void")


def _halos(f: Function, word: dict[ReorderWord, str], target: str) -> None:
    """Zero the halo of this worker's planes: whole slices, whole rows, then the ends of rows."""
    low, high = f.share(f.mul(word[ReorderWord.BATCH], word[ReorderWord.BLOCKS]))
    slice_bytes, row, pixel = (
        word[w] for w in (ReorderWord.OUTPUT_SLICE, ReorderWord.OUTPUT_ROW, ReorderWord.PIXEL)
    )

    def clear(start: str, size: str) -> None:
        f.do(f"call void @clear(ptr {start}, i64 {size})")

    steps = (slice_bytes, row, pixel)
    before = [
        f.mul(word[ReorderWord(ReorderWord.BEFORE_DEPTH + i)], step) for i, step in enumerate(steps)
    ]
    after = [
        f.mul(word[ReorderWord(ReorderWord.AFTER_DEPTH + i)], step) for i, step in enumerate(steps)
    ]
    inner = [f.mul(word[ReorderWord(ReorderWord.DEPTH + i)], step) for i, step in enumerate(steps)]
    corner = f.add(before[1], before[2])
    with f.loop(high, start=low) as plane:
        blocks = word[ReorderWord.BLOCKS]
        offset = f.add(
            f.mul(f.sdiv(plane.index, blocks), word[ReorderWord.OUTPUT_BATCH]),
            f.mul(f.srem(plane.index, blocks), word[ReorderWord.OUTPUT_BLOCK]),
        )
        start = f.at(target, offset)
        clear(f.at(start, f.sub(f.sub(0, corner), before[0])), before[0])
        clear(f.at(start, f.sub(inner[0], corner)), after[0])
        with f.loop(word[ReorderWord.DEPTH]) as depth:
            at = f.at(start, f.mul(depth.index, slice_bytes))
            clear(f.at(at, f.sub(0, corner)), before[1])
            clear(f.at(at, f.sub(inner[1], before[2])), after[1])
            with f.loop(word[ReorderWord.HEIGHT]) as height:
                here = f.at(at, f.mul(height.index, row))
                clear(f.at(here, f.sub(0, before[2])), before[2])
                clear(f.at(here, inner[2]), after[2])


def reorder_words(
    move: Move,
    source_address: Word,
    target_address: Word,
    batch: int,
    source: Plane,
    target: Plane,
    clear: bool = True,
) -> list[Word]:
    """The descriptor, one word for each ReorderWord; `clear` zeroes the target's halo as well.

    For "clear" the source is not looked at.
    """
    depth, height, length = target.size
    if move != "clear" and source.flat and target.flat:
        depth, height, length = 1, 1, depth * height * length
    blocks = source.blocks if move == "unblock" else target.blocks
    before, after = (target.before, target.after) if clear else ((0, 0, 0), (0, 0, 0))
    words: dict[ReorderWord, Word] = {
        ReorderWord.INPUT: source_address,
        ReorderWord.OUTPUT: target_address,
        ReorderWord.BATCH: batch,
        ReorderWord.BLOCKS: blocks,
        ReorderWord.CHANNELS: target.channels,
        ReorderWord.DEPTH: depth,
        ReorderWord.HEIGHT: height,
        ReorderWord.WIDTH: length,
        ReorderWord.INPUT_BATCH: source.batch,
        ReorderWord.INPUT_BLOCK: source.block,
        ReorderWord.INPUT_SLICE: source.slice,
        ReorderWord.INPUT_ROW: source.row,
        ReorderWord.OUTPUT_BATCH: target.batch,
        ReorderWord.OUTPUT_BLOCK: target.block,
        ReorderWord.OUTPUT_SLICE: target.slice,
        ReorderWord.OUTPUT_ROW: target.row,
        ReorderWord.PIXEL: target.pixel,
        ReorderWord.BEFORE_DEPTH: before[0],
        ReorderWord.BEFORE_HEIGHT: before[1],
        ReorderWord.BEFORE_WIDTH: before[2],
        ReorderWord.AFTER_DEPTH: after[0],
        ReorderWord.AFTER_HEIGHT: after[1],
        ReorderWord.AFTER_WIDTH: after[2],
    }
    return [words[w] for w in ReorderWord]
