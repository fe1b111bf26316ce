"""Normalisations, at inference: batch norm uses its stored statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import plain_layer
from neuralsym.layers.initializers import fans
from neuralsym.layers.weights import Init, weight


def _vector(
    x: Symbol,
    name: str,
    shape: Sequence[int],
    init: Init,
    fill: float,
    wanted: bool = True,
    trainable: bool = True,
) -> Symbol:
    """A weight, or the constant that ONNX needs in its place."""
    if not wanted:
        return constant(np.full(tuple(shape), fill), str(x.dtype))
    size = (float(np.prod(shape)),) * 2 if len(shape) != 1 else fans(shape, "vector")
    return weight(name, shape, init, fans=size, dtype=x.dtype, trainable=trainable)


@plain_layer
def normalisation(
    x: Symbol,
    axis: int = 1,
    epsilon: float = 1e-3,
    momentum: float = 0.99,
    *,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Init = "zeros",
    gamma_initializer: Init = "ones",
    moving_mean_initializer: Init = "zeros",
    moving_variance_initializer: Init = "ones",
    name: str | None = None,
) -> Symbol:
    """Batch normalisation: (x - mean) / sqrt(variance + epsilon) * gamma + beta; also batch_norm.

    axis: the channels, 1 unless given (Keras: the last). epsilon 1e-3 as in Keras; torch and
    ONNX have 1e-5, Owl 1e-8. momentum is accepted and kept out of the file: it only matters in
    training. Weights of one number a channel: gamma and beta unless scale or center is off, and
    the statistics mean and variance, which are not trainable.

    Keras BatchNormalization; torch BatchNorm1d to 3d, SyncBatchNorm; Owl normalisation; ONNX
    BatchNormalization.
    """
    if epsilon < 0:
        raise BadAttribute(f"epsilon={epsilon}: must not be negative")
    if not 0 <= momentum <= 1:
        raise BadAttribute(f"momentum={momentum}: must lie between 0 and 1")
    shape = require_shape(x, axis=axis)
    axis %= len(shape)
    size = (shape[axis],)
    gamma = _vector(x, "gamma", size, gamma_initializer, 1.0, scale)
    beta = _vector(x, "beta", size, beta_initializer, 0.0, center)
    mean = _vector(x, "mean", size, moving_mean_initializer, 0.0, trainable=False)
    variance = _vector(x, "variance", size, moving_variance_initializer, 1.0, trainable=False)
    order = list(range(len(shape)))
    if axis == 0:
        raise BadAttribute("axis=0: the batch axis has no statistics of its own")
    order[1], order[axis] = order[axis], order[1]
    moved = axis != 1
    y = ops.transpose(x, perm=order) if moved else x
    y = ops.batch_normalization(y, gamma, beta, mean, variance, epsilon=epsilon)
    return ops.transpose(y, perm=order) if moved else y


batch_norm = normalisation


def axes_of(x: Symbol, axis: int | Sequence[int]) -> list[int]:
    """The axes of x that a setting names, in the order given; BadAttribute where one is not."""
    rank = len(require_shape(x))
    given = [axis] if isinstance(axis, (int, np.integer)) else list(axis)
    if not given or any(not -rank <= a < rank for a in given):
        raise BadAttribute(f"axis={axis!r}: {x.type} has no such axes")
    wanted = [a % rank for a in given]
    if len(set(wanted)) != len(wanted):
        raise BadAttribute(f"axis={axis!r}: an axis of {x.type} occurs twice")
    return wanted


def _axes(x: Symbol, axis: int | Sequence[int]) -> tuple[list[int], list[int]]:
    """The normalised axes and their sizes; all must be fixed."""
    wanted = axes_of(x, axis)
    return wanted, [require_shape(x, axis=a)[a] for a in wanted]


def _at_the_end(
    x: Symbol, axes: Sequence[int], function: Callable[[Symbol, int], Symbol]
) -> Symbol:
    """function(x, first axis) with these axes moved to the end, in this order, and back."""
    rank = len(require_shape(x))
    order = [*(a for a in range(rank) if a not in axes), *axes]
    first = rank - len(axes)
    if order == sorted(order):
        return function(x, first)
    y = function(ops.transpose(x, perm=order), first)
    return ops.transpose(y, perm=[order.index(a) for a in range(rank)])


@plain_layer
def layer_norm(
    x: Symbol,
    axis: int | Sequence[int] = -1,
    epsilon: float = 1e-3,
    *,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Init = "zeros",
    gamma_initializer: Init = "ones",
    name: str | None = None,
) -> Symbol:
    """The last axis, or several axes together, less their mean and over their deviation.

    Weights gamma and beta of the shape of these axes. epsilon 1e-3 as in Keras; torch and ONNX
    have 1e-5. Axes that are not the last cost a Transpose on either side.

    Keras LayerNormalization; torch LayerNorm; ONNX LayerNormalization.
    """
    axes, sizes = _axes(x, axis)
    gamma = _vector(x, "gamma", sizes, gamma_initializer, 1.0, scale)
    beta = _vector(x, "beta", sizes, beta_initializer, 0.0) if center else None
    return _at_the_end(
        x, axes, lambda y, i: ops.layer_normalization(y, gamma, beta, axis=i, epsilon=epsilon)
    )


@plain_layer
def rms_norm(
    x: Symbol,
    axis: int | Sequence[int] = -1,
    epsilon: float = 1e-6,
    *,
    scale: bool = True,
    gamma_initializer: Init = "ones",
    name: str | None = None,
) -> Symbol:
    """The last axis, or several axes together, over their root mean square, times gamma.

    Keras RMSNormalization; torch RMSNorm (epsilon the machine's); ONNX RMSNormalization.
    """
    axes, sizes = _axes(x, axis)
    gamma = _vector(x, "gamma", sizes, gamma_initializer, 1.0, scale)
    return _at_the_end(
        x, axes, lambda y, i: ops.rms_normalization(y, gamma, axis=i, epsilon=epsilon)
    )


@plain_layer
def group_norm(
    x: Symbol,
    groups: int = 32,
    epsilon: float = 1e-3,
    *,
    axis: int = 1,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Init = "zeros",
    gamma_initializer: Init = "ones",
    name: str | None = None,
) -> Symbol:
    """Groups of channels less their mean and over their deviation, for each entry.

    groups=-1: one for each channel. axis: the channels, 1 unless given (Keras: the last). Weights
    gamma and beta of one number a channel. epsilon 1e-3 as in Keras; torch has 1e-5.

    Keras GroupNormalization; torch GroupNorm; ONNX GroupNormalization.
    """
    rank = len(require_shape(x, axis=axis))
    axis %= rank
    if axis == 0:
        raise BadAttribute("axis=0: the batch axis has no channels")
    channels = require_shape(x, axis=axis)[axis]
    count = channels if groups == -1 else groups
    if count < 1 or channels % count:
        raise BadAttribute(f"groups={groups}: must divide the {channels} channels of {x.type}")
    gamma = _vector(x, "gamma", (channels,), gamma_initializer, 1.0, scale)
    beta = _vector(x, "beta", (channels,), beta_initializer, 0.0, center)
    order = list(range(rank))
    order[1], order[axis] = order[axis], order[1]
    y = ops.transpose(x, perm=order) if axis != 1 else x
    y = ops.group_normalization(y, gamma, beta, num_groups=count, epsilon=epsilon)
    return ops.transpose(y, perm=order) if axis != 1 else y


@plain_layer
def instance_norm(
    x: Symbol,
    epsilon: float = 1e-5,
    *,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Init = "zeros",
    gamma_initializer: Init = "ones",
    name: str | None = None,
) -> Symbol:
    """Each channel (axis 1) of each entry less its mean and over its deviation over space.

    Keras GroupNormalization (groups=-1); torch InstanceNorm1d to 3d (affine=True); ONNX
    InstanceNormalization.
    """
    size = (require_shape(x, axis=1)[1],)
    gamma = _vector(x, "gamma", size, gamma_initializer, 1.0, scale)
    beta = _vector(x, "beta", size, beta_initializer, 0.0, center)
    return ops.instance_normalization(x, gamma, beta, epsilon=epsilon)
