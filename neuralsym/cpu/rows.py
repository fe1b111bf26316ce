"""The table of rows that the interpreter walks: its form, its memory, and how a failure is told."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROW_WORDS = 4
"""Words of a row: kernel address, descriptor address, flags, a team's memory of the row."""

SERIAL = 1
"""Flag of a row that the caller's thread runs alone, as `worker 0 of 1`."""


def make_table(rows: int) -> NDArray[np.int64]:
    """An empty table of so many rows, aligned to cache lines."""
    return aligned_words(rows * ROW_WORDS).reshape(rows, ROW_WORDS)


def aligned_words(count: int, alignment: int = 64) -> NDArray[np.int64]:
    """`count` zero int64 words at an address that is a multiple of `alignment`."""
    room = np.zeros(8 * count + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    return room[start : start + 8 * count].view(np.int64)


class Failure(NamedTuple):
    """The first row of a run that failed, and the status of its kernel."""

    row: int
    status: int


def pack_failure(row: int, status: int) -> int:
    """What a run returns when `row` fails with `status`: status in the high half, row + 1 below."""
    return (status << 32) | (row + 1)


def unpack_failure(value: int) -> Failure | None:
    """The failure that a run returned, or None for 0, its success; see `pack_failure`."""
    return Failure((value & 0xFFFFFFFF) - 1, value >> 32) if value else None
