"""The pipelines: which passes run at which level of optimisation, and in which order.

O0 is the graph as it is. O1 simplifies and stays within ONNX. O2 fuses too, into operators of our
own that the CPU engine has kernels for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neuralsym.core.graph import Graph
from neuralsym.errors import BadAttribute
from neuralsym.passes.attention import fuse_attention
from neuralsym.passes.batch_norm import fold_batch_norm
from neuralsym.passes.bodies import drop_body_results, inline_branches
from neuralsym.passes.canonical import CANONICAL
from neuralsym.passes.captures import own_weights, settle_captures
from neuralsym.passes.collapse import COLLAPSE
from neuralsym.passes.concats import flatten_concats, nest_prefixes
from neuralsym.passes.constant import fold_constants
from neuralsym.passes.cse import share_common
from neuralsym.passes.dead import drop_dead
from neuralsym.passes.elementwise import fuse_elementwise
from neuralsym.passes.epilogue import fuse_epilogues
from neuralsym.passes.identity import DROP_IDENTITIES
from neuralsym.passes.operands import fold_operands
from neuralsym.passes.pad import FOLD_PADS
from neuralsym.passes.phases import PHASES
from neuralsym.passes.quantised import make_integer
from neuralsym.passes.shared import share_with_bodies
from neuralsym.passes.sink import sink_transposes
from neuralsym.rewrite.driver import Event, Trace, rewrite
from neuralsym.rewrite.rule import Rule

Transform = Callable[[Graph, Trace | None], Graph]
MOST_ROUNDS = 20
"""The simplifying passes are repeated until they change nothing, at most so often."""


@dataclass(frozen=True)
class Pass:
    """A named function Graph -> Graph; bodies are its own affair."""

    name: str
    transform: Transform

    def __call__(self, graph: Graph, trace: Trace | None = None) -> Graph:
        return self.transform(graph, trace)


def _rules(name: str, rules: Sequence[Rule]) -> Pass:
    return Pass(name, lambda graph, trace: rewrite(graph, rules, trace))


def _plain(name: str, change: Callable[[Graph], Graph]) -> Pass:
    def transform(graph: Graph, trace: Trace | None) -> Graph:
        made = change(graph)
        if trace is not None and made is not graph:
            before, after = len(graph), len(made)
            trace.fired.append(Event(name, f"{before} nodes -> {after}", fewer=before - after))
        return made

    return Pass(name, transform)


SIMPLIFY = (
    _rules("identity", (*DROP_IDENTITIES, *COLLAPSE)),
    _plain("constant", fold_constants),
    _plain("branches", inline_branches),
    _plain("concat", flatten_concats),
    Pass("batch_norm", fold_batch_norm),
    _rules("pad", FOLD_PADS),
    _rules("canonical", CANONICAL),
    _plain("cse", share_common),
    _plain("share_with_bodies", share_with_bodies),
    _plain("sink_transposes", sink_transposes),
    _plain("dead", drop_dead),
    _plain("body_results", drop_body_results),
    _plain("captures", settle_captures),
)
FUSE = (
    _plain("prefixes", nest_prefixes),
    _rules("phases", PHASES),
    _plain("epilogue", fuse_epilogues),
    _plain("operands", fold_operands),
    _plain("attention", fuse_attention),
    _plain("elementwise", fuse_elementwise),
)

O0: tuple[Pass, ...] = ()
# Quantised graphs first: folding constants would make real numbers of their weights.
FIRST = (_plain("own_weights", own_weights), _plain("quantised", make_integer))

O1: tuple[Pass, ...] = SIMPLIFY
O2: tuple[Pass, ...] = FIRST + SIMPLIFY + FUSE


def optimise(
    graph: Graph,
    level: int = 2,
    trace: Trace | None = None,
    transformers: Sequence[tuple[Callable[[Graph], Graph], str]] = (),
    check: bool = False,
) -> Graph:
    """The graph after the passes of a level: 0 none, 1 within ONNX, 2 for our own engine.

    `trace`, where given, is told which rule fired where and why others did not. Each of
    `transformers` is a function and the name of the pass before which it runs once, or "" to run
    before all. Values keep their names. `check`, or NEURALSYM_CHECK=1 in the environment: the
    result of every pass is checked.

    Raises BadAttribute for an unknown level or pass.
    """
    if level not in (0, 1, 2):
        raise BadAttribute(f"optimisation level {level!r} is none of 0, 1, 2")
    names = [p.name for p in O2]
    added: dict[str, list[Pass]] = {}
    for change, place in transformers:
        if place and place not in names:
            raise BadAttribute(f"no pass is called {place!r}: they are {', '.join(names)}")
        title = getattr(change, "__name__", type(change).__name__)
        added.setdefault(place, []).append(_plain(title, change))
    for extra in added.get("", ()):
        graph = extra(graph, trace)
    if level == 0:
        return graph

    checked = check or os.environ.get("NEURALSYM_CHECK") == "1"

    def run(graph: Graph, passes: Sequence[Pass]) -> Graph:
        for each in passes:
            for one in (*added.pop(each.name, ()), each):
                made = one(graph, trace)
                if checked and made is not graph:
                    made.check()
                graph = made
        return graph

    if level == 2:
        graph = run(graph, FIRST)
    for _ in range(MOST_ROUNDS):
        if trace is not None:
            trace.refused.clear()  # what still stands is told by the last round
        before = graph
        graph = run(graph, SIMPLIFY)
        if graph is before:
            break
    return run(graph, FUSE) if level == 2 else graph
