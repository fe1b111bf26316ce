"""DFT and STFT: lines of a signal through fast Fourier transforms.

They are computed in the precision of the tensor, half precision in float32; lengths with a large
prime factor in float64, since the chirp that they go through costs digits. A real signal of even
length is transformed as half as many complex numbers, and its spectrum is exactly symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from neuralsym.cpu.emit import Code, array_kernel
from neuralsym.cpu.kernels.movement import settled
from neuralsym.cpu.kernels.signal_fft import Transform, chirped, fft, roots_of_unity, transform
from neuralsym.cpu.kernels.widen import (
    finish,
    reserve,
    wide_kind,
    wide_place,
    widened,
)
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, Step, Word
from neuralsym.cpu.scalar_ir import HALVES
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch

FLOATS = (NumberType.FLOAT32, NumberType.FLOAT64, *HALVES)
PADDING = 24
"""Numbers between the vectors of a worker; see `_room`."""


@dataclass(frozen=True)
class Lines:
    """Where the lines of a signal lie: strides and counts in elements, in the order of the words.

    There are outer * inner lines; `given` complex numbers of each are read, zero beyond, and
    `wanted` are written. `parts` of the input and `results` of the output say whether there are
    imaginary parts. A mirrored line is half of a spectrum, whose other half is its conjugate; a
    real one has a spectrum that is so.
    """

    outer: int
    inner: int
    given: int
    wanted: int
    parts: int
    results: int
    from_outer: int
    from_inner: int
    from_place: int
    to_outer: int
    to_inner: int
    to_place: int
    inverse: bool = False
    mirrored: bool = False
    real: bool = False


class FourierKernel(Kernel):
    """What the two share: plans, working memory, half precision through float32."""

    def supports(self, step: Step) -> bool | str:
        y = step.outputs[0]
        if y.dtype not in FLOATS:
            return f"there is no such loop over {y.dtype.value}"
        return True

    def adjust(self, step: Step) -> None:
        for i in self.needs(step):
            reserve(step, i, step.inputs[i])
        reserve(step, -1, step.outputs[0])

        def room(sizes: Sizes) -> int:
            plan = transform(self.count(step, sizes)) if self.length(step, sizes) > 0 else None
            return 0 if plan is None else 8 * _room(plan, sizes)

        step.need_scratch("work", room)

    def count(self, step: Step, sizes: Sizes) -> int:
        """How many complex numbers stand for a line."""
        length = self.length(step, sizes)
        return length // 2 if self.lines(step, sizes).real and length % 2 == 0 else length

    def length(self, step: Step, sizes: Sizes) -> int:
        """How many numbers are transformed at a time."""
        raise NotImplementedError

    def lines(self, step: Step, sizes: Sizes) -> Lines:
        """Where they lie."""
        raise NotImplementedError

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        if 0 in sizes.shape(y):
            return []
        lines, length = self.lines(step, sizes), self.length(step, sizes)
        if lines.parts not in (1, 2):
            raise ShapeMismatch(
                f"{step.describe()}: the last axis of {x.name} must hold 1 or 2 numbers, real or "
                f"complex, not {lines.parts}"
            )
        plan = transform(self.count(step, sizes))
        kind = wide_kind(y.dtype).value
        inside = "float64" if len(plan.chirp) else kind
        turns = roots_of_unity(length) if plan.length != length else np.zeros(0)
        rows: list[Row] = []
        words: list[Word] = [
            *(widened(self.target, step, 0, x, sizes, rows), math.prod(sizes.shape(x))),
            *(wide_place(step, -1, y), math.prod(sizes.shape(y))),
            *self.window(step, sizes, rows),
            *(Operand(step.scratch["work"].buffer), _room(plan, sizes)),
            *_table(np.array(astuple(lines), np.int64)),
            *_table(plan.factors),
            *_table(plan.roots.astype(inside)),
            *_table(plan.chirp.astype(inside)),
            *_table(turns.astype(inside)),
            *(length, plan.length, plan.size),
        ]
        rows.append(Row(_code(kind, inside), words))
        return [*rows, *finish(self.target, step, wide_place(step, -1, y), y, None, sizes)]

    def window(self, step: Step, sizes: Sizes, rows: list[Row]) -> list[Word]:
        """The address and length of the weights of a line; none by length 0."""
        return [wide_place(step, -1, step.outputs[0]), 0]

    def complexity(self, step: Step, sizes: Sizes) -> int:
        if 0 in sizes.shape(step.outputs[0]):
            return 0
        lines, size = self.lines(step, sizes), transform(self.count(step, sizes)).size
        return int(5 * size * math.log2(max(size, 2))) * lines.outer * lines.inner


class DFT(FourierKernel):
    """Along one axis, forth or back, of real or complex numbers."""

    name = "fft"

    def needs(self, step: Step) -> Sequence[int]:
        return [0]

    def settings(self, step: Step) -> Sequence[int]:
        return [i for i in (1, 2) if step.input(i) is not None]

    def length(self, step: Step, sizes: Sizes) -> int:
        x = step.inputs[0]
        assert x is not None
        asked = settled(step, 1, sizes)
        if asked is not None:
            return int(asked[0])
        size = sizes.shape(x)[self._axis(step, x, sizes)]
        return 2 * (size - 1) if step.attr("inverse") and step.attr("onesided") else size

    def _axis(self, step: Step, x: Buffer, sizes: Sizes) -> int:
        (axis,) = settled(step, 2, sizes) or [-2]
        return int(axis) % x.rank

    def lines(self, step: Step, sizes: Sizes) -> Lines:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        shape, made = sizes.shape(x), sizes.shape(y)
        axis, length = self._axis(step, x, sizes), self.length(step, sizes)
        outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 : -1])
        mirrored = bool(step.attr("inverse") and step.attr("onesided"))
        parts, results = shape[-1], made[-1]
        return Lines(
            *(outer, inner, min(shape[axis], length // 2 + 1 if mirrored else length)),
            *(made[axis], parts, results),
            *(shape[axis] * inner * parts, parts, inner * parts),
            *(made[axis] * inner * results, results, inner * results),
            inverse=bool(step.attr("inverse")),
            mirrored=mirrored,
            real=parts == 1 and not step.attr("inverse"),
        )


class STFT(FourierKernel):
    """Frames of a signal, weighted by a window, each transformed."""

    name = "stft"

    def needs(self, step: Step) -> Sequence[int]:
        return [i for i in (0, 2) if step.input(i) is not None]

    def settings(self, step: Step) -> Sequence[int]:
        return [i for i in (1, 3) if step.input(i) is not None]

    def length(self, step: Step, sizes: Sizes) -> int:
        x, window = step.inputs[0], step.input(2)
        assert x is not None
        asked = settled(step, 3, sizes)
        if asked is not None:
            return int(asked[0])
        return sizes.shape(x)[1] if window is None else sizes.shape(window)[0]

    def lines(self, step: Step, sizes: Sizes) -> Lines:
        x, y = step.inputs[0], step.outputs[0]
        assert x is not None
        batch, length, parts = sizes.shape(x)
        _, frames, bins, results = sizes.shape(y)
        (by,) = settled(step, 1, sizes) or [1]
        return Lines(
            *(batch, frames, self.length(step, sizes), bins, parts, results),
            *(length * parts, int(by) * parts, parts),
            *(frames * bins * results, bins * results, results),
            real=parts == 1,
        )

    def window(self, step: Step, sizes: Sizes, rows: list[Row]) -> list[Word]:
        given = step.input(2)
        if given is None:
            return super().window(step, sizes, rows)
        (size,), length = sizes.shape(given), self.length(step, sizes)
        if size != length:
            raise ShapeMismatch(
                f"{step.describe()}: {given.name} has {size} weights for frames of {length}"
            )
        return [widened(self.target, step, 2, given, sizes, rows), size]


def _room(plan: Transform, sizes: Sizes) -> int:
    """How many numbers the workers need in all: four vectors each, which must not lie whole powers
    of two apart, or they would contend for the same places of the cache."""
    return 4 * (plan.size + PADDING) * sizes.workers


def _table(values: Any) -> list[Word]:
    """The words of a vector of numbers: its bits, and how many there are."""
    words = np.zeros(max(1, -(-values.nbytes // 8)), np.int64)
    words.view(values.dtype)[: len(values)] = values
    return [words, len(values)]


@lru_cache(maxsize=4)
def _code(dtype: str, inside: str) -> Code:
    operands = [(dtype, 1, "in"), (dtype, 1, "out"), (dtype, 1, "in"), (inside, 1, "out")]
    operands += [("int64", 1, "in")] * 2 + [(inside, 1, "in")] * 3
    return array_kernel(_transform, operands, ["int64"] * 3, f"fft_{dtype}_{inside}")


def _transform(
    x: Any,
    y: Any,
    window: Any,
    memory: Any,
    lines: Any,
    factors: Any,
    roots: Any,
    chirp: Any,
    turns: Any,
    length: int,
    count: int,
    size: int,
    worker: int,
    workers: int,
) -> None:
    outer, inner, given, wanted, parts, results = lines[0:6]
    from_outer, from_inner, from_place = lines[6:9]
    to_outer, to_inner, to_place = lines[9:12]
    inverse, mirrored, real = lines[12:15]
    apart = memory.shape[0] // (4 * workers)
    work = memory[4 * apart * worker : 4 * apart * (worker + 1)]
    # An inverse transform is the forward one with the two parts swapped, on both sides.
    first, second = (apart, 0) if inverse else (0, apart)
    for line in range(outer * inner * worker // workers, outer * inner * (worker + 1) // workers):
        start = line // inner * from_outer + line % inner * from_inner
        for n in range(length):
            # Of a real signal of even length the odd places are the imaginary parts.
            place, side = n, first
            if count < length:
                place, side = n // 2, n % 2 * apart
            if n < given:
                work[side + place] = x[start + n * from_place]
            else:
                work[side + place] = 0.0
        if count == length:
            for n in range(length):
                if parts == 2 and n < given:
                    work[second + n] = x[start + n * from_place + 1]
                else:
                    work[second + n] = 0.0
        if window.shape[0]:
            for n in range(length):
                if count < length:
                    work[n % 2 * apart + n // 2] *= window[n]
                else:
                    work[n] *= window[n]
                    work[apart + n] *= window[n]
        if mirrored:
            _mirror(work, first, second, length)
        if chirp.shape[0]:
            at = chirped(work, count, size, apart, factors, roots, chirp)
        else:
            at = fft(work, size, apart, factors, roots)
        start = line // inner * to_outer + line % inner * to_inner
        if count < length:
            _write_halved(y, start, to_place, work, at, apart, count, wanted, turns)
            continue
        scale = memory.dtype.type(1.0 / length if inverse else 1.0)
        for n in range(wanted):
            place, source, sign = start + n * to_place, n, scale
            if real and 2 * n > length:
                source, sign = length - n, -scale
            y[place] = work[at + first + source] * scale
            if results == 2:
                y[place + 1] = work[at + second + source] * sign
        if real:
            y[start + 1] = 0.0


def _mirror(work: Any, first: int, second: int, length: int) -> None:
    """The second half of a spectrum from its first, of which two numbers are real."""
    work[second] = 0.0
    if length % 2 == 0:
        work[second + length // 2] = 0.0
    for n in range(1, (length + 1) // 2):
        work[first + length - n] = work[first + n]
        work[second + length - n] = -work[second + n]


def _write_halved(
    y: Any,
    start: int,
    to_place: int,
    work: Any,
    at: int,
    apart: int,
    count: int,
    wanted: int,
    turns: Any,
) -> None:
    """The spectrum of a real line from that of its even places plus i times its odd ones."""
    half = work.dtype.type(0.5)
    for n in range(wanted):
        k, sign = n, work.dtype.type(1)
        if n > count:
            k, sign = 2 * count - n, -sign
        a, b = at + k % count, at + (count - k) % count
        even_r, even_i = half * (work[a] + work[b]), half * (work[a + apart] - work[b + apart])
        odd_r, odd_i = half * (work[a + apart] + work[b + apart]), half * (work[b] - work[a])
        c, s = turns[k], turns[2 * count + k]
        y[start + n * to_place] = even_r + (odd_r * c + odd_i * s)
        y[start + n * to_place + 1] = sign * (even_i + (odd_i * c - odd_r * s))


def register(library: Library) -> None:
    """Enter the kernels of this module."""
    for kind in (DFT, STFT):
        library.kernel(kind.__name__)(kind)
