"""Operators that a user's library has kernels for, kept out of the passes that fuse.

While the passes run, such a node is of a class that no rule knows; before kernels are chosen it is
what it was. So the kernel that was registered is the one that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from functools import cache
from types import new_class
from typing import Any, ClassVar

from neuralsym.core.graph import Graph
from neuralsym.core.infer import infer
from neuralsym.core.op import Call, Op
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Type


class Pinned(Op, abstract=True):
    """The base of operators that stand for others while passes run."""

    domain = "neuralsym.pinned"
    original: ClassVar[type[Op]]

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return infer(replace(call, op=cls.original))[0]


@cache
def _pinned(op: Hashable) -> type[Pinned]:
    assert isinstance(op, type)
    assert issubclass(op, Op)

    def fill(body: dict[str, Any]) -> None:
        body.update(
            original=op,
            schema=op.schema,
            function=op.function,
            body_attributes=op.body_attributes,
            deterministic=op.deterministic,
        )

    made = new_class(f"Pinned{op.__name__}", (Pinned,), {"abstract": True}, fill)
    assert issubclass(made, Pinned)
    return made


def pinning(operators: Collection[tuple[str, str]]) -> Callable[[Graph], Graph]:
    """The pass that pins the nodes of these operators, by (domain, name)."""

    def pin(graph: Graph) -> Graph:
        def change(node: Node, inputs: tuple[Symbol | None, ...]) -> Sequence[Symbol] | None:
            if (node.op.domain, node.op.__name__) not in operators:
                return None
            kind: Any = node.op
            return _as(node, inputs, _pinned(kind))

        return graph.map(change)

    return pin


def unpin(graph: Graph) -> Graph:
    """The graph with what was pinned as it was."""

    def change(node: Node, inputs: tuple[Symbol | None, ...]) -> Sequence[Symbol] | None:
        return _as(node, inputs, node.op.original) if issubclass(node.op, Pinned) else None

    return graph.map(change)


def _as(node: Node, inputs: tuple[Symbol | None, ...], op: type[Op]) -> Sequence[Symbol]:
    """The node as one of another class; nothing else about it changes."""
    return Node(
        op,
        inputs,
        node.attrs,
        tuple(s.type for s in node.outputs),
        known=tuple(s.known for s in node.outputs),
        name=node.name,
        scope=node.scope,
        where=node.where,
        captures=node.captures,
    ).outputs
