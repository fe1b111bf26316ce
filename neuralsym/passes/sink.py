"""Transposes, moved behind what they may stand behind, so that they meet others and cancel.

Files of frameworks whose channels are last stand full of pairs: a convolution between transposes,
elementwise operators, reductions, concatenations and paddings between those. Going forwards, each
value keeps an order of axes in which its base has still to be moved; a Transpose only changes that
order, and what `passes/moves.py` knows is applied to the base. Where somebody needs the value
itself, it is moved there.

The values between which orders are passed on form a region. A region is changed only if that
moves fewer elements than before, or as many while something else comes before a Transpose, where
it may be fused with what precedes. Both happen only finitely often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import is_stored
from neuralsym.core.registry import apply, call
from neuralsym.core.scope import CURRENT
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import renewed
from neuralsym.passes.identity import order_of
from neuralsym.passes.moves import (
    Move,
    Order,
    after,
    elements,
    inverse,
    is_identity,
    move_of,
    moves_only_ones,
)

SMALL_PART = 4
"""An operand that lies as it should may be moved too if it has so many times fewer elements."""


def sink_transposes(graph: Graph) -> Graph:
    """Move transposes towards the outputs where that saves some, bodies included."""
    graph = graph.map_bodies(sink_transposes)
    if not any(_is_transpose(node) for node in graph.nodes):
        return graph
    survey = _Survey()
    for node in graph.nodes:
        survey.look_at(node)
    for symbol in (*graph.outputs, *graph.updates.values()):
        survey.need(symbol)
    accepted = survey.accepted()
    return _Builder(graph, survey, accepted).build() if accepted else graph


@dataclass(eq=False)
class _Region:
    """Values that pass an order on, and how many elements are moved before and after."""

    before: int = 0
    after: int = 0
    inserted: bool = False
    sunk: bool = False
    into: _Region | None = None

    def root(self) -> _Region:
        found = self
        while found.into is not None:
            if found.into.into is not None:
                found.into = found.into.into  # chains halve each time that they are gone along
            found = found.into
        return found

    def join(self, other: _Region) -> None:
        a, b = self.root(), other.root()
        if a is b:
            return
        b.into = a
        a.before += b.before
        a.after += b.after
        a.inserted |= b.inserted
        a.sunk |= b.sunk


class _Survey:
    """What could be moved: an order for each value that lags behind, a move for each node."""

    def __init__(self) -> None:
        self.orders: dict[Symbol, Order] = {}
        self.regions: dict[Symbol, _Region] = {}
        self.home: dict[Node, _Region] = {}
        self.moves: dict[Node, Move] = {}
        self.needed: set[Symbol] = set()

    def look_at(self, node: Node) -> None:
        if _is_transpose(node):
            self._transpose(node)
            return
        lagging = [s for s in node.operands if s in self.orders]
        if not lagging:
            return
        move = self._move(node, lagging)
        if move is None:
            if any(s.known is None for s in node.outputs):  # else the plan tells its value
                for symbol in lagging:
                    self.need(symbol)
            return
        region = self.regions[lagging[0]]
        for symbol in lagging[1:]:
            region.join(self.regions[symbol])
        region = region.root()
        region.sunk = True
        for i in move.aligned:
            extra = self._insertion(node.inputs[i])
            if extra:
                region.after += extra
                region.inserted = True
        self.moves[node] = move
        self.home[node] = region
        for symbol, order in zip(node.outputs, move.orders, strict=True):
            self._lag(symbol, order, region)

    def _transpose(self, node: Node) -> None:
        x, y = node.inputs[0], node.outputs[0]
        order = order_of(node)
        if x is None or order is None or is_stored(x) or y.rank != len(order):
            return
        region = _Region(before=0 if moves_only_ones(x, order) else elements(y))
        if x in self.orders:
            region.join(self.regions[x])
            region = region.root()
            order = after(self.orders[x], order)
        self.home[node] = region
        self._lag(y, order, region)

    def _lag(self, symbol: Symbol, order: Order, region: _Region) -> None:
        if not is_identity(order):
            self.orders[symbol] = order
            self.regions[symbol] = region

    def _move(self, node: Node, lagging: list[Symbol]) -> Move | None:
        orders = {self.orders[s] for s in lagging}
        if len(orders) != 1 or node.outputs[0].shape is None:
            return None
        (order,) = orders
        move = move_of(node, order)
        if move is None:
            return None
        aligned = [node.inputs[i] for i in move.aligned]
        if any(s in self.orders for i, s in enumerate(node.inputs) if i not in move.aligned):
            return None
        size = elements(node.outputs[0])
        for symbol in aligned:
            if symbol is None or symbol.rank is None or symbol.rank > len(order):
                return None
            if symbol not in self.orders and SMALL_PART * self._insertion(symbol) > size:
                return None
        return move

    def _insertion(self, symbol: Symbol | None) -> int:
        """How many elements are moved to bring an operand into the base's order."""
        if symbol is None or symbol in self.orders or is_stored(symbol):
            return 0
        big = [size for size in symbol.shape or () if size != 1]
        return elements(symbol) if len(big) > 1 else 0

    def need(self, symbol: Symbol) -> None:
        """Count the movement of a value that somebody takes as it is."""
        if symbol not in self.orders or symbol in self.needed:
            return
        self.needed.add(symbol)
        order = self.orders[symbol]
        # Of the axes of the value itself, which the inverse takes back to the base's.
        if not moves_only_ones(symbol, inverse(order)):
            self.regions[symbol].root().after += elements(symbol)

    def accepted(self) -> set[_Region]:
        """The regions that are worth it, by their roots."""
        found = {region.root() for region in self.home.values()}
        return {
            r
            for r in found
            if r.after < r.before or (r.after == r.before and r.sunk and not r.inserted)
        }


class _Builder:
    """Makes the graph in which accepted regions are moved."""

    def __init__(self, graph: Graph, survey: _Survey, accepted: set[_Region]) -> None:
        self.graph = graph
        self.survey = survey
        self.nodes = {n for n, region in survey.home.items() if region.root() in accepted}
        self.bases: dict[Symbol, Symbol] = {}
        """Of values that lag behind, what has still to be moved."""
        self.new: dict[Symbol, Symbol] = {}

    def build(self) -> Graph:
        for node in self.graph.nodes:
            if node in self.nodes:
                self._moved(node)
                continue
            for symbol in node.operands:
                self._settle(symbol)
            made = renewed(node, self.new)
            if made is not node:
                self.new.update(zip(node.outputs, made.outputs, strict=True))
        for symbol in (*self.graph.outputs, *self.graph.updates.values()):
            self._settle(symbol)
        return self.graph.rewired(self.new)

    def _moved(self, node: Node) -> None:
        token = CURRENT.set(node.scope)
        try:
            if node not in self.survey.moves:
                outputs = [self._base(node.inputs[0])]
            else:
                outputs = list(self._apply(node, self.survey.moves[node]))
        finally:
            CURRENT.reset(token)
        for old, symbol in zip(node.outputs, outputs, strict=True):
            (self.bases if old in self.survey.orders else self.new)[old] = symbol

    def _apply(self, node: Node, move: Move) -> tuple[Symbol, ...]:
        inputs: list[Symbol | None] = []
        order = next(
            self.survey.orders[s] for s in node.inputs if s is not None and s in self.survey.orders
        )
        for i, symbol in enumerate(node.inputs):
            if symbol is None or i not in move.aligned:
                inputs.append(None if symbol is None else self.new.get(symbol, symbol))
            elif symbol in self.bases:
                inputs.append(self.bases[symbol])
            else:
                inputs.append(_aligned(self.new.get(symbol, symbol), order))
        for i, symbol in move.given.items():
            inputs += [None] * (i + 1 - len(inputs))
            inputs[i] = symbol
        return apply(node.op, inputs, move.attrs, outputs=len(node.outputs), where=node.where)

    def _base(self, symbol: Symbol | None) -> Symbol:
        assert symbol is not None
        return self.bases[symbol] if symbol in self.bases else self.new.get(symbol, symbol)

    def _settle(self, symbol: Symbol) -> None:
        """Have a value itself, if it only lags behind so far."""
        if symbol in self.bases and symbol not in self.new:
            order = self.survey.orders[symbol]
            self.new[symbol] = ops.transpose(self.bases[symbol], perm=order)


def _aligned(symbol: Symbol, order: Order) -> Symbol:
    """An operand with its axes as the base of `order` has them, or as they were if all are 1."""
    rank = symbol.rank
    assert rank is not None
    if all(size == 1 for size in symbol.shape or ()):
        return symbol
    if rank < len(order):
        symbol = call("Unsqueeze", symbol, np.arange(len(order) - rank))
    return ops.transpose(symbol, perm=inverse(order))


def _is_transpose(node: Node) -> bool:
    return node.op_type == "Transpose" and not node.op.domain
