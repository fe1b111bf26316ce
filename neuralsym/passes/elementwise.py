"""Elementwise operators that feed one another, fused into one loop: a `Calculate`.

Going from the outputs back, a node joins the group of its users when all of them are in one group,
its result has the group's shape, and the expression stays small. Nothing is computed twice: what
something outside needs, or what is smaller than the result, keeps a node of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from neuralsym.core.broadcast import broadcast_shapes
from neuralsym.core.graph import Graph
from neuralsym.core.scalar import Expr, Number, Scalar, argument, size, substitute
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import renewed
from neuralsym.core.types import Shape, TensorType
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch
from neuralsym.ops.base import Elementwise
from neuralsym.passes.fused import Calculate
from neuralsym.passes.numbers import number_of, simplified

MOST_FUNCTIONS = 64
"""Longer expressions take the compiler more than linear time."""
MOST_INPUTS = 16

_FUSABLE = frozenset(NumberType) - {
    *(NumberType.STRING, NumberType.COMPLEX64, NumberType.COMPLEX128),
}


def fuse_elementwise(graph: Graph) -> Graph:
    """Fuse the groups of elementwise operators, bodies included."""
    graph = graph.map_bodies(fuse_elementwise)
    groups = _groups(graph)
    new: dict[Symbol, Symbol] = {}
    members = {node for group in groups.values() for node in group.nodes}
    for node in graph.nodes if groups else ():
        if node in groups:
            new[node.outputs[0]] = _calculate(groups[node], new)
        elif node not in members:
            made = renewed(node, new)
            if made is not node:
                new.update(zip(node.outputs, made.outputs, strict=True))
    return graph.rewired(new)


@dataclass
class _Group:
    """Nodes that become one; the last of them is the root, and stands first here."""

    nodes: list[Node]
    functions: int
    inputs: set[Symbol] = field(default_factory=set)


def _groups(graph: Graph) -> dict[Node, _Group]:
    """The groups that are worth it, by root."""
    results = {*graph.outputs, *graph.updates.values()}
    users = graph.users
    group_of: dict[Node, _Group] = {}
    groups: list[_Group] = []
    for node in reversed(graph.nodes):
        own = _expression(node)
        if own is None:
            continue
        cost = size(own)
        numbers = _numbers(node)
        inputs = {s for i, s in enumerate(node.inputs) if s is not None and i not in numbers}
        value = node.outputs[0]
        group = None
        if value not in results:
            homes = [group_of.get(user) for user in users[value]]
            if homes and homes[0] is not None and all(h is homes[0] for h in homes):
                group = homes[0]
        if group is not None and _fits(group, value, cost, inputs):
            group.nodes.append(node)
            group.functions += cost
            group.inputs.discard(value)
            group.inputs |= inputs
        else:
            group = _Group([node], cost, inputs)
            groups.append(group)
        group_of[node] = group
    return {g.nodes[0]: g for g in groups if g.inputs and _worth_it(g)}


def _fits(group: _Group, value: Symbol, cost: int, inputs: set[Symbol]) -> bool:
    root = group.nodes[0].outputs[0]
    return (
        value.shape == root.shape
        and group.functions + cost <= MOST_FUNCTIONS
        and len((group.inputs - {value}) | inputs) <= MOST_INPUTS
    )


def _expression(node: Node) -> Expr | None:
    """What a node computes for an element; None where it cannot be part of a loop of ours."""
    if node.op is Calculate:
        expr: Expr = node.attrs["expr"]
        return expr
    if not issubclass(node.op, Elementwise) or len(node.outputs) != 1:
        return None
    symbols = [*(s for s in node.inputs if s is not None), node.outputs[0]]
    for symbol in symbols:
        if not isinstance(symbol.type, TensorType) or symbol.dtype not in _FUSABLE:
            return None
    result = node.outputs[0].tensor
    if not result.is_known or _loop_shape(node) != result.shape:
        return None
    own = node.op.expression(node)
    return own if isinstance(own, Expr) and size(own) <= MOST_FUNCTIONS else None


def _loop_shape(node: Node) -> Shape | None:
    """The shape over which the loop of a node runs: its inputs', broadcast, without literals."""
    numbers = _numbers(node)
    shapes = [s.shape for i, s in enumerate(node.inputs) if s is not None and i not in numbers]
    try:
        return broadcast_shapes(shapes)
    except ShapeMismatch:
        return None


def _numbers(node: Node) -> dict[int, Number]:
    """The inputs that are literals; none where one of them gives the result its rank."""
    found: dict[int, Number] = {}
    rank = 0
    for i, symbol in enumerate(node.inputs):
        if symbol is None:
            continue
        number = number_of(symbol)
        if number is None:
            rank = max(rank, symbol.rank or 0)
        else:
            found[i] = number
    return found if rank == node.outputs[0].rank else {}


def _worth_it(group: _Group) -> bool:
    """Whether the group is more than one node, or that one gains by having literals."""
    first = group.nodes[0]
    return len(group.nodes) > 1 or (first.op is not Calculate and bool(_numbers(first)))


def _calculate(group: _Group, new: Mapping[Symbol, Symbol]) -> Symbol:
    """The one node of a group, over renewed inputs."""
    root = group.nodes[0]
    inputs: dict[Symbol, Expr] = {}
    values: dict[Symbol, Scalar] = {}
    for node in reversed(group.nodes):
        operands: dict[int, Scalar] = dict(_numbers(node))
        for i, symbol in enumerate(node.inputs):
            if symbol is None or i in operands:
                continue
            if symbol not in values:
                values[symbol] = inputs[symbol] = argument(len(inputs))
            operands[i] = values[symbol]
        own = _expression(node)
        assert own is not None
        values[node.outputs[0]] = substitute(own, operands)
    attrs = {"expr": simplified(values[root.outputs[0]]), "dtype": root.outputs[0].dtype}
    return Node(
        Calculate,
        tuple(new.get(s, s) for s in inputs),
        attrs,
        (root.outputs[0].type,),
        scope=root.scope,
        where=root.where,
    ).outputs[0]
