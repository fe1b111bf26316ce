"""Loops over elements as IR: any expression over strided operands of up to eight axes.

    for i0 in this worker's share: for i1: ... : for each vector of the last axis:
        out[...] = expr(in0[...], in1[...], ...)

Axes that all operands step through evenly are one axis. Along the last, an operand is contiguous
(vectors), one value for all (loaded once), or strided (then all goes element by element).

Descriptor: addresses (output, then inputs), the size of each axis, then for each operand its byte
stride along each axis (those along the last only where an operand is strided).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from neuralsym.core.scalar import Scalar
from neuralsym.core.scalar import size as size_of
from neuralsym.cpu.emit import Code
from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.machine import Target
from neuralsym.cpu.narrow_ir import (
    SMALL_FLOATS,
    SMALL_INTEGERS,
    bfloat_bits,
    narrowed,
    packed,
    widened,
    wrapped,
)
from neuralsym.cpu.program import Operand, Row, Word
from neuralsym.cpu.scalar_ir import HALVES, IR_TYPE, Value, carried, convert, emit, single
from neuralsym.cpu.vector_lanes import repeated, vector
from neuralsym.dtypes import NumberType

Step = Literal["vector", "splat", "stride"]


@dataclass(frozen=True)
class Strided:
    """An operand as a loop sees it: its address and its byte stride along each axis.

    `fixed` says of each axis whether it is broadcast (stride 0) for all sizes: this, and not the
    sizes of one run, decides which code is made.
    """

    address: Word
    kind: NumberType
    strides: tuple[int, ...]
    broadcast: tuple[bool, ...]


@dataclass(frozen=True)
class LoopText:
    """What the text of a loop depends on."""

    expr: Scalar
    kinds: tuple[NumberType, ...]
    """Of the output, then of the inputs."""
    steps: tuple[Step, ...]
    rank: int


def loop_row(
    target: Target,
    expr: Scalar,
    dims: Sequence[int],
    operands: Sequence[Strided],
    droppable: Sequence[bool],
    name: str = "loop",
) -> Row:
    """The row that computes `expr`; `operands` are the output, then the inputs.

    droppable: of each axis, whether its size is 1 for all sizes of runs.
    """
    axes = _collapse(dims, operands, droppable)
    sizes = [dims[a[-1]] if len(a) == 1 else _total(dims, a) for a in axes]
    strides = [[o.strides[a[-1]] for a in axes] for o in operands]
    steps: list[Step] = []
    for operand, own in zip(operands, strides, strict=True):
        last = axes[-1][-1] if axes else None
        if last is None or operand.broadcast[last]:
            steps.append("splat")
        elif own[-1] == operand.kind.itemsize:
            steps.append("vector")
        else:
            steps.append("stride")
    if not axes:
        sizes, strides = [1], [[o.kind.itemsize] for o in operands]
        steps = ["vector"] * len(operands)
    kinds = tuple(o.kind for o in operands)
    code = loop_code(LoopText(expr, kinds, tuple(steps), len(sizes)), target, name)
    outer = len(sizes) - (0 if "stride" in steps else 1)
    words: list[Word] = [o.address for o in operands]
    words += sizes
    for own in strides:
        words += own[:outer]
    return Row(code, words)


def _total(dims: Sequence[int], axes: Sequence[int]) -> int:
    total = 1
    for a in axes:
        total *= dims[a]
    return total


def _collapse(
    dims: Sequence[int], operands: Sequence[Strided], droppable: Sequence[bool]
) -> list[list[int]]:
    """Groups of neighbouring axes that every operand steps through as one."""
    kept = [a for a in range(len(dims)) if not droppable[a]]
    groups: list[list[int]] = []
    for axis in kept:
        if groups and all(_joins(o, groups[-1][-1], axis, dims[axis]) for o in operands):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def _joins(operand: Strided, before: int, axis: int, size: int) -> bool:
    if operand.broadcast[before] != operand.broadcast[axis]:
        return False
    return operand.strides[before] == operand.strides[axis] * size


# -- text --------------------------------------------------------------------------------------
@lru_cache(maxsize=4096)
def loop_code(text: LoopText, target: Target, name: str = "loop") -> Code:
    """The kernel of a loop; equal texts give the same Code."""
    return Code(name, "loop", _Writer(text, target).write())


LONG = 8
"""Longer expressions are written once, under a mask, instead of once more for the rest."""

MEMORY = {
    **IR_TYPE,
    NumberType.BOOL: "i8",
    **dict.fromkeys(HALVES, "i16"),
    **dict.fromkeys((*SMALL_FLOATS, *SMALL_INTEGERS), "i8"),
}


class _Writer:
    def __init__(self, text: LoopText, target: Target) -> None:
        self.text = text
        self.module = Module(converts_halves=target.fma, scales=target.scales)
        self.f: Function = self.module.function("loop")
        self.scalar = "stride" in text.steps
        widest = max(carried(kind).itemsize for kind in text.kinds)
        self.width = 1 if self.scalar else max(1, target.vector_bytes // widest)

    def write(self) -> str:
        f, text = self.f, self.text
        count, rank = len(text.kinds), text.rank
        pointers = [f.operand(i) for i in range(count)]
        dims = [f.word(count + a) for a in range(rank)]
        outer = rank - (0 if self.scalar else 1)
        base = count + rank
        strides = [[f.word(base + i * outer + a) for a in range(outer)] for i in range(count)]
        self._nest(0, pointers, dims, strides)
        f.do("ret i32 0")
        return str(self.module)

    def _nest(
        self, axis: int, pointers: list[str], dims: list[str], strides: list[list[str]]
    ) -> None:
        f, rank = self.f, self.text.rank
        if axis == rank - 1:
            self._inner(pointers, dims[axis], [s[axis] if self.scalar else "" for s in strides])
            return
        low, high = f.share(dims[0]) if axis == 0 else ("0", dims[axis])
        with f.loop(high, start=low) as loop:
            moved = [
                f.at(p, f.mul(loop.index, s[axis])) for p, s in zip(pointers, strides, strict=True)
            ]
            self._nest(axis + 1, moved, dims, strides)

    def _inner(self, pointers: list[str], size: str, strides: list[str]) -> None:
        """The last axis: whole vectors, then what is left of one under a mask."""
        f, width = self.f, self.width
        fixed = {
            i: self._splat(pointers[i], kind)
            for i, kind in enumerate(self.text.kinds)
            if i and self.text.steps[i] == "splat"
        }
        low, high = "0", size
        if self.text.rank == 1:
            units = f.sdiv(f.add(size, width - 1), width)
            first, last = f.share(units)
            low, high = f.mul(first, width), f.minimum(f.mul(last, width), size)
        if width == 1:
            with f.loop(high, start=low) as loop:
                self._body(pointers, strides, loop.index, fixed, None)
            return
        if size_of(self.text.expr) > LONG:
            with f.loop(high, start=low, step=width) as loop:
                mask = f.lane_mask(f.sub(high, loop.index), width)
                self._body(pointers, strides, loop.index, fixed, mask)
            return
        whole = f.add(low, f.value(f"and i64 {f.sub(high, low)}, {-width}"))
        with f.loop(whole, start=low, step=width) as loop:
            self._body(pointers, strides, loop.index, fixed, None)
        rest = f.sub(high, whole)
        with f.when(f.compare("sgt", rest, 0)):
            self._body(pointers, strides, whole, fixed, f.lane_mask(rest, width))

    def _body(
        self,
        pointers: list[str],
        strides: list[str],
        index: str,
        fixed: dict[int, Value],
        mask: str | None,
    ) -> None:
        kinds = self.text.kinds
        places = [self._place(p, i, index, strides[i]) for i, p in enumerate(pointers)]
        values = [
            fixed[i] if i in fixed else self._load(places[i], kinds[i], mask)
            for i in range(1, len(kinds))
        ]
        made = emit(self.f, self.text.expr, values, self.width, kinds[0])
        self._store(made, places[0], kinds[0], mask)

    def _place(self, pointer: str, operand: int, index: str, stride: str) -> str:
        step = self.text.steps[operand]
        if step == "splat" and operand:
            return pointer
        if self.scalar:
            return self.f.at(pointer, self.f.mul(index, stride))
        return self.f.at(pointer, self.f.mul(index, self.text.kinds[operand].itemsize))

    # -- memory ----------------------------------------------------------------------------
    def _splat(self, pointer: str, kind: NumberType) -> Value:
        f, width = self.f, self.width
        memory = MEMORY[kind]
        raw = f.splat(f.load(memory, pointer, kind.itemsize), memory, width)
        return self._loaded(raw, kind)

    def _load(self, place: str, kind: NumberType, mask: str | None) -> Value:
        type_ = vector(MEMORY[kind], self.width)
        if mask is None:
            raw = self.f.load(type_, place, kind.itemsize)
        else:
            raw = self.f.masked_load(type_, place, mask, kind.itemsize)
        return self._loaded(raw, kind)

    def _loaded(self, raw: str, kind: NumberType) -> Value:
        """A value from memory in the type that it is computed with."""
        f, width = self.f, self.width
        if kind is NumberType.BOOL:
            bytes_ = vector("i8", width)
            zero = repeated("0", "i8", width)
            return Value(f.value(f"icmp ne {bytes_} {raw}, {zero}"), kind)
        floats, wide = vector("float", width), vector("i32", width)
        halves = kind is NumberType.FLOAT16
        if halves and self.module.converts_halves:
            half = vector("half", width)
            name = f.value(f"bitcast {vector('i16', width)} {raw} to {half}")
            return Value(f.value(f"fpext {half} {name} to {floats}"), NumberType.FLOAT32)
        if kind is NumberType.BFLOAT16:
            long = f.value(f"zext {vector('i16', width)} {raw} to {wide}")
            high = f.value(f"shl {wide} {long}, {repeated('16', 'i32', width)}")
            return Value(f.value(f"bitcast {wide} {high} to {floats}"), NumberType.FLOAT32)
        if kind in SMALL_FLOATS or halves:
            bits = f.value(f"zext {vector(MEMORY[kind], width)} {raw} to {wide}")
            return Value(widened(f, bits, kind, width), NumberType.FLOAT32)
        if kind in SMALL_INTEGERS:
            return Value(wrapped(f, raw, kind, width), carried(kind))
        return Value(raw, kind)

    def _store(self, value: Value, place: str, kind: NumberType, mask: str | None) -> None:
        f, width = self.f, self.width
        type_ = vector(MEMORY[kind], width)
        if kind is NumberType.FLOAT16 and self.module.converts_halves:
            half, name = vector("half", width), single(f, value, width)
            short = f.value(f"fptrunc {vector('float', width)} {name} to {half}")
            made = f.value(f"bitcast {half} {short} to {type_}")
        elif kind in HALVES or kind in SMALL_FLOATS:
            name = single(f, value, width)
            bfloat = kind is NumberType.BFLOAT16
            bits = bfloat_bits(f, name, width) if bfloat else narrowed(f, name, kind, width)
            made = f.value(f"trunc {vector('i32', width)} {bits} to {type_}")
        elif kind in SMALL_INTEGERS:
            made = packed(f, convert(f, value, carried(kind), width).name, kind, width)
        else:
            made = convert(f, value, kind, width).name
            if kind is NumberType.BOOL:
                made = f.value(f"zext {vector('i1', width)} {made} to {type_}")
        if mask is None:
            f.store(type_, made, place, kind.itemsize)
        else:
            f.masked_store(type_, made, place, mask, kind.itemsize)


def address(buffer: object, offset: int = 0) -> Operand:
    """The word of a buffer's address."""
    return Operand(buffer, offset)  # type: ignore[arg-type]
