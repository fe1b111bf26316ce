"""Pickles read as data: a small interpreter that builds plain values and runs nothing.

Python's own unpickler calls whatever a file names. Here a name of the file stays an inert
`Global`, and the only functions are those that the caller lists. Every length is checked against
the bytes that are there before anything is made.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from neuralsym.errors import FormatError

MOST_BYTES = 64 * 2**20
"""Of a pickle, which holds names and sizes only: no weights."""
_MOST_OBJECTS = 2_000_000
_PLAIN = (str, bytes, int, float, bool, type(None))


class Global(NamedTuple):
    """A class or function that the pickle names: the name alone."""

    module: str
    name: str

    def __str__(self) -> str:
        """As text that can be printed: the file may hold anything."""
        return ascii(f"{self.module}.{self.name}"[:80])[1:-1]


_MAKES_OBJECTS = (0x69, 0x6F, 0x81, 0x92)  # INST, OBJ, NEWOBJ, NEWOBJ_EX
_WHOLE = (
    "; where it is a whole model, only its weights can be read: "
    "torch.save(model.state_dict(), path)"
)

Build = Callable[..., Any]


class _Mark:
    """Where the arguments of an opcode begin on the stack."""


_MARK = _Mark()


class Attributes(dict[Any, Any]):
    """A dict made by calling a class such as OrderedDict, which may be given a state."""


def read_pickle(
    data: memoryview,
    start: int,
    functions: Mapping[Global, Build],
    persistent: Callable[[Any], Any],
) -> tuple[Any, int]:
    """The value of the pickle at `start`, and where it ends.

    functions: what REDUCE may call. persistent: gives what a persistent id stands for. Raises
    FormatError for whatever is not plain data.
    """
    return _Reader(data, start, functions, persistent).read()


class _Reader:
    def __init__(
        self,
        data: memoryview,
        start: int,
        functions: Mapping[Global, Build],
        persistent: Callable[[Any], Any],
    ) -> None:
        self.data = data
        self.at = start
        self.end = min(len(data), start + MOST_BYTES)
        self.functions = functions
        self.persistent = persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def read(self) -> tuple[Any, int]:
        for _ in range(_MOST_OBJECTS):
            code = self.data[self.take(1)]
            if code == 0x2E:  # STOP
                value = self.pop()
                if self.stack:
                    raise FormatError("its pickle leaves values behind")
                return value, self.at
            step = _STEPS.get(code)
            if step is None:
                hint = _WHOLE if code in _MAKES_OBJECTS else ""
                raise FormatError(
                    f"its pickle has the opcode {bytes([code])!r}, which can run code{hint}"
                )
            step(self)
        raise FormatError(f"its pickle has more than {_MOST_OBJECTS:,} opcodes")

    # -- bytes and stack -------------------------------------------------------------------
    def take(self, size: int) -> int:
        """Where the next `size` bytes begin."""
        start = self.at
        if size < 0 or size > self.end - start:
            raise FormatError("its pickle ends early")
        self.at = start + size
        return start

    def number(self, form: struct.Struct) -> Any:
        return form.unpack_from(self.data, self.take(form.size))[0]

    def bytes(self, size: int) -> bytes:
        start = self.take(size)
        return bytes(self.data[start : start + size])

    def text(self, size: int) -> str:
        try:
            return self.bytes(size).decode("utf-8")
        except UnicodeDecodeError:
            raise FormatError("its pickle has text that is not UTF-8") from None

    def line(self) -> str:
        found = bytes(self.data[self.at : min(self.end, self.at + 4096)]).find(b"\n")
        if found < 0:
            raise FormatError("its pickle ends early")
        text = self.text(found)
        self.take(1)
        return text

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise FormatError("its pickle takes values that are not there")
        return self.stack.pop()

    def top(self, kind: type[Any]) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise FormatError("its pickle fills what is no container")
        return self.stack[-1]

    def marked(self) -> list[Any]:
        """The values since the last mark."""
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is _MARK:
                values = self.stack[i + 1 :]
                del self.stack[i:]
                return values
        raise FormatError("its pickle takes values that are not there")

    # -- opcodes ---------------------------------------------------------------------------
    def tuple(self, size: int) -> None:
        values = [self.pop() for _ in range(size)]
        self.push(tuple(reversed(values)))

    def entries(self, into: dict[Any, Any], values: list[Any]) -> None:
        if len(values) % 2:
            raise FormatError("its pickle has a key without a value")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, _PLAIN):
                raise FormatError("its pickle has a key that is neither text nor a number")
            into[key] = value

    def remember(self, index: int) -> None:
        if not self.stack:
            raise FormatError("its pickle takes values that are not there")
        self.memo[index] = self.stack[-1]

    def recall(self, index: int) -> None:
        if index not in self.memo:
            raise FormatError("its pickle takes values that are not there")
        self.push(self.memo[index])

    def named(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise FormatError("its pickle has a name that is no text")
        self.push(Global(module, name))

    def stacked_name(self) -> None:
        name, module = self.pop(), self.pop()
        self.named(module, name)

    def reduce(self) -> None:
        arguments, callee = self.pop(), self.pop()
        found = self.functions.get(callee) if isinstance(callee, Global) else None
        if found is None or not isinstance(arguments, tuple):
            what = callee if isinstance(callee, Global) else "a value"
            raise FormatError(
                f"its pickle wants to call {what}, and only tensors and plain values are read: "
                "save the state dict alone, torch.save(model.state_dict(), path)"
            )
        try:
            self.push(found(*arguments))
        except TypeError:
            raise FormatError(f"its pickle calls {callee} with unexpected arguments") from None

    def build(self) -> None:
        self.pop()  # the state: `_metadata` of a state dict, which says nothing about weights
        if not self.stack or not isinstance(self.stack[-1], Attributes):
            raise FormatError("its pickle sets the state of an object; only plain values are read")

    def whole(self, text: str) -> None:
        if text in ("00", "01"):
            return self.push(text == "01")
        try:
            if len(text) > 100:
                raise ValueError
            self.push(int(text))
        except ValueError:
            raise FormatError(f"its pickle has the number {text[:20]!r}") from None

    def real(self, text: str) -> None:
        try:
            self.push(float(text))
        except ValueError:
            raise FormatError(f"its pickle has the number {text[:20]!r}") from None

    def long(self, size: int) -> None:
        if size > 1024:
            raise FormatError(f"its pickle has a number of {size} bytes")
        self.push(int.from_bytes(self.bytes(size), "little", signed=True))

    def proto(self) -> None:
        version = self.number(_U1)
        if version > 5:
            raise FormatError(f"its pickle has protocol {version}; up to 5 are known")

    def append(self) -> None:
        value = self.pop()
        self.top(list).append(value)

    def set_item(self) -> None:
        value, key = self.pop(), self.pop()
        self.entries(self.top(dict), [key, value])

    def extend(self) -> None:
        values = self.marked()
        self.top(list).extend(values)

    def set_items(self) -> None:
        values = self.marked()
        self.entries(self.top(dict), values)

    def make_dict(self) -> None:
        made: dict[Any, Any] = {}
        values = self.marked()
        self.entries(made, values)
        self.push(made)

    def make_set(self, kind: type[Any]) -> None:
        values = self.marked()
        self.plain(values)
        self.push(kind(values))

    def add(self) -> None:
        values = self.marked()
        self.plain(values)
        self.top(set).update(values)

    def plain(self, values: list[Any]) -> None:
        if not all(isinstance(v, _PLAIN) for v in values):
            raise FormatError("its pickle has a set of other things than text and numbers")

    def stored(self, given: Any) -> None:
        self.push(self.persistent(given))


_U1, _U2, _I4, _U4, _U8 = (struct.Struct(f) for f in ("<B", "<H", "<i", "<I", "<Q"))
_F8 = struct.Struct(">d")

_STEPS: dict[int, Callable[[_Reader], object]] = {
    0x80: _Reader.proto,
    0x95: lambda r: r.take(8),  # FRAME: its length says nothing that is needed here
    ord("("): lambda r: r.push(_MARK),
    ord("0"): lambda r: r.pop(),
    ord("1"): lambda r: r.marked(),
    ord("N"): lambda r: r.push(None),
    0x88: lambda r: r.push(True),
    0x89: lambda r: r.push(False),
    ord("I"): lambda r: r.whole(r.line()),
    ord("L"): lambda r: r.whole(r.line().rstrip("L")),
    ord("J"): lambda r: r.push(r.number(_I4)),
    ord("K"): lambda r: r.push(r.number(_U1)),
    ord("M"): lambda r: r.push(r.number(_U2)),
    0x8A: lambda r: r.long(r.number(_U1)),
    0x8B: lambda r: r.long(r.number(_U4)),
    ord("F"): lambda r: r.real(r.line()),
    ord("G"): lambda r: r.push(r.number(_F8)),
    ord("X"): lambda r: r.push(r.text(r.number(_U4))),
    0x8C: lambda r: r.push(r.text(r.number(_U1))),
    0x8D: lambda r: r.push(r.text(r.number(_U8))),
    ord("V"): lambda r: r.push(r.line()),
    ord("T"): lambda r: r.push(r.text(r.number(_U4))),  # BINSTRING: what Python 2 wrote
    ord("U"): lambda r: r.push(r.text(r.number(_U1))),
    ord("B"): lambda r: r.push(r.bytes(r.number(_U4))),
    ord("C"): lambda r: r.push(r.bytes(r.number(_U1))),
    0x8E: lambda r: r.push(r.bytes(r.number(_U8))),
    ord(")"): lambda r: r.push(()),
    ord("t"): lambda r: r.push(tuple(r.marked())),
    0x85: lambda r: r.tuple(1),
    0x86: lambda r: r.tuple(2),
    0x87: lambda r: r.tuple(3),
    ord("]"): lambda r: r.push([]),
    ord("l"): lambda r: r.push(r.marked()),
    ord("a"): _Reader.append,
    ord("e"): _Reader.extend,
    ord("}"): lambda r: r.push({}),
    ord("d"): _Reader.make_dict,
    ord("s"): _Reader.set_item,
    ord("u"): _Reader.set_items,
    0x8F: lambda r: r.push(set()),
    0x90: _Reader.add,
    0x91: lambda r: r.make_set(frozenset),
    ord("c"): lambda r: r.named(r.line(), r.line()),
    0x93: _Reader.stacked_name,
    ord("R"): _Reader.reduce,
    ord("b"): _Reader.build,
    ord("Q"): lambda r: r.stored(r.pop()),
    ord("P"): lambda r: r.stored(r.line()),
    ord("g"): lambda r: r.recall(_index(r.line())),
    ord("h"): lambda r: r.recall(r.number(_U1)),
    ord("j"): lambda r: r.recall(r.number(_U4)),
    ord("p"): lambda r: r.remember(_index(r.line())),
    ord("q"): lambda r: r.remember(r.number(_U1)),
    ord("r"): lambda r: r.remember(r.number(_U4)),
    0x94: lambda r: r.remember(len(r.memo)),
}


def _index(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise FormatError("its pickle takes values that are not there")
    return int(text)
