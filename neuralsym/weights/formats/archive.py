"""Zip files as weights come in: members as views of the file, and nothing larger than it says.

Sizes are checked before anything is unpacked, members that overlap are refused, and the check sum
of each member is compared when it is read.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from neuralsym.core.files import Bytes
from neuralsym.errors import FormatError

_STORED, _DEFLATED = 0, 8
_MOST_RATIO = 1100
"""What deflate can shrink by, at most; a larger claim is false."""


class View(io.RawIOBase):
    """Bytes in memory, or mapped, as a file to read and seek in; nothing is copied for it."""

    def __init__(self, data: Bytes) -> None:
        self._data = data.data
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        part = self._data[self._at : self._at + len(target)]
        target[: len(part)] = part
        self._at += len(part)
        return len(part)

    def seek(self, offset: int, whence: int = 0) -> int:
        at = (0, self._at, len(self._data))[whence] + offset
        if at < 0:
            raise OSError("a place before the beginning of the file")
        self._at = at
        return at

    def tell(self) -> int:
        return self._at


@dataclass(frozen=True)
class Member:
    """One file in the archive: `packed` is how it lies there, `size` what it is."""

    name: str
    packed: Bytes
    size: int
    deflated: bool
    check: int

    def head(self, size: int) -> bytes:
        """Its first bytes, for a look at what it is."""
        size = min(size, self.size)
        return self._unpacked(size) if self.deflated else self.packed[:size].tobytes()

    def data(self) -> Bytes:
        """Its bytes, a view where they are stored as they are; raises FormatError."""
        if not self.deflated:
            found = self.packed
        else:
            found = np.frombuffer(self._unpacked(self.size), np.uint8)
        if len(found) != self.size or zlib.crc32(found.data) != self.check:
            raise FormatError(f"its part {self.name!r} is damaged: the check sum differs")
        return found

    def _unpacked(self, size: int) -> bytes:
        try:
            return zlib.decompressobj(-15).decompress(self.packed.data, size) if size else b""
        except zlib.error as error:
            raise FormatError(f"its part {self.name!r} is damaged: {error}") from None


def read_archive(data: Bytes) -> dict[str, Member]:
    """The members of a zip file by name; raises FormatError for one that cannot be trusted."""
    try:
        with zipfile.ZipFile(View(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as error:
        raise FormatError(f"it is no whole zip file: {error}") from None
    members: dict[str, Member] = {}
    spans: list[tuple[int, int]] = []
    for entry in entries:
        if entry.filename.endswith("/"):
            continue
        start, end = _span(data, entry)
        spans.append((entry.header_offset, end))
        if entry.filename in members:
            raise FormatError(f"it has two parts called {entry.filename!r}")
        packed, deflated = data[start:end], entry.compress_type == _DEFLATED
        members[entry.filename] = Member(
            entry.filename, packed, entry.file_size, deflated, entry.CRC
        )
    spans.sort()
    if any(end > start for (_, end), (start, _) in pairwise(spans)):
        raise FormatError("its parts overlap, as in a zip bomb")
    return members


def _span(data: Bytes, entry: zipfile.ZipInfo) -> tuple[int, int]:
    """Where the bytes of an entry lie, as its own header says."""
    name, at = entry.filename, entry.header_offset
    if entry.flag_bits & 1 or entry.compress_type not in (_STORED, _DEFLATED):
        raise FormatError(f"its part {name!r} is encrypted or packed in an unknown way")
    head = data[at : at + 30].tobytes() if at >= 0 else b""
    if len(head) < 30 or head[:4] != b"PK\x03\x04":
        raise FormatError(f"its part {name!r} does not lie where the list of parts says")
    words, extra = struct.unpack("<HH", head[26:30])
    start = at + 30 + words + extra
    end = start + entry.compress_size
    if end > len(data):
        raise FormatError(f"its part {name!r} goes beyond the end: the file is truncated")
    if entry.compress_type == _STORED and entry.file_size != entry.compress_size:
        raise FormatError(f"its part {name!r} has two sizes")
    if entry.file_size > _MOST_RATIO * entry.compress_size + 1024:
        raise FormatError(
            f"its part {name!r} claims {entry.file_size:,} bytes unpacked from "
            f"{entry.compress_size:,}, as in a zip bomb"
        )
    return start, end
