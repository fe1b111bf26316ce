"""Concatenations of concatenations: taken apart where one reading needs them, and nested where
two have a beginning in common, so that it lies in memory once.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.graph import Graph
from neuralsym.core.registry import apply
from neuralsym.core.scope import CURRENT
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import renewed

MOST_JOINED = 64
"""A concatenation takes up others as long as it has no more inputs: long chains stay linear."""


def flatten_concats(graph: Graph) -> Graph:
    """concat(concat(x, y), z) = concat(x, y, z) along the same axis, for inner ones used once."""
    graph = graph.map_bodies(flatten_concats)
    if not any(_is_concat(node) for node in graph.nodes):
        return graph
    results = {*graph.outputs, *graph.updates.values()}
    new: dict[Symbol, Symbol] = {}
    for node in graph.nodes:
        made = renewed(node, new)
        if _is_concat(node):
            parts = _flat(node, made, graph, results)
            if len(parts) > len(made.inputs):
                made = _joined(made, parts)
        if made is not node:
            new.update(zip(node.outputs, made.outputs, strict=True))
    return graph.rewired(new)


def _flat(node: Node, made: Node, graph: Graph, results: set[Symbol]) -> list[Symbol]:
    """What a concatenation joins, with inner ones that nothing else uses taken apart."""
    parts: list[Symbol] = []
    for old, symbol in zip(node.inputs, made.inputs, strict=True):
        assert old is not None and symbol is not None
        alone = old not in results and len(graph.users[old]) == 1 and node.inputs.count(old) == 1
        inner = symbol.node
        alike = _is_concat(inner) and _axis(inner) == _axis(made) is not None
        if alone and alike and len(inner.inputs) + len(made.inputs) <= MOST_JOINED:
            parts += [s for s in inner.inputs if s is not None]
        else:
            parts.append(symbol)
    return parts


def nest_prefixes(graph: Graph) -> Graph:
    """concat(x, y, z) = concat(concat(x, y), z), where concat(x, y) is computed before anyway.

    Layers that each read all that came before them, as in a dense block, then share one buffer,
    which every new part is written to the end of.
    """
    graph = graph.map_bodies(nest_prefixes)
    if sum(_is_concat(node) for node in graph.nodes) < 2:
        return graph
    new: dict[Symbol, Symbol] = {}
    seen: dict[tuple[int, tuple[Symbol | None, ...]], Symbol] = {}
    lengths: set[int] = set()
    for node in graph.nodes:
        made = renewed(node, new)
        axis = _axis(node) if _is_concat(node) else None
        if axis is not None:
            for length in sorted(lengths, reverse=True):
                known = seen.get((axis, node.inputs[:length]))
                if known is not None and length < len(node.inputs):
                    rest = [s for s in made.inputs[length:] if s is not None]
                    made = _joined(made, [new.get(known, known), *rest])
                    break
            if len(node.inputs) <= MOST_JOINED:
                seen.setdefault((axis, node.inputs), node.outputs[0])
                lengths.add(len(node.inputs))
        if made is not node:
            new.update(zip(node.outputs, made.outputs, strict=True))
    return graph.rewired(new)


def _joined(node: Node, parts: Sequence[Symbol]) -> Node:
    """The same concatenation of other parts."""
    token = CURRENT.set(node.scope)
    try:
        return apply(node.op, parts, node.attrs, where=node.where)[0].node
    finally:
        CURRENT.reset(token)


def _is_concat(node: Node) -> bool:
    return node.op_type == "Concat" and not node.op.domain


def _axis(node: Node) -> int | None:
    rank = node.outputs[0].rank
    return node.attr("axis") % rank if rank else None
