"""Offsets for pieces of memory that live for a while: the smallest gap that fits, largest first.

Pieces whose lives do not meet may share bytes. Small problems are solved one piece after another
by decreasing size; large ones by a sweep over time, so that planning stays near linear.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 64
SWEEP_OVER = 3000
"""Above so many pieces, the sweep."""


@dataclass(frozen=True)
class Piece:
    """`size` bytes needed from time `first` to time `last`, both included."""

    size: int
    first: int
    last: int


def place(pieces: Sequence[Piece]) -> tuple[list[int], int]:
    """The offset of each piece, all multiples of 64, and the size of the whole."""
    if len(pieces) > SWEEP_OVER:
        return _sweep(pieces)
    return _by_size(pieces)


def rounded(size: int) -> int:
    """The size as a multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _by_size(pieces: Sequence[Piece]) -> tuple[list[int], int]:
    order = sorted(range(len(pieces)), key=lambda i: (-pieces[i].size, pieces[i].first, i))
    count = len(pieces)
    firsts, lasts, starts, ends = (np.zeros(count, np.int64) for _ in range(4))
    offsets = [0] * count
    top = 0
    for done, i in enumerate(order):
        piece = pieces[i]
        size = rounded(piece.size)
        if not size:
            continue
        meet = np.nonzero((firsts[:done] <= piece.last) & (lasts[:done] >= piece.first))[0]
        offset = _smallest_gap(starts[meet], ends[meet], size)
        offsets[i] = offset
        firsts[done], lasts[done] = piece.first, piece.last
        starts[done], ends[done] = offset, offset + size
        top = max(top, offset + size)
    return offsets, top


def _smallest_gap(starts: np.ndarray, ends: np.ndarray, size: int) -> int:
    """Where `size` bytes fit between the taken ranges; behind them where no gap is large enough."""
    best, best_gap, low = -1, 0, 0
    order = np.argsort(starts, kind="stable")
    for start, end in zip(starts[order].tolist(), ends[order].tolist(), strict=True):
        gap = start - low
        if gap >= size and (best < 0 or gap < best_gap):
            best, best_gap = low, gap
        low = max(low, end)
    return low if best < 0 else best


def _sweep(pieces: Sequence[Piece]) -> tuple[list[int], int]:
    """Best fit in the order of time, with freed neighbours joined."""
    events: list[tuple[int, int, int]] = []
    for i, piece in enumerate(pieces):
        if piece.size:
            events.append((piece.first, 1, i))
            events.append((piece.last, 2, i))
    events.sort()
    offsets = [0] * len(pieces)
    by_size: list[tuple[int, int]] = []  # (size, offset) of the free ranges, sorted
    start_of: dict[int, int] = {}  # end -> start of a free range
    end_of: dict[int, int] = {}  # start -> end of a free range
    top = 0

    def free(start: int, end: int) -> None:
        insort(by_size, (end - start, start))
        start_of[end], end_of[start] = start, end

    def take(start: int, end: int) -> None:
        by_size.pop(bisect_left(by_size, (end - start, start)))
        del start_of[end], end_of[start]

    for _, kind, i in events:
        size = rounded(pieces[i].size)
        if kind == 1:
            at = bisect_left(by_size, (size, 0))
            if at < len(by_size):
                room, start = by_size[at]
                take(start, start + room)
                if room > size:
                    free(start + size, start + room)
            else:
                start = start_of.get(top, top)
                if start < top:
                    take(start, top)
                top = start + size
            offsets[i] = start
        else:
            start, end = offsets[i], offsets[i] + size
            if start in start_of:
                start = start_of[offsets[i]]
                take(start, offsets[i])
            if end in end_of:
                end = end_of[offsets[i] + size]
                take(offsets[i] + size, end)
            free(start, end)
    return offsets, top
