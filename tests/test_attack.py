"""Absurd and broken input: a clear error of ours, in short time and little memory, or the answer.

Also what numbers at the edge give: NaN, infinities, the ends of the integers, division by zero.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from neuralsym import Graph, Network, NeuralsymError, Symbol, TypeMismatch, WeightsError, load, ops
from neuralsym.cli import main
from neuralsym.engines import onnx as engine
from neuralsym.layers import get_network, input, linear

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
HUGE = 2**40


def info(name: str, shape: Sequence[int | str] | None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    **stored: Any,
) -> onnx.ModelProto:
    """A model with output y; `stored` are initializers."""
    tensors = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in stored.items()]
    graph = helper.make_graph(nodes, "g", inputs, [info("y", None)], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def answer(fn: Callable[..., Symbol], *arrays: NDArray[Any]) -> NDArray[Any]:
    names = [f"x{k}" for k in range(len(arrays))]
    symbols = [ops.variable(n, a.shape, str(a.dtype)) for n, a in zip(names, arrays, strict=True)]
    network = Network(Graph({"y": fn(*symbols)}, inputs=symbols))
    result: NDArray[Any] = network.run(dict(zip(names, arrays, strict=True)))["y"]
    return result


# -- sizes beyond all measure ------------------------------------------------------------------
IMAGE = info("x", [1, 2, 8, 8])
MATRIX = info("x", [2, 8])
NODE = helper.make_node
ABSURD = {
    "a kernel of 2^40": model(
        [NODE("Conv", ["x", "w"], ["y"], kernel_shape=[HUGE] * 2)],
        [IMAGE],
        w=np.ones((4, 2, 3, 3), np.float32),
    ),
    "no groups": model(
        [NODE("Conv", ["x", "w"], ["y"], group=0)], [IMAGE], w=np.ones((4, 2, 3, 3), np.float32)
    ),
    "a window of padding": model(
        [NODE("MaxPool", ["x"], ["y"], kernel_shape=[2**33, 1], pads=[2**32, 0, 2**32, 0])],
        [IMAGE],
    ),
    "padding without end": model(
        [NODE("Conv", ["x", "w"], ["y"], pads=[2**30] * 4)],
        [IMAGE],
        w=np.ones((4, 2, 3, 3), np.float32),
    ),
    "2^40 parts": model([NODE("Split", ["x"], ["y"], num_outputs=HUGE)], [MATRIX]),
    "copies": model([NODE("Tile", ["x", "n"], ["y"])], [MATRIX], n=np.array([10**9] * 2)),
    "a shape of -2": model([NODE("Reshape", ["x", "n"], ["y"])], [MATRIX], n=np.array([-2, 8])),
    "terabytes": model([NODE("ConstantOfShape", ["n"], ["y"])], n=np.array([10**13])),
    "beyond 64 bits": model([NODE("ConstantOfShape", ["n"], ["y"])], n=np.array([HUGE] * 3)),
    "expanded": model([NODE("Expand", ["x", "n"], ["y"])], [MATRIX], n=np.array([HUGE, 2, 8])),
    "a range": model(
        [NODE("Range", ["a", "b", "c"], ["y"])],
        a=np.array(0),
        b=np.array(10**13),
        c=np.array(1),
    ),
    "nothing resized": model(
        [NODE("Resize", ["x", "", "", "n"], ["y"])],
        [info("x", [1, 2, 0, 8])],
        n=np.array([1, 2, 4, 4]),
    ),
    "a negative state": model(
        [NODE("LSTM", ["x", "w", "r"], ["y"], hidden_size=-5)],
        [info("x", [3, 2, 4])],
        w=np.ones((1, 12, 4), np.float32),
        r=np.ones((1, 12, 3), np.float32),
    ),
    "an axis far off": model([NODE("Softmax", ["x"], ["y"], axis=-(2**62))], [MATRIX]),
    "an index far off": model([NODE("Gather", ["x", "i"], ["y"])], [MATRIX], i=np.array([5])),
}


def load_and_run(proto: onnx.ModelProto) -> None:
    network = load(proto)
    sizes = {p.name: [d for d in p.shape or () if isinstance(d, int)] for p in network.inputs}
    network.run({name: np.ones(shape, np.float32) for name, shape in sizes.items()})


@pytest.mark.filterwarnings("ignore:.*declares types that contradict")  # y is not said to be int64
@pytest.mark.parametrize("name", ABSURD)
def test_absurd_models_are_refused(name: str) -> None:
    with pytest.raises(NeuralsymError) as caught:
        load_and_run(ABSURD[name])
    assert "status" not in str(caught.value)


@pytest.mark.parametrize("operator", ["Gather", "GatherElements", "GatherND"])
@pytest.mark.parametrize("index", [99, 2**61, -(2**62)])
def test_an_index_outside_stops_the_run(operator: str, index: int) -> None:
    network = load(model([NODE(operator, ["x", "i"], ["y"])], [MATRIX, info("i", [2, 2], INT64)]))
    with pytest.raises(NeuralsymError, match="outside its axis"):
        network.run({"x": np.ones((2, 8), np.float32), "i": np.full((2, 2), index)})


def test_functions_that_multiply() -> None:
    made = model([NODE("F24", ["x"], ["y"], domain="my")], [MATRIX])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)]
    inner = [NODE("Relu", ["a"], ["b"])]
    for k in range(25):
        made.functions.append(helper.make_function("my", f"F{k}", ["a"], ["b"], inner, imports))
        call = f"F{k}"
        inner = [NODE(call, ["a"], ["t"], domain="my"), NODE(call, ["t"], ["b"], domain="my")]
    made.opset_import.append(helper.make_opsetid("my", 1))
    with pytest.raises(NeuralsymError, match="called over"):
        load(made)


# -- bytes that were changed ---------------------------------------------------------------------
def valid_models() -> list[bytes]:
    """A few models that hold much of what a file can."""
    x = ops.variable("x", ("N", 2, 8, 8))
    kernel = np.arange(72, dtype=np.float32).reshape(4, 2, 3, 3)
    net = ops.relu(ops.conv(x, kernel, pads=[1, 1, 1, 1]))
    branch = ops.if_(ops.reduce_sum(net) > 0, lambda: net * 2, lambda: net - 1)
    old = model(
        [NODE("Clip", ["x"], ["t"], min=0.0), NODE("Slice", ["t"], ["y"], starts=[0], ends=[1])],
        [MATRIX],
    )
    del old.opset_import[:]
    old.opset_import.append(helper.make_opsetid("", 9))
    constant = NODE("Constant", [], ["c"], value_float=1.5)
    return [
        engine.of_symbolic(Graph({"y": net})).SerializeToString(),
        engine.of_symbolic(Graph({"y": branch})).SerializeToString(),
        old.SerializeToString(),
        model([constant, NODE("Add", ["x", "c"], ["y"])], [MATRIX]).SerializeToString(),
    ]


def changed(data: bytes, draw: random.Random) -> bytes:
    made = bytearray(data)
    kind = draw.random()
    place = draw.randrange(len(made))
    if kind < 0.15:
        return bytes(made[:place])
    if kind < 0.8:
        for _ in range(draw.choice([1, 1, 2, 5])):
            made[draw.randrange(len(made))] = draw.choice([draw.randrange(256), 0, 255, 128])
    elif kind < 0.9:
        made[place:place] = made[place : place + draw.randrange(1, 20)]
    else:
        del made[place : place + draw.randrange(1, 10)]
    return bytes(made)


def try_bytes(seed: int, count: int) -> None:
    draw = random.Random(seed)
    models = valid_models()
    refused = 0
    for _ in range(count):
        data = changed(draw.choice(models), draw)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load(data)
        except NeuralsymError:
            refused += 1
    assert refused > count // 4


def test_changed_bytes() -> None:
    try_bytes(1, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_changed_bytes(seed: int) -> None:
    try_bytes(seed, 10_000)


def test_names_that_are_no_text() -> None:
    data = engine.of_symbolic(Graph({"yyyy": ops.variable("x", (2,)) + 1})).SerializeToString()
    with pytest.raises(NeuralsymError, match="UTF-8"):
        load(data.replace(b"yyyy", b"yy\xffy"))


# -- what is fed and set -------------------------------------------------------------------------
def test_arrays_in_every_form() -> None:
    network = Network(Graph({"y": ops.variable("x", ("N", 3, 4)) * 2 + 1}))
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    frozen = x.copy()
    frozen.setflags(write=False)
    shifted = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    forms = [
        np.asfortranarray(x), x[::-1, :, ::-1], frozen, shifted, x[:0],
        np.broadcast_to(np.float32(3), x.shape), np.zeros((4, 3, 8), np.float32)[::2, :, ::2],
    ]  # fmt: skip
    for form in forms:
        np.testing.assert_array_equal(network.run(form)["y"], form * 2 + 1)
    wrong = [x.astype(object), x + 1j, x > 3, x.astype("datetime64[s]"), None, "abc", 10**400]
    for value in wrong:
        with pytest.raises(NeuralsymError):
            network.run({"x": value})


def test_weights_that_are_no_numbers() -> None:
    network = get_network(input((1, 4)) | linear(3))
    for value in (np.full((4, 3), 1j), np.full((4, 3), "a"), [[1], [2, 3]], None):
        with pytest.raises(WeightsError, match="linear/kernel"):
            network.set_weight("linear/kernel", value)  # type: ignore[arg-type]


def test_a_number_that_no_type_holds() -> None:
    with pytest.raises(TypeMismatch):
        ops.variable("x", (2,)) + 10**400


def test_a_command_without_enough_memory(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    path = tmp_path / "m.onnx"
    Network(Graph({"y": ops.variable("x", ("N", 1024)) + 1})).save(path)
    assert main(["run", str(path), "--random", "--dim", "N=99999999999999"]) == 1
    assert "memory" in capsys.readouterr().err


# -- numbers at the edge -------------------------------------------------------------------------
NAN, INF = np.float32(np.nan), np.float32(np.inf)
EDGE = np.resize(
    np.array([NAN, INF, -INF, 0.0, -0.0, 1.5, -2.5, 3e38, 1e-45], np.float32), 37
)  # one more than whole vectors
OTHER = np.roll(EDGE, 5)


@pytest.mark.parametrize(
    ("fn", "wanted"),
    [
        (lambda x, y: ops.relu(x), np.maximum(EDGE, 0)),
        (lambda x, y: ops.max([x, y]), np.maximum(EDGE, OTHER)),
        (lambda x, y: ops.min([x, y]), np.minimum(EDGE, OTHER)),
        (lambda x, y: ops.relu(ops.max([x, y]) + 1), np.maximum(np.maximum(EDGE, OTHER) + 1, 0)),
        (lambda x, y: ops.clip(x, np.float32(-1), np.float32(1)), np.clip(EDGE, -1, 1)),
        (lambda x, y: ops.where(ops.isnan(x), y, x), np.where(np.isnan(EDGE), OTHER, EDGE)),
        (lambda x, y: ops.reduce_max(x, np.array([0])), np.array([NAN])),
        (lambda x, y: ops.reduce_min(x[1:9], np.array([0])), np.array([-INF])),
        (lambda x, y: ops.argmax(x, axis=0), np.array([0])),
        (
            lambda x, y: ops.softmax(ops.where(ops.equal(x, INF), x, np.float32(1))),
            np.full(37, NAN),
        ),
    ],
    ids=["relu", "max", "min", "fused", "clip", "where", "reduce", "least", "argmax", "softmax"],
)
def test_nan_and_infinity(fn: Callable[..., Symbol], wanted: NDArray[Any]) -> None:
    np.testing.assert_array_equal(answer(fn, EDGE, OTHER), wanted)


def test_nan_in_a_window() -> None:
    x = np.zeros((1, 17, 6, 6), np.float32)
    x[0, 3, 2, 2], x[0, 16, 0, 0] = NAN, -INF
    y = answer(lambda s: ops.max_pool(s, kernel_shape=[2, 2], strides=[2, 2]), x)
    assert np.isnan(y[0, 3, 1, 1])
    assert np.isnan(y).sum() == 1
    lowest = np.full((1, 16, 8, 8), -INF, np.float32)
    y = answer(lambda s: ops.max_pool(s, kernel_shape=[3, 3], pads=[1] * 4), lowest)
    assert (y == -INF).all()


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_integers_never_trap(kind: str) -> None:
    ends = np.iinfo(kind)
    a = np.resize(np.array([ends.min, ends.max, 7, ends.min, 5], kind), 33)
    zero_or_end = np.array([0, 0, 0, -1 if ends.min else 3, 2])
    b = np.resize(zero_or_end.astype(kind), 33)
    with np.errstate(all="ignore"):
        quotient = answer(ops.div, a, b)
        np.testing.assert_array_equal(quotient[3::5], a[3::5] // b[3::5])
        np.testing.assert_array_equal(answer(ops.add, a, a), a + a)
        np.testing.assert_array_equal(answer(ops.mul, a, a), a * a)
    assert answer(ops.mod, a, b).shape == a.shape
    if not ends.min:
        shifted = answer(lambda x, y: ops.bit_shift(x, y, direction="LEFT"), a, a)
        assert (shifted[1::5] == 0).all()  # by more than the width


def test_quantising_saturates() -> None:
    x = np.array([INF, -INF, 1e30, -1e30, 300.7, 2.0**31, 9.3e18], np.float32)
    for kind in ("uint8", "int8", "int16", "uint16"):
        ends = np.iinfo(kind)
        y = answer(lambda s, k=kind: ops.quantize_linear(s, np.float32(1), np.array(3, k)), x)
        wanted = np.clip(np.rint(x.astype(np.float64)) + 3, ends.min, ends.max)
        np.testing.assert_array_equal(y, wanted.astype(kind))


@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "uint8", "uint64", "bool"])
def test_casts_of_what_does_not_fit(kind: str) -> None:
    x = np.resize(np.array([NAN, INF, -INF, 1e30, 7.9, -0.5], np.float32), 33)
    y = answer(lambda s: ops.cast(s, to=kind), x)
    assert (y[4::6] == (True if kind == "bool" else 7)).all()
    assert (y[5::6] == (kind == "bool")).all()
    assert len(set(y[0::6].tolist())) == 1  # the same within vectors and in the rest


def test_draws_of_one_or_zero_have_the_probability() -> None:
    p = np.full(20_000, 0.3, np.float32)
    network = Network(Graph({"y": ops.bernoulli(ops.variable("p", p.shape))}))
    drawn = network.run(p)["y"]
    assert set(drawn.tolist()) == {0.0, 1.0}
    assert abs(drawn.mean() - 0.3) < 6 * np.sqrt(0.3 * 0.7 / p.size)
