"""What tests of passes share: random weights, and equality of values before and after."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuralsym.core.dim import evaluate
from neuralsym.core.graph import Graph
from neuralsym.core.parse import parse_graph
from neuralsym.core.tensor import Tensor
from neuralsym.ops.evaluate import evaluate_graph

SIZES = {"N": 2, "H": 9, "W": 7, "T": 5}


def drawn(text: str, rng: np.random.Generator) -> Graph:
    """The graph of a text, its weights drawn; those called var or gamma lie in 0.5 to 1.5."""
    graph = parse_graph(text)
    values = {}
    for symbol in graph.weights:
        name, shape = graph.names[symbol.node], symbol.attrs["value"].shape
        if name.startswith(("var", "gamma")):
            value = rng.uniform(0.5, 1.5, shape)
        else:
            value = rng.normal(0, 0.3, shape)
        values[name] = Tensor.of(value.astype(symbol.dtype.numpy), symbol.dtype)
    return graph.with_weights(values)


def feeds(graph: Graph, rng: np.random.Generator) -> dict[str, Any]:
    """Random values of a graph's inputs."""
    made: dict[str, Any] = {}
    for symbol, name in zip(graph.inputs, graph.input_names, strict=True):
        shape = [evaluate(d, SIZES) for d in symbol.shape or () if d is not None]
        if symbol.dtype == "bool":
            made[name] = rng.random(shape) < 0.5
        elif symbol.dtype.is_integer:
            made[name] = rng.integers(0, 9, shape).astype(symbol.dtype.numpy)
        else:
            made[name] = rng.normal(size=shape).astype(symbol.dtype.numpy)
    return made


def run(graph: Graph, values: dict[str, Any]) -> list[Any]:
    symbols = dict(zip(graph.input_names, graph.inputs, strict=True))
    return evaluate_graph(graph, {symbols[n]: v for n, v in values.items() if n in symbols})


def assert_same(before: Graph, after: Graph, rng: np.random.Generator, scale: float = 1.0) -> None:
    """Equal up to the rounding of float32 on two inputs, whose results differ by far more."""
    after.check()
    assert after.output_names == before.output_names
    first, second = feeds(before, rng), feeds(before, rng)
    results = []
    for values in (first, second):
        expected, got = run(before, values), run(after, values)
        results.append(expected)
        for a, b in zip(expected, got, strict=True):
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            # Sums of some hundred float32 products: 1e-5 of the largest result.
            largest = max(1.0, float(np.max(np.abs(a.astype(np.float64)), initial=0)))
            np.testing.assert_allclose(b, a, rtol=0, atol=1e-5 * scale * largest)
    for a, b in zip(*results, strict=True):
        if a.dtype.kind == "f" and a.size:
            assert np.max(np.abs(a - b)) > 1e-4 * scale * max(1.0, float(np.max(np.abs(a))))


def ops_of(graph: Graph) -> list[str]:
    """The operators of a graph without its leaves, in order."""
    leaves = ("Variable", "Weight", "Constant")
    return [n.op_type for n in graph if n.op_type not in leaves]
