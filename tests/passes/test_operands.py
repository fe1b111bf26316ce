"""Transposes in front of products: which are folded, which are not, and that values stay."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same, drawn, feeds, ops_of, run

from neuralsym import Network
from neuralsym.passes.epilogue import fuse_epilogues
from neuralsym.passes.operands import fold_operands
from neuralsym.passes.pipeline import optimise

HEAD = """
input a: float32[N, 3, T, 4]
input b: float32[N, 3, H, 4]
input c: float32[N, 3, 4, T]
input m: float32[T, 4]
input i: int32[H, 4]
input v: float32[4]
weight w: float32[4, 4]
weight row: float32[4]
input d: float64[T, 4]
input h: float16[T, 4]
constant half: float32[] = 0.5
constant tenth: float64[] = 0.1
constant half64: float64[] = 0.5
constant half16: float16[] = 0.5
constant huge: float32[] = 1e30
"""


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("t = Transpose(b; perm=(0, 1, 3, 2))\ny = MatMul(a, t)", "trans_b=1"),
        ("t = Transpose(c; perm=(0, 1, 3, 2))\ny = MatMul(t, w)", "trans_a=1"),
        ("t = Transpose(m)\ny = MatMul(t, m)", "trans_a=1"),
        (
            "s = Transpose(c; perm=(0, 1, 3, 2))\nt = Transpose(b; perm=(0, 1, 3, 2))\n"
            "y = MatMul(s, t)",
            "trans_a=1, trans_b=1",
        ),
    ],
)
def test_swaps_of_the_last_two_axes_are_folded(
    body: str, left: str, rng: np.random.Generator
) -> None:
    graph = drawn(f"{HEAD}{body}\noutput y", rng)
    made = fold_operands(graph)
    assert ops_of(made) == ["FusedMatMul"]
    assert left in str(made)
    assert_same(graph, made, rng)


@pytest.mark.parametrize(
    "body",
    [
        "t = Transpose(b; perm=(0, 3, 2, 1))\nk = Transpose(a; perm=(0, 2, 1, 3))\n"
        "y = MatMul(k, t)",  # other axes move too
        "t = Transpose(i)\ny = MatMul(i, t)",  # integers have loops of their own
        "t = Transpose(m)\ny = MatMul(v, t)",  # a row by itself
        "y = MatMul(a, w)",
    ],
)
def test_others_stay(body: str, rng: np.random.Generator) -> None:
    graph = drawn(f"{HEAD}{body}\noutput y", rng)
    assert fold_operands(graph) is graph


def test_a_product_with_its_epilogue_takes_them_too(rng: np.random.Generator) -> None:
    body = "t = Transpose(b; perm=(0, 1, 3, 2))\np = MatMul(a, t)\ny = Relu(p)"
    graph = drawn(f"{HEAD}{body}\noutput y", rng)
    made = fold_operands(fuse_epilogues(graph))
    assert ops_of(made) == ["FusedMatMul"]
    assert "trans_b=1" in str(made) and "max(x0, 0)" in str(made)
    assert_same(graph, made, rng)


def test_a_transpose_that_is_needed_itself_is_kept(rng: np.random.Generator) -> None:
    body = "t = Transpose(b; perm=(0, 1, 3, 2))\ny = MatMul(a, t)"
    graph = drawn(f"{HEAD}{body}\noutput y\noutput t", rng)
    made = fold_operands(graph)
    assert sorted(ops_of(made)) == ["FusedMatMul", "Transpose"]
    assert_same(graph, made, rng)


@pytest.mark.parametrize(
    ("body", "parts", "left"),
    [
        ("q = Mul(a, half)\nt = Transpose(b; perm=(0, 1, 3, 2))\nk = Mul(t, half)\n"
         "y = MatMul(q, k)", ("alpha=0.25", "trans_b=1"), ["FusedMatMul"]),
        ("q = Mul(a, half)\np = Transpose(q; perm=(0, 2, 1, 3))\n"
         "k = Transpose(a; perm=(0, 2, 3, 1))\ny = MatMul(p, k)",
         ("alpha=0.5", "trans_b=1", "perm=(0, 2, 1, 3)"),
         ["Transpose", "Transpose", "FusedMatMul"]),
        ("t = Transpose(m)\ny = Gemm(t, m; alpha=2.0)", ("alpha=2", "trans_a=1"), ["FusedMatMul"]),
        ("p = Mul(m, half)\ny = Gemm(p, w, row; alpha=2.0, beta=0.5)",
         ("alpha=1", "beta=0.5"), ["FusedMatMul"]),
        ("p = Div(m, half)\ny = MatMul(p, w)", ("alpha=2.0",), ["FusedMatMul"]),
        ("p = Mul(d, half64)\nt = Transpose(p)\ny = MatMul(p, t)", ("alpha=0.5",), None),
    ],
)  # fmt: skip
def test_factors_in_front(
    body: str, parts: tuple[str, ...], left: list[str] | None, rng: np.random.Generator
) -> None:
    graph = drawn(f"{HEAD}{body}\noutput y", rng)
    made = fold_operands(graph)
    if left is None:
        assert ops_of(made) == ["Mul", "FusedMatMul"]  # its factor is used twice
    else:
        assert sorted(ops_of(made)) == sorted(left)
        assert all(part in str(made) for part in parts)
    assert_same(graph, made, rng)


@pytest.mark.parametrize(
    "body",
    [
        "p = Mul(d, tenth)\ny = MatMul(p, e)",  # float64 would notice a factor of float32
        "p = Mul(h, half16)\ny = MatMul(p, g)",  # halves are rounded where they were
        "p = Mul(m, huge)\ny = MatMul(p, w)",  # might overflow in another place
        "p = Mul(m, row)\ny = MatMul(p, w)",  # one factor a column
    ],
)
def test_factors_that_stay(body: str, rng: np.random.Generator) -> None:
    text = f"{HEAD}input e: float64[4, T]\ninput g: float16[4, T]\n{body}\noutput y"
    graph = drawn(text, rng)
    assert fold_operands(graph) is graph


def test_a_factor_that_is_needed_itself_is_kept(rng: np.random.Generator) -> None:
    graph = drawn(f"{HEAD}p = Mul(m, half)\ny = MatMul(p, w)\noutput y\noutput p", rng)
    assert fold_operands(graph) is graph


@pytest.mark.parametrize("scaled_before", [True, False])
def test_attention_on_the_engine(scaled_before: bool, rng: np.random.Generator) -> None:
    """Scores of transposed keys, scaled and masked: no step is left but the products."""
    text = (
        "input a: float32[N, T, 2, 4]\ninput b: float32[N, H, 2, 4]\ninput m: float32[N, 1, 1, H]\n"
        "constant half: float32[] = 0.5\nconstant two: float32[] = 2.0\n"
        "q = Transpose(a; perm=(0, 2, 1, 3))\nk = Transpose(b; perm=(0, 2, 3, 1))\n"
    )
    if scaled_before:
        text += "r = Mul(q, half)\nl = Mul(k, half)\ns = MatMul(r, l)\nt = Add(s, m)\n"
    else:
        text += "r = MatMul(q, k)\ns = Div(r, two)\nt = Add(s, m)\n"
    graph = drawn(text + "y = Softmax(t; axis=-1)\noutput y", rng)
    assert ops_of(optimise(graph)) == ["Transpose", "Transpose", "FusedMatMul", "Softmax"]
    network = Network(graph)
    values = feeds(graph, rng)
    got = network.run(values)["y"]
    # Scores of four products of numbers of about 1, then a softmax that lies between 0 and 1.
    np.testing.assert_allclose(got, run(graph, values)[0], rtol=0, atol=4e-6)
    explained = network.explain()
    assert "by host" not in explained
    assert explained.startswith("passes: ") and "operands" in explained.splitlines()[0]
