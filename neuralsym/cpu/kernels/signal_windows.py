"""Windows of spectra and the matrix of the mel scale: loops over places, rounded once.

With s = sin(pi n/N) all windows are sums of even powers of s, which lose nothing near the ends:
cos(2 pi n/N) = 1 - 2 s^2 and cos(4 pi n/N) = 1 - 8 s^2 + 8 s^4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.movement import settled
from neuralsym.cpu.kernels.units import REALS, Function, encoder, same
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Row, Sizes, Step
from neuralsym.dtypes import NumberType

POWERS = {
    "HannWindow": (0.0, 1.0, 0.0),
    "HammingWindow": (4 / 46, 42 / 46, 0.0),
    "BlackmanWindow": (0.0, 0.36, 0.64),
}
"""The factors of 1, s^2 and s^4."""


class Generated(Kernel):
    """What both share: values that follow from numbers alone, in any number type."""

    def supports(self, step: Step) -> bool | str:
        kind = step.outputs[0].dtype
        return True if kind in REALS else f"there is no such loop over {kind.value}"

    def needs(self, step: Step) -> Sequence[int]:
        return []

    def settings(self, step: Step) -> Sequence[int]:
        return range(len(step.inputs))


class Window(Generated):
    """The weights of a window, symmetric to the last bit."""

    name = "window"

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        y = step.outputs[0]
        (size,) = sizes.shape(y)
        if not size:
            return []
        period = size if step.attr("periodic") else size - 1
        side = Side(y, y.dtype.value, (size,), "out")
        attributes = [period, *POWERS[step.op.__name__]]
        return [array_row(step, sizes, _window(_stored(y.dtype)), [side], attributes)]


class MelWeightMatrix(Generated):
    """A triangle of weights in each column, from edge to edge of the mel scale."""

    name = "mel"

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        y = step.outputs[0]
        shape = sizes.shape(y)
        bins, length, rate, low, high = ((settled(step, i, sizes) or [0])[0] for i in range(5))
        edges = mel_edges(int(bins), int(length), int(rate), float(low), float(high))
        sides = [Side(edges, "int64", (len(edges),)), Side(y, y.dtype.value, shape, "out")]
        return [array_row(step, sizes, _triangles(_stored(y.dtype)), sides)]


def mel_edges(bins: int, length: int, rate: int, low: float, high: float) -> NDArray[np.int64]:
    """The bins of the spectrum at which the triangles begin, peak and end: bins + 2 of them.

    They lie evenly on the mel scale, mel(f) = 2595 log10(1 + f/700).
    """
    first, last = (2595 * np.log1p(f / 700) / math.log(10) for f in (low, high))
    places = np.arange(bins + 2)
    mels = places * ((last - first) / len(places)) + first
    hertz = 700 * np.expm1(mels / 2595 * math.log(10))
    return np.asarray((length + 1) * hertz // rate).astype(np.int64)


def _stored(kind: NumberType) -> Function:
    """To an element in memory; integers are cut off, as a cast does."""
    return encoder(kind) if kind.is_float else same


@cache
def _window(encode: Function) -> Function:
    def window(y: Any, period: Any, c0: Any, c2: Any, c4: Any, worker: int, workers: int) -> None:
        count = y.shape[0]
        for n in range(count * worker // workers, count * (worker + 1) // workers):
            near = min(n, period - n)
            s = np.sin(near * np.pi / period)
            y[n] = encode(c0 + s * s * (c2 + c4 * s * s))

    return window


@cache
def _triangles(encode: Function) -> Function:
    def mel(edges: Any, y: Any, worker: int, workers: int) -> None:
        rows, bins = y.shape
        for j in range(rows * worker // workers, rows * (worker + 1) // workers):
            for i in range(bins):
                low, peak, high = edges[i], edges[i + 1], edges[i + 2]
                value = 0.0
                if j == peak:
                    value = 1.0
                elif low <= j < peak:
                    value = (j - low) / (peak - low)
                elif peak < j < high:
                    value = (high - j) / (high - peak)
                y[j, i] = encode(value)

    return mel


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    for op in POWERS:
        library.kernel(op)(Window)
    library.kernel("MelWeightMatrix")(MelWeightMatrix)
