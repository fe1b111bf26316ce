"""What a run gives does not depend on how many threads it has, nor on how often it has run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from neuralsym.backend import NeuralsymBackend

Array = NDArray[Any]
COUNTS = (1, 2, 3, 5)
RUNS = 10
"""More than a short row is tried, shared and by one thread, before it is settled how it is run."""

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
rng = np.random.default_rng(5)


def drawn(*shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def model(
    op: str, fed: Sequence[Array], weights: Sequence[Array], types: Sequence[int], **settings: Any
) -> ModelProto:
    """One node: fed inputs first, then weights."""
    names = [f"x{i}" for i in range(len(fed) + len(weights))]
    made = [f"y{i}" for i in range(len(types))]
    graph = helper.make_graph(
        [helper.make_node(op, names, made, **settings)],
        "one",
        [
            helper.make_tensor_value_info(n, FLOAT, a.shape)
            for n, a in zip(names, fed, strict=False)
        ],
        [helper.make_tensor_value_info(n, t, None) for n, t in zip(made, types, strict=True)],
        [numpy_helper.from_array(a, n) for n, a in zip(names[len(fed) :], weights, strict=True)],
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 22)])


def recurrent(op: str, gates: int, batch: int) -> tuple[Any, ...]:
    weights = [drawn(1, gates * 24, 20), drawn(1, gates * 24, 24), drawn(1, 2 * gates * 24)]
    return op, [drawn(5, batch, 20)], weights, [FLOAT], {"hidden_size": 24}


def conv(batch: int, inputs: int, outputs: int, groups: int, kernel: int) -> tuple[Any, ...]:
    settings = {"group": groups, "pads": [kernel // 2] * 4}
    weights = [drawn(outputs, inputs // groups, kernel, kernel), drawn(outputs)]
    return "Conv", [drawn(batch, inputs, 13, 11)], weights, [FLOAT], settings


CASES: list[tuple[Any, ...]] = [
    ("Exp", [drawn(3, 5, 103)], [], [FLOAT], {}),
    ("Tanh", [drawn(1, 4099)], [], [FLOAT], {}),
    ("Gelu", [drawn(7, 101)], [], [FLOAT], {}),
    ("ReduceSum", [drawn(7, 33, 129)], [ints(1)], [FLOAT], {}),
    ("ReduceSum", [drawn(7, 33, 129)], [ints(0, 2)], [FLOAT], {}),
    ("ReduceMean", [drawn(30011)], [], [FLOAT], {}),
    ("ReduceLogSumExp", [drawn(7, 33, 129)], [ints(2)], [FLOAT], {}),
    ("CumSum", [drawn(7, 33, 19)], [ints(1)], [FLOAT], {}),
    ("Softmax", [drawn(7, 33, 129)], [], [FLOAT], {"axis": 1}),
    ("Softmax", [drawn(7, 33, 129)], [], [FLOAT], {"axis": -1}),
    ("LayerNormalization", [drawn(7, 33, 129)], [drawn(129), drawn(129)], [FLOAT], {}),
    ("InstanceNormalization", [drawn(3, 5, 33, 17)], [drawn(5), drawn(5)], [FLOAT], {}),
    ("LRN", [drawn(2, 13, 11, 9)], [], [FLOAT], {"size": 5}),
    ("MatMul", [drawn(1, 640)], [drawn(640, 500)], [FLOAT], {}),
    ("MatMul", [drawn(129, 257)], [drawn(257, 77)], [FLOAT], {}),
    ("MatMul", [drawn(3, 9, 64), drawn(3, 64, 33)], [], [FLOAT], {}),
    ("MatMul", [drawn(1, 30011)], [drawn(30011, 1)], [FLOAT], {}),
    ("Gemm", [drawn(5, 64)], [drawn(77, 64), drawn(77)], [FLOAT], {"transB": 1}),
    conv(1, 3, 24, 1, 7),
    conv(3, 40, 72, 1, 3),
    conv(1, 256, 128, 1, 1),
    conv(2, 32, 32, 32, 3),
    conv(1, 64, 32, 4, 3),
    ("ConvTranspose", [drawn(2, 16, 9, 9)], [drawn(16, 8, 3, 3)], [FLOAT], {"strides": [2, 2]}),
    ("MaxPool", [drawn(2, 17, 15, 13)], [], [FLOAT], {"kernel_shape": [3, 3]}),
    ("GlobalAveragePool", [drawn(2, 17, 15, 13)], [], [FLOAT], {}),
    recurrent("LSTM", 4, 1),
    recurrent("LSTM", 4, 3),
    recurrent("GRU", 3, 4),
    recurrent("RNN", 1, 8),
    ("TopK", [drawn(7, 33, 29)], [ints(5)], [FLOAT, INT64], {}),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])
def test_the_same_bits_with_any_number_of_threads(case: tuple[Any, ...]) -> None:
    op, fed, weights, types, settings = case
    proto = model(op, fed, weights, types, **settings)
    wanted: list[bytes] = []
    for threads in COUNTS:
        prepared = NeuralsymBackend.prepare(proto, threads=threads)
        for _ in range(RUNS if threads == 2 else 1):
            got = [np.asarray(value).tobytes() for value in prepared.run(fed)]
            wanted = wanted or got
            assert got == wanted, f"{threads} threads"
