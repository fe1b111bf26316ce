"""The weights of layers: leaves that are drawn from their own stream when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuralsym.core.leaves import make_weight
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType, number_type
from neuralsym.errors import BadAttribute, ShapeMismatch, at_line, user_line
from neuralsym.layers.base import FRAME, Frame
from neuralsym.layers.initializers import Fans, Initializer, get
from neuralsym.layers.initializers import fans as fans_of
from neuralsym.layers.streams import Stream

Init: TypeAlias = str | float | Initializer | Callable[[tuple[int, ...]], ArrayLike] | NDArray[Any]
"""How a weight begins: an initializer or its name, a number, a function of the shape, an array."""


@dataclass(frozen=True)
class _Entries(Initializer):
    inner: Initializer
    value: float
    start: int
    stop: int

    @property
    def needs_fans(self) -> bool:  # type: ignore[override]
        return self.inner.needs_fans

    def _fill(self, out: NDArray[Any], stream: Stream, fans: Fans) -> None:
        self.inner._fill(out, stream, fans)
        out[self.start : self.stop] = self.value


def with_entries(init: Init, value: float, start: int, stop: int) -> Init:
    """`init` with a number from `start` to `stop` of the first axis; an array stays as it is.

    A forget gate's bias and the vector of padding begin so.
    """
    return init if isinstance(init, np.ndarray) else _Entries(get(init), value, start, stop)


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

    name: unique within the layer, such as "kernel"; init: an initializer, its name, or an array;
    fans: what the function of that name in `initializers` gives, for initializers that scale.
    Raises BadAttribute outside a layer, ShapeMismatch for a size that is not fixed and when a
    shared layer is applied to another shape.
    """
    frame = _owner(name)
    for size in shape:
        if not hasattr(size, "__index__"):
            raise ShapeMismatch(
                f"weight {name!r} of shape ({', '.join(map(str, shape))}) needs fixed sizes; give "
                "input() a number there"
            )
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


def bias_weight(x: Symbol, size: int, use_bias: bool, init: Init) -> Symbol | None:
    """The weight `bias` [size] in the number type of x; None without use_bias."""
    if not use_bias:
        return None
    return weight("bias", (size,), init, fans=fans_of((size,), "vector"), dtype=x.dtype)


def _owner(name: str) -> Frame:
    """The layer under way that a weight belongs to: fork, chain and their like have none."""
    frame = FRAME.get()
    while frame is not None and not frame.scoped:
        frame = frame.outer
    if frame is None:
        raise BadAttribute(
            f"weight({name!r}) belongs inside a function with @layer{at_line(user_line())}"
        )
    return frame
