"""Which way each value goes: along the rows of every open group that it passes.

Links are cut at the borders of groups, where they have ports: a group can be arranged by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from neuralsym.draw.layers import Link, Rows, arrange
from neuralsym.engines.dot.outline import Group, Part, View

Key = tuple[int, str]
"""A value: the number of the part that gives it, and its name."""


@dataclass
class Inside:
    """What an open group arranges: items are its parts, then the ports on its border."""

    group: Group
    number: dict[Part, int]
    items: int = 0
    entries: dict[Key, int] = field(default_factory=dict)
    exits: dict[Key, int] = field(default_factory=dict)
    links: dict[tuple[int, int, Key], int] = field(default_factory=dict)
    rows: Rows = field(default_factory=lambda: Rows(0, [], [], []))

    def port(self, ports: dict[Key, int], key: Key) -> int:
        if key not in ports:
            ports[key] = self.items
            self.items += 1
        return ports[key]

    def link(self, source: int, target: int, key: Key) -> int:
        return self.links.setdefault((source, target, key), len(self.links))

    def arrange(self) -> None:
        """Rows for the items; ports come in the first and the last row."""
        links = [Link(a, b, repr(key)) for a, b, key in self.links]
        tops, bottoms = frozenset(self.entries.values()), frozenset(self.exits.values())
        self.rows = arrange(self.items, links, tops, bottoms)


Route = list[tuple[Inside, int]]
"""The links of the groups that a value passes, from its source on, by their numbers."""


@dataclass(frozen=True)
class Routes:
    """The open groups of a view, arranged, and a route for each of its links.

    insides has outer groups before inner ones; numbers are of the parts shown.
    """

    insides: dict[Group, Inside]
    numbers: dict[Part, int]
    routes: list[Route]


def route(view: View) -> Routes:
    """The routes of a view's links."""
    insides: dict[Group, Inside] = {}
    for group in view.outline.groups:
        if group in view.opened:
            number = {part: i for i, part in enumerate(group.parts)}
            insides[group] = Inside(group, number, len(group.parts))
    numbers = {part: i for i, part in enumerate(view.shown())}
    routes = [_route(insides, a, b, (numbers[a], wire.value)) for a, b, wire in view.links()]
    for inside in insides.values():
        inside.arrange()
    return Routes(insides, numbers, routes)


def _route(insides: dict[Group, Inside], a: Part, b: Part, key: Key) -> Route:
    """Out of the groups around the source, and into those around the target."""
    ups, downs = _above(a), _above(b)
    common = set(ups).intersection(downs)
    made: Route = []
    child = a
    for group in ups:
        if group in common:
            break
        inside = insides[group]
        port = inside.port(inside.exits, key)
        made.append((inside, inside.link(inside.number[child], port, key)))
        child = group
    target = b
    entered: Route = []
    for group in downs:
        inside = insides[group]
        if group in common:
            number = inside.link(inside.number[child], inside.number[target], key)
            made.append((inside, number))
            break
        port = inside.port(inside.entries, key)
        entered.append((inside, inside.link(port, inside.number[target], key)))
        target = group
    return made + entered[::-1]


def _above(part: Part) -> list[Group]:
    """The groups that a part lies in, from the innermost."""
    made: list[Group] = []
    group = part.parent
    while group is not None:
        made.append(group)
        group = group.parent
    return made
