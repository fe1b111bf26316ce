"""Engines: one module for each format that a graph is turned into or read from."""

from __future__ import annotations

from os import PathLike
from typing import Protocol, TypeVar

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
