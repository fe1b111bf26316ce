"""Files that onnxruntime's quantiser and optimisers write: loaded, run, written again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from contrib_oracle import Array, Drawn
from onnx import TensorProto, helper, numpy_helper

import neuralsym

pytestmark = pytest.mark.oracle
node = helper.make_node


def session(path: Path, written: Path | None = None) -> onnxruntime.InferenceSession:
    """onnxruntime's session for a file: as it stands, or optimised and written."""
    level = onnxruntime.GraphOptimizationLevel
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    settings.graph_optimization_level = level.ORT_DISABLE_ALL
    if written is not None:
        settings.graph_optimization_level = level.ORT_ENABLE_EXTENDED
        settings.optimized_model_filepath = str(written)
    return onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])


def operators(path: Path) -> Counter[tuple[str, str]]:
    return Counter((n.domain, n.op_type) for n in onnx.load(path).graph.node)


def check(path: Path, feeds: Mapping[str, Array], *, tolerance: float) -> set[str]:
    """Compare with onnxruntime, before and after writing; the com.microsoft operators found."""
    want = session(path).run(None, dict(feeds))
    network = neuralsym.load(path)
    again = path.with_suffix(".again.onnx")
    network.save(again)
    assert "by host" not in network.explain()
    for got in (network.run(feeds), neuralsym.load(again).run(feeds)):
        for value, expected in zip(got.values(), want, strict=True):
            np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)
    for value, expected in zip(session(again).run(None, dict(feeds)), want, strict=True):
        np.testing.assert_array_equal(value, expected)
    found = {name for domain, name in operators(path) if domain == "com.microsoft"}
    assert found == {name for domain, name in operators(again) if domain == "com.microsoft"}
    return found


def write(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[Any]],
    output: tuple[str, Sequence[Any]],
    weights: Mapping[str, Array],
    kind: int = TensorProto.FLOAT,
) -> Path:
    values = [helper.make_tensor_value_info(n, kind, s) for n, s in inputs.items()]
    result = helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1])
    stored = [numpy_helper.from_array(v, n) for n, v in weights.items()]
    graph = helper.make_graph(nodes, "g", values, [result], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A small convolutional network."""
    draw = Drawn(1)
    weights = {
        "w1": draw.reals(8, 3, 3, 3) * 0.3,
        "b1": draw.reals(8) * 0.1,
        "w2": draw.reals(8, 8, 3, 3) * 0.2,
        "w3": draw.reals(16, 8, 1, 1) * 0.3,
        "fc": draw.reals(10, 16) * 0.3,
        "fb": draw.reals(10) * 0.1,
    }
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], name="conv1", pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"], name="relu"),
        node("MaxPool", ["r1"], ["p1"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", "w2"], ["c2"], name="conv2", pads=[1, 1, 1, 1]),
        node("LeakyRelu", ["c2"], ["l2"], name="leaky", alpha=0.1),
        node("Add", ["l2", "p1"], ["a1"], name="add"),
        node("Conv", ["a1", "w3"], ["c3"], name="conv3"),
        node("Sigmoid", ["c3"], ["s3"], name="sigmoid"),
        node("Mul", ["c3", "s3"], ["m3"], name="mul"),
        node("AveragePool", ["m3"], ["ap"], name="average", kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", ["ap", "ap"], ["cc"], name="concat", axis=2),
        node("GlobalAveragePool", ["cc"], ["g1"], name="global"),
        node("Flatten", ["g1"], ["f1"], name="flatten"),
        node("Gemm", ["f1", "fc", "fb"], ["z"], name="gemm", transB=1),
        node("Softmax", ["z"], ["y"], name="softmax", axis=1),
    ]
    path = tmp_path / "images.onnx"
    return write(path, nodes, {"x": ["n", 3, 16, 16]}, ("y", ["n", 10]), weights)


HIDDEN, HEADS = 16, 2


@pytest.fixture
def sequences(tmp_path: Path) -> Path:
    """A block of a transformer, batch and length by name."""
    draw, size = Drawn(2), HIDDEN // HEADS
    weights = {f"w{n}": draw.reals(HIDDEN, HIDDEN) * 0.3 for n in "qkvo"}
    weights |= {
        "w1": draw.reals(HIDDEN, 32) * 0.3,
        "b1": draw.reals(32) * 0.1,
        "w2": draw.reals(32, HIDDEN) * 0.3,
        "one": np.ones(HIDDEN, np.float32),
        "none": np.zeros(HIDDEN, np.float32),
        "heads": np.array([0, 0, HEADS, size]),
        "flat": np.array([0, 0, HIDDEN]),
        "root": np.array(np.sqrt(size), np.float32),
    }
    nodes = []
    for n, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            node("MatMul", ["x", f"w{n}"], [n], name=n),
            node("Reshape", [n, "heads"], [f"{n}r"], name=f"{n}r"),
            node("Transpose", [f"{n}r"], [f"{n}t"], name=f"{n}t", perm=order),
        ]
    nodes += [
        node("MatMul", ["qt", "kt"], ["qk"], name="qk"),
        node("Div", ["qk", "root"], ["scaled"], name="scaled"),
        node("Softmax", ["scaled"], ["p"], name="softmax", axis=-1),
        node("MatMul", ["p", "vt"], ["pv"], name="pv"),
        node("Transpose", ["pv"], ["pvt"], name="pvt", perm=[0, 2, 1, 3]),
        node("Reshape", ["pvt", "flat"], ["merged"], name="merged"),
        node("MatMul", ["merged", "wo"], ["o"], name="o"),
        node("Add", ["x", "o"], ["x1"], name="add1"),
        node("LayerNormalization", ["x1", "one", "none"], ["n1"], name="norm1", axis=-1),
        node("MatMul", ["n1", "w1"], ["h"], name="up"),
        node("Add", ["h", "b1"], ["hb"], name="bias"),
        node("Relu", ["hb"], ["hr"], name="relu"),
        node("MatMul", ["hr", "w2"], ["h2"], name="down"),
        node("Add", ["n1", "h2"], ["x2"], name="add2"),
        node("LayerNormalization", ["x2", "one", "none"], ["y"], name="norm2", axis=-1),
    ]
    sizes = ["batch", "length", HIDDEN]
    return write(tmp_path / "sequences.onnx", nodes, {"x": sizes}, ("y", sizes), weights)


class Samples:
    """What the static quantiser draws ranges from."""

    def __init__(self, *shape: int) -> None:
        draw = Drawn(3)
        self.rest: Iterator[dict[str, Array]] = iter([{"x": draw.reals(*shape)} for _ in range(4)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.rest, None)


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("form", "activations"),
    [
        pytest.param("QDQ", "QUInt8", marks=slow),
        pytest.param("QDQ", "QInt8", marks=slow),
        ("QOperator", "QUInt8"),
        pytest.param("QOperator", "QInt8", marks=slow),
    ],
)
def test_a_convolutional_network_quantised_by_samples(
    images: Path, tmp_path: Path, form: str, activations: str
) -> None:
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    path = tmp_path / "quantised.onnx"
    kinds: dict[str, Any] = {"activation_type": QuantType[activations]}
    kinds |= {"weight_type": QuantType.QInt8, "per_channel": form == "QDQ"}
    quantize_static(images, path, Samples(2, 3, 16, 16), quant_format=QuantFormat[form], **kinds)
    # Results are steps of 1/256; a tie that is rounded to the other side may shift a few.
    feeds = {"x": Drawn(4).reals(3, 3, 16, 16)}
    found = check(path, feeds, tolerance=2.5 / 256)
    if form == "QOperator":
        pools = {"QLinearAveragePool", "QLinearGlobalAveragePool"}
        assert found == pools | {
            *("QGemm", "QLinearAdd", "QLinearConcat", "QLinearLeakyRelu", "QLinearMul"),
            *("QLinearSigmoid", "QLinearSoftmax"),
        }
    optimised = tmp_path / "optimised.onnx"
    session(path, optimised)
    assert check(optimised, feeds, tolerance=2.5 / 256)


@pytest.mark.parametrize(
    ("weights", "by_channel"), [("QInt8", True), pytest.param("QUInt8", False, marks=slow)]
)
def test_a_transformer_quantised_as_it_runs(
    sequences: Path, tmp_path: Path, weights: str, by_channel: bool
) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path, optimised = tmp_path / "dynamic.onnx", tmp_path / "optimised.onnx"
    kinds: dict[str, Any] = {"weight_type": QuantType[weights], "per_channel": by_channel}
    quantize_dynamic(sequences, path, **kinds)
    feeds = {"x": Drawn(5).reals(3, 4, HIDDEN)}
    check(path, feeds, tolerance=1e-5)
    session(path, optimised)
    found = check(optimised, feeds, tolerance=1e-5)
    assert {"DynamicQuantizeMatMul", "MatMulIntegerToFloat", "SkipLayerNormalization"} <= found


def test_a_transformer_in_integers(sequences: Path, tmp_path: Path) -> None:
    from onnxruntime.quantization import QuantFormat, quantize_static

    path = tmp_path / "integers.onnx"
    quantize_static(sequences, path, Samples(2, 5, HIDDEN), quant_format=QuantFormat.QOperator)
    found = check(path, {"x": Drawn(6).reals(3, 4, HIDDEN)}, tolerance=1e-4)
    assert {"QLinearAdd", "QLinearSoftmax"} <= found


def test_what_the_optimiser_fuses(images: Path, sequences: Path, tmp_path: Path) -> None:
    for path, shape, wanted in (
        (images, (3, 3, 16, 16), {"FusedConv", "QuickGelu"}),
        (sequences, (3, 4, HIDDEN), {"FusedMatMul", "SkipLayerNormalization"}),
    ):
        optimised = tmp_path / f"optimised-{path.name}"
        session(path, optimised)
        assert check(optimised, {"x": Drawn(7).reals(*shape)}, tolerance=1e-5) >= wanted


@pytest.mark.parametrize(
    ("direction", "by_channel"),
    [("bidirectional", True), pytest.param("forward", False, marks=slow)],
)
def test_a_quantised_lstm(tmp_path: Path, direction: str, by_channel: bool) -> None:
    from onnxruntime.quantization import quantize_dynamic

    draw, count, hidden = Drawn(8), 1 + (direction == "bidirectional"), 4
    weights = {
        "w": draw.reals(count, 4 * hidden, 5) * 0.3,
        "r": draw.reals(count, 4 * hidden, hidden) * 0.3,
        "b": draw.reals(count, 8 * hidden) * 0.1,
    }
    attrs: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    nodes = [node("LSTM", ["x", "w", "r", "b"], ["y"], name="lstm", **attrs)]
    sizes = ["length", count, "batch", hidden]
    inputs = {"x": ["length", "batch", 5]}
    plain = write(tmp_path / "lstm.onnx", nodes, inputs, ("y", sizes), weights)
    path = tmp_path / "quantised.onnx"
    quantize_dynamic(plain, path, op_types_to_quantize=["LSTM"], per_channel=by_channel)
    found = check(path, {"x": draw.reals(6, 3, 5)}, tolerance=1e-5)
    assert found == {"DynamicQuantizeLSTM"}


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """BERT in small, as PyTorch writes it: an embedding, a mask and two blocks."""
    draw, hidden, heads, size = Drawn(9), 32, 4, 8
    one, half = np.ones(hidden, np.float32), np.array(0.5, np.float32)
    weights: dict[str, Array] = {
        "word": draw.reals(50, hidden),
        "place": draw.reals(16, hidden),
        "segment": draw.reals(2, hidden),
        "gamma": one,
        "beta": draw.reals(hidden) * 0.1,
        "half": half,
        "places": np.arange(16)[None],
        "zero": np.array([0]),
        "one": np.array([1]),
        "two": np.array([2]),
        "at": np.array(1),
        "heads": np.array([0, 0, heads, size]),
        "flat": np.array([0, 0, hidden]),
        "unit": np.array(1, np.float32),
        "low": np.array(-10000, np.float32),
        "root": np.array(np.sqrt(size), np.float32),
        "root2": np.array(1.4142135, np.float32),
    }
    nodes: list[onnx.NodeProto] = []

    def add(kind: str, inputs: Sequence[str], output: str, **attrs: Any) -> str:
        nodes.append(node(kind, inputs, [output], name=output, **attrs))
        return output

    def affine(x: str, name: str, rows: int, columns: int) -> str:
        weights[f"{name}.w"] = draw.reals(rows, columns) * 0.2
        weights[f"{name}.b"] = draw.reals(columns) * 0.1
        return add("Add", [add("MatMul", [x, f"{name}.w"], f"{name}.mm"), f"{name}.b"], name)

    def norm(x: str, name: str) -> str:
        weights[f"{name}.g"], weights[f"{name}.b"] = one.copy(), draw.reals(hidden) * 0.1
        inputs = [x, f"{name}.g", f"{name}.b"]
        return add("LayerNormalization", inputs, name, axis=-1, epsilon=1e-12)

    add("Gather", [add("Shape", ["ids"], "shape"), "at"], "count", axis=0)
    add("Unsqueeze", ["count", "zero"], "length")
    add("Slice", ["places", "zero", "length", "one", "one"], "now")
    embedded = [add("Gather", ["word", "ids"], "e0"), add("Gather", ["place", "now"], "e1")]
    total = add(
        "Add", [add("Add", embedded, "e01"), add("Gather", ["segment", "kinds"], "e2")], "e"
    )
    x = norm(total, "start")
    wide = add("Unsqueeze", [add("Unsqueeze", ["mask", "one"], "mask1"), "two"], "mask2")
    away = add("Sub", ["unit", add("Cast", [wide], "mask3", to=TensorProto.FLOAT)], "away")
    low = add("Mul", [away, "low"], "lowered")
    for block in ("a", "b"):
        for n, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            made = affine(x, f"{block}.{n}", hidden, hidden)
            add("Reshape", [made, "heads"], f"{made}r")
            add("Transpose", [f"{made}r"], f"{made}t", perm=order)
        scaled = add("Div", [add("MatMul", [f"{block}.qt", f"{block}.kt"], f"{block}.qk"), "root"],
                     f"{block}.s")  # fmt: skip
        likely = add("Softmax", [add("Add", [scaled, low], f"{block}.m")], f"{block}.p", axis=-1)
        mixed = add("MatMul", [likely, f"{block}.vt"], f"{block}.pv")
        turned = add("Transpose", [mixed], f"{block}.pvt", perm=[0, 2, 1, 3])
        out = affine(add("Reshape", [turned, "flat"], f"{block}.c"), f"{block}.o", hidden, hidden)
        x = norm(add("Add", [out, x], f"{block}.r1"), f"{block}.n1")
        up = affine(x, f"{block}.up", hidden, 64)
        erf = add("Erf", [add("Div", [up, "root2"], f"{block}.d")], f"{block}.erf")
        double = add("Mul", [up, add("Add", [erf, "unit"], f"{block}.e1")], f"{block}.dg")
        down = affine(add("Mul", [double, "half"], f"{block}.gelu"), f"{block}.down", 64, hidden)
        x = norm(add("Add", [down, x], f"{block}.r2"), f"{block}.n2")
    names = {name: ["batch", "length"] for name in ("ids", "kinds", "mask")}
    result = (x, ["batch", "length", hidden])
    return write(tmp_path / "words.onnx", nodes, names, result, weights, TensorProto.INT64)


def tokens(dtype: Any = np.int64) -> dict[str, Array]:
    draw = Drawn(10)
    mask = np.array([[1] * 7, [1] * 4 + [0] * 3], dtype)
    ids = draw.whole(2, 7, below=50, dtype=dtype)
    return {"ids": ids, "kinds": draw.whole(2, 7, dtype=dtype), "mask": mask}


def test_a_small_bert_that_onnxruntime_optimised(words: Path, tmp_path: Path) -> None:
    optimised = tmp_path / "optimised.onnx"
    session(words, optimised)
    assert check(optimised, tokens(), tolerance=1e-4) == {"BiasGelu", "FusedMatMul"}


@slow
@pytest.mark.parametrize("raw_mask", [True, False])
@pytest.mark.parametrize("approximate", [True, False])
def test_a_small_bert_that_the_transformer_optimiser_fused(
    words: Path, tmp_path: Path, raw_mask: bool, approximate: bool
) -> None:
    pytest.importorskip("sympy", reason="the transformer optimiser of onnxruntime needs it")
    from onnxruntime.quantization import quantize_dynamic
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    options = FusionOptions("bert")
    options.use_raw_attention_mask(raw_mask)
    options.enable_gelu_approximation = approximate
    model = optimizer.optimize_model(
        str(words), "bert", num_heads=4, hidden_size=32, optimization_options=options, opt_level=0
    )
    model.change_graph_inputs_to_int32()
    path = tmp_path / "fused.onnx"
    model.save_model_to_file(str(path))
    found = check(path, tokens(np.int32), tolerance=1e-4)
    active = "FastGelu" if approximate else "BiasGelu"
    assert found == {"Attention", "EmbedLayerNormalization", "SkipLayerNormalization", active}
    quantised = tmp_path / "quantised.onnx"
    quantize_dynamic(path, quantised, extra_options={"DefaultTensorType": TensorProto.FLOAT})
    found = check(quantised, tokens(np.int32), tolerance=1e-4)
    assert {"QAttention", "QEmbedLayerNormalization"} <= found
