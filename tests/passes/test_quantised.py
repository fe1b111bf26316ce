"""Quantised graphs as integers: equal to the graph of real numbers, or one level beside it.

Where scales are powers of two, and sums small, float32 arithmetic is exact and so nothing may
differ at all. Otherwise the real value of a level that differs lies at the middle between two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym import ops
from neuralsym.core.dim import Dim
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import variable
from neuralsym.core.registry import call
from neuralsym.core.symbol import Symbol
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.machine import host_isas
from neuralsym.cpu.options import Options
from neuralsym.engines.onnx import of_symbolic
from neuralsym.ops.evaluate import evaluate_graph
from neuralsym.passes.pipeline import optimise

LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}
KINDS = tuple(LIMITS)


class Builder:
    """Writes quantised graphs as quantising tools do."""

    def __init__(self, kind: str, seed: int = 0, exact: bool = False) -> None:
        self.kind, self.exact = kind, exact
        self.rng = np.random.default_rng(seed)

    def scale(self, about: float) -> Any:
        if self.exact:
            return np.float32(2.0 ** np.rint(np.log2(about)))
        return np.float32(about * self.rng.uniform(0.7, 1.4))

    def zero(self) -> Any:
        low, high = LIMITS[self.kind]
        return np.array(self.rng.integers(low, high + 1)).astype(self.kind)

    def quantised(self, real: Symbol, about: float, zero: Any = None) -> tuple[Symbol, Any]:
        """DQ(Q(real)) and its scale."""
        scale = self.scale(about)
        zero = self.zero() if zero is None else np.array(zero).astype(self.kind)
        levels = call("QuantizeLinear", real, scale, zero)
        return call("DequantizeLinear", levels, scale, zero), scale

    def weights(self, shape: tuple[int, ...], axis: int, per_channel: bool = True) -> Any:
        """DQ(w) and the scales."""
        count = shape[axis] if per_channel else 1
        scales = np.array([self.scale(0.01) for _ in range(count)], np.float32)
        w = self.rng.integers(-127, 128, shape).astype(np.int8)
        given_scales = scales if per_channel else scales[0]
        return call("DequantizeLinear", w, given_scales, axis=axis), given_scales

    def bias(self, scales: Any, channels: int) -> Symbol:
        values = self.rng.integers(-3000, 3000, channels).astype(np.int32)
        wide = np.asarray(scales, np.float32)
        return call("DequantizeLinear", values, wide, axis=0)

    def conv(self, x: Symbol, sx: Any, shape: tuple[int, ...], **attrs: Any) -> Symbol:
        w, sw = self.weights(shape, 0)
        return call("Conv", x, w, self.bias(sx * sw, shape[0]), **attrs)


def kernels_of(cell: Any) -> list[str]:
    return [s.kernel.name for s in cell.program.steps]


def run(graph: Graph, x: Any, **options: Any) -> tuple[Any, Any]:
    cell = compile_graph(graph, Options(**{"threads": 1, **options}))
    instance = cell.instance()
    instance[graph.input_names[0]] = x
    instance.compute()
    return np.array(instance[graph.output_names[0]]), cell


def real(graph: Graph, x: Any) -> Any:
    """What the graph of real numbers computes."""
    return np.asarray(evaluate_graph(graph, {graph.inputs[0]: x})[0])


def image(rng: Any, shape: tuple[int, ...]) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("form", ["conv", "depthwise", "grouped", "gemm", "matmul"])
@pytest.mark.parametrize("activation", [None, "Relu", "Clip"])
def test_products(kind, exact, form, activation):
    build = Builder(kind, len(form), exact)
    image_like = form not in ("gemm", "matmul")
    x0 = variable("x", (2, 16, 6, 5) if image_like else (5, 30), "float32")
    x, sx = build.quantised(x0, 0.02)
    if form == "gemm":
        w, sw = build.weights((21, 30), 0)
        y = call("Gemm", x, w, build.bias(sx * sw, 21), transB=1)
    elif form == "matmul":
        y = call("MatMul", x, build.weights((30, 21), 1)[0])
    else:
        groups = {"conv": 1, "depthwise": 16, "grouped": 2}[form]
        shape = (16 if groups == 16 else 24, 16 // groups, 3, 3)
        y = build.conv(x, sx, shape, pads=[1, 1, 1, 1], strides=[2, 1], group=groups)
    if activation == "Relu":
        y = call("Relu", y)
    elif activation == "Clip":
        y = call("Clip", y, np.float32(-0.3), np.float32(1.2))
    scale, zero = build.scale(0.02), build.zero()
    graph = Graph({"y": call("QuantizeLinear", y, scale, zero)}, [x0])
    value = image(build.rng, x0.shape)
    got, cell = run(graph, value)
    assert any(name.startswith("int8") for name in kernels_of(cell))
    wanted = real(graph, value)
    difference = np.abs(got.astype(int) - wanted.astype(int))
    assert got.dtype == kind and difference.max() <= (0 if exact else 1)
    assert difference.mean() < 0.01


@pytest.mark.parametrize("isa", host_isas())
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exact", [False, True])
def test_residual_blocks(kind, exact, isa):
    """Both convolutions, the sum, its activation: one step each."""
    build = Builder(kind, 4, exact)
    low = LIMITS[kind][0]
    x0 = variable("x", (Dim.name("N"), 3, 8, 9), "float32")
    x, sx = build.quantised(x0, 0.02)
    stem, s1 = build.quantised(
        call("Relu", build.conv(x, sx, (32, 3, 3, 3), pads=[1, 1, 1, 1])), 0.02, low
    )
    y, s2 = build.quantised(call("Relu", build.conv(stem, s1, (20, 32, 1, 1))), 0.1, low)
    y, _ = build.quantised(build.conv(y, s2, (32, 20, 3, 3), pads=[1, 1, 1, 1]), 0.3)
    total, s3 = build.quantised(call("Relu", call("Add", y, stem)), 0.3, low)
    pooled, _ = build.quantised(ops.max_pool(total, [2, 2], strides=[2, 2]), s3, low)
    scale = build.scale(0.1)
    levels = call("QuantizeLinear", call("GlobalAveragePool", pooled), scale, build.zero())
    graph = Graph({"y": levels}, [x0])
    value = image(build.rng, (2, 3, 8, 9))
    got, cell = run(graph, value, isa=isa)
    names = kernels_of(cell)
    assert names.count("int8 conv") == 3 and "Add" not in [
        s.op.__name__ for s in cell.program.steps
    ]
    difference = np.abs(got.astype(int) - real(graph, value).astype(int))
    assert difference.max() <= (0 if exact else 2)
    assert np.array_equal(got, run(graph, value, isa=isa, threads=2)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_moves_and_averages(kind):
    """What only moves values takes the integers; joined values get the scale of the result."""
    build = Builder(kind, 6)
    x0 = variable("x", (2, 32, 8, 8), "float32")
    x, sx = build.quantised(x0, 0.03, 3)
    a, _ = build.quantised(build.conv(x, sx, (32, 32, 1, 1)), 0.2)
    mean, _ = build.quantised(ops.average_pool(x, [3, 3], pads=[1, 1, 1, 1]), 0.01)
    joined, s = build.quantised(ops.concat([a, x, mean], axis=1), 0.2, 5)
    turned = call("Transpose", joined, perm=[0, 2, 3, 1])
    flat = call("Reshape", turned, [2, -1])
    graph = Graph({"y": call("QuantizeLinear", flat, s, np.array(5).astype(kind))}, [x0])
    value = image(build.rng, (2, 32, 8, 8))
    got, cell = run(graph, value)
    assert np.abs(got.astype(int) - real(graph, value).astype(int)).max() <= 1
    assert "int8 pool" in kernels_of(cell)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_borders_of_joined_values(kind, threads):
    """Parts of a concatenation lie in the whole, whose border is its zero point, as is theirs."""
    build = Builder(kind, 11, exact=True)
    low = LIMITS[kind][0]
    x0 = variable("x", (2, 3, 9, 8), "float32")
    x, sx = build.quantised(x0, 0.03)
    padded = {"pads": [1, 1, 1, 1]}
    parts = [build.quantised(build.conv(x, sx, (32, 3, 3, 3), **padded), 0.2, low + 77)]
    parts += [build.quantised(build.conv(*parts[0], (48, 32, 3, 3), **padded), 0.5, low + 9)]
    parts += [build.quantised(build.conv(*parts[0], (16, 32, 1, 1)), 0.2, low + 77)]
    joined, s = build.quantised(ops.concat([p for p, _ in parts], axis=1), 0.2, low + 77)
    y = build.conv(joined, s, (24, 96, 3, 3), **padded)
    graph = Graph({"y": call("QuantizeLinear", y, np.float32(0.5), build.zero())}, [x0])
    value = image(build.rng, (2, 3, 9, 8))
    got, cell = run(graph, value, threads=threads)
    assert kernels_of(cell).count("int8 conv") == 4
    assert np.array_equal(got, real(graph, value))


def test_real_results_are_not_rounded():
    """A product that is not quantised again gives real numbers."""
    build = Builder("uint8", 7)
    x0 = variable("x", (2, 16, 5, 5), "float32")
    x, sx = build.quantised(x0, 0.02)
    graph = Graph({"y": build.conv(x, sx, (8, 16, 3, 3))}, [x0])
    value = image(build.rng, (2, 16, 5, 5))
    got, cell = run(graph, value)
    wanted = real(graph, value)
    assert "int8 conv" in kernels_of(cell)
    assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("coarse", [False, True])
def test_biases_of_real_numbers(coarse):
    """One that the unit of the sums would round too far stays real."""
    build = Builder("uint8", 8)
    x0 = variable("x", (2, 16, 5, 5), "float32")
    x, _ = build.quantised(x0, 0.02)
    w, _ = build.weights((8, 16, 3, 3), 0)
    y = call("Conv", x, w, build.rng.standard_normal(8).astype(np.float32))
    levels = call("QuantizeLinear", y, np.float32(1e-4 if coarse else 0.02), np.uint8(9))
    graph = Graph({"y": levels}, [x0])
    value = image(build.rng, (2, 16, 5, 5))
    got, cell = run(graph, value)
    assert "int8 conv" in kernels_of(cell)
    assert np.abs(got.astype(int) - real(graph, value).astype(int)).max() <= 1


@pytest.mark.parametrize("form", ["conv", "matmul"])
def test_biases_that_are_added(form):
    """A stored vector behind the product is its bias; the result is one step."""
    build = Builder("uint8", 10)
    x0 = variable("x", (2, 16, 5, 5) if form == "conv" else (2, 7, 16), "float32")
    x, _ = build.quantised(x0, 0.02)
    bias = build.rng.standard_normal(8).astype(np.float32)
    if form == "conv":
        y = call("Conv", x, build.weights((8, 16, 3, 3), 0)[0])
        bias = bias.reshape(8, 1, 1)
    else:
        y = call("MatMul", x, build.weights((16, 8), 1)[0])
    y = call("Relu", call("Add", bias, y))
    graph = Graph({"y": call("QuantizeLinear", y, np.float32(0.02), np.uint8(9))}, [x0])
    value = image(build.rng, x0.shape)
    got, cell = run(graph, value)
    assert not {"Add", "Relu", "Calculate"} & {s.op.__name__ for s in cell.program.steps[1:]}
    assert np.abs(got.astype(int) - real(graph, value).astype(int)).max() <= 1


def test_values_that_something_else_reads_keep_their_type():
    """Signed values that are a result stay signed; a sum that is read twice is no epilogue."""
    build = Builder("int8", 9)
    x0 = variable("x", (2, 16, 5, 5), "float32")
    scale, zero = np.float32(0.02), np.int8(-3)
    levels = call("QuantizeLinear", x0, scale, zero)
    x = call("DequantizeLinear", levels, scale, zero)
    y = build.conv(x, scale, (8, 16, 3, 3))
    first = call("QuantizeLinear", y, np.float32(0.1), np.int8(4))
    graph = Graph({"q": first, "levels": levels, "y": call("Relu", y)}, [x0])
    made = optimise(graph)
    assert [s.dtype for s in made.outputs] == ["int8", "int8", "float32"]
    value = image(build.rng, (2, 16, 5, 5))
    cell = compile_graph(graph, Options(threads=1))
    instance = cell.instance()
    instance["x"] = value
    instance.compute()
    wanted = evaluate_graph(graph, {x0: value})
    for name, most in (("q", 1), ("levels", 0), ("y", 1e-3)):
        got = np.asarray(instance[name], np.float64)
        exact = np.asarray(wanted[graph.output_names.index(name)], np.float64)
        assert np.abs(got - exact).max() <= most


@settings(max_examples=12, derandomize=True, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.sampled_from(host_isas()))
def test_against_onnxruntime(seed, kind, isa):
    ort = pytest.importorskip("onnxruntime")
    build = Builder(kind, seed)
    rng = build.rng
    channels, outputs = (int(rng.choice([3, 8, 16, 24, 40])) for _ in range(2))
    x0 = variable("x", (1, channels, 7, 7), "float32")
    x, sx = build.quantised(x0, 0.02)
    y = build.conv(x, sx, (outputs, channels, 3, 3), pads=[1, 1, 1, 1])
    y, sy = build.quantised(y, 0.05)
    y = call("GlobalAveragePool", build.quantised(build.conv(y, sy, (16, outputs, 1, 1)), 0.2)[0])
    graph = Graph({"y": y}, [x0])
    session = ort.InferenceSession(
        of_symbolic(graph).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    value = image(rng, (1, channels, 7, 7))
    (wanted,) = session.run(None, {"x": value})
    got, _ = run(graph, value, isa=isa)
    # Means of 49 values, few of which are one level beside.
    assert np.abs(got - wanted).max() <= 0.3 * 4 / 49
