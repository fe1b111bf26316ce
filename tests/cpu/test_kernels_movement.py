"""Kernels that move values, against numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_graph import compiled, computed, fed, filled, kernels, run

from neuralsym import ops
from neuralsym.cpu.kernels.movement import _copy_code
from neuralsym.cpu.machine import Target
from neuralsym.cpu.program import row_strides
from neuralsym.cpu.templates.strided import strided_copies, strided_form, strided_words
from neuralsym.errors import ExecutionError, NeuralsymError

DTYPES = ("int8", "bool", "uint16", "float16", "float32", "int64", "complex128")


# -- the copy itself ---------------------------------------------------------------------------
@st.composite
def views(draw):
    """An array of any rank and a view of it: axes permuted, cut, reversed or repeated."""
    rank = draw(st.integers(0, 7))
    shape = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    if rank:
        long = draw(st.integers(0, rank - 1))
        shape = (*shape[:long], draw(st.integers(1, 40)), *shape[long + 1 :])
    array = filled(shape, draw(st.sampled_from(DTYPES)))
    view = array.transpose(draw(st.permutations(range(rank))))
    for axis in range(rank):
        step = draw(st.sampled_from([1, 1, 1, 2, -1, -3]))
        start = draw(st.integers(-2, 2))
        view = view[(slice(None),) * axis + (slice(start, None, step),)]
    if draw(st.booleans()):
        view = np.broadcast_to(view, (draw(st.integers(1, 3)), *view.shape))
    return array, view


@settings(max_examples=150)
@given(views(), st.integers(1, 3))
def test_a_copy_gives_the_view(case, workers):
    array, view = case
    found = np.zeros(view.shape, array.dtype)
    item = array.dtype.itemsize
    target = row_strides(view.shape, item)
    ran = run_copies(found, view, strided_copies(view.shape, target, view.strides, item, workers))
    np.testing.assert_array_equal(found, view)
    assert view.size or not ran


def run_copies(found, view, copies, workers=2) -> int:
    from run_text import SIGNATURE

    from neuralsym.cpu.emit import compile_one
    from neuralsym.cpu.store import Store

    machine = Target.of(None)
    for copy in copies:
        code = _copy_code(strided_form(copy, found.dtype.itemsize, machine.vector_bytes))
        call = SIGNATURE(compile_one(code, machine, Store(None)))
        words = strided_words(
            found.ctypes.data + copy.target,
            view.__array_interface__["data"][0] + copy.source,
            copy,
        )
        desc = np.array(words, np.int64)
        for worker in reversed(range(workers)):
            assert call(None, desc.ctypes.data, worker, workers) == 0
    return len(copies)


@pytest.mark.parametrize("shape", [(300, 700), (3, 520, 17), (2, 256, 33), (257, 4, 5, 3)])
def test_large_transposes_are_cut_into_tiles(shape):
    array = filled(shape)
    for perm in itertools.permutations(range(len(shape))):
        view = array.transpose(perm)
        found = np.zeros(view.shape, array.dtype)
        copies = strided_copies(view.shape, found.strides, view.strides, 4, 2)
        run_copies(found, view, copies)
        np.testing.assert_array_equal(found, view)


# -- operators ---------------------------------------------------------------------------------
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_transpose(dtype, threads):
    x = filled((3, 5, 2, 4), dtype)
    for perm in ((0, 1, 2, 3), (3, 2, 1, 0), (0, 2, 3, 1), (1, 0, 3, 2)):
        found = run(ops.transpose(fed("x", x), perm=perm), {"x": x}, threads)
        np.testing.assert_array_equal(found, x.transpose(perm))
    y = ops.transpose(fed("x", x))
    np.testing.assert_array_equal(run(y, {"x": x}, threads, "transpose"), x.T)


def test_another_batch_needs_no_other_kernel():
    x = fed("x", filled((1, 3, 4)), ("N", 3, "M"))
    parts = ops.split(x, num_outputs=3, axis=1)
    moved = ops.transpose(x, perm=(2, 0, 1))
    padded = ops.pad(moved, [0, 0, 2, 0, 0, 2], mode="reflect")
    cell = compiled([parts[1], padded])
    made = set(cell._codes)
    for n, m in ((1, 1), (1, 4), (5, 7), (32, 1), (0, 3)):
        value = filled((n, 3, m))
        second, last = computed(cell, {"x": value})
        np.testing.assert_array_equal(second, value[:, 1:2])
        both = ((0, 0), (0, 0), (2, 2))
        np.testing.assert_array_equal(last, np.pad(value.transpose(2, 0, 1), both, "reflect"))
    assert set(cell._codes) == made


@st.composite
def slices(draw):
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(0 if rank > 1 else 1, 6)) for _ in range(rank))
    axes = draw(st.permutations(range(rank)))[: draw(st.integers(1, rank))]
    bound = st.one_of(st.integers(-8, 8), st.sampled_from([2**62, -(2**62)]))
    parts = [(draw(bound), draw(bound), draw(st.sampled_from([1, 2, 3, -1, -2]))) for _ in axes]
    return shape, axes, parts


@settings(max_examples=40)
@given(slices())
def test_slice(case):
    shape, axes, parts = case
    x = filled(shape)
    starts, ends, steps = (list(k) for k in zip(*parts, strict=True))
    index = [slice(None)] * len(shape)
    for axis, (start, end, step) in zip(axes, parts, strict=True):
        # ONNX clamps a start to the first element where numpy goes before it.
        first = -shape[axis] if step < 0 and shape[axis] else -(2**62)
        index[axis] = slice(max(start, first), end, step)
    y = ops.slice(fed("x", x), starts, ends, [a - len(shape) for a in axes], steps)
    found = run(y, {"x": x})
    expected = x[tuple(index)]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_expand_tile_split(threads):
    x = filled((3, 1, 4))
    wide = run(ops.expand(fed("x", x), [2, 3, 5, 1]), {"x": x}, threads, "expand")
    np.testing.assert_array_equal(wide, np.broadcast_to(x, (2, 3, 5, 4)))
    many = run(ops.tile(fed("x", x), [2, 3, 2]), {"x": x}, threads, "tile")
    np.testing.assert_array_equal(many, np.tile(x, (2, 3, 2)))
    parts = run(list(ops.split(fed("x", x), [1, 3], axis=-1)), {"x": x}, threads, "split")
    np.testing.assert_array_equal(parts[0], x[..., :1])
    np.testing.assert_array_equal(parts[1], x[..., 1:])


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(mode):
    x = filled((2, 12, 3, 5))
    n, c, h, w = x.shape
    if mode == "DCR":
        split = x.reshape(n, 2, 2, c // 4, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        split = x.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3)
    expected = split.reshape(n, c // 4, 2 * h, 2 * w)
    y = ops.depth_to_space(fed("x", x), blocksize=2, mode=mode)
    np.testing.assert_array_equal(run(y, {"x": x}, kernel="depthtospace"), expected)
    if mode == "DCR":
        back = ops.space_to_depth(fed("y", expected), blocksize=2)
        np.testing.assert_array_equal(run(back, {"y": expected}, kernel="spacetodepth"), x)


# -- pads --------------------------------------------------------------------------------------
@st.composite
def pads(draw):
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    both = [(draw(st.integers(-1, 9)), draw(st.integers(-1, 9))) for _ in shape]
    both = [
        (max(a, 0), max(b, 0)) if n < 3 else (a, b) for n, (a, b) in zip(shape, both, strict=True)
    ]
    return shape, both, draw(st.sampled_from(["constant", "reflect", "edge", "wrap"]))


@settings(max_examples=60)
@given(pads(), st.integers(1, 2))
def test_pad(case, threads):
    shape, both, mode = case
    x = filled(shape)
    flat = [a for a, _ in both] + [b for _, b in both]
    names = [f"d{i}" for i in range(len(shape))]  # known sizes limit what may be reflected
    if mode == "constant":
        y = ops.pad(fed("x", x), flat, np.float32(-3))
    else:
        y = ops.pad(fed("x", x, names), flat, mode=mode)
    cut = tuple(slice(max(-a, 0), n + min(b, 0)) for n, (a, b) in zip(shape, both, strict=True))
    kept = [(max(a, 0), max(b, 0)) for a, b in both]
    extra = {"constant_values": -3} if mode == "constant" else {}
    expected = np.pad(x[cut], kept, mode, **extra)
    np.testing.assert_array_equal(run(y, {"x": x}, threads), expected)


def test_pad_with_a_computed_value_and_on_some_axes():
    x, value = filled((2, 3)), np.float32(5)
    y = ops.pad(fed("x", x), [1, 2], ops.add(fed("v", value), value), [-1])
    found = run(y, {"x": x, "v": value}, kernel="pad")
    np.testing.assert_array_equal(found, np.pad(x, ((0, 0), (1, 2)), constant_values=10))


def test_an_empty_axis_has_no_reflection():
    x = fed("x", filled((2, 3)), ("N", 3))
    cell = compiled(ops.pad(x, [1, 0, 1, 0], mode="reflect"))
    with pytest.raises(NeuralsymError, match="axis 0 is empty"):
        computed(cell, {"x": np.zeros((0, 3), np.float32)})


# -- gathers -----------------------------------------------------------------------------------
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_type", ["int32", "int64"])
def test_gather(dtype, index_type, threads):
    x = filled((4, 5, 3), dtype)
    index = np.array([[0, -1, 2], [3, 1, -4]], index_type)
    for axis in (0, 1, -1):
        if axis == -1:
            index = np.clip(index, -3, 2)
        y = ops.gather(fed("x", x), fed("i", index), axis=axis)
        found = run(y, {"x": x, "i": index}, threads, "gather")
        np.testing.assert_array_equal(found, np.take(x, index, axis))


def test_gather_of_one_known_index():
    x = filled((4, 5, 3))
    for index in (np.int64(-2), np.array([1])):
        y = ops.gather(fed("x", x), index, axis=1)
        np.testing.assert_array_equal(run(y, {"x": x}), np.take(x, index, 1))


def test_gather_of_nothing():
    x, none = filled((4, 5)), np.zeros((0,), np.int64)
    y = ops.gather(fed("x", x), fed("i", none))
    assert run(y, {"x": x, "i": none}).shape == (0, 5)


@pytest.mark.parametrize("index", [4, -5, 2**40])
def test_an_index_out_of_range_names_the_node(index):
    x = filled((4, 5))
    wrong = np.array([0, index], np.int64)
    y = ops.gather(fed("x", x), fed("i", wrong), name="lookup")
    with pytest.raises(ExecutionError, match="lookup"):
        run(y, {"x": x, "i": wrong})


def test_movement_is_compiled_not_left_to_the_host():
    x = fed("x", filled((2, 4, 4, 6)))
    outputs = [
        ops.transpose(x),
        ops.slice(x, [1], [3]),
        ops.depth_to_space(x, blocksize=2),
        ops.pad(x, [0, 0, 1, 1, 0, 0, 1, 1], mode="edge"),
    ]
    assert "host" not in kernels(compiled(outputs))
