"""Walking and rebuilding of nodes, without recursion: depth is no limit."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralsym.core.leaves import Constant, Variable, Weight
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import TensorType, Type
from neuralsym.errors import GraphError

if TYPE_CHECKING:
    from neuralsym.core.graph import Graph

LEAVES = (Variable, Weight, Constant)


def topological(roots: Iterable[Node], stop: Container[Symbol] = ()) -> Iterator[Node]:
    """Every node behind `roots`, each after what it needs; nothing behind the symbols of `stop`."""
    done: set[Node] = set()
    for root in roots:
        if root in done:
            continue
        stack: list[tuple[Node, Iterator[Symbol]]] = [(root, iter(root.operands))]
        under_way = {root}
        while stack:
            node, rest = stack[-1]
            for symbol in rest:
                child = symbol.node
                if child in done or symbol in stop:
                    continue
                if child in under_way:
                    raise GraphError(f"{child.describe()} depends on itself")
                under_way.add(child)
                stack.append((child, iter(child.operands)))
                break
            else:
                stack.pop()
                under_way.discard(node)
                done.add(node)
                yield node


def renewed(node: Node, new: Mapping[Symbol, Symbol]) -> Node:
    """The node with the symbols that `new` has in the place of its operands; itself if none."""
    if not any(s in new for s in node.operands):
        return node
    inputs = tuple(None if s is None else new.get(s, s) for s in node.inputs)
    return rebuild(node, inputs, captures=tuple(new.get(s, s) for s in node.captures))


def rebuild(
    node: Node,
    inputs: tuple[Symbol | None, ...],
    *,
    attrs: Mapping[str, Any] | None = None,
    captures: tuple[Symbol, ...] | None = None,
) -> Node:
    """The node with other inputs or attributes; its types are inferred anew if they may differ."""
    from neuralsym.core.infer import infer

    captures = node.captures if captures is None else captures
    unchanged = attrs is None and _allalike(inputs, node.inputs)
    types: tuple[Type, ...] = tuple(s.type for s in node.outputs)
    known = tuple(s._known for s in node.outputs)
    if attrs is None:
        attrs = node.attrs
    if node.op in LEAVES:
        types, known = (_leaf_type(attrs),), (None,)
    elif not (unchanged and _allalike(captures, node.captures)):
        call = Call(node.op, inputs, attrs, len(node.outputs), node.where, captures)
        if node.op.body_attributes:
            attrs = node.op.refit(call)
            call = replace(call, attrs=attrs)
        types, known = infer(call)
    return Node(
        node.op,
        inputs,
        attrs,
        types,
        known=known,
        name=node.name,
        scope=node.scope,
        where=node.where,
        captures=captures,
    )


def _leaf_type(attrs: Mapping[str, Any]) -> Type:
    if "type" in attrs:
        type_: Type = attrs["type"]
        return type_
    return TensorType(attrs["value"].dtype, attrs["value"].shape)


def _allalike(a: tuple[Symbol | None, ...], b: tuple[Symbol | None, ...]) -> bool:
    return len(a) == len(b) and all(map(alike, a, b))


def alike(a: Symbol | None, b: Symbol | None) -> bool:
    """Whether inference sees no difference."""
    if a is b:
        return True
    if a is None or b is None or a.type != b.type:
        return False
    x, y = a.known, b.known
    return x is y or (x is not None and y is not None and np.array_equal(x, y))


def bodies(node: Node) -> dict[str, Graph]:
    """The bodies of a node by attribute, as they were made: a Graph around has them renamed."""
    return {name: node.attrs[name] for name in node.op.body_attributes if name in node.attrs}


def inlined(body: Graph, values: Sequence[Symbol]) -> list[Symbol]:
    """What the body computes of these values of its parameters, in the place where they are."""
    new = dict(zip(body.inputs, values, strict=True))
    for node in body.nodes:
        made = renewed(node, new)
        if made is not node and node.op is not Variable:
            new.update(zip(node.outputs, made.outputs, strict=True))
    return [new.get(s, s) for s in body.outputs]
