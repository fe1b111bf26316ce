"""A Flow: the parts of a trained network by name, as Myelin's Python module has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TypeVar

import numpy as np

from neuralsym.engines.flow.parts import Blob, Connector, Data, Function, Operation, Variable
from neuralsym.errors import GraphError, did_you_mean

Part = TypeVar("Part", Variable, Operation, Function, Connector, Blob)


class Flow:
    """A trained network as its parts by name, read from and written to .flow files.

    `var`, `op`, `func`, `cnx` and `blob` give the part of a name and make it where there is none.
    """

    def __init__(self, batch_size: int = 1) -> None:
        self.batch_size = batch_size
        self.version: int | None = None
        """Of the file that it was read from."""
        self.flags = 0
        self.vars: dict[str, Variable] = {}
        self.ops: dict[str, Operation] = {}
        self.funcs: dict[str, Function] = {}
        self.cnxs: dict[str, Connector] = {}
        self.blobs: dict[str, Blob] = {}

    # -- parts by name -----------------------------------------------------------------------
    def var(
        self,
        name: str,
        type: str | None = None,
        shape: Sequence[int] | None = None,
        data: Data | None = None,
    ) -> Variable:
        found = self.find_var(name) or self.vars.setdefault(name, Variable(name))
        if type is not None:
            found.type = type
        if shape is not None:
            found.shape = list(shape)
        if data is not None:
            found.data = data
        return found

    def op(self, name: str, type: str | None = None) -> Operation:
        found = self.ops.setdefault(name, Operation(name))
        if type is not None:
            found.type = type
        return found

    def func(self, name: str) -> Function:
        return self.funcs.setdefault(name, Function(name))

    def cnx(self, name: str) -> Connector:
        return self.cnxs.setdefault(name, Connector(name))

    def blob(self, name: str) -> Blob:
        return self.blobs.setdefault(name, Blob(name))

    def find_var(self, name: str) -> Variable | None:
        """The variable of a name, else of an alias."""
        found = self.vars.get(name)
        if found is None:
            for var in self.vars.values():
                if name in var.aliases:
                    return var
        return found

    def lookup(self, name: str) -> Variable:
        """The variable of a name, an alias, or the first output of the operation of that name.

        Raises GraphError, with the nearest name, where there is none.
        """
        found = self.find_var(name)
        if found is None and name in self.ops and self.ops[name].outputs:
            found = self.ops[name].outputs[0]
        if found is None:
            known = [*self.vars, *(a for v in self.vars.values() for a in v.aliases), *self.ops]
            raise GraphError(f"the flow has no variable {name!r}{did_you_mean(name, known)}")
        return found

    # -- functions ---------------------------------------------------------------------------
    def inputs(self, func: Function) -> list[Variable]:
        """The variables that a function reads and nothing in it makes; no constants."""
        read = dict.fromkeys(v for op in func.ops for v in op.inputs)
        return [v for v in read if v.data is None and (v.producer is None or _feeds(v.producer))]

    def outputs(self, func: Function) -> list[Variable]:
        """The variables that a function makes and that are marked OUT.

        Where none is marked, as in files before version 5, those that nothing in it reads.
        """
        made = [v for op in func.ops for v in op.outputs if op.inputs]
        inside = set(func.ops)
        return [v for v in made if v.output] or [
            v for v in made if not inside.intersection(v.consumers)
        ]

    def order(self, func: Function) -> list[Operation]:
        """The operations so that each comes after what it reads; GraphError for a cycle."""
        waiting = {
            op: {
                v.producer for v in op.inputs if v.producer is not None and v.producer.func is func
            }
            for op in func.ops
        }
        readers: dict[Operation, list[Operation]] = {op: [] for op in func.ops}
        for op, sources in waiting.items():
            for source in sources:
                readers[source].append(op)
        ready = [op for op in func.ops if not waiting[op]]
        made: list[Operation] = []
        for op in ready:  # it grows while it is gone through
            made.append(op)
            for reader in readers[op]:
                waiting[reader].discard(op)
                if not waiting[reader]:
                    ready.append(reader)
        if len(made) != len(func.ops):
            stuck = next(op for op in func.ops if waiting[op])
            raise GraphError(f"function {func.name!r} has a cycle through operation {stuck.name!r}")
        return made

    # -- names -------------------------------------------------------------------------------
    def rename_prefix(self, prefix: str, replacement: str) -> None:
        """Let every name that begins with `prefix` begin with `replacement`."""
        self._rename(lambda n: replacement + n[len(prefix) :] if n.startswith(prefix) else n)

    def rename_suffix(self, suffix: str, replacement: str) -> None:
        """Let every name that ends with `suffix` end with `replacement`."""
        self._rename(lambda n: n[: len(n) - len(suffix)] + replacement if n.endswith(suffix) else n)

    def _rename(self, change: Callable[[str], str]) -> None:
        self.vars = _renamed(self.vars, change)
        self.ops = _renamed(self.ops, change)
        self.funcs = _renamed(self.funcs, change)
        self.cnxs = _renamed(self.cnxs, change)
        self.blobs = _renamed(self.blobs, change)
        for var in self.vars.values():
            var.aliases = [change(a) for a in var.aliases]

    # -- files -------------------------------------------------------------------------------
    def save(self, path: str | PathLike[str], version: int | None = None) -> None:
        """Write a .flow file, to a temporary name first.

        version: 3 to 6; unless given, that of the file it was read from, or the lowest from 4 on
        that holds what there is. Raises FormatError for what the version cannot hold and for a
        place that cannot be written to.
        """
        from neuralsym.engines.flow.write import save

        save(self, path, version)

    def to_bytes(self, version: int | None = None) -> bytes:
        """What `save` writes."""
        from neuralsym.engines.flow.write import write

        return b"".join(write(self, version))

    @staticmethod
    def load(path: str | PathLike[str], batch_size: int = 1) -> Flow:
        """Read a .flow file of version 3 to 6; FormatError, naming the place, for a broken one."""
        from neuralsym.engines.flow.read import load

        return load(path, batch_size)

    @staticmethod
    def from_bytes(data: bytes, batch_size: int = 1) -> Flow:
        """Read what a .flow file holds."""
        from neuralsym.engines.flow.read import read

        return read(np.frombuffer(data, np.uint8), "the flow", batch_size)

    def __iter__(self) -> Iterator[Function]:
        return iter(self.funcs.values())

    def __str__(self) -> str:
        """Every part on a line: what functions compute, from what, with which attributes."""
        lines = []
        for func in self.funcs.values():
            lines.append(f"func {func.name} {{")
            for op in func.ops:
                outputs = ", ".join(f"{v.name}: {v.typestr()}" for v in op.outputs)
                inputs = ", ".join(v.name for v in op.inputs)
                attrs = "".join(f" {k}={v}" for k, v in op.attrs.items())
                lines.append(f"  {outputs} = {op.type}({inputs}){attrs}")
            lines.append("}")
        for var in self.vars.values():
            size = f" data {len(var.raw())} bytes" if var.data is not None else ""
            aliases = f" aliases {', '.join(var.aliases)}" if var.aliases else ""
            lines.append(f"var {var.name}: {var.typestr()}{size}{aliases}")
        for cnx in self.cnxs.values():
            lines.append(f"connector {cnx.name}: {', '.join(v.name for v in cnx.links)}")
        for blob in self.blobs.values():
            lines.append(f"blob {blob.name}: {blob.type} {len(blob.raw())} bytes")
        return "\n".join(lines)

    def __repr__(self) -> str:
        counts = f"{len(self.vars)} variables, {len(self.ops)} operations"
        return f"<Flow: {counts}, functions {', '.join(self.funcs) or 'none'}>"


def _feeds(op: Operation) -> bool:
    """Whether an operation is none: TensorFlow's placeholders and variables have no inputs."""
    return not op.inputs


def _renamed(parts: Mapping[str, Part], change: Callable[[str], str]) -> dict[str, Part]:
    made: dict[str, Part] = {}
    for name, part in parts.items():
        part.name = change(name)
        if part.name in made:
            raise GraphError(f"two parts of the flow would be called {part.name!r}")
        made[part.name] = part
    return made
