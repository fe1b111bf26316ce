"""Graphs at random, as exporters might write them: all passes together keep the values.

Before and after are both evaluated in float32, and the unchanged graph in float64 too: what the
passes give may lie as far from that as a few times what the file's own order of operators does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_checks import run

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import is_stored, stored
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.traverse import LEAVES
from neuralsym.ops.evaluate import evaluate
from neuralsym.passes.pipeline import optimise

CHANNELS = 4
Draw = Any


class Writer:
    """Draws pieces that exporters write, around one value."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
        self.seen: list[Symbol] = []

    def pick(self, *choices: Any) -> Any:
        return self.data.draw(st.sampled_from(choices))

    def array(self, *shape: int) -> np.ndarray[Any, Any]:
        return self.rng.uniform(0.5, 1.5, shape).astype(np.float32)

    def by_channel(self, x: Symbol) -> np.ndarray[Any, Any]:
        size = int(str((x.shape or ())[1]))
        return self.array(*self.pick((1,), (size, 1, 1), (1, size, 1, 1), (1, 1, 1)))

    def piece(self, x: Symbol) -> Symbol:
        kind = self.pick("conv", "norm", "scale", "function", "sum", "turn", "flat", "join", "gate")
        return getattr(self, kind)(x)  # type: ignore[no-any-return]

    def conv(self, x: Symbol) -> Symbol:
        channels = int(str((x.shape or ())[1]))
        group = self.pick(1, 1, channels)
        w = self.array(CHANNELS if group == 1 else channels, channels // group, 3, 3) - 1
        bias = self.pick(None, self.array(w.shape[0]))
        if self.pick(True, False):
            x = ops.pad(x, np.array([1, 1, 1, 1], np.int64), 0.0, np.array([2, 3], np.int64))
            return ops.conv(x, w, bias, group=group)
        return ops.conv(x, w, bias, group=group, pads=(1, 1, 1, 1))

    def norm(self, x: Symbol) -> Symbol:
        size = int(str((x.shape or ())[1]))
        if self.pick(True, False):
            y = ops.batch_normalization(x, *(self.array(size) for _ in range(4)))
            return y[0] if isinstance(y, tuple) else y
        last = np.array([-1], np.int64)
        centred = x - ops.reduce_mean(x, last)
        root = ops.sqrt(ops.reduce_mean(centred * centred, last) + 0.01)
        return centred / root * self.array(*self.pick((1,), tuple((x.shape or ())[-1:])))

    def scale(self, x: Symbol) -> Symbol:
        k = self.by_channel(x)
        return self.pick(x * k, x / k, x + k, x - k, x * 0.5, 1.0 - x)  # type: ignore[no-any-return]

    def function(self, x: Symbol) -> Symbol:
        return self.pick(  # type: ignore[no-any-return]
            ops.relu(x),
            ops.clip(x, -0.5, 1.0),
            ops.min([ops.relu(x), ops.constant(1.0)]),
            x * ops.sigmoid(x * 1.5),
            x * (1.0 + ops.erf(x * 0.70710678)) * 0.5,
            x * ops.clip(x + 3.0, 0.0, 6.0) / 6.0,
            ops.where(x > 0.0, x, x * 0.1),
            ops.neg(ops.neg(x)),
            ops.cast(ops.cast(x, "float64"), "float32"),
        )

    def sum(self, x: Symbol) -> Symbol:
        others = [o for o in self.seen if o.shape == x.shape]
        return x + self.pick(*others) if others else x

    def turn(self, x: Symbol) -> Symbol:
        y = ops.transpose(x, perm=(0, 2, 3, 1))
        for _ in range(self.pick(0, 1, 2)):
            size = int(str((y.shape or ())[-1]))
            y = self.pick(y + self.array(size), ops.relu(y), y * self.array(1, 1, 1, size))
        return ops.transpose(y, perm=(0, 3, 1, 2))

    def flat(self, x: Symbol) -> Symbol:
        shape = [int(str(d)) for d in x.shape or ()]
        w = (self.array(shape[-1], shape[-1]) - 1) / 2
        y = ops.matmul(ops.reshape(x, np.array([-1, shape[-1]], np.int64)), w)
        y = self.pick(y, y + self.array(shape[-1]), y * self.array(shape[-1]), y - 0.25)
        y = ops.reshape(y, np.array([-1, *shape[1:]], np.int64))
        return self.pick(y, ops.relu(y), y + self.array(shape[-1]))  # type: ignore[no-any-return]

    def join(self, x: Symbol) -> Symbol:
        y = ops.concat([ops.concat([x, x * 2.0], axis=1), x], axis=1)
        return ops.slice(ops.slice(y, [1], [9], [1]), [0], [CHANNELS], [1])

    def gate(self, x: Symbol) -> Symbol:
        mean = ops.reduce_mean(x, np.array([2, 3], np.int64))
        return x * ops.sigmoid(mean)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_all_passes_together(data: st.DataObject) -> None:
    writer = Writer(data)
    x = ops.variable("x", (2, CHANNELS, 5, 6))
    y = x
    for _ in range(data.draw(st.integers(1, 9))):
        writer.seen.append(y)
        y = writer.piece(y)
    graph = Graph({"y": y, "z": writer.pick(*writer.seen)})
    feed = np.random.default_rng(1).normal(size=(2, CHANNELS, 5, 6)).astype(np.float32)
    exact = _in_double(graph, feed)
    before = run(graph, {"x": feed})
    for level in (1, 2):
        made = optimise(graph, level, check=True)
        assert made.output_names == graph.output_names
        after = run(made, {"x": feed})
        for a, b, e in zip(before, after, exact, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            largest = max(1.0, float(np.max(np.abs(e))))
            own = float(np.max(np.abs(a - e)))
            # Folding rounds a few more times than the file: eight roundings of the largest value
            # beside eight times its own error.
            assert float(np.max(np.abs(b - e))) <= 8 * own + 8 * 6e-8 * largest


def _in_double(graph: Graph, x: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """The graph's outputs with every float32 in it a float64."""
    values: dict[Symbol, Any] = {}
    wide: dict[Symbol, Symbol] = {}
    for node in graph.nodes:
        if node.op in LEAVES:
            symbol = node.outputs[0]
            value = stored(symbol).value if is_stored(symbol) else x
            if symbol.dtype == "float32":
                value = value.astype(np.float64)
            wide[symbol] = ops.constant(Tensor.of(value))
            values[symbol] = value
            continue
        attrs = dict(node.attrs)
        if node.op_type == "Cast":
            attrs["to"] = 11
        made = _applied(node, [None if s is None else wide[s] for s in node.inputs], attrs)
        results = evaluate(made, [None if s is None else values[s] for s in node.inputs])
        for old, symbol, value in zip(node.outputs, made.outputs, results, strict=False):
            wide[old], values[old] = symbol, value
    return [values[s] for s in graph.outputs]


def _applied(node: Node, inputs: list[Symbol | None], attrs: dict[str, Any]) -> Node:
    from neuralsym.core.registry import apply

    return apply(node.op, inputs, attrs, outputs=len(node.outputs))[0].node
