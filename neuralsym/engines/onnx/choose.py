"""Which version of each domain a graph is written in, and what else is decided before writing."""

from __future__ import annotations

from collections.abc import Iterator

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import OWN
from neuralsym.core.schema import OPSET, VERSIONS
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import LEAVES, bodies
from neuralsym.engines.onnx import opsets
from neuralsym.errors import FormatError, at_line


def choose_opsets(graph: Graph, asked: int | None) -> dict[str, int]:
    """The version of each domain: the lowest that all nodes accept, or the one asked for.

    Raises FormatError, naming the operator and the reason, when the asked one is too low.
    """
    if asked is not None and not opsets.LOWEST <= asked <= OPSET:
        raise FormatError(
            f"opset {asked} cannot be written; choose one of {opsets.LOWEST} to {OPSET}, or none "
            "for the lowest that is sufficient"
        )
    found = {"": opsets.DEFAULT if asked is None else asked}
    for part in [graph, *every_body(graph)]:
        for symbol, copied in zip(part.outputs, copied_outputs(part, part is graph), strict=True):
            if copied:
                needed = opsets.copying(symbol.type)
                if asked is not None and needed > asked:
                    raise FormatError(
                        f"{symbol.type} cannot be an output in opset {asked}; the lowest for it "
                        f"is {needed}"
                    )
                found[""] = max(found[""], needed)
    for node in every_node(graph):
        domain = node.op.domain
        if node.op in LEAVES:
            continue
        if domain == OWN or domain.startswith(f"{OWN}."):
            raise FormatError(
                f"{node.describe()} is an operator of domain {domain!r}, neuralsym's own, so it "
                f"cannot be written to a file{at_line(node.where)}"
            )
        if domain not in VERSIONS:
            found[domain] = max(node.op.schema.since, found.get(domain, 1))
            continue
        version, reason = opsets.lowest(node, found.get(domain, 1))
        if domain == "" and asked is not None and version > asked:
            raise FormatError(
                f"{node.describe()} cannot be written in opset {asked}: {reason}; the lowest for "
                f"it is {version}{at_line(node.where)}"
            )
        if version > found.get(domain, 0):
            found[domain] = version
    for node in every_node(graph):
        opsets.refuse_taken_out(node, found)
    return found


def every_body(graph: Graph) -> Iterator[Graph]:
    """The bodies of a graph, and theirs."""
    pending = [graph]
    while pending:
        for node in pending.pop().nodes:
            if node.attrs:
                for body in bodies(node).values():
                    yield body
                    pending.append(body)


def every_node(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph and of all its bodies."""
    for part in (graph, *every_body(graph)):
        yield from part.nodes


def copied_outputs(graph: Graph, main: bool) -> list[bool]:
    """Which outputs have to be copies.

    A value that is asked for twice is copied, and so is an input or a stored value, except where
    the main graph gives it out under its own name.
    """
    copies: list[bool] = []
    seen: set[Symbol] = set()
    for symbol, wanted in zip(graph.outputs, graph.output_names, strict=True):
        leaf = symbol.node.op in LEAVES
        own = main and wanted == graph.names[symbol.node]
        copies.append(symbol in seen or (leaf and not own))
        seen.add(symbol)
    return copies
