"""Types, tensors and attributes as ONNX protos, for onnx's inference and the ONNX engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    GraphProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    numpy_helper,
)

from neuralsym.core.dim import Dim
from neuralsym.core.tensor import Sparse, Tensor
from neuralsym.core.types import MapType, OptionalType, SequenceType, Size, TensorType, Type
from neuralsym.dtypes import NumberType, from_onnx
from neuralsym.errors import FormatError

GraphWriter = Callable[[Any], GraphProto]


def type_to_proto(type: Type) -> TypeProto:
    """A type as a TypeProto; symbolic dimensions as their canonical text."""
    made = TypeProto()
    if isinstance(type, TensorType):
        made.tensor_type.elem_type = type.dtype.onnx
        if type.shape is not None:
            made.tensor_type.shape.SetInParent()
            for size in type.shape:
                dim = made.tensor_type.shape.dim.add()
                if isinstance(size, int):
                    dim.dim_value = size
                elif size is not None:
                    dim.dim_param = str(size)
    elif isinstance(type, SequenceType):
        made.sequence_type.elem_type.CopyFrom(type_to_proto(type.element))
    elif isinstance(type, OptionalType):
        made.optional_type.elem_type.CopyFrom(type_to_proto(type.element))
    else:
        made.map_type.key_type = type.key.onnx
        made.map_type.value_type.CopyFrom(type_to_proto(type.value))
    return made


def type_from_proto(proto: TypeProto) -> Type:
    """The type of a TypeProto; raises FormatError for one that says nothing."""
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(proto, kind)
        shape = None
        if tensor.HasField("shape"):
            shape = tuple(_size(dim) for dim in tensor.shape.dim)
        return TensorType(from_onnx(tensor.elem_type), shape)
    if kind == "sequence_type":
        return SequenceType(type_from_proto(proto.sequence_type.elem_type))
    if kind == "optional_type":
        return OptionalType(type_from_proto(proto.optional_type.elem_type))
    if kind == "map_type":
        value = type_from_proto(proto.map_type.value_type)
        return MapType(from_onnx(proto.map_type.key_type), value)
    raise FormatError("a value is declared without a type")


def _size(dim: Any) -> Size:
    which = dim.WhichOneof("value")
    if which == "dim_value":
        # A negative size is how some exporters write "free".
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    if which == "dim_param" and dim.dim_param:
        return Dim.parse(dim.dim_param)
    return None


def tensor_to_proto(array: NDArray[Any], dtype: NumberType, name: str = "") -> TensorProto:
    """An array as a TensorProto with raw data, or string data for strings."""
    if dtype is NumberType.STRING:
        made = TensorProto(name=name, data_type=TensorProto.STRING, dims=array.shape)
        made.string_data.extend(s.encode("utf-8") for s in array.reshape(-1).tolist())
        return made
    return numpy_helper.from_array(np.asarray(array, dtype.numpy), name)


def attribute_to_proto(
    name: str, kind: str, value: Any, write_graph: GraphWriter
) -> AttributeProto:
    """An attribute of ONNX kind `kind` (`INT`, `FLOATS`, ...), bodies through `write_graph`."""
    made = AttributeProto(name=name, type=AttributeProto.AttributeType.Value(kind))
    if kind == "INT":
        made.i = value
    elif kind == "FLOAT":
        made.f = value
    elif kind == "STRING":
        made.s = _bytes(value)
    elif kind == "INTS":
        made.ints.extend(value)
    elif kind == "FLOATS":
        made.floats.extend(value)
    elif kind == "STRINGS":
        made.strings.extend(_bytes(v) for v in value)
    elif kind == "TENSOR":
        made.t.CopyFrom(tensor_to_proto(value.value, value.dtype))
    elif kind == "TENSORS":
        made.tensors.extend(tensor_to_proto(v.value, v.dtype) for v in value)
    elif kind == "GRAPH":
        made.g.CopyFrom(write_graph(value))
    elif kind == "GRAPHS":
        made.graphs.extend(write_graph(v) for v in value)
    elif kind == "TYPE_PROTO":
        made.tp.CopyFrom(type_to_proto(value))
    elif kind == "TYPE_PROTOS":
        made.type_protos.extend(type_to_proto(v) for v in value)
    elif kind == "SPARSE_TENSOR":
        made.sparse_tensor.CopyFrom(_sparse_to_proto(value))
    elif kind == "SPARSE_TENSORS":
        made.sparse_tensors.extend(_sparse_to_proto(v) for v in value)
    else:
        raise FormatError(f"attribute {name!r} has the kind {kind}, which cannot be written")
    return made


def _sparse_to_proto(value: Sparse) -> SparseTensorProto:
    return SparseTensorProto(
        values=tensor_to_proto(value.values.value, value.values.dtype),
        indices=tensor_to_proto(value.indices.value, value.indices.dtype),
        dims=value.shape,
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def known_to_proto(known: NDArray[Any] | None, dtype: NumberType) -> TensorProto | None:
    """A known value for onnx's inference; None where a part of it is a name."""
    if known is None:
        return None
    if known.dtype == object and dtype is not NumberType.STRING:
        if any(isinstance(d, Dim) for d in known.reshape(-1)):
            return None
        known = known.astype(dtype.numpy)
    return tensor_to_proto(known, dtype)


def tensor_from_proto(proto: TensorProto, base_dir: str = "") -> Tensor:
    """A TensorProto as a constant, read now."""
    array = numpy_helper.to_array(proto, base_dir)
    if proto.data_type == TensorProto.STRING:
        return Tensor.of(array.astype(object), NumberType.STRING)
    return Tensor.of(array, from_onnx(proto.data_type))
