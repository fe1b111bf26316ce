"""Gathers and scatters by whole-number indices as IR: by tuples of a tensor, or for each element.

Negative indices count back. One out of range makes the status OUT_OF_RANGE. A scatter with a
combination reads, combines and writes; scatters run on one worker, since places may repeat.

Tuples: each of `count` tuples in each of `batches` names a slice, sum of index[j] * stride[j].
Descriptor: indexed tensor, moved slices, indices, batches, count, length of a tuple, bytes of a
slice, bytes between batches of the indexed tensor, table of (limit, stride in bytes) pairs.

Elements: each element of the moved tensor, of the shape of the indices, belongs to the place that
its own has, with the index along one axis. Descriptor: indexed tensor, moved elements, indices,
limit, stride along the axis in bytes, then the sizes of six axes, their strides in the indexed
tensor (0 along the axis) and in the indices, counted in elements. All strides of the moved tensor
are those of the indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.scalar_ir import IR_TYPE, Value, convert
from neuralsym.cpu.templates.lanes import COMPUTED, extreme, load, store
from neuralsym.dtypes import NumberType

Combine = Literal["none", "add", "mul", "max", "min"]
OUT_OF_RANGE = 1
"""The status of a kernel that met an index outside its axis."""
DEPTH = 6
TOGETHER = 4
"""Elements whose indices are looked at together."""


@dataclass(frozen=True)
class IndexedText:
    """What the text depends on: direction, types of elements and indices, what a scatter does,
    whether the machine converts half precision."""

    scatters: bool
    kind: NumberType
    index_bytes: int
    combine: Combine = "none"
    converts_halves: bool = True


def tuples_text(text: IndexedText, name: str = "kernel") -> str:
    """The IR text of a gather or scatter of slices."""
    module = Module(converts_halves=text.converts_halves)
    f = module.function(name)
    tensor, moved, indices = (f.operand(i) for i in range(3))
    batches, count, length, size, jump = (f.word(i) for i in range(3, 8))
    table = f.operand(8)
    low, high = f.share(f.mul(batches, count))
    with f.loop(high, ("i32", "0"), start=low) as unit:
        entry = f.mul(unit.index, length)
        start = f.mul(f.sdiv(unit.index, count), jump)
        with f.loop(length, ("i64", start), ("i1", "true")) as part:
            index = _index(f, indices, f.add(entry, part.index), text.index_bytes)
            pair = f.at(table, f.mul(part.index, 16))
            index, inside = _within(f, index, f.load("i64", pair, 8))
            moved_by = f.mul(index, f.load("i64", f.at(pair, 8), 8))
            part.next(f.add(part.values[0], moved_by), _both(f, part.values[1], inside))
        inside = part.values[1]
        with f.when(inside):
            place = f.at(tensor, part.values[0])
            slice_ = f.at(moved, f.mul(unit.index, size))
            _move(f, text, place, slice_, size)
        unit.next(f.select(inside, "i32", unit.values[0], OUT_OF_RANGE))
    f.do(f"ret i32 {unit.values[0]}")
    return str(module)


def elements_text(text: IndexedText, name: str = "kernel") -> str:
    """The IR text of a gather or scatter element by element."""
    module = Module(converts_halves=text.converts_halves)
    f = module.function(name)
    tensor, moved, indices = (f.operand(i) for i in range(3))
    limit, stride = f.word(3), f.word(4)
    sizes, ours, theirs = (
        [f.word(5 + DEPTH * part + i) for i in range(DEPTH)] for part in range(3)
    )

    def axis(number: int, place: str, entry: str, status: str) -> str:
        """The loops from an axis on; the status that they leave."""
        low, high = f.share(sizes[0]) if number == 0 else ("0", sizes[number])
        if number + 1 == DEPTH:
            return last(place, entry, high, status)
        with f.loop(high, ("i32", status), start=low) as at:
            here = f.at(place, f.mul(at.index, ours[number]))
            there = f.add(entry, f.mul(at.index, theirs[number]))
            at.next(axis(number + 1, here, there, at.values[0]))
        return at.values[0]

    def last(place: str, entry: str, size: str, status: str) -> str:
        """Along the last axis a few at a time, one by one where an index is wrong."""

        item = text.kind.itemsize
        jumps = [f.mul(ours[-1], i) for i in range(TOGETHER + 1)]
        # Of the last axis the elements of the moved tensor and of the indices lie side by side.
        starts = (
            place,
            f.at(indices, f.mul(entry, text.index_bytes)),
            f.at(moved, f.mul(entry, item)),
        )
        kinds = ("ptr",) * 3

        def found(values: Sequence[str], i: int) -> tuple[str, str, str]:
            """Where an element is in the tensor and among those moved; whether it exists."""
            here, index, there = values
            number, inside = _within(f, _index(f, index, str(i), text.index_bytes), limit)
            here = f.at(f.at(here, jumps[i]), f.mul(number, stride))
            return here, f.at(there, i * item), inside

        def after(values: Sequence[str], count: int) -> list[str]:
            steps: tuple[str | int, ...] = (jumps[count], count * text.index_bytes, count * item)
            return [f.at(v, s) for v, s in zip(values, steps, strict=True)]

        carried = zip(kinds, starts, strict=True)
        whole = f.value(f"and i64 {size}, {-TOGETHER}")
        with f.loop(whole, *carried, ("i32", status), step=TOGETHER) as many:
            *places, old = many.values
            some = [found(places, i) for i in range(TOGETHER)]
            every = some[0][2]
            for _, _, inside in some[1:]:
                every = _both(f, every, inside)

            def moves() -> list[str]:
                for here, there, _ in some:
                    _element(f, text, here, there)
                return [old]

            def checks() -> list[str]:
                for here, there, inside in some:
                    with f.when(inside):
                        _element(f, text, here, there)
                return [str(OUT_OF_RANGE)]

            many.next(*after(places, TOGETHER), *f.choose(every, ["i32"], moves, checks))
        carried = zip((*kinds, "i32"), many.values, strict=True)
        with f.loop(size, *carried, start=whole) as one:
            *places, old = one.values
            here, there, inside = found(places, 0)
            with f.when(inside):
                _element(f, text, here, there)
            one.next(*after(places, 1), f.select(inside, "i32", old, OUT_OF_RANGE))
        return one.values[-1]

    f.do(f"ret i32 {axis(0, tensor, '0', '0')}")
    return str(module)


def _index(f: Function, indices: str, entry: str, size: int) -> str:
    raw = f.load(f"i{8 * size}", f.at(indices, f.mul(entry, size)), size)
    return raw if size == 8 else f.value(f"sext i{8 * size} {raw} to i64")


def _within(f: Function, index: str, limit: str) -> tuple[str, str]:
    """The index counted from the front, and whether it is one."""
    back = f.compare("slt", index, 0)
    made = f.select(back, "i64", f.add(index, limit), index)
    return made, f.compare("ult", made, limit)


def _both(f: Function, a: str, b: str) -> str:
    return f.value(f"and i1 {a}, {b}")


def _move(f: Function, text: IndexedText, place: str, slice_: str, size: str) -> None:
    """A whole slice: copied, or combined element by element."""
    if text.combine != "none":
        item = text.kind.itemsize
        with f.loop(f.sdiv(size, item)) as at:
            offset = f.mul(at.index, item)
            _element(f, text, f.at(place, offset), f.at(slice_, offset))
        return
    to, since = (place, slice_) if text.scatters else (slice_, place)
    f.module.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {since}, i64 {size}, i1 false)")


def _element(f: Function, text: IndexedText, place: str, moved: str) -> None:
    kind, item = text.kind, text.kind.itemsize
    if text.combine == "none":
        to, since = (place, moved) if text.scatters else (moved, place)
        type_, align = (f"i{8 * item}", item) if item <= 8 else ("<2 x i64>", 8)
        f.store(type_, f.load(type_, since, align), to, align)
        return
    old, new = load(f, kind, place, 1).name, load(f, kind, moved, 1).name
    computed = COMPUTED[kind]
    store(f, Value(_combined(f, text.combine, computed, old, new), computed), kind, place, 1)


def _combined(f: Function, combine: Combine, kind: NumberType, old: str, new: str) -> str:
    if combine in ("max", "min"):
        return extreme(f, combine, kind, 1, old, new)
    word = ("f" if kind.is_float else "") + combine
    return f.value(f"{word} {IR_TYPE[kind]} {old}, {new}")


def one_hot_text(itemsize: int, index: NumberType, name: str = "kernel") -> str:
    """The IR text that sets the ones of a OneHot whose output holds the "off" value already.

    Descriptor: output, the "on" value, indices, outer, depth, inner. An index outside the depth
    sets nothing; negative ones count back.
    """
    module = Module()
    f = module.function(name)
    output, value, indices = (f.operand(i) for i in range(3))
    outer, depth, inner = (f.word(i) for i in range(3, 6))
    type_, align = (f"i{8 * itemsize}", itemsize) if itemsize <= 8 else ("<2 x i64>", 8)
    on = f.load(type_, value, align)
    low, high = f.share(f.mul(outer, inner))
    with f.loop(high, start=low) as unit:
        place = f.at(indices, f.mul(unit.index, index.itemsize))
        raw = convert(f, load(f, index, place, 1), NumberType.INT64, 1).name
        if index is NumberType.UINT64:
            at, inside = raw, f.compare("ult", raw, depth)  # never counted from the back
        else:
            at, inside = _within(f, raw, depth)
        with f.when(inside):
            line = f.add(f.mul(f.sdiv(unit.index, inner), depth), at)
            element = f.add(f.mul(line, inner), f.srem(unit.index, inner))
            f.store(type_, on, f.at(output, f.mul(element, itemsize)), align)
    f.do("ret i32 0")
    return str(module)


def triangle_text(itemsize: int, vector_bytes: int, name: str = "kernel") -> str:
    """The IR text that keeps a triangle of matrices and makes the rest zero.

    Descriptor: output, input, matrices, rows, columns, k, 1 for the upper triangle. The upper one
    keeps columns from row + k on, the lower one those up to row + k.
    """
    module = Module()
    f = module.function(name)
    output, source = f.operand(0), f.operand(1)
    count, rows, columns, k = (f.word(i) for i in range(2, 6))
    upper = f.compare("ne", f.word(6), 0)
    low, high = f.share(f.mul(count, rows))
    with f.loop(high, start=low) as line:
        edge = f.add(f.srem(line.index, rows), k)
        edge = f.select(upper, "i64", edge, f.add(edge, 1))
        edge = f.minimum(f.maximum(edge, 0), columns)
        start = f.select(upper, "i64", edge, 0)
        stop = f.select(upper, "i64", columns, edge)
        offset = f.mul(f.mul(line.index, columns), itemsize)
        here, there = f.at(output, offset), f.at(source, offset)
        _stretch(f, itemsize, vector_bytes, "0", start, here, None)
        _stretch(f, itemsize, vector_bytes, start, stop, here, there)
        _stretch(f, itemsize, vector_bytes, stop, columns, here, None)
    f.do("ret i32 0")
    return str(module)


def _stretch(
    f: Function,
    itemsize: int,
    vector_bytes: int,
    start: str,
    stop: str,
    target: str,
    source: str | None,
) -> None:
    """Elements [start, stop) copied, or zero without a source."""
    low, high = f.mul(start, itemsize), f.mul(stop, itemsize)
    middle = f.add(low, f.value(f"and i64 {f.sub(high, low)}, {-vector_bytes}"))
    for kind, zero, begin, end, step in (
        (f"<{vector_bytes} x i8>", "zeroinitializer", low, middle, vector_bytes),
        ("i8", "0", middle, high, 1),
    ):
        with f.loop(end, start=begin, step=step) as at:
            value = zero if source is None else f.load(kind, f.at(source, at.index), 1)
            f.store(kind, value, f.at(target, at.index), 1)
