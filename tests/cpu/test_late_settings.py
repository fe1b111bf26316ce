"""Settings that the run computes: axes, shapes and counts that steps need when they are planned."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from neuralsym import Network, ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.core.model import Model
from neuralsym.cpu.kernels.host import HostKernel
from neuralsym.errors import ExecutionError


def network(**outputs):
    return Network(Model.of(Graph(outputs)))


def on_host(net):
    steps = net._compile(()).cell.program.steps
    return [s.name for s in steps if isinstance(s.kernel, HostKernel)]


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_axes_that_are_fed():
    x, axes = variable("x", (2, 3, "N")), variable("axes", (1,), "int64")
    net = network(y=ops.reduce_sum(x, axes, keepdims=0) * 2.0)
    assert not on_host(net)
    for axis in (0, 1, -1, 0):
        made = net({"x": X, "axes": np.array([axis])})
        np.testing.assert_array_equal(made, 2 * X.sum(axis))


def test_a_slice_whose_bounds_are_computed():
    x, n = variable("x", ("N", 4)), variable("n", (), "int64")
    ends = ops.unsqueeze(n * ops.constant(2), [0])
    part = ops.slice(x, ops.constant([0]), ends, ops.constant([0]))
    net = network(y=ops.relu(ops.matmul(part, ops.constant(np.eye(4, dtype=np.float32)))))
    assert not on_host(net)
    data = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    for count in (1, 3, 0, 4, 1):
        made = net({"x": data, "n": np.array(count)})
        np.testing.assert_array_equal(made, np.maximum(data[: 2 * count], 0))


def test_settings_of_settings():
    shape = variable("shape", (3,), "int64")
    x = variable("x", (1, 1, 1))
    wide = ops.expand(x, shape)
    axis = ops.cast(ops.reduce_max(ops.shape(wide), keepdims=1) - ops.constant([4]), to="int64")
    net = network(y=ops.reduce_sum(wide, axis))
    made = net({"x": np.ones((1, 1, 1), np.float32), "shape": np.array([2, 3, 5])})
    np.testing.assert_array_equal(made, np.full((2, 1, 5), 3.0))
    made = net({"x": np.ones((1, 1, 1), np.float32), "shape": np.array([2, 3, 4])})
    np.testing.assert_array_equal(made, np.full((1, 3, 4), 2.0))


def test_a_bad_value_names_the_step():
    x, axes = variable("x", (2, 3)), variable("axes", (1,), "int64")
    net = network(y=ops.reduce_sum(x, axes, keepdims=0))
    with pytest.raises(ExecutionError, match=r"ReduceSum 'reduce_sum'.*ax[ie]s"):
        net({"x": X[0, :2, :3], "axes": np.array([5])})
    made = net({"x": X[0, :2, :3], "axes": np.array([1])})
    np.testing.assert_array_equal(made, X[0, :2, :3].sum(1))


def test_many_threads_with_different_values():
    x, pads = variable("x", (4, 5)), variable("pads", (4,), "int64")
    net = network(y=ops.pad(x, pads))
    data = np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32)

    def run(k):
        made = net({"x": data, "pads": np.array([k, 0, 0, k % 3])})
        np.testing.assert_array_equal(made, np.pad(data, ((k, 0), (0, k % 3))))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, list(range(12)) * 4))
