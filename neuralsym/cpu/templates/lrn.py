"""Local response normalisation over neighbouring channels as IR, row-major and blocked.

    y[c] = x[c] / (bias + alpha / size * sum of x[k]^2 for k around c) ^ beta

with k from c - (size - 1) // 2 to c + size // 2 within the channels. Rows: vectors lie along the
pixels. Blocks: vectors lie along the channels and neighbours come by shuffles of the blocks
before and behind; lanes beyond the last channel are zero and stay so.

Descriptor of rows: y, x, batch, channels, pixels, bias, alpha / size.
Descriptor of blocks: y, x (both by their first inner pixel), batch, blocks, depth, height, width,
strides of y (batch, block, slice, row), strides of x, bias, alpha / size. Numbers are the bits of
float32 in the low half of a word.
"""

from __future__ import annotations

from dataclasses import dataclass

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.vector_lanes import Lanes
from neuralsym.cpu.vector_math import function


@dataclass(frozen=True)
class LrnText:
    """What the text depends on: lanes of float32, channels of a window, the power."""

    width: int
    size: int
    beta: float
    blocked: bool


def lrn_text(text: LrnText, name: str = "kernel") -> str:
    """The IR text of the kernel `name`."""
    module = Module()
    f = module.function(name)
    if text.blocked:
        _blocks(f, text)
    else:
        _rows(f, text)
    f.do("ret i32 0")
    return str(module)


def reaches(size: int) -> tuple[int, int]:
    """How many channels before and behind belong to a window."""
    return (size - 1) // 2, size // 2


def _rows(f: Function, text: LrnText) -> None:
    v, width = Lanes(f, "float", text.width), text.width
    batch, channels, pixels = (f.word(i) for i in range(2, 5))
    bias, alpha = (_number(f, i, width) for i in (5, 6))
    before, behind = reaches(text.size)
    line = f.mul(pixels, 4)
    columns = f.sdiv(f.add(pixels, width - 1), width)
    low, high = f.share(f.mul(batch, columns))
    with f.loop(high, start=low) as unit:
        column = f.mul(f.srem(unit.index, columns), width)
        mask = f.lane_mask(f.sub(pixels, column), width)
        start = f.mul(f.sdiv(unit.index, columns), f.mul(channels, line))
        start = f.add(start, f.mul(column, 4))
        source, target = f.at(f.operand(1), start), f.at(f.operand(0), start)
        with f.loop(channels) as at:
            first = f.maximum(f.sub(at.index, before), 0)
            last = f.minimum(f.add(at.index, behind + 1), channels)
            with f.loop(last, (v.kind, v.number(0.0)), start=first) as k:
                value = f.masked_load(v.kind, f.at(source, f.mul(k.index, line)), mask)
                k.next(v.fma(value, value, k.values[0]))
            offset = f.mul(at.index, line)
            value = f.masked_load(v.kind, f.at(source, offset), mask)
            made = _scaled(v, text, value, v.fma(k.values[0], alpha, bias))
            f.masked_store(v.kind, made, f.at(target, offset), mask)


def _blocks(f: Function, text: LrnText) -> None:
    v, pixel = Lanes(f, "float", text.width), 4 * text.width
    batch, blocks, depth, height, width = (f.word(i) for i in range(2, 7))
    outer, inner = ([f.word(i) for i in range(k, k + 4)] for k in (7, 11))
    bias, alpha = (_number(f, i, text.width) for i in (15, 16))
    lines = f.mul(depth, height)
    low, high = f.share(f.mul(f.mul(batch, blocks), lines))
    with f.loop(high, start=low) as unit:
        plane, line = f.sdiv(unit.index, lines), f.srem(unit.index, lines)
        block = f.srem(plane, blocks)
        places = (f.sdiv(plane, blocks), block, f.sdiv(line, height), f.srem(line, height))
        target, source = f.operand(0), f.operand(1)
        for place, to, since in zip(places, outer, inner, strict=True):
            target, source = f.at(target, f.mul(place, to)), f.at(source, f.mul(place, since))
        first = f.compare("eq", block, 0)
        last = f.compare("eq", f.add(block, 1), blocks)
        # At the ends the block itself is read in the place of the missing one, and not used.
        back = f.select(first, "i64", 0, f.value(f"sub i64 0, {inner[1]}"))
        forth = f.select(last, "i64", 0, inner[1])
        zero = v.number(0.0)
        with f.loop(width) as at:
            here = f.at(source, f.mul(at.index, pixel))
            value = f.load(v.kind, here)
            squares = []
            for jump, missing in ((back, first), ("0", None), (forth, last)):
                near = value if missing is None else f.load(v.kind, f.at(here, jump))
                square = v.mul(near, near)
                if missing is not None:
                    square = f.select(missing, v.kind, zero, square)
                squares.append(square)
            total = v.fma(_window(f, v, squares, text.size), alpha, bias)
            made = _scaled(v, text, value, total)
            f.store(v.kind, made, f.at(target, f.mul(at.index, pixel)))


def _window(f: Function, v: Lanes, squares: list[str], size: int) -> str:
    """The sum of the lanes around each lane, over three blocks of channels."""
    before, behind = reaches(size)
    total = squares[1]
    for shift in (*range(-before, 0), *range(1, behind + 1)):
        pair = squares[:2] if shift < 0 else squares[1:]
        start = shift % v.width if shift < 0 else shift
        if shift == v.width or shift == -v.width:
            moved = pair[1] if shift > 0 else pair[0]
        else:
            lanes = ", ".join(f"i32 {start + i}" for i in range(v.width))
            moved = f.value(
                f"shufflevector {v.kind} {pair[0]}, {v.kind} {pair[1]}, <{v.width} x i32> <{lanes}>"
            )
        total = v.add(total, moved)
    return total


def _scaled(v: Lanes, text: LrnText, value: str, base: str) -> str:
    """value / base^beta; roots where they give the power."""
    if text.beta == 0.75:
        root = v.call("sqrt", base)
        return v.div(value, v.mul(root, v.call("sqrt", root)))
    if text.beta == 0.5:
        return v.div(value, v.call("sqrt", base))
    if text.beta == 1.0:
        return v.div(value, base)
    power = function(v.f, "pow", v.element, v.width, base, v.number(text.beta))
    return v.div(value, power)


def _number(f: Function, word: int, width: int) -> str:
    return f.splat(f.load("float", f.at("%desc", 8 * word), 4), "float", width)
