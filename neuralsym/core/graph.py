"""Graphs: a snapshot of the nodes behind some outputs, in order, with names.

A Graph never changes. `map`, `replace`, `rename` and `subgraph` give new ones that keep the names
of what they keep. Everything is iterative: depth is no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from neuralsym.core.leaves import Variable, Weight
from neuralsym.core.naming import assign_names
from neuralsym.core.op import Call, Op
from neuralsym.core.symbol import Node, Symbol, output_name
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import Type
from neuralsym.errors import GraphError, at_line, did_you_mean

Outputs = Symbol | Sequence[Symbol] | Mapping[str, Symbol]


class Graph:
    """The computation of `outputs`.

    `outputs` is a symbol, a sequence, or a dict that gives each output its own name. `inputs`
    are the variables in the order wanted (those found come after, in order of first use); an
    input that nothing uses is kept. `updates` maps variables to values that are written back
    after a run. Raises GraphError for a name that occurs twice.
    """

    def __init__(
        self,
        outputs: Outputs,
        inputs: Sequence[Symbol] | None = None,
        name: str | None = None,
        updates: Mapping[Symbol, Symbol] | None = None,
        *,
        keep: Mapping[Node, str] | None = None,
        taken: Iterable[str] = (),
    ) -> None:
        self.name = name or "graph"
        aliases: tuple[str | None, ...]
        if isinstance(outputs, Symbol):
            self.outputs: tuple[Symbol, ...] = (outputs,)
            aliases = (None,)
        elif isinstance(outputs, Mapping):
            self.outputs, aliases = tuple(outputs.values()), tuple(outputs)
        else:
            self.outputs = tuple(outputs)
            aliases = (None,) * len(self.outputs)
        for symbol in self.outputs:
            if not isinstance(symbol, Symbol):
                raise GraphError(f"an output of a graph is a Symbol, not {type(symbol).__name__}")
        self.updates: dict[Symbol, Symbol] = dict(updates or {})
        given = tuple(inputs or ())
        for symbol in (*given, *self.updates):
            if symbol.node.op is not Variable:
                raise GraphError(f"an input of a graph is a variable, not {symbol.node.describe()}")
        roots = (*given, *self.outputs, *self.updates, *self.updates.values())
        self.nodes: tuple[Node, ...] = tuple(topological(s.node for s in roots))
        found = (n.outputs[0] for n in self.nodes if n.op is Variable)
        self.inputs: tuple[Symbol, ...] = tuple(dict.fromkeys((*given, *found)))
        self.names: dict[Node, str] = assign_names(self.nodes, dict(keep or {}), taken)
        self.aliases = aliases
        self._check_output_names()

    def _check_output_names(self) -> None:
        alone = {s: a for s, a in zip(self.outputs, self.aliases, strict=True) if a is not None}
        if not alone:
            return
        used = set(self.names.values())
        for symbol, alias in alone.items():
            used.discard(self.names[symbol.node])
            if self.aliases.count(alias) > 1:
                raise GraphError(f"two outputs are called {alias!r}")
        for symbol, alias in alone.items():
            if alias in used and self.names[symbol.node] != alias:
                raise GraphError(
                    f"output {alias!r} has the name of another node; choose one of the two anew"
                )

    # -- reading ---------------------------------------------------------------------------
    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """The name of each output: its alias, or the name of its symbol."""
        return tuple(
            alias if alias is not None else output_name(self.names[s.node], s.index)
            for s, alias in zip(self.outputs, self.aliases, strict=True)
        )

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        return tuple(self.names[s.node] for s in self.inputs)

    @property
    def weights(self) -> tuple[Symbol, ...]:
        """The stored parameters, in order of first use."""
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
        for symbol, alias in zip(self.outputs, self.aliases, strict=True):
            if alias is not None and symbol.node.op is not Variable:
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

    def find(self, what: str | type[Op] | Callable[[Node], bool]) -> list[Node]:
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

    def __reduce__(self) -> tuple[Any, ...]:
        from neuralsym.core.text import dump_graph, restore_graph

        return (restore_graph, (dump_graph(self),))

    # -- making others ---------------------------------------------------------------------
    def map(
        self, change: Callable[[Node, tuple[Symbol | None, ...]], Sequence[Symbol] | None]
    ) -> Graph:
        """Rebuild bottom-up.

        `change(node, inputs)` gets each node with its new inputs and gives the symbols in the
        place of its outputs, or None to keep the node. Untouched nodes are kept as they are;
        a node whose inputs changed is rebuilt with its name.
        """
        new: dict[Symbol, Symbol] = {}
        for node in self.nodes:
            inputs = tuple(None if s is None else new.get(s, s) for s in node.inputs)
            outputs = change(node, inputs)
            if outputs is None:
                captures = tuple(new.get(s, s) for s in node.captures)
                if inputs == node.inputs and captures == node.captures:
                    continue
                outputs = rebuild(node, inputs, captures=captures).outputs
                self._carry(node, outputs)
            for old, symbol in zip(node.outputs, outputs, strict=False):
                if symbol is not old:
                    new[old] = symbol
        return self._with(new)

    def _carry(self, node: Node, outputs: Sequence[Symbol]) -> None:
        outputs[0].node.label = self.names[node]

    def replace(self, changes: Mapping[Symbol, Symbol]) -> Graph:
        """The graph with other symbols in the place of some."""
        new: dict[Symbol, Symbol] = dict(changes)
        for node in self.nodes:
            if all(s in changes for s in node.outputs):
                continue
            inputs = tuple(None if s is None else new.get(s, s) for s in node.inputs)
            captures = tuple(new.get(s, s) for s in node.captures)
            if inputs != node.inputs or captures != node.captures:
                rebuilt = rebuild(node, inputs, captures=captures)
                self._carry(node, rebuilt.outputs)
                for old, symbol in zip(node.outputs, rebuilt.outputs, strict=True):
                    new.setdefault(old, symbol)
        return self._with(new)

    def _with(self, new: Mapping[Symbol, Symbol]) -> Graph:
        """This graph with outputs renewed; the names of all that is kept or rebuilt stay."""
        keep = dict(self.names)
        for symbol in new.values():
            if symbol.node.label is not None and symbol.node not in keep:
                keep[symbol.node] = symbol.node.label
        outputs = [new.get(s, s) for s in self.outputs]
        names = self.output_names
        inputs = [s for s in (new.get(s, s) for s in self.inputs) if s.node.op is Variable]
        updates = {new.get(k, k): new.get(v, v) for k, v in self.updates.items()}
        made = Graph(outputs, inputs, self.name, updates, keep=keep)
        made._set_aliases(names)
        return made

    def _set_aliases(self, names: Sequence[str]) -> None:
        self.aliases = tuple(names)
        for cached in ("output_names", "_value_names", "_by_name"):
            self.__dict__.pop(cached, None)

    def subgraph(
        self, outputs: str | Symbol | Sequence[str | Symbol], inputs: Sequence[str | Symbol] = ()
    ) -> Graph:
        """The part that computes `outputs`, with a new variable in the place of each of `inputs`.

        Raises GraphError for a name that does not exist.
        """
        from neuralsym.core.leaves import make_variable

        wanted = [outputs] if isinstance(outputs, (str, Symbol)) else list(outputs)
        symbols = [self[o] if isinstance(o, str) else o for o in wanted]
        cuts = [self[i] if isinstance(i, str) else i for i in inputs]
        feeds = {
            s: s if s.node.op is Variable else make_variable(self.value_name(s), s.type)
            for s in cuts
        }
        new: dict[Symbol, Symbol] = dict(feeds)
        for node in topological((s.node for s in symbols), stop=feeds):
            node_inputs = tuple(None if s is None else new.get(s, s) for s in node.inputs)
            captures = tuple(new.get(s, s) for s in node.captures)
            if node_inputs != node.inputs or captures != node.captures:
                rebuilt = rebuild(node, node_inputs, captures=captures)
                self._carry(node, rebuilt.outputs)
                for old, symbol in zip(node.outputs, rebuilt.outputs, strict=True):
                    new.setdefault(old, symbol)
        keep = dict(self.names.items())
        for symbol in new.values():
            if symbol.node.label is not None:
                keep.setdefault(symbol.node, symbol.node.label)
        results = [new.get(s, s) for s in symbols]
        made = Graph(results, list(feeds.values()), self.name, keep=keep)
        made._set_aliases([self.value_name(s) for s in symbols])
        return made

    def rename(self, names: Mapping[str, str]) -> Graph:
        """The graph with other names for some nodes, inputs or outputs.

        Raises GraphError for a name that does not exist or that is taken.
        """
        keep = dict(self.names)
        aliases = list(self.output_names)
        for old, new in names.items():
            symbol = self[old]
            if old in self.output_names:
                aliases[self.output_names.index(old)] = new
            if self.names[symbol.node] == old:
                keep[symbol.node] = new
        values = list(keep.values())
        twice = {n for n in names.values() if values.count(n) > 1}
        if twice:
            raise GraphError(f"the name {min(twice)!r} is taken")
        renamed: dict[Symbol, Symbol] = {}
        for node in self.nodes:
            inputs = tuple(None if s is None else renamed.get(s, s) for s in node.inputs)
            captures = tuple(renamed.get(s, s) for s in node.captures)
            changed = keep[node] != self.names[node]
            if changed or inputs != node.inputs or captures != node.captures:
                made = rebuild(node, inputs, captures=captures, name=keep[node] if changed else "")
                made.label = keep[node]
                renamed.update(zip(node.outputs, made.outputs, strict=True))
        result = self._with(renamed)
        result._set_aliases(aliases)
        return result

    def with_weights(self, values: Mapping[str, Tensor]) -> Graph:
        """The graph with other tensors for some weights, by name."""
        changes: dict[Symbol, Symbol] = {}
        for symbol in self.weights:
            name = self.names[symbol.node]
            if name in values:
                node = symbol.node
                made = rebuild(node, (), attrs={**node.attrs, "value": values[name]})
                made.label = name
                changes[symbol] = made.outputs[0]
        return self.replace(changes)

    # -- checking --------------------------------------------------------------------------
    def check(self) -> Graph:
        """Verify what holds by construction: order, names, types. Gives the graph itself."""
        from neuralsym.core.infer import infer

        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            for symbol in node.operands:
                if symbol.node not in seen:
                    raise GraphError(
                        f"{node.describe()} uses {symbol.node.describe()} before it is made"
                    )
            seen.add(node)
            name = self.names[node]
            if name in names:
                raise GraphError(f"two nodes are called {name!r}{at_line(node.where)}")
            names.add(name)
            if node.op in (Variable, Weight) or not node.inputs:
                continue
            call = Call(node.op, node.inputs, node.attrs, len(node.outputs), node.where)
            types, _ = infer(call)
            for symbol, type_ in zip(node.outputs, types, strict=True):
                if not _compatible(symbol.type, type_):
                    raise GraphError(
                        f"{node.describe()} says {symbol.type}, its inputs say {type_}"
                        f"{at_line(node.where)}"
                    )
        return self


def _compatible(a: Type, b: Type) -> bool:
    shapes = getattr(a, "shape", None), getattr(b, "shape", None)
    if type(a) is not type(b) or getattr(a, "dtype", None) != getattr(b, "dtype", None):
        return False
    if shapes[0] is None or shapes[1] is None:
        return True
    if len(shapes[0]) != len(shapes[1]):
        return False
    pairs = zip(shapes[0], shapes[1], strict=True)
    return all(x == y for x, y in pairs if isinstance(x, int) and isinstance(y, int))


def topological(roots: Iterable[Node], stop: Iterable[Symbol] = ()) -> Iterator[Node]:
    """Every node behind `roots`, each after what it needs; a node only `stop` needs is left out."""
    done: set[Node] = set()
    ends = set(stop)
    for root in roots:
        if root in done:
            continue
        stack: list[tuple[Node, Iterator[Symbol]]] = [(root, iter(root.operands))]
        open_nodes = {root}
        while stack:
            node, rest = stack[-1]
            for symbol in rest:
                child = symbol.node
                if symbol in ends or child in done:
                    continue
                if child in open_nodes:
                    raise GraphError(f"{child.describe()} depends on itself")
                open_nodes.add(child)
                stack.append((child, iter(child.operands)))
                break
            else:
                stack.pop()
                open_nodes.discard(node)
                done.add(node)
                if not ends or not all(s in ends for s in node.outputs):
                    yield node


def rebuild(
    node: Node,
    inputs: tuple[Symbol | None, ...],
    *,
    attrs: Mapping[str, Any] | None = None,
    captures: tuple[Symbol, ...] | None = None,
    name: str = "",
) -> Node:
    """The node with other inputs or attributes; its types are inferred anew if they may differ."""
    from neuralsym.core.infer import infer

    same = attrs is None and all(
        a is b or (a is not None and b is not None and a.type == b.type and _same_known(a, b))
        for a, b in zip(inputs, node.inputs, strict=False)
    )
    same = same and len(inputs) == len(node.inputs)
    types: tuple[Type, ...] = tuple(s.type for s in node.outputs)
    known = tuple(s._known for s in node.outputs)
    attrs = node.attrs if attrs is None else attrs
    if not same and node.inputs:
        types, known = infer(Call(node.op, inputs, attrs, len(node.outputs), node.where))
    return Node(
        node.op,
        inputs,
        attrs,
        types,
        known=known,
        name=name or node.name,
        scope=node.scope,
        where=node.where,
        captures=node.captures if captures is None else captures,
    )


def _same_known(a: Symbol, b: Symbol) -> bool:
    return a.known is None and b.known is None
