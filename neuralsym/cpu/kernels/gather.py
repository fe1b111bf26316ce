"""Gather: slices along an axis by index, as embeddings are looked up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from neuralsym.cpu.emit import Code
from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.kernels.movement import (
    FAILURES,
    OUT_OF_RANGE,
    copy_rows,
    is_settled,
    settled,
    view,
)
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Operand, Row, Sizes, Step


class Gather(Kernel):
    """Slices of the first input along an axis, by whole-number indices; negative ones count back.

    One index that is known before the run is a strided copy. An index out of range stops the run.
    """

    failures = FAILURES

    def supports(self, step: Step) -> bool | str:
        data, indices = step.inputs
        assert data is not None and indices is not None
        return bool(data.is_tensor and indices.is_tensor) or "not a tensor of numbers"

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        data, indices = step.inputs
        assert data is not None and indices is not None
        shape, wanted = sizes.shape(data), sizes.shape(step.outputs[0])
        axis = step.attr("axis") % len(shape)
        if 0 in wanted:
            return []
        if is_settled(indices) and int(np.prod(sizes.shape(indices))) == 1:
            (index,) = settled(step, 1, sizes) or []
            if -shape[axis] <= index < shape[axis]:
                source = view(data, shape).at(axis, index % shape[axis])
                one = (*shape[:axis], 1, *shape[axis + 1 :])
                target = view(step.outputs[0], one)
                return copy_rows(self.target, target, source, one, sizes.workers)
        words = [
            Operand(step.outputs[0]),
            Operand(data),
            Operand(indices),
            int(np.prod(shape[:axis], dtype=np.int64)),
            int(np.prod(sizes.shape(indices), dtype=np.int64)),
            int(np.prod(shape[axis + 1 :], dtype=np.int64)) * data.dtype.itemsize,
            shape[axis],
        ]
        return [Row(_gather_code(indices.dtype.itemsize), words)]


@cache
def _gather_code(index_bytes: int) -> Code:
    """Words: output, data, indices, outer count, index count, bytes of a slice, axis size."""
    module = Module()
    f = module.function("gather")
    output, data, indices = (f.operand(k) for k in range(3))
    outer, count, size, limit = (f.word(k) for k in range(3, 7))
    low, high = f.share(f.mul(outer, count))
    # Which of the outer slices, and which index: counted on, not divided for.
    known = f.compare("sgt", count, 0)
    divisor = f.select(known, "i64", count, 1)
    carried = [("i64", f.sdiv(low, divisor)), ("i64", f.srem(low, divisor))]
    with f.loop(high, ("i32", "0"), *carried, start=low) as unit:
        status, slice_, place = unit.values
        raw = f.load(f"i{8 * index_bytes}", f.at(indices, f.mul(place, index_bytes)), index_bytes)
        index = raw if index_bytes == 8 else f.value(f"sext i32 {raw} to i64")
        back = f.compare("slt", index, 0)
        index = f.select(back, "i64", f.add(index, limit), index)
        inside = f.compare("ult", index, limit)
        with f.when(inside):
            start = f.add(f.mul(slice_, limit), index)
            source = f.at(data, f.mul(start, size))
            _move_slice(f, f.at(output, f.mul(unit.index, size)), source, size)
        after = f.add(place, 1)
        ended = f.compare("eq", after, count)
        unit.next(
            f.select(inside, "i32", status, OUT_OF_RANGE),
            f.add(slice_, f.value(f"zext i1 {ended} to i64")),
            f.select(ended, "i64", 0, after),
        )
    f.do(f"ret i32 {unit.values[0]}")
    return Code("gather", "gather", str(module))


def _move_slice(f: Function, target: str, source: str, size: str) -> None:
    """Copy `size` bytes; a single element without a call."""
    f.module.declarations.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")

    def element() -> list[str]:
        f.store("i32", f.load("i32", source, 1), target, 1)
        return []

    def slices() -> list[str]:
        f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
        return []

    f.choose(f.compare("eq", size, 4), [], element, slices)


def register(library: Library) -> None:
    """Register the kernel of this module."""
    library.kernel("Gather", name="gather")(Gather)
