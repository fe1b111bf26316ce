"""The parts of a .flow file: variables, operations, functions, connectors and blobs.

They have the methods of Myelin's Python module. They say what is in a file and nothing of what it
computes; `to_symbolic` of the engine does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.dtypes import NumberType, from_myelin
from neuralsym.errors import FormatError, GraphError, TypeMismatch

Data = bytes | bytearray | memoryview | NDArray[Any] | float | int | str

BATCH = -1
"""A size of a shape that is the batch size of the flow."""


class VariableFlag(IntFlag):
    """What a file says about a variable from version 5 on; earlier ones know REF alone."""

    IN = 1
    OUT = 2
    REF = 4
    LEARNABLE = 8
    UNIQUE = 16
    DYNAMIC = 32
    ROW = 64
    COL = 128
    NOGRADIENT = 256
    CAST = 512


class OperationFlag(IntFlag):
    """What a file says about an operation from version 5 on."""

    NOGRADIENT = 1


class FunctionFlag(IntFlag):
    """What a file says about a function from version 5 on."""

    TRAINING = 1
    BACKPROP = 2


def _flag(bit: VariableFlag) -> property:
    """A flag of a variable as an attribute that can be set."""

    def read(self: Variable) -> bool:
        return bool(self.flags & bit)

    def write(self: Variable, value: bool) -> None:
        self.flags = self.flags | bit if value else self.flags & ~bit

    return property(read, write)


class Attributes:
    """Text by name, as operations, variables and blobs have it."""

    __slots__ = ()
    attrs: dict[str, str]

    def add_attr(self, name: str, value: object) -> None:
        """Set an attribute: True as "1", False as "0", a list as "[1, 2]", all else by str()."""
        self.attrs[name] = str(int(value)) if isinstance(value, bool) else str(value)

    def attr(self, name: str, default: str = "") -> str:
        """An attribute's text, or the default."""
        return self.attrs.get(name, default)

    def flag_attr(self, name: str, default: bool = False) -> bool:
        """A truth: "1", "T" and "true" say yes, as Myelin reads them."""
        found = self.attrs.get(name)
        return default if found is None else found in ("1", "T", "true")


class Variable(Attributes):
    """A value: an input, a result, or with `data` a constant.

    type: as the file spells it ("float32", "float"; "" is none); shape: sizes, -1 for the batch
    size, 0 for one that is unknown; data: bytes in C order, an array, or a number; flags:
    `VariableFlag`; producer and consumers: the operations that have it as output and inputs.
    """

    __slots__ = (
        "aliases", "attrs", "consumers", "data", "flags", "name", "producer", "shape", "type",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        type: str | None = None,
        shape: Sequence[int] | None = None,
        data: Data | None = None,
    ) -> None:
        self.name = name
        self.type = type or ""
        self.shape = list(shape or ())
        self.data = data
        self.flags = 0
        self.aliases: list[str] = []
        self.attrs: dict[str, str] = {}
        self.producer: Operation | None = None
        self.consumers: list[Operation] = []

    input = _flag(VariableFlag.IN)
    output = _flag(VariableFlag.OUT)
    learnable = _flag(VariableFlag.LEARNABLE)
    unique = _flag(VariableFlag.UNIQUE)
    dynamic = _flag(VariableFlag.DYNAMIC)

    @property
    def ref(self) -> bool:
        """Whether an instance holds only a reference to it; version 3 and 4 write `&float32`."""
        return bool(self.flags & VariableFlag.REF) or self.type.startswith("&")

    @ref.setter
    def ref(self, value: bool) -> None:
        self.type = self.type.removeprefix("&")
        self.flags = self.flags | VariableFlag.REF if value else self.flags & ~int(VariableFlag.REF)

    @property
    def dtype(self) -> NumberType | None:
        """The number type; None without one. FormatError for a word that is none."""
        try:
            return from_myelin(self.type.removeprefix("&"))
        except TypeMismatch as error:
            raise FormatError(f"variable {self.name!r}: {error}") from None

    def rank(self) -> int:
        return len(self.shape)

    def elements(self, batch_size: int = 1) -> int:
        """The number of elements with that batch size; 0 where a size is unknown."""
        count = 1
        for size in self.shape:
            count *= batch_size if size == BATCH else size
        return count

    def typestr(self) -> str:
        """The type as people write it: "float32[1,784]"."""
        mark = "&" if self.ref else ""
        sizes = f"[{','.join(map(str, self.shape))}]" if self.shape else ""
        return f"{mark}{self.type.removeprefix('&') or 'void'}{sizes}"

    def raw(self) -> bytes | memoryview:
        """The data as it is stored: b"" without any, numbers as 4 bytes, arrays in C order."""
        data = self.data
        if data is None:
            return b""
        if isinstance(data, (bytes, memoryview)):
            return data
        if isinstance(data, bytearray):
            return bytes(data)
        if isinstance(data, str):
            return data.encode()
        if isinstance(data, (bool, int, float)):
            kind = np.bool_ if isinstance(data, bool) else type(data)
            stored = {np.bool_: "?", int: "<i4", float: "<f4"}[kind]
            return np.array(data, stored).tobytes()
        array = np.ascontiguousarray(data)
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        return array.reshape(-1).view(np.uint8).data if array.size else b""

    def array(self, batch_size: int = 1) -> NDArray[Any] | None:
        """The data as an array, read-only, not copied; None for a variable without data.

        Raises FormatError when its type is no number type or when it has too few bytes.
        """
        if self.data is None:
            return None
        dtype = self.dtype
        if dtype is None or dtype is NumberType.STRING:
            raise FormatError(
                f"variable {self.name!r} of type {self.type!r} has data that is no array"
            )
        raw, count = self.raw(), self.elements(batch_size)
        if len(raw) < count * dtype.itemsize:
            raise FormatError(
                f"variable {self.name!r} has {len(raw)} bytes of data, {self.typestr()} takes "
                f"{count * dtype.itemsize}"
            )
        stored = dtype.numpy.newbyteorder("<") if dtype.numpy.itemsize > 1 else dtype.numpy
        shape = [batch_size if size == BATCH else size for size in self.shape]
        array = np.frombuffer(raw, stored, count).reshape(shape)
        array.flags.writeable = False
        return array

    def __repr__(self) -> str:
        return f"<Variable {self.name!r}: {self.typestr()}>"


class Operation(Attributes):
    """A step: its type ("MatMul"), the variables that it reads and makes, attributes as text."""

    __slots__ = ("attrs", "flags", "func", "inputs", "name", "outputs", "type", "words")

    def __init__(self, name: str, type: str = "") -> None:
        self.name = name
        self.type = type
        self.inputs: list[Variable] = []
        self.outputs: list[Variable] = []
        self.attrs: dict[str, str] = {}
        self.flags = 0
        self.func: Function | None = None
        self.words: dict[Variable, str] = {}
        """The aliases by which a file names variables here, so that they are written again."""

    def add_input(self, var: Variable) -> None:
        self.inputs.append(var)
        if self not in var.consumers:
            var.consumers.append(self)

    def add_output(self, var: Variable) -> None:
        """Make the variable a result; GraphError when another operation makes it already."""
        if var.producer is not None:
            raise GraphError(
                f"variable {var.name!r} is made by {var.producer.name!r} already, and "
                f"{self.name!r} would make it again"
            )
        self.outputs.append(var)
        var.producer = self

    def __repr__(self) -> str:
        return f"<Operation {self.name!r}: {self.type}>"


class Function:
    """A computation: the operations that belong to it. A compiled network has a cell for it."""

    __slots__ = ("flags", "name", "ops")

    def __init__(self, name: str) -> None:
        self.name = name
        self.ops: list[Operation] = []
        self.flags = 0

    def add(self, op: Operation) -> None:
        """Take an operation in; GraphError when it belongs to another function."""
        if op.func is not None and op.func is not self:
            raise GraphError(
                f"operation {op.name!r} belongs to function {op.func.name!r} already, so "
                f"{self.name!r} cannot have it"
            )
        if op.func is None:
            op.func = self
            self.ops.append(op)

    @property
    def backprop(self) -> bool:
        return bool(self.flags & FunctionFlag.BACKPROP)

    def __repr__(self) -> str:
        return f"<Function {self.name!r}: {len(self.ops)} operations>"


class Connector:
    """Variables that share one layout, so that a channel of them can link cells."""

    __slots__ = ("flags", "links", "name", "words")

    def __init__(self, name: str) -> None:
        self.name = name
        self.links: list[Variable] = []
        self.flags = 0
        self.words: dict[Variable, str] = {}

    def add(self, var: Variable) -> None:
        if var not in self.links:
            self.links.append(var)

    def __repr__(self) -> str:
        return f"<Connector {self.name!r}: {', '.join(v.name for v in self.links)}>"


class Blob(Attributes):
    """Data beside the network, such as a lexicon, with a type and attributes."""

    __slots__ = ("attrs", "data", "flags", "name", "type")

    def __init__(self, name: str, type: str = "", data: Data = b"") -> None:
        self.name = name
        self.type = type
        self.data = data
        self.attrs: dict[str, str] = {}
        self.flags = 0

    def raw(self) -> bytes | memoryview:
        return Variable(self.name, data=self.data).raw()

    def __repr__(self) -> str:
        return f"<Blob {self.name!r}: {self.type}>"
