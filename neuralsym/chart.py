"""Bar charts as SVG text: what a profile looks like. Every browser shows them; nothing is needed.

A bar is a row: its label, the bar, what stands behind it. Colours tell kinds apart, and a legend
names them with their totals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

# Distinct also for most colour-blind readers: Okabe and Ito's palette, without its black.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800")
OTHERS = "#888888"

ROW, BAR, CHARACTER, MARGIN = 18, 12, 6.6, 12
"""Pixels: the height of a row and of a bar in it, the width of a letter, the edge."""

WIDTH = 420
"""Pixels of the longest bar."""


@dataclass(frozen=True)
class Bar:
    """One row: `value` sets the length, `kind` the colour, `note` stands behind the bar.

    detail: what a reader sees who points at the row; more lines than fit beside it.
    """

    label: str
    value: float
    kind: str = ""
    note: str = ""
    detail: str = ""


def bar_chart(
    title: str,
    bars: Sequence[Bar],
    subtitle: str = "",
    *,
    total: float | None = None,
    longest: int = 44,
) -> str:
    """An SVG document with a horizontal bar for each entry, from the top in the order given.

    Values are lengths, so none is negative. Labels longer than `longest` letters lose their middle.
    Kinds are coloured by their sums, the largest first; those beyond the palette are grey. The
    legend tells each kind's share of `total`, which is the sum of all bars if None.
    """
    totals: dict[str, float] = {}
    for bar in bars:
        totals[bar.kind] = totals.get(bar.kind, 0.0) + bar.value
    kinds = sorted(totals, key=lambda kind: -totals[kind])
    colours = dict(zip(kinds, COLOURS, strict=False))
    whole = sum(totals.values()) if total is None else total
    most = max((bar.value for bar in bars), default=0.0) or 1.0

    labels = [_short(bar.label, longest) for bar in bars]
    left = MARGIN + CHARACTER * max(map(len, labels), default=0) + 8
    right = CHARACTER * max((len(bar.note) for bar in bars), default=0) + 8
    named = [kind for kind in kinds if kind in colours and kind]
    legend: list[tuple[str | None, str]] = [
        (kind, f"{kind} {_percent(totals[kind], whole)}") for kind in named
    ]
    rest = whole - sum(totals[kind] for kind in named)
    if named and rest > 0.005 * whole:
        legend.append((None, f"others {_percent(rest, whole)}"))

    width = max(left + WIDTH + right + MARGIN, MARGIN * 2 + 8 * len(title))
    parts: list[str] = []
    y = MARGIN + 14
    parts.append(_text(MARGIN, y, title, "title"))
    if subtitle:
        y += ROW
        parts.append(_text(MARGIN, y, subtitle, "note"))
    x = float(MARGIN)
    y += ROW
    for kind, text in legend:
        step = 22 + CHARACTER * len(text) + 10
        if x + step > width and x > MARGIN:
            x, y = float(MARGIN), y + ROW
        parts.append(_rect(x, y - 10, 12, BAR, OTHERS if kind is None else colours[kind]))
        parts.append(_text(x + 17, y, text))
        x += step
    y += ROW // 2 if legend else -ROW // 2
    for label, bar in zip(labels, bars, strict=True):
        y += ROW
        length = WIDTH * bar.value / most
        colour = colours.get(bar.kind, OTHERS)
        row = [
            f"<title>{escape(bar.detail or bar.label)}</title>",
            _text(left - 8, y, label, "label"),
            _rect(left, y - 10, max(length, 0.5), BAR, colour),
            _text(left + length + 6, y, bar.note, "note"),
        ]
        parts.append("<g>" + "".join(row) + "</g>")
    return _document(width, y + MARGIN, parts)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def _short(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    head = longest // 3
    return f"{text[:head]}…{text[head - longest + 1 :]}"


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{style}>{escape(text)}</text>'


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    box = f'x="{x:g}" y="{y:g}" width="{width:.2f}" height="{height:g}"'
    return f'<rect {box} fill="{colour}"/>'


def _document(width: float, height: float, parts: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    style = (
        "text{font:11px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#222}"
        ".title{font:bold 14px system-ui,'DejaVu Sans',sans-serif}"
        ".label{text-anchor:end}.note{fill:#555}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    ground = f'<rect width="100%" height="100%" fill="#ffffff"/><style>{style}</style>'
    return "\n".join([head, ground, *parts, "</svg>"]) + "\n"
