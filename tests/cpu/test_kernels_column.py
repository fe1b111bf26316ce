"""Products with one column, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_graph import compiled, computed, fed, kernels, run

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options


def close(found, a, b, more=0.0):
    wanted = a.astype(np.float64) @ b.astype(np.float64) + more
    unit = 2.0**-24 if found.dtype == np.float32 else 2.0**-53
    most = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) + np.abs(more)
    assert found.shape == wanted.shape
    assert (np.abs(found - wanted) <= unit * (12 + a.shape[-1] / 16) * most).all()


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 11),
    st.integers(1, 90),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from([(), (3,), (2, 1)]),
    st.booleans(),
    st.integers(1, 2),
)
def test_products(m, k, dtype, batch, flat, threads):
    rng = np.random.default_rng(m * 100 + k)
    a = rng.standard_normal((*batch, m, k)).astype(dtype)
    b = rng.standard_normal(k if flat else (k, 1)).astype(dtype)
    found = run(ops.matmul(fed("a", a), fed("b", b)), {"a": a, "b": b}, threads, "matmul column")
    close(found, a, b)


@pytest.mark.parametrize("isa", [None, "avx2", "sse2"])
def test_gemm_with_all_that_is_beside(isa):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((9, 70)).astype(np.float32)
    w = rng.standard_normal((1, 70)).astype(np.float32)
    x = fed("a", a)
    y = ops.relu(ops.gemm(x, w, np.array([0.5], np.float32), alpha=2.0, beta=3.0, transB=1))
    cell = compile_graph(Graph([y]), Options(threads=1, isa=isa))
    assert "matmul column" in kernels(cell)
    (found,) = computed(cell, {"a": a})
    wanted = np.maximum(2 * a.astype(np.float64) @ w[0] + 1.5, 0)[:, None]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


def test_threads_and_lengths_change_no_bit():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((13, 300)).astype(np.float32), rng.standard_normal((300, 1))
    b = b.astype(np.float32)
    x = fed("a", a, ("N", 300))
    one, three = (compiled(ops.matmul(x, fed("b", b)), n) for n in (1, 3))
    whole = computed(one, {"a": a, "b": b})[0]
    np.testing.assert_array_equal(whole, computed(three, {"a": a, "b": b})[0])
    np.testing.assert_array_equal(whole[2:7], computed(one, {"a": a[2:7], "b": b})[0])


def test_what_is_no_number_stays_in_its_row():
    a, b = np.ones((5, 20), np.float32), np.ones((20, 1), np.float32)
    a[2, 19] = np.nan
    found = run(ops.matmul(fed("a", a), fed("b", b)), {"a": a, "b": b})
    np.testing.assert_array_equal(np.isnan(found[:, 0]), [False, False, True, False, False])
