"""Identities, constants, pads, canonical forms, common parts, dead outputs: before and after."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pass_checks import assert_same, drawn, ops_of, run

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_weight
from neuralsym.core.scalar import Expr, argument
from neuralsym.core.tensor import Tensor
from neuralsym.core.text import expression_text
from neuralsym.dtypes import NumberType
from neuralsym.errors import BadAttribute
from neuralsym.passes.canonical import CANONICAL
from neuralsym.passes.constant import fold_constants
from neuralsym.passes.cse import share_common
from neuralsym.passes.dead import drop_dead
from neuralsym.passes.identity import DROP_IDENTITIES
from neuralsym.passes.numbers import simplified
from neuralsym.passes.pad import FOLD_PADS
from neuralsym.passes.pipeline import optimise
from neuralsym.rewrite.driver import Trace, rewrite

X = """
input x: float32[N, 3, H, W]
input i: int32[N, 3]
weight w: float32[4, 3, 3, 3]
constant one: float32[] = 1.0
constant zero: float32[] = 0.0
constant minus_zero: float32[] = -0.0
constant wide_one: float32[1, 1, 1, 1, 1] = [[[[[1.0]]]]]
constant int_zero: int32[1] = [0]
constant half: float32[] = 0.5
constant three: float32[] = 3.0
constant six: float32[] = 6.0
constant root: float32[] = 1.4142135
constant flat: int64[2] = [0, -1]
constant same: int64[4] = [0, 0, 0, 0]
constant starts: int64[1] = [0]
constant ends: int64[1] = [9223372036854775807]
constant twos: int64[1] = [2]
constant none: int64[8] = [0, 0, 0, 0, 0, 0, 0, 0]
constant pads: int64[8] = [0, 0, 1, 0, 0, 0, 1, 1]
constant even: int64[8] = [0, 0, 1, 1, 0, 0, 1, 1]
constant channels: int64[8] = [0, 1, 0, 0, 0, 0, 0, 0]
constant lowest: float32[] = -inf
constant spatial: int64[2] = [2, 3]
constant backs: int64[2] = [-1, -2]
"""


def case(body: str, rng: np.random.Generator) -> Graph:
    return drawn(f"{X}{body}\noutput y", rng)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("y = Identity(x)", []),
        ("a = Dropout(x)\ny = Relu(a)", ["Relu"]),
        ("y = Cast(x; to=1)", []),
        ("y = Cast(x; to=11)", ["Cast"]),
        ("y = Reshape(x, same)", []),
        ("a = Flatten(x)\ny = Flatten(a)", ["Flatten"]),
        ("a = Reshape(x, same)\nb = Relu(a)\ny = Reshape(b, flat)", ["Relu", "Reshape"]),
        ("a = Transpose(x; perm=(0, 2, 3, 1))\ny = Transpose(a; perm=(0, 3, 1, 2))", []),
        ("a = Transpose(x; perm=(1, 0, 2, 3))\ny = Transpose(a; perm=(0, 2, 1, 3))", ["Transpose"]),
        ("y = Transpose(x; perm=(0, 1, 2, 3))", []),
        ("y = Slice(x, starts, ends)", []),
        ("y = Slice(x, starts, ends, starts, twos)", ["Slice"]),
        ("y = Pad(x, none)", []),
        ("y = Pad(x, pads)", ["Pad"]),
        ("y = Concat(x; axis=1)", []),
        ("a = Max(x)\ny = Sum(a)", []),
        ("a = Mul(x, one)\nb = Div(a, one)\nc = Pow(b, one)\ny = Sub(c, zero)", []),
        ("y = Add(x, minus_zero)", []),
        ("y = Add(x, zero)", ["Add"]),
        ("y = Sub(one, x)", ["Sub"]),
        ("y = Mul(x, wide_one)", ["Mul"]),
        ("y = Add(i, int_zero)", []),
    ],
)  # fmt: skip
def test_identities(body: str, left: list[str], rng: np.random.Generator) -> None:
    graph = case(body, rng)
    made = rewrite(graph, DROP_IDENTITIES)
    assert ops_of(made) == left
    assert_same(graph, made, rng)


def test_a_dropout_whose_mask_is_used_stays() -> None:
    x = ops.variable("x", (3,))
    graph = Graph(ops.dropout(x, outputs=2))
    assert rewrite(graph, DROP_IDENTITIES) is graph


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("p = Pad(x, pads)\ny = Conv(p, w)", ["Conv"]),
        ("p = Pad(x, pads)\ny = Conv(p, w; pads=(1, 2, 0, 1), strides=(2, 1))", ["Conv"]),
        ("p = Pad(x, pads, one)\ny = Conv(p, w)", ["Pad", "Conv"]),
        ("p = Pad(x, pads; mode=\"edge\")\ny = Conv(p, w)", ["Pad", "Conv"]),
        ("p = Pad(x, pads)\ny = AveragePool(p; kernel_shape=(2, 3))", ["AveragePool"]),
        ("p = Pad(x, pads)\ny = AveragePool(p; kernel_shape=(3, 3), pads=(1, 1, 1, 1))",
         ["Pad", "AveragePool"]),
        ("p = Pad(x, even, lowest)\ny = MaxPool(p; kernel_shape=(3, 3))", ["MaxPool"]),
        ("p = Pad(x, pads)\ny = MaxPool(p; kernel_shape=(3, 3))", ["Pad", "MaxPool"]),
        ("r = Relu(x)\np = Pad(r, even)\ny = MaxPool(p; kernel_shape=(3, 3))", ["Relu", "MaxPool"]),
        ("r = Relu(x)\np = Pad(r, even)\ny = MaxPool(p; kernel_shape=(1, 3))",
         ["Relu", "Pad", "MaxPool"]),
    ],
)  # fmt: skip
def test_pads(body: str, left: list[str], rng: np.random.Generator) -> None:
    graph = case(body, rng)
    made = rewrite(graph, FOLD_PADS)
    assert ops_of(made) == left
    assert_same(graph, made, rng)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = Sigmoid(x)\ny = Mul(a, x)", ["Swish"]),
        ("a = Softplus(x)\nb = Tanh(a)\ny = Mul(x, b)", ["Mish"]),
        ("a = HardSigmoid(x; alpha=0.1666666716337204, beta=0.5)\ny = Mul(x, a)", ["HardSwish"]),
        (
            "a = Add(x, three)\nb = Clip(a, zero, six)\nc = Mul(x, b)\ny = Div(c, six)",
            ["HardSwish"],
        ),
        (
            "a = Add(x, three)\nb = Clip(a, zero, six)\nc = Div(b, six)\ny = Mul(c, x)",
            ["HardSwish"],
        ),
        (
            "a = Div(x, root)\nb = Erf(a)\nc = Add(one, b)\nd = Mul(x, c)\ny = Mul(d, half)",
            ["Gelu"],
        ),
        (
            "a = Div(x, root)\nb = Erf(a)\nc = Add(b, one)\nd = Mul(half, x)\ny = Mul(c, d)",
            ["Gelu"],
        ),
        ("y = Clip(x, zero)", ["Relu"]),
        ("y = Clip(x, zero, six)", ["Clip"]),
        ("y = Max(zero, x)", ["Relu"]),
        ("y = Sum(x, x)", ["Add"]),
        ("y = ReduceMean(x, spatial)", ["GlobalAveragePool"]),
        ("y = ReduceMean(x, backs; keepdims=0)", ["GlobalAveragePool", "Squeeze"]),
        ("y = ReduceMean(x, twos)", ["ReduceMean"]),
    ],
)
def test_canonical_forms(body: str, left: list[str], rng: np.random.Generator) -> None:
    graph = case(body, rng)
    made = rewrite(graph, CANONICAL)
    assert ops_of(made) == left
    assert_same(graph, made, rng)


# onnx's reference evaluator, which computes both sides, mistakes SAME_LOWER and uneven pads of
# MaxPool: onnxruntime gives what is expected here, for those too.
@pytest.mark.parametrize(
    ("op", "mode"),
    [
        ("Conv(x, w; ", "SAME_UPPER"),
        ("Conv(x, w; ", "SAME_LOWER"),
        ("Conv(x, w; ", "VALID"),
        ("MaxPool(x; kernel_shape=(3, 2), ", "SAME_UPPER"),
        ("MaxPool(x; kernel_shape=(3, 2), ", "VALID"),
    ],
)
def test_explicit_pads(op: str, mode: str, rng: np.random.Generator) -> None:
    text = X.replace("[N, 3, H, W]", "[2, 3, 8, 9]")
    graph = drawn(f'{text}y = {op}auto_pad="{mode}", strides=(2, 1))\noutput y', rng)
    made = rewrite(graph, CANONICAL)
    assert "auto_pad" not in str(made)
    assert made.outputs[0].type == graph.outputs[0].type
    assert_same(graph, made, rng)


# -- constants ---------------------------------------------------------------------------------
def test_known_values_and_stored_inputs_fold(rng: np.random.Generator) -> None:
    x = ops.variable("x", (2, 3))
    size = ops.reduce_prod(ops.shape(x), keepdims=0)
    table = ops.transpose(ops.constant(np.arange(6, dtype=np.float32).reshape(3, 2)))
    graph = Graph(x * table + ops.cast(size, "float32"))
    made = fold_constants(graph)
    assert ops_of(made) == ["Mul", "Add"]
    assert_same(graph, made, rng)


def test_folding_of_lazy_weights_draws_nothing() -> None:
    drawn_now: list[str] = []

    def make() -> Any:
        drawn_now.append("w")
        return np.arange(10_000, dtype=np.float32).reshape(100, 100)

    w = make_weight(Tensor(NumberType.FLOAT32, (100, 100), make), name="w")
    x = ops.variable("x", ("N", 100))
    made = fold_constants(Graph(x @ (ops.transpose(w) * 2.0)))
    assert ops_of(made) == ["MatMul"]
    assert drawn_now == []
    (node,) = made.find("MatMul")
    assert node.inputs[1] is not None
    np.testing.assert_array_equal(node.inputs[1].attrs["value"].value, make().T * 2)


def test_what_grows_and_what_is_random_stays() -> None:
    big = ops.expand(ops.constant(1.0), np.array([1 << 15, 1 << 15]))
    noise = ops.random_normal(shape=[3])
    graph = Graph((big, noise + noise))
    assert set(ops_of(fold_constants(graph))) == {"Expand", "RandomNormal", "Add"}


def test_a_long_chain_of_constants_folds() -> None:
    w = make_weight(Tensor(NumberType.FLOAT32, (100,), lambda: np.zeros(100, np.float32)))
    y = w
    for _ in range(5000):
        y = ops.cos(y)
    made = fold_constants(Graph(y + ops.variable("x", (100,))))
    assert ops_of(made) == ["Add"]
    (node,) = made.find("Add")
    assert node.inputs[0] is not None
    value = node.inputs[0].attrs["value"].value
    np.testing.assert_allclose(value, 0.7390851, rtol=1e-6)


# -- common parts and dead outputs -------------------------------------------------------------
def test_common_parts_are_shared(rng: np.random.Generator) -> None:
    x, z = ops.variable("x", (3,)), ops.variable("z", (3,))
    a = ops.sin(x + z) * 2.0
    b = ops.sin(z + x) * 2.0
    graph = Graph({"y": a - b * 3.0, "b": b})
    made = share_common(graph)
    assert ops_of(made) == ["Add", "Sin", "Mul", "Mul", "Sub"]
    assert_same(graph, Graph(dict(zip(made.output_names, made.outputs, strict=True))), rng)


def test_what_only_looks_alike_is_not_shared() -> None:
    x = ops.variable("x", (3,))
    graph = Graph(
        (
            ops.softmax(ops.reshape(x, [3, 1]), axis=0),
            ops.softmax(ops.reshape(x, [3, 1]), axis=1),
            ops.random_normal(shape=[3]),
            ops.random_normal(shape=[3]),
            x / 0.0,
            x / -0.0,
        )
    )
    made = share_common(graph)
    assert ops_of(made).count("Softmax") == 2
    assert ops_of(made).count("RandomNormal") == 2
    assert ops_of(made).count("Div") == 2


def test_unused_outputs_are_dropped() -> None:
    x = ops.variable("x", (1, 2, 6, 6))
    values, indices = ops.max_pool(x, kernel_shape=(2, 2), outputs=2)
    assert len(drop_dead(Graph(values)).find("MaxPool")[0].outputs) == 1
    graph = Graph((values, indices))
    assert drop_dead(graph) is graph


# -- the pipeline ------------------------------------------------------------------------------
def test_levels_and_transformers() -> None:
    x = ops.variable("x", (3,))
    graph = Graph(ops.identity(ops.relu(x)))
    with pytest.raises(BadAttribute, match="level 3"):
        optimise(graph, 3)
    seen: list[str] = []

    def watch(given: Graph) -> Graph:
        seen.append(",".join(ops_of(given)))
        return given

    optimise(graph, transformers=[(watch, "epilogue"), (watch, "")])
    assert seen == ["Relu,Identity", "Relu"]
    with pytest.raises(BadAttribute, match="no pass is called 'nothing'"):
        optimise(graph, transformers=[(watch, "nothing")])


def test_the_trace_tells_rules_and_passes(rng: np.random.Generator) -> None:
    trace = Trace()
    optimise(case("p = Pad(x, pads)\nc = Conv(p, w)\ny = Relu(c)", rng), trace=trace)
    assert "pad_into_convolution at c" in str(trace)
    assert "epilogue at" in str(trace)


def test_every_pass_is_checked_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURALSYM_CHECK", "1")
    x = ops.variable("x", (3,))
    made = optimise(Graph(ops.identity(ops.relu(x)) * 2.0))
    assert ops_of(made) == ["Calculate"]


def test_bodies_hold_the_weights_that_they_use() -> None:
    x, c = ops.variable("x", ("N", 3)), ops.variable("c", (), "bool")
    unused = ops.variable("unused", (3,))
    w = make_weight(Tensor.of(np.eye(3, dtype=np.float32)), name="w")

    def inner() -> Any:
        return ops.if_(c, lambda: x @ w, lambda: x + ops.cast(ops.size(unused), "float32"))

    graph = Graph(ops.if_(c, inner, lambda: x), [x, c, unused])
    made = optimise(graph, 2).check()
    (node,) = made.find("If")
    assert set(node.captures) == {made["x"], made["c"]}
    assert made.weights == ()
    assert "weight w" in str(made)
    feed = {
        "x": np.ones((2, 3), np.float32),
        "c": np.array(True),
        "unused": np.zeros(3, np.float32),
    }
    np.testing.assert_array_equal(run(made, feed)[0], run(graph, feed)[0])


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (argument(0) * 1.0, "x0"),
        (argument(0) / 1.0 - 0.0, "x0"),
        (argument(0) + 0.0, "add(x0, 0.0)"),
        (-0.0 + argument(0), "x0"),
        (0.0 - argument(0), "sub(0.0, x0)"),
        (argument(0) * 1 + argument(1), "add(x0, x1)"),
        (1.0 / argument(0), "div(1.0, x0)"),
    ],
)
def test_literals_that_change_nothing_go(expr: Any, text: str) -> None:
    made = simplified(expr)
    assert isinstance(made, Expr)
    assert expression_text(made) == text
