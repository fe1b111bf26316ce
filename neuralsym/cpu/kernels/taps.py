"""Places between the elements of a grid, as loops see them: coordinates, borders, weights of taps.

Plain functions that the loops of GridSample and DeformConv are compiled with. A point has a few
taps on each axis; its corners are their combinations, each an offset and a weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

NEAREST, LINEAR, CUBIC = 1, 2, 4
"""Modes, which are how many taps they have on an axis."""
ZEROS, BORDER, REFLECTION = range(3)
CUBIC_A = -0.75


def denormalized(value: Any, size: int, corners: bool) -> Any:
    """From [-1, 1] to a place among `size` elements: their centres, or their edges, are the end."""
    if corners:
        return (value + 1) / 2 * (size - 1)
    return ((value + 1) * size - 1) / 2


def reflected(place: Any, low: float, high: float) -> Any:
    """A place thrown back at the borders until it lies between them."""
    span = high - low
    if span <= 0:
        return low
    if place < low:
        away = low - place
    elif place > high:
        away = place - low
    else:
        return place
    if away != away or away == np.inf:
        return low
    away = away % (2 * span)
    return low + away if away <= span else high - (away - span)


def within(place: Any, size: int, padding: int, corners: bool) -> Any:
    """A place outside the grid moved to where the padding takes its value from."""
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    if low <= place <= high or padding == ZEROS:
        return place
    if padding == BORDER:
        return min(place, size - 1.0) if place > 0 else 0.0
    return reflected(place, low, high)


def element(index: Any, size: int, padding: int, corners: bool) -> Any:
    """The element that a whole place reads, -1 for none."""
    if 0 <= index < size:
        return np.int64(index)
    if padding == ZEROS or size == 0:
        return np.int64(-1)
    if padding == BORDER:
        return np.int64(min(max(index, 0.0), size - 1.0))
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    return np.int64(min(max(reflected(index, low, high), 0.0), size - 1.0))


def cubic_weight(tap: int, part: Any) -> Any:
    """The weight of one of four taps, at -1, 0, 1 and 2, for a place `part` behind the second.

    Keys, "Cubic convolution interpolation for digital image processing", 1981.
    """
    if tap == 1 or tap == 2:
        t = part if tap == 1 else 1 - part
        return ((CUBIC_A + 2) * t - (CUBIC_A + 3)) * t * t + 1
    t = part + 1 if tap == 0 else 2 - part
    return ((CUBIC_A * t - 5 * CUBIC_A) * t + 8 * CUBIC_A) * t - 4 * CUBIC_A


def tap_weight(taps: int, tap: int, part: Any) -> Any:
    """The weight of a tap for a place `part` behind the element where the taps begin."""
    if taps == 1:
        return 1.0
    if taps == 2:
        return part if tap else 1 - part
    return cubic_weight(tap, part)
