"""The invariants of a graph, verified: what passes may not break."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuralsym.core.infer import infer
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node, output_name
from neuralsym.core.traverse import LEAVES
from neuralsym.core.types import TensorType, Type
from neuralsym.errors import GraphError, at_line

if TYPE_CHECKING:
    from neuralsym.core.graph import Graph


def check_graph(graph: Graph, taken: set[str] | None = None) -> None:
    """Raise GraphError unless nodes follow what they need, names are unique and types are right.

    `taken` are the names of the graphs around a body; those found are added.
    """
    names = set() if taken is None else taken
    seen: set[Node] = set()
    for node in graph.nodes:
        for operand in node.operands:
            if operand.node not in seen:
                raise GraphError(
                    f"{node.describe()} uses {operand.node.describe()} before it is made"
                )
        seen.add(node)
        for symbol in node.outputs:
            name = output_name(graph.names[node], symbol.index)
            if name in names:
                raise GraphError(f"two values are called {name!r}{at_line(node.where)}")
            names.add(name)
        if node.op not in LEAVES:
            _check_types(node)
    for symbol in (*graph.outputs, *graph.inputs, *graph.updates, *graph.updates.values()):
        if symbol.node not in seen:
            raise GraphError(f"graph {graph.name!r} does not hold {symbol.node.describe()}")
    for symbol, value in graph.updates.items():
        if not agree(symbol.type, value.type):
            raise GraphError(f"{symbol.node.describe()} ({symbol.type}) is updated by {value.type}")
    if len(set(graph.output_names)) != len(graph.outputs):
        raise GraphError(f"two outputs of graph {graph.name!r} have one name")
    for named in graph.bodies.values():
        for body in named.values():
            check_graph(body, names)


def _check_types(node: Node) -> None:
    call = Call(node.op, node.inputs, node.attrs, len(node.outputs), node.where, node.captures)
    types, _ = infer(call)
    for symbol, type_ in zip(node.outputs, types, strict=True):
        if not agree(symbol.type, type_):
            raise GraphError(
                f"{node.describe()} says {symbol.type}, its inputs say {type_}{at_line(node.where)}"
            )


def agree(a: Type, b: Type) -> bool:
    """Whether two types can be those of one value: unknown and named sizes agree with any."""
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        if a.dtype is not b.dtype:
            return False
        if a.shape is None or b.shape is None:
            return True
        if len(a.shape) != len(b.shape):
            return False
        pairs = zip(a.shape, b.shape, strict=True)
        return all(x == y for x, y in pairs if isinstance(x, int) and isinstance(y, int))
    inner_a, inner_b = getattr(a, "element", None), getattr(b, "element", None)
    if type(a) is type(b) and inner_a is not None and inner_b is not None:
        return agree(inner_a, inner_b)
    return a == b
