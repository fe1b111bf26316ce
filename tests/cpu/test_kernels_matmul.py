"""Matrix products through the compiler against float64, with batches, biases and epilogues."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import SETS, cell_of, close, leaves, run_cell, run_op

from neuralsym import ops
from neuralsym.core import scalar as s
from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.core.scalar import argument
from neuralsym.passes.fused import FusedMatMul

X = argument(0)


def exact_product(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return a @ b, abs(a) @ abs(b)


@st.composite
def shapes(draw):
    sizes = st.sampled_from([1, 2, 3, 7, 16, 17, 33, 64, 70])
    m, n, k = draw(sizes), draw(sizes), draw(sizes)
    axes = draw(st.integers(0, 3))
    batch = [draw(st.integers(1, 3)) for _ in range(axes)]
    a = [d if draw(st.booleans()) else 1 for d in batch]
    b = [d if draw(st.booleans()) else 1 for d in batch]
    a, b = a[draw(st.integers(0, axes)) :], b[draw(st.integers(0, axes)) :]
    a, b = (*a, m, k), (*b, k, n)
    if len(a) == 2 and draw(st.integers(0, 3)) == 0:
        a = a[1:]
    elif len(b) == 2 and draw(st.integers(0, 3)) == 0:
        b = b[:1]
    return a, b


@settings(max_examples=60, deadline=None)
@given(
    shapes(),
    st.sampled_from(["float32", "float32", "float64"]),
    st.sampled_from([(), (1,), (0,)]),
    st.booleans(),
    st.sampled_from([1, 2]),
    st.sampled_from(SETS),
)
def test_matmul(pair, dtype, stored, free, threads, isa):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in pair)
    names = {0: (0,)} if free and a.ndim > 1 and 0 not in stored else {}
    (got,) = run_op(
        find_op("MatMul"),
        [a, b],
        stored=stored,
        free=names,
        threads=threads,
        kernel=("matmul", "matmul column"),
        isa=isa,
    )
    exact, size = exact_product(a, b)
    close(got, exact, size, np.dtype(dtype), terms=a.shape[-1])


@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_known_rows_of_uneven_tiles(dtype, isa):
    rng = np.random.default_rng(0)
    for m in (13, 21, 27, 45):
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, 5), (5, 25)))
        (got,) = run_op(find_op("MatMul"), [a, b], kernel="matmul", isa=isa)
        exact, size = exact_product(a, b)
        close(got, exact, size, np.dtype(dtype), terms=5)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_gemm(data):
    sizes = st.sampled_from([1, 5, 16, 35])
    m, n, k = data.draw(sizes), data.draw(sizes), data.draw(sizes)
    rng = np.random.default_rng(0)
    attrs = {
        "transA": data.draw(st.integers(0, 1)),
        "transB": data.draw(st.integers(0, 1)),
        "alpha": data.draw(st.sampled_from([1.0, 0.5])),
        "beta": data.draw(st.sampled_from([1.0, -2.0, 0.0])),
    }
    a = rng.standard_normal((k, m) if attrs["transA"] else (m, k)).astype(np.float32)
    b = rng.standard_normal((n, k) if attrs["transB"] else (k, n)).astype(np.float32)
    shape = data.draw(st.sampled_from([None, (n,), (1, n), (m, 1), (m, n), (1,), ()]))
    c = None if shape is None else rng.standard_normal(shape).astype(np.float32)
    stored = data.draw(st.sampled_from([(), (1,), (1, 2), (2,)]))
    names = ("matmul", "matmul column")
    (got,) = run_op(find_op("Gemm"), [a, b, c], attrs, stored=stored, kernel=names)
    exact, size = exact_product(a.T if attrs["transA"] else a, b.T if attrs["transB"] else b)
    exact, size = attrs["alpha"] * exact, attrs["alpha"] * size
    if c is not None:
        exact, size = exact + attrs["beta"] * c.astype(np.float64), size + 2 * abs(c)
    close(got, exact, size, terms=k)


@pytest.mark.parametrize("stored", [(), (1, 2), (1, 2, 3)])
@pytest.mark.parametrize("bias", [(33,), (5, 1), (2, 1, 33), None])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("isa", [None, SETS[-1]])
def test_bias_residual_and_activation(stored, bias, dtype, isa):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(n).astype(dtype) for n in ((2, 5, 40), (40, 33)))
    c = None if bias is None else rng.standard_normal(bias).astype(dtype)
    z = rng.standard_normal((2, 5, 33)).astype(dtype)
    attrs = {"alpha": 0.5, "beta": 2.0, "activation": s.maximum(X, 0)}
    how = {"stored": stored, "kernel": "matmul", "isa": isa}
    (got,) = run_op(FusedMatMul, [a, b, c, z], attrs, **how)
    exact, size = exact_product(a, b)
    exact, size = 0.5 * exact + z, 0.5 * size + abs(z)
    if c is not None:
        exact, size = exact + 2 * c.astype(np.float64), size + 2 * abs(c)
    close(got, np.maximum(exact, 0), size, np.dtype(dtype), terms=40)


@pytest.mark.parametrize("activation", [s.sigmoid(X), X * s.sigmoid(X), s.where(X < 0, 0.1 * X, X)])
def test_activations(activation):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(n).astype(np.float32) for n in ((7, 9), (9, 20)))
    (got,) = run_op(FusedMatMul, [a, b], {"activation": activation}, stored=(1,))
    v = a.astype(np.float64) @ b
    gate = 1 / (1 + np.exp(-v))
    exact = {"sigmoid": gate, "mul": v * gate, "where": np.where(v < 0, 0.1 * v, v)}
    np.testing.assert_allclose(got, exact[activation.function], atol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_integers(dtype):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 9, (2, 1, 4, 6)).astype(dtype)
    b = rng.integers(0, 9, (3, 6, 5)).astype(dtype)
    (got,) = run_op(find_op("MatMul"), [a, b], kernel="matmul loop")
    assert got.dtype == dtype and np.array_equal(got, a @ b)


def test_another_batch_needs_no_new_code():
    rng = np.random.default_rng(0)
    w = rng.standard_normal((64, 40)).astype(np.float32)
    b = rng.standard_normal(40).astype(np.float32)
    made, _ = leaves([np.zeros((1, 64), np.float32), w, b], stored=(1, 2), free={0: (0,)})
    cell = cell_of(apply(find_op("Gemm"), made), made[:1])
    before = len(cell.codes())
    for batch in (1, 4, 50):
        x = rng.standard_normal((batch, 64)).astype(np.float32)
        (got,) = run_cell(cell, {"x0": x})
        exact, size = exact_product(x, w)
        close(got, exact + b, size + abs(b), terms=64)
    assert len(cell.codes()) == before


def test_global_pool_flatten_gemm_copies_nothing():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 16, 6, 6)).astype(np.float32)
    w = rng.standard_normal((32, 16, 3, 3)).astype(np.float32)
    dense = rng.standard_normal((32, 20)).astype(np.float32)
    made, fed = leaves([x], free={0: (0,)})
    y = ops.gemm(ops.flatten(ops.global_average_pool(ops.conv(made[0], w))), dense)
    cell = cell_of([y], made)
    names = [step.kernel.name for step in cell.program.steps]
    assert names == ["reorder", "conv", "global pool", "view", "matmul"]
    (got,) = run_cell(cell, fed)
    assert got.shape == (2, 20)


def test_nothing_to_sum_is_the_bias():
    a, b = np.zeros((3, 0), np.float32), np.zeros((0, 4), np.float32)
    c = np.arange(4, dtype=np.float32)
    (got,) = run_op(find_op("Gemm"), [a, b, c], stored=(1, 2))
    assert np.array_equal(got, np.tile(c, (3, 1)))
