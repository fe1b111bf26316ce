"""What MatMul, Gemm and FusedMatMul have in common: which matrices, how they are stored, sizes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.kernels.geometry import stored_array
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Buffer, Role, Sizes, Step
from neuralsym.passes.operands import PRODUCTS


@dataclass(frozen=True)
class Product:
    """activation(alpha * a' @ b' + beta * bias + residual), where ' swaps the last two axes.

    Operands of one axis are a row on the left and a column on the right. `at` says which inputs
    of the step a, b and the bias are.
    """

    a: Buffer
    b: Buffer
    bias: Buffer | None
    residual: Buffer | None
    trans_a: bool
    trans_b: bool
    alpha: float
    beta: float
    at: tuple[int, int, int] = (0, 1, 2)

    def shape(self, which: int, sizes: Sizes) -> tuple[int, ...]:
        """The shape of operand 0 or 1 as stored, with at least two axes."""
        shape = sizes.shape(self.a if which == 0 else self.b)
        if len(shape) == 1:
            return (1, *shape) if which == 0 else (*shape, 1)
        return shape

    def sizes(self, sizes: Sizes) -> tuple[int, int, int, tuple[int, ...]]:
        """(m, n, k, batch axes)."""
        a, b = self.shape(0, sizes), self.shape(1, sizes)
        m, k = a[-2:][::-1] if self.trans_a else a[-2:]
        n = b[-2] if self.trans_b else b[-1]
        return m, n, k, np.broadcast_shapes(a[:-2], b[:-2])

    def operations(self, sizes: Sizes) -> int:
        """Multiplications and additions."""
        m, n, k, batch = self.sizes(sizes)
        return 2 * m * n * k * prod(batch)

    def result(self, sizes: Sizes) -> tuple[int, ...]:
        """The shape of the product with both matrix axes."""
        m, n, _, batch = self.sizes(sizes)
        return (*batch, m, n)

    @property
    def has_fixed_rows(self) -> bool:
        """Whether a has the same size in all runs."""
        shape = self.a.tensor.shape
        assert shape is not None
        return all(isinstance(d, int) for d in shape)

    def fixed_columns(self) -> int | None:
        """n if it is the same for all sizes."""
        shape = self.b.tensor.shape
        assert shape is not None
        size = 1 if len(shape) == 1 else shape[-2 if self.trans_b else -1]
        return size if isinstance(size, int) else None

    def is_row(self, bias: Buffer) -> bool:
        """Whether a bias is a constant with one value for each column, or one for all."""
        shape = bias.tensor.shape
        columns = self.fixed_columns()
        if bias.role is not Role.CONSTANT or shape is None or columns is None:
            return False
        return all(d == 1 for d in shape[:-1]) and (not shape or shape[-1] in (1, columns))

    def matrix_b(self) -> NDArray[Any]:
        """The value of a constant b, [..., k, n]."""
        value = stored_array(self.b)
        if value.ndim == 1:
            value = value[:, None]
        return np.swapaxes(value, -1, -2) if self.trans_b else value


def product_of(step: Step) -> Product:
    """The product that a MatMul, Gemm or FusedMatMul is."""
    a, b = step.inputs[0], step.inputs[1]
    assert a is not None and b is not None
    kind = step.op.__name__
    if kind == "MatMul":
        return Product(a, b, None, None, False, False, 1.0, 1.0)
    names = ("transA", "transB") if kind == "Gemm" else ("trans_a", "trans_b")
    trans_a, trans_b = (bool(step.attr(name)) for name in names)
    alpha, beta = (float(step.attr(name)) for name in ("alpha", "beta"))
    residual = step.input(3) if kind == "FusedMatMul" else None
    bias = step.input(2) if beta != 0 else None
    return Product(a, b, bias, residual, trans_a, trans_b, alpha, beta)


def batch_strides(shape: tuple[int, ...], result: tuple[int, ...], unit: int) -> tuple[int, ...]:
    """Bytes along each axis of `result` for an operand whose axes broadcast to it.

    unit: the bytes of what one position of the last axis stands for.
    """
    wide = (1,) * (len(result) - len(shape)) + tuple(shape)
    steps = []
    for size in reversed(wide):
        steps.append(0 if size == 1 else unit)
        unit *= size
    return tuple(reversed(steps))


def register_product(library: Library, kernel: type[Kernel]) -> None:
    """Enter a kernel of products for all operators that are some."""
    for op, domain in PRODUCTS:
        library.kernel(op, domain=domain)(kernel)
