"""Control flow that a graph settles by itself: branches taken for certain, results nobody uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from neuralsym.core.check import agree
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Variable
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import renewed
from neuralsym.rewrite.driver import use_counts


def inline_branches(graph: Graph) -> Graph:
    """Put the branch of each If whose condition is known in its place, bodies included."""
    if not graph.bodies:
        return graph
    graph = graph.map_bodies(inline_branches)
    new: dict[Symbol, Symbol] = {}
    for node in graph.nodes:
        made = renewed(node, new)
        body = _certain(made, graph.bodies.get(node, {}))
        outputs = None if body is None else _inlined(made, body)
        if outputs is None and made is not node:
            outputs = made.outputs
        new.update(zip(node.outputs, outputs or (), strict=False))
    return graph.rewired(new)


def _certain(node: Node, bodies: Mapping[str, Graph]) -> Graph | None:
    """The branch that an If takes in every run, with names that are unique in the graph."""
    if node.op_type != "If" or node.op.domain or node.inputs[0] is None:
        return None
    known = node.inputs[0].known
    if known is None or known.dtype != bool or known.size != 1:
        return None
    body = bodies["then_branch" if known.reshape(()) else "else_branch"]
    return body if len(body.inputs) == len(node.captures) and not body.updates else None


def _inlined(node: Node, body: Graph) -> Sequence[Symbol] | None:
    """What the body gives of the node's captures; its values keep their names."""
    new = dict(zip(body.inputs, node.captures, strict=True))
    for inner in body.nodes:
        if inner.op is Variable:
            continue
        made = renewed(inner, new)
        named = copied(made, made.outputs, name=body.names[inner])
        new.update(zip(inner.outputs, named.outputs, strict=True))
    made_outputs = [new.get(s, s) for s in body.outputs]
    fits = all(agree(a.type, b.type) for a, b in zip(node.outputs, made_outputs, strict=True))
    return made_outputs if fits else None


def copied(node: Node, outputs: Sequence[Symbol], **changed: Any) -> Node:
    """The node with some of its outputs, and with another name or other attributes."""
    given = {"name": node.name, "scope": None if "name" in changed else node.scope, **changed}
    return Node(
        node.op,
        node.inputs,
        given.pop("attrs", node.attrs),
        tuple(s.type for s in outputs),
        known=tuple(s.known for s in outputs),
        where=node.where,
        captures=node.captures,
        **given,
    )


def drop_body_results(graph: Graph) -> Graph:
    """Drop what bodies compute and nobody uses: results of If, and items that Loop and Scan stack.

    The final states of loops stay: the next trip may need them. Of several results one stays.
    """
    if not graph.bodies:
        return graph
    graph = graph.map_bodies(drop_body_results)
    uses = use_counts(graph)
    new: dict[Symbol, Symbol] = {}
    for node in graph.nodes:
        made = renewed(node, new)
        kept = _kept(node, uses) if node in graph.bodies else None
        if kept is not None:
            made = _with_results(made, kept)
            new.update((node.outputs[k], s) for k, s in zip(kept, made.outputs, strict=True))
        elif made is not node:
            new.update(zip(node.outputs, made.outputs, strict=True))
    return graph.rewired(new)


def _kept(node: Node, uses: Mapping[Symbol, int]) -> list[int] | None:
    """The outputs that stay; None if that is all, or if it is another kind of operator."""
    if node.op.domain or node.op_type not in ("If", "Loop", "Scan"):
        return None
    states = _states(node)
    kept = [i for i, s in enumerate(node.outputs) if i < states or uses[s]]
    kept = kept or [0]
    return kept if len(kept) < len(node.outputs) else None


def _states(node: Node) -> int:
    """How many of the outputs are states that go from trip to trip."""
    if node.op_type == "Loop":
        return len(node.inputs) - 2
    return len(node.inputs) - int(node.attrs["num_scan_inputs"]) if node.op_type == "Scan" else 0


def _with_results(node: Node, kept: list[int]) -> Node:
    states = _states(node)
    first = 1 if node.op_type == "Loop" else 0  # the body of a loop gives its condition first
    attrs: dict[str, Any] = dict(node.attrs)
    for name in node.op.body_attributes:
        if name in attrs:
            attrs[name] = _selected(attrs[name], [*range(first), *(first + k for k in kept)])
    for name in ("scan_output_axes", "scan_output_directions"):
        if attrs.get(name):
            attrs[name] = tuple(attrs[name][k - states] for k in kept if k >= states)
    return copied(node, [node.outputs[k] for k in kept], attrs=attrs)


def _selected(body: Graph, kept: list[int]) -> Graph:
    """The body with some of its results."""
    return Graph(
        [body.outputs[k] for k in kept],
        body.inputs,
        body.name,
        body.updates,
        keep=body.names,
        output_names=[body.output_names[k] for k in kept],
    )
