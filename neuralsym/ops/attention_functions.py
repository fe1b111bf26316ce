"""The function of attention whose modifiers are Python functions: flex_attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neuralsym.core.body import close, trace
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import constant
from neuralsym.core.op import Call
from neuralsym.core.registry import apply, check_attributes
from neuralsym.core.symbol import Symbol, SymbolLike
from neuralsym.core.traverse import inlined
from neuralsym.dtypes import NumberType
from neuralsym.errors import user_line
from neuralsym.ops.attention import FlexAttention

Modifier = Callable[[Symbol], Any] | Graph


def flex_attention(
    q: SymbolLike,
    k: SymbolLike,
    v: SymbolLike,
    *,
    score_mod: Modifier | None = None,
    prob_mod: Modifier | None = None,
    scale: float | None = None,
    softmax_precision: NumberType | str | int | None = None,
    name: str | None = None,
) -> Symbol:
    """prob_mod(softmax(score_mod(Q K^T * scale))) V over heads.

    q: [batch, heads, length, size]; k, v: [batch, key heads, keys, size or value size], where the
    key heads divide the heads. score_mod, prob_mod: functions, or graphs of one input, from a
    tensor [batch, heads, length, keys] of `softmax_precision` to one of that type; functions may
    use any symbol around. scale: 1/sqrt(size) by default. softmax_precision: float32 by default,
    float64 for inputs of float64. Raises TypeMismatch when a modifier gives another type. (ONNX:
    FlexAttention, ai.onnx.preview)
    """
    where = user_line()
    inputs = [s if isinstance(s, Symbol) else constant(s) for s in (q, k, v)]
    settings = {"scale": scale, "softmax_precision": softmax_precision}
    attrs = check_attributes(FlexAttention, settings, where)
    given = {"score_mod": score_mod, "prob_mod": prob_mod}
    modifiers = {key: _function(each) for key, each in given.items() if each is not None}
    call = Call(FlexAttention, tuple(inputs), attrs, 1, where)
    FlexAttention.check(call)
    scores = FlexAttention.scores_type(call)
    traced = [
        trace(each, [scores], f"{key} of flex_attention", where) for key, each in modifiers.items()
    ]
    bodies, captures = close(traced)
    attrs.update(zip(modifiers, bodies, strict=True))
    return apply(FlexAttention, inputs, attrs, name=name, captures=captures, where=where)[0]


def _function(given: Modifier) -> Callable[[Symbol], Any]:
    """A modifier as a function; a graph is applied node by node."""
    if not isinstance(given, Graph):
        return given
    graph = given

    def applied(scores: Symbol) -> Any:
        made = inlined(graph, [scores])
        return made[0] if len(made) == 1 else made

    return applied
