"""Types that a file declares, and those that follow from the operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import TypeProto

from neuralsym.core.proto import type_from_proto
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import MapType, OptionalType, SequenceType, Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import FormatError, TypeMismatch


def declared_type(proto: TypeProto, own: Type | None) -> Type | None:
    """The type that a file declares; None where it says none, or only the number of dimensions."""
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    if kind == "tensor_type" and not proto.tensor_type.elem_type:
        if not isinstance(own, TensorType):
            return None
        filled = TypeProto()
        filled.CopyFrom(proto)
        filled.tensor_type.elem_type = own.dtype.onnx
        proto = filled
    try:
        return type_from_proto(proto)
    except (FormatError, TypeMismatch):
        return None


def refined(own: Type, given: Type) -> tuple[Type, bool]:
    """Our type with what only the file knows of it, and whether the file contradicts it."""
    if isinstance(own, TensorType) and isinstance(given, TensorType):
        if own.dtype != given.dtype:
            return own, True
        shape, contradicts = _shape(own.shape, given.shape)
        return TensorType(own.dtype, shape), contradicts
    for kind in (SequenceType, OptionalType):
        if isinstance(own, kind) and isinstance(given, kind):
            element, contradicts = refined(own.element, given.element)
            return kind(element), contradicts
    if isinstance(own, MapType) and isinstance(given, MapType):
        return own, own.key != given.key
    return own, True


def _shape(own: Shape | None, given: Shape | None) -> tuple[Shape | None, bool]:
    if own is None or given is None:
        return (given if own is None else own), False
    if len(own) != len(given):
        return own, True
    made: list[Size] = []
    contradicts = False
    for a, b in zip(own, given, strict=True):
        made.append(b if a is None else a)
        contradicts |= isinstance(a, int) and isinstance(b, int) and a != b
    return tuple(made), contradicts


def body_types(
    op_type: str, inputs: Sequence[Symbol | None], attrs: Mapping[str, Any]
) -> list[Type | None]:
    """The types of a body's formal inputs, for files that do not declare them."""
    if op_type == "Loop":
        scalars: list[Type | None] = [
            TensorType(t, ()) for t in (NumberType.INT64, NumberType.BOOL)
        ]
        return scalars + [_loose(s) for s in inputs[2:]]
    if op_type == "Scan":
        scanned = attrs.get("num_scan_inputs", 1)
        if not isinstance(scanned, int) or not 0 < scanned <= len(inputs):
            return []  # which the operator refuses
        split = len(inputs) - scanned
        axes = attrs.get("scan_input_axes") or (0,) * scanned
        if not all(isinstance(axis, int) for axis in axes):
            return []
        states = [None if s is None else s.type for s in inputs[:split]]
        return states + [_slice(s, a) for s, a in zip(inputs[split:], axes, strict=False)]
    if op_type == "SequenceMap":
        return [_element(s) for s in inputs]
    return []


def _loose(symbol: Symbol | None) -> Type | None:
    """The type of a value that a loop carries, whose shape may change."""
    if symbol is None or not isinstance(symbol.type, TensorType):
        return None if symbol is None else symbol.type
    return TensorType(symbol.type.dtype)


def _slice(symbol: Symbol | None, axis: int) -> Type | None:
    if symbol is None or not isinstance(symbol.type, TensorType):
        return None
    shape = symbol.type.shape
    if shape is not None and -len(shape) <= axis < len(shape):
        axis %= len(shape)
        shape = shape[:axis] + shape[axis + 1 :]
    return TensorType(symbol.type.dtype, shape)


def _element(symbol: Symbol | None) -> Type | None:
    if symbol is None:
        return None
    return symbol.type.element if isinstance(symbol.type, SequenceType) else symbol.type


def retyped(node: Node, types: tuple[Type, ...], name: str | None) -> Node:
    """A node that nothing uses yet, with other types and under another name."""
    return Node(
        node.op,
        node.inputs,
        node.attrs,
        types,
        known=tuple(s._known for s in node.outputs),
        name=name,
        where=node.where,
        captures=node.captures,
    )
