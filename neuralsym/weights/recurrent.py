"""Recurrent layers: other frameworks' gates, directions and biases in the form of ours.

Ours is ONNX's: one kernel [directions, gates*units, features] for both directions, its gates in
ONNX's order. torch has two keys for each kernel and two biases for each cell; Keras has an array
[features, gates*units] for each direction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from neuralsym.weights.names import Framework

Array = NDArray[Any]
Shape = tuple[int, ...]

PLACES: dict[Framework, dict[int, tuple[int, ...]]] = {
    "torch": {4: (0, 3, 1, 2), 3: (1, 0, 2), 1: (0,)},  # i f c o; r z h
    "keras": {4: (0, 3, 1, 2), 3: (0, 1, 2), 1: (0,)},  # i f c o; z r h
}
"""For each gate in ONNX's order (i o f c; z r h), its place in theirs; by the number of gates."""

_TORCH = {
    "kernel": ("weight_ih",),
    "recurrent_kernel": ("weight_hh",),
    "bias": ("bias_ih", "bias_hh"),
}
_WAYS: dict[Framework, tuple[str, str]] = {
    "torch": ("", "_reverse"),
    "keras": ("forward/", "backward/"),
}
_STACKED = re.compile(r"(kernel|recurrent_kernel|bias)(?:_(\d+))?")


def recurrent_source(
    framework: Framework, layer: str, last: str, shapes: Mapping[str, Shape]
) -> tuple[tuple[str, ...], Any] | None:
    """The keys of a recurrent layer's weight, and what makes one array of them.

    layer: the path of the layer there. last: the last part of our name, with the number of the
    layer in a stack. shapes: of the layer's weights. None where the layer is not recurrent, or
    the framework has no such weight.
    """
    match = _STACKED.fullmatch(last)
    if match is None:
        return None
    word, suffix = match[1], f"_{match[2]}" if match[2] else ""
    kernel, again = shapes.get(f"kernel{suffix}"), shapes.get(f"recurrent_kernel{suffix}")
    if kernel is None or again is None or len(kernel) != 3 or len(again) != 3:
        return None
    directions, gated, units = again
    places = PLACES[framework].get(gated // max(units, 1))
    if places is None or directions not in (1, 2) or (framework == "keras" and suffix):
        return None
    wide = word == "bias" and shapes[last][1] == 2 * gated
    if framework == "torch":
        ways = _WAYS["torch"][:directions]
        number = int(match[2] or 0)
        keys = tuple(f"{layer}.{part}_l{number}{way}" for way in ways for part in _TORCH[word])
        if word == "bias" and not wide and len(places) == 3:
            return None  # a GRU adds them at different places
    else:
        ways = ("",) if directions == 1 else _WAYS["keras"]
        keys = tuple(f"{layer}/{way}{word}" for way in ways)
    return keys, partial(combined, framework, word, directions, places, wide)


def combined(
    framework: Framework,
    word: str,
    directions: int,
    places: tuple[int, ...],
    wide: bool,
    *arrays: Array,
) -> Array:
    """The weight `word` of ours from the arrays of its directions, as the framework has them.

    places: of its gates, from PLACES. wide: a bias for each of the two products, not their sum.
    """
    each = len(arrays) // directions
    ways = [arrays[i * each : (i + 1) * each] for i in range(directions)]
    if word != "bias":
        return np.stack([_ordered(a.T if framework == "keras" else a, places) for (a,) in ways])
    return np.stack(
        [_bias(np.concatenate([np.atleast_2d(a) for a in w]), places, wide) for w in ways]
    )


def _ordered(array: Array, places: tuple[int, ...]) -> Array:
    """Gates along the first axis put in order; an array that has no such gates as it is."""
    if array.ndim == 0 or array.shape[0] % len(places):
        return array
    parts = np.split(array, len(places))
    return np.concatenate([parts[p] for p in places])


def _bias(rows: Array, places: tuple[int, ...], wide: bool) -> Array:
    """One bias, or the input's and the state's, in one row."""
    ordered = [_ordered(row, places) for row in rows]
    if not wide:
        return np.asarray(sum(ordered[1:], ordered[0]))
    if len(ordered) == 1:
        ordered.append(np.zeros_like(ordered[0]))
    return np.concatenate(ordered)
