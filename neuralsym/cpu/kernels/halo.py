"""Zeroing the border of a blocked buffer: a row that the plan puts before its first writer.

Descriptor: address of the memory, planes, bytes of a plane, number of ranges, table of ranges
(offset and bytes of each, within a plane).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from neuralsym.cpu.emit import Code
from neuralsym.cpu.ir import Module
from neuralsym.cpu.machine import Target
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, Word


def clear_halo(target: Target, buffer: Buffer, sizes: Sizes) -> Row:
    """The row that zeroes all that is not an inner pixel of `buffer`."""
    memory = sizes.memory_shape(buffer)
    pixel = buffer.dtype.itemsize * memory[-1]
    padded, inner = memory[2:-1], sizes.shape(buffer)[2:]
    outside = np.ones(padded, bool)
    outside[tuple(slice(a, a + n) for (a, _), n in zip(buffer.layout.halo, inner, strict=True))] = (
        False
    )
    flat = np.concatenate([[False], outside.reshape(-1), [False]])
    edges = np.flatnonzero(flat[1:] != flat[:-1]).reshape(-1, 2)
    ranges = np.stack([edges[:, 0] * pixel, (edges[:, 1] - edges[:, 0]) * pixel], axis=1)
    table = np.ascontiguousarray(ranges, dtype=np.int64)
    planes = memory[0] * memory[1]
    words: list[Word] = [Operand(buffer), planes, outside.size * pixel, len(table), table]
    return Row(_code(target), words)


@cache
def _code(target: Target) -> Code:
    width = target.width("float32")
    kind, step = f"<{width} x float>", 4 * width
    module = Module()
    f = module.function("clear_halo")
    memory, planes, plane = f.operand(0), f.word(1), f.word(2)
    count, table = f.word(3), f.operand(4)
    low, high = f.share(planes)
    with f.loop(high, start=low) as outer:
        start = f.at(memory, f.mul(outer.index, plane))
        with f.loop(count) as each:
            entry = f.at(table, f.mul(each.index, 16))
            place = f.at(start, f.load("i64", entry, 8))
            size = f.load("i64", f.at(entry, 8), 8)
            whole = f.value(f"and i64 {size}, {-step}")
            with f.loop(whole, step=step) as at:
                f.store(kind, "zeroinitializer", f.at(place, at.index), 4)
            with f.loop(size, start=whole) as at:
                f.store("i8", "0", f.at(place, at.index), 1)
    f.do("ret i32 0")
    return Code("clear_halo", "clear_halo", str(module))
