"""Columns: a long chain of rows is folded as text on a page, so that a picture fits one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log

from neuralsym.draw.layers import Rows

TALL = 950.0
"""Pixels up to which nothing is folded."""

SHAPE = 1.25
"""Height over width that is aimed at."""

WORTH = 0.8
"""Of the height, what the tallest column may have; folding off a few boxes at the ends is none."""

LITTLE = 0.25
"""Of the height, a column that had better be joined to the next one."""

GUTTER, TURN, MOST = 26.0, 18.0, 8
"""Pixels between columns, pixels from a row to the turn of its line; columns at most."""


@dataclass(frozen=True)
class Turn:
    """How the one line from the last row of a column gets to the next column: down to `below`,
    across to `gutter`, up to `above`, and across to its target."""

    below: float
    gutter: float
    above: float


@dataclass(frozen=True)
class Columns:
    """What folding changes: turns by the last row of each column, and the size."""

    turns: dict[int, Turn] = field(default_factory=dict)
    wider: float = 0.0
    lower: float = 0.0


def fold(
    rows: Rows, x: list[float], widths: Sequence[float], top: list[float], bottom: list[float]
) -> Columns | None:
    """Move rows to columns beside the first where a drawing is too tall; None where it is not.

    A column ends only where a single line goes on. x is of centres; x, top and bottom are changed.
    """
    count = len(rows.rows)
    if not count:
        return None
    high = [min(top[c] for c in row) for row in rows.rows]
    low = [max(bottom[c] for c in row) for row in rows.rows]
    left = [min(x[c] - widths[c] / 2 for c in row) for row in rows.rows]
    right = [max(x[c] + widths[c] / 2 for c in row) for row in rows.rows]
    total = low[-1] - high[0]
    if total < TALL:
        return None
    passing = [0] * count
    for a, _ in rows.segments:
        passing[rows.row_of[a]] += 1
    straight = {id(path): path for path in rows.paths}.values()
    if any(abs(rows.row_of[p[0]] - rows.row_of[p[1]]) != 1 for p in straight if len(p) == 2):
        return None  # lines without bends pass whole rows
    cuts = [i for i in range(count - 1) if passing[i] == 1]
    best, ends = abs(log(total / max(right[0] - left[0], max(right) - min(left)) / SHAPE)), []
    for wanted in range(2, MOST + 1):
        chosen = _cut(cuts, high, low, wanted)
        starts = [0, *(i + 1 for i in chosen)]
        last = [*chosen, count - 1]
        height = max(low[b] - high[a] for a, b in zip(starts, last, strict=True))
        wide = sum(
            max(right[a : b + 1]) - min(left[a : b + 1]) + GUTTER
            for a, b in zip(starts, last, strict=True)
        )
        off = abs(log(height / wide / SHAPE))
        if chosen and height < WORTH * total and off < best - 0.05:
            best, ends = off, chosen
    if not ends:
        return None
    return _move(rows, ends, x, top, bottom, (high, low, left, right))


def _cut(
    cuts: Sequence[int], high: Sequence[float], low: Sequence[float], columns: int
) -> list[int]:
    """The rows that end columns, so many at most, of which the tallest is as low as can be."""
    least, most = 0.0, low[-1] - high[0]
    best: list[int] = []
    while most - least > 1:
        height = (least + most) / 2
        chosen = _filled(cuts, high, low, height)
        if chosen is None or len(chosen) >= columns:
            least = height
        else:
            best, most = chosen, height
    return _joined(best, high, low, most)


def _joined(
    chosen: Sequence[int], high: Sequence[float], low: Sequence[float], height: float
) -> list[int]:
    """The ends of columns without those that leave but a few boxes, where these fit beside."""
    kept: list[int] = []
    start, last = 0, len(high) - 1
    for end, after in pairwise([*chosen, last]):
        little = min(low[end] - high[start], low[after] - high[end + 1]) < LITTLE * height
        if little and low[after] - high[start] < (1 + LITTLE / 2) * height:
            continue
        kept.append(end)
        start = end + 1
    return kept


def _filled(
    cuts: Sequence[int], high: Sequence[float], low: Sequence[float], height: float
) -> list[int] | None:
    """The ends of columns that are each filled up to a height; None where a piece is taller."""
    chosen: list[int] = []
    start, pieces = 0, [*cuts, len(high) - 1]
    for before, piece in zip([-1, *cuts], pieces, strict=True):
        if low[piece] - high[before + 1] > height:
            return None
        if low[piece] - high[start] > height:
            chosen.append(before)
            start = before + 1
    return chosen


def _move(
    rows: Rows,
    ends: Sequence[int],
    x: list[float],
    top: list[float],
    bottom: list[float],
    sides: tuple[list[float], list[float], list[float], list[float]],
) -> Columns:
    high, low, left, right = sides
    starts = [0, *(i + 1 for i in ends)]
    last = [*ends, len(rows.rows) - 1]
    turns: dict[int, Turn] = {}
    first = edge = min(left)
    # The line into a later column needs room above it.
    level = high[0] + (TURN if high[0] < TURN else 0.0)
    deepest = low[last[0]]
    for number, (a, b) in enumerate(zip(starts, last, strict=True)):
        begin, end = min(left[a : b + 1]), max(right[a : b + 1])
        across, up = edge - begin, (level - high[a]) if number else 0.0
        for row in rows.rows[a : b + 1]:
            for cell in row:
                x[cell] += across
                top[cell] += up
                bottom[cell] += up
        if number:
            before = starts[number] - 1
            turns[before] = Turn(0.0, edge - GUTTER / 2, level - TURN + 4)
        deepest = max(deepest, low[b] + up)
        edge += end - begin + GUTTER
    for before, turn in turns.items():
        foot = max(bottom[c] for c in rows.rows[before]) + TURN
        turns[before] = Turn(foot, turn.gutter, turn.above)
        deepest = max(deepest, foot + 2)
    wider = edge - GUTTER - first - (max(right) - min(left))
    return Columns(turns, wider, low[-1] - deepest)
