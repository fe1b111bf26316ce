"""DOT: a graph as Graphviz draws it, with a cluster for each scope; written only.

Colours and shapes are close to those that Myelin gives to its flows.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import NoReturn

from neuralsym.core.files import replacing, target_of
from neuralsym.core.graph import Graph
from neuralsym.core.model import Model
from neuralsym.engines.dot.caption import INPUT, OUTPUT, SCOPE, type_text
from neuralsym.engines.dot.outline import Box, Group, Part, View, outline
from neuralsym.errors import FormatError

__all__ = ["load", "of_symbolic", "save", "to_symbolic"]

_HEAD = """\
  graph [rankdir=TB, fontname="Helvetica,Arial,sans-serif", fontsize=12, labeljust=l, compound=true]
  node [shape=box, style="rounded,filled", fontname="Helvetica,Arial,sans-serif", fontsize=11]
  edge [fontname="Helvetica,Arial,sans-serif", fontsize=9, fontcolor="#444444", color="#555555"]"""


def of_symbolic(graph: Graph | Model, depth: int | None = None) -> str:
    """The DOT text of a graph: boxes for operators, clusters for scopes, types on the edges.

    The graphs of a model of several, such as the functions of a flow, are clusters too. depth:
    how many levels of scopes are opened; one that stays closed is a single box with its
    parameters. All of them if None. Weights and constants are lines in the boxes that take them.
    Raises BadAttribute for a negative depth.
    """
    made = outline(graph)
    view = made.view(made.depth if depth is None else depth)
    numbers = {part: f"n{i}" for i, part in enumerate(view.shown())}
    lines = [f"digraph {_quoted(', '.join(Model.of(graph).graphs))} {{", _HEAD]
    lines += _clusters(view, numbers)
    for source, target, wire in view.links():
        words = [f"label={_quoted(type_text(wire.type))}", f"tooltip={_quoted(wire.value)}"]
        if wire.fed:
            words.append("style=dashed")
        lines.append(f"  {numbers[source]} -> {numbers[target]} [{', '.join(words)}]")
    return "\n".join([*lines, "}"]) + "\n"


def _clusters(view: View, numbers: dict[Part, str]) -> Iterator[str]:
    """The nodes, within a subgraph for each group that is open."""
    stack: list[tuple[Part | None, int]] = [(view.outline.whole, 0)]
    count = 0
    while stack:
        part, level = stack.pop()
        pad = "  " * level
        if part is None:
            yield f"{pad}}}"
        elif part in numbers:
            yield f"{pad}{numbers[part]} [{_node(part)}]"
        elif isinstance(part, Group):
            if level:
                words = f'label={_quoted(part.label)}; style="rounded,filled"; fillcolor="#fcfcfc"'
                yield f'{pad}subgraph "cluster_{count}" {{ {words}; color="{SCOPE.line}"'
                stack.append((None, level))
            count += 1
            stack.extend((inside, level + 1) for inside in reversed(part.parts))


def _node(part: Part) -> str:
    if isinstance(part, Box):
        kind, rows = part.kind, [part.caption.title, *part.caption.lines]
        tooltip = "\n".join(part.caption.detail)
    else:
        kind, rows = SCOPE, [part.label, *part.lines]
        tooltip = "\n".join(part.detail)
    shape = ", shape=ellipse, style=filled" if kind in (INPUT, OUTPUT) else ""
    if isinstance(part, Group):
        shape = ", peripheries=2"
    label, tip = _quoted("\n".join(rows)), _quoted(tooltip)
    return f'label={label}, fillcolor="{kind.fill}", color="{kind.line}"{shape}, tooltip={tip}'


def _quoted(text: str) -> str:
    """A string of DOT; lines are centred, and nothing in it is an escape or an entity."""
    marks = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "&": "&amp;"}
    return '"' + "".join(marks.get(c, c if c.isprintable() else " ") for c in text) + '"'


def save(model: str | Graph | Model, path: str | PathLike[str], depth: int | None = None) -> None:
    """Write a .dot file, for `dot -Tsvg`; the text of `of_symbolic` may be given.

    depth: as for `of_symbolic`, where no text is given. Raises FormatError for a place that cannot
    be written.
    """
    path = Path(path)
    text = model if isinstance(model, str) else of_symbolic(model, depth)
    with replacing(path, [target_of(path, "model.dot")]) as (file,):
        file.write(text.encode())


def to_symbolic(model: str) -> NoReturn:
    """FormatError: a drawing does not hold the values of weights."""
    raise FormatError("DOT is written only: a drawing does not hold the values of weights")


def load(path: str | PathLike[str]) -> NoReturn:
    """FormatError, for the same reason."""
    raise FormatError(f"{path}: DOT is written only; load an .onnx or .flow file")
