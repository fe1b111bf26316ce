"""float16 in the place of float32: weights, constants and all that is computed from them.

What ONNX does not define for float16 (sizes of Resize, boxes of NonMaxSuppression), quantisation
and nodes with bodies keep float32, with casts around them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import Constant, Variable, Weight, make_variable
from neuralsym.core.registry import apply
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.traverse import rebuild, renewed
from neuralsym.core.types import TensorType
from neuralsym.dtypes import NumberType
from neuralsym.errors import warn

HALF, FULL = NumberType.FLOAT16, NumberType.FLOAT32
_LARGEST = float(np.finfo(np.float16).max)
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")


def to_float16(graph: Graph, keep_io: bool = True) -> Graph:
    """The graph in float16.

    keep_io: inputs and outputs stay float32, with a cast behind and before them; else they become
    float16 too. Values beyond 65504 become that, and a warning names them when they are read.
    """
    return _Halver(graph, keep_io).run()


class _Halver:
    """A graph on its way to float16."""

    def __init__(self, graph: Graph, keep_io: bool) -> None:
        self.graph = graph
        self.keep_io = keep_io
        self.new: dict[Symbol, Symbol] = {}
        """What stands in the place of each symbol, in whatever type it was made."""
        self.halves: dict[Symbol, Symbol] = {}
        self.fulls: dict[Symbol, Symbol] = {}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            if node.op is Variable:
                self.variable(node)
            elif node.op not in (Weight, Constant):
                self.node(node)
        changed = {s: h for s, h in self.halves.items() if s.node.op is not Variable} | self.new
        for symbol in self.graph.outputs:
            if _is_full(symbol):
                changed[symbol] = self.full(symbol) if self.keep_io else self.half(symbol)
        for target, value in self.graph.updates.items():
            changed[value] = self.half(value) if self.half_kept(target) else self.full(value)
        return self.graph.rewired(changed)

    def half_kept(self, target: Symbol) -> bool:
        return self.new.get(target, target).dtype == HALF

    def variable(self, node: Node) -> None:
        symbol = node.outputs[0]
        if self.keep_io or not _is_full(symbol):
            return
        assert isinstance(symbol.type, TensorType)
        attrs = {k: v for k, v in node.attrs.items() if k == "init"}
        if attrs:
            attrs["init"] = self.halved(attrs["init"], symbol)
        made = make_variable(node.name, TensorType(HALF, symbol.type.shape), attrs)
        self.new[symbol] = made

    def node(self, node: Node) -> None:
        if not _can_be_half(node):
            fulls = {s: self.full(s) for s in node.operands}
            made = renewed(node, {s: f for s, f in fulls.items() if f is not s})
            self.new.update(zip(node.outputs, made.outputs, strict=True))
            return
        schema = node.op.schema
        inputs: list[Symbol | None] = []
        for i, symbol in enumerate(node.inputs):
            if symbol is None or not _is_full(symbol):
                inputs.append(None if symbol is None else self.new.get(symbol, symbol))
            elif "tensor(float16)" in schema.formal_input(i).allowed:
                inputs.append(self.half(symbol))
            else:
                inputs.append(self.full(symbol))
        attrs = {key: self.attribute(key, v, node) for key, v in node.attrs.items()}
        if all(a is b for a, b in zip(inputs, node.inputs, strict=True)) and attrs == node.attrs:
            return
        made_of = apply(node.op, inputs, attrs, outputs=len(node.outputs), where=node.where)
        self.new.update(zip(node.outputs, made_of, strict=True))

    def attribute(self, key: str, value: Any, node: Node) -> Any:
        if key in _TYPE_ATTRIBUTES and value == FULL:
            return str(HALF)
        if isinstance(value, Tensor) and value.dtype == FULL:
            return self.halved(value, node.outputs[0])
        return value

    def half(self, symbol: Symbol) -> Symbol:
        """A float32 symbol of the graph as float16."""
        found = self.halves.get(symbol)
        if found is None:
            now = self.new.get(symbol, symbol)
            if now.dtype == HALF:
                found = now
            elif symbol.node.op in (Weight, Constant):
                value = self.halved(symbol.node.attrs["value"], symbol)
                attrs = {**symbol.node.attrs, "value": value}
                found = rebuild(symbol.node, (), attrs=attrs).outputs[0]
            else:
                found = ops.cast(now, to=str(HALF))
            self.halves[symbol] = found
        return found

    def full(self, symbol: Symbol) -> Symbol:
        """A symbol of the graph as what it was; float32 where it was that."""
        now = self.new.get(symbol, symbol)
        if not _is_full(symbol) or now.dtype == FULL:
            return now
        found = self.fulls.get(symbol)
        if found is None:
            found = self.fulls[symbol] = ops.cast(now, to=str(FULL))
        return found

    def halved(self, tensor: Tensor, symbol: Symbol) -> Tensor:
        name = self.graph.names[symbol.node]
        return Tensor(HALF, tensor.shape, partial(_halved, tensor.once, name))


def _halved(make: Callable[[], NDArray[Any]], name: str) -> NDArray[Any]:
    value = make()
    beyond = np.isfinite(value) & (np.abs(value) > _LARGEST)
    if beyond.any():
        warn(f"{np.count_nonzero(beyond)} values of {name!r} are beyond float16 and become 65504")
        value = np.where(beyond, np.copysign(np.float32(_LARGEST), value), value)
    return value.astype(np.float16)


def _is_full(symbol: Symbol) -> bool:
    return isinstance(symbol.type, TensorType) and symbol.type.dtype == FULL


def _can_be_half(node: Node) -> bool:
    """Whether a node is of ONNX's own, without bodies, and means the same in float16."""
    op = node.op
    if op.domain or op.body_attributes:
        return False
    if "Quantize" in op.__name__ or op.__name__.startswith("QLinear"):
        return False
    if not all(isinstance(s.type, TensorType) for s in (*node.operands, *node.outputs)):
        return False
    return all(
        not _is_full(s) or "tensor(float16)" in op.schema.formal_output(i).allowed
        for i, s in enumerate(node.outputs)
    )
