"""Small kernels beside the integer products: borders, zero points of a run, rows of whole quads.

| kernel | descriptor, int64 words; strides in bytes |
|---|---|
| border | memory, batch, blocks, strides of both, table [ranges][2] of bytes from and to, its |
| | length, address of the byte to write |
| zero point | bias, sums of weights, address of the zero point, output, elements |
| rows | input, output, rows, bytes of an input row, of an output row |
"""

from __future__ import annotations

from typing import Literal

from neuralsym.cpu.ir import Module

QUAD = 4
VECTOR = 16


def border_text(name: str) -> str:
    """memory[n][b][range] = byte; ranges begin and end with a quad. Workers share the planes."""
    module = Module()
    f = module.function(name)
    memory, blocks = f.operand(0), f.word(2)
    table, count = f.operand(5), f.word(6)
    value = f.load("i8", f.operand(7), 1)
    wide, short = f.splat(value, "i8", VECTOR), f.splat(value, "i8", QUAD)
    low, high = f.share(f.mul(f.word(1), blocks))
    with f.loop(high, start=low) as plane:
        batch, block = f.sdiv(plane.index, blocks), f.srem(plane.index, blocks)
        start = f.at(memory, f.mul(batch, f.word(3)))
        start = f.at(start, f.mul(block, f.word(4)))
        with f.loop(count) as each:
            entry = f.at(table, f.mul(each.index, 16))
            first, past = f.load("i64", entry, 8), f.load("i64", f.at(entry, 8), 8)
            size = f.sub(past, first)
            place = f.at(start, first)
            whole = f.value(f"and i64 {size}, {-VECTOR}")
            with f.loop(whole, step=VECTOR) as at:
                f.store(f"<{VECTOR} x i8>", wide, f.at(place, at.index), 1)
            with f.loop(size, start=whole, step=QUAD) as at:
                f.store(f"<{QUAD} x i8>", short, f.at(place, at.index), 1)
    f.do("ret i32 0")
    return str(module)


def zero_point_text(name: str, extend: Literal["sext", "zext"]) -> str:
    """output[i] = bias[i] - zero * sums[i], in int32; one worker does it."""
    module = Module()
    f = module.function(name)
    bias, sums, target = f.operand(0), f.operand(1), f.operand(3)
    zero = f.value(f"{extend} i8 {f.load('i8', f.operand(2), 1)} to i32")
    with f.loop(f.word(4)) as loop:
        at = f.mul(loop.index, 4)
        product = f.value(f"mul i32 {f.load('i32', f.at(sums, at))}, {zero}")
        made = f.value(f"sub i32 {f.load('i32', f.at(bias, at))}, {product}")
        f.store("i32", made, f.at(target, at))
    f.do("ret i32 0")
    return str(module)


def rows_text(name: str) -> str:
    """Rows of bytes copied to longer ones, whose rest is zero. Workers share the rows."""
    module = Module()
    f = module.function(name)
    source, target = f.operand(0), f.operand(1)
    short, long = f.word(3), f.word(4)
    low, high = f.share(f.word(2))
    with f.loop(high, start=low) as row:
        here = f.at(source, f.mul(row.index, short))
        there = f.at(target, f.mul(row.index, long))
        whole = f.value(f"and i64 {short}, {-VECTOR}")
        with f.loop(whole, step=VECTOR) as at:
            value = f.load(f"<{VECTOR} x i8>", f.at(here, at.index), 1)
            f.store(f"<{VECTOR} x i8>", value, f.at(there, at.index), 1)
        with f.loop(short, start=whole) as at:
            f.store("i8", f.load("i8", f.at(here, at.index), 1), f.at(there, at.index), 1)
        with f.loop(long, start=short) as at:
            f.store("i8", "0", f.at(there, at.index), 1)
    f.do("ret i32 0")
    return str(module)
