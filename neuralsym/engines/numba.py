"""The compiling engine: a graph becomes a Cell of machine code, made by Numba's LLVM."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, NoReturn

from neuralsym.core.graph import Graph
from neuralsym.errors import FormatError

if TYPE_CHECKING:
    from neuralsym.cpu.library import Library
    from neuralsym.cpu.options import Options
    from neuralsym.cpu.runtime import Cell


def of_symbolic(
    graph: Graph, options: Options | None = None, library: Library | None = None
) -> Cell:
    """The graph compiled: `cell.instance()` makes the memory of a run."""
    from neuralsym.cpu.compiler import compile_graph

    return compile_graph(graph, options, library)


def to_symbolic(model: Cell) -> NoReturn:
    """FormatError: machine code has no way back."""
    raise FormatError("compiled code cannot be turned back into a graph; keep the Graph")


def save(model: Cell, path: str | PathLike[str]) -> NoReturn:
    """FormatError: compiled kernels are kept by the object store, networks by engines.onnx."""
    raise FormatError(
        f"{path}: compiled code is not saved (kernels are cached by themselves); "
        "save the graph with engines.onnx.save"
    )


def load(path: str | PathLike[str]) -> NoReturn:
    """FormatError, for the same reason."""
    raise FormatError(f"{path}: compiled code is not loaded; load an .onnx file and compile it")
