"""Bytes from plain order to blocks of channels and back, by interleaving vectors of 16 pixels.

"block" turns [C][pixels] into [C / lanes][pixels][lanes], "unblock" goes back. The rows of a batch
entry's block are moved 16 pixels at a time, the last of them overlapping those before; rows shorter
than that go byte by byte.

Descriptor (`ByteWord`): addresses of the first inner pixels; batch, blocks, channels; depth, height
and width; strides of batch entry, block (of a plain side: of a channel), slice and row of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Literal

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.program import Word
from neuralsym.cpu.templates.layout import Plane

PIXELS = 16
KIND = f"<{PIXELS} x i8>"


class ByteWord(IntEnum):
    """Positions in the descriptor."""

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


@dataclass(frozen=True)
class ByteText:
    """The channels of a block, a power of two, and the direction."""

    lanes: int
    move: Literal["block", "unblock"]


def byte_reorder_text(text: ByteText, name: str) -> str:
    """The IR text of the kernel `name`; workers share the blocks of all batch entries."""
    module = Module()
    f = module.function(name)
    blocks, width = f.word(ByteWord.BLOCKS), f.word(ByteWord.WIDTH)
    low, high = f.share(f.mul(f.word(ByteWord.BATCH), blocks))
    with f.loop(high, start=low) as plane:
        batch, block = f.sdiv(plane.index, blocks), f.srem(plane.index, blocks)
        left = f.sub(f.word(ByteWord.CHANNELS), f.mul(block, text.lanes))
        sides = []
        for first, each in (("INPUT", text.move == "block"), ("OUTPUT", text.move != "block")):
            start = f.at(
                f.operand(ByteWord[first]), f.mul(batch, f.word(ByteWord[f"{first}_BATCH"]))
            )
            number = f.mul(block, text.lanes) if each else block
            sides.append(f.at(start, f.mul(number, f.word(ByteWord[f"{first}_BLOCK"]))))
        with f.loop(f.word(ByteWord.DEPTH)) as d, f.loop(f.word(ByteWord.HEIGHT)) as h:
            rows = []
            for first, side in zip(("INPUT", "OUTPUT"), sides, strict=True):
                place = f.at(side, f.mul(d.index, f.word(ByteWord[f"{first}_SLICE"])))
                rows.append(f.at(place, f.mul(h.index, f.word(ByteWord[f"{first}_ROW"]))))
            whole = f.value(f"and i64 {width}, {-PIXELS}")
            with f.loop(whole, step=PIXELS) as at:
                _move(f, text, rows, at.index, left)
            is_long = f.compare("sge", width, PIXELS)
            rest = f.compare("ne", whole, width)
            with f.when(f.value(f"and i1 {is_long}, {rest}")):
                _move(f, text, rows, f.sub(width, PIXELS), left)
            short = f.select(is_long, "i64", 0, width)
            with f.loop(short) as at:
                _single(f, text, rows, at.index, left)
    f.do("ret i32 0")
    return str(module)


def _channel(f: Function, text: ByteText, plain: str, at: str, lane: str | int) -> str:
    """The address of pixel `at` of a channel of the plain side."""
    word = ByteWord.INPUT_BLOCK if text.move == "block" else ByteWord.OUTPUT_BLOCK
    return f.at(f.at(plain, f.mul(lane, f.word(word))), at)


def _move(f: Function, text: ByteText, rows: list[str], at: str, left: str) -> None:
    """16 pixels of all channels of the block."""
    lanes = text.lanes
    if text.move == "block":
        loaded = []
        for lane in range(lanes):
            here = f.compare("slt", lane, left)
            # A channel that is not there is read from the first, and becomes zero.
            place = _channel(f, text, rows[0], at, f.select(here, "i64", lane, 0))
            value = f.load(KIND, place, 1)
            loaded.append([f.select(here, KIND, value, "zeroinitializer")])
        while len(loaded) > 1:
            half = len(loaded) // 2
            loaded = [_zip(f, loaded[i], loaded[i + half]) for i in range(half)]
        target = f.at(rows[1], f.mul(at, lanes))
        for i, piece in enumerate(loaded[0]):
            f.store(KIND, piece, f.at(target, i * PIXELS), 1)
        return
    source = f.at(rows[0], f.mul(at, lanes))
    pieces = [[f.load(KIND, f.at(source, i * PIXELS), 1) for i in range(lanes)]]
    while len(pieces) < lanes:
        pairs = [_unzip(f, p) for p in pieces]
        pieces = [even for even, _ in pairs] + [odd for _, odd in pairs]
    for lane, (value,) in enumerate(pieces):
        with f.when(f.compare("slt", lane, left)):
            f.store(KIND, value, _channel(f, text, rows[1], at, lane), 1)


def _single(f: Function, text: ByteText, rows: list[str], at: str, left: str) -> None:
    """One pixel, byte by byte."""
    blocked = f.at(rows[1] if text.move == "block" else rows[0], f.mul(at, text.lanes))
    count = f.minimum(left, text.lanes)
    if text.move == "block":
        with f.loop(text.lanes) as lane:
            here = f.compare("slt", lane.index, left)
            place = _channel(f, text, rows[0], at, f.select(here, "i64", lane.index, 0))
            value = f.select(here, "i8", f.load("i8", place, 1), 0)
            f.store("i8", value, f.at(blocked, lane.index), 1)
        return
    with f.loop(count) as lane:
        value = f.load("i8", f.at(blocked, lane.index), 1)
        f.store("i8", value, _channel(f, text, rows[1], at, lane.index), 1)


def _zip(f: Function, a: list[str], b: list[str]) -> list[str]:
    """The bytes of two sequences of vectors, taken in turn."""
    made = []
    for x, y in zip(a, b, strict=True):
        for first in (0, PIXELS // 2):
            lanes = [v for i in range(PIXELS // 2) for v in (first + i, PIXELS + first + i)]
            made.append(_shuffle(f, x, y, lanes))
    return made


def _unzip(f: Function, pieces: list[str]) -> tuple[list[str], list[str]]:
    """Every other byte of a sequence of vectors, and the rest."""
    pairs = list(zip(pieces[0::2], pieces[1::2], strict=True))
    even, odd = (
        [_shuffle(f, x, y, list(range(first, 2 * PIXELS, 2))) for x, y in pairs] for first in (0, 1)
    )
    return even, odd


def _shuffle(f: Function, a: str, b: str, lanes: list[int]) -> str:
    chosen = ", ".join(f"i32 {lane}" for lane in lanes)
    return f.value(f"shufflevector {KIND} {a}, {KIND} {b}, <{PIXELS} x i32> <{chosen}>")


def byte_reorder_words(
    source: Plane, target: Plane, batch: int, places: tuple[Word, Word]
) -> list[Word]:
    """The descriptor, one word for each ByteWord."""
    size = source.size
    if source.flat and target.flat:
        size = (1, 1, size[0] * size[1] * size[2])
    words: dict[ByteWord, Word] = {
        ByteWord.INPUT: places[0],
        ByteWord.OUTPUT: places[1],
        ByteWord.BATCH: batch,
        ByteWord.BLOCKS: max(source, target, key=lambda side: side.lanes).blocks,
        ByteWord.CHANNELS: source.channels,
        ByteWord.DEPTH: size[0],
        ByteWord.HEIGHT: size[1],
        ByteWord.WIDTH: size[2],
    }
    for first, side in (("INPUT", source), ("OUTPUT", target)):
        for name, stride in (
            ("BATCH", side.batch),
            ("BLOCK", side.block),
            ("SLICE", side.slice),
            ("ROW", side.row),
        ):
            words[ByteWord[f"{first}_{name}"]] = stride
    return [words[w] for w in ByteWord]
