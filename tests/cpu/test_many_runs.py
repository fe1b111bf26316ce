"""A thousand runs with batches of 1 to 64: memory does not grow, and nothing is compiled after the
first."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from neuralsym import Graph, Network, ops
from neuralsym.cpu import loader
from neuralsym.layers import conv2d, fully_connected, get_network, global_avg_pool2d, input, relu

RUNS, SETTLED = 1000, 100
ROOM = 4 << 20
"""What may be added after the first runs, in bytes: less than a copy of the weights, or of the
memory of a run of any of these networks, would take a hundred times."""


def mlp() -> Network:
    x = input(("N", 784))
    hidden = x | fully_connected(256) | relu | fully_connected(128) | relu
    return hidden | fully_connected(10) | get_network("mlp")


def pictures() -> Network:
    x = input(("N", 3, 32, 32))
    for units in (16, 32, 64):
        x = x | conv2d(units, 3, padding="same") | relu
    return x | global_avg_pool2d | fully_connected(10) | get_network("pictures")


def sequences() -> Network:
    rng = np.random.default_rng(0)
    x = ops.variable("x", (12, "N", 24))
    shapes = ((1, 4 * 32, 24), (1, 4 * 32, 32), (1, 8 * 32))
    weights = [rng.normal(0, 0.2, s).astype(np.float32) for s in shapes]
    y = ops.lstm(x, *weights, hidden_size=32, outputs=2)
    return Network(Graph({"y": y[0], "last": y[1]}, name="sequences"))


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system tells no sizes")
@pytest.mark.parametrize("make", [mlp, pictures, sequences])
@pytest.mark.parametrize("threads", [1, 2])
def test_any_batch_leaves_nothing_behind(make: Callable[[], Network], threads: int) -> None:
    network = make().compile(threads=threads)
    rng = np.random.default_rng(1)
    shape = tuple(network.inputs[0].shape or ())
    batches = [64, *rng.integers(1, 65, RUNS - 1)]
    whole = rng.standard_normal([d if isinstance(d, int) else 64 for d in shape]).astype(np.float32)
    axis = next(i for i, d in enumerate(shape) if not isinstance(d, int))
    network.run(np.ascontiguousarray(whole.take([0], axis)))
    known = len(loader._addresses)
    expected = network.run(whole)
    sizes = []
    for batch in batches:
        part = np.ascontiguousarray(whole.take(range(batch), axis))
        found = network.run(part)
        for name, value in found.items():
            place = [d for d, n in enumerate(value.shape) if n != expected[name].shape[d]]
            wanted = expected[name].take(range(batch), place[0]) if place else expected[name]
            np.testing.assert_allclose(value, wanted, rtol=0, atol=1e-5)
        del found, part
        gc.collect(0)
        sizes.append(resident())
    assert len(loader._addresses) == known, "compiled after the first run"
    assert max(sizes[SETTLED:]) - max(sizes[:SETTLED]) <= ROOM, [s >> 20 for s in sizes[::50]]
