"""Writing model files: under a temporary name first, one stored tensor in memory at a time.

A file is protobuf's wire format: the parts of a message one after another, each with its tag and
length. Above the limit of protobuf the tensors go to one file of raw data beside the model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import BufferedWriter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from onnx import ModelProto, TensorProto

from neuralsym.core.files import replacing, target_of
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx.wire import varint
from neuralsym.engines.onnx.write import Draft, Stored, tensor_proto

Buffer = bytes | memoryview

LIMIT = 2**31 - 2**20
"""A model of more bytes is written with its tensors apart: protobuf ends at 2 GiB."""

_SMALLEST_APART = 1024
_PAGE = 4096
_ALIGNED = 64
_GRAPH_NUMBER = 7
_GRAPH = b"\x3a"  # that field of ModelProto, with a length
_INITIALIZER = b"\x2a"  # field 5 of GraphProto
_RAW_DATA = b"\x4a"  # field 9 of TensorProto


def write_model(draft: Draft, path: Path, limit: int) -> list[Path]:
    """Write the model to `path`, and its data beside it if it is over `limit` bytes.

    Gives the paths written. Raises FormatError when the place cannot be written to; then what
    was there before is there still.
    """
    target = target_of(path, "model.onnx")
    pieces = [_piece(stored) for stored in draft.stored]
    before, after = _around(draft, pieces)
    if len(before) + len(after) + sum(_framed(p) for p in pieces) <= limit:
        with replacing(path, [target]) as (file,):
            _write(file, draft, pieces)
        return [target]
    data = target.with_name(target.name + ".data")
    layout = _apart(draft, pieces, data.name)
    with replacing(path, [data, target]) as (data_file, file):
        for piece, offset in zip(pieces, layout.offsets, strict=True):
            if offset is not None:
                data_file.write(bytes(offset - data_file.tell()))
                data_file.write(piece.raw())
        _write(file, draft, layout.pieces)
    return [target, data]


# -- tensors -----------------------------------------------------------------------------------
class Piece(NamedTuple):
    """A serialised tensor: its start, `size` bytes of raw data that `raw` gives, its end."""

    start: bytes
    size: int = 0
    raw: Callable[[], Buffer] = bytes
    end: bytes = b""


def _piece(stored: Stored) -> Piece:
    tensor = stored.tensor
    if isinstance(tensor, Tensor) and _is_plain(tensor.dtype):
        header = TensorProto(name=stored.name, data_type=tensor.dtype.onnx, dims=tensor.shape)
        start = header.SerializeToString(deterministic=True)
        start += _RAW_DATA + varint(tensor.nbytes)
        end = TensorProto(doc_string=stored.doc) if stored.doc else TensorProto()
        return Piece(start, tensor.nbytes, lambda: _bytes_of(tensor), end.SerializeToString())
    return Piece(tensor_proto(stored).SerializeToString(deterministic=True))


def _is_plain(dtype: NumberType) -> bool:
    """Whether the elements lie in a file as in memory."""
    packed = dtype in ("int4", "uint4", "int2", "uint2", "float4e2m1", "float6e2m3", "float6e3m2")
    return not packed and dtype is not NumberType.STRING and sys.byteorder == "little"


def _bytes_of(tensor: Tensor) -> Buffer:
    array = np.ascontiguousarray(tensor.once())
    return array.reshape(-1).view(np.uint8).data if array.size else b""


class Layout(NamedTuple):
    """Where in the data file each tensor lies (None: in the model), and the tensors that say so."""

    offsets: list[int | None]
    pieces: list[Piece]


def _apart(draft: Draft, pieces: list[Piece], location: str) -> Layout:
    offsets: list[int | None] = []
    made: list[Piece] = []
    end = 0
    for piece, stored in zip(pieces, draft.stored, strict=True):
        if piece.size < _SMALLEST_APART:
            offsets.append(None)
            made.append(piece)
            continue
        step = _PAGE if piece.size >= _PAGE else _ALIGNED
        offset = -(-end // step) * step
        end = offset + piece.size
        tensor = stored.tensor
        assert isinstance(tensor, Tensor)
        header = TensorProto(name=stored.name, data_type=tensor.dtype.onnx, dims=tensor.shape)
        header.data_location = TensorProto.EXTERNAL
        if stored.doc:
            header.doc_string = stored.doc
        for key, value in ("location", location), ("offset", offset), ("length", piece.size):
            header.external_data.add(key=key, value=str(value))
        offsets.append(offset)
        made.append(Piece(header.SerializeToString(deterministic=True)))
    return Layout(offsets, made)


# -- the model file ----------------------------------------------------------------------------
def _write(file: BufferedWriter, draft: Draft, pieces: list[Piece]) -> None:
    """The fields in the order in which protobuf itself writes them."""
    before, after = _around(draft, pieces)
    file.write(before)
    for piece in pieces:
        file.write(_INITIALIZER + varint(_length(piece)))
        file.write(piece.start)
        file.write(piece.raw())
        file.write(piece.end)
    file.write(after)


def _around(draft: Draft, pieces: list[Piece]) -> tuple[bytes, bytes]:
    """What comes before the tensors and after them."""
    early, late = ModelProto(), ModelProto()
    early.CopyFrom(draft.model)
    late.CopyFrom(draft.model)
    for field, _ in draft.model.ListFields():
        (late if field.number < _GRAPH_NUMBER else early).ClearField(field.name)
    head = draft.head.SerializeToString(deterministic=True)
    tail = draft.tail.SerializeToString(deterministic=True)
    length = len(head) + len(tail) + sum(_framed(piece) for piece in pieces)
    before = early.SerializeToString(deterministic=True) + _GRAPH + varint(length) + head
    return before, tail + late.SerializeToString(deterministic=True)


def _length(piece: Piece) -> int:
    return len(piece.start) + piece.size + len(piece.end)


def _framed(piece: Piece) -> int:
    size = _length(piece)
    return len(_INITIALIZER) + len(varint(size)) + size
