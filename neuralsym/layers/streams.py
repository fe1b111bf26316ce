"""Random numbers whose bytes are the same on every machine, a stream of its own for each weight.

Integers come from Philox4x64-10 keyed by (seed, name). All that follows is IEEE + - * / and square
root on float64, one numpy call an operation: no C library function, no BLAS, no order of
summation left to numpy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Words = NDArray[np.uint64]

# Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
_ROUNDS = 10
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_MASK64 = 2**64 - 1
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)

# Counters drawn at a time: the arrays of one batch stay within the second-level cache. The
# values do not depend on it.
_BATCH = 8192

# Columns of an orthogonal matrix made at a time; the values do not depend on it either.
_COLUMNS = 64

# The share of a normal distribution within two deviations of its mean: erf(sqrt(2)).
_WITHIN_TWO = 0.9544997361036416


@dataclass(frozen=True)
class Stream:
    """The random numbers of one weight: value i depends on seed, name and i alone.

    The integers are those of `numpy.random.Philox(key=stream.key).random_raw()`, one for a value.
    """

    seed: int
    name: str

    @property
    def key(self) -> tuple[int, int]:
        """The 128 bits that key the generator: the head of SHA-256 over seed and name."""
        text = f"{self.seed}\0{self.name}".encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(text).digest()
        return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")

    def integers(self, count: int) -> Words:
        """The first `count` integers, uint64[count]."""
        out = np.empty(count, np.uint64)
        for start, lanes in self._batches(count):
            for lane, words in enumerate(lanes):
                target = out[start + lane : start + 4 * len(words) : 4]
                target[...] = words[: len(target)]
        return out

    def uniform(self, out: NDArray[Any], low: float, high: float) -> None:
        """Fill the 1-d `out` with values of [low, high], from 53 bits each."""
        width = high - low

        def shape(words: Words) -> Doubles:
            values = (words >> np.uint64(11)).view(np.int64).astype(np.float64)
            values *= 2.0**-53 * width  # a power of two: the product is rounded once
            values += low
            return values

        self._fill(out, shape)

    def normal(
        self, out: NDArray[Any], mean: float, deviation: float, *, truncated: bool = False
    ) -> None:
        """Fill the 1-d `out` with normal values; truncated: within two deviations of the mean.

        By the inverse of the distribution function, from 52 bits each: one integer a value,
        truncated or not. The quantile's relative error is below 1e-15.
        """
        share = _WITHIN_TWO if truncated else 1.0

        def shape(words: Words) -> Doubles:
            values = (words >> np.uint64(12)).view(np.int64).astype(np.float64)
            values += 0.5 - 2.0**51  # the middle of each of 2^52 cells: never 0, never 1
            values *= 2.0**-52 * share
            values = quantile(values)
            if truncated:
                np.clip(values, -2.0, 2.0, out=values)  # against the last rounding
            values *= deviation
            values += mean
            return values

        self._fill(out, shape)

    def _fill(self, out: NDArray[Any], shape: Callable[[Words], Doubles]) -> None:
        with np.errstate(over="ignore"):  # float16 may not hold what was asked for
            for start, lanes in self._batches(out.size):
                for lane, words in enumerate(lanes):
                    target = out[start + lane : start + 4 * len(words) : 4]
                    target[...] = shape(words[: len(target)])

    def _batches(self, count: int) -> Iterator[tuple[int, tuple[Words, Words, Words, Words]]]:
        """(position of the first value, the four words of each counter), batch by batch."""
        key = self.key
        blocks = -(-count // 4)
        for start in range(0, blocks, _BATCH):
            length = min(_BATCH, blocks - start)
            counters = np.arange(start + 1, start + 1 + length, dtype=np.uint64)
            yield 4 * start, philox(counters, key)


def philox(counters: Words, key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    """Philox4x64-10 of the 256-bit counters (c, 0, 0, 0): four words for each, in order."""
    first = counters.copy()
    second, third, fourth = (np.zeros_like(first) for _ in range(3))
    high0, low0, high1, low1, *scratch = (np.empty_like(first) for _ in range(6))
    for turn in range(_ROUNDS):
        key0, key1 = ((k + turn * w) & _MASK64 for k, w in zip(key, _WEYL, strict=True))
        _multiply(first, _MULTIPLIERS[0], high0, low0, *scratch)
        _multiply(third, _MULTIPLIERS[1], high1, low1, *scratch)
        high1 ^= second
        high1 ^= np.uint64(key0)
        high0 ^= fourth
        high0 ^= np.uint64(key1)
        # The old words become the products' room of the next round.
        first, second, third, fourth, high1, low1, high0, low0 = (
            high1,
            low1,
            high0,
            low0,
            first,
            second,
            third,
            fourth,
        )
    return first, second, third, fourth


def _multiply(x: Words, m: int, high: Words, low: Words, xl: Words, xh: Words) -> None:
    """The 128-bit products x * m, from 32-bit halves; x, xl and xh are used as scratch."""
    ml, mh = np.uint64(m & 0xFFFFFFFF), np.uint64(m >> 32)
    np.bitwise_and(x, _LOW, out=xl)
    np.right_shift(x, _HALF, out=xh)
    np.multiply(x, np.uint64(m), out=low)
    np.multiply(xl, ml, out=high)
    high >>= _HALF
    np.multiply(xh, ml, out=x)
    x += high  # bits 32 and up of xl*ml + xh*ml << 32
    xl *= mh
    np.bitwise_and(x, _LOW, out=high)
    xl += high  # the same, plus xl*mh << 32
    x >>= _HALF
    xl >>= _HALF
    np.multiply(xh, mh, out=high)
    high += x
    high += xl


# Wichura: "Algorithm AS 241: the percentage points of the normal distribution" (1988). Rational
# approximations of degree 7, highest power first: the middle, the tails, the far tails.
_MIDDLE = (
    (
        2509.0809287301226727,
        33430.575583588128105,
        67265.770927008700853,
        45921.953931549871457,
        13731.693765509461125,
        1971.5909503065514427,
        133.14166789178437745,
        3.387132872796366608,
    ),
    (
        5226.495278852854561,
        28729.085735721942674,
        39307.89580009271061,
        21213.794301586595867,
        5394.1960214247511077,
        687.1870074920579083,
        42.313330701600911252,
        1.0,
    ),
)
_TAIL = (
    (
        7.7454501427834140764e-4,
        0.0227238449892691845833,
        0.24178072517745061177,
        1.27045825245236838258,
        3.64784832476320460504,
        5.7694972214606914055,
        4.6303378461565452959,
        1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9,
        5.475938084995344946e-4,
        0.0151986665636164571966,
        0.14810397642748007459,
        0.68976733498510000455,
        1.6763848301838038494,
        2.05319162663775882187,
        1.0,
    ),
)
_FAR_TAIL = (
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        0.0012426609473880784386,
        0.026532189526576123093,
        0.29656057182850489123,
        1.7848265399172913358,
        5.4637849111641143699,
        6.6579046435011037772,
    ),
    (
        2.04426310338993978564e-15,
        1.4215117583164458887e-7,
        1.8463183175100546818e-5,
        7.868691311456132591e-4,
        0.0148753612908506148525,
        0.13692988092273580531,
        0.59983220655588793769,
        1.0,
    ),
)
_LN2 = 0.6931471805599453


def quantile(offset: Doubles) -> Doubles:
    """The normal quantile of 0.5 + offset, for -0.5 < offset < 0.5; relative error below 1e-15."""
    room = offset * offset
    np.subtract(0.180625, room, out=room)
    result = _ratio(room, _MIDDLE)
    result *= offset
    outside = np.flatnonzero(np.abs(offset) > 0.425)
    if outside.size:
        side = offset[outside]
        radius = np.sqrt(-logarithm(0.5 - np.abs(side)))  # the difference is exact
        value = _ratio(radius - 1.6, _TAIL)
        far = np.flatnonzero(radius > 5.0)
        if far.size:
            value[far] = _ratio(radius[far] - 5.0, _FAR_TAIL)
        result[outside] = np.copysign(value, side)
    return result


def logarithm(x: Doubles) -> Doubles:
    """The natural logarithm of normal positive numbers, to some 2 units in the last place.

    x = m * 2^e with m between sqrt(1/2) and sqrt(2); log m = 2 artanh(s), s = (m - 1)/(m + 1).
    """
    bits = x.view(np.uint64)
    exponent = (bits >> np.uint64(52)).view(np.int64) - 1023
    fraction = bits & np.uint64(2**52 - 1)
    fraction |= np.uint64(1023 << 52)
    mantissa = fraction.view(np.float64)
    large = mantissa > 1.4142135623730951
    mantissa = np.where(large, mantissa * 0.5, mantissa)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = _polynomial(square, [1.0 / n for n in range(23, 0, -2)])  # s^2 < 0.0295
    series *= s
    series *= 2.0
    series += (exponent + large).astype(np.float64) * _LN2
    return series


def _ratio(x: Doubles, parts: tuple[tuple[float, ...], tuple[float, ...]]) -> Doubles:
    above = _polynomial(x, parts[0])
    above /= _polynomial(x, parts[1])
    return above


def _polynomial(x: Doubles, coefficients: tuple[float, ...] | list[float]) -> Doubles:
    """Horner's rule, one rounded product and one rounded sum a step."""
    result = x * coefficients[0]
    result += coefficients[1]
    for coefficient in coefficients[2:]:
        result *= x
        result += coefficient
    return result


def tree_sum(rows: Doubles) -> Doubles:
    """The sum over the first axis, halving the rows until one is left; `rows` is overwritten."""
    count = len(rows)
    while count > 1:
        half = count // 2
        rows[:half] += rows[count - half : count]
        count -= half
    total: Doubles = rows[0]
    return total


def orthonormal_columns(normal: Doubles) -> Doubles:
    """Orthonormal columns [m, n], m >= n, as the QR factor of a normal matrix is distributed.

    With the signs that make R's diagonal positive, Q is uniform over all such matrices. Column k
    below its diagonal gives the k-th Householder vector, which has the same distribution as the
    one that factoring would come to (Stewart 1980), so nothing is factored. Of `normal` only the
    lower triangle is used. Orthonormal to about 1e-15 * sqrt(m).
    """
    m, n = normal.shape
    mirrors, factors, signs = [], [], []
    for k in range(n):
        mirror = normal[k:, k].copy()
        sign = -1.0 if mirror[0] < 0.0 else 1.0
        mirror[0] += sign * np.sqrt(tree_sum(mirror * mirror))
        factors.append(2.0 / tree_sum(mirror * mirror))
        signs.append(sign)
        mirrors.append(mirror[:, None])
    # Some columns at a time, so that they stay in the cache while all mirrors pass over them.
    q = np.empty((m, n))
    room = np.empty((m, _COLUMNS))
    for start in range(0, n, _COLUMNS):
        stop = min(start + _COLUMNS, n)
        block = np.zeros((m, stop - start))
        for k in reversed(range(stop)):
            left = max(k - start, 0)  # columns before k are still zero below row k
            if k >= start:
                block[k, left] = -signs[k]  # a unit vector of the sign of R
            part = block[k:, left:]
            product = room[: m - k, left : stop - start]
            np.multiply(mirrors[k], part, out=product)
            step = tree_sum(product) * factors[k]
            np.multiply(mirrors[k], step, out=product)
            part -= product
        q[:, start:stop] = block
    return q
