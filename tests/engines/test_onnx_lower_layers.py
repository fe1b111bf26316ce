"""Elements and layers in files of an older opset: types, special values, pools, resizing.

Compared with numpy where it has the operator, else with a file of a newer opset; all by
onnxruntime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowering import ALL, SOME, F, agree, floats, lowered, made, run, variable

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.engines import onnx as engine
from neuralsym.errors import FormatError

# -- elements ----------------------------------------------------------------------------------
SPECIAL = np.array(
    [0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 1e30, -7.7, np.nan, np.inf, -np.inf], F
)


@pytest.mark.oracle
def test_elements_that_came_later() -> None:
    """NaN and infinities included: nothing hides behind an expression that is only nearly right."""
    a, b = (m.reshape(-1).copy() for m in np.meshgrid(SPECIAL, SPECIAL))
    x, y = variable(a, "a"), variable(b, "b")
    with np.errstate(invalid="ignore"):
        rows = [
            (made("Equal", x, y)[0], a == b),
            (made("GreaterOrEqual", x, y)[0], a >= b),
            (made("LessOrEqual", x, y)[0], a <= b),
            (made("IsNaN", x)[0], np.isnan(a)),
            (made("IsInf", x)[0], np.isinf(a)),
            (made("IsInf", x, detect_negative=0)[0], np.isposinf(a)),
            (made("Round", x)[0], np.round(a)),
            (made("Where", made("Less", x, y)[0], x, y)[0], np.where(a < b, a, b)),
            (made("Max", x, y)[0], np.maximum(a, b)),
        ]
    outputs = [symbol for symbol, _ in rows]
    agree(Graph(outputs), {"a": a, "b": b}, SOME, [wanted for _, wanted in rows])


@pytest.mark.oracle
@settings(max_examples=40)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_rounding_of_any_number(values: list[float]) -> None:
    x = np.array(values, F)
    graph = Graph(made("Round", ops.variable("x", (len(values),)))[0])
    agree(graph, {"x": x}, (7,), [np.round(x)])


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_integers_that_older_operators_do_not_take(dtype: str) -> None:
    """Sums wrap around as they do in the type itself; what chooses is done in a wider one."""
    info = np.iinfo(dtype)
    a = np.array([info.min, -1 % (info.max + 1), 3, info.max, 100, 7]).astype(dtype)
    b = np.array([5, info.max, 4, info.max, 100, 2]).astype(dtype)
    x, y = variable(a, "a"), variable(b, "b")
    with np.errstate(over="ignore"):
        rows = [
            (made("Add", x, y)[0], a + b),
            (made("Mul", x, y)[0], a * b),
            (made("Sub", x, y)[0], a - b),
            (made("Max", x, y)[0], np.maximum(a, b)),
            (made("Relu", made("Cast", x, to="int16")[0])[0], np.maximum(a.astype("int16"), 0)),
            (made("Less", x, y)[0], a < b),
            (made("Equal", x, y)[0], a == b),
        ]
    # onnxruntime casts out of range as the text says from 13 on, and has few of the types itself.
    agree(Graph([s for s, _ in rows]), {"a": a, "b": b}, (7, 9, 11, 13), [w for _, w in rows])


@pytest.mark.oracle
def test_powers_of_mixed_types() -> None:
    x, n = np.abs(floats(5)) + F(0.5), np.array([1, 2, 0, 3, 2])
    exponent = variable(n, "n")
    y = made("Pow", variable(x), exponent)[0]
    whole = made("Pow", exponent, np.array(2, np.int64))[0]
    agree(Graph([y, whole]), {"x": x, "n": n}, SOME, [(x**n).astype(F), n**2])


@pytest.mark.oracle
@pytest.mark.parametrize("k", [-2, 0, 1])
def test_triangles(k: int) -> None:
    x = floats(2, 3, 4)
    symbol = variable(x)
    upper, lower = (made("Trilu", symbol, np.array(k), upper=u)[0] for u in (1, 0))
    agree(Graph([upper, lower]), {"x": x}, (9, 12, 14), [np.triu(x, k), np.tril(x, k)])


@pytest.mark.oracle
def test_remainders_of_28() -> None:
    a = np.array([-7, 7, -7, 7, 0, 6], F)
    b = np.array([3, -3, -3, 3, 2, 3], F)
    x, y = variable(a, "a"), variable(b, "b")
    wanted = [np.mod(a, b), np.fmod(a.astype(int), b.astype(int))]
    whole = [made("Cast", s, to="int64")[0] for s in (x, y)]
    graph = Graph([made("Mod", x, y, fmod=0)[0], made("Mod", *whole, fmod=1)[0]])
    agree(graph, {"a": a, "b": b}, (10, 13, 18), wanted)


@pytest.mark.oracle
@pytest.mark.parametrize("axis", [0, -1])
def test_quantisation_for_each_channel(axis: int) -> None:
    x = np.array([[-50, 0.3, 300, 2.5], [0.25, 0.75, 1.25, -3.5], [9, 8, 7, 1e9]], F)
    size = x.shape[axis]
    scale = np.linspace(0.25, 2, size).astype(F)
    zero = np.arange(size).astype(np.int8)
    q = made("QuantizeLinear", variable(x), scale, zero, axis=axis)[0]
    back = made("DequantizeLinear", q, scale, zero, axis=axis)[0]
    agree(Graph([q, back]), {"x": x}, (10, 11, 12, 13))


# -- layers ------------------------------------------------------------------------------------
@pytest.mark.oracle
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_along_one_axis(op: str, axis: int) -> None:
    x = floats(2, 3, 4)
    agree(Graph(made(op, variable(x), axis=axis)[0]), {"x": x}, ALL)


@pytest.mark.oracle
def test_batch_normalisation_of_training() -> None:
    x, norm = floats(4, 3, 5), [floats(3), floats(3, seed=1), floats(3, seed=2), np.ones(3, F)]
    y = made("BatchNormalization", variable(x), *norm, outputs=3, training_mode=1, momentum=0.8)
    agree(Graph(y), {"x": x}, SOME)


@pytest.mark.oracle
@settings(max_examples=30)
@given(st.data())
def test_pools_that_round_up(data: st.DataObject) -> None:
    """Windows, strides and padding of all kinds; the sizes are those of 22."""
    size, kernel = data.draw(st.integers(3, 9)), data.draw(st.integers(1, 3))
    stride = data.draw(st.integers(1, 4))
    pads = [data.draw(st.integers(0, kernel - 1)) for _ in range(2)]
    x = floats(1, 2, size)
    op = data.draw(st.sampled_from(["MaxPool", "AveragePool", "LpPool"]))
    attrs = {"kernel_shape": [kernel], "strides": [stride], "pads": pads, "ceil_mode": 1}
    graph = Graph(made(op, variable(x), **attrs)[0])
    agree(graph, {"x": x}, (7, 9, 10, 19, 21), run(lowered(graph, 22), {"x": x}))


@pytest.mark.oracle
@pytest.mark.parametrize("op", ["GRU", "LSTM", "RNN"])
def test_batch_first(op: str) -> None:
    """onnxruntime has no batch first at all: compared with the same, time first."""
    gates = {"GRU": 3, "LSTM": 4, "RNN": 1}[op]
    x, w, r = floats(2, 5, 3), floats(1, gates * 4, 3), floats(1, gates * 4, 4)
    count = 3 if op == "LSTM" else 2
    start = [None, None, floats(2, 1, 4)]
    y = made(op, variable(x), w, r, *start, outputs=count, hidden_size=4, layout=1)
    turned = [None, None, start[2].swapaxes(0, 1)]
    same = made(op, x.swapaxes(0, 1), w, r, *turned, outputs=count, hidden_size=4)
    wanted = run(engine.of_symbolic(Graph(same)), {})
    wanted = [wanted[0].transpose(2, 0, 1, 3), *(v.swapaxes(0, 1) for v in wanted[1:])]
    agree(Graph(y), {"x": x}, (7, 11, 13), wanted)


RESIZES: list[dict[str, Any]] = [
    {"mode": "nearest", "scales": [2, 3]},
    {"mode": "nearest", "scales": [2, 3], "coordinate_transformation_mode": "asymmetric",
     "nearest_mode": "floor"},
    {"mode": "nearest", "scales": [0.6, 1.7], "nearest_mode": "ceil"},
    {"mode": "linear", "scales": [2, 2]},
    {"mode": "linear", "scales": [2, 1.5], "coordinate_transformation_mode": "asymmetric"},
    {"mode": "linear", "sizes": [3, 9], "coordinate_transformation_mode": "align_corners"},
    {"mode": "cubic", "sizes": [5, 7], "coordinate_transformation_mode": "pytorch_half_pixel"},
    {"mode": "cubic", "scales": [1.5, 0.5], "exclude_outside": 1},
    {"mode": "linear", "sizes": [2, 3], "antialias": 1},
    {"mode": "linear", "scales": [2, 2], "coordinate_transformation_mode": "half_pixel_symmetric"},
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("setting", RESIZES, ids=str)
@pytest.mark.parametrize("batch", [1, "N"])
def test_resizing(setting: dict[str, Any], batch: Any) -> None:
    x = floats(1, 2, 4, 6)
    attrs = dict(setting)
    scales, sizes = attrs.pop("scales", None), attrs.pop("sizes", None)
    given_scales = None if scales is None else np.array(scales, F)
    given_sizes = None if sizes is None else np.array(sizes)
    symbol = ops.variable("x", (batch, 2, 4, 6))
    y = made("Resize", symbol, None, given_scales, given_sizes, axes=(2, 3), **attrs)[0]
    agree(Graph(y), {"x": x}, ALL, run(lowered(Graph(y), 19), {"x": x}))


def test_crops_need_an_opset_that_has_them() -> None:
    roi = np.array([0, 0, 0.2, 0.2, 1, 1, 0.8, 0.8], F)
    attrs = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    y = made("Resize", ops.variable("x", (1, 1, 4, 4)), roi, None, np.array([1, 1, 3, 3]), **attrs)
    lowered(Graph(y[0]), 11)
    with pytest.raises(FormatError, match=r"Resize .*crops cannot be said.*opset=11"):
        lowered(Graph(y[0]), 10)


@pytest.mark.oracle
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("batch", [2, "N"])
def test_sampling_on_a_grid(mode: str, padding: str, align: int, batch: Any) -> None:
    """Places outside the image too; half of the grid lies beyond it."""
    image, grid = floats(2, 3, 4, 5), floats(2, 3, 2, 2) * F(1.2)
    attrs = {"mode": mode, "padding_mode": padding, "align_corners": align}
    symbol = ops.variable("image", (batch, 3, 4, 5))
    y = made("GridSample", symbol, ops.variable("grid", (batch, 3, 2, 2)), **attrs)[0]
    feed = {"image": image, "grid": grid}
    opsets = (9, 10, 11, 13, 15, 16) if batch == 2 else (11, 13, 15, 16)
    agree(Graph(y), feed, opsets, run(lowered(Graph(y), 20), feed), rtol=1e-4)
