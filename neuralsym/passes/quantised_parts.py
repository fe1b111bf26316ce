"""What a quantised graph says: the scales and zero points of its tensors, its chains of operators.

A tensor is quantised where a DequantizeLinear of stored numbers makes real numbers of it, and a
QuantizeLinear of stored numbers makes it of real numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import is_stored, stored
from neuralsym.core.symbol import Node, Symbol
from neuralsym.dtypes import NumberType
from neuralsym.passes.numbers import number_of

BYTES = (NumberType.INT8, NumberType.UINT8)
BOUNDS = {NumberType.INT8: (-128, 127), NumberType.UINT8: (0, 255)}
MOST_SCALES = 1 << 20


@dataclass(frozen=True)
class Scale:
    """How integers stand for real numbers: (q - zero) * scale, of one type.

    scales, zeros: one number for all, or one for each index of `axis`.
    """

    dtype: NumberType
    scales: NDArray[Any]
    zeros: NDArray[Any]
    axis: int = 0

    @property
    def is_single(self) -> bool:
        return self.scales.size == 1

    @property
    def scale(self) -> np.float32:
        return np.float32(self.scales[0])

    @property
    def zero(self) -> int:
        return int(self.zeros[0])

    def same(self, other: Scale) -> bool:
        """Whether the same integers stand for the same real numbers."""
        return (
            self.dtype is other.dtype
            and self.is_single
            and other.is_single
            and self.scale == other.scale
            and self.zero == other.zero
        )

    def level(self, value: float) -> int:
        """The integer for a real number, as QuantizeLinear has it."""
        low, high = BOUNDS[self.dtype]
        with np.errstate(all="ignore"):
            level = np.rint(np.float32(value) / self.scale) + self.zero
        return int(min(max(level, low), high))


def scale_of(node: Node) -> Scale | None:
    """The scale of a QuantizeLinear or DequantizeLinear of 8 or 32 bits; None for any other."""
    x, scale, zero = (*node.inputs, None)[:3]
    assert x is not None
    if scale is None or not is_stored(scale) or scale.dtype is not NumberType.FLOAT32:
        return None
    kind = x.dtype if node.op_type == "DequantizeLinear" else node.outputs[0].dtype
    if kind not in (*BYTES, NumberType.INT32) or node.attr("block_size"):
        return None
    real = node.outputs[0] if node.op_type == "DequantizeLinear" else x
    if real.dtype is not NumberType.FLOAT32 or node.attr("precision"):
        return None
    if stored(scale).size > MOST_SCALES or (zero is not None and not is_stored(zero)):
        return None
    scales = stored(scale).value.reshape(-1)
    zeros = np.zeros(1, np.int64) if zero is None else stored(zero).value.reshape(-1)
    if not scales.size or not np.isfinite(scales).all() or not (scales > 0).all():
        return None
    axis = node.attr("axis") if scales.size > 1 else 0
    rank = x.rank or 1
    return Scale(kind, scales, zeros.astype(np.int64), axis % rank)


def dequantised(symbol: Symbol | None) -> tuple[Symbol, Scale] | None:
    """The integers behind real numbers, and their scale."""
    if symbol is None or symbol.node.op_type != "DequantizeLinear":
        return None
    found = scale_of(symbol.node)
    source = symbol.node.inputs[0]
    assert source is not None
    return None if found is None else (source, found)


class Uses:
    """Who uses which symbol of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._users: Mapping[Symbol, tuple[Node, ...]] = graph.users
        self._results = {*graph.outputs, *graph.updates.values()}

    def sole(self, symbol: Symbol) -> Node | None:
        """The one node that uses a symbol, if it is no result."""
        users = self._users[symbol]
        if symbol in self._results or len(users) != 1:
            return None
        node = users[0]
        return node if sum(s is symbol for s in node.operands) == 1 else None

    def all(self, symbol: Symbol) -> tuple[Node, ...] | None:
        """All nodes that use a symbol; None for a result."""
        return None if symbol in self._results else self._users[symbol]


@dataclass(frozen=True)
class Bounded:
    """The real value behind a QuantizeLinear, and the bounds that it passes on the way."""

    value: Symbol
    low: float
    high: float

    def levels(self, scale: Scale) -> tuple[int, int]:
        """The bounds as integers: rounding is monotonous, so it and clipping change places."""
        low, high = BOUNDS[scale.dtype]
        if self.low > -np.inf:
            low = scale.level(self.low)
        if self.high < np.inf:
            high = scale.level(self.high)
        return min(low, high), high


def bounded(quantize: Node, uses: Uses) -> Bounded:
    """What a QuantizeLinear is of, seen through Relu and Clip that nothing else uses."""
    value = quantize.inputs[0]
    assert value is not None
    low, high = -np.inf, np.inf
    while uses.sole(value) is not None:
        found = _clip_bounds(value.node)
        if found is None:
            break
        # The bounds of an inner one are clipped by those of the outer.
        low, high = (min(max(bound, low), high) for bound in found)
        source = value.node.inputs[0]
        assert source is not None
        value = source
    return Bounded(value, float(low), float(high))


def _clip_bounds(node: Node) -> tuple[float, float] | None:
    if node.op_type == "Relu":
        return 0.0, np.inf
    if node.op_type != "Clip":
        return None
    bounds = []
    for index, default in ((1, -np.inf), (2, np.inf)):
        given = node.inputs[index] if index < len(node.inputs) else None
        number = default if given is None else number_of(given)
        if number is None or np.isnan(number):
            return None
        bounds.append(float(number))
    return (bounds[0], bounds[1]) if bounds[0] <= bounds[1] else None


def all_same(scales: Iterable[Scale], wanted: Scale) -> bool:
    return all(s.same(wanted) for s in scales)
