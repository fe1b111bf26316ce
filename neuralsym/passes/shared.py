"""Common subexpressions of a body and the graph around it: captured, not computed again.

What a body computes of captured values and constants alone, and a node before it computes as well,
becomes one more capture: a loop would have computed it in every trip.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Variable, make_variable
from neuralsym.core.naming import Kept
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import LEAVES, rebuild, renewed
from neuralsym.passes.cse import key_of


def share_with_bodies(graph: Graph) -> Graph:
    """Have bodies take from around what is computed there already, those in bodies included."""
    if not graph.bodies:
        return graph
    graph = graph.map_bodies(share_with_bodies)  # inner ones first: they pass it on
    seen: dict[Hashable, tuple[Symbol, ...]] = {}
    for node in graph.nodes:
        key = key_of(node, node.inputs)
        if key is not None:
            seen.setdefault(key, node.outputs)
    shared = {n: _found(n, bodies, seen) for n, bodies in graph.bodies.items()}
    if not any(each for found in shared.values() for each in found.values()):
        return graph
    return _rebuilt(graph, shared)


Found = Mapping[str, Mapping[Symbol, Symbol]]
"""For each body, its values that the graph around computes, each with that."""


def _found(
    node: Node, bodies: Mapping[str, Graph], seen: Mapping[Hashable, tuple[Symbol, ...]]
) -> Found:
    return {name: _known_outside(body, node, seen) for name, body in bodies.items()}


def _rebuilt(graph: Graph, shared: Mapping[Node, Found]) -> Graph:
    """The graph whose bodies capture what they share, which may stand behind them in it so far.

    It depends on nothing but their captures, and so never on the node of a body itself.
    """
    new: dict[Symbol, Symbol] = {}
    done: set[Node] = set()
    for last in graph.nodes:
        stack = [last]
        while stack:
            node = stack[-1]
            found = shared.get(node, {})
            needed = [*node.operands, *(o for each in found.values() for o in each.values())]
            waiting = [s.node for s in needed if s.node not in done]
            if node not in done and waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            if node in done:
                continue
            done.add(node)
            made = renewed(node, new)
            same = all(made.attrs[name] is node.attrs[name] for name in found)
            if same and any(found.values()):
                made = _sharing(made, graph.bodies[node], found, new)
            if made is not node:
                new.update(zip(node.outputs, made.outputs, strict=True))
    return graph.rewired(new)


def _sharing(
    node: Node, bodies: Mapping[str, Graph], found: Found, new: Mapping[Symbol, Symbol]
) -> Node:
    """The node with what its bodies have in common with the graph around as captures."""
    outside = {
        name: {s: new.get(o, o) for s, o in shared.items()} for name, shared in found.items()
    }
    captured = dict.fromkeys(s for each in outside.values() for s in each.values())
    captures = (*node.captures, *(s for s in captured if s not in node.captures))
    attrs = dict(node.attrs)
    for name, body in bodies.items():
        attrs[name] = _capturing(body, outside[name], captures, len(node.captures))
    return rebuild(node, node.inputs, attrs=attrs, captures=captures)


def _known_outside(
    body: Graph, node: Node, seen: Mapping[Hashable, tuple[Symbol, ...]]
) -> dict[Symbol, Symbol]:
    """Values of the body that are computed outside, each with that, which others of it use."""
    count = len(node.captures)
    parameters = body.inputs[len(body.inputs) - count :] if count else ()
    outer: dict[Symbol, Symbol] = dict(zip(parameters, node.captures, strict=True))
    shared: dict[Symbol, Symbol] = {}
    for inner in body.nodes:
        if inner.op is Variable or inner.captures:
            continue
        inputs = tuple(None if s is None else outer.get(s) for s in inner.inputs)
        if any(a is None and b is not None for a, b in zip(inputs, inner.inputs, strict=True)):
            continue
        key = key_of(inner, inputs)
        outputs = None if key is None else seen.get(key)
        if outputs is None:
            continue
        pairs = list(zip(inner.outputs, outputs, strict=True))
        outer.update(pairs)
        if inner.op not in LEAVES:
            shared.update(pairs)
    used = {s for n in body.nodes if n.outputs[0] not in shared for s in n.operands}
    return {s: o for s, o in shared.items() if s in used or s in body.outputs}


def _capturing(
    body: Graph, shared: Mapping[Symbol, Symbol], captures: tuple[Symbol, ...], before: int
) -> Graph:
    """The body with a parameter for each further capture, in the place of what it computed."""
    parameters = {s: make_variable(None, s.type) for s in captures[before:]}
    own = dict(zip(captures[:before], body.inputs[len(body.inputs) - before :], strict=True))
    new = {s: parameters[o] if o in parameters else own[o] for s, o in shared.items()}
    for node in body.nodes:
        if all(s in new for s in node.outputs):
            continue
        made = renewed(node, new)
        if made is not node:
            new.update(
                (old, s)
                for old, s in zip(node.outputs, made.outputs, strict=True)
                if old not in shared
            )
    return Graph(
        [new.get(s, s) for s in body.outputs],
        [*body.inputs, *parameters.values()],
        body.name,
        body.updates,
        keep=Kept(body.names, {}, body.scope_names),
        output_names=body.output_names,
    )
