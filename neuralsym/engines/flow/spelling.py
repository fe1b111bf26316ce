"""ONNX's operators as operations of a flow: `ai.onnx.Conv` with its attributes as text.

Myelin has no convolutions, pools or normalisations. What it has no word for is written with the
name of its domain before it, and numbers and lists as JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuralsym.core.op import Op, find_op
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType, number_type
from neuralsym.errors import FormatError, GraphError

ONNX = "ai.onnx"
"""The long name of ONNX's own domain."""

DIMS, UNKNOWN_WORD = "dims", "?"
"""The attribute of a variable that has sizes by name, for which a shape has no place."""

METADATA, METADATA_TYPE = "neuralsym", "metadata"
"""The blob whose attributes are what a model says of itself, such as its preprocessing."""

OMITTED = ""
"""The name of the variable that stands where an operator's optional input is left out."""


def type_of(op: type[Op]) -> str:
    """How an operator is called in a flow."""
    return f"{op.domain or ONNX}.{op.__name__}"


def operator_of(type_: str) -> type[Op] | None:
    """The operator that is called so, None for an operation type without a domain."""
    domain, dot, name = type_.rpartition(".")
    if not dot:
        return None
    try:
        return find_op(name, "" if domain == ONNX else domain)
    except GraphError as error:
        raise FormatError(f"operation type {type_!r}: {error}") from None


def write_attributes(op: type[Op], attrs: Mapping[str, Any], name: str) -> dict[str, str]:
    """The attributes of a node as text; FormatError for one that text cannot hold."""
    made: dict[str, str] = {}
    for key, value in attrs.items():
        spec = op.schema.attributes.get(key)
        if value is None or (spec is not None and not spec.required and value == spec.default):
            continue
        made[key] = _text(value, f"{op.__name__} {name!r}: attribute {key}")
    return made


def _text(value: Any, what: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, NumberType):
        return str(value)
    if isinstance(value, Tensor):
        return json.dumps(_tensor_parts(value, what))
    if isinstance(value, (bool, int, float, np.number)):
        return json.dumps(value.item() if isinstance(value, np.number) else value)
    if isinstance(value, Sequence) and all(isinstance(v, (str, int, float)) for v in value):
        return json.dumps(list(value))
    raise FormatError(
        f"{what} is a {type(value).__name__}, which a .flow file cannot hold; save it as .onnx"
    )


def _tensor_parts(tensor: Tensor, what: str) -> dict[str, Any]:
    if tensor.dtype is NumberType.STRING:
        raise FormatError(f"{what} holds texts, which a .flow file cannot; save it as .onnx")
    data = base64.b64encode(np.ascontiguousarray(tensor.value).tobytes()).decode()
    return {"dtype": str(tensor.dtype), "shape": list(tensor.shape), "data": data}


def read_attributes(op: type[Op], attrs: Mapping[str, str], name: str) -> dict[str, Any]:
    """The attributes of an operator from their text; those that it does not have are left out."""
    made: dict[str, Any] = {}
    for key, spec in op.schema.attributes.items():
        text = attrs.get(key)
        if text is None:
            continue
        what = f"operation {name!r} ({op.__name__}): attribute {key}={text[:60]!r}"
        if spec.kind == "STRING" or _is_type(text):
            made[key] = text
            continue
        try:
            value = json.loads(text)
            made[key] = _tensor(value) if spec.kind == "TENSOR" else _plain(value, spec.kind)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise FormatError(f"{what} is no {spec.kind}: {error}") from None
    return made


def _is_type(text: str) -> bool:
    """Whether it names a number type, as the attribute `to` of Cast does."""
    return text in set(NumberType)


def _plain(value: Any, kind: str) -> Any:
    number = (int,) if kind.startswith("INT") else (int, float)
    items = value if kind.endswith("S") else [value]
    wanted = (str,) if kind == "STRINGS" else number
    if not isinstance(items, list) or not all(isinstance(v, wanted) for v in items):
        raise ValueError("another kind of value came")
    return tuple(items) if kind.endswith("S") else value


def _tensor(parts: Any) -> Tensor:
    kind = number_type(parts["dtype"])
    raw = base64.b64decode(parts["data"], validate=True)
    array = np.frombuffer(raw, kind.numpy).reshape([int(d) for d in parts["shape"]])
    return Tensor.of(array, kind)
