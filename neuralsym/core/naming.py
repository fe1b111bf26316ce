"""Names, given when a Graph is made: the user's stay, the others count per kind in their scope."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from neuralsym.core.scope import Scope
from neuralsym.core.symbol import Node
from neuralsym.errors import GraphError, at_line


def assign_names(
    nodes: Sequence[Node], keep: dict[Node, str], taken: Iterable[str] = ()
) -> dict[Node, str]:
    """A unique name for each node, the same for the same graph.

    `keep` holds names that nodes have already; `taken` are names used elsewhere (a graph around
    a body). Raises GraphError when a user's name occurs twice.
    """
    namer = _Namer(set(taken))
    for node in nodes:
        for scope in node.scope.path() if node.scope else ():
            namer.reserve_scope(scope)
    names: dict[Node, str] = {}
    given: dict[str, Node] = {}
    for node in nodes:
        wanted = keep.get(node)
        if wanted is None and node.name is not None:
            wanted = namer.inside(node.scope, node.name)
        if wanted is None:
            continue
        if wanted in given:
            raise GraphError(
                f"the name {wanted!r} is given twice: to {given[wanted].op_type} and to "
                f"{node.op_type}; names are unique in a graph"
                f"{at_line(given[wanted].where)}{at_line(node.where)}"
            )
        given[wanted] = node
        names[node] = wanted
    namer.used |= set(given)
    for node in nodes:
        if node not in names:
            own = node.scope
            if own is not None and own.result is node:
                names[node] = namer.claim(namer.of(own))
            else:
                names[node] = namer.count(namer.inside(own, node.op.function))
    for node in nodes:
        node.label = names[node]
    return {node: names[node] for node in nodes}


class _Namer:
    """The names of scopes, settled in order of first use."""

    def __init__(self, used: set[str]) -> None:
        self.used = used
        self.scopes: dict[Scope, str] = {}
        self.taken_scopes: set[str] = set()
        self.counts: dict[str, int] = {}

    def reserve_scope(self, scope: Scope) -> None:
        """Settle user-named scopes first, so that counting steps around them."""
        if scope.name is not None:
            path = list(scope.path())
            if all(s.name is not None for s in path):
                full = "/".join(str(s.name) for s in path)
                self.scopes[scope] = full
                self.taken_scopes.add(full)

    def of(self, scope: Scope) -> str:
        """The full name of a scope."""
        for part in scope.path():
            if part in self.scopes:
                continue
            parent = self.scopes[part.parent] if part.parent else ""
            base = f"{parent}/{part.name or part.kind}" if parent else part.name or part.kind
            full, n = base, 0
            while part.name is None and full in self.taken_scopes:
                n += 1
                full = f"{base}_{n}"
            self.scopes[part] = full
            self.taken_scopes.add(full)
        return self.scopes[scope]

    def inside(self, scope: Scope | None, name: str) -> str:
        return f"{self.of(scope)}/{name}" if scope else name

    def claim(self, name: str) -> str:
        return self.count(name) if name in self.used else self._use(name)

    def count(self, base: str) -> str:
        n = self.counts.get(base, 0)
        while (full := f"{base}_{n}" if n else base) in self.used or full in self.taken_scopes:
            n += 1
        self.counts[base] = n + 1
        return self._use(full)

    def _use(self, name: str) -> str:
        self.used.add(name)
        return name
