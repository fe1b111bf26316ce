"""The driver: applies rules bottom-up until none fires, and notes which did and why others not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from neuralsym.core.check import agree
from neuralsym.core.graph import Graph
from neuralsym.core.op import Op
from neuralsym.core.scope import CURRENT
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import renewed, topological
from neuralsym.errors import GraphError, acting_for
from neuralsym.rewrite.pattern import Match
from neuralsym.rewrite.rule import Rejected, Rule

MOST_TURNS = 200
"""So many rules in a row at one node, or sweeps over one graph, mean that they never settle."""


@dataclass(frozen=True)
class Event:
    """A rule that fired at a node, or with `reason` one that did not."""

    rule: str
    node: str
    reason: str | None = None
    fewer: int | None = None
    """Of a whole pass that changed a graph: how many nodes fewer there are."""

    def __str__(self) -> str:
        return f"{self.rule} at {self.node}" + (f": no, {self.reason}" if self.reason else "")


@dataclass
class Trace:
    """What happened, in order; `refused` holds what still stands when no rule fires any more."""

    fired: list[Event] = field(default_factory=list)
    refused: list[Event] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.fired, *self.refused)))

    def summary(self) -> dict[str, str]:
        """What each rule and pass did in all: "3 times", or "12 nodes fewer"; first ones first."""
        times: Counter[str] = Counter()
        fewer: dict[str, int] = {}
        for event in self.fired:
            if event.fewer is None:
                times[event.rule] += 1
            else:
                fewer[event.rule] = fewer.get(event.rule, 0) + event.fewer
        made = {rule: "once" if count == 1 else f"{count} times" for rule, count in times.items()}
        for rule, count in fewer.items():
            made[rule] = f"{abs(count)} node{'' if abs(count) == 1 else 's'} " + (
                "fewer" if count >= 0 else "more"
            )
        return made


def rewrite(graph: Graph, rules: Sequence[Rule], trace: Trace | None = None) -> Graph:
    """The graph after `rules`, bodies included; the graph itself where none fires.

    A value keeps its name. `trace`, where given, is added to. Raises GraphError when a rule gives
    a value of another type, or when the rules never settle.
    """
    by_op: dict[type[Op], list[Rule]] = {}
    for each in rules:
        for op in each.pattern.ops:
            by_op.setdefault(op, []).append(each)
    graph = graph.map_bodies(lambda body: rewrite(body, rules, trace))
    if not any(node.op in by_op for node in graph.nodes):
        return graph
    for _ in range(MOST_TURNS):
        sweep = _Sweep(graph, by_op)
        changed = sweep.run()
        if trace is not None:
            trace.fired += sweep.fired
        if changed is graph:
            if trace is not None:
                trace.refused += sweep.refused
            return graph
        graph = changed
    names = ", ".join(sorted({event.rule for event in sweep.fired}))
    raise GraphError(f"these rules undo each other, they fire again and again: {names}")


class _Sweep:
    """One walk over the nodes, from the inputs to the outputs."""

    def __init__(self, graph: Graph, by_op: Mapping[type[Op], Sequence[Rule]]) -> None:
        self.graph = graph
        self.by_op = by_op
        self.new: dict[Symbol, Symbol] = {}
        # How often a symbol is used. A symbol that takes another's place takes its uses; uses by
        # nodes that die meanwhile still count, so the number is never too small.
        self.uses = use_counts(graph)
        self.fired: list[Event] = []
        self.refused: list[Event] = []

    def run(self) -> Graph:
        for node in self.graph.nodes:
            made = renewed(node, self.new)
            outputs = made.outputs
            if made is not node:
                self._take_uses(node.outputs, outputs)
            for _ in range(MOST_TURNS):
                after = self._apply(node, outputs[0].node)
                if after is None:
                    break
                outputs = after
            else:
                raise GraphError(f"the rules at {node.describe()} undo each other")
            for old, symbol in zip(node.outputs, outputs, strict=False):
                if symbol is not old:
                    self.new[old] = symbol
        return self.graph.rewired(self.new)

    def _apply(self, original: Node, node: Node) -> tuple[Symbol, ...] | None:
        """What stands in the place of a node after the first rule that fires; None if none."""
        name = self.graph.names[original]
        for each in self.by_op.get(node.op, ()):
            for match in each.pattern.matches(node.outputs[each.pattern.output], Match()):
                outputs = self._result(each, match, node)
                if isinstance(outputs, Rejected):
                    self.refused.append(Event(each.name, name, outputs.reason))
                    continue
                for old, symbol in zip(node.outputs, outputs, strict=False):
                    if not agree(old.type, symbol.type):
                        raise GraphError(
                            f"rule {each.name} puts {symbol.type} in the place of {old.type}, "
                            f"of {original.describe()}"
                        )
                self.fired.append(Event(each.name, name))
                self._count(outputs)
                self._take_uses(node.outputs, outputs)
                return outputs
        return None

    def _result(self, each: Rule, match: Match, node: Node) -> tuple[Symbol, ...] | Rejected:
        """What a rule gives for a match, made in the name of the node that it replaces."""
        if not each.shared:
            reason = self._used_elsewhere(match)
            if reason is not None:
                return Rejected(reason)
        token = CURRENT.set(node.scope)
        try:
            with acting_for(node.where):
                result = each(match)
        finally:
            CURRENT.reset(token)
        if isinstance(result, Rejected):
            return result
        outputs = (result,) if isinstance(result, Symbol) else tuple(result)
        if any(self.uses.get(s, 0) for s in node.outputs[len(outputs) :]):
            return Rejected("another of its outputs is used")
        return outputs

    def _used_elsewhere(self, match: Match) -> str | None:
        inside = Counter(s for node in match.nodes for s in node.operands)
        for node in match.nodes[1:]:
            for symbol in node.outputs:
                if self.uses.get(symbol, 0) > inside[symbol]:
                    return f"{node.describe()} is used elsewhere too"
        return None

    def _count(self, outputs: Sequence[Symbol]) -> None:
        """Count the uses that new nodes make of others."""
        roots = [s.node for s in outputs if s not in self.uses]
        for made in list(topological(roots, stop=_Known(self.uses))):
            for symbol in made.operands:
                self.uses[symbol] = self.uses.get(symbol, 0) + 1
            for symbol in made.outputs:
                self.uses.setdefault(symbol, 0)

    def _take_uses(self, old: Sequence[Symbol], new: Sequence[Symbol]) -> None:
        for a, b in zip(old, new, strict=False):
            if a is not b:
                self.uses[b] = self.uses.get(b, 0) + self.uses.get(a, 0)


class _Known:
    """Every symbol that a sweep has met, as the ends of a walk over new nodes."""

    def __init__(self, uses: Mapping[Symbol, int]) -> None:
        self.uses = uses

    def __contains__(self, symbol: object) -> bool:
        return symbol in self.uses


def use_counts(graph: Graph) -> dict[Symbol, int]:
    """How often each symbol is used, as an operand, an output or the value of an update."""
    uses = {s: 0 for node in graph.nodes for s in node.outputs}
    for node in graph.nodes:
        for symbol in node.operands:
            uses[symbol] += 1
    for symbol in (*graph.outputs, *graph.updates.values()):
        uses[symbol] += 1
    return uses
