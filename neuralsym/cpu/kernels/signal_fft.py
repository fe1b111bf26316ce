"""Fast Fourier transforms as plain loops, and the tables that they go by.

A length is cut into small prime factors and transformed by one pass for each (Stockham's order,
which needs no reordering). A length with a large prime factor is a convolution with a chirp
(Bluestein 1970), done with transforms of a power of two. Roots of unity come from whole numbers,
reduced to an eighth of a turn: those that are 0, 1 or -1 are so exactly.

The factors are taken in the order in which numpy's FFT takes them, and odd ones in pairs as there:
onnx's cases hold what its rounding in float32 leaves of zero, and compare it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LARGEST_FACTOR = 31
"""A prime factor above costs more passes over the data than the chirp does."""


@dataclass(frozen=True, eq=False)
class Transform:
    """What a transform of one length goes by.

    size: the length of the transforms that are really done; factors: of `size`; roots: cosines,
    then sines of k/size of a turn; chirp: empty, or for each place of the signal cosine and sine
    of its chirp, then the transform of the chirp's conjugate, real parts before imaginary ones.
    """

    length: int
    size: int
    factors: NDArray[np.int64]
    roots: Floats
    chirp: Floats


@lru_cache(maxsize=32)
def transform(length: int) -> Transform:
    """The plan for a length of at least 1."""
    factors = _factors(length)
    if max(factors, default=1) <= LARGEST_FACTOR:
        return Transform(length, length, _table(factors), roots_of_unity(length), np.zeros(0))
    size = 1 << (2 * length - 2).bit_length()
    # n*n/2 turns by the length, from a whole number: n*n mod 2 length.
    places = np.array([n * n % (2 * length) for n in range(length)], np.int64)
    cosines, sines = (half[places] for half in np.split(roots_of_unity(2 * length), 2))
    other = np.zeros(size, np.complex128)
    other[:length] = cosines + 1j * sines
    other[size - length + 1 :] = other[1:length][::-1]
    other = np.fft.fft(other) / size
    chirp = np.concatenate([cosines, sines, other.real, other.imag])
    return Transform(length, size, _table(_factors(size)), roots_of_unity(size), chirp)


def _table(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def _factors(number: int) -> list[int]:
    """Its prime factors, with 4 for two twos."""
    found: list[int] = []
    for factor in (4, 2, *range(3, math.isqrt(number) + 1, 2)):
        while number % factor == 0:
            found.append(factor)
            number //= factor
    if 2 in found:  # before the fours
        found.remove(2)
        found.insert(0, 2)
    return [*found, number] if number > 1 else found


def roots_of_unity(count: int) -> Floats:
    """The cosines, then the sines of k/count of a turn."""
    quarter, rest = np.divmod(4 * np.arange(count, dtype=np.int64), count)
    late = 2 * rest > count  # past an eighth: what is left to the quarter says it
    angle = np.where(late, count - rest, rest) * (np.pi / 2 / count)
    near, far = np.cos(angle), np.sin(angle)
    near[2 * rest == count] = far[2 * rest == count] = math.sqrt(0.5)
    x, y = np.where(late, far, near), np.where(late, near, far)
    cosines, sines = np.choose(quarter, [x, -y, -x, y]), np.choose(quarter, [y, x, -y, -x])
    return np.concatenate([cosines, sines])


# -- loops -------------------------------------------------------------------------------------
def fft(work: Any, size: int, apart: int, factors: Any, roots: Any) -> int:
    """Transform `size` complex numbers; gives where in `work` the result begins.

    work: real parts, imaginary parts, and as much again, `apart` from one another; of float32 or
    float64, as the roots are.
    """
    source, target = 0, 2 * apart
    n, stride = size, 1
    for step in range(factors.shape[0]):
        radix = factors[step]
        rows = n // radix
        if radix == 2:
            _pass_2(work, source, target, size, apart, rows, stride, roots)
        elif radix == 4:
            _pass_4(work, source, target, size, apart, rows, stride, roots)
        else:
            _pass_odd(work, source, target, size, apart, rows, stride, radix, roots)
        source, target = target, source
        n = rows
        stride *= radix
    return source


def _pass_2(
    work: Any, source: int, target: int, size: int, apart: int, rows: int, stride: int, roots: Any
) -> None:
    half = rows * stride
    for p in range(rows):
        c, s = roots[p * stride], roots[size + p * stride]
        a, y = source + p * stride, target + 2 * p * stride
        for q in range(stride):
            ar, ai = work[a + q], work[a + q + apart]
            br, bi = work[a + q + half], work[a + q + half + apart]
            dr, di = ar - br, ai - bi
            work[y + q], work[y + q + apart] = ar + br, ai + bi
            work[y + q + stride] = dr * c + di * s
            work[y + q + stride + apart] = di * c - dr * s


def _pass_4(
    work: Any, source: int, target: int, size: int, apart: int, rows: int, stride: int, roots: Any
) -> None:
    quarter = rows * stride
    for p in range(rows):
        t = p * stride
        c1, s1 = roots[t], roots[size + t]
        c2, s2 = roots[2 * t], roots[size + 2 * t]
        c3, s3 = roots[3 * t], roots[size + 3 * t]
        a, y = source + t, target + 4 * t
        for q in range(stride):
            i = a + q
            r0, i0 = work[i], work[i + apart]
            r1, i1 = work[i + quarter], work[i + quarter + apart]
            r2, i2 = work[i + 2 * quarter], work[i + 2 * quarter + apart]
            r3, i3 = work[i + 3 * quarter], work[i + 3 * quarter + apart]
            sr, si, dr, di = r0 + r2, i0 + i2, r0 - r2, i0 - i2
            tr, ti, er, ei = r1 + r3, i1 + i3, r1 - r3, i1 - i3
            o = y + q
            work[o], work[o + apart] = sr + tr, si + ti
            # -i (er + i ei) = ei - i er
            xr, xi = dr + ei, di - er
            work[o + stride], work[o + stride + apart] = xr * c1 + xi * s1, xi * c1 - xr * s1
            o += 2 * stride
            xr, xi = sr - tr, si - ti
            work[o], work[o + apart] = xr * c2 + xi * s2, xi * c2 - xr * s2
            xr, xi = dr - ei, di + er
            work[o + stride], work[o + stride + apart] = xr * c3 + xi * s3, xi * c3 - xr * s3


def _pass_odd(
    work: Any,
    source: int,
    target: int,
    size: int,
    apart: int,
    rows: int,
    stride: int,
    radix: int,
    roots: Any,
) -> None:
    """Places k and radix - k of a butterfly together: they differ in the sign of their sines."""
    jump, half = rows * stride, (radix + 1) // 2
    zero = work.dtype.type(0)
    for p in range(rows):
        a, y = source + p * stride, target + radix * p * stride
        for q in range(stride):
            r, i = work[a + q], work[a + q + apart]
            for j in range(1, half):
                one, other = a + q + j * jump, a + q + (radix - j) * jump
                r += work[one] + work[other]
                i += work[one + apart] + work[other + apart]
            work[y + q], work[y + q + apart] = r, i
        for k in range(1, half):
            first, last = p * k * stride, p * (radix - k) * stride
            c1, s1 = roots[first], roots[size + first]
            c2, s2 = roots[last], roots[size + last]
            for q in range(stride):
                r, i = work[a + q], work[a + q + apart]
                u, v = zero, zero
                for j in range(1, half):
                    one, other = a + q + j * jump, a + q + (radix - j) * jump
                    turn = (j * k % radix) * jump
                    c, s = roots[turn], roots[size + turn]
                    r += c * (work[one] + work[other])
                    i += c * (work[one + apart] + work[other + apart])
                    u += s * (work[one + apart] - work[other + apart])
                    v += s * (work[one] - work[other])
                # (r + i i) with (u - i v) added for k, taken off for radix - k.
                dr, di = r + u, i - v
                o = y + q + k * stride
                work[o], work[o + apart] = dr * c1 + di * s1, di * c1 - dr * s1
                dr, di = r - u, i + v
                o = y + q + (radix - k) * stride
                work[o], work[o + apart] = dr * c2 + di * s2, di * c2 - dr * s2


def chirped(
    work: Any, length: int, size: int, apart: int, factors: Any, roots: Any, chirp: Any
) -> int:
    """The transform of `length` numbers by a convolution; gives where the result begins."""
    for n in range(length):
        c, s = chirp[n], chirp[length + n]
        r, i = work[n], work[apart + n]
        work[n], work[apart + n] = r * c + i * s, i * c - r * s
    for n in range(length, size):
        work[n], work[apart + n] = 0.0, 0.0
    at = fft(work, size, apart, factors, roots)
    spectrum = 2 * length
    for n in range(size):
        c, s = chirp[spectrum + n], chirp[spectrum + size + n]
        r, i = work[at + n], work[at + apart + n]
        # Swapped parts make the next transform the inverse one.
        work[n], work[apart + n] = r * s + i * c, r * c - i * s
    at = fft(work, size, apart, factors, roots)
    for n in range(length):
        c, s = chirp[n], chirp[length + n]
        i, r = work[at + n], work[at + apart + n]
        work[at + n], work[at + apart + n] = r * c + i * s, i * c - r * s
    return at
