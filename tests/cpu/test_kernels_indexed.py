"""Gathers, scatters, one-hot vectors and triangles, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_oracle import by_us
from run_graph import compiled, computed, fed, filled, kernels, run

from neuralsym import ops
from neuralsym.errors import ExecutionError, NeuralsymError

DTYPES = ("int8", "bool", "float16", "float32", "int64", "complex128")


@st.composite
def tuples(draw):
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    batch = draw(st.integers(0, rank - 1))
    length = draw(st.integers(1, rank - batch))
    places = (*shape[:batch], *(draw(st.integers(0, 4)) for _ in range(draw(st.integers(0, 2)))))
    return shape, batch, (*places, length), draw(st.sampled_from(DTYPES))


@settings(max_examples=50)
@given(tuples(), st.integers(1, 2))
def test_gather_nd(case, threads):
    shape, batch, places, dtype = case
    random = np.random.default_rng(sum(shape) + sum(places))
    limits = shape[batch : batch + places[-1]]
    parts = [random.integers(-n, n, places[:-1]) for n in limits]
    indices = np.stack(parts, -1)
    x = filled(shape, dtype)
    y = ops.gather_nd(fed("x", x), fed("i", indices), batch_dims=batch)
    found = run(y, {"x": x, "i": indices}, threads, "tuples")
    grid = np.ogrid[tuple(slice(n) for n in places[:-1])][:batch] if batch else []
    expected = x[(*grid, *parts)]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_and_scatter_elements(dtype, threads, rng):
    x = filled((4, 5, 6), dtype)
    for axis in (0, 1, -1):
        n = x.shape[axis]
        shape = [3, 4, 5]
        shape[axis] = min(n, 4)
        indices = rng.permuted(
            np.broadcast_to(
                np.arange(n).reshape([-1 if a == axis % 3 else 1 for a in range(3)]),
                [n if a == axis % 3 else s for a, s in enumerate(shape)],
            ),
            axis=axis,
        ).take(range(shape[axis]), axis)
        indices = np.where(rng.random(indices.shape) < 0.5, indices, indices - n)
        part = x[tuple(slice(s) if a != axis % 3 else slice(None) for a, s in enumerate(shape))]
        y = ops.gather_elements(fed("x", x), fed("i", indices), axis=axis)
        found = run(y, {"x": x, "i": indices}, threads, "elements")
        np.testing.assert_array_equal(found, np.take_along_axis(part, indices % n, axis))
        updates = filled(indices.shape, dtype)[::-1]
        y = ops.scatter_elements(fed("x", x), fed("i", indices), fed("u", updates), axis=axis)
        found = run(y, {"x": x, "i": indices, "u": updates}, threads, "elements")
        expected = x.copy()
        view = expected[
            tuple(slice(s) if a != axis % 3 else slice(None) for a, s in enumerate(shape))
        ]
        np.put_along_axis(view, indices % n, updates, axis)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("how", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
def test_scatter_nd_combines_repeated_places(how, dtype, rng):
    x = rng.integers(1, 4, (6, 3, 2)).astype(dtype)
    indices = np.array([[1], [4], [-5]]) if how != "none" else np.array([[1], [4], [-1]])
    updates = rng.integers(1, 4, (3, 3, 2)).astype(dtype)
    y = ops.scatter_nd(fed("x", x), fed("i", indices), fed("u", updates), reduction=how)
    found = run(y, {"x": x, "i": indices, "u": updates}, 2, "tuples")
    expected = x.copy()
    function = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    for (index,), update in zip(indices, updates, strict=True):
        old = expected[index]
        expected[index] = update if how == "none" else function[how](old, update)
    np.testing.assert_array_equal(found, expected)


def test_the_data_of_a_scatter_is_used_again_elsewhere(rng):
    x, updates = filled((5, 3)), filled((1, 3))
    doubled = ops.add(fed("x", x), fed("x2", x))
    y = ops.scatter_nd(doubled, np.array([[2]]), fed("u", updates))
    total = ops.sub(doubled, y)
    found = run(total, {"x": x, "x2": x, "u": updates})
    expected = np.zeros((5, 3))
    expected[2] = 2 * x[2] - updates[0]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("index", [5, -6])
def test_an_index_out_of_range_names_the_node(index):
    x, i, u = filled((5, 3)), np.array([[0], [index]]), filled((2, 3))
    for y in (
        ops.gather_nd(fed("x", x), fed("i", i), name="lookup"),
        ops.gather_elements(fed("x", x), fed("i", i), name="lookup"),
        ops.scatter_nd(fed("x", x), fed("i", i), fed("u", u), name="lookup"),
        ops.scatter_elements(fed("x", x), fed("i", i), fed("u", u[:, :1]), name="lookup"),
    ):
        feeds = {"x": x, "i": i}
        cell = compiled(y)
        if "u" in cell.program.inputs:
            feeds["u"] = u[:, :1] if y.node.op.__name__ == "ScatterElements" else u
        with pytest.raises(ExecutionError, match="lookup"):
            computed(cell, feeds)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["int64", "int32", "float32"])
def test_one_hot(kind, threads):
    indices = np.array([[0, 2, -1], [7, -7, 6]]).astype(kind)
    values = np.array([5, 9], np.int16)
    for axis in (0, 1, -1):
        y = ops.one_hot(fed("i", indices), 7, fed("v", values), axis=axis)
        found = run(y, {"i": indices, "v": values}, threads, "onehot")
        expected = np.where(indices[..., None] % 7 == np.arange(7), 9, 5)
        expected[1, 0] = 5
        np.testing.assert_array_equal(found, np.moveaxis(expected, -1, axis))


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangles(dtype):
    for shape in ((5, 7), (2, 70, 3), (3, 0, 4)):
        x = filled(shape, dtype)
        for k in (-100, -2, 0, 1, 6, 100):
            for upper in (0, 1):
                y = ops.trilu(fed("x", x), k, upper=upper)
                found = run(y, {"x": x}, 2, "triangle")
                np.testing.assert_array_equal(found, (np.triu if upper else np.tril)(x, k))


def test_a_filled_tensor_of_symbolic_shape():
    x = fed("x", filled((2, 3)), ("N", "M"))
    y = ops.constant_of_shape(ops.shape(x), value=np.array([7], np.float32))
    cell = compiled([y, ops.add(x, 1.0)])
    assert "fill" in kernels(cell)
    for shape in ((2, 3), (1, 1), (40, 9)):
        found, _ = computed(cell, {"x": filled(shape)})
        np.testing.assert_array_equal(found, np.full(shape, 7, np.float32))


FUNCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["bool", "complex64", "complex128", "uint64", "float16"])
def test_every_type_is_combined(how, dtype, rng):
    def numbers(shape):
        made = rng.integers(0, 2 if dtype == "bool" else 4, shape)
        return (made * (1 + 2j) - 1j if dtype.startswith("complex") else made).astype(dtype)

    x, updates = numbers((4, 5)), numbers((3, 5))
    indices = np.array([[1], [-1], [1]])
    expected = x.copy()
    for (index,), update in zip(indices, updates, strict=True):
        expected[index] = FUNCTIONS[how](expected[index], update)
    y = ops.scatter_nd(fed("x", x), fed("i", indices), fed("u", updates), reduction=how)
    cell = compiled(y)
    assert "host" not in kernels(cell)
    np.testing.assert_array_equal(computed(cell, {"x": x, "i": indices, "u": updates})[0], expected)
    whole = indices.repeat(5, 1).astype(np.int32)
    y = ops.scatter_elements(fed("x", x), fed("i", whole), fed("u", updates), reduction=how)
    found = run(y, {"x": x, "i": whole, "u": updates})
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == dtype


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
@pytest.mark.parametrize("how", ["max", "min"])
def test_not_a_number_stays(how, dtype):
    x = np.array([1, np.nan, 3], dtype)
    updates = np.array([np.nan, 5, 2], dtype)
    i = np.array([0, 1, 2])
    y = ops.scatter_elements(fed("x", x), fed("i", i), fed("u", updates), reduction=how)
    found = run(y, {"x": x, "i": i, "u": updates})
    np.testing.assert_array_equal(found, FUNCTIONS[how](x, updates))


def test_more_than_six_axes(rng):
    x = rng.integers(0, 9, (2, 1, 3, 2, 2, 3, 2)).astype(np.float16)
    indices = rng.integers(-3, 3, (2, 1, 2, 1, 2, 3, 2))
    y = ops.gather_elements(fed("x", x), fed("i", indices), axis=2)
    found = run(y, {"x": x, "i": indices}, 1, "index loop")
    np.testing.assert_array_equal(found, np.take_along_axis(x[:, :, :, :1], indices % 3, 2))
    updates = rng.integers(0, 9, indices.shape).astype(np.float16)
    y = ops.scatter_elements(
        fed("x", x), fed("i", indices), fed("u", updates), axis=2, reduction="add"
    )
    found = run(y, {"x": x, "i": indices, "u": updates}, 1, "index loop")
    expected = x.copy()
    for at in np.ndindex(indices.shape):
        expected[(*at[:2], indices[at], *at[3:])] += updates[at]
    np.testing.assert_array_equal(found, expected)


def test_indices_beyond_the_data_on_another_axis():
    x, wide = np.zeros((2, 3), np.float32), np.zeros((5, 3), np.int64)
    with pytest.raises(NeuralsymError, match="axis 0"):
        ops.gather_elements(fed("x", x), fed("i", wide), axis=1)
    i = fed("i", wide, ("A", 3))
    cell = compiled(ops.gather_elements(fed("x", x), i, axis=1, name="lookup"))
    with pytest.raises(NeuralsymError, match="lookup"):
        computed(cell, {"x": x, "i": wide})


def test_updates_of_another_size():
    x, i, u = np.zeros((4, 3), np.float32), np.zeros((2, 1), np.int64), np.zeros((2, 3), np.float32)
    named = fed("i", i, ("A", 1)), fed("u", u, ("B", 3))
    cell = compiled(ops.scatter_nd(fed("x", x), *named, name="writes"))
    with pytest.raises(NeuralsymError, match="writes"):
        computed(cell, {"x": x, "i": i, "u": u[:1]})


# -- the whole family, drawn ---------------------------------------------------------------------
TYPES = ["float32", "float16", "bool", "int64", "complex64"]


@st.composite
def data_of(draw, low=1):
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=low, max_size=4)))
    return filled(shape, draw(st.sampled_from(TYPES)))


def places(draw, limits, dtype="int64"):
    """Indices below the limits, an array of them of that shape, some counted from the back."""
    picks = [draw(st.integers(-n, n - 1)) for n in limits.reshape(-1).tolist()]
    return np.array(picks, dtype).reshape(limits.shape)


@settings(max_examples=60)
@given(data_of(), st.data())
def test_gather(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=2)))
    size = x.shape[axis]
    if not size:
        shape = (*shape, 0)
    kind = data.draw(st.sampled_from(["int32", "int64"]))
    indices = places(data.draw, np.full(shape, size), kind)
    (found,) = by_us("Gather", {"x": x, "i": indices}, {"axis": axis}, kernel="gather")
    np.testing.assert_array_equal(found, np.take(x, indices, axis))


@settings(max_examples=60)
@given(data_of(), st.data())
def test_gather_nd_of_every_type(x, data):
    batch = data.draw(st.integers(0, x.ndim - 1))
    length = data.draw(st.integers(1, x.ndim - batch))
    count = data.draw(st.integers(0, 3))
    limits = np.array(x.shape[batch : batch + length])
    if 0 in limits:
        count = 0
    indices = places(data.draw, np.broadcast_to(limits, (*x.shape[:batch], count, length)))
    attrs = {"batch_dims": batch}
    (found,) = by_us("GatherND", {"x": x, "i": indices}, attrs, kernel="tuples")
    expected = np.empty((*x.shape[:batch], count, *x.shape[batch + length :]), x.dtype)
    for at in np.ndindex(*x.shape[:batch], count):
        expected[at] = x[(*at[:batch], *indices[at])]
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=60)
@given(data_of(), st.sampled_from(["none", *FUNCTIONS]), st.data())
def test_scatters(x, how, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    shape = [data.draw(st.integers(0, n)) for n in x.shape]
    if how == "none":
        # Places that repeat have no defined result.
        line = data.draw(st.permutations(range(x.shape[axis])))[: shape[axis]]
        order = np.array(line, np.int64).reshape(
            [-1 if a == axis % x.ndim else 1 for a in range(x.ndim)]
        )
        indices = np.broadcast_to(order, shape).copy()
    else:
        shape[axis] = data.draw(st.integers(0, 3)) if x.shape[axis] else 0
        indices = places(data.draw, np.full(shape, x.shape[axis]))
    updates = filled(tuple(shape), x.dtype)[::-1].copy()
    attrs = {"axis": axis, "reduction": how}
    (found,) = by_us("ScatterElements", {"x": x, "i": indices, "u": updates}, attrs)
    expected = x.copy()
    for at in np.ndindex(*shape):
        spot = list(at)
        spot[axis] = indices[at]
        old, new = expected[tuple(spot)], updates[at]
        expected[tuple(spot)] = new if how == "none" else FUNCTIONS[how](old, new)
    np.testing.assert_array_equal(found, expected)
