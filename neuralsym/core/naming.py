"""Names, given when a Graph is made: the user's stay, the others count per kind in their scope."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from neuralsym.core.scope import Scope
from neuralsym.core.symbol import Node, Symbol, output_name, set_label
from neuralsym.errors import GraphError, at_line


@dataclass(frozen=True)
class Kept:
    """Names that are settled before a Graph is made.

    `names` are certain; `wanted` are given to their nodes if they are still free; `scopes` are
    names of scopes; `taken` are used elsewhere, by the graph around a body.
    """

    names: Mapping[Node, str] = field(default_factory=dict)
    wanted: Mapping[Node, str] = field(default_factory=dict)
    scopes: Mapping[Scope, str] = field(default_factory=dict)
    taken: Set[str] = frozenset()


@dataclass(frozen=True)
class Naming:
    """The names of nodes and scopes, and of the outputs that are called otherwise than their node.

    `values` holds every name that a value has.
    """

    names: dict[Node, str]
    scopes: dict[Scope, str]
    aliases: tuple[str | None, ...]
    values: set[str]


def assign_names(
    nodes: Sequence[Node],
    outputs: Sequence[Symbol] = (),
    aliases: Sequence[str | None] = (),
    kept: Kept | None = None,
) -> Naming:
    """A unique name for each node and value, the same for the same graph.

    Raises GraphError when a user's name occurs twice. A name that the graph around a body has
    already is counted on instead, since one function may be the body of many nodes.
    """
    return _Namer(kept or Kept(), outputs, aliases).run(nodes)


class _Namer:
    """The state of one naming."""

    def __init__(self, kept: Kept, outputs: Sequence[Symbol], aliases: Sequence[str | None]):
        self.kept = kept
        self.outputs = outputs
        self.used: dict[str, Node | None] = dict.fromkeys(kept.taken)
        # What is counted on beside a graph around must not meet a name that is still to be given.
        self.coming = set(kept.names.values()) if kept.taken else set[str]()
        self.names: dict[Node, str] = {}
        self.scopes: dict[Scope, str] = dict(kept.scopes)
        self.scope_names: set[str] = set(self.scopes.values())
        self.counts: dict[str, int] = {}
        self.scope_counts: dict[str, int] = {}
        self.owners: dict[str, Node | None] = {}
        self.aliases = self._alias(aliases or (None,) * len(outputs))

    def _alias(self, aliases: Sequence[str | None]) -> list[str | None]:
        made: list[str | None] = []
        for symbol, alias in zip(self.outputs, aliases, strict=True):
            if alias is not None:
                if alias in self.owners:
                    raise GraphError(f"two outputs are called {alias!r}")
                if alias in self.kept.taken:
                    alias = self.count(alias)
                self.owners[alias] = symbol.node if symbol.index == 0 else None
            made.append(alias)
        return made

    def run(self, nodes: Sequence[Node]) -> Naming:
        self._reserve_scopes(nodes)
        for node in nodes:
            self._settle(node)
        rest = [node for node in nodes if node not in self.names]
        # What nodes want comes before what is counted, whatever their order.
        for node in rest:
            name = self.kept.wanted.get(node)
            if name is not None and self._free(name, node):
                self._give(node, name)
        for node in rest:
            if node not in self.names:
                self._give(node, self._counted(node))
        for node in nodes:
            set_label(node, self.names[node])
        aliases = self._distinct_outputs()
        ordered = {node: self.names[node] for node in nodes}
        values = ({*self.used} - self.kept.taken) | {*self.owners}
        return Naming(ordered, self.scopes, aliases, values)

    def _settle(self, node: Node) -> None:
        """Give a name that is certain: one kept, or the user's."""
        name = self.kept.names.get(node)
        if name is None and node.name is not None and node not in self.kept.wanted:
            name = self._inside(node.scope, node.name)
        if name is None and node not in self.kept.wanted and _named_result(node):
            assert node.scope is not None
            name = self.of(node.scope)
        if name is None:
            return
        if name in self.kept.taken:
            name = self.count(name)
        elif name in self.used:
            other = self.used[name]
            assert other is not None
            raise GraphError(
                f"the name {name!r} is given twice: to {other.op_type} and to {node.op_type}; "
                f"names are unique in a graph{at_line(other.where)}{at_line(node.where)}"
            )
        elif self.owners.get(name, node) is not node:
            raise GraphError(
                f"output {name!r} has the name of another node, of {node.op_type}; choose one of "
                f"the two anew{at_line(node.where)}"
            )
        self._give(node, name)

    def _counted(self, node: Node) -> str:
        own = node.scope
        if own is not None and own.result is node:
            name = self.of(own)
            return name if self._free(name, node) else self.count(name)
        base = self._inside(own, node.op.function)
        if base not in self.counts and self._free(base, node) and base not in self.scope_names:
            self.counts[base] = 1
            return base
        return self.count(base)

    def _give(self, node: Node, name: str) -> None:
        self.names[node] = name
        self.used[name] = node
        for symbol in node.outputs[1:]:
            self.used[output_name(name, symbol.index)] = node

    def _free(self, name: str, node: Node) -> bool:
        return name not in self.used and self.owners.get(name, node) is node

    def count(self, base: str) -> str:
        """The first of base, base_1, base_2, ... that nothing has."""
        n = self.counts.get(base, 0)
        while True:
            name = f"{base}_{n}" if n else base
            n += 1
            if not (name in self.used or name in self.owners or name in self.scope_names) and (
                name not in self.coming
            ):
                break
        self.counts[base] = n
        return name

    def _distinct_outputs(self) -> tuple[str | None, ...]:
        """An alias only where an output is not called as its node; a value given twice counts."""
        seen: set[str] = set()
        for i, (symbol, alias) in enumerate(zip(self.outputs, self.aliases, strict=True)):
            own = output_name(self.names[symbol.node], symbol.index)
            name = alias or own
            if name in seen:
                name = self.count(name)
                self.used[name] = symbol.node
            seen.add(name)
            self.aliases[i] = None if name == own else name
        return tuple(self.aliases)

    # -- scopes ----------------------------------------------------------------------------
    def _reserve_scopes(self, nodes: Iterable[Node]) -> None:
        """Settle the scopes that the user named first, so that counting steps around them."""
        for scope in dict.fromkeys(node.scope for node in nodes):
            parts: list[str] = []
            for part in scope.path() if scope else ():
                if part.name is None:
                    break
                parts.append(part.name)
                if part not in self.scopes:
                    self.scopes[part] = "/".join(parts)
                    self.scope_names.add(self.scopes[part])

    def of(self, scope: Scope) -> str:
        """The full name of a scope."""
        if scope in self.scopes:
            return self.scopes[scope]
        for part in scope.path():
            if part in self.scopes:
                continue
            base = part.name or part.kind
            if part.parent is not None:
                base = f"{self.scopes[part.parent]}/{base}"
            name, n = base, self.scope_counts.get(base, 0)
            if part.name is None:
                while (name := f"{base}_{n}" if n else base) in self.scope_names or (
                    name in self.used or name in self.owners
                ):
                    n += 1
                self.scope_counts[base] = n + 1
            self.scopes[part] = name
            self.scope_names.add(name)
        return self.scopes[scope]

    def _inside(self, scope: Scope | None, name: str) -> str:
        return f"{self.of(scope)}/{name}" if scope else name


def _named_result(node: Node) -> bool:
    return node.scope is not None and node.scope.result is node and node.scope.name is not None
