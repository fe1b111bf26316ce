"""What the ONNX engine writes: onnxruntime runs it, names and types are the graph's."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_variable, make_weight
from neuralsym.core.model import Model
from neuralsym.core.op import Call, Op
from neuralsym.core.registry import apply
from neuralsym.core.schema import Schema
from neuralsym.core.symbol import Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import SequenceType, TensorType
from neuralsym.dtypes import NumberType
from neuralsym.engines import onnx as engine
from neuralsym.errors import BadAttribute, FormatError

ROOT = Path(__file__).resolve().parents[2]


def session(model: onnx.ModelProto | bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options)


def run(model: onnx.ModelProto, **feed: np.ndarray) -> list[np.ndarray]:
    return session(model).run(None, feed)


def opset_of(model: onnx.ModelProto, domain: str = "") -> int:
    return next(i.version for i in model.opset_import if i.domain == domain)


# -- the seed's examples -----------------------------------------------------------------------
@pytest.mark.smoke
@pytest.mark.oracle
def test_basic_operations(tmp_path: Path) -> None:
    x, y = ops.variable("X"), ops.variable("Y")
    z = ops.exp(ops.sin(x) ** 2.0 + ops.cos(x) ** 2.0) + 10.0 * y**2.0
    assert engine.save(Graph(z, name="sym_graph"), tmp_path / "test.onnx") == [
        tmp_path / "test.onnx"
    ]
    onnx.checker.check_model(str(tmp_path / "test.onnx"), full_check=True)
    loaded = onnxruntime.InferenceSession(str(tmp_path / "test.onnx"))
    assert [i.name for i in loaded.get_inputs()] == ["X", "Y"]
    feed = {"X": np.array(math.pi, np.float32), "Y": np.array(3, np.float32)}
    assert loaded.run(None, feed)[0] == pytest.approx(math.e + 90, rel=1e-6)


@pytest.mark.oracle
def test_initialised_variable_is_overridable() -> None:
    init = np.arange(6, dtype=np.float32).reshape(2, 3)
    model = engine.of_symbolic(Graph(ops.sin(ops.variable("X", init=init))))
    assert model.ir_version >= 4
    loaded = session(model)
    assert loaded.get_inputs() == []
    (overridable,) = loaded.get_overridable_initializers()
    assert (overridable.name, overridable.shape) == ("X", [2, 3])
    np.testing.assert_allclose(loaded.run(None, {})[0], np.sin(init), rtol=1e-6)
    other = init + 10
    np.testing.assert_allclose(loaded.run(None, {"X": other})[0], np.sin(other), rtol=1e-5)


# -- values ------------------------------------------------------------------------------------
def test_types_of_values_are_written() -> None:
    x = ops.variable("x", ("N", 3, "H", "W"))
    w = make_weight(Tensor.of(np.ones((8, 3, 3, 3), np.float32)), name="kernel")
    y = ops.relu(ops.conv(x, w, strides=(2, 2), pads=(1, 1, 1, 1)))
    model = engine.of_symbolic(Graph({"out": y}))
    (value,) = model.graph.value_info
    dims = [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
    assert value.name == "conv"
    assert dims == ["N", 8, "(H + 1)//2", "(W + 1)//2"]
    assert [i.name for i in model.graph.initializer] == ["kernel"]
    assert [i.name for i in model.graph.input] == ["x"]
    assert [n.name for n in model.graph.node] == ["conv", "relu"]
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.oracle
def test_outputs_that_are_inputs_stored_or_given_twice() -> None:
    x = ops.variable("x", (2,))
    c = ops.constant(np.array([1, 2], np.float32), name="c")
    y = ops.relu(x)
    graph = Graph({"same": x, "y": y, "again": y, "kept": c, "c": c})
    model = engine.of_symbolic(graph)
    onnx.checker.check_model(model, full_check=True)
    given = np.array([-1, 1], np.float32)
    values = run(model, x=given)
    assert [o.name for o in model.graph.output] == list(graph.output_names)
    for value, wanted in zip(values, [given, [0, 1], [0, 1], [1, 2], [1, 2]], strict=True):
        np.testing.assert_array_equal(value, wanted)
    assert engine.of_symbolic(engine.to_symbolic(model)) == model


@pytest.mark.oracle
def test_an_input_given_out_under_its_own_name_needs_no_copy() -> None:
    x = ops.variable("x", (2,))
    model = engine.of_symbolic(Graph([x, ops.relu(x)]))
    assert [o.name for o in model.graph.output] == ["x", "relu"]
    assert len(model.graph.node) == 1
    np.testing.assert_array_equal(run(model, x=np.ones(2, np.float32))[0], [1, 1])


def test_an_unused_input_is_kept() -> None:
    x, y = ops.variable("x", (2,)), ops.variable("y", (3,))
    model = engine.of_symbolic(Graph(ops.relu(x), [y, x]))
    assert [i.name for i in model.graph.input] == ["y", "x"]


def test_metadata_and_description() -> None:
    graph = Graph(ops.relu(ops.variable("x", (2,))))
    model = engine.of_symbolic(
        Model({"g": graph}, {"b": "2", "a": "1"}, "what it is"), metadata={"c": "3"}
    )
    assert [(e.key, e.value) for e in model.metadata_props] == [("a", "1"), ("b", "2"), ("c", "3")]
    assert model.producer_name == "neuralsym"
    again = engine.read_model(model)
    assert dict(again.metadata) == {"a": "1", "b": "2", "c": "3"}
    assert again.doc == model.doc_string == "what it is"
    with pytest.raises(BadAttribute, match="metadata"):
        engine.of_symbolic(graph, metadata={"a": 1})  # type: ignore[dict-item]


def test_weights_keep_what_they_are() -> None:
    value = Tensor.of(np.ones((4,), np.float32))
    weight = make_weight(value, name="w")
    mean = make_weight(value, name="mean", trainable=False)
    fixed = ops.constant(np.ones((4,), np.float32), name="fixed")
    graph = Graph(weight + mean + fixed)
    again = engine.to_symbolic(engine.of_symbolic(graph))
    assert str(again) == str(graph)
    assert [s.name for s in again.weights] == ["w", "mean"]
    assert [s.node.attr("trainable") for s in again.weights] == [1, 0]


@pytest.mark.parametrize(
    "dtype",
    [
        *("float16", "bfloat16", "float64", "int8", "uint16", "bool", "complex64", "float8e4m3fn"),
        *("int4", "uint4", "int2", "uint2", "float4e2m1", "float8e8m0"),
    ],
)
def test_every_type_is_stored_and_read_back(dtype: str) -> None:
    kind = NumberType(dtype)
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(kind.numpy)
    graph = Graph({"out": ops.constant(Tensor.of(array, kind), name="c")})
    model = engine.of_symbolic(graph)
    onnx.checker.check_model(model, full_check=True)
    (again,) = engine.to_symbolic(model).outputs
    stored = again.node.inputs[0]
    assert stored is not None
    assert stored.dtype == dtype
    assert stored.node.attrs["value"].value.tobytes() == array.tobytes()


def test_strings_and_empty_tensors() -> None:
    words = ops.constant(np.array(["a", "grün", ""], object), name="words")
    empty = ops.constant(np.zeros((0, 3), np.float32), name="empty")
    graph = Graph([words, empty])
    again = engine.to_symbolic(engine.of_symbolic(graph))
    assert again["words"].node.attrs["value"].value.tolist() == ["a", "grün", ""]
    assert again["empty"].shape == (0, 3)


def test_sequences() -> None:
    s = make_variable("s", SequenceType(TensorType(NumberType.FLOAT32, ("N",))))
    graph = Graph(apply_op("SequenceAt", s, np.int64(0)))
    model = engine.of_symbolic(graph)
    onnx.checker.check_model(model, full_check=True)
    assert str(engine.to_symbolic(model)) == str(graph)


def apply_op(name: str, *inputs: object, outputs: int | None = None, **attrs: object):
    from neuralsym.core.op import find_op

    found = apply(find_op(name), inputs, attrs, outputs=outputs)
    return found if outputs else found[0]


# -- opsets ------------------------------------------------------------------------------------
def test_the_lowest_opset_from_18_on() -> None:
    x = ops.variable("x", (2, 3))
    model = engine.of_symbolic(Graph(ops.relu(x)))
    assert (opset_of(model), model.ir_version) == (18, 8)
    assert [i.domain for i in model.opset_import] == [""]
    half = ops.variable("h", (2, 3), "bfloat16")
    assert opset_of(engine.of_symbolic(Graph(ops.cos(half)))) == 22
    gelu = engine.of_symbolic(Graph(ops.gelu(x)))
    assert (opset_of(gelu), gelu.ir_version) == (20, 9)


def test_default_attributes_need_no_newer_opset() -> None:
    x = ops.variable("x", (2, 3))
    assert opset_of(engine.of_symbolic(Graph(apply_op("Cast", x, to=7, saturate=1)))) == 18
    image = ops.variable("i", (1, 3, 8, 8))
    pool = apply_op("AveragePool", image, kernel_shape=(2, 2), dilations=(2, 2))
    assert opset_of(engine.of_symbolic(Graph(pool))) == 19


@pytest.mark.oracle
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(("size", "opset"), [(5, 18), (4, 22), ("H", 22)])
def test_windows_that_start_in_the_padding(op: str, size: int | str, opset: int) -> None:
    """Versions before 22 count such a window: their inference gives 3 for 4/2."""
    x = ops.variable("x", (1, 1, size, size))
    y = apply_op(op, x, kernel_shape=(1, 1), strides=(2, 2), ceil_mode=1)
    model = engine.of_symbolic(Graph(y))
    assert opset_of(model) == opset
    onnx.checker.check_model(model, full_check=True)
    n = size if isinstance(size, int) else 6
    value = np.arange(n * n, dtype=np.float32).reshape(1, 1, n, n)
    assert np.array_equal(run(model, x=value)[0], value[:, :, ::2, ::2])


MEANINGS = [
    # operator, inputs' shapes, attributes, the lowest opset
    ("GroupNormalization", [(2, 4, 3), (4,), (4,)], {"num_groups": 2}, 21),
    ("Pad", [(2, 3)], {"mode": "wrap"}, 19),
    ("Pad", [(2, 3)], {"mode": "edge"}, 18),
    ("Softmax", [(2, 3, 4)], {"axis": 1}, 18),
    ("ReduceMax", [(2, 3)], {}, 18),
]


@pytest.mark.oracle
@pytest.mark.parametrize(("op", "shapes", "attrs", "opset"), MEANINGS)
def test_versions_that_changed_meaning(
    op: str, shapes: list[tuple[int, ...]], attrs: dict, opset: int, rng: np.random.Generator
) -> None:
    inputs = [ops.variable(f"x{i}", s) for i, s in enumerate(shapes)]
    if op == "Pad":
        inputs.append(ops.constant(np.array([1, 1, 1, 1], np.int64)))
    graph = Graph(apply_op(op, *inputs, **attrs))
    feed = {f"x{i}": rng.standard_normal(s).astype(np.float32) for i, s in enumerate(shapes)}
    model = engine.of_symbolic(graph)
    assert opset_of(model) == opset
    newest = engine.of_symbolic(graph, opset=22)
    np.testing.assert_allclose(run(model, **feed)[0], run(newest, **feed)[0], rtol=1e-6, atol=1e-6)


def test_an_opset_that_is_asked_for() -> None:
    x = ops.variable("x", (2, 3))
    y = ops.softmax(ops.relu(x) + 1.0, axis=-1)
    for opset in (11, 13, 17, 18, 21, 28):
        model = engine.of_symbolic(Graph(y), opset=opset)
        assert opset_of(model) == opset
        onnx.checker.check_model(model, full_check=True)
        if opset <= 22:
            value = np.array([[-1, 0, 1], [2, 3, 4]], np.float32)
            expected = np.exp(np.maximum(value, 0) + 1)
            expected /= expected.sum(-1, keepdims=True)
            np.testing.assert_allclose(run(model, x=value)[0], expected, rtol=1e-5)


def axis() -> Symbol:
    return ops.variable("axis", (1,), "int64")


@pytest.mark.parametrize(
    ("make", "opset", "said"),
    [
        (lambda x: ops.gelu(x), 8, "Gelu 'gelu' cannot be written in opset 8.*Erf is new in ver"),
        (lambda x: ops.cum_sum(x, np.array(0)), 10, "CumSum.*new in version 11.*give opset=11"),
        (lambda x: apply_op("ReduceMean", x, axis()), 17, "'axes' has to be a constant"),
        (lambda x: apply_op("Mod", x, x), 9, "Mod.*the lowest that can say it is 10"),
    ],
)
def test_an_opset_that_is_too_low(make, opset: int, said: str) -> None:
    x = ops.variable("x", (2, 3))
    with pytest.raises(FormatError, match=said):
        engine.of_symbolic(Graph(make(x)), opset=opset)


@pytest.mark.parametrize("opset", [0, 6, 29])
def test_an_opset_that_is_none(opset: int) -> None:
    with pytest.raises(FormatError, match="7 to 28"):
        engine.of_symbolic(Graph(ops.relu(ops.variable("x"))), opset=opset)


def test_machine_learning_operators_import_their_domain() -> None:
    from neuralsym.core.op import find_op

    x = ops.variable("x", (2, 3))
    y = apply(find_op("Scaler", "ai.onnx.ml"), [x], {"offset": (1.0,), "scale": (2.0,)})[0]
    model = engine.of_symbolic(Graph(y))
    assert opset_of(model, "ai.onnx.ml") == 1
    onnx.checker.check_model(model, full_check=True)
    assert engine.of_symbolic(engine.to_symbolic(model)) == model


# -- refusals ----------------------------------------------------------------------------------
def test_what_onnx_cannot_say_is_refused() -> None:
    class Strange(Op):
        domain = "neuralsym.test"
        schema = Schema("Strange", "neuralsym.test")

        @classmethod
        def infer(cls, call: Call) -> list[TensorType]:
            return [TensorType(NumberType.FLOAT32, ())]

    with pytest.raises(FormatError, match=r"Strange.*domain 'neuralsym\.test'"):
        engine.of_symbolic(Graph(apply(Strange, [])[0]))
    x = ops.variable("x", (2,))
    graph = Graph(ops.relu(x), updates={x: ops.relu(x)})
    with pytest.raises(FormatError, match="writes values back"):
        engine.of_symbolic(graph)
    plain = Graph(ops.relu(x))
    with pytest.raises(FormatError, match="holds one graph"):
        engine.of_symbolic(Model({"a": plain, "b": plain}))


# -- the same bytes ----------------------------------------------------------------------------
PROGRAM = """
import hashlib, numpy as np
from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.engines import onnx as engine
x = ops.variable("x", ("N", 3, 8, 8))
w = ops.constant(np.linspace(0, 1, 27, dtype=np.float32).reshape(1, 3, 3, 3))
y = ops.conv(x, w, pads=(1, 1, 1, 1), strides=(1, 1), dilations=(1, 1), group=1)
model = engine.of_symbolic(Graph(y), metadata={"b": "1", "a": "2", "c": "3"})
print(hashlib.sha256(model.SerializeToString()).hexdigest())
"""


def test_the_same_bytes_in_every_process() -> None:
    hashes = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(hashes) == 1
