"""A chain of 50,000 operators is built, written, read, checked, printed, copied and run.

Nothing may recurse or take more than linear time; the bounds are several times what
an idle machine needs.
"""

from __future__ import annotations

import copy
import time
from pathlib import Path

import numpy as np
import pytest

from neuralsym import Graph, Network, load, ops

DEPTH = 50_000


@pytest.fixture(scope="module")
def chain() -> Graph:
    x = ops.variable("x", ("N",))
    y = x
    for i in range(DEPTH // 2):
        y = ops.neg(ops.sin(y)) if i % 2 else ops.neg(y + 0.5)
    return Graph({"y": y}, name="chain")


@pytest.mark.slow
def test_build_export_import_and_check(tmp_path: Path) -> None:
    began = time.perf_counter()
    x = ops.variable("x", ("N",))
    y = x
    for _ in range(DEPTH // 2):
        y = ops.neg(ops.sin(y))
    graph = Graph({"y": y}, name="chain")
    Network(graph).save(tmp_path / "chain.onnx")
    read = load(tmp_path / "chain.onnx").graph
    read.check()
    assert len(read) == len(graph) == DEPTH + 1
    assert time.perf_counter() - began < 30


@pytest.mark.slow
def test_print_and_copy(chain: Graph) -> None:
    assert len(str(chain).splitlines()) > DEPTH
    assert len(copy.deepcopy(chain)) == len(chain)


@pytest.mark.slow
def test_first_run(chain: Graph, tmp_path: Path) -> None:
    network = Network(chain)
    began = time.perf_counter()
    network.compile(cache_dir=str(tmp_path), threads=1)
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    result = network(x)
    assert time.perf_counter() - began < 60
    expected = x.astype(np.float64)
    for i in range(DEPTH // 2):
        expected = -np.sin(expected) if i % 2 else -(expected + 0.5)
    # No step enlarges an error, so 50,000 roundings of 6e-8 add up to 3e-3 at most.
    np.testing.assert_allclose(result, expected, rtol=0, atol=DEPTH * 6e-8)
