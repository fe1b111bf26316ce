"""Transposes of matrices become part of the product that reads them.

    A @ transpose(B)  ->  FusedMatMul(A, B; trans_b)

Attention multiplies with keys that lie by rows: the product reads them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import OWN, is_stored
from neuralsym.core.registry import apply
from neuralsym.core.symbol import Node, Symbol
from neuralsym.passes.fused import FusedMatMul

SIDES = ("trans_a", "trans_b")


def fold_transposes(graph: Graph) -> Graph:
    """Fold what swaps the last two axes of a factor into its product, bodies included."""
    return graph.map(_folded)


def _folded(node: Node, inputs: tuple[Symbol | None, ...]) -> Sequence[Symbol] | None:
    if (node.op_type, node.op.domain) not in (("MatMul", ""), ("FusedMatMul", OWN)):
        return None
    if not node.outputs[0].dtype.is_float:
        return None
    factors = [s for s in inputs[:2] if s is not None]
    if any(s.rank is None or s.rank < 2 for s in factors):
        return None
    attrs = {} if node.op_type == "MatMul" else dict(node.attrs)
    given = list(inputs)
    for i, (side, factor) in enumerate(zip(SIDES, factors, strict=True)):
        source = _swapped(factor)
        if source is not None:
            given[i] = source
            attrs[side] = 1 - int(attrs.get(side, 0))
    if given == list(inputs):
        return None
    return apply(FusedMatMul, given, attrs, where=node.where)


def _swapped(x: Symbol) -> Symbol | None:
    """What x is the transpose of, if only its last two axes are swapped."""
    node = x.node
    if node.op_type != "Transpose" or node.op.domain:
        return None
    source = node.inputs[0]
    rank = x.rank or 0
    assert source is not None
    perm = node.attr("perm") or tuple(range(rank))[::-1]
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    return source if tuple(perm) == swapped and not is_stored(source) else None
