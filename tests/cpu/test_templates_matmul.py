"""Matrix multiplication kernels against float64 products, over sizes, storage, batches, widths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_text import MACHINES, call

from neuralsym.cpu.templates.epilogue import Activation, relu
from neuralsym.cpu.templates.matmul import best_heights, matmul_text
from neuralsym.cpu.templates.matmul_plan import (
    Matrix,
    batch_loops,
    matmul_words,
    pack_b,
    pack_row,
    panel_bytes,
    plan_matmul,
    scratch_bytes,
)


def plus_one(element):
    def emit(f, value, width):
        ones = "<" + ", ".join([f"{element} 1.0"] * width) + ">"
        return f.value(f"fadd <{width} x {element}> {value}, {ones}")

    return Activation("plus", emit, costly=True)


def check(
    m,
    n,
    k,
    machine=(16, 32),
    element="float",
    a="rows",
    b="packed",
    bias=False,
    residual=False,
    alpha=1.0,
    beta=1.0,
    activation="none",
    batch=(1, 1),
    shared_b=True,
    workers=1,
    known_m=False,
    seed=0,
):
    width, registers = machine
    dtype = np.float32 if element == "float" else np.float64
    width = width if element == "float" else width // 2
    rng = np.random.default_rng(seed)
    size = np.dtype(dtype).itemsize

    def draw(*shape):
        return rng.standard_normal(shape).astype(dtype)

    apply = {"relu": relu(element), "plus": plus_one(element), "none": None}[activation]
    text = plan_matmul(
        n,
        width=width,
        registers=registers,
        m=m if known_m else None,
        a=a,
        b=b,
        element=element,
        scaled=(alpha, beta) != (1.0, 1.0),
        bias=bias,
        residual=residual,
        activation=apply,
    )
    left = draw(*batch, m, k)
    right = draw(k, n) if shared_b else draw(*batch, k, n)
    row, rest = draw(n), draw(*batch, m, n)
    stored_a = np.ascontiguousarray(left if a == "rows" else left.swapaxes(-1, -2))
    stored_b = np.ascontiguousarray(right if b != "columns" else right.swapaxes(-1, -2))
    b_stride = stored_b.strides[-2]
    if b == "packed":
        stored_b = pack_b(right, text)
        b_stride = panel_bytes(k, text)
    b_steps = (0, 0) if shared_b else (stored_b.strides[0], stored_b.strides[1])
    # A result with room behind each row, which must stay as it is.
    wide = np.full((*batch, m, n + 3), 7, dtype)
    packed_row = pack_row(row, n, text)
    scratch = np.zeros(max(1, workers * scratch_bytes(text)), np.uint8)
    words = matmul_words(
        text,
        (m, n, k),
        Matrix(stored_a.ctypes.data, stored_a.strides[-2], *stored_a.strides[:2]),
        Matrix(stored_b.ctypes.data, b_stride, *b_steps),
        Matrix(wide.ctypes.data, (n + 3) * size, *wide.strides[:2]),
        bias=packed_row.ctypes.data,
        residual=Matrix(rest.ctypes.data, n * size, *rest.strides[:2]) if residual else None,
        batch=batch,
        scratch=scratch.ctypes.data,
        alpha=alpha,
        beta=beta,
    )
    call(matmul_text(text), words, workers, machine[0])
    exact = np.float64
    want = alpha * (left.astype(exact) @ right.astype(exact))
    magnitude = abs(alpha) * (abs(left).astype(exact) @ abs(right).astype(exact))
    if bias:
        want, magnitude = want + row, magnitude + abs(row)
    if residual:
        want, magnitude = want + beta * rest, magnitude + abs(beta * rest)
    want = {"relu": np.maximum(want, 0), "plus": want + 1, "none": want}[activation]
    bound = np.finfo(dtype).eps * (k + 4) * (magnitude + 1)
    assert (abs(wide[..., :n] - want) <= bound).all()
    assert (wide[..., n:] == 7).all()
    return text


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"w{m[0]}")
@pytest.mark.parametrize("b", ["packed", "rows", "columns"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 10, 64), (33, 70, 40), (14, 32, 600), (1, 128, 784)])
def test_sizes_and_storage(m, n, k, b, machine):
    check(m, n, k, machine, b=b, bias=True, workers=2)


@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("a", ["rows", "columns"])
@pytest.mark.parametrize("b", ["packed", "rows", "columns"])
def test_gemm(element, a, b):
    check(
        29,
        45,
        300,
        element=element,
        a=a,
        b=b,
        bias=True,
        residual=True,
        alpha=0.5,
        beta=-1.5,
        activation="relu",
        workers=2,
    )


@pytest.mark.parametrize("b", ["packed", "rows"])
def test_batches_share_or_have_their_own_matrix(b):
    check(9, 20, 30, batch=(2, 3), shared_b=True, b=b, workers=2)
    check(9, 20, 30, batch=(2, 3), shared_b=False, b=b, residual=True, workers=2)


def test_costly_activation_and_known_rows():
    text = check(21, 64, 30, activation="plus", known_m=True)
    assert text.heights == (7, 14)
    for m in (9, 13, 25, 50):
        text = check(m, 64, 30, known_m=True)
        assert not {9, 10, 11, 12, 13} & set(text.heights)
    check(5, 33, 300, activation="plus", bias=True)


def test_no_terms_give_the_bias():
    check(3, 20, 0, bias=True)
    check(0, 20, 5)


def test_nan_in_a_matrix_reaches_its_row_only():
    text = plan_matmul(16, width=16, registers=32)
    left = np.ones((3, 4), np.float32)
    left[1, 2] = np.nan
    right = pack_b(np.ones((4, 16), np.float32), text)
    out = np.zeros((3, 16), np.float32)
    a, b = Matrix(left.ctypes.data, 16), Matrix(right.ctypes.data, panel_bytes(4, text))
    call(matmul_text(text), matmul_words(text, (3, 16, 4), a, b, Matrix(out.ctypes.data, 64)))
    np.testing.assert_array_equal(out, left @ np.ones((4, 16), np.float32))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    m=st.integers(1, 130),
    n=st.integers(1, 90),
    k=st.integers(1, 530),
    machine=st.sampled_from(MACHINES),
    element=st.sampled_from(["float", "double"]),
    a=st.sampled_from(["rows", "columns"]),
    b=st.sampled_from(["packed", "rows", "columns"]),
    workers=st.integers(1, 3),
)
def test_any_size(m, n, k, machine, element, a, b, workers):
    check(m, n, k, machine, element, a, b, workers=workers)


def test_the_text_knows_nothing_of_sizes():
    texts = {matmul_text(check(m, n, k)) for m, n, k in ((1, 40, 8), (50, 33, 300), (7, 1000, 5))}
    assert len(texts) == 1


def test_tiles_fit_exactly():
    heights = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14)
    choice = best_heights(heights, 2)
    for left, height in enumerate(choice[1:], 1):
        assert height <= left
        assert height in heights
    assert choice[15] in (5, 10, 8, 7, 14, 12, 3)
    assert choice[28] == 14


@pytest.mark.parametrize("columns", [4, 100])
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"w{m[0]}")
def test_the_walk_over_any_number_of_rows_ends_behind_the_last(machine, columns):
    width, registers = machine
    for m in range(1, 130):
        text = plan_matmul(columns, width=width, registers=registers, m=m)
        best, left = best_heights(text.heights, text.vectors), m
        while left > 0:
            left -= best[min(left, len(best) - 1)]
        assert left == 0, (m, text.heights)


def test_batch_axes_fold_into_two_loops():
    assert batch_loops((2, 3, 4), [(48, 16, 4), (0, 0, 0)]) == ((1, 24), [(0, 4), (0, 0)])
    assert batch_loops((2, 3), [(12, 4), (0, 8)]) == ((2, 3), [(12, 4), (0, 8)])
    assert batch_loops((), [(), ()]) == ((1, 1), [(0, 0), (0, 0)])
    assert batch_loops((2, 3, 4), [(4, 0, 8), (0, 1, 0)]) is None
