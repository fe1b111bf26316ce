"""Models: graphs that belong together, with what is said about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from neuralsym.core.graph import Graph
from neuralsym.errors import GraphError


@dataclass(frozen=True)
class Model:
    """Graphs by name, in order, that share their weights by name; a single Graph is one of one.

    `metadata` is text by name (preprocessing, licence, ...) and `doc` a description; both are
    kept in files.
    """

    graphs: Mapping[str, Graph]
    metadata: Mapping[str, str] = field(default_factory=dict)
    doc: str = ""

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
        return Model({graph.name: graph}, self.metadata, self.doc)

    def __reduce__(self) -> tuple[object, ...]:
        return (Model, (dict(self.graphs), dict(self.metadata), self.doc))
