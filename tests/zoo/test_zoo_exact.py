"""How far compiled networks are from the same networks in float64: with every instruction set, with
and without Winograd's filtering, and not optimised at all, they stay under one bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from zoo_networks import PUBLISHED, draw_statistics, entries, families, small

from neuralsym import Graph, Network
from neuralsym.core.leaves import Variable, constant, is_stored, stored, variable
from neuralsym.core.symbol import Symbol
from neuralsym.core.traverse import rebuild
from neuralsym.cpu.machine import host_isas
from neuralsym.ops.evaluate import evaluate_graph

BOUND = 1e-5
"""Of the largest output: docs/measuring.md states it."""

QUICK = ("cifar10_cnn", "mobilenet_025")
LARGEST = 30_000_000
"""Weights of the networks that are tried; the others are made of the same layers."""


def others() -> Iterator[str]:
    """The smallest network of each family."""
    for first, *_ in families().values():
        if first not in QUICK and PUBLISHED[first].trainable <= LARGEST:
            yield first


def widened(graph: Graph) -> Graph:
    """The graph with float64 in the place of all float32."""
    new: dict[Symbol, Symbol] = {}
    for node in graph.nodes:
        out = node.outputs[0]
        if node.op is Variable:
            wide = variable(out.name, out.type.shape, "float64")
            made: tuple[Symbol, ...] = (wide if out.dtype == "float32" else out,)
        elif is_stored(out):
            value = stored(out).value
            made = (constant(value.astype(np.float64)) if value.dtype == np.float32 else out,)
        else:
            made = rebuild(node, tuple(None if s is None else new[s] for s in node.inputs)).outputs
        new.update(zip(node.outputs, made, strict=True))
    named = zip(graph.output_names, graph.outputs, strict=True)
    return Graph({name: new[s] for name, s in named}, [new[s] for s in graph.inputs])


def evaluated(graph: Graph, x: NDArray[Any]) -> NDArray[Any]:
    (value,) = evaluate_graph(graph, {graph.inputs[0]: x})
    return value


def before_tanh(network: Network) -> Network:
    """The network up to its last tanh: sums of hundreds, as random weights give them, come out of
    it as steps, and what is exact to 1e-6 of the largest sum is anything on the slope."""
    last = [node for node in network.graph.nodes if node.op.__name__ == "Tanh"][-1]
    return Network(Graph({"sums": last.inputs[0]}, network.graph.inputs))


def check(name: str) -> None:
    network = draw_statistics(small(name))
    x = entries(network, 2)
    if name == "style_transfer":
        network = before_tanh(network)
    real = x.dtype == np.float32
    exact = evaluated(widened(network.graph), x.astype(np.float64) if real else x)
    assert exact.dtype == np.float64

    def error(found: NDArray[Any]) -> float:
        return float(np.abs(found - exact).max() / np.abs(exact).max())

    assert error(evaluated(network.graph, x)) <= BOUND, "not optimised"
    settings = [{}, {"winograd": False}, *({"isa": isa} for isa in host_isas()[1:])]
    for options in settings:
        one, two = (
            next(iter(Network(network.model).compile(threads=n, **options).run(x).values()))
            for n in (1, 2)
        )
        np.testing.assert_array_equal(one, two, err_msg=str(options))
        assert error(one) <= BOUND, options


@pytest.mark.parametrize("name", QUICK)
def test_bound(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(others()))
def test_bound_of_every_family(name: str) -> None:
    check(name)
