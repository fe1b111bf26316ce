"""LaTeX: a graph as formulas that people read; written only."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import NoReturn

from neuralsym.core.files import replacing, target_of
from neuralsym.core.graph import Graph
from neuralsym.engines.latex.printer import lines_of
from neuralsym.errors import FormatError, at_line, user_line

__all__ = ["load", "of_symbolic", "save", "to_symbolic"]

_DOCUMENT = r"""\documentclass{article}
\usepackage[landscape,margin=15mm]{geometry}
\usepackage{amsmath,amssymb}
\allowdisplaybreaks
\begin{document}
%s
\end{document}
"""


def of_symbolic(graph: Graph) -> str:
    """The formulas of a graph: a line `name = expression` for each output.

    Operators of arithmetic, logic, matrices and reductions have their signs, with parentheses where
    precedence asks for them; others are written by their names, with the settings that are not
    their defaults. A value that is used more than once is named once, `t_1`, `t_2`, and long
    expressions are cut. The text stands between `\\begin{aligned}` and `\\end{aligned}`, which
    LaTeX with amsmath, KaTeX and MathJax set.
    """
    if not isinstance(graph, Graph):
        hint = ": give its .graph" if hasattr(graph, "graph") else ""
        raise TypeError(
            f"formulas are made of a Graph, not {type(graph).__name__}{hint}{at_line(user_line())}"
        )
    body = " \\\\\n".join(f"  {left} &= {right}" for left, right in lines_of(graph))
    return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"


def save(model: str | Graph, path: str | PathLike[str]) -> None:
    """Write a .tex document that can be compiled; the lines of `of_symbolic` may be given."""
    path = Path(path)
    text = model if isinstance(model, str) else of_symbolic(model)
    text = text.replace("{aligned}", "{align*}")  # which breaks between pages
    with replacing(path, [target_of(path, "model.tex")]) as (file,):
        file.write((_DOCUMENT % text).encode())


def to_symbolic(model: str) -> NoReturn:
    """FormatError: formulas leave out what a graph must say, types and shapes."""
    raise FormatError("LaTeX is written only: formulas do not say types and shapes")


def load(path: str | PathLike[str]) -> NoReturn:
    """FormatError, for the same reason."""
    raise FormatError(f"{path}: LaTeX is written only; load an .onnx or .flow file")
