"""MatMul, Gemm and FusedMatMul with one column on the right: a dot product for each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.product import product_of, register_product
from neuralsym.cpu.kernels.widen import finish
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Operand, Row, Sizes, Step, Word, float32_word, float_word
from neuralsym.cpu.templates.matvec import MatvecText, matvec_text
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch

FLOATS = (NumberType.FLOAT32, NumberType.FLOAT64)


class MatmulColumn(Kernel):
    """See templates/matvec.py; a residual and an activation come behind."""

    name = "matmul column"

    def supports(self, step: Step) -> bool | str:
        y = step.outputs[0]
        if y.dtype not in FLOATS:
            return f"it computes with float32 and float64, not with {y.dtype.value}"
        found = product_of(step)
        if found.at != (0, 1, 2) or found.trans_a:
            return "its rows do not lie one after another"
        if found.fixed_columns() != 1 or found.b.rank > 2:
            return "it has not one column for all rows"
        if found.bias is not None and not found.is_row(found.bias):
            return "its bias is not one number"
        return True

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        found, y = product_of(step), step.outputs[0]
        m, _, k, batch = found.sizes(sizes)
        count = m * math.prod(batch)
        if not count:
            return []
        if math.prod(sizes.shape(found.b)) != k:
            raise ShapeMismatch(
                f"{step.describe()}: {found.b.name} has {math.prod(sizes.shape(found.b))} elements "
                f"in this run, the rows have {k}"
            )
        single = y.dtype is NumberType.FLOAT32
        bias = 0.0
        if found.bias is not None:
            bias = float(np.asarray(found.bias.value, np.float64).reshape(-1)[0]) * found.beta
        word = float32_word if single else float_word
        element = "float" if single else "double"
        words: list[Word] = [Operand(y), Operand(found.a), Operand(found.b), count, k]
        code = _code(MatvecText(self.target.width(element), element))
        rows = [Row(code, [*words, word(found.alpha), word(bias)])]
        return [*rows, *finish(self.target, step, Operand(y), y, found.residual, sizes)]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        return product_of(step).operations(sizes)


@lru_cache(maxsize=8)
def _code(text: MatvecText) -> Code:
    return Code("matrix and column", "matvec", matvec_text(text, "matvec"))


def register(library: Library) -> None:
    """Enter the kernel of this module, to be tried before the one for all products."""
    register_product(library, MatmulColumn)
