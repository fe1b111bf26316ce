"""The zoo's networks stay in blocks of channels from the stem to the global pool."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_cases import run_cell

from neuralsym import zoo
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options
from neuralsym.engines import onnx

SIZES = {"resnet18": 64, "squeezenet1_0": 64, "squeezenet1_1": 64}
LARGE = {"inception_v3": 139, "resnet50": 64, "resnet50_v1": 64, "inception_v3_keras": 139}


def compiled(name, size, threads=1):
    graph = zoo.create(name, size=size, classes=20).graph
    return graph, compile_graph(graph, Options(threads=threads))


def check(name, size):
    graph, cell = compiled(name, size)
    steps = cell.program.steps
    kinds = [s.op.__name__ for s in steps]
    first = kinds.index("FusedConv")
    assert "Reorder" not in kinds[first:]
    assert not {"BatchNormalization", "Relu", "Add", "Calculate"} & set(kinds[first:])
    for step in steps:
        if step.op.__name__ == "Concat":
            assert all(part.view is not None for part in step.inputs)
    session = onnxruntime().InferenceSession(
        onnx.of_symbolic(graph).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    known = len(cell.codes())
    for batch in (1, 3):
        x = np.random.default_rng(0).standard_normal((batch, 3, size, size)).astype(np.float32)
        feed = {graph.input_names[0]: x}
        (got,), (expected,) = run_cell(cell, feed), session.run(None, feed)
        assert abs(got - expected).max() <= 1e-4 * abs(expected).max()
    assert len(cell.codes()) == known


def onnxruntime():
    return pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("name", SIZES)
def test_blocked_throughout(name):
    check(name, SIZES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_blocked_throughout_in_larger_ones(name):
    check(name, LARGE[name])


def test_two_workers_give_the_same():
    graph, cell = compiled("squeezenet1_1", 64)
    _, both = compiled("squeezenet1_1", 64, threads=2)
    x = np.random.default_rng(0).standard_normal((2, 3, 64, 64)).astype(np.float32)
    feed = {graph.input_names[0]: x}
    assert np.array_equal(run_cell(cell, feed)[0], run_cell(both, feed)[0])
