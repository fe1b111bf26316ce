"""Positions along rows: cells near the mean of their neighbours, in order, without overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

ROUNDS = 30
"""Passes down and up over all rows; each moves lines nearer to straight ones."""

WORK = 60_000
"""Cells that are moved at most; large drawings get fewer rounds, but at least four."""

Pull = tuple[int, float, float]
"""A neighbour, the distance from its centre at which a cell is wanted, and how strongly."""

Pulls = Sequence[Sequence[Pull]]


def spread(
    rows: Sequence[Sequence[int]],
    widths: Sequence[float],
    gaps: Sequence[float],
    above: Pulls,
    below: Pulls,
    heavy: Sequence[float],
) -> list[float]:
    """The centre of each cell.

    Two cells of a row keep half of their widths and the mean of their gaps between them. `above`
    and `below` have the pulls of each cell. Means balance a drawing, but lean every line a little;
    so at last each cell goes below the one that it hangs on, and of those that cannot all have
    their place a `heavy` one gives way the least.
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
        for sides, order in (((above,), range(len(rows))), ((below,), range(len(rows))[::-1])):
            for i in order:
                wanted = [_mean(cell, x, (above, below) if both else sides) for cell in rows[i]]
                _settle(rows[i], steps[i], x, wanted)
    for row, apart in zip(rows, steps, strict=True):
        hung = [_median(above[cell] or below[cell], x, x[cell]) for cell in row]
        _settle(row, apart, x, [(at, heavy[c]) for at, c in zip(hung, row, strict=True)])
    return x


def _mean(cell: int, x: Sequence[float], sides: Sequence[Pulls]) -> tuple[float, float]:
    """Where a cell is wanted, and how strongly."""
    total = weight = 0.0
    for side in sides:
        for other, distance, strength in side[cell]:
            total += strength * (x[other] + distance)
            weight += strength
    return (total / weight, weight) if weight else (x[cell], 0.01)


def _median(pulls: Sequence[Pull], x: Sequence[float], own: float) -> float:
    """The place with as strong pulls on either side of it; between two, in their middle."""
    if not pulls:
        return own
    places = sorted((x[other] + distance, strength) for other, distance, strength in pulls)
    half = sum(strength for _, strength in places) / 2
    passed = 0.0
    for i, (place, strength) in enumerate(places):
        passed += strength
        if passed > half:
            return place
        if passed == half:
            return (place + places[i + 1][0]) / 2
    return places[-1][0]


def _settle(
    row: Sequence[int],
    apart: Sequence[float],
    x: list[float],
    wanted: Sequence[tuple[float, float]],
) -> None:
    """Move the cells of a row to where they are wanted, as far as their order and gaps allow.

    The least sum of weighted squares, by pooling neighbours that would overlap (Best and
    Chakravarti 1990).
    """
    blocks: list[tuple[float, float, int]] = []  # place of the first cell, weight, cells
    offset = 0.0
    offsets: list[float] = []
    for i, (at, weight) in enumerate(wanted):
        if i:
            offset += apart[i - 1]
        offsets.append(offset)
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
