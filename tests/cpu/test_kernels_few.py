"""Products by a constant matrix of few columns, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_graph import compiled, computed, fed, kernels

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.machine import Target
from neuralsym.cpu.options import Options
from neuralsym.cpu.templates.few_columns import most_columns

NAME = "matmul few columns"
WIDTH = Target.of().width("float")
COUNTS = [
    (dtype, n)
    for dtype in ("float32", "float64")
    for n in range(2, most_columns(Target.of().width(dtype)) + 1)
]
"""Types and numbers of columns that the kernel takes here; short vectors hold few of float64."""


def close(found, a, b, more=0.0):
    wide = a.astype(np.longdouble)
    wanted = wide @ b.astype(np.longdouble) + more
    unit = 2.0**-24 if found.dtype == np.float32 else 2.0**-53
    most = np.abs(wide) @ np.abs(b).astype(np.longdouble) + np.abs(more)
    assert found.shape == wanted.shape
    assert (np.abs(found - wanted) <= unit * (12 + a.shape[-1] / WIDTH) * most).all()


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 5),
    st.integers(2 * WIDTH, 6 * WIDTH),
    st.sampled_from(COUNTS),
    st.sampled_from([(), (3,), (2, 1)]),
    st.integers(1, 2),
)
def test_products(m, k, columns, batch, threads):
    dtype, n = columns
    rng = np.random.default_rng(m * 100 + k)
    a = rng.standard_normal((*batch, m, k)).astype(dtype)
    b = rng.standard_normal((k, n)).astype(dtype)
    cell = compile_graph(Graph([ops.matmul(fed("a", a), b)]), Options(threads=threads))
    assert NAME in kernels(cell)
    (found,) = computed(cell, {"a": a})
    close(found, a, b)


@pytest.mark.parametrize("isa", [None, "avx2", "sse2"])
@pytest.mark.parametrize("trans", [0, 1])
def test_gemm_with_all_that_is_beside(isa, trans):
    rng = np.random.default_rng(trans)
    n = most_columns(Target.of(isa).width("float"))
    a = rng.standard_normal((3, 70)).astype(np.float32)
    w = rng.standard_normal((n, 70) if trans else (70, n)).astype(np.float32)
    bias = rng.standard_normal(n).astype(np.float32)
    y = ops.gemm(fed("a", a), w, bias, alpha=2.0, beta=3.0, transB=trans)
    cell = compile_graph(Graph([ops.relu(y)]), Options(threads=1, isa=isa))
    assert NAME in kernels(cell)
    (found,) = computed(cell, {"a": a})
    wanted = np.maximum(2 * a.astype(np.float64) @ (w.T if trans else w) + 3 * bias, 0)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=5e-5)


def test_a_row_is_the_same_in_every_batch_and_on_every_thread():
    rng = np.random.default_rng(2)
    a = rng.standard_normal((7, 300)).astype(np.float32)
    b = rng.standard_normal((300, min(5, most_columns(WIDTH)))).astype(np.float32)
    y = ops.matmul(fed("a", a, ("N", 300)), b)
    cells = [compiled([y], threads=count) for count in (1, 2)]
    (whole,) = computed(cells[0], {"a": a})
    for cell in cells:
        for i in range(len(a)):
            (row,) = computed(cell, {"a": a[i : i + 1]})
            np.testing.assert_array_equal(row, whole[i : i + 1])


def test_what_is_not_finite_goes_through():
    a = np.zeros((1, 70), np.float32)
    a[0, 69] = np.inf
    b = np.ones((70, 3), np.float32)
    b[69, 1], b[69, 2] = -1, 0
    cell = compile_graph(Graph([ops.matmul(fed("a", a), b)]), Options(threads=1))
    (found,) = computed(cell, {"a": a})
    np.testing.assert_array_equal(found, [[np.inf, -np.inf, np.nan]])


@pytest.mark.parametrize(("k", "n"), [(WIDTH // 2, 3), (300 * WIDTH, 3), (64, WIDTH)])
def test_other_sizes_are_left_to_tiles(k, n):
    a = np.ones((1, k), np.float32)
    cell = compile_graph(Graph([ops.matmul(fed("a", a), np.ones((k, n), np.float32))]))
    assert NAME not in kernels(cell)
