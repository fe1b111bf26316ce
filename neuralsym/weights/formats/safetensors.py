"""Hugging Face's .safetensors: a JSON header of names, types and places, then the numbers."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from functools import partial
from io import BufferedWriter
from itertools import pairwise
from typing import Any

from numpy.typing import NDArray

from neuralsym.core.files import Bytes
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType, number_type
from neuralsym.errors import FormatError

_MOST_HEADER = 100_000_000
"""Bytes of the header, by the format's own definition."""

_TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
    "C64": "complex64",
    "F8_E4M3": "float8e4m3fn",
    "F8_E5M2": "float8e5m2",
    "F8_E8M0": "float8e8m0",
}
_NAMES = {name: word for word, name in _TYPES.items()}


def read_safetensors(data: Bytes) -> dict[str, Tensor]:
    """The tensors by name, each a view of the file; raises FormatError."""
    header, start = _header(data)
    size = len(data) - start
    tensors: dict[str, Tensor] = {}
    spans: list[tuple[int, int]] = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        kind, shape, begin, end = _entry(name, entry)
        if end > size:
            raise FormatError(f"its tensor {name!r} goes beyond the end: the file is truncated")
        spans.append((begin, end))
        part = data[start + begin : start + end]
        tensors[name] = Tensor(kind, shape, partial(_numbers, part, kind, shape))
    spans.sort()
    if any(end > begin for (_, end), (begin, _) in pairwise(spans)):
        raise FormatError("its tensors overlap")
    return tensors


def _header(data: Bytes) -> tuple[dict[str, Any], int]:
    if len(data) < 8:
        raise FormatError("it is shorter than its header: the file is truncated")
    (length,) = struct.unpack("<Q", data[:8].tobytes())
    if length > min(len(data) - 8, _MOST_HEADER):
        raise FormatError(f"it is shorter than its header of {length:,} bytes")
    try:
        found = json.loads(data[8 : 8 + length].tobytes())
    except (ValueError, RecursionError):
        raise FormatError("its header is no JSON: this is no .safetensors file") from None
    if not isinstance(found, dict):
        raise FormatError("its header is no table of tensors")
    return found, 8 + length


def _entry(name: str, entry: Any) -> tuple[NumberType, tuple[int, ...], int, int]:
    """The number type, the shape, and the place of a tensor."""
    try:
        word, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, begin, end]
    except (TypeError, KeyError, ValueError):
        raise FormatError(f"its tensor {name!r} has no dtype, shape and data_offsets") from None
    if not all(type(n) is int and 0 <= n < 2**60 for n in numbers) or len(shape) > 64:
        raise FormatError(f"its tensor {name!r} has impossible sizes")
    if not isinstance(word, str) or word not in _TYPES:
        raise FormatError(f"its tensor {name!r} has the unknown type {str(word)[:20]!r}")
    kind = number_type(_TYPES[word])
    size = kind.itemsize
    for d in shape:
        size *= d
    if size != end - begin:
        raise FormatError(f"its tensor {name!r} has {end - begin:,} bytes and needs {size:,}")
    return kind, tuple(shape), begin, end


def _numbers(part: Bytes, kind: NumberType, shape: tuple[int, ...]) -> NDArray[Any]:
    return part.view(kind.numpy).reshape(shape)


def write_safetensors(file: BufferedWriter, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name; FormatError for a number type that the format lacks."""
    header: dict[str, Any] = {}
    at = 0
    for name, tensor in tensors.items():
        word = _NAMES.get(tensor.dtype)
        if word is None:
            raise FormatError(f"{name!r} holds {tensor.dtype}, which .safetensors lacks")
        header[name] = {
            "dtype": word,
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.nbytes],
        }
        at += tensor.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)  # numbers begin at a multiple of 8
    file.write(struct.pack("<Q", len(text)) + text)
    for tensor in tensors.values():
        file.write(tensor.once().tobytes())
