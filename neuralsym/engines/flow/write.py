"""Writing .flow files, byte for byte as the format says, in pieces so that no data is copied."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path

from neuralsym.core.files import replacing, target_of
from neuralsym.engines.flow.flow import Flow
from neuralsym.engines.flow.parts import Blob, Connector, Function, Operation, Variable
from neuralsym.engines.flow.parts import VariableFlag as Flag
from neuralsym.engines.flow.read import (
    ATTRIBUTES_SINCE,
    BLOBS_SINCE,
    FLAGS_SINCE,
    MAGIC,
    VERSIONS,
)
from neuralsym.errors import FormatError, warn

Buffer = bytes | memoryview


def save(flow: Flow, path: str | PathLike[str], version: int | None = None) -> None:
    """Write a file; it appears under its name when it is complete."""
    path = Path(path)
    target = target_of(path, "model.flow")
    pieces = list(write(flow, version))
    with replacing(path, [target]) as (file,):
        for piece in pieces:
            file.write(piece)


def write(flow: Flow, version: int | None = None) -> Iterator[Buffer]:
    """The bytes of a file, in pieces. Raises FormatError for what the version cannot hold."""
    if version is None:
        version = flow.version or lowest_version(flow)
    if version not in VERSIONS:
        known = f"{VERSIONS.start} to {VERSIONS.stop - 1}"
        raise FormatError(f"version {version!r} of .flow files is not known; write {known}")
    _check_held(flow, version)
    return _Writer(version).flow(flow)


def lowest_version(flow: Flow) -> int:
    """The lowest version from 4 on that holds what a flow has."""
    if any(v.attrs for v in flow.vars.values()):
        return ATTRIBUTES_SINCE
    return FLAGS_SINCE if _flagged(flow) else BLOBS_SINCE


def _flagged(flow: Flow) -> list[str]:
    """The parts with flags that version 3 and 4 have no place for."""
    found = [v.name for v in flow.vars.values() if v.flags & ~int(Flag.REF)]
    rest: tuple[Operation | Function | Connector | Blob, ...]
    rest = (*flow.ops.values(), *flow.funcs.values(), *flow.cnxs.values(), *flow.blobs.values())
    return found + [part.name for part in rest if part.flags]


def _check_held(flow: Flow, version: int) -> None:
    if version < ATTRIBUTES_SINCE and any(v.attrs for v in flow.vars.values()):
        name = next(v.name for v in flow.vars.values() if v.attrs)
        raise FormatError(
            f"variable {name!r} has attributes, which .flow files have from version "
            f"{ATTRIBUTES_SINCE} on, not in version {version}"
        )
    if version < BLOBS_SINCE and flow.blobs:
        raise FormatError(
            f"the flow has the blob {next(iter(flow.blobs))!r}; .flow files have blobs from "
            f"version {BLOBS_SINCE} on, not in version {version}"
        )
    if version < FLAGS_SINCE and (flagged := _flagged(flow)):
        warn(
            f"version {version} of .flow files has no flags but &: those of "
            f"{', '.join(flagged[:3])}{', ...' if len(flagged) > 3 else ''} are left out"
        )


class _Writer:
    """The parts of one file as bytes."""

    def __init__(self, version: int) -> None:
        self.version = version

    def flow(self, flow: Flow) -> Iterator[Buffer]:
        yield MAGIC + _int(self.version) + self.flags(flow.flags)
        yield _int(len(flow.vars))
        for var in flow.vars.values():
            yield from self.variable(var)
        yield _int(len(flow.ops)) + b"".join(map(self.operation, flow.ops.values()))
        yield _int(len(flow.funcs)) + b"".join(map(self.function, flow.funcs.values()))
        yield _int(len(flow.cnxs)) + b"".join(map(self.connector, flow.cnxs.values()))
        if self.version >= BLOBS_SINCE:
            yield _int(len(flow.blobs))
            for blob in flow.blobs.values():
                yield from self.blob(blob)

    def flags(self, flags: int) -> bytes:
        return _int(int(flags)) if self.version >= FLAGS_SINCE else b""

    def variable(self, var: Variable) -> Iterator[Buffer]:
        type_ = var.type
        if self.version < FLAGS_SINCE and var.ref and not type_.startswith("&"):
            type_ = "&" + type_
        try:
            shape = struct.pack(f"<{len(var.shape)}i", *var.shape)
        except struct.error:
            raise FormatError(
                f"variable {var.name!r}: the shape {var.shape} is not one of 32-bit integers"
            ) from None
        head = self.flags(var.flags) + _text(var.name) + _texts(var.aliases) + _text(type_)
        head += _int(len(var.shape)) + shape
        if self.version >= ATTRIBUTES_SINCE:
            head += _attributes(var.attrs)
        yield head
        yield from _data(var.raw())

    def operation(self, op: Operation) -> bytes:
        head = self.flags(op.flags) + _text(op.name) + _text(op.type)
        names = _names(op.inputs, op.words) + _names(op.outputs, op.words)
        return head + names + _attributes(op.attrs)

    def function(self, func: Function) -> bytes:
        return self.flags(func.flags) + _text(func.name) + _texts([op.name for op in func.ops])

    def connector(self, cnx: Connector) -> bytes:
        return self.flags(cnx.flags) + _text(cnx.name) + _names(cnx.links, cnx.words)

    def blob(self, blob: Blob) -> Iterator[Buffer]:
        yield self.flags(blob.flags) + _text(blob.name) + _text(blob.type) + _attributes(blob.attrs)
        yield from _data(blob.raw())


def _int(value: int) -> bytes:
    return struct.pack("<i", value)


def _text(text: str) -> bytes:
    raw = text.encode()
    return _int(len(raw)) + raw


def _texts(texts: Sequence[str]) -> bytes:
    return _int(len(texts)) + b"".join(map(_text, texts))


def _names(variables: Sequence[Variable], words: Mapping[Variable, str]) -> bytes:
    """The names of variables, or the aliases that they have kept and are known by here."""
    found = ((v, words.get(v)) for v in variables)
    return _texts([word if word in v.aliases and word else v.name for v, word in found])


def _attributes(attrs: Mapping[str, str]) -> bytes:
    pairs: Iterable[bytes] = (_text(name) + _text(value) for name, value in attrs.items())
    return _int(len(attrs)) + b"".join(pairs)


def _data(raw: Buffer) -> Iterator[Buffer]:
    yield struct.pack("<Q", len(raw))
    if len(raw):
        yield raw
