"""Attention in blocks of keys, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import SETS
from run_graph import compiled, computed, fed, kernels

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.options import Options
from neuralsym.errors import NeuralsymError

UNIT = 2.0**-24


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def exact(q, k, v, mask=None, causal=False, scale=None):
    """[batch, heads, length, size] in float64; a row without an open key is zero."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = q @ k.swapaxes(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        closed = np.where(mask, 0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        scores = scores + closed
    most = scores.max(3, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(most), 0, most))
    total = powers.sum(3, keepdims=True)
    return powers @ v / np.where(total, total, 1)


def taken(q, k, v, mask=None, options=None, **attributes):
    """What the kernel computes; it must be the one that runs."""
    feeds = {"q": q, "k": k, "v": v}
    inputs = [fed(name, value) for name, value in feeds.items()]
    if mask is not None:
        feeds["mask"] = mask
        inputs.append(fed("mask", mask))
    y = ops.attention(*inputs, **attributes)
    y = y[0] if isinstance(y, tuple) else y
    cell = compile_graph(Graph([y]), options or Options(threads=1))
    assert "attention" in kernels(cell), kernels(cell)
    return computed(cell, feeds)[0]


def close(found, wanted, q, k):
    """Scores are rounded as sums of `size` products, and errors of exponents are relative."""
    largest = np.abs(q).max() * np.abs(k).max() * q.shape[-1] ** 0.5
    limit = UNIT * (8 + q.shape[-1] ** 0.5 * largest) * np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=limit)


@pytest.mark.parametrize("isa", [None, "avx2", "sse2"])
@pytest.mark.parametrize("length", [8, 49, 130])
def test_instruction_sets(isa, length):
    q, k, v = (drawn(2, 2, n, 20, seed=n) for n in (length, 150, 150))
    close(taken(q, k, v, options=Options(threads=1, isa=isa)), exact(q, k, v), q, k)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_forms(data):
    """Groups of heads, sizes, masks of all ranks that broadcast, causal or not, three axes."""
    group, kept, batch = (data.draw(st.integers(1, 2)) for _ in range(3))
    length, keys = data.draw(st.sampled_from([8, 13, 60])), data.draw(st.sampled_from([1, 31, 140]))
    size, width = data.draw(st.sampled_from([4, 16, 24])), data.draw(st.sampled_from([5, 32, 40]))
    q = drawn(batch, kept * group, length, size, seed=1)
    k, v = drawn(batch, kept, keys, size, seed=2), drawn(batch, kept, keys, width, seed=3)
    causal = data.draw(st.booleans())
    mask = None
    kind = data.draw(st.sampled_from(["", "bool", "float32"]))
    if kind:
        rank = data.draw(st.integers(2, 4))
        whole = (batch, q.shape[1], length)[4 - rank :]
        around = [data.draw(st.sampled_from([1, n])) for n in whole]
        mask = drawn(*around, keys, seed=4)
        mask = mask > -0.5 if kind == "bool" else np.where(mask > 1, -np.inf, mask)
        mask = mask.astype(kind)
    scale = data.draw(st.sampled_from([None, 0.5]))
    wanted = exact(q, k, v, mask, causal, scale)
    more = {"scale": scale} if scale else {}
    if data.draw(st.booleans()):
        flat = [a.transpose(0, 2, 1, 3).reshape(a.shape[0], a.shape[2], -1) for a in (q, k, v)]
        heads = {"q_num_heads": q.shape[1], "kv_num_heads": kept}
        found = taken(*flat, mask, is_causal=int(causal), **heads, **more)
        found = found.reshape(batch, length, -1, width).transpose(0, 2, 1, 3)
    else:
        found = taken(q, k, v, mask, is_causal=int(causal), **more)
    close(found, wanted, q, k)


@pytest.mark.slow
def test_rows_without_an_open_key_are_zero():
    q, k, v = drawn(1, 1, 10, 16), drawn(1, 1, 200, 16), drawn(1, 1, 200, 16)
    mask = np.ones((10, 200), bool)
    mask[3], mask[4, 7:] = False, False
    mask[5, :190] = False  # the first block of keys is closed, the second is not
    found = taken(q, k, v, mask)
    close(found, exact(q, k, v, mask), q, k)
    assert (found[0, 0, 3] == 0).all()


@pytest.mark.slow
def test_scores_of_any_size():
    """The running maximum keeps exponents in range, whatever block it is found in."""
    q, k, v = drawn(1, 1, 16, 16) * 30, drawn(1, 1, 400, 16, seed=5) * 30, drawn(1, 1, 400, 16)
    k[0, 0] = k[0, 0, np.argsort(k[0, 0] @ q[0, 0, 0])]  # for the first query ever larger
    found = taken(q, k, v)
    assert np.isfinite(found).all()
    close(found, exact(q, k, v), q, k)


def test_what_is_no_number_stays_in_its_row():
    q, k, v = drawn(1, 2, 20, 16), drawn(1, 2, 140, 16), drawn(1, 2, 140, 16)
    q[0, 1, 7, 3] = np.nan
    found = taken(q, k, v)
    bad = np.isnan(found).any(3)
    assert bad[0, 1, 7] and bad.sum() == 1


@pytest.mark.parametrize("isa", SETS)
def test_halves_are_rounded_once(isa):
    q, k, v = (drawn(1, 2, 30, 16, seed=s).astype(np.float16) for s in range(3))
    found = taken(q, k, v, options=Options(threads=1, isa=isa))
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, exact(q, k, v), rtol=2.0**-10, atol=2.0**-12)


@pytest.mark.slow
def test_threads_change_no_bit():
    q, k, v = drawn(1, 3, 150, 32), drawn(1, 3, 300, 32), drawn(1, 3, 300, 32)
    one, two = (taken(q, k, v, options=Options(threads=n)) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_lengths_that_change():
    """One program for all lengths; masks that do not fit are refused."""
    names = {"q": ("N", 2, "L", 16), "k": ("N", 2, "S", 16), "v": ("N", 2, "S", 16)}
    inputs = [fed(n, np.zeros((1, 2, 1, 16), np.float32), shape) for n, shape in names.items()]
    mask = fed("mask", np.zeros((1, 1), np.float32), ("L", "S"))
    y = ops.attention(*inputs, mask)
    cell = compiled(y[0] if isinstance(y, tuple) else y)
    assert "attention" in kernels(cell)
    made = None
    for n, length, keys in ((1, 1, 1), (2, 50, 129), (1, 7, 300), (3, 4, 2)):
        q, k, v = (drawn(n, 2, size, 16, seed=size) for size in (length, keys, keys))
        feeds = {"q": q, "k": k, "v": v, "mask": drawn(length, keys)}
        found = computed(cell, feeds)[0]
        close(found, exact(q, k, v, feeds["mask"]), q, k)
        made = made or set(cell._codes)
        assert set(cell._codes) == made
    with pytest.raises(NeuralsymError):
        computed(cell, {**feeds, "v": drawn(3, 2, 5, 16)})


def test_memory_does_not_grow_with_the_square():
    q = fed("q", drawn(1, 1, 4096, 16))
    y = ops.attention(q, q, q)
    cell = compiled(y[0] if isinstance(y, tuple) else y)
    instance = cell.instance()
    instance["q"] = drawn(1, 1, 4096, 16)
    instance.compute()
    used = sum(block.nbytes for block in instance._blocks if block is not None)
    assert used < 4096 * 4096
