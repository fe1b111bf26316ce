"""Flows and graphs: each operation type computes what Myelin computes, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np
import pytest
from flow_files import FILES, as_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

import neuralsym.layers as nn
from neuralsym import ops, zoo
from neuralsym.core.graph import Graph
from neuralsym.engines import flow as engine
from neuralsym.engines.flow import Flow, VariableFlag
from neuralsym.engines.flow.recipe import Assignment, Call, Ref, parse, show
from neuralsym.errors import FormatError
from neuralsym.network import Network

Array = np.ndarray


def flow_of(
    type_: str,
    inputs: dict[str, Any],
    outputs: dict[str, tuple[str, list[int]]],
    attrs: dict[str, object] | None = None,
    fed: tuple[str, ...] = ("x",),
) -> Flow:
    """A flow of one operation; the inputs that are not `fed` are constants."""
    flow = Flow()
    op = flow.op("op", type_)
    for name, value in inputs.items():
        array = np.asarray(value)
        var = flow.var(name, array.dtype.name, list(array.shape))
        if name not in fed:
            var.data = array
        op.add_input(var)
    for name, (dtype, shape) in outputs.items():
        op.add_output(flow.var(name, dtype, shape))
    for key, value in (attrs or {}).items():
        op.add_attr(key, value)
    flow.func("f").add(op)
    return Flow.from_bytes(flow.to_bytes())


def computed(flow: Flow, **feed: Any) -> dict[str, Array]:
    return Network(engine.read_model(flow, 1)).run(feed)


F = np.float32
X = np.array([[-2.5, -0.75, 0.25], [0.5, 1.5, 3.0]], F)
UNIT = np.array([[-0.9, -0.4, 0.25], [0.5, 0.75, 0.95]], F)
ABOVE = np.array([[1.25, 2.0, 3.5], [-1.5, -2.25, 4.0]], F)
POSITIVE = np.abs(X) + F(0.1)


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


UNARY: dict[str, tuple[Array, Callable[[Array], Array]]] = {
    "Neg": (X, np.negative), "Abs": (X, np.abs), "Sign": (X, np.sign),
    "Relu": (X, lambda x: np.maximum(x, 0)), "Gelu": (X, _gelu),
    "Softsign": (X, lambda x: x / (1 + np.abs(x))), "Softplus": (X, lambda x: np.log1p(np.exp(x))),
    "LogSigmoid": (X, lambda x: -np.log1p(np.exp(-x))), "Reciprocal": (X, lambda x: 1 / x),
    "Square": (X, np.square), "Sqrt": (POSITIVE, np.sqrt),
    "Rsqrt": (POSITIVE, lambda x: 1 / np.sqrt(x)), "Exp": (X, np.exp), "Log": (POSITIVE, np.log),
    "Log2": (POSITIVE, np.log2), "Exp2": (X, np.exp2),
    "Sigmoid": (X, lambda x: 1 / (1 + np.exp(-x))), "Erf": (X, np.vectorize(erf)),
    "Floor": (X, np.floor), "Ceil": (X, np.ceil), "Round": (X, np.round), "Trunc": (X, np.trunc),
    "Sin": (X, np.sin), "Cos": (X, np.cos), "Tan": (X, np.tan), "Cot": (X, lambda x: 1 / np.tan(x)),
    "Sec": (X, lambda x: 1 / np.cos(x)), "Csc": (X, lambda x: 1 / np.sin(x)),
    "Asin": (UNIT, np.arcsin), "Acos": (UNIT, np.arccos), "Atan": (X, np.arctan),
    "Acot": (X, lambda x: np.arctan(1 / x)), "Asec": (ABOVE, lambda x: np.arccos(1 / x)),
    "Acsc": (ABOVE, lambda x: np.arcsin(1 / x)), "Sinh": (X, np.sinh), "Cosh": (X, np.cosh),
    "Tanh": (X, np.tanh), "Coth": (X, lambda x: 1 / np.tanh(x)),
    "Sech": (X, lambda x: 1 / np.cosh(x)),
    "Csch": (X, lambda x: 1 / np.sinh(x)), "Asinh": (X, np.arcsinh),
    "Acosh": (np.abs(ABOVE), np.arccosh), "Atanh": (UNIT, np.arctanh),
    "Acoth": (ABOVE, lambda x: np.arctanh(1 / x)),
    "Asech": (np.abs(UNIT), lambda x: np.arccosh(1 / x)), "Acsch": (X, lambda x: np.arcsinh(1 / x)),
    "Identity": (X, lambda x: x),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_elementwise_of_one(name: str) -> None:
    x, expected = UNARY[name]
    found = computed(flow_of(name, {"x": x}, {"y": ("float32", [2, 3])}), x=x)["y"]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, expected(x.astype(np.float64)), rtol=2e-6, atol=2e-7)


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Mod": np.mod,
    "Minimum": np.minimum, "Maximum": np.maximum, "BiasAdd": np.add, "AddV2": np.add,
    "SquaredDifference": lambda x, y: (x - y) ** 2,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_elementwise_of_two_with_broadcasting(name: str) -> None:
    y = np.array([0.5, 2.0, -1.5], F)
    flow = flow_of(name, {"x": X, "b": y}, {"y": ("float32", [2, 3])})
    np.testing.assert_allclose(computed(flow, x=X)["y"], BINARY[name](X, y), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Equal", np.equal), ("NotEqual", np.not_equal), ("Less", np.less), ("Greater", np.greater),
     ("LessEqual", np.less_equal), ("GreaterEqual", np.greater_equal)],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["bool", "float32"])
def test_comparisons_give_what_is_declared(
    name: str, expected: Callable[..., Array], kind: str
) -> None:
    y = np.array([-2.5, 1.5, 3.0], F)
    found = computed(flow_of(name, {"x": X, "b": y}, {"y": (kind, [2, 3])}), x=X)["y"]
    assert found.dtype == kind
    np.testing.assert_array_equal(found, expected(X, y).astype(kind))


def test_truths_and_bits() -> None:
    x, y = np.array([True, True, False]), np.array([True, False, False])
    for name, expected in (("And", x & y), ("Or", x | y), ("Xor", x ^ y), ("AndNot", ~x & y)):
        found = computed(flow_of(name, {"x": x, "b": y}, {"y": ("bool", [3])}), x=x)["y"]
        np.testing.assert_array_equal(found, expected)
    bits = np.array([12, 10], np.int32)
    found = computed(
        flow_of("And", {"x": bits, "b": bits[::-1].copy()}, {"y": ("int32", [2])}), x=bits
    )
    assert found["y"].tolist() == [8, 8]
    found = computed(flow_of("Not", {"x": x}, {"y": ("bool", [3])}), x=x)
    assert found["y"].tolist() == [False, False, True]
    flow = flow_of("Cond", {"x": x, "a": F([1, 2, 3]), "b": F([4, 5, 6])}, {"y": ("float32", [3])})
    assert computed(flow, x=x)["y"].tolist() == [1, 2, 6]
    flow = flow_of("Select", {"x": x, "a": F([1, 2, 3])}, {"y": ("float32", [3])})
    assert computed(flow, x=x)["y"].tolist() == [1, 2, 0]


TABLE = np.arange(12, dtype=F).reshape(4, 3)
INT = np.int32

CASES: dict[str, tuple[str, dict[str, Any], dict[str, object], Array]] = {
    "product": ("MatMul", {"x": X, "w": TABLE[:3]}, {}, X @ TABLE[:3]),
    "product, b transposed": ("MatMul", {"x": X, "w": TABLE}, {"transpose_b": "true"}, X @ TABLE.T),
    "product, all transposed": (
        "MatMul", {"x": X, "w": TABLE[:, :2].copy()},
        {"transpose_a": 1, "transpose_b": 1, "transpose_c": 1}, (X.T @ TABLE[:, :2].T).T),
    "MatMulAdd": ("MatMulAdd", {"x": X, "w": TABLE[:3], "b": F([1, 2, 3])}, {},
                  X @ TABLE[:3] + F([1, 2, 3])),
    "MatMulRelu": ("MatMulRelu", {"x": X, "w": TABLE[:3]}, {}, np.maximum(X @ TABLE[:3], 0)),
    "MatMulAddRelu": ("MatMulAddRelu", {"x": X, "w": TABLE[:3], "b": F([-9, 2, 3])}, {},
                      np.maximum(X @ TABLE[:3] + F([-9, 2, 3]), 0)),
    "Linear": ("Linear", {"x": X, "w": TABLE, "b": F([1, 2, 3, 4])}, {},
               X @ TABLE.T + F([1, 2, 3, 4])),
    "Transpose": ("Transpose", {"x": X}, {}, X.T),
    "Transpose, order": ("Transpose", {"x": X[None]}, {"perm": "[1, 0, 2]"}, X[:, None]),
    "Reshape": ("Reshape", {"x": X, "s": INT([3, -1])}, {}, X.reshape(3, 2)),
    "Resize, longer": ("Resize", {"x": X, "s": INT([2, 4])}, {},
                       np.concatenate([X.reshape(-1), F([0, 0])]).reshape(2, 4)),
    "Resize, shorter": ("Resize", {"x": X, "s": INT([2, 2])}, {}, X.reshape(-1)[:4].reshape(2, 2)),
    "Concat": ("Concat", {"x": X, "b": X + 1, "a": INT(1)}, {"N": 2},
               np.concatenate([X, X + 1], 1)),
    "Slice": ("Slice", {"x": X, "b": INT([0, 1]), "s": INT([1, -1])}, {}, X[:1, 1:]),
    "Squeeze": ("Squeeze", {"x": X[:, None]}, {"squeeze_dims": "[1]"}, X),
    "ExpandDims": ("ExpandDims", {"x": X, "a": INT(-1)}, {}, X[..., None]),
    "Pack": ("Pack", {"x": X, "b": X + 1}, {"axis": 1}, np.stack([X, X + 1], 1)),
    "Gather, a row": ("Gather", {"x": INT(2)}, {"table": TABLE}, TABLE[2]),
    "Gather, rows": ("Gather", {"x": INT([3, 0])}, {"table": TABLE}, TABLE[[3, 0]]),
    "Gather, multi-index": ("Gather", {"x": INT([[3, 1], [0, 2]])}, {"table": TABLE}, F([10, 2])),
    "Gather, column": ("Gather", {"x": INT([[3], [1]])}, {"table": TABLE}, TABLE[[3, 1]]),
    "Gather, outside": ("Gather", {"x": INT([1, -1])}, {"table": TABLE, "oov": F([7, 8, 9])},
                        np.stack([TABLE[1], F([7, 8, 9])])),
    "GatherSum": ("GatherSum", {"x": INT([[3, 1, -1]])}, {"table": TABLE},
                  (TABLE[3] + TABLE[1])[None]),
    "GatherAvg": ("GatherAvg", {"x": INT([[3, 1, -1]])}, {"table": TABLE},
                  (TABLE[3] + TABLE[1])[None] / 2),
    "GatherMax": ("GatherMax", {"x": INT([[3, 1]])}, {"table": TABLE}, TABLE[3][None]),
    "GatherV2": ("GatherV2", {"x": INT([[2, 0]])}, {"table": TABLE, "axis": INT(1)},
                 TABLE[:, [[2, 0]]]),
    "OneHot": ("OneHot", {"x": INT([2, 0])}, {"depth": 4}, np.eye(4, dtype=F)[[2, 0]]),
    "Shape": ("Shape", {"x": X}, {}, INT([2, 3])),
    "Size": ("Size", {"x": X}, {}, INT(6)),
    "Rank": ("Rank", {"x": X}, {}, INT(2)),
    "Sum": ("Sum", {"x": X}, {}, X.sum()),
    "Sum, axis": ("Sum", {"x": X}, {"axis": -1, "keepdims": True}, X.sum(-1, keepdims=True)),
    "Sum, TensorFlow's": ("Sum", {"x": X, "a": INT([0])}, {"keep_dims": "false"}, X.sum(0)),
    "Product": ("Product", {"x": X}, {"axis": 0}, X.prod(0)),
    "Max": ("Max", {"x": X}, {"axis": 1}, X.max(1)),
    "Min": ("Min", {"x": X}, {}, X.min()),
    "Mean": ("Mean", {"x": X}, {"axis": 1}, X.mean(1)),
    "Count": ("Count", {"x": X > 0}, {}, INT(4)),
    "All": ("All", {"x": X > -1}, {"axis": 0}, (X > -1).all(0)),
    "Any": ("Any", {"x": X > 2}, {"axis": 1}, (X > 2).any(1)),
    "LogSumExp": ("LogSumExp", {"x": X}, {"axis": 1}, np.log(np.exp(X).sum(1))),
    "SoftMax, all": ("SoftMax", {"x": X}, {}, np.exp(X) / np.exp(X).sum()),
    "SoftMax, axis": ("SoftMax", {"x": X}, {"axis": 0}, np.exp(X) / np.exp(X).sum(0)),
    "Softmax": ("Softmax", {"x": X}, {}, np.exp(X) / np.exp(X).sum(-1, keepdims=True)),
    "CastFloat": ("CastFloat", {"x": X}, {}, X.astype(INT)),
    "SpaceToBatchND": ("SpaceToBatchND", {"x": np.arange(16, dtype=F).reshape(1, 4, 4, 1),
                       "b": INT([2, 2]), "p": INT([[0, 0], [0, 0]])}, {},
                       np.arange(16, dtype=F).reshape(2, 2, 2, 2).transpose(1, 3, 0, 2)
                       .reshape(4, 2, 2, 1)),
    "BatchToSpaceND": ("BatchToSpaceND", {"x": np.arange(16, dtype=F).reshape(4, 2, 2, 1),
                       "b": INT([2, 2]), "c": INT([[0, 1], [0, 0]])}, {},
                       np.arange(16, dtype=F).reshape(2, 2, 2, 2).transpose(2, 0, 3, 1)
                       .reshape(1, 4, 4, 1)[:, :3]),
    "Fill": ("Fill", {"s": INT([2, 2]), "x": F(3)}, {}, np.full((2, 2), F(3))),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_operations(case: str) -> None:
    type_, given, settings_, expected = CASES[case]
    inputs, attrs = dict(given), dict(settings_)
    for name in ("table", "oov", "axis"):  # a table comes first and is a constant
        if isinstance(attrs.get(name), (np.ndarray, np.generic)):
            value = attrs.pop(name)
            inputs = {name: value, **inputs} if name == "table" else {**inputs, name: value}
    out = {"y": (expected.dtype.name, list(expected.shape))}
    found = computed(flow_of(type_, inputs, out, attrs), x=inputs["x"])["y"]
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


def test_operations_with_several_results() -> None:
    x = np.arange(8, dtype=F).reshape(2, 4)
    out = {"a": ("float32", [2, 2]), "b": ("float32", [2, 2])}
    found = computed(flow_of("Split", {"x": x, "n": INT(2), "axis": INT(1)}, out), x=x)
    np.testing.assert_array_equal(found["a"], x[:, :2])
    np.testing.assert_array_equal(found["b"], x[:, 2:])
    out = {"i": ("int32", [2]), "v": ("float32", [2])}
    found = computed(flow_of("ArgMax", {"x": x}, out, {"axis": 1}), x=x)
    assert found["i"].tolist() == [3, 3]
    assert found["v"].tolist() == [3, 7]
    found = computed(flow_of("ArgMin", {"x": x}, {"i": ("int32", [])}), x=x)
    assert (found["i"].dtype, int(found["i"])) == (np.int32, 0)
    out = {"a": ("float32", [4]), "b": ("float32", [4])}
    found = computed(flow_of("Unpack", {"x": x}, out, {"axis": 0}), x=x)
    np.testing.assert_array_equal(found["b"], x[1])


def test_scatter_adds_into_zeros() -> None:
    indices, values = INT([[1], [1], [0]]), TABLE[:3]
    flow = flow_of("Scatter", {"i": indices, "x": values}, {"y": ("float32", [2, 3])})
    expected = np.stack([TABLE[2], TABLE[0] + TABLE[1]])
    np.testing.assert_array_equal(computed(flow, x=values)["y"], expected)


# -- recipes -------------------------------------------------------------------------------------
GATE = (
    "$0=Sigmoid(Add(%6,Add(%5,Add(%3,%4))));"
    "@0=Add(Mul($0,Tanh(Add(%2,Add(%0,%1)))),Mul(Sub(_1,$0),%7));@1=Tanh(@0)"
)


def test_a_recipe_is_computed() -> None:
    rng = np.random.default_rng(0)
    given = {f"v{i}": rng.normal(size=(1, 4)).astype(F) for i in range(8)}
    out = {"h": ("float32", [1, 4]), "t": ("float32", [1, 4])}
    flow = flow_of("Calculate", given, out, {"expr": GATE}, fed=tuple(given))
    found = computed(flow, **given)
    v = [a.astype(np.float64) for a in given.values()]
    gate = 1 / (1 + np.exp(-(v[6] + v[5] + v[3] + v[4])))
    expected = gate * np.tanh(v[2] + v[0] + v[1]) + (1 - gate) * v[7]
    np.testing.assert_allclose(found["h"], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found["t"], np.tanh(expected), rtol=1e-6, atol=1e-6)
    assert show(parse(GATE)) == GATE


_terms = st.recursive(
    st.builds(Ref, st.sampled_from("%#@$!_"), st.integers(0, 99)),
    lambda inner: st.builds(
        Call, st.sampled_from(["Add", "Mul", "Tanh"]), st.lists(inner, min_size=1).map(tuple)
    ),
    max_leaves=12,
)
_steps = st.builds(Assignment, st.builds(Ref, st.sampled_from("@$!"), st.integers(0, 9)), _terms)


@given(st.lists(_steps, min_size=1, max_size=4).map(tuple))
@settings(max_examples=60, deadline=None)
def test_recipes_are_printed_as_they_are_read(recipe: tuple[Assignment, ...]) -> None:
    assert parse(show(recipe)) == recipe


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it ends"),
        ("%0=Add(%0,%1)", "assigns to"),
        ("@0=Add(%0,%1", "it ends"),
        ("@0=Add(%0 %1)", "should stand"),
        ("@0=Neg(" * 300, "assigns|should|operation"),
        ("@0=" + "Neg(" * 300 + "%0" + ")" * 300, "200 deep"),
        ("@0=Frob(%0,%1)", "'Frob'"),
        ("@0=Add(%0,%7)", "reads %7"),
        ("@0=Add(%0,$3)", r"\$3 before"),
        ("@0=Add(%0,_77)", "_77 is not known"),
        ("@0=Add(%0)", "missing .* 'b'"),
        ("$0=Neg(%0)", "does not assign to @0"),
    ],
)
def test_broken_recipes_are_refused(text: str, said: str) -> None:
    flow = flow_of("Calculate", {"x": X, "b": X}, {"y": ("float32", [2, 3])}, {"expr": text})
    with pytest.raises(FormatError, match=said):
        engine.to_symbolic(flow)


# -- functions, state, names ---------------------------------------------------------------------
def test_a_classifier_keeps_its_batch_free_and_its_names() -> None:
    flow = Flow.from_bytes(as_bytes(FILES["classifier_3"]))
    graph = engine.to_symbolic(flow)
    assert isinstance(graph, Graph)
    assert (graph.name, graph.input_names, graph.output_names) == ("classifier", ("x:0",), ("y:0",))
    net = Network(graph)
    x = np.arange(6, dtype=F).reshape(2, 3)
    expected = x @ np.arange(1, 7, dtype=F).reshape(3, 2) + F([0.5, -0.5])
    np.testing.assert_allclose(net.run(x)["y:0"], expected)
    assert engine.to_symbolic(flow, batch=4).inputs[0].shape == (4, 3)


def test_functions_share_their_variables() -> None:
    model = engine.to_symbolic(Flow.from_bytes(as_bytes(FILES["unordered_4"])))
    one, two = model.graphs["one"], model.graphs["two"]
    assert one["w"].attrs["value"] is two["w"].attrs["value"]
    again = engine.of_symbolic(model)
    assert list(again.funcs) == ["one", "two"]
    assert len([v for v in again.vars.values() if v.data is not None]) == 1


def test_assignments_are_kept_from_run_to_run() -> None:
    flow = Flow()
    count = flow.var("count", "float32", [2], np.zeros(2, F))
    x, w, y = (flow.var(n, "float32", s) for n, s in (("x", [1, 2]), ("w", [2, 2]), ("y", [1, 2])))
    total = flow.var("total", "float32", [1, 2], np.ones((1, 2), F))
    w.data = np.eye(2, dtype=F) * 2
    product = flow.op("product", "AssignAddMatMul")
    for var in (total, x, w):
        product.add_input(var)
    product.add_output(y)
    sum_ = flow.op("sum", "Add")
    new = flow.var("new", "float32", [2])
    for var in (count, flow.var("one", "float32", [2], np.ones(2, F))):
        sum_.add_input(var)
    sum_.add_output(new)
    assign = flow.op("assign", "Assign")
    assign.add_input(count)
    assign.add_input(new)
    for op in flow.ops.values():
        flow.func("f").add(op)
    graph = engine.to_symbolic(Flow.from_bytes(flow.to_bytes()), batch=1)
    assert {graph.names[t.node] for t in graph.updates} == {"total", "count"}
    for made in (graph, engine.to_symbolic(engine.of_symbolic(graph), batch=1)):
        net = Network(made)
        step = F([[1, 10]])
        np.testing.assert_array_equal(net.run({"x": step})["y"], [[3, 21]])
        np.testing.assert_array_equal(net.run({"x": step})["y"], [[5, 41]])


def test_what_a_flow_says_beside_its_computation_comes_back() -> None:
    flow = Flow.from_bytes(as_bytes(FILES["recurrent_5"]))
    again = engine.of_symbolic(engine.read_model(flow, 1))
    assert again.cnx("hidden").links == [again.var("h"), again.var("h2")]
    assert bytes(again.blob("model").raw()) == b"{}"
    assert again.blob("model").attrs == {"lang": "en"}
    assert again.func("rnn").backprop
    assert again.ops["next"].attrs == {"task": "1"}
    assert again.var("h2").ref
    assert again.var("h").flags & VariableFlag.REF
    flow = Flow.from_bytes(as_bytes(FILES["classifier_3"]))
    again = engine.of_symbolic(engine.read_model(flow))
    assert again.var("x").name == "x:0"  # by its alias
    assert again.ops["y"].type == "Add"


@pytest.mark.parametrize(
    ("type_", "attrs", "said"),
    [
        ("Frobnicate", {}, "does not know operations of this type"),
        ("Tanhh", {}, r"Tanh\b"),
        ("ai.onnx.Conw", {}, "Conv"),
        ("ai.onnx.Softmax", {"axis": "one"}, "axis='one' is no INT"),
        ("Sum", {"axis": "one"}, "axis='one' is no list"),
        ("MatMul", {}, "takes 2 inputs, it has 1"),
        ("Add", {}, r"missing .* 'b'\n  at operation 'op' \(Add\) of the flow"),
        ("ai.onnx.Transpose", {"perm": "[0, 0]"}, "operation 'op'"),
    ],
)
def test_operations_that_cannot_be_are_named(
    type_: str, attrs: dict[str, object], said: str
) -> None:
    flow = flow_of(type_, {"x": X}, {"y": ("float32", [2, 3])}, attrs)
    with pytest.raises(FormatError, match=said):
        engine.to_symbolic(flow)


def test_a_shape_that_is_declared_wrong_is_told() -> None:
    flow = flow_of("Relu", {"x": X}, {"y": ("float32", [3, 3])})
    with pytest.warns(UserWarning, match=r"'y' is declared as float32\[3,3\]"):
        engine.to_symbolic(flow)


# -- graphs to flows -----------------------------------------------------------------------------
def _same_answers(net: Network) -> None:
    flow = Flow.from_bytes(engine.of_symbolic(net.model).to_bytes())
    again = Network(engine.read_model(flow))
    assert [str(p) for p in again.inputs] == [str(p) for p in net.inputs]
    assert [str(p) for p in again.outputs] == [str(p) for p in net.outputs]
    rng = np.random.default_rng(1)
    shape = [d if isinstance(d, int) else 2 for d in net.inputs[0].shape or ()]
    x = rng.random(shape, dtype=F)
    for name, value in net.run(x).items():
        np.testing.assert_array_equal(again.run(x)[name], value)


def test_a_zoo_network_gives_the_same_answer() -> None:
    _same_answers(zoo.squeezenet1_1(size=32))


def test_layers_of_all_kinds_are_written() -> None:
    x = nn.input(("N", 3, 8, 8))
    y = x | nn.conv2d(4, 3) | nn.batch_norm() | nn.gelu(approximate=True) | nn.max_pool2d(2)
    y = nn.concat(axis=1)([y, y]) | nn.permute((2, 1, 3)) | nn.flatten() | nn.dense(5)
    _same_answers(y | nn.softmax() | nn.get_network())


def test_inputs_that_are_left_out_stay_so() -> None:
    x = nn.input(("N", 5, 3))
    _same_answers(x | nn.lstm(4) | nn.dense(2) | nn.get_network())


def test_what_a_flow_cannot_hold_is_named() -> None:
    x = ops.variable("x", ("N",), "float32")
    with pytest.raises(FormatError, match=r"save it as \.onnx"):
        engine.of_symbolic(Graph(ops.sequence_construct([x, x])))
    branch = ops.if_(ops.reduce_sum(x) > 0, lambda: x + 1, lambda: x - 1)
    with pytest.raises(FormatError, match="has a body"):
        engine.of_symbolic(Graph(branch))
    with pytest.raises(FormatError, match="no function"):
        engine.to_symbolic(Flow())
