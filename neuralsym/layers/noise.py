"""Layers that act in training only, so at inference they emit nothing: dropout, noise, penalties.

They are here so that a network reads as it was published; each checks its settings. The shapes of
their inputs are free.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import plain_layer


def check_rates(**rates: float) -> None:
    """BadAttribute unless each is a rate of dropout, 0 or more and below 1; it has no effect."""
    for name, rate in rates.items():
        if not 0 <= rate < 1:
            raise BadAttribute(f"{name}={rate}: must be at least 0 and below 1")


@plain_layer
def identity(x: Symbol, *, name: str | None = None) -> Symbol:
    """x itself, as the activation "linear" too.

    Keras Identity; torch Identity; ONNX nothing.
    """
    return x


@plain_layer
def dropout(
    x: Symbol,
    rate: float = 0.5,
    noise_shape: Sequence[int | None] | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """x: at inference nothing is dropped.

    BadAttribute for a rate that is not at least 0 and below 1.

    Keras Dropout; torch Dropout; Owl dropout; ONNX nothing.
    """
    check_rates(rate=rate)
    return x


@plain_layer
def spatial_dropout(x: Symbol, rate: float = 0.5, *, name: str | None = None) -> Symbol:
    """x, [N, C, *space] of any rank: at inference no channel is dropped.

    Errors are those of dropout.

    Keras SpatialDropout1D to 3D; torch Dropout1d to 3d; ONNX nothing.
    """
    check_rates(rate=rate)
    return x


@plain_layer
def spatial_dropout1d(x: Symbol, rate: float = 0.5, *, name: str | None = None) -> Symbol:
    """x, [N, C, W]: at inference no channel is dropped.

    Errors are those of dropout, and ShapeMismatch for an input of another rank.

    Keras SpatialDropout1D; torch Dropout1d; ONNX nothing.
    """
    check_rates(rate=rate)
    require_shape(x, 3)
    return x


@plain_layer
def spatial_dropout2d(x: Symbol, rate: float = 0.5, *, name: str | None = None) -> Symbol:
    """x, [N, C, H, W]: at inference no channel is dropped.

    Errors are those of dropout, and ShapeMismatch for an input of another rank.

    Keras SpatialDropout2D; torch Dropout2d; ONNX nothing.
    """
    check_rates(rate=rate)
    require_shape(x, 4)
    return x


@plain_layer
def spatial_dropout3d(x: Symbol, rate: float = 0.5, *, name: str | None = None) -> Symbol:
    """x, [N, C, D, H, W]: at inference no channel is dropped.

    Errors are those of dropout, and ShapeMismatch for an input of another rank.

    Keras SpatialDropout3D; torch Dropout3d; ONNX nothing.
    """
    check_rates(rate=rate)
    require_shape(x, 5)
    return x


@plain_layer
def alpha_dropout(
    x: Symbol,
    rate: float = 0.5,
    noise_shape: Sequence[int | None] | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """x: at inference nothing is dropped.

    Errors are those of dropout.

    Keras AlphaDropout; torch AlphaDropout; Owl alpha_dropout; ONNX nothing.
    """
    check_rates(rate=rate)
    return x


@plain_layer
def feature_alpha_dropout(x: Symbol, rate: float = 0.5, *, name: str | None = None) -> Symbol:
    """x: at inference no channel is dropped.

    Errors are those of dropout.

    torch FeatureAlphaDropout; ONNX nothing.
    """
    check_rates(rate=rate)
    return x


@plain_layer
def gaussian_dropout(x: Symbol, rate: float = 0.5, *, name: str | None = None) -> Symbol:
    """x: at inference nothing is multiplied.

    Errors are those of dropout.

    Keras GaussianDropout; Owl gaussian_dropout; ONNX nothing.
    """
    check_rates(rate=rate)
    return x


@plain_layer
def gaussian_noise(x: Symbol, stddev: float = 1.0, *, name: str | None = None) -> Symbol:
    """x: at inference nothing is added.

    BadAttribute for a negative stddev.

    Keras GaussianNoise; Owl gaussian_noise; ONNX nothing.
    """
    if stddev < 0:
        raise BadAttribute(f"stddev={stddev}: must not be negative")
    return x


@plain_layer
def activity_regularization(
    x: Symbol, l1: float = 0.0, l2: float = 0.0, *, name: str | None = None
) -> Symbol:
    """x: the penalty on it, l1 * sum |x| + l2 * sum x^2, belongs to training.

    BadAttribute for a negative factor.

    Keras ActivityRegularization; ONNX nothing.
    """
    if l1 < 0 or l2 < 0:
        raise BadAttribute(f"l1={l1}, l2={l2}: must not be negative")
    return x
