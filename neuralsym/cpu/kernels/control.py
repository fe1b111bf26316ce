"""Control flow as host steps that run compiled bodies: If, Loop, Scan and SequenceMap.

A body is compiled once, as a cell of its own; each turn takes an instance of it from a pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralsym.core.graph import Graph
from neuralsym.cpu.kernels.host import HostKernel
from neuralsym.cpu.library import Library
from neuralsym.cpu.program import Step

if TYPE_CHECKING:
    from neuralsym.cpu.instance import Instance
    from neuralsym.cpu.runtime import Cell

OPERATORS = ("If", "Loop", "Scan", "SequenceMap")


class ControlKernel(HostKernel):
    """The operator's own walk, with compiled bodies in the place of interpreted ones."""

    name = "control"

    def supports(self, step: Step) -> bool | str:
        return step.node is not None or "it stands for no node"

    def adjust(self, step: Step) -> None:
        """Make the pools of instances of the bodies, which lowering has compiled."""
        step.notes["pools"] = {
            id(graph): Pool(step.notes[name])
            for name, graph in step.attrs.items()
            if isinstance(graph, Graph)
        }

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        from neuralsym.ops.evaluate import settled
        from neuralsym.ops.evaluate_bodies import BODIES

        node = step.node
        assert node is not None
        pools: dict[int, Pool] = step.notes["pools"]

        def run(body: Graph, given: Sequence[Any]) -> list[Any]:
            return pools[id(body)].run(given)

        count = len(step.inputs)
        made = BODIES[step.op.__name__](node, values[:count], values[count:], run)
        return [settled(v, s.type) for v, s in zip(made, node.outputs, strict=True)]


class Pool:
    """Instances of one body, taken for a run and given back."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.free: list[Instance] = []

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs of the body for values of its parameters, as fresh arrays."""
        try:
            instance = self.free.pop()
        except IndexError:
            instance = self.cell.instance()
        program = self.cell.program
        for name, value in zip(program.inputs, values, strict=True):
            instance[name] = value
        instance.compute()
        found = [instance[name] for name in program.outputs]
        results = [np.array(v) if isinstance(v, np.ndarray) else v for v in found]
        instance.clear()
        self.free.append(instance)
        return results


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    for op in OPERATORS:
        library.kernel(op)(ControlKernel)
