"""Random numbers: the Mersenne Twister MT19937 as compiled loops, and what operators draw with it.

A seed gives the numbers of numpy's RandomState(seed), as ONNX's reference does; without a seed each
run draws anew. Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998); normal numbers by
Marsaglia's polar method.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np

LENGTH = 624
"""Words of the generator's state; one more holds the place in it."""
STATE = LENGTH + 1
_SHIFT = 397


def start(state: Any, seed: int) -> None:
    """Fill the state, STATE words of uint32, from a seed of 32 bits."""
    word = np.uint32(seed)
    state[0] = word
    for i in range(1, LENGTH):
        mixed = np.uint64(word ^ (word >> np.uint32(30))) * np.uint64(1812433253) + np.uint64(i)
        word = np.uint32(mixed & np.uint64(0xFFFFFFFF))
        state[i] = word
    state[LENGTH] = LENGTH


def _refill(state: Any) -> None:
    for i in range(LENGTH):
        upper = state[i] & np.uint32(0x80000000)
        lower = state[(i + 1) % LENGTH] & np.uint32(0x7FFFFFFF)
        mixed = upper | lower
        made = state[(i + _SHIFT) % LENGTH] ^ (mixed >> np.uint32(1))
        if mixed & np.uint32(1):
            made ^= np.uint32(0x9908B0DF)
        state[i] = made
    state[LENGTH] = 0


def _word(state: Any) -> Any:
    if state[LENGTH] >= LENGTH:
        _refill(state)
    word = state[state[LENGTH]]
    state[LENGTH] += np.uint32(1)
    word ^= word >> np.uint32(11)
    word ^= (word << np.uint32(7)) & np.uint32(0x9D2C5680)
    word ^= (word << np.uint32(15)) & np.uint32(0xEFC60000)
    return word ^ (word >> np.uint32(18))


def _uniform(state: Any) -> Any:
    """A float64 in [0, 1) of 53 random bits."""
    high = np.float64(_word(state) >> np.uint32(5))
    low = np.float64(_word(state) >> np.uint32(6))
    return (high * 67108864.0 + low) / 9007199254740992.0


def uniform(state: Any, y: Any, seed: int, low: float, high: float) -> None:
    """y[i] evenly from [low, high)."""
    start(state, seed)
    for i in range(y.size):
        y[i] = low + (high - low) * _uniform(state)


def normal(state: Any, y: Any, seed: int, mean: float, scale: float) -> None:
    """y[i] normal of that mean and standard deviation; the method makes two at a time."""
    start(state, seed)
    spare = 0.0
    for i in range(y.size):
        value = spare
        if i % 2 == 0:
            squared = 0.0
            a = b = 0.0
            while squared >= 1.0 or squared == 0.0:
                a = 2.0 * _uniform(state) - 1.0
                b = 2.0 * _uniform(state) - 1.0
                squared = a * a + b * b
            stretch = sqrt(-2.0 * log(squared) / squared)
            spare = stretch * a
            value = stretch * b
        y[i] = mean + scale * value


def below(state: Any, p: Any, y: Any, seed: int) -> None:
    """y[i] is whether a number drawn from [0, 1) is below p[i]."""
    start(state, seed)
    for i in range(y.size):
        y[i] = _uniform(state) < p[i]


def not_below(state: Any, y: Any, seed: int, ratio: float) -> None:
    """y[i] is whether a number drawn from [0, 1) is at least `ratio`."""
    start(state, seed)
    for i in range(y.size):
        y[i] = _uniform(state) >= ratio


def classes(state: Any, totals: Any, y: Any, seed: int) -> None:
    """y[n, k] is a class drawn by the running totals of row n, totals[n, classes]."""
    start(state, seed)
    count = totals.shape[1]
    for n in range(y.shape[0]):
        for k in range(y.shape[1]):
            wanted = _uniform(state) * totals[n, count - 1]
            low, high = 0, count - 1
            while low < high:
                middle = (low + high) // 2
                if totals[n, middle] > wanted:
                    high = middle
                else:
                    low = middle + 1
            y[n, k] = low


def running_totals(logits: Any, totals: Any) -> None:
    """totals[n, c] = sum of exp(logits[n, :c + 1] - the largest of row n)."""
    for n in range(logits.shape[0]):
        largest = -np.inf
        for c in range(logits.shape[1]):
            largest = max(largest, logits[n, c])
        total = 0.0
        for c in range(logits.shape[1]):
            total += np.exp(logits[n, c] - largest)
            totals[n, c] = total


def keep(x: Any, kept: Any, y: Any, scale: float) -> None:
    """y[i] = x[i] * scale where kept, else 0."""
    for i in range(y.size):
        y[i] = x[i] * scale if kept[i] else 0.0
