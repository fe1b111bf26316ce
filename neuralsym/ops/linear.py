"""Products of matrices and tensors."""

from __future__ import annotations

from neuralsym.core.op import Op


class MatMul(Op):
    """Matrix product over the last two axes, broadcasting the others, as numpy.matmul."""


class Gemm(Op):
    """alpha * A @ B + beta * C on matrices, either of them transposed."""


class Einsum(Op):
    """The sum of products that an Einstein equation states."""


class MatMulInteger(Op):
    """MatMul of 8-bit integers less their zero points, summed in int32."""


class QLinearMatMul(Op):
    """MatMul of quantized tensors, with a quantized result."""


class Det(Op):
    """The determinant of the matrices in the last two axes."""
