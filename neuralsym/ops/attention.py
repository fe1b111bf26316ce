"""Attention and its kin: scaled products of queries and keys, rotary positions, linear forms."""

from __future__ import annotations

from neuralsym.core.op import Call
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.ops.base import (
    Contraction,
    bad,
    check_choice,
    check_range,
    check_rank,
    same_type,
)

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
        for name in ("q_num_heads", "kv_num_heads"):
            check_range(call, name, 1, _MOST_HEADS)
            if call.type(0).rank == 3 and call.attr(name) is None:
                call.fail(f"{name} must be given when Q, K and V have three axes", bad)
        check_choice(call, "is_causal", (0, 1))
        check_choice(call, "qk_matmul_output_mode", (0, 1, 2, 3))
        check_range(call, "softcap", 0)
        check_range(call, "left_window_size", -1)
        check_range(call, "right_window_size", -1)

    @classmethod
    def infer(cls, call: Call) -> list[Type] | None:
        q, k, v = call.shape(0), call.shape(1), call.shape(2)
        if q is None or k is None or v is None or not len(q) == len(k) == len(v):
            return None
        batch = q[0]
        if len(q) == 4:
            q_heads, q_length, size = q[1:]
            kv_heads, length, _ = k[1:]
            v_size = v[3]
        else:
            q_heads, kv_heads = call.attr("q_num_heads"), call.attr("kv_num_heads")
            q_length, size = q[1], _share(call, q[2], q_heads, "Q")
            length = k[1]
            _share(call, k[2], kv_heads, "K")
            v_size = _share(call, v[2], kv_heads, "V")
        _check_groups(call, q_heads, kv_heads)
        past = call.shape(4) if call.has(4) else None
        total: Size = length
        if call.has(4):
            total = None if past is None or past[2] is None or length is None else past[2] + length
        y: Shape = (batch, q_heads, q_length, v_size)
        if len(q) == 3:
            y = (batch, q_length, None if v_size is None else call.attr("q_num_heads") * v_size)
        t1, t2 = call.dtype(0), call.dtype(2)
        return [
            TensorType(t1, y),
            TensorType(t1, (batch, kv_heads, total, size)),
            TensorType(t2, (batch, kv_heads, total, v_size)),
            TensorType(t1, (batch, q_heads, q_length, total)),
        ]


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
        for i in range(3):
            check_rank(call, i, 3, 3)
        _check_groups(call, call.attr("q_num_heads"), call.attr("kv_num_heads"))

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        q, k, v = call.shape(0), call.shape(1), call.shape(2)
        q_heads, kv_heads = call.attr("q_num_heads"), call.attr("kv_num_heads")
        size = None if k is None else _share(call, k[2], kv_heads, "key")
        v_size = None if v is None else _share(call, v[2], kv_heads, "value")
        batch, length = (None, None) if q is None else (q[0], q[1])
        if q is not None:
            _share(call, q[2], q_heads, "query")
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

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [same_type(call)]


class FlexAttention(Contraction):
    """Attention whose scores and probabilities pass through bodies of the user's."""

    domain = "ai.onnx.preview"

    @classmethod
    def check(cls, call: Call) -> None:
        for i in range(3):
            check_rank(call, i, 4, 4)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        q, v = call.shape(0), call.shape(2)
        head: Shape = (None,) * 3 if q is None else q[:3]
        return [TensorType(call.dtype(0), (*head, None if v is None else v[3]))]
