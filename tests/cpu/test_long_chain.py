"""A chain of 50,000 operators compiles and runs in seconds."""

from __future__ import annotations

import time

import numpy as np
import pytest

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.cpu import compiler
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options

LENGTH = 50_000
UNCACHED = Options(threads=1, cache_dir="off")


def chain(steps, length=LENGTH):
    x = y = variable("x", (64,))
    for i in range(length):
        y = steps[i % len(steps)](y)
    return Graph({"y": y}, [x])


def run(graph):
    began = time.perf_counter()
    cell = compile_graph(graph, UNCACHED)
    instance = cell.instance()
    instance["x"] = np.linspace(-1, 1, 64, dtype=np.float32)
    instance.compute()
    return cell, np.array(instance["y"]), time.perf_counter() - began


def check_fused(length):
    cell, y, seconds = run(chain([lambda v: v + 1, ops.relu, lambda v: v * 0.5], length))
    assert len(cell.program.steps) < length / 20
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    for i in range(length):
        x = (x + 1, np.maximum(x, 0), x * np.float32(0.5))[i % 3]
    np.testing.assert_allclose(y, x, rtol=1e-6)
    return seconds


def test_a_fused_chain():
    assert check_fused(5_000) < 6


@pytest.mark.slow
def test_a_long_fused_chain():
    assert check_fused(LENGTH) < 60


@pytest.mark.slow
def test_a_chain_of_single_steps(monkeypatch):
    monkeypatch.setattr(compiler, "LEVEL", 0)
    cell, y, seconds = run(chain([ops.neg, ops.neg, ops.relu]))
    assert seconds < 60
    assert len(cell.program.steps) == LENGTH
    np.testing.assert_array_equal(
        np.abs(y), np.maximum(np.linspace(-1, 1, 64, dtype=np.float32), 0)
    )


@pytest.mark.slow
def test_a_chain_of_different_functions():
    rng = np.random.default_rng(0)
    kinds = [ops.tanh, ops.sin, ops.cos, ops.sigmoid, lambda v: v * 0.9, lambda v: v + 0.25]
    order = [kinds[i] for i in rng.integers(len(kinds), size=LENGTH)]
    _, y, seconds = run(chain(order))
    assert seconds < 60
    assert np.isfinite(y).all()
