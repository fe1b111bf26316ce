"""Plans of programs: what lives at once lies apart, whatever the graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.cpu import compiler
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options
from neuralsym.cpu.program import Role, owner

ONE = Options(threads=1)


@pytest.fixture
def unfused(monkeypatch):
    """Every node a step of its own."""
    monkeypatch.setattr(compiler, "LEVEL", 0)


def ranges(plan):
    """First and last step of every buffer that owns memory in a plan, by the steps alone."""
    found: dict = {}
    steps = list(dict.fromkeys(plan.row_steps))
    for time, step in enumerate(steps):
        for buffer in (*step.operands, *step.outputs):
            whole = owner(buffer)
            if whole in plan.places:
                first, _ = found.get(whole, (-1 if whole.role is Role.INPUT else time, time))
                found[whole] = (first, time)
    for whole, (first, last) in found.items():
        if whole.role in (Role.INPUT, Role.OUTPUT):
            found[whole] = (first, 10**9)
        else:
            found[whole] = (first, last)
    return found


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_graphs_compute_what_numpy_computes(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    width = data.draw(st.sampled_from([3, 16, 40]))
    x = variable("x", ("N", width))
    symbols, arrays = [x], [rng.normal(size=(4, width)).astype(np.float32)]
    for _ in range(data.draw(st.integers(1, 12))):
        a, b = (data.draw(st.integers(0, len(symbols) - 1)) for _ in range(2))
        kind = data.draw(st.sampled_from(["add", "relu", "mul", "reshape"]))
        if kind == "add":
            symbols.append(symbols[a] + symbols[b])
            arrays.append(arrays[a] + arrays[b])
        elif kind == "mul":
            symbols.append(symbols[a] * np.float32(0.5))
            arrays.append(arrays[a] * np.float32(0.5))
        elif kind == "relu":
            symbols.append(ops.relu(symbols[a]))
            arrays.append(np.maximum(arrays[a], 0))
        else:
            flat = ops.reshape(symbols[a], np.array([-1]))
            symbols.append(ops.reshape(flat, np.array([-1, width])))
            arrays.append(arrays[a])
    chosen = {i for i in range(1, len(symbols)) if data.draw(st.booleans())} | {len(symbols) - 1}
    graph = Graph({f"y{i}": symbols[i] for i in chosen}, [x])
    level = compiler.LEVEL
    compiler.LEVEL = 0
    try:
        cell = compile_graph(graph, ONE)
    finally:
        compiler.LEVEL = level
    instance = cell.instance()
    for _ in range(2):
        instance["x"] = arrays[0]
        instance.compute()
        for i in chosen:
            np.testing.assert_array_equal(instance[f"y{i}"], arrays[i])
    plan = cell.plan(0, instance._sizes, ())
    lives = list(ranges(plan).items())
    sizes = plan.sizes
    for i, (a, (a_first, a_last)) in enumerate(lives):
        for b, (b_first, b_last) in lives[:i]:
            # Sharing in place, where one ends and the other begins, is what rows allow.
            if a_first < b_last and b_first < a_last:
                a_start, b_start = plan.places[a], plan.places[b]
                apart = a_start + sizes.nbytes(a) <= b_start or b_start + sizes.nbytes(b) <= a_start
                assert apart, (a, b)


def test_a_chain_runs_in_place(unfused):
    x = variable("x", (1000,))
    y = x
    for _ in range(20):
        y = ops.relu(y) + np.float32(1)
    cell = compile_graph(Graph({"y": y}), ONE)
    (plan,) = cell.plans()
    assert plan.nbytes == 2 * 4032  # the input, and one place for all the rest
    instance = cell.instance()
    instance["x"] = np.zeros(1000, np.float32)
    instance.compute()
    np.testing.assert_array_equal(instance["y"], np.full(1000, 20, np.float32))


def test_inputs_stay_and_outputs_are_not_overwritten(unfused):
    x = variable("x", (64,))
    first = ops.relu(x)
    second = ops.relu(first * np.float32(3)) + first
    cell = compile_graph(Graph({"first": first, "second": second}), ONE)
    instance = cell.instance()
    a = np.linspace(-1, 1, 64, dtype=np.float32)
    instance["x"] = a
    for _ in range(3):
        instance.compute()
        np.testing.assert_array_equal(instance["x"], a)
        np.testing.assert_array_equal(instance["first"], np.maximum(a, 0))


def test_plans_are_cached_by_sizes():
    x = variable("x", ("N", 8))
    cell = compile_graph(Graph({"y": ops.relu(x)}), ONE)
    instance = cell.instance()
    for n in (3, 5, 3, 5, 3):
        instance["x"] = np.ones((n, 8), np.float32)
        instance.compute()
        assert instance["y"].shape == (n, 8)
    assert len(cell.plans()) == 3  # and the one made for N = 1 when compiling
    for n in range(10, 60):
        instance["x"] = np.ones((n, 8), np.float32)
        instance.compute()
    assert len(cell.plans()) <= 16
