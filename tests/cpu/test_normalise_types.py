"""LRN and MeanVarianceNormalization in double and half precision: compiled, against the formulas.

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
