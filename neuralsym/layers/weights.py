"""The weights of layers: leaves that are drawn from their own stream when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_weight
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType, number_type
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.base import FRAME
from neuralsym.layers.initializers import Fans, Initializer, get

Init = str | Initializer | Callable[..., Any] | NDArray[Any]


class InitialTensor(Tensor):
    """A weight that an initializer will draw, once its seed and its name are known.

    Before `seeded` says both, it draws with seed 0 and the name that its last Graph gave.
    """

    __slots__ = ("fans", "initializer", "node")

    def __init__(
        self, shape: tuple[int, ...], dtype: NumberType, initializer: Initializer, fans: Fans | None
    ) -> None:
        self.initializer = initializer
        self.fans = fans
        self.node: Node | None = None
        super().__init__(dtype, shape, self._draw_unseeded)

    def _draw_unseeded(self) -> NDArray[Any]:
        name = (self.node.label or self.node.name) if self.node else None
        return self._draw(0, name or "weight")

    def _draw(self, seed: int, name: str) -> NDArray[Any]:
        key = (seed, name)
        return self.initializer.draw(self.shape, self.dtype.numpy, key=key, fans=self.fans)

    def seeded(self, seed: int, name: str) -> Tensor:
        """The weight of that seed and name; nothing is drawn yet."""
        return Tensor(self.dtype, self.shape, partial(self._draw, seed, name))


def weight(
    name: str,
    shape: Sequence[int],
    init: Init = "zeros",
    *,
    fans: Fans | None = None,
    dtype: str | NumberType = "float32",
    trainable: bool = True,
) -> Symbol:
    """A weight of the layer that is being applied; the same one at each application.

    name: unique within the layer, such as "kernel"; init: an initializer, its name, or an array.
    Raises BadAttribute outside a layer, ShapeMismatch when a shared layer is applied to another
    shape.
    """
    frame = FRAME.get()
    if frame is None:
        raise BadAttribute(f"weight({name!r}) belongs inside a function with @layer")
    shape = tuple(int(d) for d in shape)
    found = frame.state.weights.get(name)
    if found is not None:
        if found.shape != shape:
            raise ShapeMismatch(
                f"its weight {name!r} has shape {found.shape} from an earlier use, and {shape} is "
                "needed here: a layer that is applied twice shares its weights; use layer.copy() "
                "for weights of their own"
            )
        return found
    if isinstance(init, np.ndarray):
        tensor = Tensor.of(init, dtype)
        if tensor.shape != shape:
            raise ShapeMismatch(f"weight {name!r} needs shape {shape}, its array {tensor.shape}")
        made = make_weight(tensor, name=name, trainable=trainable)
    else:
        initial = InitialTensor(shape, number_type(dtype), get(init), fans)
        made = make_weight(initial, name=name, trainable=trainable)
        initial.node = made.node
    frame.state.weights[name] = made
    return made


def seed_weights(graph: Graph, seed: int) -> Graph:
    """The graph with each initial weight tied to its own stream of `seed`."""
    values = {}
    for symbol in graph.weights:
        tensor = symbol.attrs["value"]
        if isinstance(tensor, InitialTensor):
            name = graph.names[symbol.node]
            values[name] = tensor.seeded(seed, name)
    return graph.with_weights(values)
