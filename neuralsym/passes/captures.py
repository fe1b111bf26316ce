"""What bodies take from the graph around them: stored values become their own, unused ones go.

A weight that a body holds itself can be folded into and packed once, like any other.
"""

from __future__ import annotations

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Constant, Weight
from neuralsym.core.op import Op
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import rebuild, renewed


def own_weights(graph: Graph) -> Graph:
    """Give bodies the weights and constants that they capture, and drop what they do not use."""
    return settle_captures(graph, (Weight, Constant))


def settle_captures(graph: Graph, own: tuple[type[Op], ...] = (Constant,)) -> Graph:
    """Give bodies the captured leaves of the kinds `own`; drop captures that they do not use."""
    new: dict[Symbol, Symbol] = {}
    for node in graph.nodes if graph.bodies else ():
        made = renewed(node, new)
        if node in graph.bodies:
            bodies = graph.bodies[node]
            if made is not node:
                bodies = {name: made.attrs[name] for name in bodies}
            made = _settled(made, bodies, own)
        if made is not node:
            new.update(zip(node.outputs, made.outputs, strict=True))
    return graph.rewired(new)


def _settled(node: Node, bodies: dict[str, Graph], own: tuple[type[Op], ...]) -> Node:
    count = len(node.captures)
    kept: list[int] = []
    for k, capture in enumerate(node.captures):
        if capture.node.op not in own and any(_is_used(b, k - count) for b in bodies.values()):
            kept.append(k)
    changed = dict(bodies)
    if len(kept) < count:
        for name, body in bodies.items():
            parameters = body.inputs[len(body.inputs) - count :]
            dropped = {
                p: c
                for k, (p, c) in enumerate(zip(parameters, node.captures, strict=True))
                if k not in kept
            }
            stored = {p: c for p, c in dropped.items() if c.node.op in own}
            changed[name] = body.replace(stored).without_inputs(set(dropped))
    inner = {name: settle_captures(body, own) for name, body in changed.items()}
    if all(inner[name] is body for name, body in bodies.items()):
        return node
    captures = tuple(node.captures[k] for k in kept)
    return rebuild(node, node.inputs, attrs={**node.attrs, **inner}, captures=captures)


def _is_used(body: Graph, index: int) -> bool:
    parameter = body.inputs[index]
    return bool(body.users[parameter]) or parameter in body.outputs
