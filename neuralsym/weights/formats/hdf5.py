"""HDF5 files in the form that h5py writes unless told otherwise, and with it Keras.

A reader of our own: HDF5's library can be led into loops without end by a damaged file. Here all
addresses are checked against the file, and no group, node or block is gone through twice. Arrays
are views of the file. What Keras never writes is refused: chunks, links, arrays in other files.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.files import Bytes
from neuralsym.core.locks import cached_property
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType, number_type
from neuralsym.errors import FormatError

_MAGIC = b"\x89HDF\r\n\x1a\n"
_NOWHERE = 2**64 - 1
_LINK = 2
"""The cache type of an entry that is a symbolic link."""

_SPACE, _TYPE, _EXTERNAL, _LAYOUT, _ATTRIBUTE, _MORE, _SYMBOLS = 1, 3, 7, 8, 12, 16, 17
_NEWER = (2, 6, 21)
"""Messages about links and attributes that only the newer form has."""

_FORM = 'it has a form of HDF5 that Keras does not write: save it with libver="earliest"'

_MOST_LOOKS = 16
"""How often the whole file may be looked at, counted in bytes."""

_FLOATS = {(11, 52): "float64", (8, 23): "float32", (5, 10): "float16", (8, 7): "bfloat16"}
"""Floats by the bits of exponent and mantissa."""

_FIXED, _FLOAT, _STRING, _ENUM, _VARIABLE = 0, 1, 3, 8, 9


class Kind(NamedTuple):
    """A datatype: its class, bytes of one value, the number type where it is one, and order."""

    group: int
    size: int
    number: NumberType | None = None
    swapped: bool = False


@dataclass(frozen=True)
class Message:
    """A part of an object's header."""

    type: int
    data: bytes


@dataclass(frozen=True, eq=False)
class Node:
    """A group or an array: its parts by name, its attributes, or its numbers."""

    file: HDF5 = field(repr=False)
    messages: tuple[Message, ...] = field(repr=False)

    @property
    def is_array(self) -> bool:
        return any(m.type == _LAYOUT for m in self.messages)

    @cached_property
    def texts(self) -> dict[str, list[str]]:
        """The attributes that are text or rows of texts, and empty ones."""
        found = (self.file.attribute(m.data) for m in self.messages if m.type == _ATTRIBUTE)
        return {
            name: self.file.strings(kind, math.prod(shape), data)
            for name, kind, shape, data in found
        }

    def parts(self) -> dict[str, int]:
        """The names in a group, and where each header lies."""
        for message in self.messages:
            if message.type == _SYMBOLS:
                tree, heap = _unpack("<QQ", message.data)
                return dict(self.file.symbols(tree, heap))
        return {}

    def tensor(self) -> Tensor:
        """The numbers of an array."""
        kind, shape, place = None, None, None
        for message in self.messages:
            if message.type == _SPACE:
                shape = _shape(message.data)
            elif message.type == _TYPE:
                kind = _kind(message.data)
            elif message.type == _LAYOUT:
                place = self.file.place(message.data)
            elif message.type == _EXTERNAL:
                raise FormatError("an array lies in another file")
        if kind is None or kind.number is None or shape is None or place is None:
            raise FormatError("an array holds no numbers")
        if len(place) != math.prod(shape) * kind.size:
            raise FormatError(f"an array of shape {shape} has {len(place):,} bytes")
        return Tensor(kind.number, shape, partial(_numbers, place, kind, shape))


def _numbers(place: Bytes, kind: Kind, shape: tuple[int, ...]) -> NDArray[Any]:
    assert kind.number is not None
    found = place.view(kind.number.numpy).reshape(shape)
    return found.byteswap() if kind.swapped else found


class HDF5:
    """An open file."""

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._left = _MOST_LOOKS * len(data)
        self._seen: set[int] = set()
        self._heaps: dict[int, dict[int, tuple[int, int]]] = {}
        if self._bytes(0, 8) != _MAGIC:
            raise FormatError("it is no HDF5 file")
        version, lengths = self._bytes(8, 1)[0], self._bytes(13, 2)
        if version > 1 or lengths != b"\x08\x08":
            raise FormatError(_FORM)
        base, _, end, _, _, self._root = self._read("<QQQQQQ", 24 + 4 * version)
        if base != 0 or end > len(data):
            raise FormatError(f"it says that it has {end:,} bytes: the file is truncated")

    @property
    def root(self) -> Node:
        return self.node(self._root)

    def node(self, at: int) -> Node:
        """The group or array whose header lies there; each is opened once."""
        self._visit(at)
        version, _, count, _, size = self._read("<BBHII", at)
        if version != 1:
            raise FormatError("one of its headers is damaged or of the newer form")
        messages: list[Message] = []
        blocks = [(at + 16, size)]
        while blocks:
            start, size = blocks.pop(0)
            block = self._bytes(start, size)
            place = 0
            while len(messages) < count and place + 8 <= len(block):
                kind, length, flags = struct.unpack_from("<HHB", block, place)
                body = block[place + 8 : place + 8 + length]
                place += 8 + length
                if len(body) < length or (flags & 2 and kind in (_SPACE, _TYPE)):
                    raise FormatError("one of its headers is damaged or shares a part")
                if kind in _NEWER:
                    raise FormatError(_FORM)
                messages.append(Message(kind, body))
                if kind == _MORE:
                    begin, size = _unpack("<QQ", body)
                    self._visit(begin)
                    blocks.append((begin, size))
        return Node(self, tuple(messages))

    # -- groups ----------------------------------------------------------------------------
    def symbols(self, tree: int, heap: int) -> Iterator[tuple[str, int]]:
        """The entries of a group: a tree of nodes, and a heap of names."""
        mark, _, size, _, start = self._read("<4sIQQQ", heap)
        if mark != b"HEAP":
            raise FormatError("a group has no names")
        names = self._bytes(start, size)
        nodes = [tree]
        while nodes:
            at = nodes.pop()
            self._visit(at)
            mark, kind, level, used = self._read("<4sBBH", at)
            if mark != b"TREE" or kind != 0:
                raise FormatError("a group has no list of its parts")
            numbers = struct.unpack(f"<{2 * used + 1}Q", self._bytes(at + 24, 16 * used + 8))
            if level:
                nodes += numbers[1::2]
                continue
            for leaf in numbers[1::2]:
                yield from self._leaf(leaf, names)

    def _leaf(self, at: int, names: bytes) -> Iterator[tuple[str, int]]:
        self._visit(at)
        mark, _, _, used = self._read("<4sBBH", at)
        if mark != b"SNOD":
            raise FormatError("a group has no list of its parts")
        entries = self._bytes(at + 8, 40 * used)
        for i in range(used):
            name, header, cache = struct.unpack_from("<QQI", entries, 40 * i)
            end = names.find(b"\0", name) if name < len(names) else -1
            if end < 0 or cache == _LINK:
                raise FormatError("a part of a group has no name or is a link to another place")
            self.spend(end - name)
            yield _text(names[name:end]), header

    # -- attributes ------------------------------------------------------------------------
    def attribute(self, data: bytes) -> tuple[str, Kind, tuple[int, ...], bytes]:
        """Name, type, shape and value."""
        version, flags, *sizes = _unpack("<BBHHH", data)
        if version not in (1, 2, 3) or (version > 1 and flags & 3):
            raise FormatError("one of its attributes is damaged or shares a part")
        at = 9 if version == 3 else 8
        parts: list[bytes] = []
        for size in sizes:
            parts.append(data[at : at + size])
            at += -(-size // 8) * 8 if version == 1 else size
        name, kind, space = parts
        return _text(name.rstrip(b"\0")), _kind(kind), _shape(space), data[at:]

    def strings(self, kind: Kind, count: int, data: bytes) -> list[str]:
        """The texts of an attribute; none where it holds something else."""
        if kind.size == 0 or count * kind.size > len(data):
            raise FormatError("one of its attributes is damaged")
        rows = [data[i * kind.size : (i + 1) * kind.size] for i in range(count)]
        if kind.group == _STRING:
            return [_text(row.rstrip(b"\0 ")) for row in rows]
        if kind.group == _VARIABLE:
            return [self._variable(row) for row in rows]
        return []

    def _variable(self, row: bytes) -> str:
        """A text of any length: it lies in a heap that serves the whole file."""
        length, heap, index = _unpack("<IQI", row)
        if length == 0:
            return ""
        if heap not in self._heaps:
            self._heaps[heap] = dict(self._texts_of(heap))
        start, held = self._heaps[heap].get(index, (0, -1))
        if held < length:
            raise FormatError("one of its texts is not there")
        return _text(self._bytes(start, length).rstrip(b"\0"))

    def _texts_of(self, heap: int) -> Iterator[tuple[int, tuple[int, int]]]:
        """The texts of a heap by number: where each begins and how long it is."""
        mark, _, size = self._read("<4sIQ", heap)
        if mark != b"GCOL":
            raise FormatError("one of its texts is not there")
        at, end = heap + 16, heap + size
        while at + 16 <= end:
            number, _, _, held = self._read("<HHIQ", at)
            if number == 0:
                break
            yield number, (at + 16, held)
            at += 16 + -(-held // 8) * 8

    # -- bytes -----------------------------------------------------------------------------
    def place(self, layout: bytes) -> Bytes:
        """The bytes of an array."""
        version, kind = _unpack("<BB", layout)
        if version == 3 and kind == 0:
            (size,) = _unpack("<H", layout[2:])
            return np.frombuffer(layout[4 : 4 + size], np.uint8)
        if version != 3 or kind != 1:
            raise FormatError(
                "an array is packed in chunks, which Keras does not do: h5repack -l CONTI undoes it"
            )
        at, size = _unpack("<QQ", layout[2:])
        if size == 0:
            return self._data[:0]
        if at == _NOWHERE or at + size > len(self._data):
            raise FormatError("an array goes beyond the end: the file is truncated")
        return self._data[at : at + size]

    def spend(self, size: int) -> None:
        """Count bytes that are looked at: parts that share their texts are no way to blow up."""
        self._left -= size
        if self._left < 0:
            raise FormatError("its parts refer to the same places again and again")

    def _bytes(self, at: int, size: int) -> bytes:
        self.spend(size)
        if at + size > len(self._data):
            raise FormatError("it refers to places beyond its end: it is truncated or damaged")
        return self._data[at : at + size].tobytes()

    def _read(self, form: str, at: int) -> tuple[Any, ...]:
        return struct.unpack(form, self._bytes(at, struct.calcsize(form)))

    def _visit(self, at: int) -> None:
        if at in self._seen:
            raise FormatError("its parts refer to each other in a circle")
        self._seen.add(at)


def _unpack(form: str, data: bytes) -> tuple[Any, ...]:
    if len(data) < struct.calcsize(form):
        raise FormatError("one of its headers is damaged")
    return struct.unpack_from(form, data)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError("one of its names is not UTF-8") from None


def _shape(data: bytes) -> tuple[int, ...]:
    version, rank, _, _ = _unpack("<BBBB", data)
    if version not in (1, 2) or rank > 32:
        raise FormatError("an array has an unknown shape")
    if version == 2 and data[3] == 2:
        raise FormatError("an array has no shape")
    return _unpack(f"<{rank}Q", data[8 if version == 1 else 4 :])


def _kind(data: bytes) -> Kind:
    first, flags, _, _, size = _unpack("<BBBBI", data)
    group = first & 15
    swapped = bool(flags & 1)
    if group == _FIXED and size in (1, 2, 4, 8):
        word = f"{'' if flags & 8 else 'u'}int{8 * size}"
        return Kind(group, size, number_type(word), swapped)
    if group == _FLOAT:
        *_, exponent, _, mantissa = _unpack("<HHBBBB", data[8:])
        name = _FLOATS.get((exponent, mantissa))
        if name is None or number_type(name).itemsize != size:
            raise FormatError("an array holds floats of an unknown kind")
        return Kind(group, size, number_type(name), swapped)
    if group == _ENUM and size == 1:  # what h5py makes of booleans
        return Kind(group, size, NumberType.BOOL)
    if group == _VARIABLE and flags & 15 != 1:
        return Kind(-1, size)
    return Kind(group, size)
