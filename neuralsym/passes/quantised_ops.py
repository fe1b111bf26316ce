"""Operators of our own for quantised networks: the CPU engine's integer products, with epilogue.

    sums = Conv(X - x_zero, W - w_zero) + B, or (A - a_zero) @ (B - b_zero) + bias      in int32
    q    = saturate(round(sums * scales) + zero, low, high)
    y    = saturate(round((q - zero) * keep + (Z - z_zero) * other) + sum_zero, sum_low, sum_high)

The scales are one number, or one for each output channel. With `output` int32 the result is the
sums, with float32 sums * scales, with an 8-bit type q, or y where there is a residual Z. An average
is round(sum of (X - x_zero) * ratio / divisor) + zero, saturated. All real numbers are float32;
rounding is half to even.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.leaves import OWN
from neuralsym.core.op import Call, Op, find_op
from neuralsym.core.schema import AttributeSpec, Formal, Schema
from neuralsym.core.symbol import Node
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.evaluate import evaluate

ANY: frozenset[str] = frozenset()
CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
POOL = (
    *("auto_pad", "ceil_mode", "count_include_pad"),
    *("dilations", "kernel_shape", "pads", "strides"),
)
RESULTS = (NumberType.INT32, NumberType.FLOAT32, NumberType.INT8, NumberType.UINT8)


def _integer(name: str, default: int = 0) -> AttributeSpec:
    return AttributeSpec(name, "INT", default=default)


_EPILOGUE = {
    "output": AttributeSpec("output", "NUMBER_TYPE", required=True),
    "zero": _integer("zero"),
    "low": _integer("low"),
    "high": _integer("high", 255),
}
_RESIDUAL = {
    "keep": AttributeSpec("keep", "FLOAT", default=1.0),
    "other": AttributeSpec("other", "FLOAT", default=1.0),
    "z_zero": _integer("z_zero"),
    "sum_zero": _integer("sum_zero"),
    "sum_low": _integer("sum_low"),
    "sum_high": _integer("sum_high", 255),
}


class IntegerConv(Op):
    """A convolution of 8-bit integers, rescaled; Z has the result's shape and an 8-bit type."""

    domain = OWN
    schema = Schema(
        "IntegerConv",
        OWN,
        inputs=(
            Formal("X", "single", "T", ANY),
            Formal("W", "single", "W", ANY),
            Formal("scales", "single", "S", ANY),
            Formal("B", "optional", "B", ANY),
            Formal("Z", "optional", "Z", ANY),
        ),
        outputs=(Formal("Y", "single", "Y", ANY),),
        attributes={
            "auto_pad": AttributeSpec("auto_pad", "STRING", default="NOTSET"),
            "dilations": AttributeSpec("dilations", "INTS"),
            "group": AttributeSpec("group", "INT", default=1),
            "kernel_shape": AttributeSpec("kernel_shape", "INTS"),
            "pads": AttributeSpec("pads", "INTS"),
            "strides": AttributeSpec("strides", "INTS"),
            "x_zero": _integer("x_zero"),
            "w_zero": _integer("w_zero"),
            **_EPILOGUE,
            **_RESIDUAL,
        },
        minimum_inputs=3,
        maximum_inputs=5,
        doc=__doc__ or "",
    )

    @classmethod
    def check(cls, call: Call) -> None:
        check_output(call)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        from neuralsym.core.infer import infer

        attrs = {k: v for k, v in call.attrs.items() if k in CONV}
        plain = replace(call, op=find_op("ConvInteger"), inputs=call.inputs[:2], attrs=attrs)
        types, _ = infer(plain)
        result = types[0]
        assert isinstance(result, TensorType)
        return [TensorType(call.attrs["output"], result.shape)]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        x, w, scales = values[:3]
        sides = [
            (v.astype(np.int64) - node.attr(f"{name}_zero")).astype(np.float64)
            for v, name in ((x, "x"), (w, "w"))
        ]
        attrs = {k: v for k, v in node.attrs.items() if k in CONV}
        types = (TensorType(NumberType.FLOAT64, node.outputs[0].tensor.shape),)
        sums = np.asarray(evaluate(Node(find_op("Conv"), node.inputs[:2], attrs, types), sides)[0])
        shape = (-1, *(1,) * (sums.ndim - 2))
        return [finished(node, sums, np.reshape(scales, shape), values[3:], shape)]


class IntegerMatMul(Op):
    """A matrix product of 8-bit integers, rescaled; B is a matrix, A has any number of rows."""

    domain = OWN
    schema = Schema(
        "IntegerMatMul",
        OWN,
        inputs=(
            Formal("A", "single", "T", ANY),
            Formal("B", "single", "W", ANY),
            Formal("scales", "single", "S", ANY),
            Formal("bias", "optional", "B", ANY),
        ),
        outputs=(Formal("Y", "single", "Y", ANY),),
        attributes={"x_zero": _integer("x_zero"), "w_zero": _integer("w_zero"), **_EPILOGUE},
        minimum_inputs=3,
        maximum_inputs=4,
        doc=__doc__ or "",
    )

    @classmethod
    def check(cls, call: Call) -> None:
        check_output(call)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        a, b = call.shape(0), call.shape(1)
        shape = None if a is None or b is None else (*a[:-1], b[-1])
        return [TensorType(call.attrs["output"], shape)]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        a, b, scales = values[:3]
        left = a.astype(np.float64) - node.attr("x_zero")
        right = b.astype(np.float64) - node.attr("w_zero")
        return [finished(node, left @ right, np.reshape(scales, -1), values[3:], (-1,))]


class IntegerAveragePool(Op):
    """The rescaled mean of a window of 8-bit integers; without kernel_shape, of all pixels."""

    domain = OWN
    schema = Schema(
        "IntegerAveragePool",
        OWN,
        inputs=(Formal("X", "single", "T", ANY),),
        outputs=(Formal("Y", "single", "T", ANY),),
        attributes={
            "auto_pad": AttributeSpec("auto_pad", "STRING", default="NOTSET"),
            "ceil_mode": _integer("ceil_mode"),
            "count_include_pad": _integer("count_include_pad"),
            "dilations": AttributeSpec("dilations", "INTS"),
            "kernel_shape": AttributeSpec("kernel_shape", "INTS"),
            "pads": AttributeSpec("pads", "INTS"),
            "strides": AttributeSpec("strides", "INTS"),
            "ratio": AttributeSpec("ratio", "FLOAT", default=1.0),
            "x_zero": _integer("x_zero"),
            **{name: _EPILOGUE[name] for name in ("zero", "low", "high")},
        },
        minimum_inputs=1,
        maximum_inputs=1,
        doc=__doc__ or "",
    )

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        plain = cls._plain(call)
        types = plain.op.infer(plain)
        assert types is not None
        result = types[0]
        assert isinstance(result, TensorType)
        return [TensorType(call.dtype(0), result.shape)]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        name = "AveragePool" if node.attr("kernel_shape") else "GlobalAveragePool"
        attrs = {k: v for k, v in node.attrs.items() if k in POOL}
        types = (TensorType(NumberType.FLOAT64, node.outputs[0].tensor.shape),)
        levels = values[0].astype(np.float64) - node.attr("x_zero")
        found = evaluate(Node(find_op(name), node.inputs, attrs, types), [levels])[0]
        zero, low, high = (node.attr(n) for n in ("zero", "low", "high"))
        mean = np.rint(np.asarray(found) * np.float32(node.attr("ratio")))
        made = np.clip(mean, low - zero, high - zero) + zero
        return [made.astype(values[0].dtype)]

    @classmethod
    def _plain(cls, call: Call) -> Call:
        """The pool of real numbers that has the same windows."""
        name = "AveragePool" if call.attrs.get("kernel_shape") else "GlobalAveragePool"
        attrs = {k: v for k, v in call.attrs.items() if k in POOL}
        return replace(call, op=find_op(name), attrs=attrs)


def check_output(call: Call) -> None:
    """Raise BadAttribute unless `output` is a type that the results can have."""
    if call.attrs["output"] not in RESULTS:
        call.fail(f"output is {call.attrs['output']!r}, none of {', '.join(RESULTS)}")


def finished(
    node: Node,
    sums: NDArray[Any],
    scales: NDArray[Any],
    rest: Sequence[Any],
    shape: tuple[int, ...],
) -> NDArray[Any]:
    """What the module's formulas make of exact sums; `rest` is the bias and the residual."""
    kind = node.attr("output")
    if rest and rest[0] is not None:
        sums = sums + np.reshape(rest[0], shape)
    if kind is NumberType.INT32:
        return sums.astype(np.int64).astype(np.int32)
    real = sums.astype(np.float32) * scales.astype(np.float32)
    if kind is NumberType.FLOAT32:
        return np.asarray(real, np.float32)
    zero, low, high = (node.attr(name) for name in ("zero", "low", "high"))
    levels = np.clip(np.rint(real), low - zero, high - zero)
    if len(rest) > 1 and rest[1] is not None:
        beside = rest[1].astype(np.float32) - np.float32(node.attr("z_zero"))
        keep, other = np.float32(node.attr("keep")), np.float32(node.attr("other"))
        zero, low, high = (node.attr(f"sum_{name}") for name in ("zero", "low", "high"))
        levels = np.clip(np.rint(levels * keep + beside * other), low - zero, high - zero)
    return np.asarray((levels + zero).astype(kind.numpy))
