"""Transposes in front of products: which are folded, which are not, and that values stay."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same, drawn, ops_of

from neuralsym.passes.epilogue import fuse_epilogues
from neuralsym.passes.operands import fold_operands

HEAD = """
input a: float32[N, 3, T, 4]
input b: float32[N, 3, H, 4]
input c: float32[N, 3, 4, T]
input m: float32[T, 4]
input i: int32[H, 4]
input v: float32[4]
weight w: float32[4, 4]
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
