"""A graph of real numbers made a quantised one (QDQ): 8-bit inputs and weights around products.

Each value that a product, an addition, a pool or a concatenation reads is quantised and taken back,
weights and biases are stored as integers. `make_integer` later computes such graphs in integers.
Values that are only moved (MaxPool, Reshape, Concat) keep one scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import is_stored, make_weight, stored
from neuralsym.core.registry import apply
from neuralsym.core.scope import scope
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType
from neuralsym.dtypes import NumberType
from neuralsym.passes.pipeline import optimise
from neuralsym.passes.quantised import AVERAGES, MOVES, PRODUCTS

LEVELS = 255
"""Steps between the lowest and the highest value of an unsigned byte."""
_WEIGHT_LEVELS = 127
_LARGEST_BIAS = 2**31 - 2**8


class Range(NamedTuple):
    """The lowest and highest value that was seen."""

    low: float
    high: float

    def join(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


class Levels(NamedTuple):
    """A scale, and the level that is zero."""

    scale: NDArray[np.float32]
    zero: NDArray[np.uint8]

    @classmethod
    def of(cls, seen: Range) -> Levels:
        """The levels of an unsigned byte that reach over a range and 0, which is one of them."""
        low, high = min(seen.low, 0.0), max(seen.high, 0.0)
        scale = np.float32((high - low) / LEVELS)
        if not np.isfinite(scale) or scale < np.finfo(np.float32).tiny:
            scale = np.float32(1)
        zero = int(np.clip(np.rint(-low / scale), 0, LEVELS))
        return cls(np.array(scale), np.array(zero, np.uint8))


class Plan:
    """A graph that is ready to be quantised, and the values whose ranges must be known."""

    def __init__(self, graph: Graph) -> None:
        self.graph = optimise(graph, 1)
        self._root: dict[Symbol, Symbol] = {}
        self.values = self._values()

    def _values(self) -> tuple[Symbol, ...]:
        wanted: dict[Symbol, None] = {}
        for node in reversed(self.graph.nodes):
            moved = node.op_type in MOVES and any(o in wanted for o in node.outputs)
            if not (moved or _is_quantised(node)):
                continue
            for symbol in _real_inputs(node):
                wanted[symbol] = None
            if node.op_type in MOVES:
                for symbol in (*_real_inputs(node), *node.outputs):
                    if symbol in wanted:
                        self._join(symbol, node.outputs[0])
        return tuple(wanted)

    def _find(self, symbol: Symbol) -> Symbol:
        while symbol in self._root:
            symbol = self._root[symbol]
        return symbol

    def _join(self, one: Symbol, other: Symbol) -> None:
        first, second = self._find(one), self._find(other)
        if first is not second:
            self._root[first] = second

    def levels(self, ranges: Mapping[Symbol, Range]) -> dict[Symbol, Levels]:
        """The levels of each value; those that are only moved have the same."""
        joined: dict[Symbol, Range] = {}
        for symbol in self.values:
            root = self._find(symbol)
            seen = ranges[symbol]
            joined[root] = joined[root].join(seen) if root in joined else seen
        return {s: Levels.of(joined[self._find(s)]) for s in self.values}

    def quantised(self, ranges: Mapping[Symbol, Range], per_channel: bool = True) -> Graph:
        """The graph with every value of `values` in levels, and weights stored as integers.

        per_channel: a scale for each output channel of a weight, else one for the whole.
        """
        return _Writer(self.graph, self.levels(ranges), per_channel).run()


class _Writer:
    """A graph on its way to its quantised form."""

    def __init__(self, graph: Graph, levels: Mapping[Symbol, Levels], per_channel: bool) -> None:
        self.graph = graph
        self.levels = levels
        self.per_channel = per_channel
        self.new: dict[Symbol, Symbol] = {}
        self.real: dict[Symbol, Symbol] = {}
        """The values of the graph, taken back from their levels."""
        self.names = set(graph.names.values())
        self.kernels: dict[tuple[Symbol, int], tuple[Symbol, NDArray[np.float32]]] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            inputs = [None if s is None else self.value(s) for s in node.inputs]
            if _is_product(node):
                inputs = self.product(node, inputs)
            changed = any(a is not b for a, b in zip(inputs, node.inputs, strict=True))
            if changed and not node.captures:
                made = apply(
                    node.op, inputs, node.attrs, outputs=len(node.outputs), where=node.where
                )
                self.new.update(zip(node.outputs, made, strict=True))
            for symbol in node.outputs:
                if symbol in self.levels:
                    self.quantise(symbol)
        return self.graph.rewired(self.new)

    def value(self, symbol: Symbol) -> Symbol:
        return self.real.get(symbol, self.new.get(symbol, symbol))

    def quantise(self, symbol: Symbol) -> None:
        scale, zero = self.levels[symbol]
        with scope(self.graph.names[symbol.node]):
            levels = ops.quantize_linear(self.new.get(symbol, symbol), scale, zero)
            self.real[symbol] = ops.dequantize_linear(levels, scale, zero)

    def product(self, node: Node, inputs: Sequence[Symbol | None]) -> list[Symbol | None]:
        """Its inputs with the weight, and the bias, stored as integers."""
        data, weight, *rest = node.inputs
        assert data is not None
        assert weight is not None
        kernel, scales = self.kernel(weight, _channel_axis(node, weight))
        made: list[Symbol | None] = [inputs[0], kernel]
        if rest and rest[0] is not None and is_stored(rest[0]) and _adds_plainly(node):
            made.append(self.bias(rest[0], self.levels[data].scale, scales))
            return made
        return [*made, *inputs[2:]]

    def kernel(self, weight: Symbol, axis: int) -> tuple[Symbol, NDArray[np.float32]]:
        """A weight in levels, and their scales; products that share one go on sharing it."""
        if (weight, axis) not in self.kernels:
            value = np.asarray(stored(weight).value, np.float32)
            scales = weight_scales(value, axis if self.per_channel else None)
            wide = _along(scales, axis, value.ndim) if scales.ndim else scales
            integers = np.clip(np.rint(value / wide), -_WEIGHT_LEVELS, _WEIGHT_LEVELS)
            made = self.integers(weight, integers.astype(np.int8), scales, axis)
            self.kernels[weight, axis] = made, scales
        return self.kernels[weight, axis]

    def bias(self, bias: Symbol, scale: Any, scales: NDArray[np.float32]) -> Symbol:
        """The bias in the unit of the sums, 32 bits; as it is where these do not hold it."""
        value = np.asarray(stored(bias).value, np.float32)
        unit = np.asarray(scale * scales, np.float32)
        if value.ndim != 1 or (unit.ndim and unit.shape != value.shape):
            return bias
        integers = np.rint(value.astype(np.float64) / unit)
        if np.abs(integers).max(initial=0) > _LARGEST_BIAS:
            return bias
        return self.integers(bias, integers.astype(np.int32), unit, 0)

    def integers(
        self, stands_for: Symbol, values: NDArray[Any], scales: NDArray[np.float32], axis: int
    ) -> Symbol:
        """A weight of integers, called after what it stands for, taken back to real numbers.

        A bias that several products share is there once for each: their units differ.
        """
        first = name = f"{self.graph.names[stands_for.node]}_quantized"
        number = 0
        while name in self.names:
            number += 1
            name = f"{first}_{number}"
        self.names.add(name)
        weight = make_weight(Tensor.of(values), name=name)
        if scales.ndim:
            return ops.dequantize_linear(weight, scales, axis=axis)
        return ops.dequantize_linear(weight, scales)


def weight_scales(value: NDArray[np.float32], axis: int | None) -> NDArray[np.float32]:
    """The scale of each slice along `axis`, or of the whole: its largest value is level 127."""
    others = None if axis is None else tuple(i for i in range(value.ndim) if i != axis)
    largest = np.abs(value).max(axis=others, initial=0)
    scales = np.asarray(largest / _WEIGHT_LEVELS, np.float32)
    return np.where(scales < np.finfo(np.float32).tiny, np.float32(1), scales).astype(np.float32)


def _along(scales: NDArray[np.float32], axis: int, rank: int) -> NDArray[np.float32]:
    return scales.reshape([-1 if i == axis else 1 for i in range(rank)])


def _channel_axis(node: Node, weight: Symbol) -> int:
    """The axis of a product's weight that its output channels are along."""
    if node.op_type == "Conv" or (node.op_type == "Gemm" and node.attrs.get("transB", 0)):
        return 0
    return (weight.rank or 1) - 1


def _adds_plainly(node: Node) -> bool:
    return node.op_type == "Conv" or node.attrs.get("beta", 1.0) == 1.0


def _is_product(node: Node) -> bool:
    """A product of a real value and a stored matrix of real numbers."""
    if node.op.domain or node.op_type not in PRODUCTS or len(node.inputs) < 2:
        return False
    data, weight = node.inputs[:2]
    if data is None or weight is None or is_stored(data) or not is_stored(weight):
        return False
    if node.op_type == "Gemm" and (node.attrs.get("alpha", 1.0) != 1.0):
        return False
    return _is_real(data) and _is_real(weight) and (weight.rank or 0) >= 2


def _is_quantised(node: Node) -> bool:
    """Whether the node is computed in levels: a product, a sum of two values, an average."""
    if node.op.domain:
        return False
    if node.op_type == "Add":
        return all(s is not None and not is_stored(s) and _is_real(s) for s in node.inputs)
    return _is_product(node) or (node.op_type in AVERAGES and _is_real(node.outputs[0]))


def _real_inputs(node: Node) -> Iterable[Symbol]:
    """The inputs that are computed real numbers."""
    given = node.inputs if node.op_type in ("Add", "Concat") else node.inputs[:1]
    return [s for s in given if s is not None and not is_stored(s) and _is_real(s)]


def _is_real(symbol: Symbol) -> bool:
    return isinstance(symbol.type, TensorType) and symbol.type.dtype == NumberType.FLOAT32
