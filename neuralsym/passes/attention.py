"""Attention that files write out, made one operator that keeps no matrix of scores.

    reshape(transpose(softmax(q' @ transpose(k') * s + mask) @ v'))
        =  FusedAttention(q, k, v, mask)

q', k' and v' are heads cut from the rows of q, k and v; the operator reads heads where they lie in
the rows, so that nothing is moved at all. Without such cuts it is only taken for long sequences.
Softmax runs block by block under a running maximum: sums are taken in another order.

It runs behind the other fusing passes: the factor, the mask and the swap of the keys' axes are part
of the first product by then.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import OWN
from neuralsym.core.registry import apply, call
from neuralsym.core.scope import CURRENT
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import renewed
from neuralsym.core.types import Size
from neuralsym.dtypes import NumberType
from neuralsym.passes.fused import FusedAttention
from neuralsym.passes.identity import order_of

FEWEST = 8
"""With fewer queries there is little that the matrix of scores costs."""
LONG = 512
"""So long are sequences for which heads that lie apart gain too."""
_HEADS_BEHIND_ROWS = (0, 2, 1, 3)


def fuse_attention(graph: Graph) -> Graph:
    """Fuse what is written out, bodies included."""
    graph = graph.map_bodies(fuse_attention)
    if not any(_is(node, "Softmax") for node in graph.nodes):
        return graph
    users = graph.users
    results = {*graph.outputs, *graph.updates.values()}
    found: dict[Node, _Attention] = {}
    for node in graph.nodes:
        attention = _attention(node, users, results)
        if attention is not None:
            found[attention.last] = attention
    new: dict[Symbol, Symbol] = {}
    for node in graph.nodes if found else ():
        if node in found:
            token = CURRENT.set(node.scope)
            try:
                new[node.outputs[0]] = found[node].build(new)
            finally:
                CURRENT.reset(token)
            continue
        made = renewed(node, new)
        if made is not node:
            new.update(zip(node.outputs, made.outputs, strict=True))
    return graph.rewired(new)


@dataclass(frozen=True)
class _Attention:
    """The operands of an attention, and its last node.

    heads: their number where operands are rows, or [batch, length, heads, size], which rows are.
    """

    operands: tuple[Symbol, Symbol, Symbol]
    mask: Symbol | None
    scale: float
    heads: int | None
    last: Node

    def build(self, new: Mapping[Symbol, Symbol]) -> Symbol:
        given = [None if s is None else new.get(s, s) for s in (*self.operands, self.mask)]
        if self.heads is not None:
            given[:3] = [s if s is None or s.rank == 3 else _joined(s) for s in given[:3]]
        attrs: dict[str, Any] = {"scale": self.scale}
        if self.heads is not None:
            attrs.update(q_num_heads=self.heads, kv_num_heads=self.heads)
        return apply(FusedAttention, given, attrs)[0]


def _attention(
    softmax: Node, users: Mapping[Symbol, Sequence[Node]], results: Container[Symbol]
) -> _Attention | None:
    """The attention around a softmax, if it is one."""

    def only_user(symbol: Symbol) -> Node | None:
        following = users[symbol]
        return following[0] if len(following) == 1 and symbol not in results else None

    if not _is(softmax, "Softmax") or softmax.inputs[0] is None:
        return None
    scores, shares = softmax.inputs[0], softmax.outputs[0]
    first, second = scores.node, only_user(shares)
    if shares.rank != 4 or softmax.attr("axis") not in (-1, 3) or only_user(scores) is None:
        return None
    if shares.dtype is not NumberType.FLOAT32 or second is None or not _is(second, "MatMul"):
        return None
    if not _gives_scores(first) or second.inputs[0] is not shares:
        return None
    q, k, v = first.inputs[0], first.inputs[1], second.inputs[1]
    mask = _mask(first)
    if q is None or k is None or v is None or v is shares or isinstance(mask, bool):
        return None
    sizes = _sizes(q, k, v)
    if sizes is None or not _fits(mask, scores):
        return None
    heads, queries, keys = sizes
    if isinstance(queries, int) and queries < FEWEST:
        return None
    scale = float(first.attr("alpha"))
    a, b, c = (_rows(s) for s in (q, k, v))
    turned = only_user(second.outputs[0])
    joined = only_user(turned.outputs[0]) if turned is not None and _is_apart(turned) else None
    if a is not None and b is not None and c is not None and joined is not None:
        before, after = second.outputs[0].shape, joined.outputs[0].shape
        if _is(joined, "Reshape") and _is_joined(before, after):
            return _Attention((a, b, c), mask, scale, heads, joined)
    if isinstance(queries, int) and isinstance(keys, int) and min(queries, keys) >= LONG:
        return _Attention((q, k, v), mask, scale, None, second)
    return None


def _is(node: Node, name: str, domain: str = "") -> bool:
    return node.op_type == name and node.op.domain == domain


def _is_apart(node: Node) -> bool:
    """Whether it puts heads before rows, or rows before heads."""
    return _is(node, "Transpose") and order_of(node) == _HEADS_BEHIND_ROWS


def _gives_scores(node: Node) -> bool:
    """Whether it is q @ transpose(k) with a factor and a mask, and nothing after them."""
    if not _is(node, "FusedMatMul", OWN) or node.attrs.get("activation") is not None:
        return False
    return bool(node.attr("trans_b")) and not node.attr("trans_a") and node.attr("beta") == 1


def _mask(node: Node) -> Symbol | bool | None:
    """What is added to the scores; False if that is two things."""
    given = [s for s in node.inputs[2:] if s is not None]
    return False if len(given) > 1 else given[0] if given else None


def _sizes(q: Symbol, k: Symbol, v: Symbol) -> tuple[int, Size, Size] | None:
    """Heads, queries and keys, if the operands fit and heads and their sizes are known."""
    a, b, c = q.shape, k.shape, v.shape
    if a is None or b is None or c is None or not len(a) == len(b) == len(c) == 4:
        return None
    fixed = (a[1], a[3], c[3])
    if not all(isinstance(size, int) and size > 0 for size in fixed) or None in (*a, *b, *c):
        return None
    if a[0] != b[0] or a[1] != b[1] or a[3] != b[3] or b[:3] != c[:3]:
        return None
    heads = a[1]
    return (heads, a[2], b[2]) if isinstance(heads, int) else None


def _fits(mask: Symbol | None, scores: Symbol) -> bool:
    """Whether a mask has a number for each key, and otherwise broadcasts to the scores."""
    if mask is None:
        return True
    shape, whole = mask.shape, scores.shape
    if not shape or whole is None or shape[-1] != whole[-1] or mask.dtype is not scores.dtype:
        return False
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(whole), strict=False))


def _rows(heads: Symbol) -> Symbol | None:
    """The rows from which heads were cut and put before them; None if they were not put there.

    Where something was done to heads first, such as making their lengths one: what it gave.
    """
    turned = heads.node
    if not _is_apart(turned) or turned.inputs[0] is None:
        return None
    apart = turned.inputs[0]
    x = apart.node.inputs[0] if _is(apart.node, "Reshape") else None
    return x if x is not None and _is_joined(heads.shape, x.shape) else apart


def _joined(apart: Symbol) -> Symbol:
    """[batch, length, heads, size] as rows."""
    heads, size = (apart.shape or ())[2:]
    assert isinstance(heads, int) and isinstance(size, int)  # _sizes has asked
    return call("Reshape", apart, np.array([0, 0, heads * size], np.int64))


def _is_joined(heads: tuple[Size, ...] | None, rows: tuple[Size, ...] | None) -> bool:
    """Whether [batch, heads, length, size] lies as [batch, length, heads * size]."""
    if heads is None or rows is None or len(heads) != 4 or len(rows) != 3:
        return False
    batch, count, length, size = heads
    if not isinstance(count, int) or not isinstance(size, int):
        return False
    return None not in rows and rows == (batch, length, count * size)
