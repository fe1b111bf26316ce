"""What is said beside a graph, how real files are, and data outside of them."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import F1, model_of, node, run, tensor, value

import neuralsym
from neuralsym.core.model import Model
from neuralsym.engines import onnx as engine
from neuralsym.errors import FormatError, NeuralsymError


# -- what is said beside -----------------------------------------------------------------------
def annotated() -> onnx.ModelProto:
    made = node("Relu", ["x"], ["a"], "first", doc_string="rectifies")
    made.metadata_props.add(key="namespace", value="block")
    nodes = [made, node("Neg", ["a"], ["y"])]
    stored = [tensor("scale", 0.5), tensor("zero", 3, np.uint8)]
    model = model_of(nodes, [value("x")], [value("y")], stored, doc_string="the graph")
    model.graph.input[0].doc_string = "what comes"
    model.graph.output[0].doc_string = "what goes"
    model.graph.metadata_props.add(key="g", value="1")
    model.metadata_props.add(key="author", value="ü")
    model.doc_string, model.domain, model.model_version = "a model", "org.example", 7
    for name in ("a", "gone"):
        note = model.graph.quantization_annotation.add(tensor_name=name)
        for role, given in (("SCALE_TENSOR", "scale"), ("ZERO_POINT_TENSOR", "zero")):
            note.quant_parameter_tensor_names.add(key=role, value=given)
    return model


def test_descriptions_metadata_and_annotations_are_kept() -> None:
    model = annotated()
    made = engine.of_symbolic(engine.read_model(model))
    onnx.checker.check_model(made, full_check=True)
    assert (made.doc_string, made.domain, made.model_version) == ("a model", "org.example", 7)
    assert made.metadata_props == model.metadata_props
    assert made.graph.doc_string == "the graph"
    assert made.graph.metadata_props == model.graph.metadata_props
    assert made.graph.input[0].doc_string == "what comes"
    assert made.graph.output[0].doc_string == "what goes"
    assert made.graph.node[0].doc_string == "rectifies"
    assert made.graph.node[0].metadata_props == model.graph.node[0].metadata_props
    assert list(made.graph.quantization_annotation) == [model.graph.quantization_annotation[0]]
    assert {t.name for t in made.graph.initializer} == {"scale", "zero"}
    assert engine.of_symbolic(engine.read_model(made)) == made


def test_descriptions_that_are_no_text_hinder_nothing() -> None:
    whole = annotated().SerializeToString()
    for text in (b"a model", b"the graph", b"rectifies", b"namespace", b"block", b"what comes"):
        assert text in whole
        broken = engine.read_model(whole.replace(text, b"\xff" * len(text)))
        made = engine.of_symbolic(broken).SerializeToString()
        assert "\ufffd".encode() * len(text) in made


def test_notes_outlive_pickling_and_saving(tmp_path: Path) -> None:
    network = pickle.loads(pickle.dumps(neuralsym.load(annotated())))
    (path,) = network.save(tmp_path / "m.onnx")
    assert onnx.load(path).graph.doc_string == "the graph"
    plain = Model.of(network.graph)
    assert plain.notes.doc == ""
    assert not engine.of_symbolic(plain).graph.quantization_annotation


def test_an_annotation_of_values_that_are_computed() -> None:
    model = annotated()
    model.graph.node.append(node("Abs", ["scale"], ["computed"]))
    model.graph.output.append(value("computed", ()))
    note = model.graph.quantization_annotation[0]
    note.quant_parameter_tensor_names[0].value = "computed"
    note.quant_parameter_tensor_names[1].value = "nowhere"
    made = engine.of_symbolic(engine.read_model(model))
    (kept,) = made.graph.quantization_annotation
    assert [e.value for e in kept.quant_parameter_tensor_names] == ["computed"]


def test_steps_of_training_are_not_read() -> None:
    model = annotated()
    model.training_info.add()
    with pytest.warns(UserWarning, match="1 training graphs, which are not read"):
        graph = engine.to_symbolic(model)
    assert graph.output_names == ("y",)


def test_types_that_contradict_do_not_hinder_the_run() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Concat", ["a", "a"], ["y"], axis=0)]
    known = [value("a", (7, 7)), value("y", (4,), 7)]
    model = model_of(nodes, [value("x")], [value("y", (9,), 7)], value_info=known)
    with pytest.warns(UserWarning, match="contradict"):
        assert run(model, {"x": np.ones(2, F1)})["y"].tolist() == [1] * 4


# -- how real files are ------------------------------------------------------------------------
def test_a_batch_of_minus_one() -> None:
    """Some exporters write -1 for a size that is free; both inputs may differ in it."""
    x, y = value("x", (2, 3)), value("y", (2, 3))
    for made in (x, y):
        made.type.tensor_type.shape.dim[0].dim_value = -1
    nodes = [node("Relu", ["x"], ["a"]), node("Reshape", ["a", "shape"], ["y"])]
    stored = [tensor("shape", [-1, 3], np.int64)]
    for rows in (1, 4):
        feed = {"x": np.full((rows, 3), -1, F1)}
        assert run(model_of(nodes, [x], [y], stored), feed)["y"].shape == (rows, 3)


def test_results_that_are_no_numbers_by_design() -> None:
    nodes = [
        node("Log", ["x"], ["l"]),
        node("Div", ["x", "x"], ["d"]),
        node("Where", ["c", "x", "nan"], ["w"]),
        node("IsNaN", ["w"], ["n"]),
        node("Max", ["w", "x"], ["m"]),
    ]
    stored = [tensor("nan", np.nan)]
    outputs = [value(n) for n in "ldwm"] + [value("n", (2,), 9)]
    model = model_of(nodes, [value("x"), value("c", (2,), 9)], outputs, stored)
    results = run(model, {"x": np.array([-1, 0], F1), "c": np.array([True, False])})
    assert str(results["l"]) == "[ nan -inf]"
    assert str(results["d"]) == "[ 1. nan]"
    assert str(results["w"]) == "[-1. nan]"
    assert str(results["m"]) == "[-1. nan]"
    assert results["n"].tolist() == [False, True]


def network_of(opset: int) -> tuple[onnx.ModelProto, np.ndarray[Any, Any]]:
    """A small image classifier as frameworks wrote it in opsets 9 to 12, and the images."""
    rng = np.random.default_rng(3)
    stored = [
        tensor("w", rng.standard_normal((4, 2, 3, 3)) / 4), tensor("b", rng.standard_normal(4)),
        *(tensor(n, rng.uniform(0.5, 1.5, 4)) for n in ("gamma", "beta", "mean", "var")),
        tensor("fc", rng.standard_normal((3, 64)) / 8), tensor("fcb", rng.standard_normal(3)),
        tensor("scales", [1, 1, 2, 2]), tensor("roi", np.zeros(0)),
    ]  # fmt: skip
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
        node("BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["n"]),
        node("Clip", ["n"], ["k"], min=0.0, max=6.0)
        if opset < 11
        else node("Clip", ["n", "zero", "six"], ["k"]),
        node("Dropout", ["k"], ["o", ""], ratio=0.4)
        if opset < 12
        else node("Dropout", ["k"], ["o"]),
        node("AveragePool", ["o"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Upsample", ["p", "scales"], ["u"], mode="nearest")
        if opset < 10
        else node("Resize", ["p", "scales"] if opset < 11 else ["p", "roi", "scales"], ["u"]),
        node("Pad", ["u"], ["q"], pads=[0, 0, 1, 0, 0, 0, 0, 1])
        if opset < 11
        else node("Pad", ["u", "pads"], ["q"]),
        node("Slice", ["q"], ["v"], starts=[1, 0], ends=[5, 4], axes=[2, 3])
        if opset < 10
        else node("Slice", ["q", "starts", "ends", "axes"], ["v"]),
        node("Unsqueeze", ["v"], ["t"], axes=[0]),
        node("Squeeze", ["t"], ["s"], axes=[0]),
        node("Flatten", ["s"], ["f"]),
        node("Gemm", ["f", "fc", "fcb"], ["g"], transB=1),
        node("Softmax", ["g"], ["y"]),
    ]
    stored += [
        tensor("zero", 0.0), tensor("six", 6.0), tensor("pads", [0, 0, 1, 0, 0, 0, 0, 1], np.int64),
        tensor("starts", [1, 0], np.int64), tensor("ends", [5, 4], np.int64),
        tensor("axes", [2, 3], np.int64),
    ]  # fmt: skip
    used = {name for n in nodes for name in n.input}
    stored = [t for t in stored if t.name in used]
    inputs = [value("x", ("N", 2, 4, 4)), *(value(t.name, t.dims, t.data_type) for t in stored)]
    model = model_of(nodes, inputs, [value("y", ("N", 3))], stored, opset=opset, ir=3)
    return model, rng.standard_normal((2, 2, 4, 4)).astype(F1)


@pytest.mark.oracle
@pytest.mark.parametrize("opset", [9, 10, 11, 12])
def test_networks_of_older_opsets(opset: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, images = network_of(opset)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = run(model, {"x": images})["y"]
    np.testing.assert_allclose(got, session.run(None, {"x": images})[0], rtol=1e-4, atol=1e-6)


# -- external data -----------------------------------------------------------------------------
def outside(tensor_: TensorProto, **entries: str) -> TensorProto:
    tensor_.ClearField("raw_data")
    tensor_.data_location = TensorProto.EXTERNAL
    for key, text in entries.items():
        tensor_.external_data.add(key=key, value=text)
    return tensor_


def test_data_outside_of_the_file_wherever_a_tensor_may_be(tmp_path: Path) -> None:
    """Initializers, attributes, initializers of bodies and sparse ones; one file for all."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(np.arange(8, dtype=F1).tobytes())
    place = {"location": "./sub/w.bin"}
    inner = outside(tensor("i", [0, 0]), offset="8", length="8", **place)
    then = helper.make_graph([node("Add", ["x", "i"], ["t"])], "b", [], [value("t")], [inner])
    constant = outside(tensor("", [0, 0]), offset="24", **place)
    values = outside(tensor("s", [0]), offset="16", length="4", **place)
    sparse = helper.make_sparse_tensor(values, tensor("", [1], np.int64), [2])
    nodes = [
        node("Constant", [], ["c"], value=constant),
        node("If", ["flag"], ["r"], then_branch=then, else_branch=then),
        node("Sum", ["r", "c", "s"], ["y"]),
    ]
    inputs = [value("x"), value("flag", (), 9)]
    model = model_of(nodes, inputs, [value("y")], sparse_initializer=[sparse])
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    feeds = {"x": np.ones(2, F1), "flag": np.array(True)}
    assert run(path, feeds)["y"].tolist() == [9, 15]
    assert run(engine.load(path), feeds)["y"].tolist() == [9, 15]
    (tmp_path / "other").symlink_to(tmp_path / "sub")
    linked = tmp_path / "linked.onnx"
    linked.write_bytes(path.read_bytes().replace(b"./sub/w.bin", b"other/w.bin"))
    (tmp_path / "up").symlink_to(tmp_path.parent)
    assert engine.read_model(path)
    escaping = path.read_bytes().replace(b"./sub/w.bin", b"up/secret.b")
    (tmp_path.parent / "secret.b").write_bytes(bytes(64))
    (tmp_path / "escaping.onnx").write_bytes(escaping)
    with pytest.raises(FormatError, match="outside of the folder"):
        engine.read_model(tmp_path / "escaping.onnx")


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"offset": "99999999999999999999", "length": "8"}, "which has only"),
        ({"offset": "-8", "length": "8"}, "which has only"),
        ({"offset": "0", "length": "9223372036854775807"}, "which has only"),
        ({"offset": "0", "length": "12"}, "12 bytes, not 8"),
        ({"offset": "1e3"}, "no sensible"),
        ({"offset": "٣"}, "3 on|bytes, not 8|which has only"),
    ],
)
def test_offsets_and_lengths_that_lie(tmp_path: Path, entries: dict[str, str], said: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    made = outside(tensor("w", [0, 0]), location="w.bin", **entries)
    model = model_of([node("Neg", ["w"], ["y"])], [], [value("y")], [made])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(NeuralsymError, match=said):
        engine.read_model(tmp_path / "m.onnx")
