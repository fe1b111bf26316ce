"""Splitting a model file into what protobuf parses and the raw data of its large tensors.

Weights are most of a file; taken out by their places in it, they are neither parsed nor copied.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Field = tuple[int, int, int, int]
"""A field: its number, where it starts, where its content starts, where it ends."""

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # in ModelProto, GraphProto, TensorProto
_LARGE = 4096


class Malformed(ValueError):
    """The bytes are no protobuf message."""


def split(file: Bytes) -> tuple[bytes, dict[int, Bytes]]:
    """The model without large raw data, and that data by the number of its initializer.

    Raises Malformed when the bytes are no message.
    """
    view = file.data
    parts: list[bytes | memoryview] = []
    found: dict[int, Bytes] = {}
    count = 0
    for number, start, content, end in _fields(view, 0, len(view)):
        if number != _GRAPH or content == start:
            parts.append(view[start:end])
            continue
        inner: list[bytes | memoryview] = []
        kept = content
        for number_, start_, content_, end_ in _fields(view, content, end):
            if number_ != _INITIALIZER:
                continue
            count += 1
            if end_ - content_ <= _LARGE:
                continue
            for number__, start__, content__, end__ in _fields(view, content_, end_):
                if number__ == _RAW_DATA and end__ - content__ >= _LARGE:
                    found[count - 1] = file[content__:end__]
                    rest = bytes(view[content_:start__]) + bytes(view[end__:end_])
                    inner += [view[kept:start_], b"\x2a", varint(len(rest)), rest]
                    kept = end_
                    break
        inner.append(view[kept:end])
        parts += [b"\x3a", varint(sum(map(len, inner))), *inner]
    return b"".join(parts), found


def _fields(view: memoryview, at: int, end: int) -> list[Field]:
    found: list[Field] = []
    while at < end:
        start = at
        tag, at = _varint(view, at, end)
        kind = tag & 7
        content = at
        if kind == 0:
            _, at = _varint(view, at, end)
        elif kind == 1:
            at += 8
        elif kind == 2:
            length, at = _varint(view, at, end)
            content = at
            at += length
        elif kind == 5:
            at += 4
        else:
            raise Malformed
        if at > end or not tag >> 3:
            raise Malformed
        found.append((tag >> 3, start, content, at))
    return found


def _varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise Malformed


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
