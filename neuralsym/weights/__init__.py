"""The weights of a graph by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from neuralsym.core.graph import Graph
from neuralsym.core.tensor import Tensor
from neuralsym.errors import WeightsError, did_you_mean

Array = NDArray[Any]


class Weights(Mapping[str, Array]):
    """The weights of a network by name, each drawn or read when it is looked up. Read-only."""

    def __init__(self, graph: Graph) -> None:
        self._symbols = {graph.names[s.node]: s for s in graph.weights}

    def __getitem__(self, name: str) -> Array:
        value: Array = self.tensor(name).value
        return value

    def tensor(self, name: str) -> Tensor:
        """The weight with its shape and dtype, not drawn for it; WeightsError if there is none."""
        found = self._symbols.get(name)
        if found is None:
            raise WeightsError(f"no weight {name!r}{did_you_mean(name, self._symbols)}")
        tensor: Tensor = found.attrs["value"]
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._symbols)

    def __len__(self) -> int:
        return len(self._symbols)

    def __contains__(self, name: object) -> bool:
        return name in self._symbols

    def __repr__(self) -> str:
        return f"<Weights: {len(self)}>"
