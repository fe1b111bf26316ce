"""Normalisations without weights: unit length, and neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer, plain_layer
from neuralsym.layers.normalise import axes_of


@plain_layer
def unit_norm(x: Symbol, axis: int | Sequence[int] = -1, *, name: str | None = None) -> Symbol:
    """x over its Euclidean length along an axis, or along several; what is zero stays zero.

    Keras UnitNormalization; torch functional.normalize; ONNX LpNormalization, or ReduceL2, Max and
    Div.
    """
    axes = axes_of(x, axis)
    if len(axes) == 1:
        return ops.lp_normalization(x, axis=axes[0], p=2)
    return x / ops.max([ops.reduce_l2(x, axes, keepdims=1), 1e-12])


@layer
def local_response_norm(
    x: Symbol,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    *,
    name: str | None = None,
) -> Symbol:
    """x / (k + alpha / size * s)^beta, s the sum of squares of `size` neighbouring channels.

    Channels are axis 1. size is odd: of an even one torch takes one channel more before than
    behind, which ONNX does not say. Krizhevsky et al. 2012.

    torch LocalResponseNorm; ONNX LRN.
    """
    if size < 1 or size % 2 == 0:
        raise BadAttribute(f"size={size}: must be odd and at least 1")
    rank = len(require_shape(x))
    if rank < 3:
        raise ShapeMismatch(f"takes [N, C, ...], came {x.type}")
    if rank == 4:
        return ops.lrn(x, size, alpha=alpha, beta=beta, bias=k)
    # onnxruntime has the operator for images alone
    image = ops.unsqueeze(x, [3]) if rank == 3 else ops.reshape(x, [0, 0, 0, -1])
    y = ops.lrn(image, size, alpha=alpha, beta=beta, bias=k)
    return ops.squeeze(y, [3]) if rank == 3 else ops.reshape(y, ops.shape(x))
