"""Files that onnxruntime's own optimiser and quantiser write, with operators of its own domain."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime import quantization

import neuralsym
from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_weight
from neuralsym.core.symbol import Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.engines import onnx as engine

Array = np.ndarray[Any, Any]
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
RNG = np.random.default_rng(11)


def weight(name: str, *shape: int, scale: float = 0.3) -> Symbol:
    array = (RNG.standard_normal(shape) * scale).astype(np.float32)
    return make_weight(Tensor.of(array), name=name)


def dense(x: Symbol, name: str, wide: int, out: int) -> Symbol:
    return ops.matmul(x, weight(f"{name}_w", wide, out)) + weight(f"{name}_b", out)


def encoder() -> Graph:
    """A transformer's layer, written out as exporters do."""
    x = ops.variable("x", ("N", 6, 16))
    heads = []
    for name in ("q", "k", "v"):
        each = ops.reshape(dense(x, name, 16, 16), [0, 0, 2, 8])
        heads.append(ops.transpose(each, perm=[0, 2, 1, 3]))
    q, k, v = heads
    scores = ops.matmul(q, ops.transpose(k, perm=[0, 1, 3, 2])) / np.float32(8**0.5)
    mixed = ops.transpose(ops.matmul(ops.softmax(scores, axis=-1), v), perm=[0, 2, 1, 3])
    y = dense(ops.reshape(mixed, [0, 0, 16]), "o", 16, 16) + x
    y = ops.layer_normalization(y, weight("g1", 16), weight("c1", 16), axis=-1)
    wide = dense(y, "up", 16, 32)
    half = wide * (ops.erf(wide / np.float32(2**0.5)) + 1.0) * 0.5
    y = dense(half, "down", 32, 16) + y
    return Graph({"y": ops.layer_normalization(y, weight("g2", 16), weight("c2", 16), axis=-1)})


def images() -> Graph:
    x = ops.variable("x", ("N", 3, 12, 12))
    pads = {"pads": (1, 1, 1, 1)}
    y = ops.relu(ops.conv(x, weight("w1", 16, 3, 3, 3), weight("b1", 16), **pads))
    z = ops.conv(y, weight("w2", 16, 16, 3, 3), weight("b2", 16), **pads)
    y = ops.leaky_relu(ops.add(z, y), alpha=0.2)
    y = ops.max_pool(y, kernel_shape=(2, 2), strides=(2, 2))
    y = ops.sigmoid(ops.conv(y, weight("w3", 16, 1, 3, 3), weight("b3", 16), group=16, **pads))
    y = ops.average_pool(y, kernel_shape=(2, 2), strides=(2, 2))
    flat = ops.flatten(ops.concat([y, ops.global_average_pool(y) + y], axis=1))
    return Graph({"y": ops.gemm(flat, weight("fc", 288, 5), weight("fcb", 5))})


def recurrent() -> Graph:
    x = ops.variable("x", (7, "N", 6))
    y = ops.lstm(x, weight("w", 1, 32, 6), weight("r", 1, 32, 8), weight("b", 1, 64),
                 hidden_size=8, outputs=3)  # fmt: skip
    return Graph({"y": dense(ops.squeeze(y[0], [1]), "d", 8, 4), "c": y[2]})


GRAPHS: dict[str, tuple[Callable[[], Graph], tuple[int, ...]]] = {
    "encoder": (encoder, (2, 6, 16)),
    "images": (images, (2, 3, 12, 12)),
    "recurrent": (recurrent, (7, 2, 6)),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The quantiser's advice goes to the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    yield
    logging.disable(before)


@pytest.fixture(params=GRAPHS)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, Array]:
    make, shape = GRAPHS[request.param]
    path = tmp_path / "model.onnx"
    engine.save(make(), path)
    return request.param, path, RNG.standard_normal(shape).astype(np.float32)


def compare(path: Path, x: Array, atol: float = 1e-5, share: float = 1.0) -> set[str]:
    """Check a file against onnxruntime before and after a round trip; gives its operators.

    `share` of the results must be within `atol`: of quantised files some fall to the other side
    of a rounding.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    wanted = session.run(None, {"x": x})
    network = neuralsym.load(path)
    written = engine.of_symbolic(network.model)
    onnx.checker.check_model(written, full_check=True)
    for each in (network, neuralsym.load(written.SerializeToString())):
        for got, want in zip(each.run(x).values(), wanted, strict=True):
            assert got.shape == want.shape
            assert np.mean(np.abs(got - want) <= atol + 1e-4 * np.abs(want)) >= share
    before = onnx.load(path).graph.node
    assert {n.op_type for n in before if n.domain} == {
        n.op_type for n in written.graph.node if n.domain
    }
    return {f"{n.domain}.{n.op_type}".lstrip(".") for n in before}


EXPECTED = {
    "encoder": {"com.microsoft.SkipLayerNormalization", "com.microsoft.BiasGelu"},
    "images": {"com.microsoft.FusedConv"},
    "recurrent": {"LSTM"},
}


def test_optimised(case: tuple[str, Path, Array], tmp_path: Path) -> None:
    name, path, x = case
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    assert compare(tmp_path / "optimised.onnx", x) >= EXPECTED[name]


class Samples(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, x: Array) -> None:
        self.samples: Iterator[dict[str, Array]] = iter([{"x": x}, {"x": x * 0.5}])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.samples, None)


def test_quantised_on_the_way(case: tuple[str, Path, Array], tmp_path: Path) -> None:
    """What quantises activations as it runs: MatMulInteger, DynamicQuantizeLSTM, ..."""
    name, path, x = case
    made = tmp_path / "dynamic.onnx"
    quantization.quantize_dynamic(path, made, weight_type=quantization.QuantType.QInt8)
    # An LSTM's state is rounded to 8 bits at each step: one that falls to the other side of a half
    # differs by a 255th of its range, times a weight.
    found = compare(made, x, atol=1 / 255 if name == "recurrent" else 1e-4)
    assert "DynamicQuantizeLinear" in found or "com.microsoft.DynamicQuantizeLSTM" in found


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("each_channel", [False, True])
def test_quantised_by_samples(
    case: tuple[str, Path, Array], tmp_path: Path, form: str, each_channel: bool
) -> None:
    name, path, x = case
    if name == "recurrent":
        pytest.skip("onnxruntime's quantiser leaves an LSTM alone")
    made = tmp_path / "static.onnx"
    quantization.quantize_static(
        path,
        made,
        Samples(x),
        quant_format=quantization.QuantFormat[form],
        per_channel=each_channel,
        weight_type=quantization.QuantType.QInt8,
    )
    found = compare(made, x, atol=1e-4, share=0.9)
    assert "QuantizeLinear" in found
    if form == "QOperator":
        assert any("QLinear" in op for op in found)
