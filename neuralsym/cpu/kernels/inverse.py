"""Inverses of square matrices (com.microsoft), by Gauss and Jordan with partial pivoting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any, ClassVar

from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.units import Function, decoder, encoder, takes_floats
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Row, Sizes, Step


class Inverse(Kernel):
    """Each matrix is reduced to the identity in float64, and the identity beside it with it."""

    failures: ClassVar = {1: "a matrix is singular and has no inverse"}

    def supports(self, step: Step) -> bool | str:
        return takes_floats(step)

    def adjust(self, step: Step) -> None:
        x = step.inputs[0]
        assert x is not None
        step.need_scratch("rows", lambda sizes: 16 * sizes.workers * prod(sizes.shape(x)[-2:]))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        *outer, n, _ = sizes.shape(x)
        count = prod(outer)
        if not count * n:
            return []
        memory = step.scratch["rows"].buffer
        sides = [
            Side(x, x.dtype.value, (count, n, n)),
            Side(y, y.dtype.value, (count, n, n), "out"),
            Side(memory, "float64", (sizes.workers, n, 2 * n), "out"),
        ]
        loop = _inverted(decoder(x.dtype), encoder(y.dtype))
        return [array_row(step, sizes, loop, sides, name="inverse")]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        x = step.inputs[0]
        assert x is not None
        return 2 * prod(sizes.shape(x)) * sizes.shape(x)[-1]


@cache
def _inverted(decode: Function, encode: Function) -> Callable[..., int]:
    def loop(x: Any, y: Any, memory: Any, worker: int, workers: int) -> int:
        n, total = x.shape[1], x.shape[0]
        a = memory[worker]
        for unit in range(total * worker // workers, total * (worker + 1) // workers):
            for i in range(n):
                for j in range(n):
                    a[i, j] = decode(x[unit, i, j])
                    a[i, n + j] = 1.0 if i == j else 0.0
            for k in range(n):
                best = k
                for i in range(k + 1, n):
                    if abs(a[i, k]) > abs(a[best, k]):
                        best = i
                if a[best, k] == 0:
                    return 1
                for j in range(k, 2 * n):
                    kept = a[k, j]
                    a[k, j] = a[best, j]
                    a[best, j] = kept
                pivot = a[k, k]
                for j in range(k, 2 * n):
                    a[k, j] /= pivot
                for i in range(n):
                    factor = a[i, k]
                    if i != k and factor != 0:
                        for j in range(k, 2 * n):
                            a[i, j] -= factor * a[k, j]
            for i in range(n):
                for j in range(n):
                    y[unit, i, j] = encode(a[i, n + j])
        return 0

    return loop


def register(library: Library) -> None:
    """Register the kernels of this module."""
    library.kernel("Inverse", name="inverse", domain="com.microsoft")(Inverse)
