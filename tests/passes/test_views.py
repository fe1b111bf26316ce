"""Reshapes behind elementwise operators: which move, and that the values stay."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same, drawn, ops_of

from neuralsym.core.graph import Graph
from neuralsym.passes.pipeline import optimise

HEAD = """
input x: float32[N, 5, 4]
input z: float32[N, 5, 6]
input line: float32[N, 4, T]
weight w: float32[4, 6]
weight b: float32[6]
weight rows: float32[5, 6]
weight k: float32[6, 4, 1, 3]
weight kb: float32[1, 6, 1]
weight gamma_k: float32[6, 1]
constant flat: int64[2] = [-1, 4]
constant flat6: int64[2] = [-1, 6]
constant deep: int64[3] = [-1, 5, 6]
constant heads: int64[4] = [0, 0, 2, 3]
constant two: int64[1] = [2]
constant half: float32[] = 0.5
"""
LINEAR = "f = Reshape(x, flat)\ng = Gemm(f, w, b)\nv = Reshape(g, deep)\n"
LINE = "u = Unsqueeze(line, two)\nc = Conv(u, k)\nv = Squeeze(c, two)\n"


def case(body: str, rng: np.random.Generator) -> Graph:
    return drawn(f"{HEAD}{body}\noutput y", rng)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (LINEAR + "y = Relu(v)", ["Reshape", "FusedMatMul", "Reshape"]),
        (LINEAR + "a = Gelu(v)\nr = Reshape(a, flat6)\ny = MatMul(r, t)",
         ["Reshape", "FusedMatMul", "MatMul"]),
        (LINEAR + "a = Add(v, b)\nd = Mul(a, half)\ny = Tanh(d)",
         ["Reshape", "FusedMatMul", "Reshape"]),
        (LINEAR + "a = Sub(half, v)\ny = Clip(a, half)", ["Reshape", "FusedMatMul", "Reshape"]),
        (LINEAR + "y = Add(v, rows)", ["Reshape", "Gemm", "Reshape", "Add"]),
        (LINEAR + "y = Add(v, z)", ["Reshape", "Gemm", "Reshape", "Add"]),
        ("p = MatMul(x, w)\nv = Reshape(p, heads)\nq = Mul(v, half)\n"
         "y = Transpose(q; perm=(0, 2, 1, 3))", ["FusedMatMul", "Reshape", "Transpose"]),
        (LINE + "a = Add(v, kb)\ny = Relu(a)", ["Unsqueeze", "FusedConv", "Squeeze"]),
        (LINE + "a = Div(v, gamma_k)\nd = Relu(a)\ne = Unsqueeze(d, two)\ny = Conv(e, k2)",
         ["Unsqueeze", "FusedConv", "Conv"]),
        ("v = Reshape(x, flat)\ny = Relu(v)", ["Reshape", "Relu"]),
        ("p = MatMul(x, w)\ny = Sub(p, b)", ["FusedMatMul"]),
    ],
)  # fmt: skip
def test_views(body: str, left: list[str], rng: np.random.Generator) -> None:
    head = f"{HEAD}weight t: float32[6, 3]\nweight k2: float32[2, 6, 1, 2]\n"
    graph = drawn(f"{head}{body}\noutput y", rng)
    made = optimise(graph, 2, check=True)
    assert ops_of(made) == left
    assert_same(graph, made, rng)


def test_a_reshape_that_is_needed_itself_stays(rng: np.random.Generator) -> None:
    graph = drawn(f"{HEAD}{LINEAR}y = Relu(v)\noutput y\noutput v", rng)
    assert ops_of(optimise(graph)) == ["Reshape", "Gemm", "Reshape", "Relu"]


def test_empty_batches(rng: np.random.Generator) -> None:
    from pass_checks import run

    graph = case(LINEAR + "y = Relu(v)", rng)
    made = optimise(graph)
    values = {
        "x": np.zeros((0, 5, 4), np.float32),
        "z": np.zeros((0, 5, 6), np.float32),
        "line": np.zeros((0, 4, 5), np.float32),
    }
    assert run(made, values)[0].shape == run(graph, values)[0].shape == (0, 5, 6)
