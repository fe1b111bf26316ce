"""Models: graphs that belong together, with what is said about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from neuralsym.core.graph import Graph
from neuralsym.core.tensor import Tensor
from neuralsym.errors import GraphError


class Parameter(NamedTuple):
    """A parameter of a value's quantisation: its name, and its value where no graph holds it."""

    name: str
    tensor: Tensor | None = None


@dataclass(frozen=True)
class Notes:
    """What a file says of a model that changes nothing of what it computes.

    `domain` and `version` tell models apart. `doc` and `metadata` speak of the graph, `values` of
    its inputs and outputs, by name; `quantization` has for a value its parameters by their roles.
    `engine` is what only one format knows, by the name of its engine.
    """

    domain: str = ""
    version: int = 0
    doc: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    quantization: Mapping[str, Mapping[str, Parameter]] = field(default_factory=dict)
    engine: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """Graphs by name, in order, that share their weights by name; a single Graph is one of one.

    `metadata` is text by name (preprocessing, licence, ...) and `doc` a description; both are
    kept in files, and so are the `notes` that a file came with.
    """

    graphs: Mapping[str, Graph]
    metadata: Mapping[str, str] = field(default_factory=dict)
    doc: str = ""
    notes: Notes = field(default_factory=Notes)

    def __post_init__(self) -> None:
        if not self.graphs:
            raise GraphError("a model holds at least one graph")
        object.__setattr__(self, "graphs", MappingProxyType(dict(self.graphs)))
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))

    @staticmethod
    def of(given: Graph | Model) -> Model:
        """The model itself, or the one that holds only this graph."""
        return given if isinstance(given, Model) else Model({given.name: given})

    @property
    def graph(self) -> Graph:
        """The only graph; GraphError when there are several."""
        if len(self.graphs) != 1:
            raise GraphError(f"the model holds {len(self.graphs)} graphs: {', '.join(self.graphs)}")
        return next(iter(self.graphs.values()))

    def with_graph(self, graph: Graph) -> Model:
        """The model with another graph in the place of its only one."""
        return Model({graph.name: graph}, self.metadata, self.doc, self.notes)

    def __reduce__(self) -> tuple[object, ...]:
        return (Model, (dict(self.graphs), dict(self.metadata), self.doc, self.notes))
