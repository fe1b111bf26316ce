"""MatMul, Gemm and FusedMatMul on the SIMD template: packed or run-time B, batches, epilogues.

Half precision goes through float32; integers have loops of their own (`matmul_loop`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from neuralsym.core.scalar import Scalar, argument
from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.activation import activation_of
from neuralsym.cpu.kernels.geometry import registers
from neuralsym.cpu.kernels.loops import Strided, loop_row
from neuralsym.cpu.kernels.matmul_loop import MatmulLoop
from neuralsym.cpu.kernels.product import Product, batch_strides, product_of, register_product
from neuralsym.cpu.kernels.widen import (
    finish,
    reserve,
    wide_kind,
    wide_place,
    widened,
)
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Buffer, Operand, Role, Row, Sizes, Step
from neuralsym.cpu.scalar_ir import HALVES
from neuralsym.cpu.templates.matmul import matmul_text
from neuralsym.cpu.templates.matmul_form import MatmulText
from neuralsym.cpu.templates.matmul_plan import (
    Matrix,
    batch_loops,
    matmul_words,
    pack_b,
    pack_row,
    panel_bytes,
    plan_matmul,
    scratch_bytes,
)
from neuralsym.dtypes import NumberType

FLOATS = (NumberType.FLOAT32, NumberType.FLOAT64, *HALVES)


@dataclass(frozen=True)
class _Beside:
    """What is added to the product besides a bias row: where, its strides, and its factor."""

    place: Operand
    row: int
    batch: tuple[int, ...]
    factor: float


class Matmul(Kernel):
    """A product whose rows are worked on in tiles; see templates/matmul.py."""

    name = "matmul"

    def supports(self, step: Step) -> bool | str:
        y = step.outputs[0]
        if y.dtype not in FLOATS:
            return f"the SIMD kernel computes with floats, not with {y.dtype.value}"
        if activation_of(step.attr("activation"), self._element(y)) is None:
            return "there is no vector code for its activation"
        return True

    def adjust(self, step: Step) -> None:
        for i, buffer in enumerate(step.inputs):
            reserve(step, i, buffer)
        y = step.outputs[0]
        reserve(step, -1, y)
        found = product_of(step)
        if found.b.role is not Role.CONSTANT:
            most = scratch_bytes(replace(self._text(step, found, None, None), vectors=2))
            step.need_scratch("panel", lambda sizes: most * sizes.workers)
        if found.bias is not None and not found.is_row(found.bias):
            item = wide_kind(y.dtype).itemsize
            step.need_scratch("sum", lambda sizes: item * math.prod(sizes.shape(y)))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        found, y = product_of(step), step.outputs[0]
        m, n, k, batch = found.sizes(sizes)
        if 0 in (m, n, *batch):
            return []
        rows: list[Row] = []
        item = wide_kind(y.dtype).itemsize
        half = y.dtype in HALVES
        beside = self._beside(step, found, sizes, rows)
        a_shape, b_shape = found.shape(0, sizes), found.shape(1, sizes)
        a = widened(self.target, step, found.at[0], found.a, sizes, rows)
        strides = [
            batch_strides(a_shape[:-2], batch, m * k * item),
            batch_strides(b_shape[:-2], batch, 1),
            batch_strides(batch, batch, m * n * item),
            beside.batch if beside is not None else (0,) * len(batch),
        ]
        if not found.trans_a and not any(strides[1]) and _even(strides, batch, m, item * k, beside):
            m, batch, strides = m * math.prod(batch), (), [(), (), (), ()]
        text = self._text(step, found, beside, m if found.has_fixed_rows else None)
        if found.b.role is Role.CONSTANT:
            buffer = step.pack(f"b{text.panel}", lambda: pack_b(found.matrix_b(), text))
            b, b_stride = Operand(buffer), panel_bytes(k, text)
            b_bytes = max(1, -(-n // text.panel)) * b_stride
        else:
            b = widened(self.target, step, found.at[1], found.b, sizes, rows)
            b_stride = item * (k if found.trans_b else n)
            b_bytes = k * n * item
        strides[1] = tuple(steps * b_bytes for steps in strides[1])
        c = wide_place(step, -1, y)
        bias = self._bias(step, found, text, n)
        scratch = step.scratch.get("panel")
        code = _code(text)
        for offsets, counts, steps in _loops(batch, strides):
            places = [_moved(p, o) for p, o in zip((a, b, c), offsets, strict=False)]
            residual = None
            if beside is not None:
                residual = Matrix(_moved(beside.place, offsets[3]), beside.row, *steps[3])
            words = matmul_words(
                text,
                (m, n, k),
                Matrix(places[0], item * (m if found.trans_a else k), *steps[0]),
                Matrix(places[1], b_stride, *steps[1]),
                Matrix(places[2], item * n, *steps[2]),
                bias=bias,
                residual=residual,
                batch=counts,
                scratch=Operand(scratch.buffer) if scratch is not None else None,
                alpha=found.alpha,
                beta=beside.factor if beside is not None else 1.0,
            )
            rows.append(Row(code, words))
        return [*rows, *finish(self.target, step, c, y, found.residual, sizes)] if half else rows

    # -- parts -----------------------------------------------------------------------------
    def _element(self, y: Buffer) -> str:
        return "double" if y.dtype is NumberType.FLOAT64 else "float"

    def _text(
        self, step: Step, found: Product, beside: _Beside | None, m: int | None
    ) -> MatmulText:
        y = step.outputs[0]
        half = y.dtype in HALVES
        element = self._element(y)
        packed = found.b.role is Role.CONSTANT
        after = None if half else step.attr("activation")
        return plan_matmul(
            found.fixed_columns(),
            width=self.target.width(element),
            registers=registers(self.target),
            m=m,
            a="columns" if found.trans_a else "rows",
            b="packed" if packed else "columns" if found.trans_b else "rows",
            element="double" if element == "double" else "float",
            scaled=found.alpha != 1 or (beside is not None and beside.factor != 1),
            bias=found.bias is not None and found.is_row(found.bias),
            residual=beside is not None,
            activation=activation_of(after, element, self.target.scales),
        )

    def _bias(self, step: Step, found: Product, text: MatmulText, n: int) -> Operand | None:
        """The bias as a packed row, if it is a constant with one value a column."""
        if not text.bias:
            return None
        given = found.bias
        assert given is not None

        def make() -> object:
            row = np.asarray(given.value, np.float64).reshape(-1) * found.beta
            return pack_row(np.broadcast_to(row, (n,)), n, text)

        return Operand(step.pack(f"bias{text.panel}", make))  # type: ignore[arg-type]

    def _beside(self, step: Step, found: Product, sizes: Sizes, rows: list[Row]) -> _Beside | None:
        """The residual, or a bias that is no row; what does not fit is summed up beforehand."""
        y = step.outputs[0]
        half = y.dtype in HALVES
        item = wide_kind(y.dtype).itemsize
        bias = None if found.bias is None or found.is_row(found.bias) else found.bias
        residual = None if half else found.residual  # `finish` adds that of half precision
        m, n, _, batch = found.sizes(sizes)
        whole = batch_strides(batch, batch, m * n * item)
        if bias is None:
            if residual is None:
                return None
            return _Beside(Operand(residual), n * item, whole, 1.0)
        place = widened(self.target, step, found.at[2], bias, sizes, rows)
        result = found.result(sizes)
        wide = (1,) * (len(result) - len(sizes.shape(bias))) + sizes.shape(bias)
        if residual is None and wide[-1] == n:
            row = n * item if wide[-2] != 1 else 0
            steps = batch_strides(wide[:-2], batch, wide[-2] * n * item)
            return _Beside(place, row, steps, found.beta)
        # One number for each row, or a bias and a residual: their sum is what is added.
        kind = wide_kind(y.dtype)
        target = Operand(step.scratch["sum"].buffer)
        value: Scalar = argument(0) * found.beta
        operands = [_strided(target, kind, result, result), _strided(place, kind, wide, result)]
        if residual is not None:
            value = argument(0) * found.beta + argument(1)
            operands.append(_strided(Operand(residual), kind, result, result))
        rows.append(loop_row(self.target, value, result, operands, (False,) * len(result), "bias"))
        return _Beside(target, n * item, whole, 1.0)

    def complexity(self, step: Step, sizes: Sizes) -> int:
        return product_of(step).operations(sizes)


def _even(
    strides: Sequence[tuple[int, ...]],
    batch: tuple[int, ...],
    m: int,
    row: int,
    beside: _Beside | None,
) -> bool:
    """Whether the matrices of a batch are the rows of one tall matrix, on all sides."""
    if not batch:
        return False
    tall = batch_strides(batch, batch, m * row)
    if strides[0] != tall:
        return False
    if beside is None or (beside.row == 0 and not any(beside.batch)):
        return True
    return beside.row != 0 and strides[3] == batch_strides(batch, batch, m * beside.row)


def _loops(
    batch: tuple[int, ...], strides: Sequence[tuple[int, ...]]
) -> list[tuple[list[int], tuple[int, int], list[tuple[int, int]]]]:
    """Runs of the kernel: byte offsets of the operands, counts of its two loops, their strides."""
    found = batch_loops(batch, strides)
    if found is not None:
        return [([0] * len(strides), *found)]
    made = []
    for index in range(batch[0]):
        for offsets, counts, steps in _loops(batch[1:], [s[1:] for s in strides]):
            moved = [o + index * s[0] for o, s in zip(offsets, strides, strict=True)]
            made.append((moved, counts, steps))
    return made


def _moved(place: Operand, offset: int) -> Operand:
    return Operand(place.buffer, place.offset + offset)


def _strided(
    place: Operand, kind: NumberType, shape: Sequence[int], result: Sequence[int]
) -> Strided:
    """An operand that broadcasts to the result's shape, in row-major memory of its own."""
    steps = batch_strides(tuple(shape), tuple(result), kind.itemsize)
    same = tuple(s == 1 and r != 1 for s, r in zip(shape, result, strict=True))
    return Strided(place, kind, steps, same)


@lru_cache(maxsize=256)
def _code(text: MatmulText) -> Code:
    return Code("matmul", "matmul", matmul_text(text, "matmul"))


def register(library: Library) -> None:
    """Enter the kernels of this module, the loops to be tried last."""
    library.kernel("MatMul")(MatmulLoop)
    register_product(library, Matmul)
