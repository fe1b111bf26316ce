"""Attention and its kin: scaled products of queries and keys, rotary positions, linear forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neuralsym.core import registry
from neuralsym.core.body import refitted
from neuralsym.core.check import agree
from neuralsym.core.graph import Graph
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import inlined
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType, from_onnx
from neuralsym.errors import TypeMismatch
from neuralsym.ops.attention_expansion import Heads, expand_attention
from neuralsym.ops.base import (
    Contraction,
    bad,
    check_choice,
    check_range,
    check_rank,
    same_type,
)
from neuralsym.ops.expansions import converted
from neuralsym.ops.shapes import merged

_MOST_HEADS = 2**20


class Attention(Contraction):
    """softmax(Q K^T * scale + mask) V over heads (arXiv 1706.03762).

    Q, K and V are [batch, heads, length, size], or [batch, length, heads*size] with
    `q_num_heads` and `kv_num_heads` given.
    """

    @classmethod
    def check(cls, call: Call) -> None:
        for i in range(3):
            check_rank(call, i, 3, 4)
        for i in (4, 5):
            if call.has(i):
                check_rank(call, i, 4, 4)
        if call.has(3):
            check_rank(call, 3, 1, 4)
        if call.has(6):
            check_rank(call, 6, 1, 1)
        asked = call.attr("softmax_precision")
        if asked is not None:
            check_choice(call, "softmax_precision", tuple(kind.onnx for kind in _PRECISIONS))
        for name in ("q_num_heads", "kv_num_heads"):
            check_range(call, name, 1, _MOST_HEADS)
            if call.type(0).rank == 3 and call.attr(name) is None:
                call.fail(f"{name} must be given when Q, K and V have three axes", bad)
        if call.has(4) != call.has(5):
            call.fail("past_key and past_value are given together or not at all", bad)
        check_choice(call, "is_causal", (0, 1))
        check_choice(call, "qk_matmul_output_mode", (0, 1, 2, 3))
        check_range(call, "softcap", 0)
        check_range(call, "left_window_size", -1)
        check_range(call, "right_window_size", -1)

    @classmethod
    def infer(cls, call: Call) -> list[Type] | None:
        q, k, v = call.shape(0), call.shape(1), call.shape(2)
        t1, t2 = call.dtype(0), call.dtype(2)
        if q is None or k is None or v is None:
            four: Shape = (None,) * 4
            y = TensorType(t1, None if q is None else (None,) * len(q))
            return [y, TensorType(t1, four), TensorType(t2, four), TensorType(t1, four)]
        if not len(q) == len(k) == len(v):
            call.fail(f"Q, K and V have {len(q)}, {len(k)} and {len(v)} axes: all have as many")
        batch = merged(call, merged(call, q[0], k[0], "batch of Q and K"), v[0], "batch of V")
        if call.has(6):
            valid = call.shape(6)
            if valid is not None and len(valid) == 1:
                merged(call, batch, valid[0], "batch of Q and entries of nonpad_kv_seqlen")
        if len(q) == 4:
            q_heads, q_length, size = q[1:]
            kv_heads = merged(call, k[1], v[1], "heads of K and V")
            length = merged(call, k[2], v[2], "lengths of K and V")
            size, v_size = merged(call, size, k[3], "sizes of the heads of Q and K"), v[3]
        else:
            q_heads, kv_heads = call.attr("q_num_heads"), call.attr("kv_num_heads")
            q_length, size = q[1], _share(call, q[2], q_heads, "Q")
            length = merged(call, k[1], v[1], "lengths of K and V")
            size = merged(call, size, _share(call, k[2], kv_heads, "K"), "head sizes of Q and K")
            v_size = _share(call, v[2], kv_heads, "V")
        _check_groups(call, q_heads, kv_heads)
        past = call.shape(4) if call.has(4) else None
        total: Size = length
        if call.has(4):
            total = None if past is None or past[2] is None or length is None else past[2] + length
        shape: Shape = (batch, q_heads, q_length, v_size)
        if len(q) == 3:
            shape = (batch, q_length, None if v_size is None else call.attr("q_num_heads") * v_size)
        return [
            TensorType(t1, shape),
            TensorType(t1, (batch, kv_heads, total, size)),
            TensorType(t2, (batch, kv_heads, total, v_size)),
            TensorType(t1, (batch, q_heads, q_length, total)),
        ]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        return expand_attention(node)


def _share(call: Call, width: Size, heads: int, what: str) -> Size:
    if width is None:
        return None
    if isinstance(width, int) and width % heads:
        call.fail(f"{what} has {width} columns, which {heads} heads cannot share")
    return width // heads


def _check_groups(call: Call, heads: Size, kv_heads: Size) -> None:
    """Each head of keys and values serves as many heads of queries as another."""
    if not isinstance(heads, int) or not isinstance(kv_heads, int) or heads == kv_heads:
        return
    if not kv_heads or heads % kv_heads:
        call.fail(f"{heads} query heads are no multiple of {kv_heads} key heads")


class LinearAttention(Contraction):
    """Attention by a recurrent state instead of a softmax; the state is the second output."""

    @classmethod
    def check(cls, call: Call) -> None:
        rules = ("linear", "gated", "delta", "gated_delta")
        check_choice(call, "update_rule", rules)
        for name in ("q_num_heads", "kv_num_heads", "chunk_size"):
            check_range(call, name, 1, _MOST_HEADS)
        for i in (0, 1, 2, 4, 5):
            if call.has(i):
                check_rank(call, i, 3, 3)
        if call.has(3):
            check_rank(call, 3, 4, 4)
        _check_groups(call, call.attr("q_num_heads"), call.attr("kv_num_heads"))
        rule = call.attr("update_rule")
        for i, name, word in ((4, "decay", "gated"), (5, "beta", "delta")):
            if call.has(i) != (word in rule):
                needs = f"has no {name}" if call.has(i) else f"needs {name}"
                call.fail(f"update_rule={rule!r} {needs}", bad)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        q, k, v = call.shape(0), call.shape(1), call.shape(2)
        q_heads, kv_heads = call.attr("q_num_heads"), call.attr("kv_num_heads")
        size = None if k is None else _share(call, k[2], kv_heads, "key")
        v_size = None if v is None else _share(call, v[2], kv_heads, "value")
        batch: Size = None
        length: Size = None
        for given in (q, k, v):
            if given is not None:
                batch = merged(call, batch, given[0], "batch of query, key and value")
                length = merged(call, length, given[1], "length of query, key and value")
        if q is not None:
            size = merged(call, size, _share(call, q[2], q_heads, "query"), "size of a head")
        past = call.shape(3) if call.has(3) else None
        if past is not None:
            batch = merged(call, batch, past[0], "batch of query and past_state")
            size = merged(call, size, past[2], "size of a key's head and past_state")
            v_size = merged(call, v_size, past[3], "size of a value's head and past_state")
        gates = call.shape(4) if call.has(4) else None
        if gates is not None and isinstance(gates[2], int) and gates[2] != kv_heads:
            _share(call, gates[2], kv_heads, "decay")
            merged(call, gates[2] // kv_heads, size, "decays of a head and key size")
        rates = call.shape(5) if call.has(5) else None
        if rates is not None and isinstance(rates[2], int) and rates[2] not in (1, kv_heads):
            call.fail(f"beta has {rates[2]} columns, which is neither 1 nor {kv_heads} heads")
        wide = None if v_size is None else v_size * q_heads
        state = call.dtype(3) if call.has(3) else call.dtype(0)
        return [
            TensorType(call.dtype(0), (batch, length, wide)),
            TensorType(state, (batch, kv_heads, size, v_size)),
        ]


class RotaryEmbedding(Contraction):
    """Pairs of features rotated by angles that grow with the position (arXiv 2104.09864)."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_rank(call, 0, 3, 4)
        check_choice(call, "interleaved", (0, 1))
        check_range(call, "rotary_embedding_dim", 0)
        check_range(call, "num_heads", 0, _MOST_HEADS)
        for i in (1, 2):
            check_rank(call, i, 2, 3)
        if call.has(3):
            check_rank(call, 3, 2, 2)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        x, rotated = call.shape(0), call.attr("rotary_embedding_dim")
        if x is not None and len(x) == 3 and not call.attr("num_heads"):
            call.fail("num_heads must be given when X has three axes", bad)
        if x is not None and not rotated:
            rotated = x[-1] if len(x) == 4 else _share(call, x[-1], call.attr("num_heads"), "X")
        for i in (1, 2):
            angles = call.shape(i)
            if rotated and angles is not None:
                half = f"{call.label(i)} has an angle for each pair of features that is rotated"
                merged(call, angles[-1], rotated // 2, half)
        return [same_type(call)]


class FlexAttention(Contraction):
    """softmax(Q K^T * scale) V whose scores and probabilities pass through bodies of the user's.

    Q is [batch, heads, length, size], K and V have as many heads or a divisor of them. From the
    scores to the product with V all is computed in `softmax_precision`: float32 unless it says
    otherwise, float64 for inputs of float64.
    """

    domain = "ai.onnx.preview"

    @classmethod
    def check(cls, call: Call) -> None:
        for i in range(3):
            check_rank(call, i, 4, 4)
        check_choice(call, "softmax_precision", tuple(kind.onnx for kind in _PRECISIONS))

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        q, k, v = call.shape(0), call.shape(1), call.shape(2)
        if q is not None and k is not None:
            _check_groups(call, q[1], k[1])
            merged(call, q[3], k[3], "the head sizes of Q and K")
        if k is not None and v is not None:
            merged(call, k[1], v[1], "the heads of K and V")
            merged(call, k[2], v[2], "the lengths of K and V")
        scores = cls.scores_type(call)
        for name in cls.body_attributes:
            if name in call.attrs:
                _check_modifier(call, name, scores)
        head: Shape = (None,) * 3 if q is None else q[:3]
        return [TensorType(call.dtype(0), (*head, None if v is None else v[3]))]

    @classmethod
    def refit(cls, call: Call) -> Mapping[str, Any]:
        scores = cls.scores_type(call)
        bodies = [name for name in cls.body_attributes if name in call.attrs]
        made = {name: refitted(call.attrs[name], [scores], call.captures) for name in bodies}
        return {**call.attrs, **made}

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        q, k, v = (s for s in node.inputs if s is not None)
        if q.shape is None or k.shape is None or v.shape is None:
            return None
        # The products of narrow floats are as wide as the softmax: nothing overflows or is rounded
        # between them. A softmax that is asked to be narrower than its inputs narrows the scores.
        precision = _precision(q.dtype, node.attr("softmax_precision"))
        wide = max(precision, q.dtype, key=lambda kind: kind.itemsize)
        heads = Heads(q, k, v)
        scores = converted(heads.scores(node.attr("scale"), wide), precision)
        scores = cls._modified(node, "score_mod", scores)
        weights = registry.call("Softmax", scores, axis=-1)
        weights = cls._modified(node, "prob_mod", weights)
        return [converted(heads.weighted(weights), q.dtype)]

    @classmethod
    def scores_type(cls, call: Call) -> TensorType:
        """The type of the scores, which a body takes and gives."""
        q, k = call.shape(0), call.shape(1)
        head: Shape = (None,) * 3 if q is None else q[:3]
        shape = (*head, None if k is None else k[2])
        return TensorType(_precision(call.dtype(0), call.attr("softmax_precision")), shape)

    @staticmethod
    def _modified(node: Node, name: str, x: Symbol) -> Symbol:
        body = node.attrs.get(name)
        return x if body is None else inlined(body, [x, *node.captures])[0]


_PRECISIONS = (
    *(NumberType.FLOAT32, NumberType.FLOAT16),
    *(NumberType.FLOAT64, NumberType.BFLOAT16),
)
"""What `softmax_precision` may be."""


def _precision(own: NumberType, asked: int | None) -> NumberType:
    if asked is not None:
        return from_onnx(asked)
    return NumberType.FLOAT64 if own is NumberType.FLOAT64 else NumberType.FLOAT32


def _check_modifier(call: Call, name: str, scores: TensorType) -> None:
    """The body takes the scores, and gives what has their shape and number type."""
    body = call.attrs[name]
    if not isinstance(body, Graph):
        call.fail(f"{name} is {body!r}, not a Graph", TypeMismatch)
    if len(body.inputs) != 1 + len(call.captures) or len(body.outputs) != 1:
        call.fail(
            f"{name} takes {len(body.inputs) - len(call.captures)} tensors and gives "
            f"{len(body.outputs)}: it must take one and give one",
            bad,
        )
    for what, symbol in (("takes", body.inputs[0]), ("gives", body.outputs[0])):
        if not agree(symbol.type, scores):
            call.fail(f"{name} {what} {symbol.type} where the scores are {scores}", TypeMismatch)
