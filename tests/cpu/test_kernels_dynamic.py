"""Graphs whose sizes depend on data: every step stays compiled, results agree node by node."""

from __future__ import annotations

import numpy as np
import pytest
from run_graph import compiled, computed, fed, kernels

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.ops.evaluate import evaluate_graph

W = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)


def best_rows(x):
    """The k best rows, k at most as many as there are."""
    hidden = ops.relu(ops.matmul(x, W))
    k = ops.min([ops.shape(hidden, start=0, end=1), np.array([3])])
    _, places = ops.top_k(ops.reduce_max(hidden, [1], keepdims=0), k)
    return [ops.softmax(ops.gather(hidden, places))]


def scattered(x):
    """What is positive, doubled, put back among zeros."""
    places = ops.transpose(ops.non_zero(ops.relu(x)))
    zeros = ops.constant_of_shape(ops.shape(x))
    values = ops.mul(ops.gather_nd(x, places), 2.0)
    return [ops.matmul(ops.scatter_nd(zeros, places, values), W)]


def histogram(x):
    """How often each whole number occurs, twice over."""
    whole = ops.cast(ops.round(x), "int64")
    values, _, back, counts = ops.unique(whole, outputs=4)
    lines = ops.one_hot(back, ops.size(values), np.array([0, 1], np.float32))
    return [ops.reduce_sum(lines, [0], keepdims=0), ops.cast(counts, "float32")]


def kept_rows(x):
    """The rows with something positive, and a number added to each."""
    kept = ops.greater(ops.reduce_max(x, [1], keepdims=0), 0.0)
    hidden = ops.tanh(ops.matmul(ops.compress(x, kept, axis=0), W))
    count = ops.shape(hidden, start=0, end=1)
    numbers = ops.range(np.int64(0), ops.squeeze(count, [0]), np.int64(1))
    column = ops.unsqueeze(ops.cast(numbers, "float32"), [1])
    wide = ops.expand(column, ops.concat([count, np.array([4])], axis=0))
    return [ops.add(hidden, wide)]


def cropped(x):
    """A square about the middle, as large as there are positive rows."""
    kept = ops.greater(ops.reduce_max(x, [1], keepdims=0), 0.0)
    count = ops.reduce_sum(ops.cast(kept, "int64"), [0])
    return [ops.mul(ops.center_crop_pad(x, ops.concat([count, count], axis=0)), 2.0)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("build", [best_rows, scattered, histogram, kept_rows, cropped])
def test_a_graph(build, threads, rng):
    x = fed("x", np.zeros((5, 3), np.float32), ("N", 3))
    outputs = build(x)
    cell = compiled(outputs, threads)
    assert "host" not in kernels(cell), kernels(cell)
    graph = Graph(outputs)
    for count in (5, 2, 7, 5, 1):
        value = rng.normal(size=(count, 3)).astype(np.float32)
        found = computed(cell, {"x": value})
        expected = evaluate_graph(graph, {x: value})
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
            assert got.shape == np.shape(wanted)
