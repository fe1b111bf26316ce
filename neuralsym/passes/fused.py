"""Operators of our own that fusing passes make: no file holds them, only the CPU engine's graphs.

    Calculate(x0, x1, ...)          = expr(x0, x1, ...)                for each element, broadcast
    FusedConv(x, w, b?, z?)         = activation(Conv(x, w) + b + z)
    FusedMatMul(a, b, bias?, z?)    = activation(alpha * a' @ b' + beta * bias + z)
    FusedAttention(q, k, v, mask?)  = softmax(scale * q @ k' + mask) @ v

An expression is a `core.scalar.Expr` over `argument(i)`; an activation has the one argument 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from neuralsym.core.broadcast import broadcast_shapes
from neuralsym.core.dim import certainly_differ
from neuralsym.core.leaves import OWN
from neuralsym.core.op import Call, Op, find_op
from neuralsym.core.scalar import Expr, Scalar, argument
from neuralsym.core.schema import AttributeSpec, Formal, Schema
from neuralsym.core.symbol import Node
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.ops.evaluate import evaluate
from neuralsym.ops.values import compute

ANY: frozenset[str] = frozenset()
"""As a formal's allowed types: all of them."""
MANY = 2**31 - 1
_PLAIN: WeakKeyDictionary[Node, Node] = WeakKeyDictionary()
"""The Conv of each FusedConv that was evaluated: its evaluator is made once."""
_RESULT = (Formal("Y", "single", "T", ANY),)


class Calculate(Op):
    """One expression over the elements of any number of inputs, which broadcast together.

    `dtype` is the number type of the result. The inputs may differ in type where the expression
    casts them.
    """

    domain = OWN
    schema = Schema(
        "Calculate",
        OWN,
        inputs=(Formal("X", "variadic", "T", ANY, 1, homogeneous=False),),
        outputs=_RESULT,
        attributes={
            "expr": AttributeSpec("expr", "EXPR", required=True),
            "dtype": AttributeSpec("dtype", "NUMBER_TYPE", required=True),
        },
        minimum_inputs=1,
        maximum_inputs=MANY,
        doc=__doc__ or "",
    )

    @classmethod
    def check(cls, call: Call) -> None:
        expr = call.attrs["expr"]
        if not isinstance(expr, Expr):
            call.fail(f"expr is {expr!r}, not an expression", BadAttribute)
        if not isinstance(call.attrs["dtype"], NumberType):
            call.fail(f"dtype is {call.attrs['dtype']!r}, not a NumberType", BadAttribute)
        missing = [i for i in arguments(expr) if i >= len(call.inputs)]
        if missing:
            call.fail(f"its expression uses argument {missing[0]}, which it lacks", BadAttribute)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        shape = _broadcast(call, *(call.shape(i) for i in range(len(call.inputs))))
        return [TensorType(call.attrs["dtype"], shape)]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        return [compute(node.attrs["expr"], values, node.attrs["dtype"])]


class FusedConv(Op):
    """A Conv with an optional residual of the result's shape and an activation of the sum."""

    domain = OWN
    schema = Schema(
        "FusedConv",
        OWN,
        inputs=(
            Formal("X", "single", "T", ANY),
            Formal("W", "single", "T", ANY),
            Formal("B", "optional", "T", ANY),
            Formal("Z", "optional", "T", ANY),
        ),
        outputs=_RESULT,
        attributes={
            "auto_pad": AttributeSpec("auto_pad", "STRING", default="NOTSET"),
            "dilations": AttributeSpec("dilations", "INTS"),
            "group": AttributeSpec("group", "INT", default=1),
            "kernel_shape": AttributeSpec("kernel_shape", "INTS"),
            "pads": AttributeSpec("pads", "INTS"),
            "strides": AttributeSpec("strides", "INTS"),
            "activation": AttributeSpec("activation", "EXPR"),
        },
        minimum_inputs=2,
        maximum_inputs=4,
        doc=__doc__ or "",
    )

    @classmethod
    def check(cls, call: Call) -> None:
        check_activation(call)
        conv_op = find_op("Conv")
        conv_op.check(_without_epilogue(call, conv_op))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        from neuralsym.core.infer import infer

        types, _ = infer(_without_epilogue(call, find_op("Conv")))
        result = types[0]
        assert isinstance(result, TensorType)
        if call.has(3) and _differ(call.shape(3), result.shape):
            call.fail(f"its residual is {call.type(3)}, its result {result}")
        return [result]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        plain = _PLAIN.get(node)
        if plain is None:
            attrs, types = without_epilogue(node.attrs), (node.outputs[0].type,)
            plain = _PLAIN[node] = Node(find_op("Conv"), node.inputs[:3], attrs, types)
        (value,) = evaluate(plain, values[:3])
        return [_finished(node, value, values)]


class FusedMatMul(Op):
    """A matrix product with transposes, factors, bias, residual and activation.

    A and B have at least two dimensions; trans_a and trans_b swap their last two. The bias
    broadcasts to the result's shape, the residual has it.
    """

    domain = OWN
    schema = Schema(
        "FusedMatMul",
        OWN,
        inputs=(
            Formal("A", "single", "T", ANY),
            Formal("B", "single", "T", ANY),
            Formal("bias", "optional", "T", ANY),
            Formal("Z", "optional", "T", ANY),
        ),
        outputs=_RESULT,
        attributes={
            "trans_a": AttributeSpec("trans_a", "INT", default=0),
            "trans_b": AttributeSpec("trans_b", "INT", default=0),
            "alpha": AttributeSpec("alpha", "FLOAT", default=1.0),
            "beta": AttributeSpec("beta", "FLOAT", default=1.0),
            "activation": AttributeSpec("activation", "EXPR"),
        },
        minimum_inputs=2,
        maximum_inputs=4,
        doc=__doc__ or "",
    )

    @classmethod
    def check(cls, call: Call) -> None:
        check_activation(call)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        a, b = (
            _swapped(call, i, bool(call.attr(name)))
            for i, name in enumerate(("trans_a", "trans_b"))
        )
        if a is None or b is None:
            return [TensorType(call.dtype(0))]
        if _sizes_differ(a[-1], b[-2]):
            call.fail(f"{a[-1]} columns meet {b[-2]} rows")
        batch = _broadcast(call, a[:-2], b[:-2])
        assert batch is not None
        shape = (*batch, a[-2], b[-1])
        if call.has(2):
            wide = _broadcast(call, shape, call.shape(2))
            if wide is not None and _differ(wide, shape):
                call.fail(f"its bias {call.type(2)} does not broadcast to its result {shape}")
        if call.has(3) and _differ(call.shape(3), shape):
            call.fail(f"its residual is {call.type(3)}, its result's shape {shape}")
        return [TensorType(call.dtype(0), shape)]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        a, b = (
            np.swapaxes(v, -1, -2) if node.attr(name) else v
            for v, name in zip(values, ("trans_a", "trans_b"), strict=False)
        )
        made = node.attr("alpha") * (a.astype(_wide(a)) @ b.astype(_wide(b)))
        if len(values) > 2 and values[2] is not None:
            made = made + node.attr("beta") * values[2].astype(made.dtype)
        return [_finished(node, made, values)]


class FusedAttention(Op):
    """A written-out attention: ONNX's Attention as far as softmax goes by the letter.

    Q, K and V are as in Attention, the mask is added. A query whose scores are all minus infinity
    gives NaN, as the softmax that the file holds does; of Attention it would be zeros.
    """

    domain = OWN
    schema = Schema(
        "FusedAttention",
        OWN,
        inputs=(
            Formal("Q", "single", "T", ANY),
            Formal("K", "single", "T", ANY),
            Formal("V", "single", "T", ANY),
            Formal("attn_mask", "optional", "T", ANY),
        ),
        outputs=_RESULT,
        attributes={
            "scale": AttributeSpec("scale", "FLOAT", required=True),
            "q_num_heads": AttributeSpec("q_num_heads", "INT"),
            "kv_num_heads": AttributeSpec("kv_num_heads", "INT"),
        },
        minimum_inputs=3,
        maximum_inputs=4,
        doc=__doc__ or "",
    )

    @classmethod
    def check(cls, call: Call) -> None:
        attention = find_op("Attention")
        attention.check(replace(call, op=attention))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        attention = find_op("Attention")
        types = attention.infer(replace(call, op=attention))
        assert types is not None
        return types[:1]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        heads = node.attr("q_num_heads")
        q, k, v = (
            x if heads is None else x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)
            for x in values[:3]
        )
        scores = node.attr("scale") * (q @ k.swapaxes(2, 3))
        if len(values) > 3 and values[3] is not None:
            scores = scores + values[3]
        with np.errstate(invalid="ignore"):
            powers = np.exp(scores - scores.max(-1, keepdims=True))
        y = powers / powers.sum(-1, keepdims=True) @ v
        return [y if heads is None else y.swapaxes(1, 2).reshape(*values[0].shape[:2], -1)]


def arguments(expr: Scalar) -> list[int]:
    """The inputs that an expression uses, in rising order."""
    found: set[int] = set()
    seen: set[int] = set()
    stack: list[Scalar] = [expr]
    while stack:
        item = stack.pop()
        if not isinstance(item, Expr) or id(item) in seen:
            continue
        seen.add(id(item))
        if item.function == "input":
            found.add(int(item.detail))
        stack.extend(item.operands)
    return sorted(found)


def check_activation(call: Call) -> None:
    """Raise BadAttribute unless `activation` is omitted or an expression of argument 0 alone."""
    activation = call.attrs.get("activation")
    if activation is None:
        return
    if not isinstance(activation, Expr) or arguments(activation) not in ([], [0]):
        call.fail(f"activation is {activation!r}, not an expression of argument(0)", BadAttribute)


def _finished(node: Node, value: Any, values: Sequence[Any]) -> Any:
    """The result: with the residual and the activation, rounded once."""
    if len(values) > 3 and values[3] is not None:
        value = value + values[3].astype(value.dtype)
    activation = node.attrs.get("activation") or argument(0)
    return compute(activation, [value], node.outputs[0].dtype)


def _wide(array: Any) -> Any:
    return np.float64 if array.dtype == np.float64 else np.float32


def without_epilogue(attrs: Any) -> dict[str, Any]:
    """The attributes that a FusedConv shares with Conv."""
    return {k: v for k, v in attrs.items() if k != "activation"}


def _without_epilogue(call: Call, op: type[Op]) -> Call:
    inputs = call.inputs[:3]
    if len(inputs) == 3 and inputs[2] is None:
        inputs = inputs[:2]
    return replace(call, op=op, inputs=inputs, attrs=without_epilogue(call.attrs))


def _swapped(call: Call, index: int, transposed: bool) -> Shape | None:
    shape = call.shape(index)
    if shape is None:
        return None
    if len(shape) < 2:
        call.fail(f"{call.type(index)} is no matrix")
    return (*shape[:-2], shape[-1], shape[-2]) if transposed else shape


def _broadcast(call: Call, *shapes: Shape | None) -> Shape | None:
    try:
        return broadcast_shapes(shapes)
    except ShapeMismatch as error:
        call.fail(str(error))


def _sizes_differ(a: Size, b: Size) -> bool:
    return a is not None and b is not None and certainly_differ(a, b)


def _differ(a: Shape | None, b: Shape | None) -> bool:
    if a is None or b is None:
        return False
    return len(a) != len(b) or any(_sizes_differ(x, y) for x, y in zip(a, b, strict=True))
