"""What nobody uses: trailing outputs that are optional. (A Graph holds no unused nodes.)"""

from __future__ import annotations

from neuralsym.core.graph import Graph
from neuralsym.core.symbol import Symbol
from neuralsym.core.traverse import LEAVES, renewed
from neuralsym.passes.bodies import copied
from neuralsym.rewrite.driver import use_counts


def drop_dead(graph: Graph) -> Graph:
    """Make the nodes without those of their optional outputs at the end that nothing uses."""
    graph = graph.map_bodies(drop_dead)
    uses = use_counts(graph)
    new: dict[Symbol, Symbol] = {}
    for node in graph.nodes:
        made = renewed(node, new)
        count = len(node.outputs)
        least = max(node.op.schema.minimum_outputs, 1)
        if node.op not in LEAVES and not node.op.body_attributes:
            while count > least and not uses[node.outputs[count - 1]]:
                count -= 1
        if count < len(node.outputs):
            made = copied(made, made.outputs[:count])
        if made is not node:
            new.update(zip(node.outputs[:count], made.outputs, strict=True))
    return graph.rewired(new)
