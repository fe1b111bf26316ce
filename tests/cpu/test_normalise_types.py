"""Normalisations in double, half precision and types mixed: compiled, against the formulas.

onnx's evaluator takes LRN of images alone, and MeanVarianceNormalization in no other type than
float32.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernel_cases import cell_of, leaves, run_cell

from neuralsym.core.registry import call
from neuralsym.cpu.kernels.host import HostKernel

TOLERANCE = {"float64": 1e-14, "float32": 3e-6, "float16": 2e-3, "bfloat16": 2e-2}
SHAPES = [(2, 5), (2, 7, 3), (1, 6, 3, 4), (2, 6, 0)]


def run(op: str, x: Any, **attrs: Any) -> Any:
    symbols, fed = leaves([x])
    cell = cell_of([call(op, *symbols, **attrs)], symbols)
    assert not [s.op.__name__ for s in cell.program.steps if isinstance(s.kernel, HostKernel)]
    return run_cell(cell, fed)[0]


def drawn(kind: str, shape: tuple[int, ...]) -> Any:
    dtype = getattr(ml_dtypes, kind, None) or np.dtype(kind)
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_lrn(kind, shape, size):
    x = drawn(kind, shape)
    made = run("LRN", x, size=size, alpha=0.25, beta=0.5, bias=1.5)
    squares, sums = x.astype(float) ** 2, np.zeros(shape)
    for c in range(shape[1]):
        low, high = max(0, c - (size - 1) // 2), min(shape[1] - 1, c + size // 2)
        sums[:, c] = squares[:, low : high + 1].sum(1)
    wanted = x.astype(float) / (1.5 + 0.25 / size * sums) ** 0.5
    assert made.dtype == x.dtype
    np.testing.assert_allclose(made.astype(float), wanted, rtol=TOLERANCE[kind], atol=1e-12)


@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("axes", [None, [0], [-1, 1]])
def test_mean_variance_normalization(kind, axes):
    x = drawn(kind, (2, 3, 4, 5))
    made = run("MeanVarianceNormalization", x, axes=axes)
    over = tuple(axes or (0, 2, 3))
    centred = x.astype(float) - x.astype(float).mean(over, keepdims=True)
    wanted = centred / (np.sqrt((centred**2).mean(over, keepdims=True)) + 1e-9)
    assert made.dtype == x.dtype
    np.testing.assert_allclose(
        made.astype(float), wanted, rtol=TOLERANCE[kind], atol=TOLERANCE[kind]
    )


@pytest.mark.parametrize(
    "kinds", [("float32", "float64", "float64"), ("float64", "float32", "float16")]
)
@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 3, 4, 5)])
def test_batch_normalization_of_several_types(kinds, shape):
    rng, channels = np.random.default_rng(1), shape[1] if len(shape) > 1 else 1
    x = rng.normal(size=shape).astype(kinds[0])
    scale, bias = (rng.normal(size=channels).astype(kinds[1]) for _ in range(2))
    mean, variance = (rng.uniform(0.5, 1.5, channels).astype(kinds[2]) for _ in range(2))
    symbols, fed = leaves([x, scale, bias, mean, variance])
    cell = cell_of([call("BatchNormalization", *symbols)], symbols)
    assert not [s.op.__name__ for s in cell.program.steps if isinstance(s.kernel, HostKernel)]
    (made,) = run_cell(cell, fed)
    column = [-1, *[1] * (len(shape) - 2)] if len(shape) > 1 else [-1]
    parts = (v.astype(float).reshape(column) for v in (scale, bias, mean, variance))
    s, b, m, v = parts
    wanted = (x.astype(float) - m) / np.sqrt(v + float(np.float32(1e-5))) * s + b
    assert made.dtype == x.dtype and made.shape == shape
    tolerance = TOLERANCE[kinds[0]] * 10
    np.testing.assert_allclose(made.astype(float), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("shape", [(1, 5), (4, 1), (3, 4, 5), (1,), ()])
def test_scales_broadcast_to_the_whole_input(op: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(3, 4, 5)).astype(np.float32)
    scale = rng.normal(size=shape).astype(np.float32)
    made, fed = leaves([x, scale])
    (value,) = run_cell(cell_of([call(op, *made, axis=-1)], made), fed)
    wide = x.astype(np.float64)
    if op == "LayerNormalization":
        wide = wide - wide.mean(-1, keepdims=True)
    wanted = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * scale
    np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)
