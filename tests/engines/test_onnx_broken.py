"""Files with bytes changed at random: read and written, or refused in our own words."""

from __future__ import annotations

import warnings
from functools import cache

import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_models import model_of, node, tensor, value

from neuralsym.engines import onnx as engine
from neuralsym.errors import NeuralsymError


@cache
def files() -> list[bytes]:
    """Small files that hold as many kinds of things as possible."""
    sparse = helper.make_sparse_tensor(tensor("s", [3]), tensor("", [1], "int64"), [2])
    branch = helper.make_graph([node("Add", ["x", "w"], ["t"])], "b", [], [value("t")])
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(1, ["N", 2]))
    custom = node("Thing", ["x", "", "w"], ["", "a"], domain="my", body=branch, bodies=[branch],
                  sparse=sparse, type=kind, texts=["a", "b"], numbers=[1.5, 2.0])  # fmt: skip
    leaky = node("LeakyRelu", ["p"], ["q"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", type=1, ref_attr_name="slope"))
    function = helper.make_function(
        "my", "F", ["p"], ["q"], [leaky], [helper.make_opsetid("", 18)],
        attribute_protos=[helper.make_attribute("slope", 0.5)],
    )  # fmt: skip
    nodes = [
        custom,
        node("F", ["a"], ["f"], domain="my", doc_string="a call"),
        node("If", ["flag"], ["i"], then_branch=branch, else_branch=branch),
        node("Sum", ["f", "i", "s"], ["y"]),
        node("Gradient", ["f"], ["g"], xs=["f"], y="y", domain="ai.onnx.preview.training"),
    ]
    inputs = [value("x"), value("flag", (), 9), helper.make_value_info("o", kind)]
    outputs = [value("y"), value("g")]
    known, stored = [value("a")], [tensor("w", [1, 2])]
    model = model_of(nodes, inputs, outputs, stored, value_info=known, sparse_initializer=[sparse])
    model.functions.append(function)
    for domain in ("my", "ai.onnx.preview.training"):
        model.opset_import.add(domain=domain, version=1)
    model.metadata_props.add(key="key", value="text")
    note = model.graph.quantization_annotation.add(tensor_name="a")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    return [model.SerializeToString()]


def test_the_file_itself_is_whole() -> None:
    made = engine.of_symbolic(engine.read_model(files()[0]))
    onnx.checker.check_model(made, full_check=True)
    assert engine.of_symbolic(engine.read_model(made)) == made


CHANGES = st.lists(
    st.tuples(st.integers(0, 10**6), st.sampled_from(["set", "cut", "add"]), st.binary(max_size=4)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=1500)
@given(CHANGES)
def test_bytes_changed_at_random(changes: list[tuple[int, str, bytes]]) -> None:
    file = bytearray(files()[0])
    for place, kind, data in changes:
        at = place % len(file)
        length = 0 if kind == "add" else len(data)
        file[at : at + length] = b"" if kind == "cut" else data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            engine.of_symbolic(engine.read_model(bytes(file)))
        except NeuralsymError as error:
            assert str(error)  # noqa: PT017  (most changes are refused, not all)
