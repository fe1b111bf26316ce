"""Files of an older opset compute the same as the graph, or are refused by name.

The checker passes each file, and onnxruntime's result of it is compared with the result of the
file in the lowest opset that needs no rewriting, or with numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from every_operator import Case, case_of
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernelThere
from test_onnx_every_version import RANDOM, attempt, differences, taken_out

from neuralsym import ops, zoo
from neuralsym.core.graph import Graph
from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.core.symbol import Symbol
from neuralsym.engines import onnx as engine
from neuralsym.engines.onnx.checking import check_draft
from neuralsym.engines.onnx.lower import RULES
from neuralsym.engines.onnx.opsets import history
from neuralsym.engines.onnx.write import draft, tensor_proto
from neuralsym.errors import FormatError

Array = np.ndarray[Any, Any]
F = np.float32

# StringNormalizer asks onnxruntime for a locale that few machines have; of Resize's crops
# onnxruntime knows no other way of rounding their edges.
NOT_RUN = {"StringNormalizer"}


def lowered(graph: Graph, opset: int) -> onnx.ModelProto:
    """The model in that opset, passed by the checker with strict inference."""
    made = draft(graph, opset)
    check_draft(made)
    model = made.whole(map(tensor_proto, made.stored))
    assert [i.version for i in model.opset_import if not i.domain] == [opset]
    return model


def run(model: onnx.ModelProto, feed: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = {i.name for i in session.get_inputs()}
    values: list[Array] = session.run(None, {k: v for k, v in feed.items() if k in names})
    return values


def agree(
    graph: Graph,
    feed: dict[str, Array],
    opsets: Sequence[int],
    wanted: Sequence[Array] | None = None,
    rtol: float = 2e-5,
) -> None:
    """Each opset's file gives what is wanted, or what the file of the default opset gives."""
    if wanted is None:
        wanted = run(engine.of_symbolic(graph), feed)
    for opset in opsets:
        try:
            got = run(lowered(graph, opset), feed)
        except NoKernelThere:  # a type that onnxruntime leaves out of that version
            continue
        for a, b in zip(got, wanted, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), opset
            if a.dtype.kind in "biu":
                np.testing.assert_array_equal(a, b, err_msg=str(opset))
            else:
                np.testing.assert_allclose(a, b, rtol, 2e-6, err_msg=str(opset))


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(F)


def made(op: str, *inputs: Any, outputs: int = 1, **attrs: Any) -> tuple[Symbol, ...]:
    return apply(find_op(op), inputs, attrs, outputs=outputs)


def variable(array: Array, name: str = "x") -> Symbol:
    return ops.variable(name, array.shape, array.dtype)


ALL = range(7, 26)
"""The opsets from the lowest that can be asked for to the newest that onnxruntime runs."""
SOME = (7, 9, 10, 12, 14, 17, 20)


# -- every operator ----------------------------------------------------------------------------
def newest() -> list[tuple[str, int]]:
    found = []
    for (domain, name), schemas in sorted(history().items()):
        versions = [s.since_version for s in schemas]
        versions = [v for v in versions if not taken_out((domain, name, v))]
        if not domain and name not in RANDOM | NOT_RUN:
            found.append((name, versions[-1]))
    return found


def what_is_wrong(name: str, version: int, opsets: Sequence[int]) -> dict[int, str]:
    """What goes wrong with an operator's case in some opsets."""
    case = case_of("", name, version)
    graph = engine.to_symbolic(case.model)
    whole = Case(engine.of_symbolic(graph), case.feed)
    wanted = attempt("onnxruntime", whole) or attempt("reference", whole)
    assert wanted is not None
    wrong: dict[int, str] = {}
    for opset in opsets:
        try:
            model = lowered(graph, opset)
        except FormatError as error:
            text = str(error).splitlines()[0]
            if f" cannot be written in opset {opset}: " not in text or "give opset=" not in text:
                wrong[opset] = text
            continue
        got = attempt("onnxruntime", Case(model, case.feed))
        if got is not None:
            difference = differences(got, wanted)
            if difference:
                wrong[opset] = difference
    return wrong


@pytest.mark.oracle
def test_every_operator_at_several_opsets() -> None:
    wrong = {(n, v): found for n, v in newest() if (found := what_is_wrong(n, v, (8, 11, 16)))}
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("part", range(4))
def test_every_operator_at_every_opset(part: int) -> None:
    rows = newest()[part::4]
    assert {row: found for row in rows if (found := what_is_wrong(*row, range(7, 28)))} == {}


LOWEST = {
    **dict.fromkeys(
        ["Abs", "BatchNormalization", "Celu", "Clip", "Conv", "ConvTranspose", "DepthToSpace"], 7
    ),
    **dict.fromkeys(["Dropout", "Elu", "Equal", "Expand", "Flatten", "Gather", "Gemm", "GRU"], 7),
    **dict.fromkeys(["GlobalMaxPool", "GreaterOrEqual", "GroupNormalization", "HardSwish"], 7),
    **dict.fromkeys(["If", "IsInf", "IsNaN", "LSTM", "LayerNormalization", "LessOrEqual"], 7),
    **dict.fromkeys(["LogSoftmax", "Loop", "Max", "MeanVarianceNormalization", "Mish", "Pad"], 7),
    **dict.fromkeys(["ReduceL2", "ReduceLogSumExp", "ReduceMean", "ReduceSum", "Reshape"], 7),
    **dict.fromkeys(["Resize", "Round", "Shape", "Sign", "Slice", "Softmax"], 7),
    **dict.fromkeys(["SpaceToDepth", "Split", "Squeeze", "SwiGLU", "Swish", "TopK"], 7),
    **dict.fromkeys(["Unsqueeze", "Upsample", "Where", "RMSNormalization", "ThresholdedRelu"], 7),
    **dict.fromkeys(["Erf", "Gelu", "NonZero", "OneHot", "Scan"], 9),
    **dict.fromkeys(["DynamicQuantizeLinear", "Mod", "QuantizeLinear"], 10),
    **dict.fromkeys(["CumSum", "Range", "SequenceAt"], 11),
    **dict.fromkeys(["Attention", "DequantizeLinear"], 7),
    "DFT": 17,
    "GridSample": 16,
    "RoiAlign": 16,
    "STFT": 17,
}
"""The lowest opset that can say the case of an operator."""


def test_operators_reach_down_as_far_as_they_can() -> None:
    versions = dict(newest())
    found = {}
    for name in LOWEST:
        graph = engine.to_symbolic(case_of("", name, versions[name]).model)
        for opset in range(7, 28):
            try:
                draft(graph, opset)
            except FormatError:
                continue
            found[name] = opset
            break
    assert found == LOWEST


def test_rules_speak_of_operators_that_exist() -> None:
    for name in RULES:
        assert ("", name) in history(), name


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


# -- whole graphs ------------------------------------------------------------------------------
def network() -> Graph:
    """Convolutions, batch norm, relu6, a residual, pooling, dropout, a classifier."""
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> Array:
        return (rng.standard_normal(shape) / 4).astype(F)

    x = ops.variable("image", ("N", 3, 12, 12))
    y = ops.conv(x, weight(8, 3, 3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    y = ops.batch_normalization(y, weight(8) + 1, weight(8), weight(8), np.abs(weight(8)) + F(0.5))
    y = ops.clip(y, F(0), F(6))
    y = y + ops.hard_swish(ops.conv(y, weight(8, 8, 3, 3), pads=(1, 1, 1, 1)))
    y = ops.max_pool(y, kernel_shape=(2, 2), strides=(2, 2), ceil_mode=1)
    y = ops.reduce_mean(y, np.array([2, 3]), keepdims=0)
    y = ops.dropout(y, F(0.2))
    y = ops.gemm(y, weight(8, 5))
    return Graph({"probs": ops.softmax(y, axis=-1)})


def transformer() -> Graph:
    """One block of attention: layer norms, heads by reshaping, gelu, a mask of a triangle."""
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> Array:
        return (rng.standard_normal(shape) / 4).astype(F)

    x = ops.variable("tokens", ("N", 6, 8))
    y = ops.layer_normalization(x, weight(8) + 1, weight(8))
    heads = ops.split(y @ weight(8, 24), num_outputs=3, axis=-1)
    q, k, v = (
        ops.transpose(ops.reshape(h, np.array([0, 6, 2, 4])), perm=(0, 2, 1, 3)) for h in heads
    )
    scores = q @ ops.transpose(k, perm=(0, 1, 3, 2)) * F(0.5)
    mask = ops.trilu(ops.constant(np.ones((6, 6), bool)), upper=0)
    scores = ops.where(mask, scores, F(-1e9))
    y = ops.softmax(scores, axis=-1) @ v
    y = x + ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), np.array([0, 6, 8]))
    y = y + ops.gelu(ops.rms_normalization(y, weight(8)) @ weight(8, 16)) @ weight(16, 8)
    return Graph({"out": y[:, -1], "norm": ops.reduce_l2(y, np.array([-1]))})


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("build", "name", "shape", "lowest"),
    [(network, "image", (2, 3, 12, 12), 7), (transformer, "tokens", (2, 6, 8), 9)],
)
def test_networks(
    build: Callable[[], Graph], name: str, shape: tuple[int, ...], lowest: int
) -> None:
    graph, x = build(), floats(*shape)
    agree(graph, {name: x}, range(lowest, 24), rtol=1e-4)
    model = lowered(graph, lowest)
    assert [o.name for o in model.graph.output] == list(graph.output_names)
    assert [i.name for i in model.graph.input] == [name]
    assert engine.to_symbolic(model).output_names == graph.output_names


@pytest.mark.oracle
def test_bodies_are_lowered_too() -> None:
    """What a loop's body and what lies around it use; its captures are outer names still."""
    x = floats(2, 3)
    scale = ops.hard_swish(ops.variable("x", (2, 3)))

    def step(i: Symbol, s: Symbol) -> tuple[Symbol, Symbol]:
        t = ops.softmax(s + scale, axis=0)
        return t, ops.reduce_sum(ops.hard_swish(t), np.array([-1]))

    results = ops.loop(3, None, step, ops.variable("x0", (2, 3)))
    agree(Graph(results), {"x": x, "x0": x}, (7, 9, 11, 13))


@pytest.mark.oracle
def test_a_saved_file_runs(tmp_path: Path) -> None:
    graph, x = network(), floats(1, 3, 12, 12)
    path = tmp_path / "old.onnx"
    engine.save(graph, path, opset=9)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == 9
    assert model.ir_version == 4
    # Settings became attributes, so nothing is stored that no node reads.
    used = {name for node in model.graph.node for name in node.input}
    assert {t.name for t in model.graph.initializer} <= used
    wanted = run(engine.of_symbolic(graph), {"image": x})
    np.testing.assert_allclose(run(model, {"image": x})[0], wanted[0], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("name", ["squeezenet1_1", "resnet18", "mobilenet_v2"])
def test_models_of_the_zoo(name: str) -> None:
    if name not in zoo.models():
        pytest.skip("not in the zoo yet")
    made_ = zoo.create(name)
    graph = getattr(made_, "graph", made_)
    x = floats(1, *(int(s) for s in graph.inputs[0].shape[1:]))
    agree(graph, {graph.input_names[0]: x}, (7, 9, 11, 13), rtol=1e-3)


# -- what cannot be said -----------------------------------------------------------------------
def test_a_refusal_says_what_where_why_and_what_to_do() -> None:
    y = ops.cum_sum(ops.variable("x", (2, 3)), np.array(0), name="running")
    with pytest.raises(FormatError) as caught:
        engine.of_symbolic(Graph(y), opset=9)
    text = str(caught.value)
    assert text.startswith("CumSum 'running' cannot be written in opset 9: CumSum is new in ")
    assert "the lowest that can say it is 11: give opset=11" in text
    assert f"{Path(__file__).name}:" in text


def test_the_lowest_opset_is_the_one_that_rewriting_reaches() -> None:
    """Gelu is new in 20, yet its body is said from 9 on."""
    with pytest.raises(FormatError, match="the lowest that can say it is 9"):
        engine.of_symbolic(Graph(ops.gelu(ops.variable("x", (3,)))), opset=8)


def test_operators_taken_out_beside_newer_ones() -> None:
    tree, other = (
        engine.to_symbolic(case_of("ai.onnx.ml", name, version).model).outputs[0]
        for name, version in (("TreeEnsembleRegressor", 1), ("TreeEnsemble", 5))
    )
    x = ops.variable("x", (2, 2))
    both = [apply(s.node.op, [x], s.node.attrs)[0] for s in (tree, other)]
    with pytest.raises(FormatError, match=r"TreeEnsembleRegressor .*taken out after version 4"):
        engine.of_symbolic(Graph(both))
