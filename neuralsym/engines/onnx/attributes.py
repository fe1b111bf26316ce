"""Attributes of a file as the values that operators take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import AttributeProto, SparseTensorProto

from neuralsym.core.proto import type_from_proto
from neuralsym.core.tensor import Sparse, Tensor
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx.tensors import Source, read_sparse, read_tensor
from neuralsym.errors import FormatError

_KIND = AttributeProto


def read_attribute(name: str, proto: AttributeProto, source: Source) -> Any:
    """The value of an attribute that holds no body."""
    kind = proto.type or _guess(proto)
    if kind == _KIND.INT:
        return proto.i
    if kind == _KIND.FLOAT:
        return proto.f
    if kind == _KIND.STRING:
        return proto.s.decode("utf-8", "surrogateescape")
    if kind == _KIND.INTS:
        return tuple(proto.ints)
    if kind == _KIND.FLOATS:
        return tuple(proto.floats)
    if kind == _KIND.STRINGS:
        return tuple(s.decode("utf-8", "surrogateescape") for s in proto.strings)
    if kind == _KIND.TENSOR:
        return read_tensor(proto.t, source)
    if kind == _KIND.TENSORS:
        return tuple(read_tensor(t, source) for t in proto.tensors)
    if kind == _KIND.SPARSE_TENSOR:
        return read_sparse(proto.sparse_tensor, source)
    if kind == _KIND.TYPE_PROTO:
        return type_from_proto(proto.tp)
    raise FormatError(f"attribute {name!r} has a kind that cannot be read ({kind})")


def read_as_it_is(name: str, proto: AttributeProto, source: Source) -> Any:
    """The value of an attribute of an operator that is not known: sparse tensors stay sparse."""
    kind = kind_of(proto)
    if kind == "SPARSE_TENSOR":
        return _sparse(proto.sparse_tensor, source)
    if kind == "SPARSE_TENSORS":
        return tuple(_sparse(t, source) for t in proto.sparse_tensors)
    if kind == "TYPE_PROTOS":
        return tuple(type_from_proto(t) for t in proto.type_protos)
    return () if kind == "GRAPHS" else read_attribute(name, proto, source)


def _sparse(proto: SparseTensorProto, source: Source) -> Sparse:
    read_sparse(proto, source)  # says what is wrong with it
    values, indices = read_tensor(proto.values, source), read_tensor(proto.indices, source)
    return Sparse(values, indices, tuple(proto.dims))


def kind_of(proto: AttributeProto) -> str:
    """The ONNX kind of an attribute: `INT`, `FLOATS`, ..."""
    return str(AttributeProto.AttributeType.Name(proto.type or _guess(proto)))


def _guess(proto: AttributeProto) -> int:
    """The kind of an attribute of the first files, which did not say it."""
    fields = {
        "f": _KIND.FLOAT, "i": _KIND.INT, "s": _KIND.STRING, "t": _KIND.TENSOR,
        "floats": _KIND.FLOATS, "ints": _KIND.INTS, "strings": _KIND.STRINGS,
        "tensors": _KIND.TENSORS,
    }  # fmt: skip
    for entry, _ in proto.ListFields():
        if entry.name in fields:
            return int(fields[entry.name])
    return int(_KIND.INTS)


def constant_of(attrs: Mapping[str, Any], name: str) -> Tensor:
    """The value of a Constant node, in whichever attribute it is."""
    if len(attrs) != 1:
        raise FormatError(f"{name} has {len(attrs)} values: {', '.join(attrs) or 'none'}")
    ((kind, value),) = attrs.items()
    if kind in ("value", "sparse_value"):
        if not isinstance(value, Tensor):
            raise FormatError(f"{name} has in {kind!r} a {type(value).__name__}, not a tensor")
        return value
    types = {"f": NumberType.FLOAT32, "i": NumberType.INT64, "s": NumberType.STRING}
    if not kind.startswith("value_") or kind[6] not in types:
        raise FormatError(f"{name} has its value in {kind!r}, which is no attribute of Constant")
    dtype = types[kind[6]]
    array = np.empty(len(value) if isinstance(value, tuple) else (), dtype.numpy)
    try:
        array[...] = value
    except (TypeError, ValueError):
        raise FormatError(f"{name} has {value!r} in {kind!r}, which is of another type") from None
    return Tensor.of(array, dtype)
