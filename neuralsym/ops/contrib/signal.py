"""Fourier transforms of real signals, and products of complex numbers held as pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.ops.base import check_choice, check_range
from neuralsym.ops.contrib.base import (
    Contrib,
    Given,
    numbers,
    op,
    part,
    rank_of,
    several,
    squeeze,
    unsqueeze,
    whole,
)
from neuralsym.ops.contrib.declare import declare, needed

_TYPES = {"T": ("float", "double", "float16")}


class Fourier(Contrib, abstract=True):
    """What the two transforms share: they run over the last axes of the signal."""

    extra: ClassVar[int]
    """How many axes follow those of the signal."""

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "normalized", (0,))
        check_choice(call, "onesided", (1,))
        check_range(call, "signal_ndim", 1, 3)
        rank, wanted = call.type(0).rank, call.attr("signal_ndim") + cls.extra
        if rank is not None and rank < wanted:
            call.fail(f"X has {rank} axes, signal_ndim={call.attr('signal_ndim')} needs {wanted}")


class Rfft(Fourier):
    """The discrete Fourier transform of real numbers: n/2 + 1 pairs along the last axis."""

    extra = 0
    schema = declare(
        "Rfft", "X:T", "Y:T", _TYPES, {"normalized": 0, "onesided": 1, "signal_ndim": 1}
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        rank = given.rank(0)
        y = op("DFT", unsqueeze(given[0], -1), None, numbers(rank - 1, "int64"), onesided=1)
        for axis in range(rank - given.attr("signal_ndim"), rank - 1):
            y = op("DFT", y, None, numbers(axis, "int64"))
        return [y]


class Irfft(Fourier):
    """The real numbers, n of them and n even, whose Rfft is given; divided by n."""

    extra = 1
    schema = declare(
        "Irfft",
        "X:T",
        "Y:T",
        _TYPES,
        {"normalized": 0, "onesided": 1, "signal_ndim": needed("INT")},
    )

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        x, rank = given[0], given.rank(0)
        last = rank - 2
        for axis in range(rank - 1 - given.attr("signal_ndim"), last):
            x = op("DFT", x, None, numbers(axis, "int64"), inverse=1)
        # The upper half of the spectrum is the lower one, mirrored and conjugated.
        mirrored = op("Slice", x, whole(-2), whole(0), whole(last), whole(-1))
        full = op("Concat", x, mirrored * numbers([1, -1], x.dtype), axis=last)
        y = op("DFT", full, None, numbers(last, "int64"), inverse=1)
        return [squeeze(part(y, rank - 1, 0, 1), rank - 1)]


class Complex(Contrib, abstract=True):
    """Products of complex numbers that lie as pairs along the last axis."""

    sign: ClassVar[float]
    """1 for a * b, -1 for a times the conjugate of b."""

    @classmethod
    def check(cls, call: Call) -> None:
        for i in range(2):
            shape = call.shape(i)
            if shape is not None and (not shape or shape[-1] not in (2, None)):
                call.fail(f"{call.label(i)} must have pairs along its last axis")

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        (a, b), (c, d) = (
            several("Split", [given[i]], 2, axis=rank_of(given[i]) - 1, num_outputs=2)
            for i in range(2)
        )
        if cls.sign < 0:
            return [op("Concat", a * c + b * d, b * c - a * d, axis=-1)]
        return [op("Concat", a * c - b * d, b * c + a * d, axis=-1)]


class ComplexMul(Complex):
    """a * b of complex numbers as pairs."""

    sign = 1.0
    schema = declare("ComplexMul", "A:T B:T", "C:T", _TYPES)


class ComplexMulConj(Complex):
    """a times the conjugate of b, of complex numbers as pairs."""

    sign = -1.0
    schema = declare("ComplexMulConj", "A:T B:T", "C:T", _TYPES)
