"""Pictures of networks: SVG and HTML files drawn here, DOT files for Graphviz."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from xml.sax.saxutils import escape

from neuralsym.core.files import replacing, target_of
from neuralsym.core.graph import Graph
from neuralsym.core.model import Model
from neuralsym.draw.drawing import svg_of
from neuralsym.draw.place import place
from neuralsym.engines import dot
from neuralsym.engines.dot.outline import Outline, outline
from neuralsym.errors import FormatError, did_you_mean
from neuralsym.summary import summarize

__all__ = ["SUFFIXES", "html", "notebook", "plot", "svg"]

SUFFIXES = (".svg", ".html", ".dot")
"""The files that `plot` writes."""

LARGEST = 600
"""Boxes up to which a notebook shows a drawing."""

_UNITS = ((10**9, " G"), (10**6, " M"), (10**3, " k"), (1, ""))


def plot(graph: Graph | Model, path: str | PathLike[str], depth: int | None = None) -> Path:
    """Write a picture, .svg, .html or .dot by the suffix; gives the path.

    graph: or a model of several, which are drawn side by side. depth: how many levels of scopes
    are opened; None for as many as fit a page (.dot: all). In an .html file each can be opened
    and closed. Raises FormatError for another suffix or a place that cannot be written,
    BadAttribute for a depth that is no level.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES[:-1]) + f" or {SUFFIXES[-1]}"
        hint = did_you_mean(path.suffix, SUFFIXES)
        raise FormatError(f"{path}: a picture is {known}, not {path.suffix!r}{hint}")
    target = target_of(path, "model.svg")
    if path.suffix == ".dot":
        dot.save(graph, path, depth)
        return path
    text = svg(graph, depth) if path.suffix == ".svg" else html(graph, depth)
    with replacing(path, [target]) as (file,):
        file.write(text.encode())
    return path


def svg(graph: Graph | Model, depth: int | None = None) -> str:
    """A drawing as an SVG document, which needs nothing else. depth: as for `plot`."""
    made = outline(graph)
    return svg_of(place(made.view(depth)), _title(graph), _totals(graph, made))


def html(graph: Graph | Model, depth: int | None = None) -> str:
    """A page of one file whose scopes open and close, with search and details on pointing.

    It names nothing outside itself. depth: how far it is open at first, as for `plot`.
    """
    from neuralsym.draw.page import page_of

    made = outline(graph)
    return page_of(made, depth, _title(graph), _totals(graph, made))


def notebook(graph: Graph) -> str:
    """What a notebook shows for a graph: its drawing, with bars where it is large.

    White also where the notebook is dark. One that would fill the notebook's file is only named.
    """
    made = outline(graph)
    view = made.view()
    boxes = len(view.shown())
    if boxes > LARGEST:
        said = f"{graph!r}: {boxes:,} boxes; neuralsym.draw.plot(graph, 'graph.html') draws them"
        return f"<pre>{escape(said)}</pre>"
    style = "max-height:720px;overflow:auto;background:#ffffff;border:1px solid #d5d9e0"
    return f'<div style="{style}">{svg_of(place(view), _title(graph), _totals(graph, made))}</div>'


def _title(graph: Graph | Model) -> str:
    return ", ".join(Model.of(graph).graphs)


def _totals(graph: Graph | Model, made: Outline) -> str:
    """`25,557,032 parameters (102.4 MB), 4.09 G multiply-adds of a batch of one`."""
    if not made.whole.parameters:
        return f"{made.whole.operators:,} operators"
    said = f"{made.whole.parameters:,} parameters"
    if len(Model.of(graph).graphs) > 1:
        return said
    totals = summarize(Model.of(graph).graph)
    said = f"{totals.parameters:,} parameters ({totals.nbytes / 1e6:,.1f} MB)"
    macs = totals.macs
    if not isinstance(macs, int) or not macs:
        return said
    size, unit = next((s, u) for s, u in _UNITS if macs >= s)
    return f"{said}, {macs / size:.3g}{unit} multiply-adds of a batch of one"
