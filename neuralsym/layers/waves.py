"""Windows and Fourier bases whose bytes are the same on every machine.

Sines and cosines of fractions of a turn, by exact reduction to an eighth of it and a series of
IEEE operations: no C library function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from neuralsym.errors import BadAttribute, ShapeMismatch, did_you_mean
from neuralsym.layers.initializers import Fans, Initializer
from neuralsym.layers.streams import Stream, tree_sum

Doubles = NDArray[np.float64]

WINDOWS = {
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "rectangular": (1.0,),
}
"""The coefficients of cosine windows: a0 - a1 cos(t) + a2 cos(2t)."""


def cosine(numerator: NDArray[np.int64], denominator: int) -> Doubles:
    """cos(2 pi numerator / denominator), to about one unit in the last place."""
    eighths = (numerator % denominator) * 8
    octant = eighths // denominator  # of the turn
    rest = (eighths % denominator).astype(np.float64) / denominator
    # cos in an octant is +-cos or +-sin of an angle within a quarter of pi
    rest = np.where(octant % 2 == 1, 1.0 - rest, rest)
    angle = rest * 0.7853981633974483
    square = angle * angle
    c, s = np.ones_like(square), np.ones_like(square)
    for n in range(18, 0, -2):
        c = 1.0 - c * square / float(n * (n - 1))
        s = 1.0 - s * square / float(n * (n + 1))
    s = s * angle
    is_sine = np.isin(octant, (1, 2, 5, 6))
    negative = np.isin(octant, (2, 3, 4, 5))
    value = np.where(is_sine, s, c)
    return np.where(negative, -value, value)


def window(name: str | None, length: int, periodic: bool) -> Doubles:
    """The window [length]; None is all ones. BadAttribute for an unknown name."""
    if name is not None and name not in WINDOWS:
        raise BadAttribute(
            f"window={name!r}{did_you_mean(name, WINDOWS)}: one of {', '.join(WINDOWS)}, None"
        )
    around = length if periodic else max(length - 1, 1)
    steps = np.arange(length, dtype=np.int64)
    total = np.zeros(length)
    if name is None or length == 1:
        return np.ones(length)
    for i, coefficient in enumerate(WINDOWS[name]):
        sign = -1.0 if i % 2 else 1.0
        total = total + sign * coefficient * cosine(i * steps, around)
    return total


@dataclass(frozen=True)
class Stft(Initializer):
    """The real or imaginary parts of a short-time Fourier transform as a kernel [F, 1, T].

    F frequencies 0 to (F - 1) / (2F - 2) of the rate, over T samples under a window; scaling
    "density" divides by the window's length, "spectrum" by the sum of its values. Keras STFT
    (whose kernel is [T, 1, F]).
    """

    side: Literal["real", "imag"] = "real"
    window: str | None = "hann"
    scaling: Literal["density", "spectrum"] | None = "density"
    periodic: bool = False

    def __call__(
        self,
        side: Literal["real", "imag"] | None = None,
        window: str | None = "hann",
        scaling: Literal["density", "spectrum"] | None = "density",
        periodic: bool = False,
    ) -> Stft:
        return Stft(side or self.side, window, scaling, periodic)

    def _fill(self, out: NDArray[Any], stream: Stream, fans: Fans) -> None:
        if out.ndim != 3 or out.shape[1] != 1 or out.shape[0] < 2:
            raise ShapeMismatch(f"{self} needs a weight [F, 1, T], not {[*out.shape]}")
        count, _, length = out.shape
        size = 2 * (count - 1)
        turns = np.arange(count, dtype=np.int64)[:, None] * np.arange(length, dtype=np.int64)
        if self.side == "real":
            basis = cosine(turns, size)
        else:  # -sin(a) = cos(a + a quarter)
            basis = cosine(4 * turns + size, 4 * size)
        shape = window(self.window, length, self.periodic)
        if self.window is not None:
            basis = basis * shape
            if self.scaling == "density":
                basis = basis / np.sqrt(tree_sum(shape * shape))
            elif self.scaling == "spectrum":
                basis = basis / tree_sum(np.abs(shape))
        out[:, 0, :] = basis
