"""Deferred parts of a graph: compiled for the ranks of what comes, then run like any body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralsym.core.body import refitted
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import OWN
from neuralsym.core.locks import Lock
from neuralsym.core.types import TensorType, Type
from neuralsym.cpu.defer import Deferred, ranked
from neuralsym.cpu.kernels.control import Pool
from neuralsym.cpu.kernels.host import HostKernel
from neuralsym.cpu.library import Library
from neuralsym.cpu.program import Step

if TYPE_CHECKING:
    from neuralsym.cpu.runtime import Cell


class DeferredKernel(HostKernel):
    """Compiles the part once for each combination of ranks, and runs it."""

    name = "deferred"

    def adjust(self, step: Step) -> None:
        step.notes["parts"] = Parts(step.attrs["body"], step.notes["compile"])

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        parts: Parts = step.notes["parts"]
        types = []
        for index, (symbol, value) in enumerate(zip(parts.body.inputs, values, strict=True)):
            shape = np.shape(value) if isinstance(symbol.type, TensorType) else ()
            length = index in step.attrs["lengths"]
            types.append(ranked(symbol.type, shape, index, length=length))
        return parts.pool(tuple(types)).run(values)


class Parts:
    """The cells of one part, by the types of its inputs."""

    def __init__(self, body: Graph, compile_body: Callable[[Graph], Cell]) -> None:
        self.body = body
        self._compile = compile_body
        self._pools: dict[tuple[Type, ...], Pool] = {}
        self._lock = Lock()

    def pool(self, types: tuple[Type, ...]) -> Pool:
        """The pool of instances for inputs of these types."""
        with self._lock:
            found = self._pools.get(types)
            if found is None:
                graph = refitted(self.body, types, ())
                found = self._pools[types] = Pool(self._compile(graph))
        return found


def register(library: Library) -> None:
    """Enter the kernel of this module."""
    library.kernel(Deferred.__name__, domain=OWN)(DeferredKernel)
