"""Types, shapes and known values, worked out as each operator is applied.

The operator's own rule comes first, onnx's inference second. Ranges are checked before onnx is
asked, so that nobody's file makes it allocate by a number that the file merely claims.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.dim import TooLong
from neuralsym.core.op import KNOWN_LIMIT, Call
from neuralsym.core.schema import OPSET, VERSIONS, onnx_type_name
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import (
    RANK_LIMIT,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    Type,
)
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch, TypeMismatch

Known = NDArray[Any] | None


def infer(call: Call) -> tuple[tuple[Type, ...], tuple[Known, ...]]:
    """The types and known values of the outputs; raises an OpError that names the user's line."""
    check_types(call)
    call.op.check(call)
    try:
        types = call.op.infer(call)
    except TooLong:
        types = None  # sizes that no rule can write down are unknown
    if types is None:
        types = infer_with_onnx(call)
    if len(types) < call.count:
        call.fail(f"its rule gives {len(types)} outputs, {call.count} were asked for")
    types = tuple(types[: call.count])
    for type_ in types:
        if isinstance(type_, TensorType) and (type_.rank or 0) > RANK_LIMIT:
            call.fail(f"its output would have {type_.rank} axes; at most {RANK_LIMIT} can be")
    return types, fold(call, types)


def fold(call: Call, types: Sequence[Type]) -> tuple[Known, ...]:
    """The outputs' values where the inputs' known values tell them, of bounded size."""
    nothing: tuple[Known, ...] = (None,) * call.count
    if not call.op.deterministic or all(map(_too_long, types)):
        return nothing
    try:
        values = call.op.fold(call)
    except TooLong:
        return nothing
    if values is None:
        return nothing
    kept: list[Known] = []
    for value in (*values, *nothing)[: call.count]:
        if value is not None and np.size(value) > KNOWN_LIMIT:
            value = None
        kept.append(value)
    return tuple(kept)


def _too_long(type: Type) -> bool:
    """Whether a value has more elements than are kept: nothing, reduced, may become much."""
    if not isinstance(type, TensorType) or type.shape is None:
        return False
    sizes = [d for d in type.shape if isinstance(d, int)]
    return len(sizes) == len(type.shape) and math.prod(sizes) > KNOWN_LIMIT


def type_name(type: Type) -> str:
    """How the schemas spell a type: `seq(tensor(float))`."""
    if isinstance(type, TensorType):
        return onnx_type_name(type.dtype)
    if isinstance(type, SequenceType):
        return f"seq({type_name(type.element)})"
    if isinstance(type, OptionalType):
        return f"optional({type_name(type.element)})"
    assert isinstance(type, MapType)
    key = onnx_type_name(type.key)[7:-1]
    return f"map({key},{type_name(type.value)})"


def check_types(call: Call) -> None:
    """Every input is of an allowed type, and inputs of one type variable agree."""
    schema = call.op.schema
    bound: dict[str, tuple[str, str]] = {}
    for i, symbol in enumerate(call.inputs):
        if symbol is None:
            continue
        formal = schema.formal_input(i)
        name = type_name(symbol.type)
        if formal.allowed and name not in formal.allowed:
            call.fail(
                f"{call.label(i)} is {_shown(name)}; allowed are {_listed(formal.allowed)}"
                f"{_mend(symbol, formal.allowed)}",
                TypeMismatch,
            )
        if not formal.homogeneous or not formal.variable or "(" in formal.variable:
            continue
        first = bound.setdefault(formal.variable, (name, call.label(i)))
        if first[0] != name:
            call.fail(
                f"{call.label(i)} is {_shown(name)}, but {first[1]} is {_shown(first[0])} and "
                f"both must be of one type{_mend_pair(call.label(i), name, *first)}",
                TypeMismatch,
            )


def _shown(name: str) -> str:
    """A schema's type as we call it: `float64` for `tensor(double)`."""
    if not name.startswith("tensor("):
        return name
    inner = name[7:-1]
    return {"float": "float32", "double": "float64"}.get(inner, inner)


def _listed(allowed: frozenset[str]) -> str:
    return ", ".join(sorted(map(_shown, allowed)))


def _mend(symbol: Symbol, allowed: frozenset[str]) -> str:
    """How an input of a type that is not allowed is mended, where that can be guessed."""
    if not isinstance(symbol.type, TensorType):
        return ""
    if allowed == {"tensor(bool)"}:
        return "; compare to get a bool: x > 0, x != 0"
    for choice in ("float32", "int64", "int32"):
        if onnx_type_name(NumberType(choice)) in allowed:
            return f"; ops.cast(x, {choice!r}) makes it {choice}"
    return ""


def _mend_pair(label: str, name: str, first: str, first_label: str) -> str:
    """How two types are made one; numpy's float64 is the usual cause."""
    names = {_shown(name), _shown(first)}
    if names == {"float32", "float64"}:
        wide = label if _shown(name) == "float64" else first_label
        return (
            f"; numpy makes float64 unless told otherwise: give {wide} dtype='float32', or use "
            "ops.cast(x, 'float32')"
        )
    return f"; ops.cast(x, {_shown(first)!r}) makes {label} {_shown(first)}"


def infer_with_onnx(call: Call, version: int | None = None) -> list[Type]:
    """The types that onnx's own inference gives, at the pinned opset or for another version."""
    import onnx
    import onnx.defs
    from onnx import shape_inference

    from neuralsym.core import proto

    op = call.op
    version = version or VERSIONS.get(op.domain, 1)
    names = [f"i{k}" if s is not None else "" for k, s in enumerate(call.inputs)]
    outputs = [f"o{k}" for k in range(call.count)]
    node = onnx.NodeProto(op_type=op.__name__, domain=op.domain, input=names, output=outputs)
    for name, value in call.attrs.items():
        kind = op.schema.attributes[name].kind
        if kind not in ("GRAPH", "GRAPHS"):
            node.attribute.append(proto.attribute_to_proto(name, kind, value, _no_body))
    types = {}
    data = {}
    for name, symbol in zip(names, call.inputs, strict=True):
        if symbol is None:
            continue
        types[name] = proto.type_to_proto(symbol.type)
        if isinstance(symbol.type, TensorType):
            value = proto.known_to_proto(symbol.known, symbol.dtype)
            if value is not None:
                data[name] = value
    schema = onnx.defs.get_schema(op.__name__, version, op.domain)
    opsets = [onnx.helper.make_opsetid("", OPSET if op.domain else version)]
    if op.domain:
        opsets.append(onnx.helper.make_opsetid(op.domain, version))
    try:
        found = shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=opsets)
    except (shape_inference.InferenceError, RuntimeError, ValueError) as error:
        call.fail(_reason(error), ShapeMismatch)
    made: list[Type] = []
    for name in outputs:
        if name not in found or found[name].WhichOneof("value") is None:
            call.fail(f"the type of output {len(made)} cannot be told", TypeMismatch)
        made.append(proto.type_from_proto(found[name]))
    return made


def _no_body(graph: Any) -> Any:
    raise AssertionError("bodies are inferred by the operator's own rule")


def _reason(error: Exception) -> str:
    """onnx's reason without its trail of prefixes."""
    text = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
    return text.rsplit("Error] ", 1)[-1].rsplit("] ", 1)[-1].strip()
