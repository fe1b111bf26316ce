"""Epilogues and elementwise loops: what is fused, what is not, and that values stay."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from pass_checks import assert_same, drawn, ops_of

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.scalar import size
from neuralsym.passes.elementwise import MOST_FUNCTIONS, fuse_elementwise
from neuralsym.passes.epilogue import fuse_epilogues
from neuralsym.passes.pipeline import optimise

HEAD = """
input x: float32[N, 3, H, W]
input z: float32[N, 4, H - 2, W - 2]
weight w: float32[4, 3, 3, 3]
weight b: float32[4]
weight k: float32[4, 1, 1]
constant half: float32[] = 0.5
constant six: float32[1] = [6.0]
"""


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("c = Conv(x, w, b)\ny = Relu(c)", "FusedConv(x, w, b; activation=max(x0, 0))"),
        (
            "c = Conv(x, w)\na = Add(z, c)\ny = Relu(a)",
            "FusedConv(x, w, _, z; activation=max(x0, 0))",
        ),
        ("c = Conv(x, w)\na = Add(c, z)\ny = Add(a, k)", 'FusedConv(x, w, "constant", z)'),
        ("c = Conv(x, w)\na = Add(c, k)\ny = Add(a, half)", 'FusedConv(x, w, "constant")'),
        ("c = Conv(x, w)\ny = Clip(c, half)", None),
        ("c = Conv(x, w; strides=(1, 1))\na = LeakyRelu(c; alpha=0.25)\ny = Tanh(a)", None),
        ("c = Conv(x, w)\na = Mul(c, half)\ny = Sub(six, a)", None),
        ("c = Conv(x, w)\ny = Add(c, c)", None),
        ("c = Conv(x, w)\nr = Relu(c)\ny = Add(r, c)", None),
    ],
)  # fmt: skip
def test_convolutions(body: str, line: str | None, rng: np.random.Generator) -> None:
    graph = drawn(f"{HEAD}{body}\noutput y", rng)
    made = fuse_epilogues(graph)
    assert ops_of(made) == ["FusedConv"]
    if line is not None:
        assert f"y: float32[N, 4, H - 2, W - 2] = {line}" in str(made)
    assert_same(graph, made, rng)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("c = Conv(x, w)\nr = Relu(c)\ny = Add(r, z)", ["FusedConv", "Add"]),
        ("c = Conv(x, w)\ny = Softmax(c)", ["Conv", "Softmax"]),
        ("c = Conv(x, w)\nr = Relu(c)\ny = Mul(r, z)", ["FusedConv", "Mul"]),
        ("c = Conv(x, w)\ny = Greater(c, half)", ["Conv", "Greater"]),
        ("c = Conv(x, w)\na = Add(c, z)\ny = Add(a, z)", ["FusedConv", "Add"]),
    ],
)
def test_what_does_not_fit_stays(body: str, left: list[str], rng: np.random.Generator) -> None:
    graph = drawn(f"{HEAD}{body}\noutput y", rng)
    made = fuse_epilogues(graph)
    assert ops_of(made) == left
    assert_same(graph, made, rng)


def test_a_value_that_is_an_output_stays(rng: np.random.Generator) -> None:
    graph = drawn(f"{HEAD}c = Conv(x, w)\ny = Relu(c)\noutput y\noutput c", rng)
    assert fuse_epilogues(graph) is graph


def test_one_of_two_convolutions_takes_the_other_as_residual(rng: np.random.Generator) -> None:
    graph = drawn(
        f"{HEAD}a = Conv(x, w)\nr = Relu(a)\ns = Conv(x, w, b)\n"
        "t = Add(r, s)\ny = Relu(t)\noutput y",
        rng,
    )
    made = fuse_epilogues(graph)
    assert ops_of(made) == ["FusedConv", "FusedConv"]
    assert_same(graph, made, rng)


PRODUCT = """
input a: float32[T, N, 5]
input m: float32[N, 5]
weight w: float32[5, 4]
weight b: float32[4]
weight rows: float32[1, 4]
constant half: float32[] = 0.5
"""


@pytest.mark.parametrize(
    "body",
    [
        "p = MatMul(a, w)\nq = Add(p, b)\ny = Gelu(q)",
        "p = MatMul(a, w)\ny = Mul(p, half)",
        "p = Gemm(m, w, rows; alpha=0.5, beta=2.0)\nq = Add(p, b)\ny = Relu(q)",
        "p = Gemm(w, m; transA=1, transB=1)\ny = Sigmoid(p)",
        "p = MatMul(m, w)\nq = Add(p, rows)\ny = Add(q, half)",
    ],
)
def test_products(body: str, rng: np.random.Generator) -> None:
    graph = drawn(f"{PRODUCT}{body}\noutput y", rng)
    made = fuse_epilogues(graph)
    assert ops_of(made) == ["FusedMatMul"]
    assert_same(graph, made, rng)


ATTENTION = """
input q: float32[N, 2, T, 4]
input k: float32[N, 2, T, 4]
input mask: float32[N, 1, 1, T]
input keys: float32[N, 1, T, 1]
input full: float32[N, 2, T, T]
input square: float32[T, T]
input wide: float64[N, 3, T]
constant scale: float32[] = 0.5
constant three: float32[] = 3.0
constant tiny: float32[] = 1e-30
constant third: float64[] = 0.1
s = MatMul(q, k)
"""


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("a = Mul(s, scale)\ny = Add(a, mask)", "FusedMatMul(q, t, mask; alpha=0.5)"),
        ("a = Div(s, three)\nb = Add(full, a)\ny = Relu(b)",
         "FusedMatMul(q, t, _, full; activation=max(x0, 0), alpha=0.3333333432674408)"),
        ("a = Add(s, square)\ny = Mul(a, scale)",
         "FusedMatMul(q, t, square; activation=mul(x0, 0.5))"),
        ("a = Mul(s, tiny)\nb = Mul(a, scale)\ny = Mul(b, three)", "activation="),
    ],
)  # fmt: skip
def test_factors_and_masks_of_scores(body: str, line: str, rng: np.random.Generator) -> None:
    text = ATTENTION.replace("MatMul(q, k)", "MatMul(q, t)")
    text = text.replace("s =", "t = Transpose(k; perm=(0, 1, 3, 2))\ns =")
    graph = drawn(f"{text}{body}\noutput y", rng)
    made = fuse_epilogues(graph)
    assert ops_of(made) == ["Transpose", "FusedMatMul"]
    assert line in str(made)
    if "tiny" not in body:
        assert_same(graph, made, rng)


@pytest.mark.parametrize("shape", ["N, 1, T, 1", "N, 4, 2, T, T"])
def test_summands_that_are_no_mask_stay(shape: str, rng: np.random.Generator) -> None:
    text = ATTENTION.replace("MatMul(q, k)", "MatMul(q, t)")
    text = text.replace(
        "s =", f"t = Transpose(k; perm=(0, 1, 3, 2))\ninput o: float32[{shape}]\ns ="
    )
    graph = drawn(f"{text}y = Add(s, o)\noutput y".replace("N, 4, 2", "4, N, 2"), rng)
    assert ops_of(fuse_epilogues(graph)) == ["Transpose", "MatMul", "Add"]


GROUPS = [
    ("s = Sigmoid(c)\ny = Mul(c, s)", 1),
    ("a = Add(c, half)\nd = Clip(a, half)\nm = Mul(c, d)\ny = Sub(m, c)", 1),
    ("g = Greater(c, half)\nm = Mul(c, half)\ny = Where(g, c, m)", 1),
    ("n = Neg(c)\nr = Relu(n)\np = Relu(c)\nm = Mul(r, half)\na = Add(p, m)\ny = Tanh(a)", 1),
    ("s = Sigmoid(c)\nm = Mul(c, s)\nt = Tanh(c)\ny = Concat(m, t; axis=1)", 5),
    ("s = Sigmoid(c)\nm = Mul(c, s)\ny = Mul(m, z)", 2),
    ("s = Softmax(c; axis=1)\ny = Mul(c, s)", 3),
]


@pytest.mark.parametrize(("body", "count"), GROUPS)
def test_groups_behind_a_value(body: str, count: int, rng: np.random.Generator) -> None:
    graph = drawn(f"{HEAD}c = Conv(x, w, b)\n{body}\noutput y", rng)
    made = fuse_epilogues(graph)
    assert len(ops_of(made)) == count
    assert_same(graph, made, rng)


def test_a_part_of_a_group_that_is_an_output_stays(rng: np.random.Generator) -> None:
    text = f"{HEAD}c = Conv(x, w, b)\ns = Sigmoid(c)\ny = Mul(c, s)\noutput y\noutput s"
    graph = drawn(text, rng)
    assert ops_of(fuse_epilogues(graph)) == ["Conv", "Sigmoid", "Mul"]


# -- elementwise -------------------------------------------------------------------------------
LOOP = """
input x: float32[N, 4]
input z: float32[N, 4]
input i: int32[N, 4]
input row: float32[4]
constant half: float32[] = 0.5
constant two: int32[] = 2
constant wide: float32[1, 1, 1] = [[[2.0]]]
"""


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = Add(x, z)\nb = Relu(a)\ny = Mul(b, half)", ["Calculate"]),
        ("a = Sigmoid(x)\nb = Mul(a, x)\nc = Tanh(b)\ny = Sub(c, b)", ["Calculate"]),
        ("a = Add(x, row)\ny = Exp(a)", ["Calculate"]),
        ("a = Exp(row)\ny = Add(x, a)", ["Exp", "Add"]),
        ("a = Greater(x, z)\nb = Cast(i; to=1)\ny = Where(a, b, z)", ["Calculate"]),
        ("a = Mul(i, two)\nb = Div(a, two)\nc = Cast(b; to=1)\ny = Add(c, x)", ["Calculate"]),
        ("a = Sin(x)\nb = Softmax(a)\ny = Cos(b)", ["Sin", "Softmax", "Cos"]),
        ("y = Mul(x, half)", ["Calculate"]),
        ("y = Mul(x, wide)", ["Mul"]),
        ("a = Sin(x)\ny = Mul(a, wide)", ["Sin", "Mul"]),
        ("y = Add(x, z)", ["Add"]),
        ("a = Clip(x, half)\nb = Max(a, z, half)\ny = Sum(b, x, z)", ["Calculate"]),
    ],
)
def test_loops(body: str, left: list[str], rng: np.random.Generator) -> None:
    graph = drawn(f"{LOOP}{body}\noutput y", rng)
    made = fuse_elementwise(graph)
    assert ops_of(made) == left
    assert_same(graph, made, rng)


def test_what_is_needed_outside_has_a_node_of_its_own(rng: np.random.Generator) -> None:
    graph = drawn(f"{LOOP}a = Sin(x)\nb = Cos(a)\nc = ReduceSum(a)\ny = Add(b, c)\noutput y", rng)
    made = fuse_elementwise(graph)
    assert sorted(ops_of(made)) == ["Calculate", "ReduceSum", "Sin"]
    assert_same(graph, made, rng)


def test_an_expression_stays_small() -> None:
    x = ops.variable("x", ("N",))
    y = x
    for i in range(1000):
        y = ops.sin(y + 1.0) if i % 3 else y * ops.sigmoid(y)
    graph = Graph(y)
    made = fuse_elementwise(graph)
    sizes = [size(n.attrs["expr"]) for n in made.find("Calculate")]
    assert max(sizes) <= MOST_FUNCTIONS
    assert len(sizes) < 2000 / (MOST_FUNCTIONS / 2)
    made.check()


def test_bodies_are_fused_too(rng: np.random.Generator) -> None:
    x, c = ops.variable("x", ("N", 4)), ops.variable("c", (), "bool")
    graph = Graph(ops.if_(c, lambda: ops.relu(x + 1.0), lambda: ops.sin(x) * 2.0))
    made = fuse_elementwise(graph)
    assert str(made).count("= Calculate(") == 2
    made.check()


def test_the_whole_pipeline_on_a_residual_net(rng: np.random.Generator) -> None:
    text = ["input x: float32[N, 4, H, W]", "weight k: float32[4, 4, 3, 3]"]
    for name in ("gamma", "beta", "mean", "var"):
        text.append(f"weight {name}: float32[4]")
    value = "x"
    for i in range(4):
        text += [
            f"c{i} = Conv({value}, k; pads=(1, 1, 1, 1))",
            f"n{i} = BatchNormalization(c{i}, gamma, beta, mean, var)",
            f"s{i} = Sigmoid(n{i})",
            f"m{i} = Mul(n{i}, s{i})",
            f"d{i} = Dropout(m{i})",
            f"e{i} = Conv(d{i}, k; pads=(1, 1, 1, 1))",
            f"f{i} = BatchNormalization(e{i}, gamma, beta, mean, var)",
            f"a{i} = Add(f{i}, {value})",
            f"r{i} = Relu(a{i})",
        ]
        value = f"r{i}"
    graph = drawn("\n".join([*text, f"output {value}"]), rng)
    made = optimise(graph)
    assert ops_of(made) == ["FusedConv"] * 8
    assert_same(graph, made, rng, scale=4)
    plain = optimise(graph, 1)
    assert set(ops_of(plain)) == {"Conv", "Swish", "Add", "Relu"}
    assert_same(graph, plain, rng, scale=4)
    assert optimise(graph, 0) is graph


def test_fused_graphs_pickle_into_another_process(rng: np.random.Generator) -> None:
    graph = optimise(drawn(f"{HEAD}c = Conv(x, w)\na = Tanh(c)\ny = Mul(a, z)\noutput y", rng))
    program = (
        "import pickle, sys; g = pickle.loads(sys.stdin.buffer.read());"
        "from neuralsym.core.scalar import apply, argument;"
        "e = g.find('FusedConv')[0].attrs['activation'];"
        "assert {e: 1}[apply('tanh', argument(0))] == 1; print(g)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(graph), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == str(graph)
