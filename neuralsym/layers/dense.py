"""Affine maps."""

from __future__ import annotations

from neuralsym import ops
from neuralsym.core.dim import Dim, product
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.activation import Activation, activate
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer
from neuralsym.layers.initializers import fans
from neuralsym.layers.weights import Init, bias_weight, weight


def _affine(
    x: Symbol,
    size: int,
    units: int,
    use_bias: bool,
    kernel_initializer: Init,
    bias_initializer: Init,
) -> Symbol:
    if units < 1:
        raise BadAttribute(f"units={units}: must be at least 1")
    shape = (size, units)
    kernel = weight("kernel", shape, kernel_initializer, fans=fans(shape, "dense"), dtype=x.dtype)
    bias = bias_weight(x, units, use_bias, bias_initializer)
    if x.rank == 2:
        return ops.gemm(x, kernel, bias) if bias is not None else ops.matmul(x, kernel)
    product = ops.matmul(x, kernel)
    return product if bias is None else product + bias


@layer
def linear(
    x: Symbol,
    units: int,
    *,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "standard",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """An affine map of the last axis, [..., n] -> [..., units]; also called dense.

    Weights: kernel [n, units], by default uniform within sqrt(1/n) as in Owl and torch (Keras has
    glorot_uniform), and bias [units]. ShapeMismatch when the last axis has no fixed size.

    Keras Dense; torch Linear (kernel transposed); Owl linear; ONNX Gemm of a matrix, else MatMul
    and Add.
    """
    size = require_shape(x, axis=-1)[-1]
    y = _affine(x, size, units, use_bias, kernel_initializer, bias_initializer)
    return activate(y, activation)


dense = linear


@layer
def fully_connected(
    x: Symbol,
    units: int,
    *,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "standard",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """Flatten all but the batch axis, then an affine map: [N, ...] -> [N, units].

    Weights as in linear. ShapeMismatch when a size that is flattened is not fixed: pool it away
    first, or give input() that size.

    Keras Flatten and Dense; torch Flatten and Linear; Owl fully_connected; ONNX Flatten and Gemm.
    """
    shape = require_shape(x)
    if len(shape) < 2:
        raise ShapeMismatch(f"takes a batch of values, came {x.type}; is the batch axis missing?")
    sizes = shape[1:]
    if any(not isinstance(s, int) for s in sizes):
        raise ShapeMismatch(
            f"flattens {x.type} and needs fixed sizes after the batch axis for its weights: "
            "use a global pool first, or give input() these sizes"
        )
    if len(shape) != 2:
        x = ops.flatten(x, axis=1)
    size = product(sizes)
    assert not isinstance(size, Dim)
    y = _affine(x, size, units, use_bias, kernel_initializer, bias_initializer)
    return activate(y, activation)
