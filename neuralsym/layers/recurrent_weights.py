"""Weights of recurrent layers of Keras and torch in the form of ours: ONNX's gates and layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuralsym.errors import BadAttribute, ShapeMismatch, did_you_mean
from neuralsym.layers.gates import KINDS, Kind

Array = NDArray[Any]


def from_keras(
    kind: str, forward: Sequence[ArrayLike], backward: Sequence[ArrayLike] | None = None
) -> dict[str, Array]:
    """kernel, recurrent_kernel and bias from `layer.get_weights()` of Keras's layer or cell.

    kind: "lstm", "gru" or "simple_rnn". forward: kernel [F, gates*units], recurrent kernel
    [units, gates*units] and, unless the layer has none, bias [gates*units], or [2, gates*units] of
    a GRU with reset_after. backward: the same of the other direction. ShapeMismatch for arrays
    that are not so, BadAttribute for another kind or count.
    """
    recurrence = _kind(kind)
    made = [
        _named(
            [np.asarray(a).T if i < 2 else np.atleast_2d(a) for i, a in enumerate(way)],
            recurrence,
            recurrence.keras,
        )
        for way in _ways(forward, backward)
    ]
    return _stacked(made)


def from_torch(
    kind: str, forward: Sequence[ArrayLike], backward: Sequence[ArrayLike] | None = None
) -> dict[str, Array]:
    """kernel, recurrent_kernel and bias from the arrays of one layer of torch's LSTM, GRU or RNN.

    forward: weight_ih [gates*units, F], weight_hh [gates*units, units] and, unless the layer has
    none, bias_ih and bias_hh [gates*units], for layers made with recurrent_bias=True (gru:
    reset_after=True, its default). backward: those called `_reverse`. Errors as in from_keras.
    """
    recurrence = _kind(kind)
    made = [
        _named(
            [*(np.asarray(a) for a in way[:2]), *([np.stack(way[2:])] if len(way) > 2 else [])],
            recurrence,
            recurrence.torch,
        )
        for way in _ways(forward, backward)
    ]
    return _stacked(made)


def _kind(kind: str) -> Kind:
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise BadAttribute(f"{kind!r} is none of {known}{did_you_mean(kind, KINDS)}")
    return KINDS[kind]


def _ways(
    forward: Sequence[ArrayLike], backward: Sequence[ArrayLike] | None
) -> list[Sequence[ArrayLike]]:
    ways = [forward] if backward is None else [forward, backward]
    for way in ways:
        if not 2 <= len(way) <= 4:
            raise BadAttribute(f"a direction has 2 to 4 arrays, {len(way)} came")
    return ways


def _named(arrays: Sequence[Array], kind: Kind, places: tuple[int, ...]) -> dict[str, Array]:
    """The arrays [gates*units, n] and biases [1 or 2, gates*units], their gates put in order."""
    units = arrays[1].shape[-1]
    names = ("kernel", "recurrent_kernel", "bias")
    found = {}
    for name, array in zip(names, arrays, strict=False):
        axis = 1 if name == "bias" else 0
        if array.ndim != 2 or array.shape[axis] != kind.gates * units:
            raise ShapeMismatch(
                f"{name} {list(array.shape)} is not of {kind.gates} gates of {units} units"
            )
        parts = np.split(array, kind.gates, axis=axis)
        ordered = np.concatenate([parts[p] for p in places], axis=axis)
        found[name] = ordered.reshape(-1) if name == "bias" else ordered
    return found


def _stacked(made: Sequence[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.stack([way[name] for way in made]) for name in made[0]}
