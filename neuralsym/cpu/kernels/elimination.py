"""Square matrices by elimination with partial pivoting in float64: Det, com.microsoft's Inverse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any, ClassVar

from neuralsym.cpu.kernels.array_row import Side, array_row
from neuralsym.cpu.kernels.units import Function, decoder, encoder, takes_floats
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Row, Sizes, Step


class Elimination(Kernel):
    """A loop over matrices, each in a copy of float64 that may have more columns."""

    copies: ClassVar[int] = 1
    """How many times as wide as the matrix its copy is."""
    loop: ClassVar[Callable[[Function, Function], Callable[..., Any]]]

    def supports(self, step: Step) -> bool | str:
        return takes_floats(step)

    def adjust(self, step: Step) -> None:
        x = step.inputs[0]
        assert x is not None
        size = 8 * self.copies
        step.need_scratch("rows", lambda sizes: size * sizes.workers * prod(sizes.shape(x)[-2:]))

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        *outer, n, _ = sizes.shape(x)
        if 0 in sizes.shape(y):
            return []
        count = prod(outer)
        memory = step.scratch["rows"].buffer
        sides = [
            Side(x, x.dtype.value, (count, n, n)),
            Side(y, y.dtype.value, (count, *sizes.shape(y)[len(outer) :]), "out"),
            Side(memory, "float64", (sizes.workers, n, self.copies * n), "out"),
        ]
        loop = type(self).loop(decoder(x.dtype), encoder(y.dtype))
        return [array_row(step, sizes, loop, sides, name=self.name)]


def _pivot_row(a: Any, k: int, n: int) -> int:
    """The row from k on with the largest number in column k."""
    best = k
    for i in range(k + 1, n):
        if abs(a[i, k]) > abs(a[best, k]):
            best = i
    return best


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
                best = _pivot_row(a, k, n)
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
                best = _pivot_row(a, k, n)
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


class Det(Elimination):
    """The product of the pivots, with a sign for each exchange of rows; 1 for an empty matrix."""

    loop = staticmethod(_determinant)

    def complexity(self, step: Step, sizes: Sizes) -> int:
        x = step.inputs[0]
        assert x is not None
        return 2 * prod(sizes.shape(x)) * sizes.shape(x)[-1] // 3


class Inverse(Elimination):
    """Each matrix is reduced to the identity, and the identity beside it with it."""

    failures: ClassVar = {1: "a matrix is singular and has no inverse"}
    copies = 2
    loop = staticmethod(_inverted)

    def complexity(self, step: Step, sizes: Sizes) -> int:
        x = step.inputs[0]
        assert x is not None
        return 2 * prod(sizes.shape(x)) * sizes.shape(x)[-1]


def register(library: Library) -> None:
    """Register the kernels of this module."""
    library.kernel("Det", name="det")(Det)
    library.kernel("Inverse", name="inverse", domain="com.microsoft")(Inverse)
