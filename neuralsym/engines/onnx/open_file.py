"""From a path, bytes or a ModelProto to a parsed model, or an error that says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from onnx import FunctionProto, GraphProto, ModelProto, SparseTensorProto, TensorProto

from neuralsym.core.files import Bytes, read_file
from neuralsym.engines.onnx.tensors import Source, read_tensor
from neuralsym.engines.onnx.text import check_text
from neuralsym.engines.onnx.wire import Malformed, split
from neuralsym.errors import FormatError

Given = str | PathLike[str] | bytes | ModelProto

# How files begin that are taken for models by mistake.
_BEGINNINGS = {
    b"PK\x03\x04": "it is a zip archive (a PyTorch .pt or Keras .keras file?): export it to ONNX",
    b"\x89HDF": "it is an HDF5 file (a Keras .h5 file?): export it to ONNX",
    b"version https://git-lfs": "it is a pointer of Git LFS: run `git lfs pull` to get the model",
    b"\x1f\x8b": "it is compressed: gunzip it first",
    b"\x80": "it is a pickle: export the model to ONNX",
    b"<": "it is a web page or XML, not a model: was the download refused?",
    b"ORTM": "it is in onnxruntime's own .ort format: use the .onnx file",
}


@dataclass
class Opened:
    """A parsed model; `raw` holds the data of its large initializers, by their numbers."""

    model: ModelProto
    source: Source
    raw: dict[int, Bytes] = field(default_factory=dict)


def open_model(given: Given) -> Opened:
    """Parse a model. Raises FormatError for what is none, naming the path and the mend."""
    if isinstance(given, ModelProto):
        opened = Opened(given, Source("the model"))
    elif isinstance(given, (bytes, bytearray, memoryview)):
        opened = _parsed(np.frombuffer(given, np.uint8), Source("the model"))
    elif isinstance(given, (str, PathLike)):
        path = Path(given)
        opened = _parsed(read_file(path, ".onnx"), Source(str(path), path.resolve().parent))
    else:
        raise FormatError(
            f"a model is a path, bytes or an onnx.ModelProto, not {type(given).__name__}"
        )
    if not opened.model.HasField("graph"):
        raise FormatError(f"{opened.source.label} is no ONNX model: it holds no graph")
    check_text(opened.model, opened.source.label)
    return opened


def _parsed(file: Bytes, source: Source) -> Opened:
    if not file.size:
        raise FormatError(f"{source.label} is empty, so it is no ONNX model; write it again")
    model = ModelProto()
    try:
        try:
            rest, raw = split(file)
        except Malformed:
            rest, raw = file.tobytes(), {}
        model.ParseFromString(rest)
    except (DecodeError, ValueError, MemoryError):
        raise FormatError(f"{source.label} is no ONNX model: {_reason(file)}") from None
    if not model.HasField("graph") and not model.ir_version:
        raise FormatError(f"{source.label} is no ONNX model: {_reason(file)}")
    return Opened(model, source, raw)


def _reason(file: Bytes) -> str:
    start = file[:64].tobytes()
    for beginning, said in _BEGINNINGS.items():
        if start.startswith(beginning):
            return said
    if all(32 <= b < 127 or b in b"\t\r\n" for b in start):
        return f"it is text, beginning with {start[:30].decode()!r}"
    return "its bytes are broken; it may be incomplete, so get or export it again"


def complete(opened: Opened) -> ModelProto:
    """The model with all its data inside: that which was set apart, and external data."""
    for i, tensor in enumerate(opened.model.graph.initializer):
        if i in opened.raw:
            tensor.raw_data = opened.raw[i].tobytes()
    for tensor in _tensors(opened.model):
        if tensor.data_location == TensorProto.EXTERNAL:
            read_tensor(tensor, opened.source)  # says what is wrong with it
            tensor.raw_data = opened.source.data(tensor).tobytes()
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
    return opened.model


def has_external_data(opened: Opened) -> bool:
    """Whether a part of the model's data lies in other files."""
    return any(t.data_location == TensorProto.EXTERNAL for t in _tensors(opened.model))


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor of a model: initializers and attributes, in bodies and functions too."""
    pending: list[Any] = [model.graph, *model.functions]
    while pending:
        part = pending.pop()
        sparse: list[SparseTensorProto] = []
        if isinstance(part, GraphProto):
            yield from part.initializer
            sparse += part.sparse_initializer
        given = [*part.attribute_proto] if isinstance(part, FunctionProto) else []
        for attribute in (*given, *(a for node in part.node for a in node.attribute)):
            yield from (attribute.t, *attribute.tensors)
            sparse += [attribute.sparse_tensor, *attribute.sparse_tensors]
            pending += [*attribute.graphs] + ([attribute.g] if attribute.HasField("g") else [])
        for each in sparse:
            yield from (each.values, each.indices)
