"""What is read from ONNX files, well formed and not."""

from __future__ import annotations

import pickle
import warnings
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx_models import model_of, node, tensor, value

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.parse import parse_graph
from neuralsym.engines import Engine
from neuralsym.engines import onnx as engine
from neuralsym.errors import FormatError, GraphError, NeuralsymError, ShapeMismatch


def test_the_module_is_an_engine() -> None:
    found: Engine[onnx.ModelProto] = engine  # the type checker compares the functions
    graph = Graph(ops.relu(ops.variable("x", (2,))))
    assert str(found.to_symbolic(found.of_symbolic(graph))) == str(graph)


# -- names -------------------------------------------------------------------------------------
def test_names_of_nodes_and_values_are_kept() -> None:
    model = model_of(
        [
            node("Split", ["x"], ["a", "b"], "cut", axis=1, num_outputs=2),
            node("Add", ["a", "w"], ["sum"], "first"),
            node("Mul", ["sum", "b"], ["out:0"], ""),
        ],
        [value("x", ("N", 4))],
        [value("out:0", ("N", 2))],
        [tensor("w", [1, 2])],
    )
    graph = engine.to_symbolic(model)
    assert [graph[n].name for n in ("x", "w", "a", "b", "sum", "out:0")] == [
        "x", "w", "a", "b", "sum", "out:0",
    ]  # fmt: skip
    written = engine.of_symbolic(graph)
    assert [(n.name, list(n.output)) for n in written.graph.node] == [
        ("cut", ["a", "b"]),
        ("first", ["sum"]),
        ("out:0", ["out:0"]),
    ]
    assert engine.of_symbolic(engine.to_symbolic(written)) == written
    for same in (pickle.loads(pickle.dumps(graph)), parse_graph(str(graph)), copy(graph)):
        assert str(same) == str(graph)
        assert same["b"].name == "b"
    other = graph.rename({"sum": "total"})
    assert [list(n.output) for n in engine.of_symbolic(other).graph.node] == [
        ["a", "b"], ["total"], ["out:0"],
    ]  # fmt: skip


def test_names_that_are_no_identifiers() -> None:
    names = ['{"a": [1, 2]}', "sequential/dense:0", "größe", "line\nbreak", " "]
    nodes = [node("Relu", [a], [b]) for a, b in pairwise(names)]
    model = model_of(nodes, [value(names[0])], [value(names[-1])])
    graph = engine.to_symbolic(model)
    assert graph.output_names == (" ",)
    written = engine.of_symbolic(graph)
    assert [n.output[0] for n in written.graph.node] == names[1:]


def test_names_inside_a_scope_stay() -> None:
    from neuralsym.core.scope import scope

    model = model_of([node("Relu", ["x"], ["y"])], [value("x")], [value("y")])
    with scope("block"):
        graph = engine.to_symbolic(model)
    assert graph.output_names == ("y",)


# -- leaves ------------------------------------------------------------------------------------
def test_initializers_that_are_inputs() -> None:
    def read(ir: int) -> Graph:
        stored = [tensor("w", [1, 2])]
        nodes = [node("Add", ["x", "w"], ["y"])]
        inputs = [value("w"), value("x")]
        return engine.to_symbolic(model_of(nodes, inputs, [value("y")], stored, ir=ir))

    assert read(3).input_names == ("x",)
    assert read(3)["w"].op_type == "Weight"
    overridable = read(4)
    assert overridable.input_names == ("w", "x")
    np.testing.assert_array_equal(overridable["w"].attrs["init"].value, [1, 2])
    written = engine.of_symbolic(overridable)
    assert [i.name for i in written.graph.input] == ["w", "x"]
    assert [t.name for t in written.graph.initializer] == ["w"]


def test_parameters_and_constants() -> None:
    norm = [tensor(n, [1, 1]) for n in ("gamma", "beta", "mean", "var")]
    model = model_of(
        [
            node("BatchNormalization", ["x", "gamma", "beta", "mean", "var"], ["a"]),
            node("Mul", ["a", "scalar"], ["b"]),
            node("Reshape", ["b", "shape"], ["y"]),
        ],
        [value("x", (3, 2))],
        [value("y", None)],
        [*norm, tensor("scalar", 2), tensor("shape", [6], np.int64), tensor("unused", [1])],
    )
    graph = engine.to_symbolic(model)
    assert [s.name for s in graph.weights] == ["gamma", "beta", "mean", "var"]
    assert [s.node.attr("trainable") for s in graph.weights] == [1, 1, 0, 0]
    assert graph["scalar"].op_type == graph["shape"].op_type == "Constant"
    assert graph["y"].shape == (6,)
    assert "unused" not in graph


CONSTANTS = [
    ({"value_float": 1.5}, np.float32(1.5)),
    ({"value_floats": [1.5, 2]}, np.array([1.5, 2], np.float32)),
    ({"value_int": -3}, np.int64(-3)),
    ({"value_ints": [1, 2]}, np.array([1, 2], np.int64)),
    ({"value_string": "ab"}, np.array("ab", object)),
    ({"value_strings": ["a", "ü"]}, np.array(["a", "ü"], object)),
    ({"value": tensor("", [[1, 2]], np.int8)}, np.array([[1, 2]], np.int8)),
]


@pytest.mark.parametrize(("attrs", "wanted"), CONSTANTS, ids=lambda c: str(c)[:20])
def test_every_form_of_constant(attrs: dict[str, Any], wanted: np.ndarray) -> None:
    model = model_of([node("Constant", [], ["c"], **attrs)], [], [onnx.ValueInfoProto(name="c")])
    graph = engine.to_symbolic(model)
    got = graph["c"].attrs["value"].value
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    assert got.tolist() == wanted.tolist()


@pytest.mark.parametrize("linear", [True, False])
def test_sparse_tensors(linear: bool) -> None:
    indices = [1, 5] if linear else [[0, 1], [1, 2]]
    sparse = helper.make_sparse_tensor(tensor("s", [3, 4]), tensor("i", indices, np.int64), [2, 3])
    wanted = [[0, 3, 0], [0, 0, 4]]
    constant = node("Constant", [], ["c"], sparse_value=sparse)
    graph = engine.to_symbolic(model_of([constant], [], [onnx.ValueInfoProto(name="c")]))
    assert graph["c"].attrs["value"].value.tolist() == wanted
    stored = model_of(
        [node("Identity", ["s"], ["c"])],
        [],
        [onnx.ValueInfoProto(name="c")],
        sparse_initializer=[sparse],
    )
    assert engine.to_symbolic(stored)["s"].attrs["value"].value.tolist() == wanted
    sparse.dims[0] = 1
    with pytest.raises(FormatError, match="out of range"):
        engine.to_symbolic(stored.__class__.FromString(_with_sparse(stored, sparse)))
    sparse.dims[0] = 2**60
    with pytest.raises(FormatError, match="too large"):
        engine.to_symbolic(stored.__class__.FromString(_with_sparse(stored, sparse)))


def _with_sparse(model: onnx.ModelProto, sparse: onnx.SparseTensorProto) -> bytes:
    del model.graph.sparse_initializer[:]
    model.graph.sparse_initializer.append(sparse)
    return model.SerializeToString()


def test_tensors_that_are_broken() -> None:
    def read(change: Any) -> None:
        made = tensor("w", [1, 2])
        change(made)
        nodes = [node("Add", ["x", "w"], ["y"])]
        engine.to_symbolic(model_of(nodes, [value("x")], [value("y")], [made]))

    def sizes(t: TensorProto) -> None:
        t.dims[0] = 2**40

    def negative(t: TensorProto) -> None:
        t.dims[0] = -2

    def kind(t: TensorProto) -> None:
        t.data_type = 99

    def nothing(t: TensorProto) -> None:
        t.ClearField("raw_data")

    def fewer(t: TensorProto) -> None:
        t.ClearField("raw_data")
        t.float_data.append(1)

    for change, said in [
        (sizes, "has 8 bytes, not 4398046511104"),
        (negative, "negative size"),
        (kind, "element type 99"),
        (nothing, "has no data"),
        (fewer, "does not fit"),
    ]:
        with pytest.raises(FormatError, match=f"'w'.*{said}"):
            read(change)


# -- order and form ----------------------------------------------------------------------------
def test_unsorted_nodes_and_unused_parts() -> None:
    model = model_of(
        [
            node("Relu", ["b"], ["y"]),
            node("Neg", ["a"], ["b"]),
            node("Abs", ["x"], ["a"]),
            node("NoSuchOperator", ["x"], ["dead"]),
        ],
        [value("x")],
        [value("y")],
    )
    graph = engine.to_symbolic(model)
    assert [n.op_type for n in graph.nodes] == ["Variable", "Abs", "Neg", "Relu"]


@given(st.permutations(range(6)))
def test_any_order_gives_the_same_graph(order: list[int]) -> None:
    names = [f"v{i}" for i in range(7)]
    nodes = [node("Add", [names[i], names[max(i - 2, 0)]], [names[i + 1]]) for i in range(6)]
    ends = [value("v0")], [value("v6")]
    sorted_ = engine.to_symbolic(model_of(nodes, *ends))
    assert str(engine.to_symbolic(model_of([nodes[i] for i in order], *ends))) == str(sorted_)


def test_empty_optional_names() -> None:
    model = model_of(
        [
            node("Clip", ["x", "", "high"], ["c", ""]),
            node("Resize", ["c", "", "", "sizes"], ["y"], mode="nearest"),
        ],
        [value("x", (1, 1, 2, 2))],
        [value("y", None)],
        [tensor("high", 1), tensor("sizes", [1, 1, 4, 4], np.int64)],
    )
    graph = engine.to_symbolic(model)
    assert graph["y"].shape == (1, 1, 4, 4)
    assert graph["c"].inputs[1] is None
    written = engine.of_symbolic(graph)
    assert [list(n.input) for n in written.graph.node] == [
        ["x", "", "high"], ["c", "", "", "sizes"],
    ]  # fmt: skip


BROKEN = [
    ([("Relu", ["a"], ["b"]), ("Abs", ["b"], ["a"]), ("Neg", ["b"], ["y"])], "cyclic"),
    ([("Relu", ["y"], ["y"])], r"node 1 \(Relu\) depends on itself"),
    ([("Relu", ["nothing"], ["y"])], "uses 'nothing', which nothing gives"),
    ([("Relu", ["xx"], ["y"])], "did you mean 'x'"),
    ([("Relu", ["x"], ["y"]), ("Abs", ["x"], ["y"])], "'y' is given twice"),
    ([("Relu", ["x"], ["x"]), ("Abs", ["x"], ["y"])], "'x' is given twice"),
    ([("Relu", ["x"], ["w"]), ("Abs", ["w"], ["y"])], "'w' is given twice"),
    ([("Relu", ["x"], ["z"])], "the graph's output uses 'y'"),
]


@pytest.mark.parametrize(("rows", "said"), BROKEN, ids=lambda c: str(c)[:30])
def test_graphs_that_are_not_well_formed(rows: list[Any], said: str) -> None:
    nodes = [node(*row) for row in rows]
    with pytest.raises(GraphError, match=said):
        engine.to_symbolic(model_of(nodes, [value("x")], [value("y")], [tensor("w", [1, 2])]))


def test_names_that_occur_twice() -> None:
    relu = [node("Relu", ["x"], ["y"])]
    with pytest.raises(GraphError, match="two inputs are called 'x'"):
        engine.to_symbolic(model_of(relu, [value("x"), value("x")], [value("y")]))
    with pytest.raises(GraphError, match="two outputs are called 'y'"):
        engine.to_symbolic(model_of(relu, [value("x")], [value("y"), value("y")]))
    stored = [tensor("w", [1, 2])] * 2
    with pytest.raises(GraphError, match="two initializers are called 'w'"):
        engine.to_symbolic(model_of(relu, [value("x")], [value("y")], stored))


def test_an_error_names_the_node_and_the_file(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("MatMul", ["a", "w"], ["y"], "dense")]
    model = model_of(nodes, [value("x", (2, 3))], [value("y", None)], [tensor("w", [[1.0], [2]])])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ShapeMismatch, match=r"node 2 \(MatMul 'dense'\) of .*m\.onnx"):
        engine.read_model(tmp_path / "m.onnx")


# -- versions ----------------------------------------------------------------------------------
@pytest.mark.parametrize("opset", [0, 29, 1000])
def test_opsets_that_are_not_known(opset: int) -> None:
    model = model_of([node("Relu", ["x"], ["y"])], [value("x")], [value("y")], opset=opset)
    with pytest.raises(FormatError, match=f"version {opset} .*1 to 28"):
        engine.to_symbolic(model)


def test_opsets_that_are_not_named() -> None:
    def read(ir: int) -> Graph:
        nodes = [node("Softmax", ["x"], ["y"])]
        ends = [value("x", (2, 3, 4))], [value("y", None)]
        return engine.to_symbolic(model_of(nodes, *ends, opset=None, ir=ir))

    assert len(read(3).find("Flatten")) == 1  # opset 8: over all axes from 1 on
    assert read(8).find("Flatten") == []
    assert engine.to_symbolic(
        model_of([node("Relu", ["x"], ["y"], domain="ai.onnx")], [value("x")], [value("y")])
    ).find("Relu")


def test_an_opset_that_is_named_twice() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], [value("x")], [value("y")])
    model.opset_import.add(domain="ai.onnx", version=18)
    assert engine.to_symbolic(model).output_names == ("y",)


def test_operators_that_are_not_known() -> None:
    ends = [value("x")], [value("y", None)]
    with pytest.raises(FormatError, match=r"node 1 \(Rleu\).*did you mean 'Relu'"):
        engine.to_symbolic(model_of([node("Rleu", ["x"], ["y"])], *ends))
    with pytest.raises(FormatError, match="of domain 'neuralsym'"):
        engine.to_symbolic(model_of([node("Weight", ["x"], ["y"], domain="neuralsym")], *ends))
    with pytest.raises(FormatError, match="from version 20 on, but not version 18"):
        engine.to_symbolic(model_of([node("Gelu", ["x"], ["y"])], *ends))
    with pytest.raises(FormatError, match="names no version"):
        engine.to_symbolic(model_of([node("Scaler", ["x"], ["y"], domain="ai.onnx.ml")], *ends))
    with pytest.raises(NeuralsymError, match="no attribute 'slope'"):
        engine.to_symbolic(model_of([node("Relu", ["x"], ["y"], slope=1.0)], *ends))


# -- types -------------------------------------------------------------------------------------
def test_dimensions() -> None:
    shape = ["N", "unk__7", None, -1, "2*N + 1", "a b", "", 0]
    x = value("x", [*shape[:3], None, *shape[4:]])
    x.type.tensor_type.shape.dim[3].dim_value = -1
    graph = engine.to_symbolic(model_of([node("Relu", ["x"], ["y"])], [x], [value("y", None)]))
    got = graph["x"].shape
    assert got is not None
    assert [None if d is None else str(d) for d in got] == [
        "N", "unk__7", None, None, "2*N + 1", "a b", None, "0",
    ]  # fmt: skip


def test_declared_types_fill_what_cannot_be_told() -> None:
    nodes = [node("NonZero", ["x"], ["i"]), node("Transpose", ["i"], ["y"])]
    known = [value("i", (2, "count"), 7)]
    ends = [value("x", (3, 4))], [value("y", ("count", 2), 7)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = engine.to_symbolic(model_of(nodes, *ends, value_info=known))
    assert str(graph["y"].type) == "int64[count, 2]"


def test_declared_types_that_contradict_are_not_believed() -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Relu", ["a"], ["y"])]
    wrong = [value("x", (2, 3))], [value("y", (2, 4))]
    with pytest.warns(UserWarning, match=r"contradict.*'a' is float32\[2, 3\]") as caught:
        graph = engine.to_symbolic(model_of(nodes, *wrong, value_info=[value("a", (9, 9, 9))]))
    assert len(caught) == 1
    assert graph["y"].shape == (2, 3)
    assert engine.of_symbolic(graph).graph.output[0].type.tensor_type.shape.dim[1].dim_value == 3


def test_an_input_without_a_type() -> None:
    model = model_of([node("Relu", ["x"], ["y"])], [onnx.ValueInfoProto(name="x")], [value("y")])
    with pytest.raises(FormatError, match="the input 'x' has no type"):
        engine.to_symbolic(model)


# -- round trips -------------------------------------------------------------------------------
def test_a_graph_of_many_kinds_comes_back_the_same() -> None:
    x = ops.variable("x", ("N", 3, "H", "W"))
    k = ops.variable("k", init=np.ones(3, np.float32))
    y = ops.relu(x * ops.reshape(k, np.array([3, 1, 1])))
    pooled = ops.max_pool(y, kernel_shape=(2, 2), strides=(2, 2), outputs=2)
    rows = ops.split(pooled[0], np.array([1, 2]), axis=1)
    z = ops.concat([rows[1], rows[0]], axis=1)
    graph = Graph({"z": z, "where": pooled[1]}, name="many")
    model = engine.of_symbolic(graph)
    onnx.checker.check_model(model, full_check=True)
    again = engine.to_symbolic(model)
    assert engine.of_symbolic(again) == model
    assert [str(s.type) for s in again.outputs] == [str(s.type) for s in graph.outputs]
