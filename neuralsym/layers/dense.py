"""Affine maps and embeddings."""

from __future__ import annotations

from neuralsym import ops
from neuralsym.core.dim import Dim, product
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.activation import Activation, activate
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer
from neuralsym.layers.initializers import fans
from neuralsym.layers.weights import Init, weight


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
    bias = None
    if use_bias:
        size_of = fans((units,), "vector")
        bias = weight("bias", (units,), bias_initializer, fans=size_of, dtype=x.dtype)
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
    glorot_uniform), and bias [units]. Keras Dense, torch Linear (kernel transposed). ONNX Gemm
    for a matrix, else MatMul and Add. ShapeMismatch when the last axis has no fixed size.
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

    The seed's and Owl's fully_connected; Keras Flatten and Dense. Weights as in linear. ONNX
    Flatten and Gemm. ShapeMismatch when a size that is flattened is not fixed: pool it away
    first, or give input() that size.
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


@layer
def embedding(
    x: Symbol,
    input_dim: int,
    output_dim: int,
    *,
    embeddings_initializer: Init = "random_uniform",
    name: str | None = None,
) -> Symbol:
    """A vector of a table for each index: integers [...] -> float [..., output_dim].

    Weight: embeddings [input_dim, output_dim], by default uniform within 0.05 (Keras Embedding;
    torch draws from N(0, 1)). ONNX Gather; an index out of range is an error when it is run.
    TypeMismatch unless the indices are int32 or int64.
    """
    if input_dim < 1 or output_dim < 1:
        raise BadAttribute(f"input_dim={input_dim}, output_dim={output_dim}: must be at least 1")
    shape = (input_dim, output_dim)
    table = weight("embeddings", shape, embeddings_initializer, fans=fans(shape, "embedding"))
    return ops.gather(table, x, axis=0)
