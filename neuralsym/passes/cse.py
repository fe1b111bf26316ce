"""Common subexpressions: what is computed twice is computed once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Constant, Variable, Weight
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.text import attribute_text
from neuralsym.core.traverse import renewed

SMALL = 1024
"""Constants of at most so many elements are compared by value; others by identity."""


def share_common(graph: Graph) -> Graph:
    """Keep the first of the nodes that compute the same; random ones and bodies stay apart."""
    graph = graph.map_bodies(share_common)
    seen: dict[Hashable, tuple[Symbol, ...]] = {}
    new: dict[Symbol, Symbol] = {}
    for node in graph.nodes:
        made = renewed(node, new)
        outputs = made.outputs
        key = key_of(made, made.inputs)
        if key is not None:
            outputs = seen.setdefault(key, outputs)
        if outputs is not node.outputs:
            new.update(zip(node.outputs, outputs, strict=True))
    return graph.rewired(new)


def key_of(node: Node, inputs: tuple[Symbol | None, ...]) -> Hashable:
    """What nodes have in common that compute the same of `inputs`; None for one of its own."""
    if node.op is Variable or not node.op.deterministic or node.op.body_attributes:
        return None
    if node.op is Weight:
        # The same tensor given twice; equal values of two weights may come to differ.
        return node.op, id(node.attrs["value"]), node.attr("trainable")
    if node.op.commutative and len(inputs) == 2:
        inputs = tuple(sorted(inputs, key=id))
    attrs = tuple(sorted((name, _attribute(value)) for name, value in node.attrs.items()))
    return node.op, inputs, attrs, len(node.outputs), node.op is Constant


def _attribute(value: Any) -> str:
    """Text that is equal for equal values: minus zero differs from zero, 1 from 1.0 and True."""
    if isinstance(value, Tensor):
        if value.is_drawn and value.size <= SMALL:
            content = repr(value.value.tolist()) if value.dtype == "string" else ""
            return f"{value.dtype}{value.shape}{content or value.value.tobytes().hex()}"
        return f"tensor {id(value)}"
    return f"{type(value).__name__} {attribute_text(value)}"
