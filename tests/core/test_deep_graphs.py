"""Fifty thousand nodes in a row: nothing recurses, and time grows with the number of nodes."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import time
import weakref
from collections.abc import Callable

import pytest

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.parse import parse_graph
from neuralsym.core.symbol import Symbol
from neuralsym.passes.pipeline import optimise

DEPTH = 50_000


def chain(depth: int) -> Graph:
    x = ops.variable("x", ("N",))
    y = x
    for _ in range(depth):
        y = ops.sin(y)
    return Graph(y)


@pytest.fixture(scope="module")
def deep() -> Graph:
    return chain(DEPTH)


@pytest.mark.slow
def test_reading(deep: Graph) -> None:
    assert len(deep) == DEPTH + 1
    assert deep[f"sin_{DEPTH - 1}"] is deep.outputs[0]
    assert len(deep.users) == DEPTH + 1
    assert len(str(deep).splitlines()) == DEPTH + 3
    assert deep.check() is deep


@pytest.mark.slow
def test_changing(deep: Graph) -> None:
    turned = deep.map(lambda n, i: ops.cos(i[0]).outputs if n.op_type == "Sin" else None)
    assert len(turned.find("Cos")) == DEPTH
    wide = deep.replace({deep["x"]: ops.variable("x", (2, 3))})
    assert wide.outputs[0].shape == (2, 3)
    assert len(deep.subgraph(f"sin_{DEPTH // 2}", ["sin_9"])) == DEPTH // 2 - 8
    assert deep.rename({"x": "y"}).input_names == ("y",)


@pytest.mark.slow
def test_copies(deep: Graph) -> None:
    assert pickle.loads(pickle.dumps(deep)).names.keys() != deep.names.keys()
    assert len(copy.deepcopy(deep)) == len(deep)


def test_text_and_passes() -> None:
    graph = chain(DEPTH // 5)
    assert len(parse_graph(str(graph))) == len(graph)
    assert len(optimise(graph)) < len(graph) // 50


@pytest.mark.slow
def test_a_chain_is_freed_without_recursion() -> None:
    graph = chain(DEPTH)
    last = weakref.ref(graph.outputs[0].node)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        del graph
        gc.collect()
    finally:
        sys.setrecursionlimit(limit)
    assert last() is None


def test_an_abandoned_branch_is_garbage() -> None:
    x = ops.variable("x")
    branch = weakref.ref(ops.sin(x).node)
    gc.collect()
    assert branch() is None


@pytest.mark.slow
@pytest.mark.parametrize("work", [chain, lambda n: str(chain(n)), lambda n: chain(n).copy()])
def test_time_grows_with_the_number_of_nodes(work: Callable[[int], object]) -> None:
    def seconds(depth: int) -> float:
        best = float("inf")
        gc.collect()
        gc.disable()  # what ran before is alive, and a collection goes through all of it
        try:
            for _ in range(3):
                began = time.process_time()
                work(depth)
                best = min(best, time.process_time() - began)
        finally:
            gc.enable()
        return best

    # Five times the nodes: what is quadratic takes 25 times as long; caches and noise take less.
    assert seconds(10_000) < 15 * seconds(2_000)


def test_wide_and_reconverging() -> None:
    x = ops.variable("x", (3,))
    y: Symbol = x
    for _ in range(2_000):
        y = y * ops.sigmoid(y) + y  # 2^6000 paths, 6,000 nodes
    graph = Graph(y)
    assert len(graph) == 6_001
    assert len(graph.map(lambda n, i: None)) == 6_001
