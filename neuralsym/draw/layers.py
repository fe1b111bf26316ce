"""Layers of a drawing: which row each item lies in, and in which order along it.

Sugiyama, Tagawa and Toda 1981: rows by the longest path, bends where a link passes a row, and
sweeps that move each item to the mean place of its neighbours, of which the one with the fewest
crossings is kept. Links that share a value share their bends, so that it runs as one line.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

SWEEPS = 6
"""Passes down and up; wide drawings get fewer."""

BENDS = 12_000
"""Bends of one drawing; links that would need more, the longest ones, run straight."""


@dataclass(frozen=True)
class Link:
    """A value that runs from one item to another; both are numbers."""

    source: int
    target: int
    value: str


@dataclass
class Rows:
    """Items and bends in rows from the top; a cell below `items` is an item, the others bends.

    paths: for each link its cells from source to target, one in each row between; of two cells
    that are more than a row apart where the link runs straight. A path that goes up is of a link
    in a circle.
    """

    items: int
    rows: list[list[int]]
    row_of: list[int]
    paths: list[list[int]]
    segments: list[tuple[int, int]] = field(default_factory=list)

    def crossings(self) -> int:
        """How often lines cross between neighbouring rows."""
        place = {cell: i for row in self.rows for i, cell in enumerate(row)}
        between: dict[int, list[tuple[int, int]]] = {}
        for a, b in self.segments:
            between.setdefault(self.row_of[a], []).append((place[a], place[b]))
        return sum(_inversions(pairs) for pairs in between.values())


def arrange(
    items: int, links: Sequence[Link], tops: frozenset[int], bottoms: frozenset[int]
) -> Rows:
    """Rows for `items` items, numbered in the order in which they are wanted where links allow it.

    tops and bottoms: items that lie in the first and in the last row, alone.
    """
    links = [link for link in links if link.source != link.target]
    rank, backwards = _ranks(items, links, tops, bottoms)
    made = _bent(items, links, rank, backwards)
    _order(made)
    return made


def _ranks(
    items: int, links: Sequence[Link], tops: frozenset[int], bottoms: frozenset[int]
) -> tuple[list[int], set[int]]:
    """The row of each item by the longest path to it, and the links that go up."""
    after: list[list[int]] = [[] for _ in range(items)]
    waiting = [0] * items
    for number, link in enumerate(links):
        after[link.source].append(number)
        waiting[link.target] += 1
    rank = [0 if not tops or i in tops else 1 for i in range(items)]
    backwards: set[int] = set()
    done = [False] * items
    ready = [i for i in range(items) if not waiting[i]]
    entering: list[list[int]] = [[] for _ in range(items)]
    for number, link in enumerate(links):
        entering[link.target].append(number)
    order: list[int] = []
    next_stuck = 0
    while len(order) < items:
        if not ready:  # a circle: the first item left goes on top of those that it waits for
            while done[next_stuck]:
                next_stuck += 1
            ready.append(next_stuck)
            for number in entering[next_stuck]:
                if not done[links[number].source]:
                    backwards.add(number)
        for item in ready:
            done[item] = True
        order += ready
        following: list[int] = []
        for item in ready:
            for number in after[item]:
                if number in backwards:
                    continue
                target = links[number].target
                rank[target] = max(rank[target], rank[item] + 1)
                waiting[target] -= 1
                if not waiting[target] and not done[target]:
                    following.append(target)
            for number in entering[item]:
                if number in backwards:  # its source comes after it
                    source = links[number].source
                    rank[source] = max(rank[source], rank[item] + 1)
        ready = following
    for item in reversed(order):  # what waits for nothing lies next to what takes it
        if not entering[item] and item not in tops and after[item]:
            rank[item] = max(rank[item], min(rank[links[n].target] for n in after[item]) - 1)
    last = max((rank[i] for i in range(items) if i not in bottoms), default=-1)
    for item in bottoms:
        rank[item] = last + 1
    return rank, {n for n, k in enumerate(links) if rank[k.source] >= rank[k.target]}


def _bent(items: int, links: Sequence[Link], rank: list[int], backwards: set[int]) -> Rows:
    """Bends for the links that pass rows, shared by links of one value from one item."""
    count = max(rank, default=-1) + 1
    rows: list[list[int]] = [[] for _ in range(count)]
    for item in range(items):
        rows[rank[item]].append(item)
    row_of = list(rank)
    bends: dict[tuple[int, str, bool], dict[int, int]] = {}
    paths: list[list[int]] = [[] for _ in links]
    spans = [abs(rank[k.target] - rank[k.source]) for k in links]
    left = BENDS + 4 * items
    for number in sorted(range(len(links)), key=lambda n: spans[n]):
        link, up = links[number], number in backwards
        chain = bends.setdefault((link.source, link.value, up), {})
        step = -1 if up else 1
        passed = range(rank[link.source] + step, rank[link.target], step)
        new = [row for row in passed if row not in chain]
        if len(new) > left:
            paths[number] = [link.source, link.target]
            continue
        left -= len(new)
        for row in new:
            chain[row] = len(row_of)
            rows[row].append(len(row_of))
            row_of.append(row)
        paths[number] = [link.source, *(chain[row] for row in passed), link.target]
    made = Rows(items, rows, row_of, paths)
    seen: dict[tuple[int, int], None] = {}
    for path in paths:
        for a, b in pairwise(path):
            if abs(row_of[a] - row_of[b]) == 1:
                seen[(a, b) if row_of[a] < row_of[b] else (b, a)] = None
    made.segments = list(seen)
    return made


def _order(made: Rows) -> None:
    """Order the cells of each row so that few lines cross."""
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for a, b in made.segments:
        above.setdefault(b, []).append(a)
        below.setdefault(a, []).append(b)
    cells = len(made.row_of)
    if all(len(row) < 2 for row in made.rows):
        return
    best, fewest = [list(row) for row in made.rows], made.crossings()
    for sweep in range(max(2, min(SWEEPS, 60_000 // max(1, cells)))):
        if not fewest:
            break
        for towards, rows in ((above, made.rows), (below, made.rows[::-1])):
            place: dict[int, float] = {}
            for row in rows:
                _by_mean(row, towards, place, turn=sweep % 2 == 1)
            crossings = made.crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in made.rows], crossings
    made.rows[:] = best


def _by_mean(
    row: list[int], towards: dict[int, list[int]], place: dict[int, float], turn: bool
) -> None:
    """Sort a row by the mean places of neighbours; a cell without any keeps its place.

    turn: of cells that are wanted at one place, the last comes first; this leaves dead ends.
    """
    wanted: dict[int, float] = {}
    for i, cell in enumerate(row):
        near = towards.get(cell)
        wanted[cell] = sum(place[n] for n in near) / len(near) if near else float(i)
    if turn:
        row.reverse()
    row.sort(key=wanted.__getitem__)
    place.update((cell, float(i)) for i, cell in enumerate(row))


def _inversions(pairs: list[tuple[int, int]]) -> int:
    pairs.sort()
    seen: list[int] = []
    count = 0
    for i, (_, b) in enumerate(pairs):
        at = bisect_left(seen, b + 1)
        count += i - at
        insort(seen, b)
    return count
