"""Positions along rows: cells near the mean of their neighbours, in order, without overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

ROUNDS = 10
"""Passes down and up over all rows; each moves lines nearer to straight ones."""

WORK = 80_000
"""Cells that are moved at most; large drawings get fewer rounds, but at least four."""

Pull = tuple[int, float, float]
"""A neighbour, the distance from its centre at which a cell is wanted, and how strongly."""


def spread(
    rows: Sequence[Sequence[int]],
    widths: Sequence[float],
    gaps: Sequence[float],
    above: Sequence[Sequence[Pull]],
    below: Sequence[Sequence[Pull]],
) -> list[float]:
    """The centre of each cell.

    Two cells of a row keep half of their widths and the mean of their gaps between them. `above`
    and `below` have the pulls of each cell.
    """
    x = [0.0] * len(widths)
    steps: list[list[float]] = []
    for row in rows:
        apart = [(widths[a] + widths[b] + gaps[a] + gaps[b]) / 2 for a, b in pairwise(row)]
        steps.append(apart)
        at = -sum(apart) / 2
        for cell, step in zip(row, [*apart, 0.0], strict=True):
            x[cell] = at
            at += step
    count = max(4, min(ROUNDS, WORK // max(1, len(widths))))
    for turn in range(count):
        both = turn >= count - min(3, count // 2)
        for i in range(len(rows)):
            _settle(rows[i], steps[i], x, (above, below) if both else (above,))
        for i in reversed(range(len(rows))):
            _settle(rows[i], steps[i], x, (above, below) if both else (below,))
    return x


def _settle(
    row: Sequence[int],
    apart: Sequence[float],
    x: list[float],
    sides: Sequence[Sequence[Sequence[Pull]]],
) -> None:
    """Move the cells of a row to where they are wanted, as far as their order and gaps allow.

    The least sum of weighted squares, by pooling neighbours that would overlap (Best and
    Chakravarti 1990).
    """
    blocks: list[tuple[float, float, int]] = []  # place of the first cell, weight, cells
    offset = 0.0
    offsets: list[float] = []
    for i, cell in enumerate(row):
        if i:
            offset += apart[i - 1]
        offsets.append(offset)
        total = weight = 0.0
        for side in sides:
            for other, distance, strength in side[cell]:
                total += strength * (x[other] + distance)
                weight += strength
        at, weight = (total / weight, weight) if weight else (x[cell], 0.01)
        place, count = at - offset, 1
        while blocks and blocks[-1][0] >= place:
            before, heavy, cells = blocks.pop()
            place = (before * heavy + place * weight) / (heavy + weight)
            weight += heavy
            count += cells
        blocks.append((place, weight, count))
    i = 0
    for place, _, count in blocks:
        for _ in range(count):
            x[row[i]] = place + offsets[i]
            i += 1
