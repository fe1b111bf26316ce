"""Normalisations without learned statistics: unit length, neighbouring channels, known moments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer, plain_layer
from neuralsym.layers.weights import weight


@plain_layer
def unit_norm(x: Symbol, axis: int | Sequence[int] = -1, *, name: str | None = None) -> Symbol:
    """x over its Euclidean length along an axis, or along several; what is zero stays zero.

    Keras UnitNormalization; torch functional.normalize; ONNX LpNormalization, or ReduceL2, Max and
    Div.
    """
    rank = len(require_shape(x))
    axes = [axis] if isinstance(axis, int) else list(axis)
    if not axes or any(not -rank <= a < rank for a in axes):
        raise BadAttribute(f"axis={axis!r}: {x.type} has no such axes")
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
    """x / (k + alpha / size * s)^beta, s the sum of squares of `size` neighbouring channels (axis 1).

    size is odd in ONNX: of an even one torch takes one channel more before than behind, which no
    operator says. Krizhevsky et al. 2012.

    torch LocalResponseNorm, CrossMapLRN2d; ONNX LRN.
    """
    if size < 1 or size % 2 == 0:
        raise BadAttribute(f"size={size}: must be odd and at least 1")
    rank = len(require_shape(x))
    if rank < 3:
        raise ShapeMismatch(f"takes [N, C, ...], came {x.type}")
    return ops.lrn(x, size, alpha=alpha, beta=beta, bias=k)


@plain_layer
def feature_norm(
    x: Symbol,
    axis: int | Sequence[int] | None = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    invert: bool = False,
    *,
    name: str | None = None,
) -> Symbol:
    """(x - mean) / sqrt(variance), the moments of the data known beforehand.

    axis: those that have moments of their own, the last unless given (Keras); None: one mean and
    variance for all. mean, variance: numbers or arrays of the sizes of these axes; where they are
    not given they are weights of these names, 0 and 1, to be set. invert: back again. The
    deviation is at least 1e-7.

    Keras Normalization; ONNX Sub and Div, or Mul and Add.
    """
    if (mean is None) != (variance is None):
        raise BadAttribute("mean and variance are given together or not at all")
    shape = require_shape(x)
    rank = len(shape)
    axes = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    if any(not -rank <= a < rank for a in axes):
        raise BadAttribute(f"axis={axis!r}: {x.type} has no such axes")
    kept = sorted(a % rank for a in axes)
    if mean is not None and variance is not None:
        found = [np.asarray(mean, np.float64), np.asarray(variance, np.float64)]
        if np.any(found[1] < 0):
            raise BadAttribute("variance must not be negative")
        spread = [_spread(v, x, kept) for v in found]
        centre = constant(spread[0], str(x.dtype))
        deviation = constant(np.maximum(np.sqrt(spread[1]), 1e-7), str(x.dtype))
    else:
        sizes = [require_shape(x, axis=a)[a] for a in kept]
        wide = [shape[a] if a in kept else 1 for a in range(rank)]
        centre, square = (
            ops.reshape(weight(n, sizes, init, dtype=x.dtype, trainable=False), wide)
            for n, init in (("mean", "zeros"), ("variance", "ones"))
        )
        deviation = ops.max([ops.sqrt(square), 1e-7])
    return x * deviation + centre if invert else (x - centre) / deviation


def _spread(value: np.ndarray, x: Symbol, kept: Sequence[int]) -> np.ndarray:
    """Moments as a tensor that broadcasts against x."""
    shape = require_shape(x)
    wide = [shape[a] if a in kept else 1 for a in range(len(shape))]
    sizes = [n for a, n in enumerate(wide) if a in kept]
    if any(not isinstance(n, int) for n in wide):
        raise ShapeMismatch(f"needs fixed sizes along axes {list(kept)}, came {x.type}")
    try:
        return np.broadcast_to(value, sizes).reshape(wide)
    except ValueError:
        raise ShapeMismatch(
            f"moments of shape {list(value.shape)} do not fit the sizes {sizes} of axes "
            f"{list(kept)} of {x.type}"
        ) from None
