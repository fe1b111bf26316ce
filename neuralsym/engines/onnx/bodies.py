"""Bodies of a node: graphs in its attributes, which see the names of the graphs around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from onnx import GraphProto

from neuralsym.core.graph import Graph
from neuralsym.core.symbol import Symbol, body_level
from neuralsym.core.types import Type
from neuralsym.engines.onnx.declared import declared_type
from neuralsym.errors import FormatError, GraphError

if TYPE_CHECKING:
    from neuralsym.engines.onnx.frame import Frame


class Inner(NamedTuple):
    """A body, the attribute that holds it, and the frame in which its outer names are found."""

    name: str
    graph: GraphProto
    home: Frame


class Opened(NamedTuple):
    """A body as far as its captures are known."""

    frame: Frame
    formals: list[Symbol]
    outputs: list[Symbol]
    captured: dict[Symbol, Symbol]
    """What it uses from around: as seen from the node, and from the body's home."""


def read_bodies(
    around: Frame, graphs: Sequence[Inner], types: Sequence[Type | None]
) -> tuple[dict[str, Graph], tuple[Symbol, ...]]:
    """The bodies of a node of the graph `around`, and what they capture together.

    `types` are those of the formal inputs, for files that do not declare them.
    """
    graphs = sorted(graphs, key=lambda inner: inner.name)
    opened = [_open(around, inner, types) for inner in graphs]
    captures = tuple(dict.fromkeys(symbol for body in opened for symbol in body.captured))
    made: dict[str, Graph] = {}
    for inner, body in zip(graphs, opened, strict=True):
        inside = [body.frame.parameter(body.captured.get(s, s)) for s in captures]
        made[inner.name] = body.frame.close(inner.graph, [*body.formals, *inside], body.outputs)
    return made, captures


def _open(around: Frame, inner: Inner, types: Sequence[Type | None]) -> Opened:
    label = around.label
    around.reader.enter()
    with body_level():
        frame = inner.home.beneath(inner.graph)
        formals: list[Symbol] = []
        for i, value in enumerate(inner.graph.input):
            own = types[i] if i < len(types) else None
            type_ = declared_type(value.type, own) or own
            if type_ is None:
                raise FormatError(f"{label}: the body's input {value.name!r} has no type")
            if not value.name or value.name in frame.values:
                raise GraphError(f"{label}: two inputs are called {value.name!r}")
            frame.stored.pop(value.name, None)
            formals.append(frame.variable(value.name, type_, {}))
        outputs = frame.run([value.name for value in inner.graph.output])
    around.reader.depth -= 1
    captured = {around.lifted(s, inner.home): s for s in frame.captured(outputs)}
    return Opened(frame, formals, outputs, captured)
