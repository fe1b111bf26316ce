"""Operators written with others, in the place where no kernel runs them.

How is told by `ops.expand`: the operator's own expansion, or the body that ONNX gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from neuralsym.core.graph import Graph
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import LEAVES, rebuild
from neuralsym.errors import acting_for
from neuralsym.ops.expanded import expand, may_expand

__all__ = ["decompose", "expand", "may_expand"]


def decompose(graph: Graph, wanted: Callable[[Node], bool]) -> Graph:
    """The graph with the bodies of those nodes that `wanted` says, as far as they have any."""

    def change(node: Node, inputs: tuple[Symbol | None, ...]) -> Sequence[Symbol] | None:
        if node.op in LEAVES or not may_expand(node.op) or not wanted(node):
            return None
        with acting_for(node.where):
            found = expand(rebuild(node, inputs))
        expanded.extend(found or ())
        return found

    expanded: list[Symbol] = []
    made = graph.map(change)
    # A body may use operators that have bodies themselves, and may be a single one.
    return decompose(made, wanted) if expanded else made
