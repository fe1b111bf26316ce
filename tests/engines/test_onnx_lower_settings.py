"""Settings in files of an older opset: inputs that were attributes, axes, ends of shapes.

Compared with numpy, by onnxruntime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowering import ALL, SOME, F, agree, floats, lowered, made, variable

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.errors import FormatError


# -- settings that were attributes -------------------------------------------------------------
@pytest.mark.oracle
@settings(max_examples=40)
@given(st.data())
def test_slices(data: st.DataObject) -> None:
    """Any start, end and step on any axes, also counted from the end."""
    rank = data.draw(st.integers(1, 3))
    shape = data.draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank))
    axes = data.draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True))
    x = floats(*shape)
    rows: list[list[int]] = [[], [], [], []]
    wanted = x
    for axis in axes:
        low, high = (data.draw(st.integers(-7, 7)) for _ in range(2))
        step = data.draw(st.sampled_from([-3, -1, 1, 1, 2]))
        size = shape[axis]  # the text clamps a start to what is there, unlike numpy
        first, last = (v + size if v < 0 else v for v in (low, high))
        bounds = (0, size, 0, size) if step > 0 else (0, size - 1, -1, size - 1)
        places = range(np.clip(first, *bounds[:2]), np.clip(last, *bounds[2:]), step)
        wanted = wanted.take([*places], axis)
        axis -= rank * data.draw(st.integers(0, 1))
        for row, value in zip(rows, (low, high, axis, step), strict=True):
            row.append(value)
    y = made("Slice", variable(x), *(np.array(r, np.int64) for r in rows))[0]
    agree(Graph(y), {"x": x}, (7, 9, 10, 12), [wanted])


@pytest.mark.oracle
def test_slices_whose_bounds_are_computed_need_10() -> None:
    x = floats(3, 4)
    end = ops.variable("end", (1,), "int64")
    y = made("Slice", variable(x), np.array([0]), end, np.array([-1]))[0]
    feed = {"x": x, "end": np.array([2])}
    agree(Graph(y), feed, (10, 11, 13), [x[:, :2]])
    with pytest.raises(FormatError, match=r"Slice .*'ends' has to be a constant.*opset=10"):
        lowered(Graph(y), 9)


@pytest.mark.oracle
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads(mode: str) -> None:
    x = floats(3, 4, 2)
    y = made("Pad", variable(x), np.array([2, 1, 0, 2]), None, np.array([1, -3]), mode=mode)[0]
    agree(Graph(y), {"x": x}, SOME, [np.pad(x, ((1, 2), (2, 0), (0, 0)), mode)])  # type: ignore[call-overload]


@pytest.mark.oracle
@pytest.mark.parametrize("bounds", [(-0.5, 0.5), (None, 0.25), (-0.25, None), (None, None), (1, 0)])
def test_clip_lets_nan_through(bounds: tuple[Any, Any]) -> None:
    x = np.array([np.nan, -np.inf, -1, -0.0, 0.3, np.inf], F)
    if None in bounds:  # which onnxruntime takes for the largest number that is finite
        x = x[np.isfinite(x) | np.isnan(x)]
    y = made("Clip", variable(x), *(None if b is None else F(b) for b in bounds))[0]
    wanted = x
    if bounds[0] is not None:
        wanted = np.maximum(wanted, F(bounds[0]))
    if bounds[1] is not None:
        wanted = np.minimum(wanted, F(bounds[1]))
    agree(Graph(y), {"x": x}, SOME, [wanted])


@pytest.mark.oracle
def test_clip_with_bounds_of_the_run() -> None:
    x, low = floats(2, 3), np.array(-0.3, F)
    y = made("Clip", variable(x), variable(low, "low"), None)[0]
    agree(Graph(y), {"x": x, "low": low}, SOME, [np.maximum(x, low)])


@pytest.mark.oracle
@pytest.mark.parametrize("axes", [[], [0], [-1, 0], [1, -2]])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("noop", [0, 1])
def test_reductions(axes: list[int], keepdims: int, noop: int) -> None:
    if len(axes) == 2 and axes[1] == -2:
        axes = axes[:1]
    x = np.abs(floats(2, 3)) + F(0.5)
    given_axes = np.array(axes, np.int64)
    kinds = ("Sum", "Mean", "Max", "L1", "L2", "SumSquare", "LogSum", "LogSumExp", "Prod")
    symbol = variable(x)
    results = [
        made(f"Reduce{k}", symbol, given_axes, keepdims=keepdims, noop_with_empty_axes=noop)[0]
        for k in kinds
    ]
    agree(Graph(results), {"x": x}, SOME)


@pytest.mark.oracle
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_top_k(largest: int, dtype: str) -> None:
    x = np.random.default_rng(1).permutation(24).reshape(4, 6).astype(dtype)
    y = made("TopK", variable(x), np.array([3]), outputs=2, axis=-1, largest=largest)
    order = np.argsort(x if not largest else -x.astype(int), -1)[:, :3]
    wanted = [np.take_along_axis(x, order, -1), order]
    agree(Graph(y), {"x": x}, (7, 10, 11, 13), wanted)


@pytest.mark.oracle
@pytest.mark.parametrize("parts", [2, 3])
def test_splits_of_a_number_of_parts(parts: int) -> None:
    """What does not divide leaves less for the last, which only 18 says."""
    x = floats(2, 5)
    y = made("Split", variable(x), None, outputs=parts, axis=-1, num_outputs=parts)
    chunk = -(-5 // parts)
    agree(Graph(y), {"x": x}, SOME, [x[:, i * chunk : (i + 1) * chunk] for i in range(parts)])


@pytest.mark.oracle
def test_dropout_of_inference_and_its_mask() -> None:
    x = floats(2, 3)
    y = made("Dropout", variable(x), F(0.3), outputs=2)
    agree(Graph(y), {"x": x}, SOME, [x, np.ones_like(x, bool)])
    free = made("Dropout", ops.variable("x", ("N", 3)), F(0.3), outputs=2)
    agree(Graph(free), {"x": x}, SOME[1:], [x, np.ones_like(x, bool)])
    learning = made("Dropout", variable(x), F(0.3), np.array(True))[0]
    with pytest.raises(FormatError, match="training is no setting"):
        lowered(Graph(learning), 11)


@pytest.mark.oracle
def test_shapes_with_zeros() -> None:
    x = np.zeros((0, 3), F)
    for shape in ([3, 0], [0, 5, 2], [2, 0, 0]):
        y = made("Reshape", variable(x), np.array(shape), allowzero=1)[0]
        agree(Graph(y), {"x": x}, SOME, [x.reshape(shape)])
    x = floats(2, 3)
    y = made("Reshape", variable(x), np.array([3, -1]), allowzero=1)[0]
    agree(Graph(y), {"x": x}, SOME, [x.reshape(3, 2)])


@pytest.mark.oracle
@pytest.mark.parametrize("ends", [{}, {"start": 1}, {"end": -1}, {"start": -2, "end": 5}])
def test_part_of_a_shape(ends: dict[str, int]) -> None:
    x = ops.variable("x", ("N", "M", 4))
    y = made("Shape", x, **ends)[0]
    value = floats(2, 3, 4)
    wanted = np.array(value.shape)[slice(ends.get("start"), ends.get("end"))]
    agree(Graph(y), {"x": value}, SOME, [wanted])


@pytest.mark.oracle
def test_axes_counted_from_the_end() -> None:
    x = floats(2, 3, 4)
    s = variable(x)
    picked = np.array([1, -1])
    results = [
        made("Concat", s, s, axis=-2)[0],
        made("Gather", s, picked, axis=-2)[0],
        made("ArgMax", s, axis=-1)[0],
        made("Flatten", s, axis=-1)[0],
        made("LogSoftmax", s, axis=-2)[0],
        made("ArgMin", s, axis=-2, select_last_index=1, keepdims=0)[0],
        made("Unsqueeze", s, np.array([-1, 0]))[0],
        made("Squeeze", made("Unsqueeze", s, np.array([-1]))[0], np.array([-1]))[0],
    ]
    agree(Graph(results), {"x": x}, ALL)


@pytest.mark.oracle
def test_one_hot_of_indices_from_the_end() -> None:
    x = np.array([[0, -1, 2], [-3, 7, -9]])
    y = made("OneHot", variable(x), np.array(3), np.array([0, 1], F), axis=-2)[0]
    wrapped = np.where(x < 0, x + 3, x)
    wanted = (wrapped[:, None] == np.arange(3)[:, None]).astype(F)
    agree(Graph(y), {"x": x}, (9, 10, 11, 13), [wanted])


@pytest.mark.oracle
@settings(max_examples=30)
@given(st.data())
def test_elements_gathered_along_an_axis(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = floats(*shape)
    size = shape[axis]
    shape[axis] = data.draw(st.integers(1, 5))
    count = int(np.prod(shape))
    numbers = st.integers(-size, size - 1)
    chosen = np.array(data.draw(st.lists(numbers, min_size=count, max_size=count)))
    indices = chosen.reshape(shape)
    symbol = ops.variable("indices", shape, "int64")
    y = made("GatherElements", variable(x), symbol, axis=axis)[0]
    wanted = np.take_along_axis(x, np.where(indices < 0, indices + size, indices), axis)
    agree(Graph(y), {"x": x, "indices": indices}, (7, 9, 10, 11), [wanted])


@pytest.mark.oracle
@pytest.mark.parametrize(("batch", "depth"), [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (2, 1)])
def test_tuples_of_indices(batch: int, depth: int) -> None:
    x = floats(2, 3, 4)
    rng = np.random.default_rng(depth)
    limits = np.array(x.shape[batch : batch + depth])
    indices = rng.integers(-limits, limits, size=(*x.shape[:batch], 3, depth))
    symbol = variable(indices, "indices")
    y = made("GatherND", variable(x), symbol, batch_dims=batch)[0]
    feed = {"x": x, "indices": indices}
    wanted = np.empty((*x.shape[:batch], 3, *x.shape[batch + depth :]), F)
    for place in np.ndindex(wanted.shape[: batch + 1]):
        wanted[place] = x[(*place[:batch], *indices[place])]
    agree(Graph(y), feed, (7, 9, 11, 12), [wanted])


@pytest.mark.oracle
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scattering_by_tuples_of_indices(depth: int) -> None:
    x = floats(3, 3, 4)
    indices = np.array([[0, -1, 2], [2, 0, -3]])[:, :depth]
    updates = floats(2, *x.shape[depth:], seed=1)
    y = made("ScatterND", variable(x), variable(indices, "i"), variable(updates, "u"))[0]
    wanted = x.copy()
    for row, update in zip(indices, updates, strict=True):
        wanted[tuple(row)] = update
    agree(Graph(y), {"x": x, "i": indices, "u": updates}, (9, 10, 11), [wanted])
