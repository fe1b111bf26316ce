"""Running single operators through the compiler, for the tests of the kernels."""

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


def fed(name: str, array: Any, shape: Sequence[int | str] | None = None) -> Symbol:
    """A variable for an array, of its shape unless another (symbolic) one is given."""
    value = np.asarray(array)
    return variable(name, value.shape if shape is None else tuple(shape), value.dtype)


def compiled(outputs: Symbol | Sequence[Symbol], threads: int = 1) -> Cell:
    """The cell of a graph with these outputs."""
    symbols = [outputs] if isinstance(outputs, Symbol) else list(outputs)
    return compile_graph(Graph(symbols), Options(threads=threads))


def computed(cell: Cell, feeds: Mapping[str, Any]) -> list[np.ndarray]:
    """The outputs of a run, copied."""
    instance = cell.instance()
    for name, value in feeds.items():
        instance[name] = value
    instance.compute()
    return [np.array(instance[name]) for name in cell.program.outputs]


def run(
    outputs: Symbol | Sequence[Symbol],
    feeds: Mapping[str, Any],
    threads: int = 1,
    kernel: str | None = None,
) -> Any:
    """What a graph computes: one array, or a list of them for a sequence of outputs.

    kernel: the name that the last step's kernel must have.
    """
    cell = compiled(outputs, threads)
    if kernel is not None:
        assert kernel in kernels(cell), kernels(cell)
    made = computed(cell, feeds)
    return made[0] if isinstance(outputs, Symbol) else made


def kernels(cell: Cell) -> list[str]:
    """The names of the kernels that run a program's steps."""
    return [step.kernel.name for step in cell.program.steps if step.kernel is not None]


def assert_compiled(cell: Cell) -> None:
    """AssertionError that names the operators of the steps that run in Python."""
    hosts = [s.op.__name__ for s in cell.program.steps if isinstance(s.kernel, HostKernel)]
    assert not hosts, hosts


def filled(shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
    """1, 2, 3, ... in a shape; as bool, true and false in turn."""
    values = np.arange(1, int(np.prod(shape)) + 1).reshape(tuple(shape))
    return (values % 2 if dtype == "bool" else values).astype(dtype)
