"""MatMul of integers by plain loops; sums wrap around as numpy's do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from neuralsym.cpu.emit import Code, array_kernel
from neuralsym.cpu.kernels.product import batch_strides, product_of
from neuralsym.cpu.library import Kernel
from neuralsym.cpu.program import Operand, Row, Sizes, Step, Word
from neuralsym.dtypes import NumberType

INTEGERS = tuple(NumberType(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64))


class MatmulLoop(Kernel):
    """One row of the result after another, as sums of rows of B."""

    name = "matmul loop"

    def supports(self, step: Step) -> bool | str:
        kind = step.outputs[0].dtype
        return True if kind in INTEGERS else f"it computes with integers, not with {kind.value}"

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        found = product_of(step)
        m, n, k, batch = found.sizes(sizes)
        count = math.prod(batch)
        if 0 in (m, n, count):
            return []
        words: list[Word] = []
        for which, buffer in enumerate((found.a, found.b)):
            around = found.shape(which, sizes)[:-2]
            steps = batch_strides(around, batch, 1)
            places = sum(
                (i * s for i, s in zip(np.indices(batch), steps, strict=True)),
                start=np.zeros(batch, np.int64),
            )
            table = np.ascontiguousarray(places, np.int64).reshape(-1)
            shape = (k, n) if which else (m, k)
            words += [Operand(buffer), math.prod(around), *shape]
            words += [table, count]
        words += [Operand(step.outputs[0]), count, m, n]
        return [Row(_code(step.outputs[0].dtype.value), words)]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        return product_of(step).operations(sizes)


@lru_cache(maxsize=8)
def _code(dtype: str) -> Code:
    operands = []
    for direction in ("in", "in"):
        operands += [(dtype, 3, direction), ("int64", 1, "in")]
    return array_kernel(_matmul, [*operands, (dtype, 3, "out")], (), f"matmul_{dtype}")


def _matmul(
    a: Any, a_places: Any, b: Any, b_places: Any, c: Any, worker: int, workers: int
) -> None:
    batch, m, n = c.shape
    for row in range(batch * m * worker // workers, batch * m * (worker + 1) // workers):
        which, i = row // m, row % m
        left, right, out = a[a_places[which]], b[b_places[which]], c[which, i]
        for j in range(n):
            out[j] = 0
        for k in range(left.shape[1]):
            factor = left[i, k]
            for j in range(n):
                out[j] += factor * right[k, j]
