"""Pooling over all of space: the largest, the mean or the Lp norm of each channel.

Inputs are [batch, channels, *space]; the results have no spatial axes unless `keepdims` is given.
"""

from __future__ import annotations

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import plain_layer


def _flat(y: Symbol, keepdims: bool) -> Symbol:
    return y if keepdims else ops.flatten(y, axis=1)


@plain_layer
def global_max_pool1d(x: Symbol, keepdims: bool = False, *, name: str | None = None) -> Symbol:
    """The largest over space, [N, C, W] -> [N, C], or [N, C, 1] with keepdims.

    Keras GlobalMaxPooling1D; torch AdaptiveMaxPool1d(1); Owl global_max_pool1d; ONNX
    GlobalMaxPool, then Flatten.
    """
    require_shape(x, 3)
    return _flat(ops.global_max_pool(x), keepdims)


@plain_layer
def global_max_pool2d(x: Symbol, keepdims: bool = False, *, name: str | None = None) -> Symbol:
    """The largest over space, [N, C, H, W] -> [N, C], or [N, C, 1, 1] with keepdims.

    Any spatial size will do. Raises ShapeMismatch for an input of another rank.

    Keras GlobalMaxPooling2D; torch AdaptiveMaxPool2d(1); Owl global_max_pool2d; ONNX
    GlobalMaxPool, then Flatten.
    """
    require_shape(x, 4)
    return _flat(ops.global_max_pool(x), keepdims)


@plain_layer
def global_max_pool3d(x: Symbol, keepdims: bool = False, *, name: str | None = None) -> Symbol:
    """The largest over space, [N, C, D, H, W] -> [N, C], or [N, C, 1, 1, 1] with keepdims.

    Keras GlobalMaxPooling3D; torch AdaptiveMaxPool3d(1); ONNX GlobalMaxPool, then Flatten.
    """
    require_shape(x, 5)
    return _flat(ops.global_max_pool(x), keepdims)


@plain_layer
def global_avg_pool1d(x: Symbol, keepdims: bool = False, *, name: str | None = None) -> Symbol:
    """The mean over space, [N, C, W] -> [N, C], or [N, C, 1] with keepdims.

    Keras GlobalAveragePooling1D; torch AdaptiveAvgPool1d(1); Owl global_avg_pool1d; ONNX
    GlobalAveragePool, then Flatten.
    """
    require_shape(x, 3)
    return _flat(ops.global_average_pool(x), keepdims)


@plain_layer
def global_avg_pool2d(x: Symbol, keepdims: bool = False, *, name: str | None = None) -> Symbol:
    """The mean over space, [N, C, H, W] -> [N, C], or [N, C, 1, 1] with keepdims.

    Any spatial size will do. Raises ShapeMismatch for an input of another rank.

    Keras GlobalAveragePooling2D; torch AdaptiveAvgPool2d(1); Owl global_avg_pool2d; ONNX
    GlobalAveragePool, then Flatten.
    """
    require_shape(x, 4)
    return _flat(ops.global_average_pool(x), keepdims)


@plain_layer
def global_avg_pool3d(x: Symbol, keepdims: bool = False, *, name: str | None = None) -> Symbol:
    """The mean over space, [N, C, D, H, W] -> [N, C], or [N, C, 1, 1, 1] with keepdims.

    Keras GlobalAveragePooling3D; torch AdaptiveAvgPool3d(1); ONNX GlobalAveragePool, then Flatten.
    """
    require_shape(x, 5)
    return _flat(ops.global_average_pool(x), keepdims)


def _lp(x: Symbol, rank: int, p: int, keepdims: bool) -> Symbol:
    require_shape(x, rank + 2)
    if p < 1:
        raise BadAttribute(f"p={p}: must be at least 1")
    return _flat(ops.global_lp_pool(x, p=p), keepdims)


@plain_layer
def global_lp_pool1d(
    x: Symbol, p: int = 2, keepdims: bool = False, *, name: str | None = None
) -> Symbol:
    """The Lp norm over space, [N, C, W] -> [N, C], or [N, C, 1] with keepdims.

    Raises BadAttribute for a p below 1, ShapeMismatch for an input of another rank.

    ONNX GlobalLpPool, then Flatten.
    """
    return _lp(x, 1, p, keepdims)


@plain_layer
def global_lp_pool2d(
    x: Symbol, p: int = 2, keepdims: bool = False, *, name: str | None = None
) -> Symbol:
    """The Lp norm over space, [N, C, H, W] -> [N, C], or [N, C, 1, 1] with keepdims.

    Raises BadAttribute for a p below 1, ShapeMismatch for an input of another rank.

    ONNX GlobalLpPool, then Flatten.
    """
    return _lp(x, 2, p, keepdims)


@plain_layer
def global_lp_pool3d(
    x: Symbol, p: int = 2, keepdims: bool = False, *, name: str | None = None
) -> Symbol:
    """The Lp norm over space, [N, C, D, H, W] -> [N, C], or [N, C, 1, 1, 1] with keepdims.

    Raises BadAttribute for a p below 1, ShapeMismatch for an input of another rank.

    ONNX GlobalLpPool, then Flatten.
    """
    return _lp(x, 3, p, keepdims)
