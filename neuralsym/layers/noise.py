"""Dropout and noise: they act in training only, so at inference they emit nothing.

They are here so that a network reads as it was published; each checks its settings.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.factory import plain_layer


def _rate(rate: float) -> None:
    if not 0 <= rate < 1:
        raise BadAttribute(f"rate={rate}: must be at least 0 and below 1")


@plain_layer
def dropout(
    x: Symbol,
    rate: float = 0.5,
    noise_shape: Sequence[int | None] | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """x: at inference nothing is dropped and nothing emitted. Keras and torch Dropout."""
    _rate(rate)
    return x


@plain_layer
def spatial_dropout(x: Symbol, rate: float = 0.5, *, name: str | None = None) -> Symbol:
    """x: at inference nothing is dropped. Keras SpatialDropout1D to 3D, torch Dropout1d to 3d."""
    _rate(rate)
    return x


@plain_layer
def alpha_dropout(
    x: Symbol,
    rate: float = 0.5,
    noise_shape: Sequence[int | None] | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """x: at inference nothing is dropped. Keras and torch AlphaDropout."""
    _rate(rate)
    return x


@plain_layer
def gaussian_dropout(x: Symbol, rate: float = 0.5, *, name: str | None = None) -> Symbol:
    """x: at inference nothing is multiplied. Keras and Owl GaussianDropout."""
    _rate(rate)
    return x


@plain_layer
def gaussian_noise(x: Symbol, stddev: float = 1.0, *, name: str | None = None) -> Symbol:
    """x: at inference nothing is added. Keras and Owl GaussianNoise."""
    if stddev < 0:
        raise BadAttribute(f"stddev={stddev}: must not be negative")
    return x
