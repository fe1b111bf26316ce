"""What follows a convolution or matrix product, done while its result is still at hand.

    activation(Conv(x, w) + b + residual)  ->  FusedConv(x, w, b, residual; activation)
    activation(A @ B * alpha + bias + z)   ->  FusedMatMul(A, B, bias, z; alpha, activation)

From the product the chain of its only users is followed: a factor, a bias of stored numbers for the
channels or (of a MatMul) a mask that broadcasts, one residual of the result's shape, then
elementwise operators of that value and numbers. Where a value has several users, those that end in
one node are taken together: x * sigmoid(1.5 x) is one activation.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

import numpy as np

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import is_stored, stored
from neuralsym.core.registry import apply
from neuralsym.core.scalar import Expr, Scalar, argument, size, substitute
from neuralsym.core.scope import CURRENT
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import renewed
from neuralsym.errors import acting_for
from neuralsym.ops.base import Elementwise
from neuralsym.passes.derived import derived_weight
from neuralsym.passes.fused import FusedConv, FusedMatMul
from neuralsym.passes.numbers import WIDE, factor_of, number_of, rounded, simplified

MOST_FUNCTIONS = 64
MOST_NODES = 16
"""So many nodes at most are looked at behind a value with several users."""


def fuse_epilogues(graph: Graph) -> Graph:
    """Fuse the chains behind convolutions and matrix products, bodies included."""
    graph = graph.map_bodies(fuse_epilogues)
    users = graph.users
    results = {*graph.outputs, *graph.updates.values()}
    chains: dict[Node, _Chain] = {}
    inside: set[Node] = set()
    places = {node: i for i, node in enumerate(graph.nodes)}
    taken: set[Node] = set()  # a sum of two products belongs to one of them
    for node in graph.nodes:
        chain = _start(node)
        if chain is None:
            continue
        value = node.outputs[0]
        while value not in results:
            found = chain.follow(value, users, results, taken, places, graph.nodes)
            if not found:
                break
            taken.update(found)
            inside.add(value.node)
            inside.update(found[:-1])
            value = found[-1].outputs[0]
        if value is not node.outputs[0]:
            chains[value.node] = chain
    new: dict[Symbol, Symbol] = {}
    for node in graph.nodes if chains else ():
        if node in chains:
            token = CURRENT.set(node.scope)
            try:
                with acting_for(node.where):
                    new[node.outputs[0]] = chains[node].build(new)
            finally:
                CURRENT.reset(token)
            continue
        made = node if node in inside else renewed(node, new)
        if made is not node:
            new.update(zip(node.outputs, made.outputs, strict=True))
    return graph.rewired(new)


def _start(node: Node) -> _Chain | None:
    """The chain that begins at a product, if its number type is one that kernels compute in."""
    if node.op_type not in ("Conv", "Gemm", "MatMul") or not node.outputs[0].dtype.is_float:
        return None
    shapes = [s.shape for s in (node.inputs[0], node.inputs[1], node.outputs[0]) if s is not None]
    if any(s is None or len(s) < 2 for s in shapes):
        return None
    return _Chain(node, alpha=float(node.attr("alpha")) if node.op_type == "Gemm" else 1.0)


def _is_mask(other: Symbol, value: Symbol) -> bool:
    """Whether it has a number for each column of a product, alike for some rows or matrices."""
    shape, whole = other.shape, value.shape
    if value.dtype not in WIDE:
        return False  # as in the file, scores are rounded before they are masked
    if not shape or not whole or len(shape) > len(whole) or shape[-1] != whole[-1]:
        return False
    pairs = zip(reversed(shape), reversed(whole), strict=False)
    return all(a in (1, b) for a, b in pairs)


@dataclass
class _Chain:
    """A product and what has been found to follow it."""

    root: Node
    biases: list[Symbol] = field(default_factory=list)
    residual: Symbol | None = None
    mask: Symbol | None = None
    """A summand that is neither a row nor of the result's shape, but broadcasts to it."""
    alpha: float = 1.0
    activation: Scalar = field(default_factory=lambda: argument(0))

    @property
    def plain(self) -> bool:
        """Whether no activation has been applied, so that sums still go into the product."""
        return self.activation == argument(0)

    def follow(
        self,
        value: Symbol,
        users: Mapping[Symbol, Sequence[Node]],
        results: Container[Symbol],
        taken: Container[Node],
        places: Mapping[Node, int],
        nodes_at: Sequence[Node],
    ) -> list[Node]:
        """Make what alone uses `value` part of the chain; its nodes, the last one last."""
        following = users[value]
        if len(following) == 1:
            (user,) = following
            return [user] if user not in taken and self.take(user, value) else []
        # What is computed of the value alone, until every use of that is inside: a swish, say.
        inner: dict[Symbol, Scalar] = {value: self.activation}
        heap = sorted(places[user] for user in following)
        nodes: list[Node] = []
        while heap and len(nodes) < MOST_NODES:
            node = nodes_at[heappop(heap)]
            expr = None if node in taken else self._applied(node, inner)
            if expr is None or node.outputs[0].shape != value.shape:
                return []
            nodes.append(node)
            result = node.outputs[0]
            if not heap and result.type == value.type:
                self.activation = expr
                return nodes
            if result in results:
                return []
            inner[result] = expr
            for user in users[result]:
                if places[user] not in heap:
                    heappush(heap, places[user])
        return []

    def take(self, user: Node, value: Symbol) -> bool:
        """Make `user`, which alone uses `value`, part of the chain; False where it cannot be."""
        if not issubclass(user.op, Elementwise) or len(user.outputs) != 1:
            return False
        if user.outputs[0].type != value.type:
            return False
        others = [s for s in user.inputs if s is not None and s is not value]
        is_sum = user.op_type in ("Add", "Sum") and self.plain and len(others) == 1
        if is_sum and self._take_sum(others[0], value):
            return True
        if len(others) == 1 and self._take_factor(user, others[0], value):
            return True
        expr = self._applied(user, {value: self.activation})
        if expr is None:
            return False
        self.activation = expr
        return True

    def _applied(self, user: Node, inner: Mapping[Symbol, Scalar]) -> Expr | None:
        """What a node computes of values whose expressions are known; None if of others too."""
        if not issubclass(user.op, Elementwise) or len(user.outputs) != 1:
            return None
        operands: dict[int, Scalar] = {}
        for i, s in enumerate(user.inputs):
            if s is None:
                continue
            operand = inner[s] if s in inner else number_of(s)
            if operand is None:
                return None
            operands[i] = operand
        own = user.op.expression(user)
        if not isinstance(own, Expr):
            return None
        made = substitute(own, operands)
        return made if isinstance(made, Expr) and size(made) <= MOST_FUNCTIONS else None

    def _take_factor(self, user: Node, other: Symbol, value: Symbol) -> bool:
        """Take a number behind a product that nothing was added to as the product's factor."""
        factor = factor_of(user, value)
        free = self.plain and not self.biases and self.residual is None and self.mask is None
        if factor is None or not free or self.root.op_type == "Conv" or self._bias() is not None:
            return False
        alpha = rounded(self.alpha * factor, value.dtype)
        if alpha is None:
            return False
        self.alpha = alpha
        return True

    def _take_sum(self, other: Symbol, value: Symbol) -> bool:
        if other.dtype is not value.dtype:
            return False
        if self.mask is None and is_stored(other) and self._is_bias(other):
            self.biases.append(other)
            return True
        if self.residual is not None or self.mask is not None or not other.tensor.is_known:
            return False
        if other.shape == value.shape:
            self.residual = other
            return True
        if self.root.op_type == "MatMul" and not self.biases and _is_mask(other, value):
            self.mask = other
            return True
        return False

    def _is_bias(self, given: Symbol) -> bool:
        """Whether a stored array is one number, or one for each channel or column."""
        shape = stored(given).shape
        rank = self.root.outputs[0].rank or 0
        axis = 1 if self.root.op_type == "Conv" else rank - 1
        wide = (1,) * (rank - len(shape)) + shape
        channels = self._channels()
        return (
            channels is not None
            and all(s == 1 for i, s in enumerate(wide) if i != axis)
            and wide[axis] in (1, channels)
            and (self._bias() is None or is_stored(self._bias_symbol()))
        )

    def _bias(self) -> Symbol | None:
        inputs = self.root.inputs
        return inputs[2] if self.root.op_type != "MatMul" and len(inputs) > 2 else None

    def _bias_symbol(self) -> Symbol:
        bias = self._bias()
        assert bias is not None
        return bias

    def _channels(self) -> int | None:
        shape = self.root.outputs[0].shape
        assert shape is not None
        size = shape[1] if self.root.op_type == "Conv" else shape[-1]
        return size if isinstance(size, int) else None

    # -- making the fused node ---------------------------------------------------------------
    def build(self, new: Mapping[Symbol, Symbol]) -> Symbol:
        """The fused node's result, over renewed inputs."""
        inputs = [None if s is None else new.get(s, s) for s in self.root.inputs]
        residual = None if self.residual is None else new.get(self.residual, self.residual)
        bias = inputs[2] if len(inputs) > 2 else None
        attrs: dict[str, Any] = {}
        if isinstance(self.activation, Expr) and not self.plain:
            attrs["activation"] = simplified(self.activation)
        if self.root.op_type == "Conv":
            bias = self._summed(bias, 1.0)
            attrs = {**self.root.attrs, **attrs}
            return apply(FusedConv, [*inputs[:2], bias, residual], attrs)[0]
        if self.root.op_type == "Gemm":
            beta = float(self.root.attr("beta"))
            if self.biases:
                bias, beta = self._summed(bias, beta), 1.0
            attrs.update(
                trans_a=self.root.attr("transA"),
                trans_b=self.root.attr("transB"),
                alpha=self.alpha,
                beta=beta,
            )
        else:
            if self.alpha != 1:
                attrs["alpha"] = self.alpha
            bias = self._summed(None, 1.0)
            if self.mask is not None:
                bias = new.get(self.mask, self.mask)
        return apply(FusedMatMul, [*inputs[:2], bias, residual], attrs)[0]

    def _summed(self, bias: Symbol | None, factor: float) -> Symbol | None:
        """The bias with those found behind the product; `factor` multiplies the first alone."""
        if not self.biases:
            return bias
        channels = self._channels()
        assert channels is not None
        parts = self.biases if bias is None else [bias, *self.biases]
        if len(parts) == 1 and stored(parts[0]).shape == (channels,):
            return parts[0]
        factors = [factor if bias is not None and i == 0 else 1.0 for i in range(len(parts))]

        def total(*arrays: Any) -> Any:
            made = np.zeros(channels)
            for array, each in zip(arrays, factors, strict=True):
                made = made + each * np.broadcast_to(array.reshape(-1), (channels,))
            return made

        return derived_weight(parts[0], (channels,), [stored(p) for p in parts], total)
