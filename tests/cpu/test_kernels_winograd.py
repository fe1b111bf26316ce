"""Winograd convolutions against float64 sums, within the bound that `winograd_choice` states."""

from __future__ import annotations

from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import SETS, cell_of, leaves, run_cell, run_op
from test_kernels_conv import ACTIVATIONS, exact_conv

from neuralsym import ops
from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.cpu.kernels import winograd
from neuralsym.cpu.machine import Target, host_isas
from neuralsym.cpu.templates.conv_plan import ConvShape
from neuralsym.cpu.templates.winograd_axis import Axis, as_array
from neuralsym.cpu.templates.winograd_choice import OUTPUTS, candidates, choose_axes
from neuralsym.passes.fused import FusedConv

CONV = find_op("Conv")
NAME = winograd.WinogradConv.name
WIDE = tuple(s for s in SETS if s in (None, "avx512", "avx2"))
long_vectors = pytest.mark.skipif(
    Target.of().isa not in ("avx512", "avx2"), reason="its vectors are too short for this kernel"
)
AXES = [Axis(m, *filters) for filters, counts in OUTPUTS.items() for m in counts]


def shape_of(kernel, strides=(1, 1), channels=64, outputs=64):
    return ConvShape(channels, outputs, (1, *kernel), (1, *strides))


PAIRS = [
    pair
    for rows in OUTPUTS
    for columns in OUTPUTS
    for pair in candidates(shape_of(*zip(rows, columns, strict=True)))
    if rows <= columns
]
FOUR = (Axis(4, 3), Axis(4, 3))


@contextmanager
def tiles(pair):
    """These tiles, whatever they cost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd, "choose_axes", lambda *_: pair)
        yield


def convolved(x, w, b, pads, strides=(1, 1)):
    """The exact result."""
    return exact_conv(x, w, b, 1, strides, (1, 1), pads)[0]


def matrices(axis):
    """|G|, |B^T|, |A^T|."""
    return [
        np.abs(as_array(m)) for m in (axis.filter_matrix, axis.input_matrix, axis.output_matrix)
    ]


def bound_of(x, w, b, pads, pair):
    """What the error of each result may be."""
    rows, columns = pair
    (g, bt, at), (g2, bt2, at2) = matrices(rows), matrices(columns)
    u = np.einsum("ij,ocjk,lk->ocil", g, np.abs(w.astype(np.float64)), g2)
    x = np.abs(x.astype(np.float64))
    height, length = (
        (x.shape[2 + i] + pads[i] + pads[2 + i] - axis.taps) // axis.stride + 1
        for i, axis in enumerate(pair)
    )
    grid = [-(-n // a.outputs) for n, a in zip((height, length), pair, strict=True)]
    room = [a.reach(n * a.outputs) for n, a in zip(grid, pair, strict=True)]
    after = [room[i] - pads[i] - x.shape[2 + i] for i in range(2)]
    x = x[:, :, : room[0] - pads[0], : room[1] - pads[1]]
    x = np.pad(x, [(0, 0), (0, 0), *((pads[i], max(after[i], 0)) for i in range(2))])
    size = np.zeros((len(x), len(w), grid[0] * rows.outputs, grid[1] * columns.outputs))
    for i in range(0, size.shape[2], rows.outputs):
        for j in range(0, size.shape[3], columns.outputs):
            top, left = i * rows.stride, j * columns.stride
            d = x[:, :, top : top + rows.size, left : left + columns.size]
            v = np.einsum("ij,ncjk,lk->ncil", bt, d, bt2)
            m = np.einsum("ncil,ocil->noil", v, u)
            part = np.einsum("ij,nojk,lk->noil", at, m, at2)
            size[:, :, i : i + rows.outputs, j : j + columns.outputs] = part
    size = 2 * size[:, :, :height, :length]  # the result itself is no larger
    if b is not None:
        size = size + np.abs(b.astype(np.float64))[:, None, None]
    return (x.shape[1] + 24) * 2.0**-24 * size + np.finfo(np.float32).tiny


# -- transforms ----------------------------------------------------------------------------------
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_transforms_are_exact_filters(axis):
    rng = np.random.default_rng(0)
    d = [Fraction(int(v)) for v in rng.integers(-9, 10, axis.size)]
    g = [Fraction(int(v)) for v in rng.integers(-9, 10, axis.taps)]

    def times(matrix, vector):
        return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]

    pairs = zip(times(axis.input_matrix, d), times(axis.filter_matrix, g), strict=True)
    got = times(axis.output_matrix, [a * b for a, b in pairs])
    assert got == [
        sum(d[i * axis.stride + k] * g[k] for k in range(axis.taps)) for i in range(axis.outputs)
    ]


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_factors_are_exact_in_float32(axis):
    for row in (*axis.input_matrix, *axis.output_matrix):
        assert all(Fraction(float(np.float32(float(c)))) == c for c in row)


def test_tiles_of_large_error_are_not_taken():
    sizes = {(r.outputs, c.outputs) for r, c in candidates(shape_of((3, 3)))}
    assert {(2, 2), (4, 4)} <= sizes and (6, 6) not in sizes
    assert not any(candidates(shape_of(kernel)) for kernel in ((7, 7), (2, 2), (1, 1)))
    assert max(r.amplification * c.amplification for r, c in PAIRS) <= 100


# -- errors --------------------------------------------------------------------------------------
def drawn(rng, kind, shape):
    """Inputs: as networks have them, of all magnitudes, or such as make sums cancel."""
    if kind == "normal":
        x = rng.standard_normal(shape)
    elif kind == "rectified":
        x = np.maximum(rng.standard_normal(shape), 0)
    elif kind == "magnitudes":
        x = rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 7, shape)
    elif kind == "constant":
        x = np.full(shape, 1.1) + 1e-5 * rng.standard_normal(shape)
    else:
        x = (np.indices(shape)[-2:].sum(0) % 2 * 2.0 - 1) * rng.uniform(0.9, 1.1, shape)
    return x.astype(np.float32)


KINDS = ("normal", "rectified", "magnitudes", "constant", "alternating")


@long_vectors
@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(PAIRS),
    st.tuples(st.integers(1, 3), st.integers(9, 40), st.integers(1, 40)),
    st.tuples(st.integers(1, 15), st.integers(1, 15)),
    st.tuples(*[st.integers(0, 2)] * 4),
    st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
    st.booleans(),
    st.sampled_from(WIDE),
    st.integers(1, 3),
)
def test_errors_stay_within_the_bound(pair, counts, size, pads, kinds, bias, isa, threads):
    batch, channels, outputs = counts
    size = [
        max(n, a.taps - pads[i] - pads[i + 2])
        for i, (n, a) in enumerate(zip(size, pair, strict=True))
    ]
    rng = np.random.default_rng(0)
    x = drawn(rng, kinds[0], (batch, channels, *size))
    w = drawn(rng, kinds[1], (outputs, channels, *(a.taps for a in pair)))
    b = drawn(rng, "normal", outputs) if bias else None
    with tiles(pair):
        options = {"stored": (1, 2), "kernel": NAME, "isa": isa, "threads": threads}
        strides = [a.stride for a in pair]
        (got,) = run_op(CONV, [x, w, b], {"pads": pads, "strides": strides}, **options)
    exact = convolved(x, w, b, pads, strides)
    assert got.shape == exact.shape
    assert np.all(np.abs(got - exact) <= bound_of(x, w, b, pads, pair))


@long_vectors
@pytest.mark.parametrize("pair", [p for p in PAIRS if p[0].is_plain or p[0] == p[1]], ids=str)
def test_errors_are_near_those_of_direct_sums(pair):
    rng = np.random.default_rng(0)
    x = drawn(rng, "rectified", (1, 96, 20, 20))
    w = drawn(rng, "normal", (32, 96, *(a.taps for a in pair)))
    attrs = {"strides": [a.stride for a in pair]}
    exact = convolved(x, w, None, (0,) * 4, attrs["strides"])
    with tiles(pair):
        (got,) = run_op(CONV, [x, w], attrs, stored=(1,), kernel=NAME)
    (direct,) = run_op(CONV, [x, w], attrs, stored=(1,), kernel="conv", winograd=False)
    largest = np.abs(exact).max()
    assert np.abs(got - exact).max() <= 4e-6 * largest
    assert np.abs(direct - exact).max() <= 4e-6 * largest


# -- when it is taken ----------------------------------------------------------------------------
def kernel_of(arrays, attrs, stored=(1, 2), dtype=np.float32, **options):
    made, _ = leaves([None if a is None else a.astype(dtype) for a in arrays], stored)
    inputs = [s for i, s in enumerate(made) if s is not None and i not in stored]
    (step,) = (
        s
        for s in cell_of(apply(CONV, made, attrs), inputs, **options).program.steps
        if s.op is CONV
    )
    return step.kernel.name


@long_vectors
def test_it_is_refused_where_it_may_not_be_taken():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 64, 20, 20))
    w, b = rng.standard_normal((64, 64, 3, 3)), rng.standard_normal(64)
    same = {"pads": [1] * 4}
    assert kernel_of([x, w, b], same) == NAME
    assert kernel_of([x, w, b], same, winograd=False) == "conv"
    assert kernel_of([x, w, b], {**same, "strides": [3, 1]}) == "conv"
    assert kernel_of([x, w, b], {**same, "dilations": [1, 2]}) == "conv"
    assert kernel_of([x, w[:, :32], b], {**same, "group": 2}) == "conv"
    assert kernel_of([x, w, b], same, stored=()) == "conv"
    assert kernel_of([x, w[:, :, :2, :2], b], same) == "conv"
    assert kernel_of([x, w, b], same, dtype=np.float64) == "conv loop"
    for isa in set(SETS) - {None, "avx512", "avx2"}:
        assert kernel_of([x, w, b], same, isa=isa) == "conv"


@pytest.mark.skipif("avx512" not in host_isas(), reason="shorter vectors choose by other costs")
def test_few_pixels_of_many_channels_stay_direct():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 512, 4, 4)), rng.standard_normal((512, 512, 3, 3))
    assert kernel_of([x, w], {"pads": [1] * 4}, isa="avx512") == "conv"


@pytest.mark.parametrize("lazy", [False, True])
def test_sums_of_whole_numbers_stay_exact(lazy):
    from neuralsym.core.leaves import constant
    from neuralsym.core.tensor import Tensor
    from neuralsym.dtypes import NumberType

    rng = np.random.default_rng(0)
    x = rng.integers(-127, 128, (1, 64, 12, 12)).astype(np.float32)
    w = rng.integers(-60, 61, (48, 64, 3, 3)).astype(np.float32)
    made, fed = leaves([x])
    stored = Tensor(NumberType.FLOAT32, w.shape, lambda: w) if lazy else w
    cell = cell_of(apply(CONV, [made[0], constant(stored)], {"pads": [1] * 4}), made)
    (got,) = run_cell(cell, fed)
    assert np.array_equal(got, convolved(x, w, None, (1,) * 4))


def test_choices_for_the_layers_of_known_networks():
    def chosen(channels, outputs, size, kernel=(3, 3), stride=1):
        shape = shape_of(kernel, (stride, stride), channels, outputs)
        found = choose_axes(shape, 1, (size, size), 16)
        return found and tuple(axis.outputs for axis in found)

    assert chosen(64, 64, 56) == chosen(128, 128, 28) == (4, 4)
    assert chosen(512, 512, 7) == (2, 2)
    assert chosen(160, 160, 17, (1, 7)) == (1, 2)
    assert chosen(128, 128, 28, stride=2) == (4, 4)
    assert chosen(256, 256, 14, stride=2) == (2, 2)
    assert chosen(512, 512, 1) is chosen(512, 512, 7, stride=2) is None


# -- sharing, sizes ------------------------------------------------------------------------------
@pytest.mark.parametrize("pair", [(Axis(2, 3), Axis(2, 3)), FOUR], ids=str)
def test_threads_and_batches_give_the_same_bits(pair):
    rng = np.random.default_rng(0)
    x = drawn(rng, "normal", (5, 40, 11, 14))
    w, b = drawn(rng, "normal", (70, 40, 3, 3)), drawn(rng, "normal", 70)
    made, _ = leaves([x, w, b], stored=(1, 2), free={0: (0,)})
    results = []
    with tiles(pair):
        for threads in (1, 2, 3, 7):
            cell = cell_of(apply(CONV, made, {"pads": [1] * 4}), made[:1], threads=threads)
            codes = len(cell.codes())
            results.append(run_cell(cell, {"x0": x})[0])
            singles = [run_cell(cell, {"x0": x[i : i + 1]})[0] for i in range(len(x))]
            results.append(np.concatenate(singles))
            assert len(cell.codes()) == codes
    assert all(np.array_equal(results[0], r) for r in results[1:])


def test_sizes_of_the_run_decide():
    rng = np.random.default_rng(0)
    w = drawn(rng, "normal", (64, 64, 3, 3))
    made, _ = leaves([np.zeros((1, 64, 9, 9), np.float32), w], stored=(1,), free={0: (0, 2, 3)})
    cell = cell_of(apply(CONV, made, {"pads": [1] * 4}), made[:1])
    for size in ((1, 64, 9, 9), (2, 64, 1, 1), (1, 64, 30, 3), (1, 64, 2, 40)):
        x = drawn(rng, "normal", size)
        (got,) = run_cell(cell, {"x0": x})
        assert np.all(
            np.abs(got - convolved(x, w, None, (1,) * 4)) <= bound_of(x, w, None, (1,) * 4, FOUR)
        )
    (got,) = run_cell(cell, {"x0": np.zeros((0, 64, 5, 5), np.float32)})
    assert got.shape == (0, 64, 5, 5)


@long_vectors
def test_infinities_reach_no_further_than_their_tiles():
    rng = np.random.default_rng(0)
    x, w = drawn(rng, "normal", (1, 32, 24, 24)), drawn(rng, "normal", (32, 32, 3, 3))
    with tiles(FOUR):
        (clean,) = run_op(CONV, [x, w], {"pads": [1] * 4}, stored=(1,), kernel=NAME)
        x[0, 3, 10, 10] = np.inf
        (got,) = run_op(CONV, [x, w], {"pads": [1] * 4}, stored=(1,), kernel=NAME)
    assert not np.any(np.isfinite(got[:, :, 9:12, 9:12]))
    far = np.ones((24, 24), bool)
    far[8:12, 8:12] = False
    assert np.array_equal(got[:, :, far], clean[:, :, far])


# -- what comes after ----------------------------------------------------------------------------
@long_vectors
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("size", [(8, 8), (6, 9)])
def test_residual_and_activation(name, size):
    expr, function = ACTIVATIONS[name]
    rng = np.random.default_rng(0)
    x, w = drawn(rng, "normal", (2, 24, *size)), drawn(rng, "normal", (40, 24, 3, 3))
    b, z = drawn(rng, "normal", 40), drawn(rng, "normal", (2, 40, *size))
    attrs = {"pads": [1] * 4, "activation": expr}
    with tiles(FOUR):
        (got,) = run_op(FusedConv, [x, w, b, z], attrs, stored=(1, 2), kernel=NAME)
    exact = convolved(x, w, b, (1,) * 4) + z
    bound = bound_of(x, w, b, (1,) * 4, FOUR) + 2.0**-23 * (np.abs(exact) + np.abs(z))
    # No activation here is steeper than 1.5.
    assert np.all(np.abs(got - function(exact)) <= 1.5 * bound + 1e-6)


@long_vectors
def test_results_lie_in_a_concat_with_a_border_of_zeros():
    rng = np.random.default_rng(0)
    x = drawn(rng, "normal", (2, 32, 13, 10))
    weights = [drawn(rng, "normal", s) for s in ((32, 32, 3, 3), (20, 32, 3, 3), (32, 52, 3, 3))]
    weights = [w / 16 for w in weights]
    made, fed = leaves([x])
    one = {"pads": [1] * 4}
    first = ops.relu(apply(CONV, [made[0], weights[0]], one)[0])
    second = ops.relu(apply(CONV, [made[0], weights[1]], one)[0])
    last = apply(CONV, [ops.concat([first, second], axis=1), weights[2]], one)
    with tiles(FOUR):
        cell = cell_of(last, made)
    names = [s.kernel.name for s in cell.program.steps]
    assert names.count(NAME) == 3
    (got,) = run_cell(cell, fed)
    parts = [np.maximum(convolved(x, w, None, (1,) * 4), 0) for w in weights[:2]]
    middle = np.concatenate(parts, 1)
    exact = convolved(middle, weights[2], None, (1,) * 4)
    assert np.all(np.abs(got - exact) <= 4e-6 * np.abs(exact).max())
