"""What stands in front of a matrix product becomes part of it: transposes and single factors.

    A @ transpose(B)  ->  FusedMatMul(A, B; trans_b)
    (A * s) @ B       ->  FusedMatMul(A, B; alpha=s)

Attention multiplies with keys that lie by rows, and scales queries and keys before: the product
reads them as they are. A factor that is applied once, behind the sum, differs by a rounding of each
term from one before it, and where only one of the two overflows; so halves, of which a rounding is
visible, are multiplied where they were.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import OWN, is_stored
from neuralsym.core.registry import apply
from neuralsym.core.scope import CURRENT
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import renewed
from neuralsym.passes.fused import FusedMatMul
from neuralsym.passes.identity import order_of
from neuralsym.passes.numbers import WIDE, factor_of, rounded

PRODUCTS = (("MatMul", ""), ("Gemm", ""), ("FusedMatMul", OWN))
"""The operators that multiply matrices, each with its domain."""

_SAME = {"transA": "trans_a", "transB": "trans_b"}


def fold_operands(graph: Graph) -> Graph:
    """Fold swaps of a factor's last two axes, and numbers, into products, bodies included."""
    graph = graph.map_bodies(fold_operands)
    if not any((node.op_type, node.op.domain) in PRODUCTS for node in graph.nodes):
        return graph
    users = graph.users
    results = {*graph.outputs, *graph.updates.values()}
    new: dict[Symbol, Symbol] = {}
    for node in graph.nodes:
        folded = _folded(node, users, results)
        if folded is not None:
            token = CURRENT.set(node.scope)
            try:
                new[node.outputs[0]] = _product(node, folded, new)
            finally:
                CURRENT.reset(token)
            continue
        made = renewed(node, new)
        if made is not node:
            new.update(zip(node.outputs, made.outputs, strict=True))
    return graph.rewired(new)


@dataclass
class _Side:
    """A factor of a product: what it is made of, and what the product does with it."""

    symbol: Symbol
    transposed: bool = False
    factor: float = 1.0
    order: tuple[int, ...] | None = None
    """Where all axes move: how those but the last are moved before the product swaps two."""


def _folded(
    node: Node, users: Mapping[Symbol, Sequence[Node]], results: Container[Symbol]
) -> list[_Side] | None:
    """Both factors of a product that folds something; None for any other node."""
    if (node.op_type, node.op.domain) not in PRODUCTS or not node.outputs[0].dtype.is_float:
        return None
    given = [s for s in node.inputs[:2] if s is not None]
    if any(s.rank is None or s.rank < 2 for s in given):
        return None
    found = [_side(s, users, results) for s in given]
    if rounded(_alpha(node, found), node.outputs[0].dtype) is None:
        return None
    return found if any(a.symbol is not b for a, b in zip(found, given, strict=True)) else None


def _alpha(node: Node, sides: Sequence[_Side]) -> float:
    """What a product is multiplied with, when its sides have given up their factors."""
    own = 1.0 if node.op_type == "MatMul" else float(node.attr("alpha"))
    return math.prod((own, *(side.factor for side in sides)))


def _side(
    symbol: Symbol, users: Mapping[Symbol, Sequence[Node]], results: Container[Symbol]
) -> _Side:
    side = _Side(symbol)
    while True:
        node = side.symbol.node
        alone = len(users[side.symbol]) == 1 and side.symbol not in results
        inner, factor = _scaled(side.symbol) if alone else (None, 1.0)
        if inner is not None:
            side.symbol, side.factor = inner, side.factor * factor
            continue
        source, order = _turned(node)
        if source is None or side.order is not None:
            return side
        swapped = (*order[:-2], order[-1], order[-2])
        if swapped == tuple(range(len(order))):
            side.symbol, side.transposed = source, not side.transposed
        elif swapped[-1] == len(order) - 1:
            # The last axis stays together: rows are moved, which costs less than elements.
            side.symbol, side.transposed, side.order = source, not side.transposed, swapped
        elif alone and len(users[source]) == 1 and _scaled(source)[0] is not None:
            side.symbol, side.order = source, order
        else:
            return side


def _scaled(symbol: Symbol) -> tuple[Symbol | None, float]:
    """What is multiplied by one number here, and the number; None where nothing is."""
    node = symbol.node
    if node.op_type not in ("Mul", "Div") or node.op.domain or symbol.dtype not in WIDE:
        return None, 1.0
    inner = next((s for s in node.inputs if s is not None and not is_stored(s)), None)
    factor = None if inner is None else factor_of(node, inner)
    return (None, 1.0) if factor is None else (inner, factor)


def _turned(node: Node) -> tuple[Symbol | None, tuple[int, ...]]:
    """What a Transpose of two axes or more moves, and how; None for any other node."""
    if node.op_type != "Transpose" or node.op.domain:
        return None, ()
    source, order = node.inputs[0], order_of(node)
    if source is None or order is None or is_stored(source) or len(order) < 2:
        return None, ()
    return source, order


def _product(node: Node, sides: list[_Side], new: Mapping[Symbol, Symbol]) -> Symbol:
    attrs: dict[str, Any] = {_SAME.get(k, k): v for k, v in node.attrs.items()}
    inputs = [None if s is None else new.get(s, s) for s in node.inputs]
    alpha = rounded(_alpha(node, sides), node.outputs[0].dtype)
    if alpha != attrs.get("alpha", 1.0):
        attrs["alpha"] = alpha
    for i, (name, side) in enumerate(zip(("trans_a", "trans_b"), sides, strict=True)):
        source = new.get(side.symbol, side.symbol)
        inputs[i] = source if side.order is None else ops.transpose(source, perm=side.order)
        if side.transposed:
            attrs[name] = 1 - int(attrs.get(name, 0))
    return apply(FusedMatMul, inputs, attrs, where=node.where)[0]
