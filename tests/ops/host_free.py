"""Running symbols through the compiler where no step may be Python: for tests of operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.core.symbol import Symbol
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.kernels.host import HostKernel
from neuralsym.cpu.options import Options
from neuralsym.cpu.runtime import Cell


def fed(arrays: Mapping[str, Any], shapes: Mapping[str, Sequence[Any]] | None = None) -> list[Any]:
    """A variable for each array, of its shape unless another (symbolic) one is given."""
    return [
        variable(name, tuple((shapes or {}).get(name, array.shape)), array.dtype)
        for name, array in arrays.items()
    ]


def host_steps(cell: Cell) -> list[str]:
    """The operators of a program that run in Python."""
    steps = cell.program.steps
    return [step.op.__name__ for step in steps if isinstance(step.kernel, HostKernel)]


def run(outputs: Symbol | Sequence[Symbol], feeds: Mapping[str, Any], threads: int = 1) -> Any:
    """The values of one symbol, or of several as a list; AssertionError for a host step."""
    symbols = [outputs] if isinstance(outputs, Symbol) else list(outputs)
    named = {f"y{i}": symbol for i, symbol in enumerate(symbols)}
    cell = compile_graph(Graph(named), Options(threads=threads))
    assert not host_steps(cell), host_steps(cell)
    instance = cell.instance()
    for name, value in feeds.items():
        instance[name] = value
    instance.compute()
    made = [np.array(instance[name]) for name in named]
    return made[0] if isinstance(outputs, Symbol) else made
