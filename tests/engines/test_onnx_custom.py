"""Operators of domains that nobody here knows: kept on a round trip, run by the user's kernels."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, helper
from onnx_models import node, tensor

import neuralsym
from neuralsym.core.custom import Custom
from neuralsym.core.op import OPS, Call
from neuralsym.core.types import TensorType, Type
from neuralsym.cpu.kernels.host import HostKernel
from neuralsym.cpu.library import Library
from neuralsym.cpu.program import Step
from neuralsym.engines import onnx as engine
from neuralsym.errors import FormatError, GraphError, NeuralsymError, NoKernel

F1 = np.float32


def value(name: str, shape: Sequence[int | str | None] | None = (3,), kind: int = 1) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(
    nodes: Any, inputs: Any, outputs: Any, known: Any = (), version: int = 3, **more: Any
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, value_info=known, **more)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("my.ops", version)]
    return helper.make_model(graph, ir_version=8, opset_imports=imports)


def one(model: onnx.ModelProto, op: str) -> onnx.NodeProto:
    (found,) = [n for n in model.graph.node if n.op_type == op]
    return found


def again(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model after a round trip, which the checker passes and a second trip leaves alone."""
    made = engine.of_symbolic(engine.read_model(model))
    onnx.checker.check_model(made, full_check=True)
    assert engine.of_symbolic(engine.read_model(made)) == made
    return made


# -- kept --------------------------------------------------------------------------------------
def body(name: str, out: str, *nodes: Any, inputs: Any = ()) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, inputs, [value(out, None)])


def attributes() -> dict[str, Any]:
    sparse = helper.make_sparse_tensor(tensor("v", [3, 4]), tensor("i", [1, 5], np.int64), [2, 3])
    seq = helper.make_sequence_type_proto(helper.make_tensor_type_proto(7, ["N", 2]))
    return {
        "integer": -3,
        "number": 0.1,
        "text": "größe",
        "raw": b"\xff\x00\xfe",
        "integers": [1, -2],
        "numbers": [1.5, 2.5],
        "texts": ["a", "ü", ""],
        "tensor": tensor("", [[1, 2]], np.int8),
        "tensors": [tensor("", [1.0]), tensor("", 2, np.int64)],
        "sparse": sparse,
        "sparses": [sparse, sparse],
        "type": seq,
        "types": [seq, helper.make_tensor_type_proto(1, None)],
        "body": body("b", "b0", node("Relu", ["x"], ["b0"])),
        "bodies": [
            body("c", "c1", node("Add", ["c0", "w"], ["c1"]), inputs=[value("c0")]),
            body("d", "d1", node("Mul", ["x", "x"], ["d0"]), node("Neg", ["d0"], ["d1"])),
        ],
    }


def test_attributes_of_every_kind_are_kept() -> None:
    given = attributes()
    made = node("Thing", ["x"], ["y"], "thing", domain="my.ops", **given)
    for name, kind in (("none", AttributeProto.INTS), ("nothing", AttributeProto.STRINGS)):
        made.attribute.add(name=name, type=kind)
    model = model_of([made], [value("x")], [value("y")], initializer=[tensor("w", [1, 2, 3])])
    result = one(again(model), "Thing")
    assert {a.name: a.type for a in result.attribute} == {a.name: a.type for a in made.attribute}
    before = {a.name: a for a in made.attribute}
    for attribute in result.attribute:
        wanted = before[attribute.name]
        if attribute.type not in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            stripped = onnx.AttributeProto.FromString(wanted.SerializeToString())
            for t in (*stripped.sparse_tensors, stripped.sparse_tensor):
                t.values.ClearField("name")
                t.indices.ClearField("name")
            if not wanted.HasField("sparse_tensor"):
                stripped.ClearField("sparse_tensor")
            assert attribute == stripped
    kept = {a.name: a for a in result.attribute}
    assert [n.op_type for n in kept["body"].g.node] == ["Relu"]
    assert list(kept["body"].g.node[0].input) == ["x"]
    assert [[n.op_type for n in g.node] for g in kept["bodies"].graphs] == [["Add"], ["Mul", "Neg"]]
    assert [i.name for i in kept["bodies"].graphs[0].input] == ["c0"]
    assert list(kept["bodies"].graphs[0].node[0].input) == ["c0", "w"]


def test_a_list_of_bodies_beside_what_is_called_alike() -> None:
    relu = body("b", "r", node("Relu", ["x"], ["r"]))
    given = {"b": [relu, relu], "b[x]": relu, "c[0]": relu}
    made = node("Thing", ["x"], ["y"], domain="my.ops", **given)
    kept = one(again(model_of([made], [value("x")], [value("y")])), "Thing").attribute
    assert [(a.name, len(a.graphs)) for a in kept] == [("b", 2), ("b[x]", 0), ("c[0]", 0)]
    made = node("Thing", ["x"], ["y"], domain="my.ops", **{**given, "b[1]": 3})
    with pytest.raises(GraphError, match=r"has b\[1\] twice"):
        engine.to_symbolic(model_of([made], [value("x")], [value("y")]))


def test_the_domain_keeps_its_version_and_the_registry_learns_nothing() -> None:
    known = set(OPS)
    model = model_of([node("Thing", ["x"], ["y"], domain="my.ops")], [value("x")], [value("y")])
    made = again(model)
    assert [(i.domain, i.version) for i in made.opset_import] == [("", 18), ("my.ops", 3)]
    assert set(OPS) == known
    del model.opset_import[1]
    assert again(model).opset_import[1].version == 1


def test_inputs_and_outputs_stay_where_they_are() -> None:
    nodes = [
        node("Thing", ["x", "", "x", "c", ""], ["", "a", "", "b", ""], "thing", domain="my.ops"),
        node("Many", ["a"], [f"m{i}" for i in range(9)], domain="my.ops"),
        node("None", [], ["n"], domain="my.ops"),
        node("Sum", ["b", "m8", "m0", "n"], ["y"]),
    ]
    known = [value(n) for n in ("a", "b", "n", *(f"m{i}" for i in range(9)))]
    stored = {"initializer": [tensor("c", [1, 2, 3])]}
    made = again(model_of(nodes, [value("x")], [value("y")], known, **stored))
    assert list(one(made, "Thing").input) == ["x", "", "x", "c"]
    assert list(one(made, "Thing").output) == ["", "a", "", "b"]
    assert list(one(made, "Many").output) == [f"m{i}" for i in range(9)]
    assert {v.name for v in made.graph.value_info} == {v.name for v in known}


def test_one_operator_may_be_used_in_many_ways() -> None:
    nodes = [
        node("Thing", ["x"], ["a"], domain="my.ops", size=1),
        node("Thing", ["a", "x"], ["b", "c"], domain="my.ops", size="large"),
        node("Thing", ["b", "c"], ["y"], domain="other", sizes=[1.0]),
    ]
    known = [value("a", (5,), 7), value("b", ("N", 2)), value("c", (), 9)]
    model = model_of(nodes, [value("x")], [value("y", ("N",))], known)
    graph = engine.to_symbolic(model)
    types = {n: str(graph[n].type) for n in "abcy"}
    assert types == {"a": "int64[5]", "b": "float32[N, 2]", "c": "bool[]", "y": "float32[N]"}
    assert [n.domain for n in again(model).graph.node] == ["my.ops", "my.ops", "other"]


def test_names_as_odd_as_can_be() -> None:
    nodes = [node("Ünüsual op/1", ["x"], ["y"], domain="a domain, too: {1}")]
    made = again(model_of(nodes, [value("x")], [value("y")]))
    assert (made.graph.node[0].op_type, made.graph.node[0].domain) == (
        "Ünüsual op/1", "a domain, too: {1}",
    )  # fmt: skip
    with pytest.raises(FormatError, match="no name of an operator"):
        engine.to_symbolic(
            model_of([node("a\0b", ["x"], ["y"], domain="d")], [value("x")], [value("y")])
        )


def test_custom_operators_inside_bodies_and_functions() -> None:
    inner = node("Thing", ["p"], ["q"], domain="my.ops")
    inner.attribute.append(AttributeProto(name="size", type=2, ref_attr_name="n"))
    function = helper.make_function(
        "fun", "F", ["p"], ["q"], [inner], [helper.make_opsetid("my.ops", 3)], ["n"]
    )
    branch = helper.make_graph(
        [node("Thing", ["x"], ["t"], domain="my.ops")], "b", [], [value("t")]
    )
    nodes = [
        node("F", ["x"], ["f"], domain="fun", n=4),
        node("If", ["flag"], ["i"], then_branch=branch, else_branch=body("e", "x")),
        node("Add", ["f", "i"], ["y"]),
    ]
    model = model_of(nodes, [value("x"), value("flag", (), 9)], [value("y")], [value("f")])
    model.functions.append(function)
    model.opset_import.add(domain="fun", version=1)
    made = again(model)
    assert one(made, "Thing").attribute[0].i == 4
    then = {a.name: a.g for a in one(made, "If").attribute}["then_branch"]
    assert then.node[0].domain == "my.ops"


def test_a_network_with_custom_operators_can_be_pickled_and_changed() -> None:
    nodes = [node("Thing", ["x"], ["a"], domain="my.ops", k=2), node("Relu", ["a"], ["y"])]
    model = engine.read_model(model_of(nodes, [value("x")], [value("y")], [value("a")]))
    copy = pickle.loads(pickle.dumps(model))
    assert str(copy.graph) == str(model.graph)
    assert engine.of_symbolic(copy) == engine.of_symbolic(model)
    op = copy.graph["a"].node.op
    assert issubclass(op, Custom)
    assert pickle.loads(pickle.dumps(Custom)) is Custom
    part = model.graph.subgraph("a")
    assert "my.ops::Thing(x; k=2)" in str(part)


# -- types that nobody tells -------------------------------------------------------------------
def test_types_that_the_file_does_not_declare_are_assumed() -> None:
    nodes = [
        node("Index", ["x"], ["i"], domain="my.ops"),
        node("Gather", ["x", "i"], ["g"]),
        node("Thing", ["g"], ["a"], domain="my.ops"),
        node("Relu", ["a"], ["y"]),
    ]
    model = model_of(nodes, [value("x")], [value("y")])
    with pytest.warns(UserWarning, match=r"types are assumed: 'i' of node 1 \(Index\) as int64"):
        graph = engine.to_symbolic(model)
    assert str(graph["a"].type) == "float32[...]"
    written = engine.of_symbolic(graph)
    assert {v.name for v in written.graph.value_info} == {"g"}  # what is assumed is not said


def test_typers_tell_what_the_file_does_not() -> None:
    library = Library.default()

    def index(call: Call) -> Sequence[Type]:
        assert call.attr("k") == 2
        return [TensorType(neuralsym.dtypes.NumberType.INT64, call.shape(0))]

    library.typer("Index", index, domain="my.ops")
    nodes = [
        node("Index", ["x"], ["i"], domain="my.ops", k=2),
        node("Gather", ["x", "i"], ["y"], axis=0),
    ]
    model = model_of(nodes, [value("x", ("N",))], [value("y", None)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = neuralsym.load(model, library=library)
    assert str(network.graph["y"].type) == "float32[N]"
    assert engine.of_symbolic(network.model).graph.value_info[0].name == "i"
    pickle.loads(pickle.dumps(network.graph))


def test_typers_that_fail_are_named() -> None:
    for made, said in (
        (lambda call: [call.shape(3)], "Index.*its typer failed"),
        (lambda call: ["float32"], "its typer gives 'float32'"),
        (lambda call: [], "gives 0 outputs, 1 were asked for"),
    ):
        library = Library.default()
        library.typer("Index", made, domain="my.ops")
        model = model_of([node("Index", ["x"], ["y"], domain="my.ops")], [value("x")], [value("y")])
        with pytest.raises(NeuralsymError, match=said):
            neuralsym.load(model, library=library)


# -- run ---------------------------------------------------------------------------------------
def scale_model() -> onnx.ModelProto:
    nodes = [
        node("Abs", ["x"], ["a"]),
        node("Scale", ["a"], ["b"], "scaled", domain="my.ops", factor=3.0, times=2),
        node("Neg", ["b"], ["y"]),
    ]
    ends = [value("x", ("N", 2))], [value("y", ("N", 2))]
    return model_of(nodes, *ends, [value("b", ("N", 2))])


def test_a_kernel_of_the_users_runs_it() -> None:
    library = Library.default()

    @library.kernel("Scale", domain="my.ops")
    def scale(x, y, *, factor, times):  # type: ignore[no-untyped-def]
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] * factor * times

    given = np.array([[1, -2], [3, 4.5], [0, -1]], F1)
    network = neuralsym.load(scale_model(), library=library)
    np.testing.assert_array_equal(network(given), -6 * np.abs(given))
    np.testing.assert_array_equal(network(given[:1]), -6 * np.abs(given[:1]))
    later = neuralsym.load(scale_model().SerializeToString()).compile(library=library)
    np.testing.assert_array_equal(later(given), -6 * np.abs(given))


def test_without_a_kernel_it_is_clear_what_to_do() -> None:
    network = neuralsym.load(scale_model())
    with pytest.raises(NoKernel) as raised:
        network(np.zeros((1, 2), F1))
    said = str(raised.value)
    assert "Scale" in said
    assert "node 2 (Scale 'scaled')" in said
    assert "@library.kernel('Scale', domain='my.ops')" in said
    library = Library.default()
    library.kernel("Scale", domain="other")(lambda x, y: None)
    with pytest.raises(NoKernel, match=r"domain='my\.ops'"):
        network.compile(library=library)
    library.kernel("Scale", domain="my.ops")(lambda x, y, z: None)
    with pytest.raises(NeuralsymError, match="takes 3 arrays"):
        network.compile(library=library)


def test_a_typer_that_comes_with_the_kernel() -> None:
    """A file that declares no shape is compiled when the typer tells it."""
    model = scale_model()
    del model.graph.value_info[0].type.tensor_type.shape.dim[:]
    model.graph.value_info[0].type.tensor_type.ClearField("shape")
    library = Library.default()
    library.typer("Scale", lambda call: [call.type(0)], domain="my.ops")

    @library.kernel("Scale", domain="my.ops")
    def scale(x, y, *, factor, times):  # type: ignore[no-untyped-def]
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] * factor * times

    network = neuralsym.load(model)
    network.compile(library=library)
    assert network(np.ones((3, 2), F1)).tolist() == [[-6, -6]] * 3


def test_a_host_kernel_may_give_strings_and_shapes_that_depend_on_data() -> None:
    nodes = [
        node("Words", ["x"], ["w", "n"], domain="my.ops"),
        node("Mul", ["n", "n"], ["y"]),
    ]
    known = [value("n", ("count",), 7)]
    model = model_of(nodes, [value("x")], [value("y", None, 7), value("w", ("count",), 8)], known)
    library = Library.default()

    @library.kernel("Words", domain="my.ops")
    class Words(HostKernel):
        def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
            numbers = [int(v) for v in values[0] if v > 0]
            return [np.array([str(v) for v in numbers], object), np.array(numbers, np.int64)]

    results = neuralsym.load(model, library=library).run(np.array([3, -1, 12], F1))
    assert results["y"].tolist() == [9, 144]
    assert results["w"].tolist() == ["3", "12"]
