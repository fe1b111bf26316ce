"""Determinants of square matrices, by elimination with partial pivoting in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.units import Function, decoder, encoder, takes_floats
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Row, Sizes, Step


class Det(Kernel):
    """The product of the pivots, with a sign for each exchange of rows; 1 for an empty matrix."""

    def supports(self, step: Step) -> bool | str:
        return takes_floats(step)

    def adjust(self, step: Step) -> None:
        x = step.inputs[0]
        assert x is not None
        step.need_scratch("rows", lambda sizes: 8 * sizes.workers * prod(sizes.shape(x)[-2:]))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        *outer, n, _ = sizes.shape(x)
        count = prod(outer)
        if not count:
            return []
        memory = step.scratch["rows"].buffer
        sides = [
            Side(x, x.dtype.value, (count, n, n)),
            Side(y, y.dtype.value, (count,), "out"),
            Side(memory, "float64", (sizes.workers, n, n), "out"),
        ]
        loop = _determinant(decoder(x.dtype), encoder(y.dtype))
        return [array_row(step, sizes, loop, sides, name="det")]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        x = step.inputs[0]
        assert x is not None
        return 2 * prod(sizes.shape(x)) * sizes.shape(x)[-1] // 3


@cache
def _determinant(decode: Function, encode: Function) -> Callable[..., None]:
    def loop(x: Any, y: Any, memory: Any, worker: int, workers: int) -> None:
        n, total = x.shape[1], x.shape[0]
        a = memory[worker]
        for unit in range(total * worker // workers, total * (worker + 1) // workers):
            for i in range(n):
                for j in range(n):
                    a[i, j] = decode(x[unit, i, j])
            value = 1.0
            for k in range(n):
                best = k
                for i in range(k + 1, n):
                    if abs(a[i, k]) > abs(a[best, k]):
                        best = i
                if best != k:
                    value = -value
                    for j in range(k, n):
                        kept = a[k, j]
                        a[k, j] = a[best, j]
                        a[best, j] = kept
                pivot = a[k, k]
                value *= pivot
                if pivot == 0:
                    # Nothing but zeros below: only NaN in the rest could change the result.
                    for i in range(k + 1, n):
                        for j in range(k, n):
                            value += a[i, j] * 0.0
                    break
                for i in range(k + 1, n):
                    factor = a[i, k] / pivot
                    for j in range(k + 1, n):
                        a[i, j] -= factor * a[k, j]
            y[unit] = encode(value + 0.0)  # never -0.0

    return loop


def register(library: Library) -> None:
    """Register the kernels of this module."""
    library.kernel("Det", name="det")(Det)
