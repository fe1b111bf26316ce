"""The nodes of a file in an order in which they can be made, and only those that are needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from onnx import AttributeProto, GraphProto, NodeProto

from neuralsym.errors import GraphError

GRADIENT = ("ai.onnx.preview.training", "Gradient")


def arrange(
    nodes: Sequence[NodeProto], wanted: Iterable[str], given: set[str], label: str
) -> list[int]:
    """The numbers of the nodes behind `wanted`, each after those whose results it uses.

    `given` are the names that the graph has without any node. Raises GraphError for a name that
    two nodes give, or for nodes that wait for one another.
    """
    makers: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.output:
            if not name:
                continue
            if name in makers or name in given:
                other = describe(nodes[makers[name]], makers[name]) if name in makers else "a leaf"
                raise GraphError(
                    f"{label}: the name {name!r} is given twice, by {other} and by "
                    f"{describe(node, i)}; names are unique in a graph"
                )
            makers[name] = i
    needs = [sorted({makers[n] for n in used_names(node) if n in makers}) for node in nodes]
    order: Sequence[int] = range(len(nodes))
    if any(need and need[-1] >= i for i, need in enumerate(needs)):
        order = _sorted(nodes, needs, label)
    live = _behind([makers[n] for n in wanted if n in makers], needs)
    return [i for i in order if i in live]


def _sorted(nodes: Sequence[NodeProto], needs: list[list[int]], label: str) -> list[int]:
    """A topological order that keeps to the file's where it can."""
    users: list[list[int]] = [[] for _ in nodes]
    missing = [len(need) for need in needs]
    for i, need in enumerate(needs):
        for j in need:
            users[j].append(i)
    ready = [i for i, n in enumerate(missing) if n == 0]
    heapify(ready)
    order: list[int] = []
    while ready:
        i = heappop(ready)
        order.append(i)
        for user in users[i]:
            missing[user] -= 1
            if missing[user] == 0:
                heappush(ready, user)
    if len(order) < len(nodes):
        done = set(order)
        i = next(i for i in range(len(nodes)) if i not in done)
        seen: set[int] = set()
        while i not in seen:  # some node on the circle, not only one that waits for it
            seen.add(i)
            i = next(j for j in needs[i] if j not in done)
        raise GraphError(f"{label}: {describe(nodes[i], i)} depends on itself: the graph is cyclic")
    return order


def _behind(roots: list[int], needs: list[list[int]]) -> set[int]:
    live: set[int] = set()
    while roots:
        i = roots.pop()
        if i not in live:
            live.add(i)
            roots.extend(needs[i])
    return live


def describe(node: NodeProto, number: int) -> str:
    """`node 3 (Conv 'stem')`, counted from 1."""
    name = f" {node.name!r}" if node.name else ""
    return f"node {number + 1} ({node.op_type}{name})"


def used_names(node: NodeProto) -> set[str]:
    """The names that a node reads, those that its bodies read outside of themselves included.

    Gradient names in attributes what it differentiates.
    """
    found = set(node.input)
    for attribute in node.attribute:
        if (node.domain, node.op_type) == GRADIENT:
            found.update(text.decode("utf-8", "surrogateescape") for text in attribute.strings)
            found.add(attribute.s.decode("utf-8", "surrogateescape"))
        for graph in bodies_of(attribute):
            found |= free_names(graph)
    found.discard("")
    return found


def bodies_of(attribute: AttributeProto) -> list[GraphProto]:
    if attribute.type == AttributeProto.GRAPH or attribute.HasField("g"):
        return [attribute.g]
    return list(attribute.graphs)


def free_names(graph: GraphProto) -> set[str]:
    """The names that a body reads from the graphs around it."""
    own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    own |= {t.values.name for t in graph.sparse_initializer}
    used = {v.name for v in graph.output}
    for node in graph.node:
        own.update(node.output)
        used |= used_names(node)
    return used - own
