"""Engines: one module for each format that a graph is turned into or read from.

`neuralsym.engines.latex` and its like are imported when they are first named.
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import Any, Protocol, TypeVar

from neuralsym.core.graph import Graph

Format = TypeVar("Format")


class Engine(Protocol[Format]):
    """What the module of an engine has; a module satisfies it as it is."""

    def of_symbolic(self, graph: Graph) -> Format:
        """The graph in the engine's own form."""

    def to_symbolic(self, model: Format) -> Graph:
        """The graph of the engine's own form; FormatError where the format is write-only."""

    def save(self, model: Format, path: str | PathLike[str]) -> object:
        """Write a file, to a temporary name first; may give the paths written."""

    def load(self, path: str | PathLike[str]) -> Format:
        """Read a file."""


def __getattr__(name: str) -> Any:
    whole = f"{__name__}.{name}"
    try:
        if not name.startswith("_"):
            return import_module(whole)
    except ModuleNotFoundError as error:
        if error.name != whole:
            raise  # an engine, and what it needs is not there
    raise AttributeError(f"module {__name__!r} has no engine {name!r}")
