"""Reading .flow files: every count and length is held against the bytes that are there.

    flow := "flow" version [>=5: flags] vars ops functions connectors [>=4: blobs]

with little-endian int32 counts before each list, and nothing between or after the parts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from neuralsym.core.files import Bytes, read_file
from neuralsym.dtypes import NumberType
from neuralsym.engines.flow.flow import Flow
from neuralsym.engines.flow.parts import BATCH, Blob, Connector, Function, Operation, Variable
from neuralsym.errors import FormatError, GraphError, did_you_mean, warn

MAGIC = b"flow"
VERSIONS = range(3, 7)
BLOBS_SINCE = 4
FLAGS_SINCE = 5
ATTRIBUTES_SINCE = 6

_INT = struct.Struct("<i")
_LENGTH = struct.Struct("<Q")
Found = TypeVar("Found")


def load(path: str | PathLike[str], batch_size: int = 1) -> Flow:
    """The flow of a file, whose data is read or mapped, not copied."""
    return read(read_file(Path(path), ".flow"), fspath(path), batch_size)


def read(file: Bytes, label: str, batch_size: int = 1) -> Flow:
    """The flow of the bytes of a file; `label` is what messages call it."""
    return _Reader(file, label).flow(batch_size)


class _Reader:
    """The bytes of one file and how far they have been read."""

    def __init__(self, file: Bytes, label: str) -> None:
        self.view = file.data.toreadonly()
        self.label = label
        self.at = 0
        self.version = 0

    def wrong(self, what: str, at: int | None = None) -> FormatError:
        return FormatError(f"{self.label}: at byte {self.at if at is None else at}, {what}")

    # -- numbers and texts -------------------------------------------------------------------
    def _take(self, size: int, what: str) -> memoryview:
        left = len(self.view) - self.at
        if size > left:
            raise self.wrong(f"{what} takes {size} bytes and only {left} are left: it is cut off")
        self.at += size
        return self.view[self.at - size : self.at]

    def number(self, what: str) -> int:
        found: int = _INT.unpack(self._take(4, what))[0]
        return found

    def count(self, what: str, smallest: int) -> int:
        """A number of parts that take at least `smallest` bytes each."""
        at = self.at
        count = self.number(f"the number of {what}")
        left = len(self.view) - self.at
        if count < 0 or count * smallest > left:
            raise self.wrong(f"{count} {what} cannot be in the {left} bytes that follow", at)
        return count

    def text(self, what: str) -> str:
        at = self.at
        size = self.number(f"the length of {what}")
        if size < 0:
            raise self.wrong(f"{what} has the length {size}", at)
        raw = bytes(self._take(size, what))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.wrong(f"{what} is not UTF-8: {raw[:40]!r}", at) from None

    def data(self, what: str) -> memoryview | None:
        size = _LENGTH.unpack(self._take(8, f"the length of {what}"))[0]
        return self._take(size, what) if size else None

    def flags(self, what: str) -> int:
        return self.number(f"the flags of {what}") if self.version >= FLAGS_SINCE else 0

    def attributes(self, what: str) -> dict[str, str]:
        made: dict[str, str] = {}
        for _ in range(self.count(f"attributes of {what}", 8)):
            at = self.at
            name = self.text(f"the name of an attribute of {what}")
            if name in made:
                raise self.wrong(f"{what} has two attributes {name!r}", at)
            made[name] = self.text(f"attribute {name!r} of {what}")
        return made

    # -- the file ----------------------------------------------------------------------------
    def flow(self, batch_size: int) -> Flow:
        if bytes(self.view[:4]) != MAGIC:
            began = bytes(self.view[:4])
            raise FormatError(
                f"{self.label} is no .flow file: it begins with {began!r}, not {MAGIC!r}"
            )
        self.at = 4
        self.version = self.number("the version")
        if self.version not in VERSIONS:
            raise FormatError(
                f"{self.label} is a .flow file of version {self.version}; {VERSIONS.start} to "
                f"{VERSIONS.stop - 1} can be read"
            )
        flow = Flow(batch_size)
        flow.version = self.version
        flow.flags = self.flags("the file")
        extra = 4 if self.version >= FLAGS_SINCE else 0
        self._list(flow.vars, "variables", 24 + extra, self._variable)
        self._names = {a: v for v in reversed(flow.vars.values()) for a in v.aliases} | flow.vars
        self._list(flow.ops, "operations", 20 + extra, self._operation)
        self._list(flow.funcs, "functions", 8 + extra, lambda: self._function(flow))
        self._list(flow.cnxs, "connectors", 8 + extra, self._connector)
        if self.version >= BLOBS_SINCE:
            self._list(flow.blobs, "blobs", 20 + extra, self._blob)
        if self.at != len(self.view):
            raise self.wrong(f"the file should end; {len(self.view) - self.at} bytes follow")
        return flow

    def _list(
        self, into: dict[str, Any], what: str, smallest: int, read_one: Callable[[], Any]
    ) -> None:
        for _ in range(self.count(what, smallest)):
            at = self.at
            part = read_one()
            if part.name in into:
                raise self.wrong(f"two {what} are called {part.name!r}", at)
            into[part.name] = part

    def _variable(self) -> Variable:
        flags = self.flags("a variable")
        var = Variable(self.text("the name of a variable"))
        what = f"variable {var.name!r}"
        var.flags = flags
        aliases = self.count(f"aliases of {what}", 4)
        var.aliases = [self.text(f"an alias of {what}") for _ in range(aliases)]
        at = self.at
        var.type = self.text(f"the type of {what}")
        if self.version < FLAGS_SINCE and var.type.startswith("&"):
            var.ref = True
        rank = self.count(f"sizes of {what}", 4)
        sizes = self._take(4 * rank, f"the shape of {what}")
        var.shape = [int(d) for d in np.frombuffer(sizes, "<i4")]
        if any(size < BATCH for size in var.shape):
            raise self.wrong(f"{what} has the shape {var.shape}; -1 stands for the batch size", at)
        if self.version >= ATTRIBUTES_SINCE:
            var.attrs = self.attributes(what)
        var.data = self.data(f"the data of {what}")
        try:
            self._check_data(var)
        except FormatError as error:
            raise self.wrong(str(error), at) from None
        return var

    def _check_data(self, var: Variable) -> None:
        dtype = var.dtype
        if var.data is None or dtype in (None, NumberType.STRING) or 0 in var.shape:
            return
        assert dtype is not None
        has, needs = len(var.raw()), var.elements() * dtype.itemsize
        if has < needs:
            raise FormatError(
                f"variable {var.name!r} has {has} bytes of data, {var.typestr()} takes {needs}"
            )
        if has > needs:
            warn(
                f"{self.label}: variable {var.name!r} has {has} bytes of data, {var.typestr()} "
                f"takes {needs}; the rest is not used"
            )

    def _operation(self) -> Operation:
        flags = self.flags("an operation")
        op = Operation(self.text("the name of an operation"))
        what = f"operation {op.name!r}"
        op.flags = flags
        op.type = self.text(f"the type of {what}")
        for kind, add in (("inputs", op.add_input), ("outputs", op.add_output)):
            for _ in range(self.count(f"{kind} of {what}", 4)):
                at = self.at
                try:
                    add(self._variable_named(f"one of the {kind} of {what}", op.words))
                except GraphError as error:
                    raise self.wrong(str(error), at) from None
        op.attrs = self.attributes(what)
        return op

    def _variable_named(self, what: str, words: dict[Variable, str]) -> Variable:
        """A variable by its name or an alias; `words` keeps the alias."""
        name, found = self._named(self._names, what, "variable")
        if name != found.name:
            words[found] = name
        return found

    def _named(self, parts: dict[str, Found], what: str, kind: str) -> tuple[str, Found]:
        at = self.at
        name = self.text(f"the name of {what}")
        found = parts.get(name)
        if found is None:
            hint = did_you_mean(name, parts)
            raise self.wrong(f"{what} is {name!r}, and there is no such {kind}{hint}", at)
        return name, found

    def _function(self, flow: Flow) -> Function:
        flags = self.flags("a function")
        func = Function(self.text("the name of a function"))
        what = f"function {func.name!r}"
        func.flags = flags
        for _ in range(self.count(f"operations of {what}", 4)):
            at = self.at
            _, op = self._named(flow.ops, f"an operation of {what}", "operation")
            if op.func is not None:
                raise self.wrong(
                    f"{what} has operation {op.name!r}, which function {op.func.name!r} has "
                    "already",
                    at,
                )
            func.add(op)
        return func

    def _connector(self) -> Connector:
        flags = self.flags("a connector")
        cnx = Connector(self.text("the name of a connector"))
        what = f"connector {cnx.name!r}"
        cnx.flags = flags
        for _ in range(self.count(f"links of {what}", 4)):
            cnx.links.append(self._variable_named(f"a link of {what}", cnx.words))
        return cnx

    def _blob(self) -> Blob:
        flags = self.flags("a blob")
        blob = Blob(self.text("the name of a blob"))
        what = f"blob {blob.name!r}"
        blob.flags = flags
        blob.type = self.text(f"the type of {what}")
        blob.attrs = self.attributes(what)
        blob.data = self.data(f"the data of {what}") or b""
        return blob
