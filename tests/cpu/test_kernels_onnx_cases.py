"""The cases that the onnx package has for the operators that these kernels run."""

from __future__ import annotations

import re
import warnings
from functools import cache

import numpy as np
import pytest
from kernel_cases import run_cell

from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options
from neuralsym.engines.onnx import to_symbolic

FAMILIES = re.compile(
    r"test_(basic_conv|conv_|convtranspose|maxpool|averagepool|lppool|globalaveragepool"
    r"|globalmaxpool|globallppool|gemm|matmul_|softmax|logsoftmax|concat|batchnorm)"
)
ON_HOST = re.compile("batchnorm_.*training|_expanded")


@cache
def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx divides by zero to make its cases
        from onnx.backend.test.loader import load_model_tests

        found = load_model_tests(kind="node")
    return {c.name: c for c in found if FAMILIES.match(c.name)}


def pytest_generate_tests(metafunc):
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", sorted(cases()))


@pytest.mark.slow
def test_case(name):
    case = cases()[name]
    graph = to_symbolic(case.model)
    cell = compile_graph(getattr(graph, "graph", graph), Options(threads=1))
    refusals = [s.refusals for s in cell.program.steps if s.kernel.name == "host"]
    assert ON_HOST.search(name) or not refusals
    for inputs, outputs in case.data_sets:
        names = [i.name for i in case.model.graph.input]
        got = run_cell(cell, dict(zip(names, inputs, strict=True)))
        for ours, theirs in zip(got, outputs, strict=True):
            assert ours.dtype == theirs.dtype
            assert ours.shape == theirs.shape
            wide = [a.astype(np.float64) for a in (ours, theirs)]
            np.testing.assert_allclose(*wide, rtol=case.rtol, atol=case.atol)


@pytest.mark.smoke
def test_there_are_cases():
    assert len(cases()) > 100
