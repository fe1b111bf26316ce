"""Older versions of operators keep their meaning when they are read.

Each model is run by onnxruntime in its own opset, and as we write it after reading. Opsets that
onnxruntime does not have are compared with the formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from lowering import run
from onnx import TensorProto, helper, numpy_helper

from neuralsym.engines import onnx as engine
from neuralsym.engines.onnx.opsets import history
from neuralsym.engines.onnx.raise_older import ADAPTERS

Array = np.ndarray[Any, Any]


def model_of(
    op: str,
    opset: int,
    inputs: Sequence[Array | None],
    attrs: dict[str, Any],
    outputs: int = 1,
    stored: Sequence[int] = (),
    domain: str = "",
) -> onnx.ModelProto:
    """A model of one node; the inputs numbered in `stored` are initializers."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, "node", domain=domain, **attrs)
    values = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for i, (n, a) in enumerate(zip(names, inputs, strict=True))
        if a is not None and i not in stored
    ]
    tensors = [numpy_helper.from_array(inputs[i], names[i]) for i in stored]
    graph = helper.make_graph([node], "g", values, [], tensors)
    graph.output.extend(onnx.ValueInfoProto(name=n) for n in results)
    opsets = [helper.make_opsetid("", 8 if domain else opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, opset))
    return helper.make_model(graph, ir_version=8, opset_imports=opsets)


def raised(model: onnx.ModelProto, feed: dict[str, Array]) -> list[Array]:
    """What onnxruntime computes for the model after it was read and written."""
    read = engine.read_model(model)
    assert read.graph.output_names == tuple(v.name for v in model.graph.output)
    written = engine.of_symbolic(read)
    onnx.checker.check_model(written, full_check=True)
    assert written.opset_import[0].version >= 18
    return run(written, feed)


def close(got: Sequence[Array], wanted: Sequence[Array]) -> None:
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def floats(*shape: int) -> Array:
    seed = sum(shape) + len(shape)
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


X = floats(2, 3, 4)
IMAGE = floats(1, 2, 4, 6)
F1 = np.float32
I = np.int64  # noqa: E741
NORM = [floats(3), floats(3), floats(3), np.abs(floats(3)) + F1(0.5)]

CASES: list[tuple[Any, ...]] = [
    # operator, opset, inputs, attributes, outputs, numbers of stored inputs
    *[(op, 11, [X], {"axis": a}) for op in ("Softmax", "LogSoftmax", "Hardmax") for a in (0, 1, 2)],
    *[(op, 7, [X], {}) for op in ("Softmax", "LogSoftmax", "Hardmax")],
    ("Softmax", 12, [X], {"axis": -2}),
    ("Squeeze", 11, [X[:, :1]], {"axes": [1]}),
    ("Squeeze", 7, [X[:1, :1]], {}),
    ("Unsqueeze", 11, [X], {"axes": [0, -1]}),
    *[(f"Reduce{r}", 11, [X], {"axes": [0, 2], "keepdims": 0}) for r in ("Sum", "Mean", "L2")],
    *[(f"Reduce{r}", 13, [X], {"axes": [-1]}) for r in ("Max", "Min", "Prod", "L1", "SumSquare")],
    *[(f"Reduce{r}", 17, [np.abs(X)], {}) for r in ("LogSum", "LogSumExp", "Mean")],
    ("ReduceSum", 13, [X, np.array([1], I)], {}, 1, [1]),
    ("Slice", 9, [X], {"starts": [0, -3], "ends": [1, 1000], "axes": [0, 2]}),
    ("Slice", 7, [X], {"starts": [1, 1], "ends": [2, -1]}),
    ("Pad", 10, [X], {"pads": [0, 1, 0, 1, 0, 2], "value": 2.5}),
    ("Pad", 7, [X], {"pads": [0, 1, 0, 0, 1, 2], "mode": "reflect"}),
    ("Clip", 10, [X], {"min": -0.5, "max": 0.5}),
    ("Clip", 7, [X], {"max": 0.5}),
    ("Clip", 6, [X], {}),
    ("TopK", 9, [X], {"k": 2, "axis": 1}, 2),
    ("TopK", 10, [X, np.array([2], I)], {"axis": 1}, 2, [1]),
    ("Split", 11, [X], {"split": [1, 3], "axis": 2}, 2),
    ("Split", 7, [X], {}, 2),
    ("Split", 13, [X, np.array([1, 3], I)], {"axis": 2}, 2, [1]),
    ("Split", 13, [X], {"axis": 2}, 2),
    ("Dropout", 7, [X], {"ratio": 0.3}),
    ("Dropout", 10, [X], {}),
    ("Dropout", 11, [X], {"ratio": 0.9}),
    ("BatchNormalization", 7, [X, *NORM], {"epsilon": 1e-3}),
    ("BatchNormalization", 9, [X, *NORM], {}),
    ("BatchNormalization", 7, [X, *(np.abs(floats(3, 4)) + F1(i) for i in range(4))],
     {"spatial": 0}),
    ("Upsample", 7, [IMAGE], {"scales": [1.0, 1.0, 2.0, 3.0]}),
    ("Upsample", 9, [IMAGE, np.array([1, 1, 2, 2], F1)], {"mode": "linear"}, 1, [1]),
    ("Resize", 10, [IMAGE, np.array([1, 1, 2, 1.5], F1)], {"mode": "nearest"}, 1, [1]),
    ("Resize", 10, [IMAGE, np.array([1, 1, 0.6, 0.5], F1)], {"mode": "nearest"}, 1, [1]),
    ("Resize", 10, [IMAGE, np.array([1, 1, 0.6, 2.5], F1)], {"mode": "nearest"}),
    ("Resize", 10, [IMAGE, np.array([1, 1, 2, 0.5], F1)], {"mode": "linear"}, 1, [1]),
    ("Resize", 11, [IMAGE, np.zeros(0, F1), np.array([1, 1, 2, 0.5], F1)], {"mode": "linear"},
     1, [1, 2]),
    ("Scatter", 9, [X, np.zeros((1, 2, 3), I), floats(1, 2, 3)], {"axis": 1}),
    ("Scatter", 10, [X, np.zeros((1, 2, 3), I), floats(1, 2, 3)], {}),
    ("ArgMax", 7, [X], {"axis": 1}),
    ("Gemm", 7, [floats(2, 3), floats(3, 4), floats(4)], {"alpha": 0.5}),
    ("Gemm", 9, [floats(2, 3), floats(4, 3), floats(2, 4)], {"transB": 1}),
    ("AveragePool", 7, [IMAGE], {"kernel_shape": [2, 3], "pads": [1, 1, 1, 1]}),
    ("AveragePool", 10, [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("MaxPool", 7, [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("MaxPool", 8, [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2]}, 2),
    ("LpPool", 11, [IMAGE], {"kernel_shape": [2, 2], "p": 1}),
    ("LRN", 7, [IMAGE], {"size": 3}),
    ("Reshape", 7, [X, np.array([0, -1], I)], {}, 1, [1]),
    ("Flatten", 7, [X], {"axis": 2}),
    ("Gather", 7, [X, np.array([1, 0], I)], {"axis": 1}),
    ("Cast", 7, [X], {"to": TensorProto.DOUBLE}),
    ("Concat", 7, [X, X], {"axis": 2}),
    ("DepthToSpace", 7, [floats(1, 4, 2, 2)], {"blocksize": 2}),
    ("Max", 7, [X, X + 1], {}),
    ("Sum", 8, [X, X[0]], {}),
    ("PRelu", 7, [X, floats(4)], {}),
    ("Tile", 7, [X, np.array([1, 2, 1], I)], {}, 1, [1]),
    ("OneHot", 9, [np.array([0, 2], I), np.array(3, I), np.array([0, 1], F1)], {}, 1, [1]),
    ("Conv", 7, [IMAGE, floats(3, 2, 3, 3), floats(3)], {"pads": [1, 1, 1, 1]}),
    ("ConvTranspose", 7, [IMAGE, floats(2, 3, 3, 3)], {"strides": [2, 2]}),
    ("InstanceNormalization", 7, [X, floats(3), floats(3)], {}),
    ("GRU", 7, [floats(3, 1, 2), floats(1, 9, 2), floats(1, 9, 3)], {"hidden_size": 3}, 2),
    ("LSTM", 7, [floats(3, 1, 2), floats(1, 12, 2), floats(1, 12, 3)], {"hidden_size": 3}, 3),
    ("RoiAlign", 10, [IMAGE, np.array([[0, 0, 3, 3]], F1), np.zeros(1, I)],
     {"output_height": 2, "output_width": 2, "sampling_ratio": 2}),
    ("GridSample", 16, [IMAGE, np.clip(floats(1, 2, 2, 2), -1, 1)], {"mode": "bicubic"}),
    ("GridSample", 16, [IMAGE, np.clip(floats(1, 2, 2, 2), -1, 1)], {}),
    ("DFT", 17, [floats(1, 4, 3, 1)], {"axis": 2}),
    ("DFT", 17, [floats(1, 4, 3, 1)], {}),
    ("QuantizeLinear", 10, [X, np.array(0.1, F1), np.array(3, np.uint8)], {}),
    ("Shape", 7, [X], {}),
    ("Mod", 10, [X, X + 1], {"fmod": 1}),
]  # fmt: skip


def label(case: tuple[Any, ...]) -> str:
    words = [f"{k}={v}" for k, v in case[3].items()]
    return f"{case[0]}-{case[1]}-{'-'.join(words)}".replace(" ", "")


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES, ids=label)
def test_as_onnxruntime_in_its_own_opset(case: tuple[Any, ...]) -> None:
    op, opset, inputs, attrs, *rest = case
    outputs, stored = [*rest, *[1, []][len(rest) :]]
    model = model_of(op, opset, inputs, attrs, outputs, stored)
    feed = {f"x{i}": a for i, a in enumerate(inputs) if a is not None}
    close(raised(model, feed), run(model, feed))


BEFORE_7: list[tuple[Any, ...]] = [
    # operator, opset, inputs, attributes, what the outputs are
    ("Add", 6, [X, floats(3)], {"broadcast": 1, "axis": 1}, X + floats(3)[:, None]),
    ("Mul", 1, [X, floats(2, 3)], {"broadcast": 1, "axis": 0, "consumed_inputs": [0, 0]},
     X * floats(2, 3)[:, :, None]),
    ("Sub", 6, [X, floats(3, 4)], {"broadcast": 1}, X - floats(3, 4)),
    ("Div", 6, [X, X + 10], {}, X / (X + 10)),
    ("Less", 6, [X, floats(3)], {"broadcast": 1, "axis": 1}, floats(3)[:, None] > X),
    ("Pow", 6, [np.abs(X), np.array([2.0], F1)], {"broadcast": 1}, np.abs(X) ** 2),
    ("Relu", 1, [X], {"consumed_inputs": [0]}, np.maximum(X, 0)),
    ("Cast", 1, [X], {"to": "INT32"}, X.astype(np.int32)),
    ("Reshape", 1, [X], {"shape": [0, 12]}, X.reshape(2, 12)),
    ("Concat", 1, [X, X], {}, np.concatenate([X, X], 1)),
    ("Pad", 1, [X], {"paddings": [0, 0, 1, 0, 0, 1]}, np.pad(X, ((0, 0), (0, 0), (1, 1)))),
    ("Clip", 1, [X], {"min": 0.0}, np.maximum(X, 0)),
    ("PRelu", 6, [X, floats(3)], {}, np.where(X < 0, X * floats(3)[:, None], X)),
    ("BatchNormalization", 6, [X, *NORM], {"is_test": 1},
     (X - NORM[2][:, None]) / np.sqrt(NORM[3][:, None] + F1(1e-5)) * NORM[0][:, None]
     + NORM[1][:, None]),
    ("Dropout", 6, [X], {"is_test": 1}, X),
    ("Gemm", 6, [floats(2, 3), floats(3, 4), floats(4)], {"broadcast": 1},
     floats(2, 3) @ floats(3, 4) + floats(4)),
    ("Tile", 1, [X, np.array(2, F1), np.array(1, F1)], {}, np.tile(X, (1, 2, 1))),
    ("GlobalLpPool", 1, [IMAGE], {"p": 1.0}, np.abs(IMAGE).sum((2, 3), keepdims=True)),
    ("Upsample", 1, [IMAGE], {"height_scale": 2.0, "width_scale": 1.0},
     IMAGE.repeat(2, axis=2)),
    ("Selu", 1, [X], {}, np.where(X > 0, F1(1.0507) * X,
                                  F1(1.0507) * F1(1.6732) * (np.exp(X) - 1))),
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("case", BEFORE_7, ids=label)
def test_before_opset_7(case: tuple[Any, ...]) -> None:
    op, opset, inputs, attrs, wanted = case
    model = model_of(op, opset, inputs, attrs, stored=[1, 2] if op == "Tile" else ())
    feed = {f"x{i}": a for i, a in enumerate(inputs)}
    close(raised(model, feed), [np.asarray(wanted)])


@pytest.mark.oracle
def test_group_normalization_18_scales_each_group() -> None:
    x, scale, bias = floats(2, 4, 3), floats(2), floats(2) + 1
    model = model_of("GroupNormalization", 18, [x, scale, bias], {"num_groups": 2})
    grouped = x.reshape(2, 2, 6)
    mean, var = grouped.mean(-1, keepdims=True), grouped.var(-1, keepdims=True)
    wanted = (grouped - mean) / np.sqrt(var + F1(1e-5)) * scale[:, None] + bias[:, None]
    close(raised(model, {"x0": x, "x1": scale, "x2": bias}), [wanted.reshape(x.shape)])


@pytest.mark.oracle
def test_dropout_masks_were_numbers_before_opset_10() -> None:
    """A mask tells what is kept, as opset 12 says; onnxruntime's of 10 tells what is dropped."""
    model = model_of("Dropout", 7, [X], {}, 2)
    close(raised(model, {"x0": X}), [X, np.ones_like(X)])
    model = model_of("Dropout", 10, [X], {}, 2)
    close(raised(model, {"x0": X}), [X, np.ones_like(X, bool)])


@pytest.mark.oracle
@pytest.mark.parametrize("strings", [True, False])
def test_label_encoder_1(strings: bool) -> None:
    words = np.array(["b", "z", "a"], object)
    given = words if strings else np.array([1, 9, 0], I)
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", classes_strings=["a", "b"]
    )
    kinds = (TensorProto.STRING, TensorProto.INT64)
    kinds = kinds if strings else kinds[::-1]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kinds[0], [3])],
        [helper.make_tensor_value_info("y", kinds[1], [3])],
    )
    opsets = [helper.make_opsetid("", 8), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets)
    got = raised(model, {"x": given})[0].tolist()
    assert got == ([1, -1, 0] if strings else ["b", "_Unused", "a"])


def scan_8(states: Array, items: Array, lengths: Array | None, **attrs: Any) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "abcd"]
    nodes = [
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Mul", ["c", "x3"], ["d"]),
    ]
    body = helper.make_graph(nodes, "body", values[:2], values[2:])
    inputs = [lengths, states, items]
    model = model_of("Scan", 8, inputs, {"body": body, "num_scan_inputs": 1, **attrs}, 2)
    model.graph.input.append(helper.make_tensor_value_info("x3", TensorProto.FLOAT, []))
    return model


@pytest.mark.oracle
@pytest.mark.parametrize("backward", [0, 1])
def test_scan_8_goes_over_a_batch(backward: int) -> None:
    states, items, factor = floats(2, 3), floats(2, 5, 3), np.array(0.5, F1)
    model = scan_8(states, items, None, directions=[backward])
    got = raised(model, {"x1": states, "x2": items, "x3": factor})
    sums = states[:, None] + np.cumsum(items[:, ::-1] if backward else items, axis=1)
    close(got, [sums[:, -1], sums * factor])


@pytest.mark.oracle
def test_scan_8_goes_as_far_as_each_length() -> None:
    """Beyond its length an entry's results have no value by the text; ours and onnxruntime's
    are zero."""
    states, items, factor = floats(2, 3), floats(2, 5, 3), np.array(0.5, F1)
    for backward in (0, 1):
        model = scan_8(states, items, np.array([5, 2], I), directions=[backward])
        feed = {"x0": np.array([5, 2], I), "x1": states, "x2": items, "x3": factor}
        got = raised(model, feed)
        want = [np.zeros((2, 3), F1), np.zeros((2, 5, 3), F1)]
        for i, length in enumerate((5, 2)):
            part = items[i, :length][:: -1 if backward else 1]
            sums = states[i] + np.cumsum(part, axis=0)
            want[0][i], want[1][i, :length] = sums[-1], sums * factor
        close(got, want)
        close(got, run(model, feed))


@pytest.mark.oracle
@pytest.mark.parametrize("opset", [1, 6, 7, 9])
def test_batch_normalization_of_training(opset: int) -> None:
    attrs: dict[str, Any] = {"momentum": 0.8}
    if opset == 1:
        attrs["consumed_inputs"] = [0, 0, 0, 1, 1]
    model = model_of("BatchNormalization", opset, [X, *NORM], attrs, 5)
    scale, bias, mean, var = (a[:, None] for a in NORM)
    now, spread = X.mean((0, 2), keepdims=True)[0], X.var((0, 2), keepdims=True)[0]
    want = [
        (X - now) / np.sqrt(spread + F1(1e-5)) * scale + bias,
        *(a[:, 0] for a in (mean * F1(0.8) + now * F1(0.2), var * F1(0.8) + spread * F1(0.2))),
        *(a[:, 0] for a in (now, spread)),
    ]
    close(raised(model, {f"x{i}": a for i, a in enumerate([X, *NORM])}), want)
    if opset < 7:  # nothing is learnt in a test
        model = model_of("BatchNormalization", opset, [X, *NORM], {**attrs, "is_test": 1}, 3)
        got = raised(model, {f"x{i}": a for i, a in enumerate([X, *NORM])})
        close(got[1:], NORM[2:])


@pytest.mark.oracle
def test_batch_normalization_of_training_for_each_element() -> None:
    norm = [np.abs(floats(3, 4)) + F1(i) for i in range(4)]
    model = model_of("BatchNormalization", 7, [X, *norm], {"spatial": 0}, 5)
    now, spread = X.mean(0), X.var(0)
    want = [
        (X - now) / np.sqrt(spread + F1(1e-5)) * norm[0] + norm[1],
        norm[2] * F1(0.9) + now * F1(0.1),
        norm[3] * F1(0.9) + spread * F1(0.1),
        now,
        spread,
    ]
    close(raised(model, {f"x{i}": a for i, a in enumerate([X, *norm])}), want)


def test_adapters_speak_of_versions_that_exist() -> None:
    for op, rows in ADAPTERS.items():
        domain = "ai.onnx.ml" if op == "LabelEncoder" else ""
        versions = [s.since_version for s in history()[domain, op]]
        assert [below for below, _ in rows] == sorted(below for below, _ in rows)
        for below, _ in rows:
            assert below in versions or below == 99, op
