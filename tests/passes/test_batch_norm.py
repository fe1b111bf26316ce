"""Batch normalisation folds into what precedes it, with drawn statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pass_checks import assert_same, drawn, feeds, ops_of

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_weight
from neuralsym.core.tensor import Tensor
from neuralsym.dtypes import NumberType
from neuralsym.engines import onnx
from neuralsym.passes.batch_norm import fold_batch_norm
from neuralsym.rewrite.driver import Trace

STATISTICS = """
weight gamma: float32[{c}]
weight beta: float32[{c}]
weight mean: float32[{c}]
weight var: float32[{c}]
"""
TAIL = "y = BatchNormalization(c, gamma, beta, mean, var; epsilon=0.01)\noutput y\n"


def graph_of(body: str, channels: int, rng: np.random.Generator) -> Graph:
    return drawn(body + STATISTICS.format(c=channels) + TAIL, rng)


@pytest.mark.parametrize(
    ("body", "channels", "left"),
    [
        (
            "input x: float32[N, 3, H, W]\nweight w: float32[4, 3, 3, 3]\nweight b: float32[4]\n"
            "c = Conv(x, w, b; strides=(2, 1))\n",
            4,
            ["Conv"],
        ),
        (
            "input x: float32[N, 4, H, W]\nweight w: float32[6, 2, 3, 3]\n"
            "c = Conv(x, w; group=2)\n",
            6,
            ["Conv"],
        ),
        (
            "input x: float32[N, 4, H]\nweight w: float32[4, 3, 3]\nweight b: float32[3]\n"
            "c = ConvTranspose(x, w, b; strides=(2,))\n",
            3,
            ["ConvTranspose"],
        ),
        (
            "input x: float32[N, 5]\nweight w: float32[4, 5]\nweight b: float32[1, 4]\n"
            "c = Gemm(x, w, b; transB=1, alpha=0.5, beta=2.0)\n",
            4,
            ["Gemm"],
        ),
        (
            "input x: float32[5, N]\nweight w: float32[5, 4]\nc = Gemm(x, w; transA=1)\n",
            4,
            ["Gemm"],
        ),
        (
            "input x: float32[N, 5]\nweight w: float32[5, 4]\nweight b: float32[4]\n"
            "p = MatMul(x, w)\nc = Add(b, p)\n",
            4,
            ["MatMul", "Add"],
        ),
        (
            "input x: float32[N, 5]\nweight w: float32[5, 4]\nc = MatMul(x, w)\n",
            4,
            ["MatMul", "Add"],
        ),
        ("input x: float32[N, 3, H, W]\nc = Relu(x)\n", 3, ["Relu", "Mul", "Add"]),
        (
            "input x: float32[N, 3, H]\nweight w: float32[H, 3, 3]\nc = MatMul(x, w)\n".replace(
                "weight w: float32[H, 3, 3]", "input w: float32[H, 4]"
            ),
            3,
            ["MatMul", "Mul", "Add"],
        ),
    ],
)  # fmt: skip
def test_folds(body: str, channels: int, left: list[str], rng: np.random.Generator) -> None:
    graph = graph_of(body, channels, rng)
    made = fold_batch_norm(graph)
    assert ops_of(made) == left
    assert_same(graph, made, rng)


def test_a_convolution_that_is_used_elsewhere_stays(rng: np.random.Generator) -> None:
    graph = drawn(
        "input x: float32[N, 3, H, W]\nweight w: float32[4, 3, 1, 1]\nc = Conv(x, w)\n"
        + STATISTICS.format(c=4)
        + TAIL
        + "output c",
        rng,
    )
    trace = Trace()
    made = fold_batch_norm(graph, trace)
    assert ops_of(made) == ["Conv", "Mul", "Add"]
    assert any("used elsewhere" in str(e.reason) for e in trace.refused)
    assert_same(graph, made, rng)


def test_statistics_that_are_fed_and_training_mode_stay() -> None:
    x = ops.variable("x", (2, 3, 4, 4))
    rows = [ops.variable(n, (3,)) for n in "abcd"]
    graph = Graph(ops.batch_normalization(x, *rows))
    assert fold_batch_norm(graph) is graph
    fixed = [np.ones(3, np.float32)] * 4
    training = ops.batch_normalization(x, *fixed, training_mode=1, outputs=3)
    graph = Graph(training[0])
    assert fold_batch_norm(graph) is graph


def test_factors_and_offsets_of_channels_fold_too(rng: np.random.Generator) -> None:
    graph = drawn(
        """
        input x: float32[N, 3, H, W]
        weight w: float32[4, 3, 1, 1]
        weight k: float32[4, 1, 1]
        weight s: float32[1, 4, 1, 1]
        weight one: float32[1]
        c = Conv(x, w)
        m = Mul(c, k)
        a = Add(s, m)
        y = Mul(a, one)
        output y
        """,
        rng,
    )
    made = fold_batch_norm(graph)
    assert ops_of(made) == ["Conv"]
    assert_same(graph, made, rng)


def test_a_map_of_places_does_not_fold(rng: np.random.Generator) -> None:
    graph = drawn(
        """
        input x: float32[N, 3, 5, 5]
        weight w: float32[4, 3, 1, 1]
        weight k: float32[5]
        c = Conv(x, w)
        y = Mul(c, k)
        output y
        """,
        rng,
    )
    assert fold_batch_norm(graph) is graph


def test_folding_draws_nothing_and_rounds_once() -> None:
    drawn_now: list[str] = []

    def lazy(name: str, shape: tuple[int, ...]) -> Any:
        def make() -> Any:
            drawn_now.append(name)
            return np.full(shape, 0.7, np.float32)

        return make_weight(Tensor(NumberType.FLOAT32, shape, make), name=name)

    x = ops.variable("x", ("N", 3, 8, 8))
    y = ops.conv(x, lazy("w", (80, 3, 3, 3)))
    rows = [lazy(n, (80,)) for n in ("gamma", "beta", "mean", "var")]
    made = fold_batch_norm(Graph(ops.batch_normalization(y, *rows)))
    assert ops_of(made) == ["Conv"]
    assert drawn_now == []
    (conv,) = made.find("Conv")
    assert conv.inputs[1] is not None
    value = conv.inputs[1].attrs["value"].value
    exact = np.float64(np.float32(0.7)) * np.float32(0.7)
    expected = np.float32(exact / np.sqrt(np.float64(np.float32(0.7)) + 1e-5))
    np.testing.assert_allclose(value, expected, rtol=1.2e-7)
    assert sorted(drawn_now) == ["gamma", "var", "w"]


@pytest.mark.oracle
def test_groups_of_a_transposed_convolution(rng: np.random.Generator) -> None:
    # onnx's reference evaluator refuses groups here, so onnxruntime computes both.
    runtime = pytest.importorskip("onnxruntime")
    graph = graph_of(
        "input x: float32[2, 4, 9]\nweight w: float32[4, 3, 3]\nweight b: float32[6]\n"
        "c = ConvTranspose(x, w, b; group=2, strides=(2,))\n",
        6,
        rng,
    )
    made = fold_batch_norm(graph)
    assert ops_of(made) == ["ConvTranspose"]
    feed = feeds(graph, rng)
    before, after = (
        runtime.InferenceSession(onnx.of_symbolic(g).SerializeToString()).run(None, feed)[0]
        for g in (graph, made)
    )
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-5)
