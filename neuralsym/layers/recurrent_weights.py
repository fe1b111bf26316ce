"""Weights of recurrent layers of Keras and torch in the form of ours: ONNX's gates and layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuralsym.errors import BadAttribute, ShapeMismatch, did_you_mean
from neuralsym.layers.gates import KINDS
from neuralsym.weights.names import Framework
from neuralsym.weights.recurrent import PLACES, combined

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
    return _brought("keras", kind, forward, backward)


def from_torch(
    kind: str, forward: Sequence[ArrayLike], backward: Sequence[ArrayLike] | None = None
) -> dict[str, Array]:
    """kernel, recurrent_kernel and bias from the arrays of one layer of torch's LSTM, GRU or RNN.

    forward: weight_ih [gates*units, F], weight_hh [gates*units, units] and, unless the layer has
    none, bias_ih and bias_hh [gates*units], for layers made with recurrent_bias=True (gru:
    reset_after=True, its default). backward: those called `_reverse`. Errors as in from_keras.
    """
    return _brought("torch", kind, forward, backward)


def _brought(
    framework: Framework,
    kind: str,
    forward: Sequence[ArrayLike],
    backward: Sequence[ArrayLike] | None,
) -> dict[str, Array]:
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise BadAttribute(f"{kind!r} is none of {known}{did_you_mean(kind, KINDS)}")
    gates = KINDS[kind].gates
    ways = [_checked(framework, gates, w) for w in (forward, backward) if w is not None]
    arrays = {"kernel": [w[0] for w in ways], "recurrent_kernel": [w[1] for w in ways]}
    rows = [row for w in ways for bias in w[2:] for row in np.atleast_2d(bias)]
    if rows:
        arrays["bias"] = rows
    wide = len(rows) > len(ways)
    return {
        word: combined(framework, word, len(ways), PLACES[framework][gates], wide, *each)
        for word, each in arrays.items()
    }


def _checked(framework: Framework, gates: int, way: Sequence[ArrayLike]) -> list[Array]:
    """The arrays of one direction, each with its gates along the axis where they belong."""
    if not 2 <= len(way) <= 4:
        raise BadAttribute(f"a direction has 2 to 4 arrays, {len(way)} came")
    arrays = [np.asarray(a) for a in way]
    along, across = (-1, 0) if framework == "keras" else (0, -1)
    units = arrays[1].shape[across] if arrays[1].ndim == 2 else 0
    for i, array in enumerate(arrays):
        name, axis = ("bias", -1) if i > 1 else (("kernel", "recurrent_kernel")[i], along)
        ranks = (1, 2) if i > 1 else (2,)
        if array.ndim not in ranks or array.shape[axis] != gates * units:
            raise ShapeMismatch(
                f"{name} {list(array.shape)} is not of {gates} gates of {units} units"
            )
    return arrays
