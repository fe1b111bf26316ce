"""Activations along one axis, whose results sum to one, and their logarithm."""

from __future__ import annotations

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import ShapeMismatch
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import plain_layer


@plain_layer
def softmax(x: Symbol, axis: int = -1, *, name: str | None = None) -> Symbol:
    """exp(x) over its sum along one axis; the last by default.

    ShapeMismatch for an axis that is not there.

    Keras Softmax; torch Softmax (dim must be given); Owl Softmax; ONNX Softmax, as since opset 13.
    """
    return ops.softmax(x, axis=axis)


@plain_layer
def softmin(x: Symbol, axis: int = -1, *, name: str | None = None) -> Symbol:
    """softmax of -x along one axis; the last by default.

    torch Softmin; ONNX Neg, Softmax.
    """
    return ops.softmax(-x, axis=axis)


@plain_layer
def softmax2d(x: Symbol, *, name: str | None = None) -> Symbol:
    """softmax over the channels of each place of [N, C, H, W] or [C, H, W].

    ShapeMismatch for an input of another rank.

    torch Softmax2d; ONNX Softmax of axis -3.
    """
    if len(require_shape(x)) not in (3, 4):
        raise ShapeMismatch(f"takes [N, C, H, W] or [C, H, W], came {x.type}")
    return ops.softmax(x, axis=-3)


@plain_layer
def log_softmax(x: Symbol, axis: int = -1, *, name: str | None = None) -> Symbol:
    """The logarithm of softmax along one axis; the last by default.

    Keras log_softmax; torch LogSoftmax; ONNX LogSoftmax.
    """
    return ops.log_softmax(x, axis=axis)


@plain_layer
def sparsemax(x: Symbol, axis: int = -1, *, name: str | None = None) -> Symbol:
    """The point of the simplex that is nearest to x along one axis (Martins, Astudillo 2016).

    TopK sorts, CumSum and a count find the threshold, Relu subtracts it. ShapeMismatch for an open
    size of the axis.

    Keras sparsemax; ONNX TopK, CumSum, ReduceSum, Relu.
    """
    shape = require_shape(x, axis=axis)
    size = int(shape[axis])
    ranked, _ = ops.top_k(x, [size], axis=axis)
    index = [size if a == axis % len(shape) else 1 for a in range(len(shape))]
    ranks = constant(np.arange(1.0, size + 1.0).reshape(index), str(x.dtype))
    total = ops.cum_sum(ranked, axis)
    inside = ops.cast(ranks * ranked + 1.0 > total, to=x.dtype)
    count = ops.reduce_sum(inside, [axis], keepdims=1)
    mass = ops.reduce_sum(ranked * inside, [axis], keepdims=1)
    return ops.relu(x - (mass - 1.0) / count)
