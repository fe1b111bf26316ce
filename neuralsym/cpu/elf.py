"""Objects of 64-bit x86 as one block of code that can lie anywhere: what `warmup` stores.

A process that maps such a block needs no linker, and so not LLVM. References inside the block are
settled here, once; what depends on where it lies goes through 8-byte slots, which `placed` fills.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

MAGIC = b"\x7fELF\x02\x01\x01"
"""64 bits, little-endian."""

RELOCATABLE, X86_64 = 1, 62
SYMBOLS, RELOCATIONS, NO_BITS = 2, 4, 8
WRITE, ALLOCATE, THREAD_LOCAL = 0x1, 0x2, 0x400
UNDEFINED, RESERVED = 0, 0xFF00

# How a place refers to a symbol (the x86-64 ABI): by address; by the distance of the symbol, of
# code that may lie elsewhere, or of a slot with its address.
ADDRESS = 1
DISTANCE, FUNCTION, LONG_DISTANCE = 2, 4, 24
SLOT = (9, 41, 42)

FRAMES = ".eh_frame"
"""For exceptions that pass through, which kernels do not let happen."""

CONSTANT_DATA = ".data.rel.ro"
"""Written by the linker alone."""

JUMP = b"\xff\x25"
"""`jmp [rip + distance]`."""

LARGEST_ALIGNMENT = 4096
"""Of a block: the least that a page has."""

LARGEST = 1 << 30
"""No section is larger."""


class Linked(NamedTuple):
    """A block of code: where its entries lie, and its slots.

    entries: the offset of each object's symbol. inner: offsets of int64 words to which the block's
    address is to be added. outer: (offset, name) of words that hold a function's address.
    """

    code: bytes
    entries: list[int]
    inner: list[int]
    outer: list[tuple[int, str]]


class Unlinkable(Exception):
    """An object of another platform, or with parts that a constant block cannot have."""


def link(objects: Sequence[tuple[bytes, str]]) -> Linked | None:
    """Objects, each with the symbol that is called from outside, as one block of code.

    None where one is not of this kind: another platform's, with variables, or with references
    of kinds that kernels do not have.
    """
    linker = _Linker()
    try:
        entries = [linker.add(data, symbol) for data, symbol in objects]
    except (Unlinkable, struct.error, ValueError, LookupError):
        return None
    return Linked(bytes(linker.code), entries, linker.inner, list(linker.outer.items()))


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int


class _Linker:
    """The block as it grows."""

    def __init__(self) -> None:
        self.code = bytearray()
        self.inner: list[int] = []
        self.outer: dict[int, str] = {}
        self._slots: dict[str | int, int] = {}
        self._jumps: dict[str, int] = {}

    def add(self, data: bytes, symbol: str) -> int:
        """Put an object's sections behind what there is; the offset of its symbol."""
        sections = _sections(data)
        places: dict[int, int] = {}
        for number, section in enumerate(sections):
            if section.flags & ALLOCATE and section.name != FRAMES:
                places[number] = self._place(data, section)
        symbols: dict[int, list[_Symbol]] = {
            number: _symbols(data, section, sections[section.link])
            for number, section in enumerate(sections)
            if section.kind == SYMBOLS
        }
        for section in sections:
            if section.kind == RELOCATIONS and section.info in places:
                start = places[section.info]
                known = symbols[section.link]
                for at in range(section.offset, section.offset + section.size, 24):
                    offset, info, addend = struct.unpack_from("<QQq", data, at)
                    target = known[info >> 32]
                    self._refer(start + offset, info & 0xFFFFFFFF, target, addend, places)
        for found in (s for table in symbols.values() for s in table):
            if found.name == symbol and found.section in places:
                return places[found.section] + found.value
        raise Unlinkable(symbol)

    def _place(self, data: bytes, section: _Section) -> int:
        constant = section.name.startswith(CONSTANT_DATA)
        changes = section.flags & WRITE and not constant
        if section.size and (changes or section.flags & THREAD_LOCAL):
            raise Unlinkable(section.name)
        if section.align > LARGEST_ALIGNMENT or section.size > LARGEST:
            raise Unlinkable(section.name)
        self._align(max(section.align, 1))
        start = len(self.code)
        if section.kind == NO_BITS:
            self.code += bytes(section.size)
        else:
            self.code += data[section.offset : section.offset + section.size]
        return start

    def _refer(
        self, at: int, kind: int, symbol: _Symbol, addend: int, places: dict[int, int]
    ) -> None:
        """Settle one reference at an offset of the block."""
        inside = symbol.section != UNDEFINED
        if inside and symbol.section not in places:
            raise Unlinkable(symbol.name)
        where = places[symbol.section] + symbol.value if inside else 0
        if kind == ADDRESS:
            if not inside:
                raise Unlinkable(symbol.name)
            struct.pack_into("<q", self.code, at, where + addend)
            self.inner.append(at)
        elif kind == LONG_DISTANCE and inside:
            struct.pack_into("<q", self.code, at, where + addend - at)
        elif kind in (DISTANCE, FUNCTION):
            if not inside:
                if kind == DISTANCE:
                    raise Unlinkable(symbol.name)  # of a variable, it may be
                where = self._jump(symbol.name)
            struct.pack_into("<i", self.code, at, where + addend - at)
        elif kind in SLOT:
            slot = self._slot(where if inside else symbol.name)
            struct.pack_into("<i", self.code, at, slot + addend - at)
        else:
            raise Unlinkable(symbol.name)

    def _jump(self, name: str) -> int:
        """The offset of a jump to a function outside."""
        if name not in self._jumps:
            slot = self._slot(name)
            self._align(8)
            self._jumps[name] = at = len(self.code)
            self.code += JUMP + struct.pack("<i", slot - at - 6) + bytes(2)
        return self._jumps[name]

    def _slot(self, what: str | int) -> int:
        """The offset of a word with the address of a function outside, or of an offset inside."""
        if what not in self._slots:
            self._align(8)
            self._slots[what] = at = len(self.code)
            self.code += struct.pack("<q", what if isinstance(what, int) else 0)
            if isinstance(what, int):
                self.inner.append(at)
            else:
                self.outer[at] = what
        return self._slots[what]

    def _align(self, step: int) -> None:
        self.code += bytes(-len(self.code) % step)


def _sections(data: bytes) -> list[_Section]:
    kind, machine = struct.unpack_from("<HH", data, 16)
    if not data.startswith(MAGIC) or (kind, machine) != (RELOCATABLE, X86_64):
        raise Unlinkable("another platform")
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    found: list[tuple[int, _Section]] = []
    for number in range(count):
        name, sort, flags, _, offset, length, link, info, align, _ = struct.unpack_from(
            "<IIQQQQIIQQ", data, start + number * size
        )
        found.append((name, _Section("", sort, flags, offset, length, link, info, align)))
    texts = found[names][1]
    return [s._replace(name=_text(data, texts.offset + name)) for name, s in found]


def _symbols(data: bytes, table: _Section, texts: _Section) -> list[_Symbol]:
    found: list[_Symbol] = []
    for at in range(table.offset, table.offset + table.size, 24):
        name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
        if section >= RESERVED:
            section = -1  # a file's name, or absolute: nothing refers to it
        found.append(_Symbol(_text(data, texts.offset + name), section, value))
    return found


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
