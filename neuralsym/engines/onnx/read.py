"""From an ONNX model to symbols: the model around the graph, its versions, functions and names."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import FunctionProto, ModelProto, OperatorSetIdProto
from onnx.helper import VERSION_TABLE

import neuralsym.ops  # noqa: F401  (defines the operators)
from neuralsym.core.custom import FindTyper, no_typer
from neuralsym.core.graph import Graph
from neuralsym.core.model import Model, Notes
from neuralsym.core.schema import VERSIONS
from neuralsym.core.scope import CURRENT
from neuralsym.core.symbol import LEVEL
from neuralsym.core.types import Type
from neuralsym.engines.onnx.frame import Frame
from neuralsym.engines.onnx.notes import read_notes
from neuralsym.engines.onnx.open_file import Opened
from neuralsym.engines.onnx.text import readable
from neuralsym.errors import FormatError, warn

_DEEPEST = 100
_MOST_CALLS = 30_000
_OVERRIDABLE_IR = 4  # before it, every initializer had to be an input too


def to_model(opened: Opened, typers: FindTyper = no_typer) -> Model:
    """The model of a parsed file; see `read_model`."""
    # What is read belongs to no layer and no body that is under construction.
    scope, level = CURRENT.set(None), LEVEL.set(None)
    try:
        reader = Reader(opened, typers)
        graph, notes = reader.main()
    finally:
        CURRENT.reset(scope)
        LEVEL.reset(level)
    reader.warn()
    proto = opened.model
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    return Model({graph.name: graph}, metadata, readable(proto.doc_string), notes)


class Reader:
    """What the frames of one model share."""

    def __init__(self, opened: Opened, typers: FindTyper) -> None:
        self.model: ModelProto = opened.model
        self.source = opened.source
        self.raw = opened.raw
        self.label = opened.source.label
        self.imports = self.versions(opened.model.opset_import)
        if "" not in self.imports:
            self.imports[""] = _opset_of(self.model.ir_version)
        self.functions: dict[tuple[str, str, str], FunctionProto] = {}
        for function in self.model.functions:
            domain = "" if function.domain == "ai.onnx" else function.domain
            key = (domain, function.name, function.overload)
            if key in self.functions:
                raise FormatError(f"{self.label}: the function {function.name!r} is given twice")
            self.functions[key] = function
        self.own = self.model.producer_name == "neuralsym"
        self.typers = typers
        self.contradictions: list[str] = []
        self.assumed: list[str] = []
        self.types: dict[tuple[bytes, Type], Type | None] = {}
        self.depth = 0
        self.prefixes: set[str] = set()
        self.names: set[str] = set()

    def versions(self, imports: Sequence[OperatorSetIdProto]) -> dict[str, int]:
        """The opset of each domain; FormatError for one that is not known here."""
        made: dict[str, int] = {}
        for entry in imports:
            domain = "" if entry.domain == "ai.onnx" else entry.domain
            newest = VERSIONS.get(domain)
            if newest is not None and not 1 <= entry.version <= newest:
                raise FormatError(
                    f"{self.label} is written in version {entry.version} of the operators of "
                    f"{domain or 'ai.onnx'}; versions 1 to {newest} can be read, so export it "
                    f"in one of these"
                )
            made[domain] = max(entry.version, made.get(domain, 0))
        return made

    def enter(self) -> None:
        """Go into a body or a function; FormatError where they hold themselves."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise FormatError(
                f"{self.label}: functions and bodies lie over {_DEEPEST} deep in one another; does "
                "a function call itself?"
            )

    def unique(self, prefix: str) -> str:
        """A prefix for the inner names of a function's call that no other call has."""
        if len(self.prefixes) >= _MOST_CALLS:
            raise FormatError(f"{self.label}: functions are called over {_MOST_CALLS} times")
        made, n = f"{prefix}/", 1
        while made in self.prefixes:
            n += 1
            made = f"{prefix}_{n}/"
        self.prefixes.add(made)
        return made

    def weight_name(self, name: str) -> str:
        """A name in the whole graph for a weight of a body: its own if nothing has it."""
        if not self.names:
            graph = self.model.graph
            self.names.update(value.name for value in graph.input)
            self.names.update(tensor.name for tensor in graph.initializer)
            self.names.update(tensor.values.name for tensor in graph.sparse_initializer)
            self.names.update(output for node in graph.node for output in node.output)
        made, n = name, 0
        while made in self.names:
            n += 1
            made = f"{name}_{n}"
        self.names.add(made)
        return made

    def main(self) -> tuple[Graph, Notes]:
        proto = self.model.graph
        frame = Frame(self, self.imports, proto.node)
        frame.declare(proto, self.raw)
        overridable = self.model.ir_version >= _OVERRIDABLE_IR
        inputs = frame.inputs(proto.input, overridable)
        outputs = frame.run([value.name for value in proto.output])
        return frame.close(proto, inputs, outputs), read_notes(self.model, frame)

    def warn(self) -> None:
        """One warning for all declared types that contradict what follows from the nodes.

        And one for all values whose types nothing tells.
        """
        if self.contradictions:
            warn(
                f"{self.label} declares types that contradict its nodes, which count: "
                + _listed(self.contradictions)
            )
        if self.assumed:
            warn(
                f"{self.label} does not say what its custom operators give, so types are assumed: "
                f"{_listed(self.assumed)}. Declare them in value_info, or give the library a typer"
            )


def _listed(said: list[str]) -> str:
    more = len(said) - 3
    return "; ".join(said[:3]) + (f"; and {more} more" if more > 0 else "")


def _opset_of(ir_version: int) -> int:
    """The newest opset of a format version, for files that name none."""
    versions = [row[2] for row in VERSION_TABLE if row[1] <= max(ir_version, 3)]
    return 1 if ir_version < 3 else int(max(versions))
