"""Graphs: a snapshot of the nodes behind some outputs, in order, with names.

A Graph never changes. `map`, `replace`, `rename` and `subgraph` give new ones that keep the names
of what they keep. Everything is iterative: depth is no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from neuralsym.core.leaves import Variable, Weight, make_variable
from neuralsym.core.locks import cached_property
from neuralsym.core.naming import Kept, assign_names
from neuralsym.core.op import Op
from neuralsym.core.scope import check_name
from neuralsym.core.symbol import Node, Symbol, output_name
from neuralsym.core.tensor import Tensor
from neuralsym.core.traverse import bodies, rebuild, renewed, topological
from neuralsym.errors import GraphError, WeightsError, at_line, did_you_mean

__all__ = ["Graph", "rebuild", "topological"]

Outputs = Symbol | Sequence[Symbol] | Mapping[str, Symbol]
Change = Callable[[Node, tuple[Symbol | None, ...]], Sequence[Symbol] | None]


class Graph:
    """The computation of `outputs`.

    `outputs` is a symbol, a sequence, or a dict that gives each output its own name. `inputs`
    are the variables in the order wanted (those found come after, in order of first use); an
    input that nothing uses is kept. `updates` maps variables to values that are written back
    after a run. Raises GraphError for a name that occurs twice.

    `graph.bodies[node][attribute]` is a body with names that are unique in the whole: of two
    bodies, or of a body and the graph around it, the later counts on.
    `keep` and `output_names` (None: as its node) carry names over from another graph.
    """

    def __init__(
        self,
        outputs: Outputs,
        inputs: Sequence[Symbol] | None = None,
        name: str | None = None,
        updates: Mapping[Symbol, Symbol] | None = None,
        *,
        keep: Mapping[Node, str] | Kept | None = None,
        output_names: Sequence[str | None] | None = None,
    ) -> None:
        check_name(name)
        self.name = name or "graph"
        self.outputs, aliases = _outputs(outputs, output_names)
        self.updates: dict[Symbol, Symbol] = dict(updates or {})
        given: tuple[Any, ...] = tuple(inputs or ())
        for symbol in (*given, *self.updates):
            if not isinstance(symbol, Symbol) or symbol.node.op is not Variable:
                what = symbol.node.describe() if isinstance(symbol, Symbol) else repr(symbol)
                raise GraphError(f"an input of a graph is a variable, not {what}")
        roots = (*self.outputs, *self.updates.values(), *self.updates, *given)
        self.nodes: tuple[Node, ...] = tuple(topological(s.node for s in roots))
        found = tuple(n.outputs[0] for n in self.nodes if n.op is Variable)
        self.inputs: tuple[Symbol, ...] = tuple(dict.fromkeys((*given, *found)))
        _refuse_escaped(set(found).difference(given))
        kept = keep if isinstance(keep, Kept) else Kept(keep or {})
        naming = assign_names(self.nodes, self.outputs, aliases, kept)
        self.names: dict[Node, str] = naming.names
        self.aliases = naming.aliases
        self.scope_names = naming.scopes
        self._taken = naming.values
        self.bodies: dict[Node, dict[str, Graph]] = {}
        holders = [node for node in self.nodes if node.op.body_attributes]
        around = self._taken | kept.taken if holders else set()
        for node in holders:
            named = self.bodies[node] = {}
            for attribute, body in bodies(node).items():
                named[attribute] = made = body._beside(around)
                around |= made._taken
                self._taken |= made._taken

    # -- reading ---------------------------------------------------------------------------
    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """The name of each output: its own, or that of its symbol."""
        return tuple(
            alias if alias is not None else output_name(self.names[s.node], s.index)
            for s, alias in zip(self.outputs, self.aliases, strict=True)
        )

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        return tuple(self.names[s.node] for s in self.inputs)

    @cached_property
    def weights(self) -> tuple[Symbol, ...]:
        """The stored parameters, in order of first use; those of bodies are in the bodies."""
        return tuple(n.outputs[0] for n in self.nodes if n.op is Weight)

    @cached_property
    def users(self) -> dict[Symbol, tuple[Node, ...]]:
        """The nodes that use each symbol; none for one that is only an output."""
        found: dict[Symbol, list[Node]] = {s: [] for n in self.nodes for s in n.outputs}
        for node in self.nodes:
            for symbol in dict.fromkeys(node.operands):
                found[symbol].append(node)
        return {s: tuple(users) for s, users in found.items()}

    def value_name(self, symbol: Symbol) -> str:
        """The name of a value: unlike a node, an output may have a name of its own."""
        return self._value_names.get(symbol) or output_name(self.names[symbol.node], symbol.index)

    @cached_property
    def _value_names(self) -> dict[Symbol, str]:
        names: dict[Symbol, str] = {}
        own = {s for s, alias in zip(self.outputs, self.aliases, strict=True) if alias is None}
        for symbol, alias in zip(self.outputs, self.aliases, strict=True):
            if alias is not None and symbol.node.op is not Variable and symbol not in own:
                names.setdefault(symbol, alias)
        return names

    @cached_property
    def _by_name(self) -> dict[str, Symbol]:
        found = {output_name(self.names[n], s.index): s for n in self.nodes for s in n.outputs}
        found.update(zip(self.output_names, self.outputs, strict=True))
        return found

    def __getitem__(self, name: str) -> Symbol:
        """The symbol called `name`; GraphError with the nearest names if there is none."""
        found = self._by_name.get(name)
        if found is None:
            hint = did_you_mean(name, self._by_name)
            raise GraphError(f"graph {self.name!r} has nothing called {name!r}{hint}")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def find(self, what: str | type[Op] | Callable[[Node], Any]) -> list[Node]:
        """The nodes of an operator (`"Conv"` or its class), or for which a function holds."""
        if isinstance(what, str):
            return [n for n in self.nodes if n.op_type == what]
        if isinstance(what, type):
            return [n for n in self.nodes if n.op is what]
        return [n for n in self.nodes if what(n)]

    def __str__(self) -> str:
        from neuralsym.core.text import print_graph

        return print_graph(self)

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {len(self.nodes)} nodes>"

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from neuralsym import draw

        return draw.notebook(self)

    def __reduce__(self) -> tuple[Any, ...]:
        from neuralsym.core.dump import dump_graph, restore_graph

        return restore_graph, (dump_graph(self),)

    def copy(self) -> Graph:
        """The same graph of other nodes; stored values, which cannot change, are shared."""
        from neuralsym.core.dump import dump_graph, restore_graph

        return restore_graph(dump_graph(self))

    def __copy__(self) -> Graph:
        return self

    def __deepcopy__(self, memo: object) -> Graph:
        return self.copy()

    # -- making others ---------------------------------------------------------------------
    def map(self, change: Change) -> Graph:
        """Rebuild bottom-up, bodies included.

        `change(node, inputs)` gets each node with its new inputs and gives the symbols in the
        place of its outputs, or None to keep the node. Untouched nodes are kept as they are; a
        node whose inputs changed is rebuilt. What stands in a node's place takes its name.
        """
        new: dict[Symbol, Symbol] = {}
        for node in self.nodes:
            made = self._with_bodies(node, lambda body: body.map(change))
            if made is not node or node.captures:
                made = renewed(made, new)
                outputs = change(made, made.inputs)
                outputs = made.outputs if outputs is None else outputs
            else:
                inputs = tuple([None if s is None else new.get(s, s) for s in node.inputs])
                changed = change(node, inputs)
                outputs = renewed(node, new).outputs if changed is None else changed
            for old, symbol in zip(node.outputs, outputs, strict=False):
                if symbol is not old:
                    new[old] = symbol
        return self.rewired(new)

    def map_bodies(self, change: Callable[[Graph], Graph]) -> Graph:
        """The graph with each body changed by a function of graphs, which keeps its signature."""
        new: dict[Symbol, Symbol] = {}
        for node in self.nodes if self.bodies else ():
            made = renewed(self._with_bodies(node, change), new)
            if made is not node:
                new.update(zip(node.outputs, made.outputs, strict=True))
        return self.rewired(new)

    def _with_bodies(self, node: Node, change: Callable[[Graph], Graph]) -> Node:
        """The node with changed bodies; itself if none changes."""
        named = self.bodies.get(node)
        if named is None:
            return node
        changed = {attribute: change(body) for attribute, body in named.items()}
        if all(changed[attribute] is body for attribute, body in named.items()):
            return node
        return rebuild(node, node.inputs, attrs={**node.attrs, **changed})

    def replace(self, changes: Mapping[Symbol, Symbol]) -> Graph:
        """The graph with other symbols in the place of some."""
        new: dict[Symbol, Symbol] = dict(changes)
        for node in self.nodes:
            if all(s in changes for s in node.outputs):
                continue
            made = renewed(node, new)
            if made is not node:
                for old, symbol in zip(node.outputs, made.outputs, strict=True):
                    new.setdefault(old, symbol)
        return self.rewired(new)

    def rewired(self, new: Mapping[Symbol, Symbol]) -> Graph:
        """The graph whose outputs and updates are looked up in `new`, which holds whatever changed.

        Unlike `replace`, it rebuilds nothing: what uses a changed symbol is in `new` itself. What
        stands in a node's place takes its name. The graph itself where nothing changed.
        """
        new = {old: symbol for old, symbol in new.items() if symbol is not old}
        if not new:
            return self
        inputs = [s for s in (new.get(s, s) for s in self.inputs) if s.node.op is Variable]
        updates = {new.get(k, k): new.get(v, v) for k, v in self.updates.items()}
        return Graph(
            [new.get(s, s) for s in self.outputs],
            list(dict.fromkeys(inputs)),
            self.name,
            updates,
            keep=self._kept(new),
            output_names=self.output_names,
        )

    def _kept(self, new: Mapping[Symbol, Symbol]) -> Kept:
        wanted: dict[Node, str] = {}
        for old, symbol in new.items():
            node = symbol.node
            # A user's name for the new node counts, unless it is a copy of the old.
            free = node not in self.names and node.name in (None, old.node.name)
            if free and old.node in self.names and old.index == symbol.index:
                wanted.setdefault(node, self.names[old.node])
        return Kept(self.names, wanted, self.scope_names)

    def subgraph(
        self, outputs: str | Symbol | Sequence[str | Symbol], inputs: Sequence[str | Symbol] = ()
    ) -> Graph:
        """The part that computes `outputs`, with a new variable in the place of each of `inputs`.

        Values are named as in this graph, and the variables that are read go on being updated.
        Raises GraphError for a name that does not exist.
        """
        wanted = [outputs] if isinstance(outputs, (str, Symbol)) else list(outputs)
        symbols = [self[o] if isinstance(o, str) else o for o in wanted]
        cuts = [self[i] if isinstance(i, str) else i for i in inputs]
        for symbol in (*symbols, *cuts):
            if symbol.node not in self.names:
                raise GraphError(f"{symbol.node.describe()} is not in graph {self.name!r}")
        new: dict[Symbol, Symbol] = {}
        names: dict[Node, str] = {}
        for s in cuts:
            new[s] = s if s.node.op is Variable else make_variable(None, s.type)
            names[new[s].node] = self.value_name(s)
        given = [new[s] for s in cuts]
        updates = self._updates_of(symbols, set(cuts))
        roots = (*(s for s in symbols if s not in new), *updates.values())
        for node in topological((s.node for s in roots if s not in new), stop=set(cuts)):
            made = renewed(node, new)
            names.setdefault(made, self.names[node])
            if node.op is Variable:
                given.append(made.outputs[0])
            for old, symbol in zip(node.outputs, made.outputs, strict=True):
                if symbol is not old:
                    new.setdefault(old, symbol)
        return Graph(
            [new.get(s, s) for s in symbols],
            list(dict.fromkeys(given)),
            self.name,
            {new.get(k, k): new.get(v, v) for k, v in updates.items()},
            keep=Kept({}, names, self.scope_names),
            output_names=[self.value_name(s) for s in dict.fromkeys(symbols)]
            if len(set(symbols)) == len(symbols)
            else None,
        )

    def _updates_of(self, symbols: Sequence[Symbol], cuts: set[Symbol]) -> dict[Symbol, Symbol]:
        """The updates of the variables that are read on the way to some symbols."""
        found: dict[Symbol, Symbol] = {}
        while True:
            roots = (s.node for s in (*symbols, *found.values()) if s not in cuts)
            read = set(topological(roots, stop=cuts))
            more = {k: v for k, v in self.updates.items() if k.node in read and k not in cuts}
            if len(more) == len(found):
                return found
            found = more

    def rename(self, names: Mapping[str, str]) -> Graph:
        """The graph with other names for some nodes or outputs; the nodes are the same.

        Raises GraphError for a name that does not exist or that is taken.
        """
        keep = dict(self.names)
        aliases: list[str | None] = list(self.output_names)
        for old, name in names.items():
            check_name(name)
            symbol = self[old]
            if self.names[symbol.node] == old:
                keep[symbol.node] = name
            elif old not in self.output_names:
                raise GraphError(f"{old!r} is named after its node: rename that")
            if old in self.output_names:
                aliases[self.output_names.index(old)] = name
        seen: set[str] = set()
        for name in (*keep.values(), *(a for a in aliases if a and a not in keep.values())):
            if name in seen:
                raise GraphError(f"the name {name!r} is taken")
            seen.add(name)
        return Graph(
            self.outputs,
            self.inputs,
            self.name,
            self.updates,
            keep=Kept(keep, {}, self.scope_names),
            output_names=aliases,
        )

    def without_inputs(self, inputs: Container[Symbol]) -> Graph:
        """The graph without some inputs, which nothing in it may use."""
        kept = [s for s in self.inputs if s not in inputs]
        if len(kept) == len(self.inputs):
            return self
        return Graph(
            self.outputs,
            kept,
            self.name,
            self.updates,
            keep=Kept(self.names, {}, self.scope_names),
            output_names=self.aliases,
        )

    def with_weights(self, values: Mapping[str, Tensor]) -> Graph:
        """The graph with other tensors for some weights, by name.

        Raises WeightsError for one of another shape or number type.
        """
        changes: dict[Symbol, Symbol] = {}
        for symbol in self.weights:
            value = values.get(self.names[symbol.node])
            if value is None:
                continue
            if (value.dtype, value.shape) != (symbol.dtype, symbol.shape):
                raise WeightsError(
                    f"weight {self.names[symbol.node]!r} is {symbol.type}, its new value is "
                    f"{value.dtype}{list(value.shape)}"
                )
            made = rebuild(symbol.node, (), attrs={**symbol.node.attrs, "value": value})
            changes[symbol] = made.outputs[0]
        return self.replace(changes)

    def seeded(self, seed: int) -> Graph:
        """The graph with each weight that has no seed yet tied to its own stream of `seed`."""
        values = {}
        for symbol in self.weights:
            name, tensor = self.names[symbol.node], symbol.attrs["value"]
            made = tensor.seeded(seed, name)
            if made is not tensor:
                values[name] = made
        return self.with_weights(values)

    def extended(self, outputs: Outputs) -> Graph:
        """The graph of other outputs, made of values of this one and of more; names are kept."""
        return Graph(
            outputs,
            self.inputs,
            self.name,
            self.updates,
            keep=Kept(self.names, {}, self.scope_names),
        )

    def _beside(self, taken: set[str]) -> Graph:
        """This body with names that a graph around it has not: itself where they differ already."""
        if self._taken.isdisjoint(taken):
            return self
        return Graph(
            self.outputs,
            self.inputs,
            self.name,
            self.updates,
            keep=Kept(self.names, {}, self.scope_names, taken),
            output_names=self.aliases,
        )

    # -- checking --------------------------------------------------------------------------
    def check(self) -> Graph:
        """Verify what holds by construction: order, names, types. Gives the graph itself."""
        from neuralsym.core.check import check_graph

        check_graph(self)
        return self


def _outputs(
    outputs: Outputs, names: Sequence[str | None] | None
) -> tuple[tuple[Symbol, ...], Sequence[str | None]]:
    """The outputs and the name that each is given, if any."""
    if isinstance(outputs, Mapping):
        for name in outputs:
            check_name(name)
        symbols, aliases = tuple(outputs.values()), list[str | None](outputs)
    else:
        symbols = (outputs,) if isinstance(outputs, Symbol) else tuple(outputs)
        aliases = [None] * len(symbols) if names is None else list(names)
    for symbol in symbols:
        if not isinstance(symbol, Symbol):
            raise GraphError(f"an output of a graph is a Symbol, not {type(symbol).__name__}")
    return symbols, aliases


def _refuse_escaped(variables: set[Symbol]) -> None:
    """Raise GraphError for a parameter of a finished body: only its results may be used outside."""
    for symbol in variables:
        level = symbol.node.level
        if level is not None and not level.open:
            raise GraphError(
                f"{symbol.node.describe()} belongs to the inside of a body (of if_, loop, scan or "
                f"sequence_map) and is used outside: return it from the body's function"
                f"{at_line(symbol.node.where)}"
            )
