"""Matrix products of 8-bit integers with constant weights: ours with epilogue, ONNX's without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from neuralsym.core.leaves import OWN
from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.geometry import fixed, stored_array
from neuralsym.cpu.kernels.int8 import (
    Array,
    Given,
    corrected_bias,
    given_of,
    int8_code,
    machine_of,
    narrow,
    need_bias,
    taken,
)
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Operand, Row, Sizes, Step, Word
from neuralsym.cpu.templates.int8_form import QUAD
from neuralsym.cpu.templates.int8_parts import rows_text
from neuralsym.cpu.templates.int8_plan import (
    Addresses,
    int8_words,
    matmul_geometry,
    pack_int8_weights,
    plan_int8_matmul,
)


class Int8Matmul(Kernel):
    """A product whose sums are exact, rescaled while they are in registers.

    The rows of A are read in place; rows that end within a quad are copied to longer ones first.
    """

    name = "int8 matmul"

    def supports(self, step: Step) -> bool | str:
        found = given_of(step)
        if isinstance(found, str):
            return found
        sizes = fixed(found.w.tensor.shape or (None,))
        if sizes is None or len(sizes) != 2 or not all(sizes):
            return "its weights are no matrix of fixed sizes"
        if found.x.rank < 1:
            return "its first operand has no axes"
        return True

    def needs(self, step: Step) -> Sequence[int]:
        found = taken(step)
        wanted = [found.x, found.w, found.bias, found.x_zero]
        return [i for i, b in enumerate(step.inputs) if b is not None and b in wanted]

    def adjust(self, step: Step) -> None:
        found = taken(step)
        inner, columns = _matrix(found)
        need_bias(step, found, columns, self.target.width("int32"))
        if inner % QUAD:
            longer = _whole(inner)
            step.need_scratch("rows", lambda sizes: longer * math.prod(sizes.shape(found.x)[:-1]))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        found, y = taken(step), step.outputs[0]
        count = math.prod(sizes.shape(found.x)[:-1])
        if not count:
            return []
        inner, columns = _matrix(found)
        is_plain = found.w.dtype.value == "int8" and not found.w_zero.any()
        machine = machine_of(self.target, is_plain or narrow(step, lambda: _weights(found)))
        fixed_rows = fixed((found.x.tensor.shape or (None,))[:-1]) is not None
        plan = plan_int8_matmul(
            columns,
            _whole(inner),
            count if fixed_rows else None,
            found.output,
            machine,
            flip=found.flip,
        )

        def pack() -> Array:
            wide = np.zeros((columns, _whole(inner), 1), np.int16)
            wide[:, :inner, 0] = _weights(found)
            return pack_int8_weights(wide, plan)

        packed = step.pack("weights", pack)
        bias, rows = corrected_bias(step, found, plan, lambda: _weights(found))
        a = Operand(found.x)
        if inner % QUAD:
            a = Operand(step.scratch["rows"].buffer)
            words: list[Word] = [Operand(found.x), a, count, inner, _whole(inner)]
            rows.append(Row(_longer_code(), words))
        geometry = matmul_geometry(plan, count, _whole(inner))
        at = Addresses(a, Operand(packed), Operand(bias), Operand(y))
        code = int8_code(plan.text, self.target.x86, "int8 matmul")
        return [*rows, Row(code, int8_words(plan, at, geometry, found.output))]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        found = taken(step)
        return 2 * math.prod(sizes.shape(found.x)[:-1]) * math.prod(_matrix(found))


def _matrix(found: Given) -> tuple[int, int]:
    sizes = fixed(found.w.tensor.shape or ())
    assert sizes is not None
    return sizes[0], sizes[1]


def _weights(found: Given) -> Array:
    """[columns][inner], int16, less their zero points."""
    values = stored_array(found.w).astype(np.int16) - found.w_zero.astype(np.int16)
    return np.ascontiguousarray(values.T)


def _whole(inner: int) -> int:
    return -(-inner // QUAD) * QUAD


@cache
def _longer_code() -> Code:
    return Code("longer rows", "rows", rows_text("rows"))


def register(library: Library) -> None:
    """Enter the kernel for every integer product."""
    for op, domain in (("IntegerMatMul", OWN), ("QLinearMatMul", ""), ("MatMulInteger", "")):
        library.kernel(op, domain=domain)(Int8Matmul)
