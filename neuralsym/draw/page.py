"""A page of one file: the outline as nested elements, which its script opens, closes and joins.

The browser sets the boxes, row by row; the script draws the lines between them along the bends
that were arranged here for everything open. What lies in a closed group is left out of a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from itertools import count

from neuralsym.draw.place import heading, lines_of, title_of
from neuralsym.draw.route import Inside, Route, route
from neuralsym.engines.dot.caption import INPUT, OUTPUT, SCOPE, Kind, short, type_text
from neuralsym.engines.dot.outline import Box, Group, Outline, Part, Wire

Cell = tuple[Inside, int]
"""A bend or a port: a cell of a group's rows."""


def page_of(outline: Outline, depth: int | None, title: str, subtitle: str) -> str:
    """The page; depth says how far it is open at first."""
    opened = outline.view(depth).opened
    made = _Page(outline, opened)
    body = "".join(made.elements())
    kinds = list(dict.fromkeys(box.kind for box in outline.boxes))
    filled = {
        "title": escape(short(title, 120)),
        "subtitle": escape(subtitle),
        "colours": "\n".join(map(_colour, kinds)),
        "legend": "".join(_legend(kind) for kind in (*kinds, SCOPE)),
        "details": _script(made.details),
        "wires": _script([*made.wires()]),
        "body": body,
    }
    page = files("neuralsym.draw").joinpath("page.html").read_text("utf-8")
    head, *pieces = page.split("{{")
    out = [head]
    for piece in pieces:
        name, _, rest = piece.partition("}}")
        out += [filled[name], rest]
    return "".join(out)


class _Page:
    """The elements of a page and what the script knows of them, by their numbers."""

    def __init__(self, outline: Outline, opened: frozenset[Group]) -> None:
        self.opened = opened
        self.view = outline.view(outline.depth)
        self.found = route(self.view)
        self.number: dict[Part | tuple[Group, int], int] = {}
        self.counter = count()
        self.details: list[list[str]] = []

    def elements(self) -> Iterator[str]:
        """Nested elements: a group has rows, a row has boxes, groups and bends."""
        stack: list[Part | str] = [self.view.outline.whole]
        while stack:
            part = stack.pop()
            if isinstance(part, str):
                yield part
            elif isinstance(part, Box):
                yield self.box(part)
            else:
                stack.extend(reversed([*self.group(part)]))

    def new(self, part: Part | tuple[Group, int], detail: tuple[str, ...] = ()) -> int:
        self.number[part] = len(self.details)
        self.details.append(list(detail))
        return self.number[part]

    def box(self, part: Box) -> str:
        kind = "end" if part.kind in (INPUT, OUTPUT) else ""
        number = self.new(part, part.caption.detail)
        return (
            f'<div class="box {kind} {_class(part.kind)}" data-i="{number}" '
            f'data-name="{escape(part.name)}">{_face(part)}</div>'
        )

    def group(self, group: Group) -> Iterator[Part | str]:
        rows = self.found.insides[group].rows
        if group.parent is not None:
            number = self.new(group, group.detail)
            name, said = heading(group)
            state = "" if group in self.opened else " closed"
            odd = " odd" if group.level % 2 else ""
            yield (
                f'<div class="group{odd}{state}" data-i="{number}" '
                f'data-group="{escape(group.name)}"><h2><span>{escape(name)}'
                f'<span>{escape(said)}</span></span></h2><div class="face">{_face(group)}</div>'
            )
        yield '<div class="rows">'
        for row in rows.rows:
            ports = all(len(group.parts) <= cell < rows.items for cell in row)
            yield f'<div class="row{" port" if ports else ""}">'
            for cell in row:
                if cell < len(group.parts):
                    yield group.parts[cell]
                else:
                    yield f'<s data-i="{self.new((group, cell))}"></s>'
            yield "</div>"
        yield "</div>"
        if group.parent is not None:
            yield "</div>\n"

    def wires(self) -> Iterator[tuple[list[int], str, str, bool]]:
        """Each wire: the numbers of what it passes, its value, its type, whether it feeds."""
        for (a, b, wire), way in zip(self.view.links(), self.found.routes, strict=True):
            yield self.wire(a, b, wire, way)

    def wire(self, a: Part, b: Part, wire: Wire, way: Route) -> tuple[list[int], str, str, bool]:
        passed = [
            self.number[inside.group, cell]
            for inside, link in way
            for cell in inside.rows.paths[link]
            if cell >= len(inside.group.parts)
        ]
        path = [self.number[a], *dict.fromkeys(passed), self.number[b]]
        return path, wire.value, type_text(wire.type), wire.fed


def _face(part: Part) -> str:
    lines = "<br>".join(map(escape, lines_of(part)))
    return f"<b>{escape(title_of(part))}</b>{lines}"


def _class(kind: Kind) -> str:
    return "k-" + kind.name.split()[0]


def _colour(kind: Kind) -> str:
    return f".{_class(kind)} {{ background: {kind.fill}; border-color: {kind.line}; }}"


def _legend(kind: Kind) -> str:
    name = "closed scope" if kind is SCOPE else kind.name
    return f'<li><i style="background:{kind.fill};border-color:{kind.line}"></i>{name}</li>'


def _script(value: object) -> str:
    """JSON that no text in it can end or turn into markup."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
