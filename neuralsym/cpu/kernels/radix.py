"""Sorting digit by digit, for real numbers as whole numbers of the same order.

No comparison can be guessed wrong, and digits that all numbers share cost nothing. The sort is
stable. NaN comes after every number, -0.0 and 0.0 are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from neuralsym.cpu.kernels.sort import renumbered
from neuralsym.cpu.kernels.units import Function
from neuralsym.dtypes import NumberType

DIGITS = 256
WORTH = 64
"""Fewer numbers are not sorted by digits."""
INFINITY = {
    NumberType.FLOAT16: 0x7C00,
    NumberType.BFLOAT16: 0x7F80,
    NumberType.FLOAT32: 0x7F800000,
    NumberType.FLOAT64: 0x7FF0000000000000,
}
"""The bits of infinity: more is NaN."""


@cache
def key_of(kind: NumberType) -> Function:
    """From the bits of a real number to the whole number, below 2^64, by which it is sorted."""
    sign = np.uint64(1 << (8 * kind.itemsize - 1))
    if kind in INFINITY:
        infinity, low = np.uint64(INFINITY[kind]), np.uint64(int(sign) - 1)
        unknown = np.uint64(2 * int(sign) - 1)

        def real(bits: Any) -> Any:
            size = np.uint64(bits) & low
            if size > infinity:
                return unknown
            return sign - size if np.uint64(bits) & sign else sign + size

        return real
    if kind is NumberType.BOOL or kind.startswith("uint"):
        return lambda bits: np.uint64(bits)
    return lambda bits: np.uint64(bits) ^ sign


def _turn(keys: Any, places: Any, to_keys: Any, to_places: Any, counts: Any, shift: Any) -> None:
    """Bring keys and places into the order of one digit."""
    for d in range(DIGITS):
        counts[d] = 0
    for i in range(keys.shape[0]):
        counts[(keys[i] >> shift) & np.uint64(DIGITS - 1)] += 1
    start = 0
    for d in range(DIGITS):
        start, counts[d] = start + counts[d], start
    for i in range(keys.shape[0]):
        digit = (keys[i] >> shift) & np.uint64(DIGITS - 1)
        at = counts[digit]
        counts[digit] = at + 1
        to_keys[at], to_places[at] = keys[i], places[i]


def _sorted(keys: Any, places: Any, counts: Any) -> int:
    """Sort keys [2, n] with places [2, n]; which of the two lines holds them then."""
    n = keys.shape[1]
    differ = np.uint64(0)
    for i in range(n):
        differ |= keys[0, i] ^ keys[0, 0]
    here = 0
    for digit in range(8):
        shift = np.uint64(8 * digit)
        if (differ >> shift) & np.uint64(DIGITS - 1):
            _turn(keys[here], places[here], keys[1 - here], places[1 - here], counts, shift)
            here = 1 - here
    return here


@cache
def radix_rows(kind: NumberType) -> Callable[..., None]:
    """The loop of TopK over whole rows: x [outer, n] as bits; values and indices [outer, k].

    keys, places [workers, 2, n], counts [workers, DIGITS].
    """
    key = key_of(kind)

    def loop(
        x: Any,
        values: Any,
        indices: Any,
        keys: Any,
        places: Any,
        counts: Any,
        largest: int,
        worker: int,
        workers: int,
    ) -> None:
        rows, n = x.shape
        flip = np.uint64(0xFFFFFFFFFFFFFFFF) if largest else np.uint64(0)
        first, second = keys[worker], places[worker]
        for o in range(rows * worker // workers, rows * (worker + 1) // workers):
            line = x[o]
            for i in range(n):
                first[0, i], second[0, i] = key(line[i]) ^ flip, i
            here = _sorted(first, second, counts[worker])
            for i in range(values.shape[1]):
                at = second[here, i]
                values[o, i], indices[o, i] = line[at], at

    return loop


@cache
def radix_group(kind: NumberType) -> Callable[..., None]:
    """The loop of Unique over the elements of x [n], as bits; see sort.group for the rest.

    keys, places [2, n], digits [DIGITS]; of `places` the first line is left as spare memory.
    """
    key = key_of(kind)

    def loop(
        x: Any,
        keys: Any,
        places: Any,
        digits: Any,
        first: Any,
        inverse: Any,
        counts: Any,
        found: Any,
        by_value: int,
    ) -> None:
        n = x.shape[0]
        for i in range(n):
            keys[0, i], places[0, i] = key(x[i]), i
        groups = 0
        if n > 0:
            here = _sorted(keys, places, digits)
            for i in range(n):
                at = places[here, i]
                if i == 0 or keys[here, i] != keys[here, i - 1]:
                    first[groups], counts[groups] = at, 0
                    groups += 1
                counts[groups - 1] += 1
                inverse[at] = groups - 1
        found[0] = groups
        if not by_value:
            renumbered(places[0], places[1], first, inverse, counts, groups)

    return loop
