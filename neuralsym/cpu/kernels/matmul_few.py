"""MatMul, Gemm and FusedMatMul by a constant matrix of few columns: lanes along k."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.activation import activation_of
from neuralsym.cpu.kernels.product import Product, product_of, register_product
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Buffer, Operand, Role, Row, Sizes, Step
from neuralsym.cpu.templates.element import Element
from neuralsym.cpu.templates.epilogue import identity
from neuralsym.cpu.templates.few_columns import FewText, few_text, most_columns, pack_few
from neuralsym.cpu.templates.matmul_plan import CHUNK, bits
from neuralsym.dtypes import NumberType

ELEMENTS: dict[NumberType, Element] = {NumberType.FLOAT32: "float", NumberType.FLOAT64: "double"}

LEAST_VECTORS = 2
"""Along k; below, adding up the lanes takes longer than the products."""


class MatmulFew(Kernel):
    """See templates/few_columns.py. Every lane sums up no more than a tile's chunk does."""

    name = "matmul few columns"

    def supports(self, step: Step) -> bool | str:
        y = step.outputs[0]
        if y.dtype not in ELEMENTS:
            return f"it computes with float32 and float64, not with {y.dtype.value}"
        if activation_of(step.attr("activation"), ELEMENTS[y.dtype]) is None:
            return "there is no vector code for its activation"
        found = product_of(step)
        if found.b.role is not Role.CONSTANT or found.b.rank != 2 or found.trans_a:
            return "it has not one constant matrix for rows that lie one after another"
        if found.residual is not None or not (found.bias is None or found.is_row(found.bias)):
            return "something is added besides a row"
        k, n = _sides(found)
        width = self.target.width(ELEMENTS[y.dtype])
        if not 1 < n <= most_columns(width):
            return f"{n} columns fill vectors of {width}"
        if not LEAST_VECTORS * width <= k <= CHUNK * width:
            return f"{k} products for each element are too few or too many for one sum"
        return True

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        found, y = product_of(step), step.outputs[0]
        m, _, k, batch = found.sizes(sizes)
        count = m * math.prod(batch)
        if not count:
            return []
        text = self._text(step, found, y)
        b = step.pack("few", lambda: pack_few(found.matrix_b(), text))
        bias = Operand(b)
        if found.bias is not None:
            bias = Operand(step.pack("few bias", lambda: _bias(found, text)))
        alpha = bits(found.alpha, text.element)
        return [Row(_code(text), [Operand(y), Operand(found.a), Operand(b), bias, count, k, alpha])]

    def _text(self, step: Step, found: Product, y: Buffer) -> FewText:
        element = ELEMENTS[y.dtype]
        return FewText(
            self.target.width(element),
            _sides(found)[1],
            element,
            scaled=found.alpha != 1,
            bias=found.bias is not None,
            activation=activation_of(step.attr("activation"), element) or identity(),
        )

    def complexity(self, step: Step, sizes: Sizes) -> int:
        return product_of(step).operations(sizes)


def _sides(found: Product) -> tuple[int, int]:
    """k and n of a constant b."""
    k, n = (int(d) for d in found.b.tensor.shape or () if isinstance(d, int))
    return (n, k) if found.trans_b else (k, n)


def _bias(found: Product, text: FewText) -> NDArray[Any]:
    """The bias times beta, padded to a vector."""
    assert found.bias is not None
    padded = np.zeros(text.width, found.bias.dtype.numpy)
    padded[: text.columns] = np.asarray(found.bias.value, np.float64).reshape(-1) * found.beta
    return padded


@lru_cache(maxsize=64)
def _code(text: FewText) -> Code:
    return Code("few columns", "few_columns", few_text(text, "few_columns"))


def register(library: Library) -> None:
    """Enter the kernel of this module, to be tried before the one for all products."""
    register_product(library, MatmulFew)
