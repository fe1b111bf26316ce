"""Batches in turns: the same bits as one entry alone, in less memory, only where that is right."""

from __future__ import annotations

import numpy as np
import pytest

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.cpu.machine import host_isas
from neuralsym.cpu.program import Sizes
from neuralsym.cpu.turns import find_turns
from neuralsym.network import Network
from neuralsym.ops.evaluate import evaluate_graph

COUNT = 5


def weights(rng, *shape):
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32)


def picture_network(rng):
    """Convolutions, a gate, a sum, joined branches, and a product at the end; results midway."""
    x = variable("x", ("N", 8, 64, 64))
    border = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    a = ops.relu(ops.conv(x, weights(rng, 16, 8, 3, 3), weights(rng, 16), **border))
    own = ops.conv(a, weights(rng, 16, 1, 3, 3), group=16, **border)
    gate = ops.sigmoid(ops.conv(ops.global_average_pool(own), weights(rng, 16, 16, 1, 1)))
    b = ops.conv(own * gate, weights(rng, 16, 16, 1, 1)) + a
    c = ops.concat([a, ops.max_pool(b, kernel_shape=[3, 3], pads=[1, 1, 1, 1])], axis=1)
    d = ops.conv(c, weights(rng, 32, 32, 3, 3), strides=[2, 2], **border)
    y = ops.matmul(ops.flatten(ops.global_average_pool(d)), weights(rng, 32, 10))
    return Network(Graph({"y": y, "b": b, "d": ops.relu(d)}, name="pictures"))


def turns_of(network, count=COUNT):
    cell = network.cell
    return find_turns(cell.program, 0, Sizes({"N": count}, cell.workers))


@pytest.mark.parametrize("isa", host_isas())
@pytest.mark.parametrize("threads", [1, 2])
def test_each_entry_is_computed_as_alone(isa, threads):
    rng = np.random.default_rng(3)
    network = picture_network(rng).compile(threads=threads, isa=isa)
    found = turns_of(network)
    assert found is not None and found.regions[0][1] - found.regions[0][0] > 5
    x = rng.standard_normal((COUNT, 8, 64, 64)).astype(np.float32)
    alone = [network.run({"x": x[i : i + 1]}) for i in range(COUNT)]
    for _ in range(2):
        together = network.run({"x": x})
        for name in ("b", "d", "y"):
            each = np.concatenate([run[name] for run in alone])
            if name == "y":  # its last product takes the batch as a whole
                np.testing.assert_allclose(together[name], each, rtol=0, atol=1e-6)
            else:
                np.testing.assert_array_equal(together[name], each)
        network.run({"x": x[:2]})


def test_a_region_needs_memory_for_one_entry():
    network = picture_network(np.random.default_rng(3)).compile(threads=1)
    cell = network.cell
    one, many = (cell.plan(0, Sizes({"N": n}, 1), ()) for n in (1, 32))
    kept = sum(
        np.prod(many.sizes.shape(b)) * 4
        for b in (*cell.program.inputs.values(), *cell.program.outputs.values())
    )
    assert many.nbytes - kept < 0.2 * 32 * one.nbytes


def test_small_batches_are_taken_whole():
    network = picture_network(np.random.default_rng(3)).compile(threads=1)
    assert turns_of(network, 1) is None
    x = variable("x", ("N", 8, 8, 8))
    small = Network(Graph({"y": ops.relu(ops.relu(x) * 2.0 + x)})).compile(threads=1)
    assert turns_of(small) is None


@pytest.mark.parametrize("mixed", ["sum", "axis", "outer"])
def test_what_mixes_entries_is_done_for_the_whole_batch(mixed):
    rng = np.random.default_rng(4)
    x = variable("x", ("N", 16, 64, 64))
    y = ops.conv(x, weights(rng, 16, 16, 1, 1))
    if mixed == "sum":
        y = y + ops.reduce_mean(y, np.array([0]), keepdims=1)
    elif mixed == "axis":
        y = ops.softmax(y, axis=0)
    else:
        mean = ops.reduce_mean(y, np.array([1, 2, 3]), keepdims=0)
        y = y * ops.reduce_sum(ops.sigmoid(mean), np.array([0]), keepdims=0)
    y = ops.relu(ops.conv(ops.relu(y), weights(rng, 16, 16, 1, 1)))
    network = Network(Graph({"y": y}))
    a = rng.standard_normal((COUNT, 16, 64, 64)).astype(np.float32)
    got = network.compile(threads=1).run({"x": a})["y"]
    (want,) = evaluate_graph(network.graph, {network.graph.inputs[0]: a})
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5 * np.abs(want).max())
