"""Lines added to images at places that a table names: the sums of Col2Im.

    for each image of this worker's share:
        image = 0
        for each line of the table:  image[to + i * stride] += entries[from + i], i < count

The order of the table is the order of the sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.scalar_ir import IR_TYPE
from neuralsym.cpu.vector_lanes import vector
from neuralsym.dtypes import NumberType

LINE_WORDS = 3
"""Of a line of the table: bytes into the entries, bytes into the image, how many entries."""


@dataclass(frozen=True)
class OverlapText:
    """What the text depends on: the elements' type, and whether lines go to neighbours."""

    kind: NumberType
    dense: bool
    vector_bytes: int

    @property
    def width(self) -> int:
        return max(1, self.vector_bytes // self.kind.itemsize) if self.dense else 1


def overlap_text(text: OverlapText, name: str = "kernel") -> str:
    """The IR text of the kernel. Descriptor: images, entries, table; how many images, bytes of one,
    bytes of the entries of one, lines; bytes from one element of a line to the next."""
    module = Module()
    f = module.function(name)
    images, entries, table = (f.operand(i) for i in range(3))
    count, image_bytes, entry_bytes, lines, stride = (f.word(i) for i in range(3, 8))
    low, high = f.share(count)
    with f.loop(high, start=low) as each:
        image = f.at(images, f.mul(each.index, image_bytes))
        source = f.at(entries, f.mul(each.index, entry_bytes))
        _clear(f, image, image_bytes, text.vector_bytes)
        with f.loop(lines) as line:
            words = f.at(table, f.mul(line.index, 8 * LINE_WORDS))
            since, to, many = (f.load("i64", f.at(words, 8 * i), 8) for i in range(LINE_WORDS))
            _line(f, text, f.at(source, since), f.at(image, to), many, stride)
    f.do("ret i32 0")
    return str(module)


def _clear(f: Function, place: str, size: str, vector_bytes: int) -> None:
    whole = f.value(f"and i64 {size}, {-vector_bytes}")
    with f.loop(whole, step=vector_bytes) as at:
        f.store(f"<{vector_bytes} x i8>", "zeroinitializer", f.at(place, at.index), 1)
    with f.loop(size, start=whole) as at:
        f.store("i8", "0", f.at(place, at.index), 1)


def _line(f: Function, text: OverlapText, source: str, target: str, count: str, far: str) -> None:
    """Add the entries of one line, the last ones by halves of vectors.

    Under a mask they would seem to lie over the next line, whose reading then waits for them.
    """
    item, width = text.kind.itemsize, text.width
    add = "fadd" if text.kind.is_float else "add"

    def some(at: str, width: int) -> None:
        kind, here = vector(IR_TYPE[text.kind], width), f.at(source, f.mul(at, item))
        there = f.at(target, f.mul(at, item if text.dense else far))
        value, old = (f.load(kind, place, item) for place in (here, there))
        f.store(kind, f.value(f"{add} {kind} {old}, {value}"), there, item)

    whole = f.value(f"and i64 {count}, {-width}")
    with f.loop(whole, step=width) as at:
        some(at.index, width)
    while width > 1:
        width //= 2
        part = f.value(f"and i64 {count}, {width}")
        with f.when(f.compare("ne", part, 0)):
            some(f.value(f"and i64 {count}, {-2 * width}"), width)
