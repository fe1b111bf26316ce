"""Global average and maximum: every channel block of a plane to one vector.

The pixels of a row go into four running values that are joined pairwise, and the rows are added
one to the next: the error of an average is at most (W / 4 + H * D + 3) units of rounding of the
mean magnitude; a plane without halo counts as one row, and long rows are summed in pieces of 256
pixels, which bounds the first term by 64 and adds one for each piece.

Descriptor (`GlobalPoolWord`), strides in bytes, the input by its first inner pixel:

| words | meaning |
|---|---|
| INPUT, OUTPUT | addresses; the output is [N][channels] with OUTPUT_BATCH bytes between entries |
| BATCH, CHANNELS | lengths; lanes past CHANNELS are not written |
| INPUT_BATCH, INPUT_BLOCK, SLICE, ROW | strides of the input |
| DEPTH, HEIGHT, WIDTH | inner pixels on each axis |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.program import Word
from neuralsym.cpu.templates.layout import Plane
from neuralsym.cpu.templates.pool import Reduce, maximum

STREAMS = 4
PIECE = 256


class GlobalPoolWord(IntEnum):
    """Positions in the descriptor of a global pooling."""

    INPUT = 0
    OUTPUT = auto()
    BATCH = auto()
    CHANNELS = auto()
    INPUT_BATCH = auto()
    INPUT_BLOCK = auto()
    SLICE = auto()
    ROW = auto()
    DEPTH = auto()
    HEIGHT = auto()
    WIDTH = auto()
    OUTPUT_BATCH = auto()


@dataclass(frozen=True)
class GlobalPoolText:
    """What a global pooling kernel's text depends on."""

    width: int
    reduce: Reduce


def global_pool_text(text: GlobalPoolText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`, a whole global pooling."""
    module = Module()
    f = module.function(name)
    kind = f"<{text.width} x float>"
    word = {w: f.word(w) for w in GlobalPoolWord}
    source, target = f.operand(GlobalPoolWord.INPUT), f.operand(GlobalPoolWord.OUTPUT)
    channels = word[GlobalPoolWord.CHANNELS]
    blocks = f.sdiv(f.add(channels, text.width - 1), text.width)
    low, high = f.share(f.mul(word[GlobalPoolWord.BATCH], blocks))
    pixels = f.mul(
        f.mul(word[GlobalPoolWord.DEPTH], word[GlobalPoolWord.HEIGHT]), word[GlobalPoolWord.WIDTH]
    )
    single = f.value(f"sitofp i64 {pixels} to float")
    divisor = f.splat(single, "float", text.width)
    with f.loop(high, start=low) as plane:
        batch, block = f.sdiv(plane.index, blocks), f.srem(plane.index, blocks)
        offset = f.add(
            f.mul(batch, word[GlobalPoolWord.INPUT_BATCH]),
            f.mul(block, word[GlobalPoolWord.INPUT_BLOCK]),
        )
        total = _plane(f, text, kind, f.at(source, offset), word)
        if text.reduce == "average":
            total = f.value(f"fdiv {kind} {total}, {divisor}")
        first = f.mul(block, text.width)
        offset = f.add(f.mul(batch, word[GlobalPoolWord.OUTPUT_BATCH]), f.mul(first, 4))
        place = f.at(target, offset)
        store_lanes(f, total, place, f.sub(channels, first), text.width)
    f.do("ret i32 0")
    return str(module)


def _plane(
    f: Function, text: GlobalPoolText, kind: str, start: str, word: dict[GlobalPoolWord, str]
) -> str:
    """The sum or maximum of all pixels of one plane."""
    low = "<" + ", ".join(["float 0xFFF0000000000000"] * text.width) + ">"
    first = low if text.reduce == "max" else "zeroinitializer"
    row, slice_bytes = word[GlobalPoolWord.ROW], word[GlobalPoolWord.SLICE]
    with f.loop(word[GlobalPoolWord.DEPTH], (kind, first)) as depth:
        at = f.at(start, f.mul(depth.index, slice_bytes))
        with f.loop(word[GlobalPoolWord.HEIGHT], (kind, depth.values[0])) as height:
            row_at = f.at(at, f.mul(height.index, row))
            count = word[GlobalPoolWord.WIDTH]
            with f.loop(count, (kind, height.values[0]), step=PIECE) as piece:
                stop = f.minimum(f.add(piece.index, PIECE), count)
                total = _stretch(f, text, kind, first, row_at, piece.index, stop)
                piece.next(_join(f, text, kind, piece.values[0], total))
            height.next(piece.values[0])
        depth.next(height.values[0])
    return depth.values[0]


def _stretch(
    f: Function, text: GlobalPoolText, kind: str, first: str, row: str, start: str, stop: str
) -> str:
    """Pixels [start, stop) of a row by several running values, joined pairwise."""
    size = 4 * text.width
    whole = f.value(f"and i64 {f.sub(stop, start)}, {-STREAMS}")
    middle = f.add(start, whole)
    with f.loop(middle, *[(kind, first)] * STREAMS, start=start, step=STREAMS) as many:
        at = f.at(row, f.mul(many.index, size))
        loaded = [f.load(kind, f.at(at, i * size)) for i in range(STREAMS)]
        many.next(*(_join(f, text, kind, v, n) for v, n in zip(many.values, loaded, strict=True)))
    values = list(many.values)
    while len(values) > 1:
        values = [
            _join(f, text, kind, a, b) for a, b in zip(values[::2], values[1::2], strict=True)
        ]
    with f.loop(stop, (kind, values[0]), start=middle) as rest:
        at = f.at(row, f.mul(rest.index, size))
        rest.next(_join(f, text, kind, rest.values[0], f.load(kind, at)))
    return rest.values[0]


def _join(f: Function, text: GlobalPoolText, kind: str, a: str, b: str) -> str:
    if text.reduce == "max":
        return maximum(f, a, b, text.width)
    return f.value(f"fadd {kind} {a}, {b}")


def store_lanes(
    f: Function, value: str, address: str, count: str, width: int, element: str = "float"
) -> None:
    """Store the first `count` lanes of a vector (all of them if there are fewer than `count`)."""
    kind = f"<{width} x {element}>"
    f.choose(
        f.compare("sge", count, width),
        [],
        lambda: _stored(f, kind, value, address),
        lambda: _masked(f, kind, value, address, f.lane_mask(count, width)),
    )


def _stored(f: Function, kind: str, value: str, address: str) -> list[str]:
    f.store(kind, value, address)
    return []


def _masked(f: Function, kind: str, value: str, address: str, mask: str) -> list[str]:
    f.masked_store(kind, value, address, mask)
    return []


def global_pool_words(
    source_address: Word,
    target_address: Word,
    batch: int,
    source: Plane,
    target_batch: int,
    channels: int | None = None,
) -> list[Word]:
    """The descriptor, one word for each GlobalPoolWord.

    target_batch: bytes between the outputs of two batch entries. channels: how many are written;
    by default those of the source, for a blocked output its padded lanes too.
    """
    depth, height, width = source.size
    if source.flat:
        depth, height, width = 1, 1, depth * height * width
    words: dict[GlobalPoolWord, Word] = {
        GlobalPoolWord.INPUT: source_address,
        GlobalPoolWord.OUTPUT: target_address,
        GlobalPoolWord.BATCH: batch,
        GlobalPoolWord.CHANNELS: source.channels if channels is None else channels,
        GlobalPoolWord.INPUT_BATCH: source.batch,
        GlobalPoolWord.INPUT_BLOCK: source.block,
        GlobalPoolWord.SLICE: source.slice,
        GlobalPoolWord.ROW: source.row,
        GlobalPoolWord.DEPTH: depth,
        GlobalPoolWord.HEIGHT: height,
        GlobalPoolWord.WIDTH: width,
        GlobalPoolWord.OUTPUT_BATCH: target_batch,
    }
    return [words[w] for w in GlobalPoolWord]
