"""A graph as plain rows and back: what pickling and copying use, without recursion along chains."""

from __future__ import annotations

from typing import Any, NamedTuple

from neuralsym.core.graph import Graph
from neuralsym.core.naming import Kept
from neuralsym.core.op import Op
from neuralsym.core.scope import Scope
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Type
from neuralsym.errors import Where

Reference = tuple[int, int]
"""A symbol: the row of its node, and the index of the output."""


class NodeRow(NamedTuple):
    """One node; symbols are references to earlier rows, its scope is a row of the scopes."""

    op: type[Op]
    inputs: tuple[Reference | None, ...]
    captures: tuple[Reference, ...]
    attrs: dict[str, Any]
    types: tuple[Type, ...]
    known: tuple[Any, ...]
    user_name: str | None
    name: str
    scope: int | None
    where: Where | None


class ScopeRow(NamedTuple):
    """One scope: its parent's row, its full name, and the row of the node that bears its name."""

    kind: str
    user_name: str | None
    name: str | None
    parent: int | None
    result: int | None


class Dump(NamedTuple):
    """A whole graph."""

    name: str
    nodes: tuple[NodeRow, ...]
    scopes: tuple[ScopeRow, ...]
    inputs: tuple[Reference, ...]
    outputs: tuple[Reference, ...]
    output_names: tuple[str, ...]
    updates: tuple[tuple[Reference, Reference], ...]


def dump_graph(graph: Graph) -> Dump:
    """The rows of a graph. Tensors are in them as they are: pickling draws lazy ones."""
    index = {node: i for i, node in enumerate(graph.nodes)}
    scopes: dict[Scope, int] = {}
    for node in graph.nodes:
        for scope in node.scope.path() if node.scope and node.scope not in scopes else ():
            scopes.setdefault(scope, len(scopes))

    def refer(symbol: Symbol) -> Reference:
        return index[symbol.node], symbol.index

    rows = tuple(
        NodeRow(
            op=node.op,
            inputs=tuple(None if s is None else refer(s) for s in node.inputs),
            captures=tuple(map(refer, node.captures)),
            attrs={**node.attrs, **graph.bodies.get(node, {})},
            types=tuple(s.type for s in node.outputs),
            known=tuple(s._known for s in node.outputs),
            user_name=node.name,
            name=graph.names[node],
            scope=scopes[node.scope] if node.scope else None,
            where=node.where,
        )
        for node in graph.nodes
    )
    return Dump(
        graph.name,
        rows,
        tuple(
            ScopeRow(
                kind=scope.kind,
                user_name=scope.name,
                name=graph.scope_names.get(scope),
                parent=scopes[scope.parent] if scope.parent else None,
                result=index.get(scope.result) if scope.result else None,
            )
            for scope in scopes
        ),
        tuple(map(refer, graph.inputs)),
        tuple(map(refer, graph.outputs)),
        graph.output_names,
        tuple((refer(a), refer(b)) for a, b in graph.updates.items()),
    )


def restore_graph(dump: Dump) -> Graph:
    """The graph of some rows, of new nodes."""
    scopes: list[Scope] = []
    for row in dump.scopes:
        parent = None if row.parent is None else scopes[row.parent]
        scopes.append(Scope(row.kind, row.user_name, parent))
    nodes: list[Node] = []

    def find(reference: Reference) -> Symbol:
        return nodes[reference[0]].outputs[reference[1]]

    for made in dump.nodes:
        node = Node(
            made.op,
            tuple(None if r is None else find(r) for r in made.inputs),
            {k: v.copy() if isinstance(v, Graph) else v for k, v in made.attrs.items()},
            made.types,
            known=made.known,
            name=made.user_name,
            scope=None if made.scope is None else scopes[made.scope],
            where=made.where,
            captures=tuple(map(find, made.captures)),
        )
        nodes.append(node)
    for scope, row in zip(scopes, dump.scopes, strict=True):
        scope.result = None if row.result is None else nodes[row.result]
    names = {node: row.name for node, row in zip(nodes, dump.nodes, strict=True)}
    scope_names = {
        scope: row.name for scope, row in zip(scopes, dump.scopes, strict=True) if row.name
    }
    return Graph(
        list(map(find, dump.outputs)),
        list(map(find, dump.inputs)),
        dump.name,
        {find(a): find(b) for a, b in dump.updates},
        keep=Kept(names, {}, scope_names),
        output_names=dump.output_names,
    )
