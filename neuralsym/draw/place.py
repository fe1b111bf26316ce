"""Where the boxes, groups and lines of a drawing lie.

Each open group is laid out by itself, the innermost first, and is then one item of the group
around it: boxes never overlap, whatever the graph. Lines cross a group's border at a port.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from neuralsym.draw.columns import Turn, fold
from neuralsym.draw.grid import Pull, spread
from neuralsym.draw.layers import Rows
from neuralsym.draw.route import Inside, Key, route
from neuralsym.draw.text import SIZE, SMALL, width
from neuralsym.engines.dot.caption import INPUT, OUTPUT, short, type_text
from neuralsym.engines.dot.outline import Box, Group, Part, View, Wire

LABEL = 9.5
"""Pixels: letters of the types on lines."""

LABEL_LENGTH = 26
PAD, LINE, FIRST = 10.0, 13.5, 16.0
"""Pixels within a box: at its sides, and the heights of its lines and of its title."""

ROW_GAP, ROW_GAP_MOST, APART = 27.0, 110.0, 20.0
"""Pixels between rows, and between boxes of a row."""

SIDE, HEAD, FOOT = 14.0, 24.0, 14.0
"""Pixels around what is in an open group; its name stands in the head."""

STRENGTH = (4.0, 0.3, 8.0)
"""How strongly a line is pulled straight, by its ends that are bends: the way of the data, box by
box, makes a column, and a line that passes rows runs straight beside it. A box that nothing leads
to moves, not what it joins."""

PORT = 14.0
"""Pixels between lines that come to one box."""

Point = tuple[float, float]


@dataclass
class Frame:
    """A rectangle; x and y of its upper left corner."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Line:
    """A wire between two shown parts, from where it leaves the lines of the same value."""

    source: Part
    target: Part
    wire: Wire
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Label:
    """The type of a value, where it leaves its box: from `at` on, or up to there if `ends`."""

    at: Point
    text: str
    ends: bool = False


@dataclass(frozen=True)
class Layout:
    """All frames by part, open groups included; the whole has the size of the drawing."""

    view: View
    frames: dict[Part, Frame]
    lines: list[Line]
    labels: list[Label]


def title_of(part: Part) -> str:
    return part.caption.title if isinstance(part, Box) else short(part.label)


def lines_of(part: Part) -> tuple[str, ...]:
    """The lines under the title of a box or a closed group."""
    return part.caption.lines if isinstance(part, Box) else part.lines


def heading(group: Group) -> tuple[str, str]:
    """What stands in the head of an open group: its name, and what it is."""
    return short(group.label), group.said


def heading_width(group: Group) -> float:
    """Pixels of the name of an open group and what stands beside it."""
    name, said = heading(group)
    return width(name, SIZE, bold=True) + (width(said, SMALL) + 8 if said else 0)


@dataclass
class _Sized:
    """The geometry of an open group: of its cells, from its own corner."""

    x: list[float]
    top: list[float]
    bottom: list[float]
    width: float
    height: float = 0.0
    turns: dict[int, Turn] = field(default_factory=dict)


def place(view: View) -> Layout:
    """Lay out a view."""
    return _Placer(view).run()


class _Placer:
    """The state of one layout."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.found = route(view)
        self.links = view.links()
        self.types = _types(self.links)
        self.sized: dict[Group, _Sized] = {}
        self.frames: dict[Part, Frame] = {part: self.size(part) for part in self.found.numbers}

    def run(self) -> Layout:
        for inside in reversed(self.found.insides.values()):
            self.lay(inside)
        for group, inside in self.found.insides.items():
            frame, sized = self.frames[group], self.sized[group]
            for part, i in inside.number.items():
                own = self.frames[part]
                own.x = frame.x + sized.x[i] - own.width / 2
                own.y = frame.y + sized.top[i]
        lines = self.lines()
        return Layout(self.view, self.frames, lines, [*self.labels(lines)])

    def size(self, part: Part) -> Frame:
        lines = lines_of(part)
        wide = max(
            width(title_of(part), SIZE, bold=True),
            *(width(line, SMALL) for line in lines),
            2 * width(self.types.get(part, ""), LABEL) - 6,
            34.0,
        )
        ends = 6.0 if isinstance(part, Box) and part.kind in (INPUT, OUTPUT) else 0.0
        return Frame(0, 0, wide + 2 * (PAD + ends), FIRST + LINE * len(lines) + 9)

    # -- one group -------------------------------------------------------------------------
    def lay(self, inside: Inside) -> None:
        """Rows, positions and size of one group; those in it are done."""
        rows = inside.rows
        cells = len(rows.row_of)
        parts = list(inside.number)
        frames = [self.frames[p] for p in parts]
        widths = [f.width for f in frames] + [2.0] * (cells - len(parts))
        heights = [f.height for f in frames] + [0.0] * (cells - len(parts))
        gaps = [APART] * len(parts) + [11.0] * (cells - len(parts))
        above: list[list[Pull]] = [[] for _ in range(cells)]
        below: list[list[Pull]] = [[] for _ in range(cells)]
        led = {b for _, b, _ in inside.links}
        pulled: set[tuple[int, int]] = set()
        for (a, b, key), path in zip(inside.links, rows.paths, strict=True):
            for u, v in pairwise(path):
                if (u, v) in pulled or abs(rows.row_of[u] - rows.row_of[v]) != 1:
                    continue
                pulled.add((u, v))
                start = self.port_of(inside, a, key, leaves=True) if u == a else 0.0
                end = self.port_of(inside, b, key, leaves=False) if v == b else 0.0
                strength = STRENGTH[(u >= rows.items) + (v >= rows.items)]
                if u == a and u not in led and u < len(parts):
                    strength = 1.0
                down = rows.row_of[u] < rows.row_of[v]
                (above if down else below)[v].append((u, start - end, strength))
                (below if down else above)[u].append((v, end - start, strength))
        ends = [*inside.entries.values(), *inside.exits.values()]
        through = len(inside.entries) == len(inside.exits) == 1
        if through:  # one line in, one line out: above each other, so that groups make a column
            above[ends[1]].append((ends[0], 0.0, 1.0))
            below[ends[0]].append((ends[1], 0.0, 1.0))
        heavy = [60.0] * rows.items + [1.0] * (cells - rows.items)
        x = spread(rows.rows, widths, gaps, above, below, heavy)
        if through:
            x[ends[0]] = x[ends[1]] = (x[ends[0]] + x[ends[1]]) / 2
        left = min((at - w / 2 for at, w in zip(x, widths, strict=True)), default=0.0)
        right = max((at + w / 2 for at, w in zip(x, widths, strict=True)), default=0.0)
        whole = inside.group.parent is None
        room = 0.0
        if not whole:
            need = heading_width(inside.group) + 2 * PAD
            first = min((x[i] for i in inside.entries.values()), default=float("inf"))
            room = max(0.0, need - SIDE - (first - left), (need - 2 * SIDE - (right - left)) / 2)
            room = min(room, need)
        shift = SIDE + room - left
        none = [0.0] * cells
        sized = _Sized([at + shift for at in x], none, [*none], right - left + 2 * (SIDE + room))
        self.sized[inside.group] = sized
        self.rows_of(inside, sized, heights)
        columns = fold(rows, sized.x, widths, sized.top, sized.bottom)
        if columns is not None:
            sized.turns = columns.turns
            sized.width += columns.wider
            sized.height -= columns.lower
            if through:
                self.lead_back(sized, rows, *ends)
        self.frames[inside.group] = Frame(0, 0, sized.width, sized.height)

    def lead_back(self, sized: _Sized, rows: Rows, entry: int, exit: int) -> None:
        """The one line out of folded columns goes back below them, to under the one line in."""
        deepest = max(low for cell, low in enumerate(sized.bottom) if cell != exit)
        foot = max([deepest, *(turn.below for turn in sized.turns.values())]) + 8
        sized.x[exit] = sized.x[entry]
        sized.top[exit] = sized.bottom[exit] = sized.height = foot + 10
        sized.turns[len(rows.rows) - 2] = Turn(foot, sized.x[entry], foot)

    def rows_of(self, inside: Inside, sized: _Sized, heights: list[float]) -> None:
        """The top and bottom of each cell; lines bend only in the gaps between rows."""
        rows = inside.rows
        farthest = [0.0] * (len(rows.rows) + 1)
        for a, b in rows.segments:
            row = rows.row_of[a]
            farthest[row] = max(farthest[row], abs(sized.x[a] - sized.x[b]))
        whole = inside.group.parent is None
        y = 0.0 if inside.entries else SIDE if whole else HEAD
        for i, cells in enumerate(rows.rows):
            height = max((heights[cell] for cell in cells), default=0.0)
            for cell in cells:
                if cell < rows.items:
                    sized.top[cell] = y + (height - heights[cell]) / 2
                    sized.bottom[cell] = sized.top[cell] + heights[cell]
                else:
                    sized.top[cell], sized.bottom[cell] = y, y + height
            gap = max(ROW_GAP, min(ROW_GAP_MOST, ROW_GAP + 0.10 * (farthest[i] - 60)))
            if i == 0 and inside.entries:  # upright through the head, where the name stands
                for cell in cells:
                    sized.bottom[cell] = HEAD - 4
                gap = HEAD + (gap - 8 if farthest[0] > 1 else 6)
            y += height + (gap if i + 1 < len(rows.rows) else 0.0)
        sized.height = y + (0.0 if inside.exits else SIDE if whole else FOOT)

    def port_of(self, inside: Inside, item: int, key: Key, leaves: bool) -> float:
        """Where a line leaves or enters an item, from the item's centre: 0 but for open groups."""
        if item >= len(inside.group.parts):
            return 0.0
        part = inside.group.parts[item]
        if not isinstance(part, Group) or part not in self.sized:
            return 0.0
        within, sized = self.found.insides[part], self.sized[part]
        port = (within.exits if leaves else within.entries)[key]
        return sized.x[port] - sized.width / 2

    # -- lines -----------------------------------------------------------------------------
    def lines(self) -> list[Line]:
        drawn: list[tuple[Part, Part, Wire, list[Point]]] = []
        arriving: dict[Part, list[int]] = {}
        for (a, b, wire), way in zip(self.links, self.found.routes, strict=True):
            points: list[Point] = []
            for inside, link in way:
                key = (self.found.numbers[a], wire.value)
                self.follow(points, inside, inside.rows.paths[link], key)
            arriving.setdefault(b, []).append(len(drawn))
            drawn.append((a, b, wire, points))
        for part, numbers in arriving.items():
            self.fan(part, [drawn[n][3] for n in numbers])
        return list(_unshared(drawn))

    def follow(self, points: list[Point], inside: Inside, path: list[int], key: Key) -> None:
        """Add the points of a path through the rows of one group."""
        rows, sized, origin = inside.rows, self.sized[inside.group], self.frames[inside.group]
        up = rows.row_of[path[0]] >= rows.row_of[path[-1]]
        for n, cell in enumerate(path):
            x, y, low = sized.x[cell], sized.top[cell], sized.bottom[cell]
            x, y, low = x + origin.x, y + origin.y, low + origin.y
            turn = sized.turns.get(rows.row_of[cell] - 1)
            if turn is not None and n:
                foot, head = turn.below + origin.y, turn.above + origin.y
                across = turn.gutter + origin.x
                end = x + self.port_of(inside, cell, key, leaves=False)
                points += [(points[-1][0], foot), (across, foot), (across, head), (end, head)]
            if cell >= len(inside.group.parts):  # a bend or a port
                points += [(x, low), (x, y)] if up else [(x, y), (x, low)]
            elif inside.group.parts[cell] in self.found.numbers:
                # Upright from a box that is lower than its row to the row's edge.
                row = rows.rows[rows.row_of[cell]]
                if n == 0:
                    edge = max(sized.bottom[c] for c in row) + origin.y
                    points += [(x, low), (x, edge)]
                else:
                    edge = min(sized.top[c] for c in row) + origin.y
                    points += [(x, edge), (x, y)]

    def fan(self, part: Part, arriving: list[list[Point]]) -> None:
        """Lines that come to one box end side by side, in the order in which they come."""
        count = len(arriving)
        if count < 2:
            return
        frame = self.frames[part]
        centre = frame.x + frame.width / 2
        arriving.sort(key=lambda points: points[-3][0])
        coming = [points[-3][0] - centre for points in arriving]
        step = min(PORT, (frame.width - 12) / count)
        # One that comes from straight above goes on so, as long as the others have room beside it.
        middle = (count - 1) / 2
        if sum(abs(x) <= 1 for x in coming) == 1:
            middle = min(max(sum(x < -1 for x in coming), middle - 0.5), middle + 0.5)
        for i, points in enumerate(arriving):
            at = centre + (i - middle) * step
            points[-2:] = [(at, y) for _, y in points[-2:]]

    def labels(self, lines: Iterable[Line]) -> Iterator[Label]:
        """Beside the place that lines leave from, on the side to which fewer of them turn."""
        turns: dict[Part, float] = {}
        for line in lines:
            first, towards = (
                line.points[0],
                next(
                    (x for x, _ in line.points if abs(x - line.points[0][0]) > 1), line.points[0][0]
                ),
            )
            turns[line.source] = (
                turns.get(line.source, 0.0) + (towards > first[0]) - (towards < first[0])
            )
        for part, text in self.types.items():
            frame = self.frames[part]
            left = turns.get(part, 0.0) > 0
            x = frame.x + frame.width / 2 + (-5 if left else 5)
            yield Label((x, frame.y + frame.height + 11.5), text, left)


def _types(links: Iterable[tuple[Part, Part, Wire]]) -> dict[Part, str]:
    """The types of the values that leave each part, once each."""
    found: dict[Part, dict[str, None]] = {}
    for source, _, wire in links:
        if not wire.fed:
            found.setdefault(source, {})[type_text(wire.type)] = None
    return {part: short(", ".join(types), LABEL_LENGTH) for part, types in found.items()}


def _unshared(drawn: Iterable[tuple[Part, Part, Wire, list[Point]]]) -> Iterable[Line]:
    """The lines without the pieces that an earlier line of the same value has drawn."""
    seen: dict[tuple[Part, str], set[tuple[Point, Point]]] = {}
    for source, target, wire, points in drawn:
        pieces = seen.setdefault((source, wire.value), set())
        first = 0
        while first < len(points) - 2 and (points[first], points[first + 1]) in pieces:
            first += 1
        pieces.update(pairwise(points))
        yield Line(source, target, wire, tuple(points[first:]))
