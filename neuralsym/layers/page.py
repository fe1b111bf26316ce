"""The table of layers in docs/layers.md, made from the layers themselves.

`python -m neuralsym.layers.page docs/layers.md` writes it; without a path it is printed. What is
read of a layer: its signature, the first sentence of its docstring, and the last paragraph, where
it says what others call it (see `facts`).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from neuralsym.layers.factory import Factory

TOOLS = ("Keras", "torch", "Owl", "ONNX")

HEAD = """\
# Layers

Every layer, what others call it, what it becomes in an ONNX file, and its settings with their
defaults. The table is made from the code by `python -m neuralsym.layers.page docs/layers.md`. A
setting without a default must be given. What differs in meaning from Keras, torch and Owl stands in
[coming_from.md](coming_from.md).
"""


@dataclass(frozen=True)
class Row:
    """One layer: its names here, its sentence, its names elsewhere, its settings."""

    names: tuple[str, ...]
    section: str
    """What its module is for: the first sentence there."""
    summary: str
    known_as: dict[str, str]
    settings: str

    def cells(self) -> list[str]:
        """The cells of its line in the page."""
        return [
            ", ".join(f"`{n}`" for n in self.names),
            self.summary,
            *(self.known_as.get(tool, "-") for tool in TOOLS),
            self.settings or "-",
        ]


def facts(documentation: str) -> dict[str, str]:
    """What the last paragraph of a layer's docstring says: `{"Keras": "Dense", ...}`.

    The paragraph is one list, its parts separated by semicolons and ended by a full stop, each
    begun by the tool's name:

        Keras Dense; torch Linear (kernel transposed); Owl linear; ONNX Gemm, or MatMul and Add.

    Empty where the last paragraph is no such list; every layer of ours has the ONNX part.
    """
    last = " ".join(inspect.cleandoc(documentation).rpartition("\n\n")[2].split())
    found = {}
    for part in last.removesuffix(".").split("; "):
        tool, _, text = part.partition(" ")
        if tool not in TOOLS or not text or tool in found:
            return {}
        found[tool] = text
    return found


def rows() -> list[Row]:
    """Every layer that `from neuralsym.layers import *` gives, in the order of `__all__`."""
    from neuralsym import layers

    found: dict[int, tuple[list[str], Any]] = {}
    for name in layers.__all__:
        value = getattr(layers, name)
        said = facts(inspect.getdoc(value) or "") if callable(value) else {}
        if said and (isinstance(value, Factory) or inspect.isfunction(value)):
            found.setdefault(id(value), ([], value))[0].append(name)
    return [_row(tuple(names), made) for names, made in found.values()]


def _row(names: tuple[str, ...], made: Any) -> Row:
    function = made.function if isinstance(made, Factory) else made
    documentation = inspect.getdoc(function) or ""
    settings = (
        made.settings if isinstance(made, Factory) else inspect.signature(function).parameters
    )
    return Row(
        names,
        _sentence(inspect.getdoc(sys.modules[function.__module__]) or ""),
        " ".join(documentation.partition("\n\n")[0].split()),
        facts(documentation),
        ", ".join(_setting(p) for p in settings.values() if p.name != "name"),
    )


def _sentence(text: str) -> str:
    """The first sentence, without what follows a colon in it."""
    first = " ".join(text.partition("\n\n")[0].split()).partition(". ")[0]
    return first.partition(":")[0].removesuffix(".")


def _setting(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"`**{parameter.name}`"
    if parameter.kind is parameter.VAR_POSITIONAL:
        return f"`*{parameter.name}`"
    if parameter.default is parameter.empty:
        return f"`{parameter.name}`"
    return f"`{parameter.name}={_default(parameter.default)}`"


def _default(value: object) -> str:
    return value.__name__ if isinstance(value, Factory) else repr(value)


def page() -> str:
    """The text of docs/layers.md."""
    return "\n".join([HEAD, *_lines()])


def _lines() -> Iterator[str]:
    for section, members in groupby(sorted_by_section(rows()), key=lambda row: row.section):
        yield f"## {section}\n"
        yield f"| layer | what it computes | {' | '.join(TOOLS)} | settings |"
        yield "|---" * (len(TOOLS) + 3) + "|"
        for row in members:
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row.cells()) + " |"
        yield ""


def sorted_by_section(found: list[Row]) -> list[Row]:
    """The rows of a section together, sections in the order of their first."""
    order = list(dict.fromkeys(row.section for row in found))
    return sorted(found, key=lambda row: order.index(row.section))


def main(arguments: list[str]) -> None:
    """Write the page to the path given, or print it."""
    if arguments:
        Path(arguments[0]).write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())


if __name__ == "__main__":
    main(sys.argv[1:])
