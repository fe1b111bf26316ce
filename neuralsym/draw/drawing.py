"""A layout as an SVG document: one file of plain shapes, on white, that every browser shows."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from neuralsym.draw.place import (
    FIRST,
    HEAD,
    LABEL,
    LINE,
    PAD,
    Frame,
    Layout,
    Line,
    Point,
    heading,
    lines_of,
    title_of,
)
from neuralsym.draw.text import FONT, SIZE, SMALL, TITLE, width
from neuralsym.engines.dot.caption import INPUT, OUTPUT, SCOPE, Kind, short
from neuralsym.engines.dot.outline import Box, Group, Part

INK, FAINT, WIRE = "#1a1a1a", "#4a4a4a", "#6a7180"
"""Colours of titles, of the lines under them, and of the lines between boxes."""

GROUNDS = ("#f7f9fc", "#ffffff")
"""Of open groups, in turn as they lie in each other."""

_END = ' text-anchor="end"'
MARGIN, CORNER = 10.0, 7.0


def svg_of(layout: Layout, title: str, subtitle: str = "") -> str:
    """The document. title and subtitle stand above the drawing, the colours' names below."""
    whole = layout.frames[layout.view.outline.whole]
    head = MARGIN + TITLE + (18.0 if subtitle else 4.0)
    wide = max(
        whole.width,
        width(short(title, 80), TITLE, bold=True) + 2 * MARGIN,
        width(short(subtitle, 160), SMALL) + 2 * MARGIN,
        280.0,
    )
    legend, below = _legend(layout, wide)
    high = head + whole.height + below
    left = (wide - whole.width) / 2
    size = f'width="{wide:.0f}" height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" '
        f'text-rendering="geometricPrecision">',
        f"<title>{_text(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _words(MARGIN, MARGIN + TITLE - 3, short(title, 80), TITLE, INK, bold=True),
    ]
    if subtitle:
        out.append(_words(MARGIN, MARGIN + TITLE + 13, short(subtitle, 160), SMALL, FAINT))
    out.append(f'<g transform="translate({left:.1f} {head:.1f})">')
    out += _groups(layout)
    out.append(f'<g fill="none" stroke="{WIRE}" stroke-width="1.2" stroke-linecap="round">')
    out += map(_line, layout.lines)
    out.append("</g>")
    out.append(f'<g fill="{WIRE}">')
    out += _heads(layout)
    out.append("</g>")
    out += (
        f'<text x="{mark.at[0]:.1f}" y="{mark.at[1]:.1f}" font-size="{LABEL}" fill="{FAINT}" '
        f'stroke="#ffffff" stroke-width="2.5" stroke-linejoin="round" paint-order="stroke"'
        f"{_END if mark.ends else ''}>"
        f"{_text(mark.text)}</text>"
        for mark in layout.labels
    )
    out += (_box(part, layout.frames[part]) for part in layout.view.shown())
    out.append("</g>")
    out.append(f'<g transform="translate(0 {head + whole.height:.1f})">')
    out += [*legend, "</g>", "</svg>"]
    return "\n".join(out) + "\n"


def _groups(layout: Layout) -> Iterator[str]:
    """The open groups, the outer before the inner."""
    for group in layout.view.outline.groups:
        if group.parent is None or group not in layout.view.opened:
            continue
        frame = layout.frames[group]
        name, said = heading(group)
        ground = GROUNDS[(group.level - 1) % len(GROUNDS)]
        y = frame.y + HEAD - 8
        yield f"<g data-group={quoteattr(_clean(group.name))}><title>{_detail(group)}</title>"
        yield _rect(frame, 8, ground, SCOPE.line, ' stroke-opacity="0.55"')
        yield _words(frame.x + PAD, y, name, SIZE, SCOPE.line, bold=True)
        if said:
            x = frame.x + PAD + width(name, SIZE, bold=True) + 8
            yield _words(x, y, said, SMALL, SCOPE.line)
        yield "</g>"


def _box(part: Part, frame: Frame) -> str:
    """A box: an input or output is round, a closed group lies on a second sheet."""
    kind = part.kind if isinstance(part, Box) else SCOPE
    end = kind in (INPUT, OUTPUT)
    out = [f"<g data-name={quoteattr(_clean(part.name))}><title>{_detail(part)}</title>"]
    if isinstance(part, Group):
        under = Frame(frame.x + 3, frame.y + 3, frame.width, frame.height)
        out.append(_rect(under, 5, "#ffffff", kind.line))
    out.append(_rect(frame, frame.height / 2 if end else 5, kind.fill, kind.line))
    centre = frame.x + frame.width / 2
    y = frame.y + FIRST - 0.5
    out.append(_words(centre, y, title_of(part), SIZE, INK, bold=True, middle=True))
    for line in lines_of(part):
        y += LINE
        out.append(_words(centre, y, line, SMALL, FAINT, middle=True))
    return "".join([*out, "</g>"])


def _rect(frame: Frame, round: float, fill: str, line: str, more: str = "") -> str:
    return (
        f'<rect x="{frame.x:.1f}" y="{frame.y:.1f}" width="{frame.width:.1f}" '
        f'height="{frame.height:.1f}" rx="{round:.1f}" fill="{fill}" stroke="{line}"{more}/>'
    )


def _words(
    x: float, y: float, text: str, size: float, fill: str, bold: bool = False, middle: bool = False
) -> str:
    more = (' font-weight="bold"' if bold else "") + (' text-anchor="middle"' if middle else "")
    start = f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{fill}"{more}>'
    return f"{start}{_text(text)}</text>"


def _line(line: Line) -> str:
    dashed = ' stroke-dasharray="4 3"' if line.wire.fed else ""
    tip = f"{line.wire.value}: {line.wire.type}"
    return f'<path d="{_curve(line.points)}"{dashed}><title>{_text(tip)}</title></path>'


def _curve(points: tuple[Point, ...]) -> str:
    """Straight where two points are level or above each other, else an S, upright at its ends.

    Where a level piece meets an upright one the corner is round.
    """
    made = [p for i, p in enumerate(points) if i == 0 or p != points[i - 1]]
    (x, y), *rest = made
    out = [f"M{x:.1f} {y:.1f}"]
    for i, (x2, y2) in enumerate(rest):
        after = rest[i + 1] if i + 1 < len(rest) else (x2, y2)
        if abs(y2 - y) < 0.05:
            x = x2 - _towards(x, x2)
            out.append(f"H{x:.1f}" + _corner((x2, y2), after))
        elif abs(x2 - x) < 0.05:
            level = abs(after[1] - y2) < 0.05 and after != (x2, y2)
            out.append(f"V{y2 - (_towards(y, y2) if level else 0.0):.1f}")
            out.append(_corner((x2, y2), after) if level else "")
        elif y2 > y:
            middle = (y + y2) / 2
            out.append(f"C{x:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}")
        else:  # a circle goes back up
            far = 18 + (y - y2) / 2
            out.append(f"C{x:.1f} {y + far:.1f} {x2:.1f} {y2 - far:.1f} {x2:.1f} {y2:.1f}")
        x, y = x2, y2
    return "".join(out)


def _towards(a: float, b: float) -> float:
    """The part of a piece from a to b that a round corner at b takes."""
    return max(-CORNER, min(CORNER, (b - a) / 2))


def _corner(at: Point, after: Point) -> str:
    """A quarter of a circle at a corner, into the direction of the point after it."""
    x = at[0] + _towards(at[0], after[0])
    y = at[1] + _towards(at[1], after[1])
    return f"Q{at[0]:.1f} {at[1]:.1f} {x:.1f} {y:.1f}" if after != at else ""


def _heads(layout: Layout) -> Iterator[str]:
    """An arrow head at the end of each line."""
    for line in layout.lines:
        x, y = line.points[-1]
        yield f'<path d="M{x:.1f} {y:.1f}l-3.2 -7l3.2 1.6l3.2 -1.6z"/>'


def _legend(layout: Layout, wide: float) -> tuple[list[str], float]:
    """A sample of each colour that the drawing has, and the height that they take."""
    kinds: dict[Kind, None] = {}
    for part in layout.view.shown():
        kinds[part.kind if isinstance(part, Box) else SCOPE] = None
    out: list[str] = []
    x, y = MARGIN, 8.0
    for kind in kinds:
        name = "closed scope" if kind is SCOPE else kind.name
        step = 16 + width(name, LABEL) + 14
        if x > MARGIN and x + step - 14 > wide - MARGIN:
            x, y = MARGIN, y + 15
        out.append(_rect(Frame(x, y, 11, 9), 2, kind.fill, kind.line))
        out.append(_words(x + 16, y + 8, name, LABEL, FAINT))
        x += step
    return out, y + 9 + MARGIN


def _detail(part: Part) -> str:
    detail = part.caption.detail if isinstance(part, Box) else part.detail
    return _text("\n".join(detail))


def _text(text: str) -> str:
    return escape(_clean(text))


def _clean(text: str) -> str:
    """Without what XML cannot hold."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)
