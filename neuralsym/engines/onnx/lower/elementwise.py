"""Operators of single elements: what is put together of older ones, and types that came later."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from neuralsym.core.infer import type_name
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx import opsets
from neuralsym.engines.onnx.constants import ints, like
from neuralsym.engines.onnx.lower.target import Target

# What only compares, chooses or moves is the same in any type that holds the values exactly.
CHOOSING = frozenset(
    {
        *("ArgMax", "ArgMin", "Clip", "Compress", "CumSum", "Equal", "Gather", "Greater", "Less"),
        *("Max", "MaxPool", "Min", "MaxUnpool", "NonZero", "OneHot", "Pad", "ReduceMax"),
        *("ReduceMin", "Relu", "Resize", "ReverseSequence", "Sign", "TopK", "Unique", "Where"),
        *("GreaterOrEqual", "LessOrEqual", "EyeLike", "IsNaN", "Trilu", "Expand", "Tile"),
        *("DepthToSpace", "SpaceToDepth", "ScatterElements", "Neg", "Abs", "Range"),
    }
)
# What counts wraps around: wider integers, cut back, give the same.
COUNTING = frozenset({"Add", "Sub", "Mul", "Div", "Mod", "MatMul", "Gemm", "ReduceSum", "Sum"})
_WIDER = ("int32", "int64", "float32", "float64")


def other_types(t: Target) -> Sequence[Symbol] | None:
    """The operator in a type that the opset takes, between casts."""
    schema = opsets.schema_at("", t.name, t.opset)
    if schema is None or schema.deprecated or t.name in ("Cast", "CastLike"):
        return None
    if t.node.captures or t.node.op.body_attributes:
        return None
    changes: dict[str, NumberType] = {}
    newest = t.node.op.schema
    for i, symbol in enumerate(t.node.inputs):
        if symbol is None or not isinstance(symbol.type, TensorType) or i >= schema.max_input:
            continue
        allowed = schema.inputs[min(i, len(schema.inputs) - 1)].types
        if type_name(symbol.type) not in allowed:
            variable = newest.formal_input(i).variable
            wider = _wider(t.name, symbol.dtype, allowed)
            if wider is None or "(" in variable:
                return None
            changes[variable] = wider
    if not changes:
        return None
    inputs = [
        s if s is None else t.cast(s, changes.get(newest.formal_input(i).variable, s.dtype))
        for i, s in enumerate(t.node.inputs)
    ]
    made = t.again(*inputs)
    if t.name == "ReduceMax" and t.node.outputs[0].dtype == "bool":
        return [t.op("Greater", made[0], like(made[0], 0))]  # of nothing it is below zero
    return [t.cast(a, b.dtype) for a, b in zip(made, t.node.outputs, strict=True)]


def _wider(name: str, own: NumberType, allowed: Sequence[str]) -> NumberType | None:
    """A type that holds all values of `own`, and in which the operator means the same."""
    if own in ("float16", "bfloat16"):
        choices: tuple[str, ...] = ("float32",)
    elif own in ("bool", "int8", "uint8", "int16", "uint16"):
        choices = _WIDER if name in CHOOSING else _WIDER[:2] if name in COUNTING else ()
    elif own in ("int32", "uint32"):
        choices = ("int64", "float64") if name in CHOOSING else ()
        choices = ("int64",) if name in COUNTING else choices
    else:
        return None
    for choice in choices:
        kind = NumberType(choice)
        if type_name(TensorType(kind)) in allowed:
            return kind
    return None


def equal(t: Target) -> Sequence[Symbol] | None:
    """Floats before 11: neither less nor greater, and both are numbers."""
    if t.opset >= 11 or not t.x.dtype.is_float:
        return None
    a, b = t.x, t.input(1)
    neither = t.op("And", *(t.op("Not", t.op(n, a, b)) for n in ("Less", "Greater")))
    return [t.op("And", neither, t.op("And", _is_number(t, a), _is_number(t, b)))]


def _is_number(t: Target, x: Symbol) -> Symbol:
    below, above = (t.op(n, x, like(x, v)) for n, v in (("Less", np.inf), ("Greater", -np.inf)))
    return t.op("Or", below, above)


def is_nan(t: Target) -> Sequence[Symbol] | None:
    return [t.op("Not", _is_number(t, t.x))]


def is_infinite(t: Target) -> Sequence[Symbol] | None:
    """The largest numbers are below infinity: nothing else is above them."""
    x = t.x if t.x.dtype in ("float32", "float64") else t.cast(t.x, NumberType.FLOAT32)
    largest = np.finfo(x.dtype.numpy).max
    found = []
    if t.attr("detect_positive"):
        found.append(t.op("Greater", x, like(x, largest)))
    if t.attr("detect_negative"):
        found.append(t.op("Less", x, like(x, -largest)))
    if not found:
        return [t.op("Not", t.op("Equal", t.x, t.x))] if t.opset >= 11 else None
    return [found[0] if len(found) == 1 else t.op("Or", *found)]


def power(t: Target) -> Sequence[Symbol] | None:
    """Before 12 base and exponent were floats of one type."""
    if t.opset >= 12:
        return None
    base, exponent = t.x.dtype, t.input(1).dtype
    if base is exponent and base.is_float:
        return None
    both = {base, exponent}
    wide = NumberType.FLOAT32 if both <= {"float32", "float16"} else NumberType.FLOAT64
    made = t.op("Pow", t.cast(t.x, wide), t.cast(t.input(1), wide))
    return [t.cast(made, base)]


def several(t: Target) -> Sequence[Symbol] | None:
    """Before 8 these took inputs of one shape."""
    if t.opset >= 8:
        return None
    given = [s for s in t.node.inputs if s is not None]
    if t.name in ("Sum", "Mean"):
        total = reduce(lambda a, b: t.op("Add", a, b), given)
        return [t.op("Div", total, like(total, len(given))) if t.name == "Mean" else total]
    shape = t.node.outputs[0].shape
    if shape is None or not all(isinstance(size, int) for size in shape):
        t.refuse("it broadcasts to a shape that is not known")
    ones = like(t.x, np.ones([int(s) for s in shape if isinstance(s, int)]))
    return [t.op(t.name, *(s if s.shape == shape else t.op("Mul", s, ones) for s in given))]


def expand(t: Target) -> Sequence[Symbol] | None:
    """Before 8: times ones, which leaves every float as it is."""
    shape = t.node.outputs[0].shape
    if not t.x.dtype.is_float or shape is None or not all(isinstance(s, int) for s in shape):
        t.refuse("there is no Expand")
    return [t.op("Mul", t.x, like(t.x, np.ones([int(s) for s in shape if isinstance(s, int)])))]


def where(t: Target) -> Sequence[Symbol] | None:
    """Before 9: elements chosen out of both, one after the other."""
    if t.opset >= 9:
        return None
    shape = t.node.outputs[0].shape
    if shape is None or not all(isinstance(s, int) for s in shape):
        t.refuse("there is no Where")
    whole = tuple(int(s) for s in shape if isinstance(s, int))
    flat = []
    for symbol in (t.input(1), t.input(2), t.cast(t.x, NumberType.FLOAT32)):
        if symbol.shape != shape:
            symbol = t.op("Expand", symbol, ints(whole))
        flat.append(t.op("Reshape", symbol, ints([-1])))
    size = int(np.prod(whole))
    place = t.op("Mul", t.op("Sub", like(flat[2], 1), flat[2]), like(flat[2], size))
    index = t.op("Add", t.cast(place, NumberType.INT64), ints(np.arange(size)))
    both = t.op("Concat", flat[0], flat[1], axis=0)
    return [t.op("Reshape", t.op("Gather", both, index, axis=0), ints(whole))]


def modulo(t: Target) -> Sequence[Symbol] | None:
    """`fmod` of integers and the other of floats came with 28: by quotients."""
    a, b = t.x, t.input(1)
    if t.opset < 10 or a.dtype.is_float == bool(t.attr("fmod")):
        return None
    if a.dtype.is_float:  # exact where the quotient is; the sign is the divisor's
        rest = t.op("Mod", a, b, fmod=1)
        zero = like(a, 0)
        unlike = t.op("Xor", t.op("Less", rest, zero), t.op("Less", b, zero))
        moved = t.op("And", unlike, t.op("Not", t.op("Equal", rest, zero)))
        return [t.op("Where", moved, t.op("Add", rest, b), rest)]
    return [t.op("Sub", a, t.op("Mul", t.op("Div", a, b), b))]


def triangle(t: Target) -> Sequence[Symbol] | None:
    """Before 14: a choice by a constant triangle."""
    rows, columns = t.size(-2), t.size(-1)
    k = int(t.setting(1).reshape(())) if t.has(1) else 0
    ones = np.ones((rows, columns), bool)
    kept = np.triu(ones, k) if t.attr("upper") else np.tril(ones, k)
    zero = Tensor.of(np.zeros((), t.x.dtype.numpy), t.x.dtype)
    return [t.op("Where", constant(kept), t.x, constant(zero))]


def or_equal(t: Target) -> Sequence[Symbol]:
    strict = "Greater" if t.name == "GreaterOrEqual" else "Less"
    return [t.op("Or", *(t.op(name, t.x, t.input(1)) for name in (strict, "Equal")))]


def rounded(t: Target) -> Sequence[Symbol]:
    """To the nearest integer, halves to even ones, by what lies above the floor."""
    x, half = t.x, like(t.x, 0.5)
    floor = t.op("Floor", x)
    above, middle = t.op("Sub", x, floor), t.op("Mul", floor, half)
    odd = t.op("Not", t.op("Equal", t.op("Floor", middle), middle))
    tie = t.op("And", t.op("Equal", above, half), odd)
    up = t.op("Or", t.op("Greater", above, half), tie)
    return [t.op("Add", floor, t.cast(up, x.dtype))]


def sign(t: Target) -> Sequence[Symbol] | None:
    """Before 9: what is above zero less what is below, and NaN stays itself."""
    if not t.x.dtype.is_float:
        return None
    x, zero = t.x, like(t.x, 0)
    above, below = (t.cast(t.op(n, x, zero), x.dtype) for n in ("Greater", "Less"))
    return [t.op("Where", t.op("IsNaN", x), x, t.op("Sub", above, below))]


def quantize(t: Target) -> Sequence[Symbol] | None:
    """A scale for each channel, before 13: by the formula."""
    whole = _whole_numbers(t, t.node.outputs[0].dtype)
    if t.opset < 10 or whole is None or t.input(1).rank != 1 or t.attr("block_size"):
        return None
    x, wide = t.x, NumberType.FLOAT32
    scale = _for_channels(t, t.cast(t.input(1), wide))
    made = t.op("Round", t.op("Div", t.cast(x, wide), scale))
    if t.has(2):
        made = t.op("Add", made, _for_channels(t, t.cast(t.input(2), wide)))
    low, high = (like(made, v) for v in (whole.min, whole.max))
    return [t.cast(t.op("Clip", made, low, high), t.node.outputs[0].dtype)]


def dequantize(t: Target) -> Sequence[Symbol] | None:
    if t.input(1).rank != 1 or t.attr("block_size") or not t.x.dtype.is_integer:
        return None
    kind = t.node.outputs[0].dtype
    x = t.cast(t.x, kind)
    if t.has(2):
        x = t.op("Sub", x, _for_channels(t, t.cast(t.input(2), kind)))
    return [t.op("Mul", x, _for_channels(t, t.cast(t.input(1), kind)))]


def _whole_numbers(t: Target, kind: NumberType) -> np.iinfo[np.int8] | None:
    return np.iinfo(kind.numpy) if kind in ("int8", "uint8") else None


def _for_channels(t: Target, row: Symbol) -> Symbol:
    """A vector along the axis of channels."""
    rank = t.rank()
    axis = t.axis(t.attr("axis"), rank)
    return t.op("Reshape", row, ints([-1, *[1] * (rank - 1 - axis)]))
