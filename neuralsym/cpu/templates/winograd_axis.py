"""The transforms of Winograd's (Toom and Cook's) minimal filtering along one axis.

    y = A^T [(G g) * (B^T d)]        d: m + r - 1 inputs, g: r taps, y: m outputs

As polynomials: the sums of a filter are a product of polynomials transposed, which is known from
its values at m + r - 2 points and at infinity (S. Winograd, Arithmetic Complexity of Computations,
1980). Which points are taken decides about the rounding error. The usual 0, +-1, +-2 of six lead to
four times the error of 0, +-5/8, +-3/2: among multiples of 1/8, whose powers are exact in float32,
these had the smallest. Points in pairs +-p share all their products.

A filter of stride s is the sum of s filters of stride one, each of every s-th tap and input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neuralsym.core.locks import cached_property
from neuralsym.cpu.ir import Function
from neuralsym.cpu.templates.epilogue import constant
from neuralsym.cpu.templates.layout import Array

Matrix = list[list[Fraction]]
Points = tuple[tuple[Fraction, ...], tuple[Fraction, ...]]

_half, _one, _two = Fraction(1, 2), Fraction(1), Fraction(2)
POINTS: dict[int, Points] = {
    2: ((), ()),
    3: ((), (_one,)),
    4: ((_one,), ()),
    5: ((Fraction(3, 4),), (Fraction(7, 4),)),
    6: ((Fraction(5, 8), Fraction(3, 2)), ()),
    8: ((_half, _one, _two), ()),
}
"""By the size: the positive points of pairs, and a single one; 0 and infinity come with them."""


@dataclass(frozen=True)
class Axis:
    """One axis of a tile: `outputs` results of a filter of `taps`, with `size` products."""

    outputs: int
    taps: int
    stride: int = 1

    @property
    def size(self) -> int:
        """Inputs of a tile, and as many products: places."""
        return self.reach(self.outputs)

    def reach(self, outputs: int) -> int:
        """From how many inputs so many outputs are made."""
        return (outputs - 1) * self.stride + self.taps

    @cached_property
    def phases(self) -> tuple[Axis, ...]:
        """The filters of stride one that it is the sum of."""
        counts = (len(range(p, self.taps, self.stride)) for p in range(self.stride))
        return tuple(Axis(self.outputs, count) for count in counts)

    @property
    def is_plain(self) -> bool:
        """Nothing to transform: one tap."""
        return self.taps == 1

    @cached_property
    def amplification(self) -> float:
        """How many times the sum of |g| |d| the sum of |A^T| |G g| |B^T d| is at most, for even
        taps and inputs: what the rounding errors of a direct sum are multiplied with."""
        g = np.abs(as_array(self.filter_matrix)).sum(1)
        d = np.abs(as_array(self.input_matrix)).sum(1)
        return float((np.abs(as_array(self.output_matrix)) @ (g * d)).max()) / self.taps

    # -- points ----------------------------------------------------------------------------
    @property
    def pairs(self) -> tuple[Fraction, ...]:
        return POINTS[self.size][0]

    @property
    def singles(self) -> tuple[Fraction, ...]:
        return POINTS[self.size][1]

    @cached_property
    def points(self) -> tuple[Fraction, ...]:
        """All finite points: 0, p, -p, q, -q ..., a single one."""
        return (Fraction(0), *(s * p for p in self.pairs for s in (1, -1)), *self.singles)

    # -- matrices --------------------------------------------------------------------------
    @cached_property
    def filter_matrix(self) -> Matrix:
        """G [size][taps]: the filter's polynomial at each point, over what B^T leaves out."""
        if self.stride > 1:
            return [
                _spread(row, phase, self.stride, self.taps)
                for phase, axis in enumerate(self.phases)
                for row in axis.filter_matrix
            ]
        if self.is_plain:
            return [[_one]] * self.outputs
        rows = []
        for p in self.points:
            scale = _one
            for q in self.points:
                scale *= p - q if q != p else 1
            rows.append([p**k / scale for k in range(self.taps)])
        return [*rows, [Fraction(int(k == self.taps - 1)) for k in range(self.taps)]]

    @cached_property
    def input_matrix(self) -> Matrix:
        """B^T [size][size]: for each point the polynomial that is zero at all others."""
        if self.stride > 1:
            return [
                _spread(row, phase, self.stride, self.size)
                for phase, axis in enumerate(self.phases)
                for row in axis.input_matrix
            ]
        if self.is_plain:
            return _identity(self.outputs)
        rows = [_with_roots([q for q in self.points if q != p], self.size) for p in self.points]
        return [*rows, _with_roots(self.points, self.size)]

    @cached_property
    def output_matrix(self) -> Matrix:
        """A^T [outputs][size]: powers of the points."""
        if self.stride > 1:
            sides = [axis.output_matrix for axis in self.phases]
            return [[c for side in sides for c in side[i]] for i in range(self.outputs)]
        if self.is_plain:
            return _identity(self.outputs)
        last = self.outputs - 1
        return [
            [*(p**i for p in self.points), Fraction(int(i == last))] for i in range(self.outputs)
        ]

    # -- code ------------------------------------------------------------------------------
    def transform(self, f: Function, d: Sequence[str], width: int) -> list[str]:
        """B^T d over vectors."""
        if self.stride > 1:
            return [
                value
                for phase, axis in enumerate(self.phases)
                for value in axis.transform(f, d[phase :: self.stride], width)
            ]
        if self.is_plain:
            return list(d)
        rows = self.input_matrix
        made = [_sum(f, rows[0], d, width)]
        for i, p in enumerate(self.pairs):
            # A factor over all points but p and -p, times x + p or x - p: x times it is shared.
            shared = _over_pair(rows[1 + 2 * i], p)
            low = _sum(f, shared, d[: len(shared)], width)
            high = _sum(f, shared, d[1 : len(shared) + 1], width)
            made.append(_sum(f, [p, _one], [low, high], width))
            made.append(_sum(f, [-p, _one], [low, high], width))
        made += [_sum(f, row, d, width) for row in rows[1 + 2 * len(self.pairs) :]]
        return made

    def gather(self, f: Function, products: Sequence[str], width: int) -> list[str]:
        """A^T of vectors of products."""
        if self.stride > 1:
            parts, at = [], 0
            for axis in self.phases:
                parts.append(axis.gather(f, products[at : at + axis.size], width))
                at += axis.size
            return [_sum(f, [_one] * len(parts), list(v), width) for v in zip(*parts, strict=True)]
        if self.is_plain:
            return list(products)
        sums, differences = [], []
        for i in range(len(self.pairs)):
            two = products[1 + 2 * i : 3 + 2 * i]
            sums.append(_sum(f, [_one, _one], two, width))
            differences.append(_sum(f, [_one, -_one], two, width))
        alone = products[1 + 2 * len(self.pairs) : -1]
        made = []
        for i in range(self.outputs):
            values = [*(differences if i % 2 else sums), *alone]
            factors = [p**i for p in (*self.pairs, *self.singles)]
            for wanted, value in ((0, products[0]), (self.outputs - 1, products[-1])):
                if i == wanted:
                    factors.append(_one)
                    values.append(value)
            made.append(_sum(f, factors, values, width))
        return made


def as_array(matrix: Matrix) -> Array:
    """The matrix in float64."""
    return np.array([[float(x) for x in row] for row in matrix])


def _identity(size: int) -> Matrix:
    return [[Fraction(int(i == j)) for j in range(size)] for i in range(size)]


def _spread(row: Sequence[Fraction], phase: int, stride: int, length: int) -> list[Fraction]:
    """The values of a row at every `stride`-th place from `phase`, zeros between."""
    made = [Fraction(0)] * length
    made[phase::stride] = row
    return made


def _with_roots(roots: Sequence[Fraction], length: int) -> list[Fraction]:
    """The coefficients, lowest first, of the product of all (x - root)."""
    made = [_one]
    for root in roots:
        shifted = [Fraction(0), *made]
        for k, c in enumerate(made):
            shifted[k] -= root * c
        made = shifted
    return made + [Fraction(0)] * (length - len(made))


def _over_pair(row: Sequence[Fraction], p: Fraction) -> list[Fraction]:
    """The polynomial `row`, which has the root -p, over x + p."""
    # From the lowest: row[k] = p * made[k] + made[k - 1].
    made: list[Fraction] = []
    for c in row[:-1]:
        made.append((c - (made[-1] if made else 0)) / p)
    while not made[-1]:
        made.pop()
    return made


def _sum(f: Function, factors: Sequence[Fraction], values: Sequence[str], width: int) -> str:
    """The sum of factors times values, those of factor 1 and -1 without a product."""
    kind = f"<{width} x float>"
    terms = [(c, v) for c, v in zip(factors, values, strict=True) if c]
    terms.sort(key=lambda term: (term[0] != 1, term[0] != -1))
    (factor, made), *rest = terms
    if factor != 1:
        made = f.value(f"fmul {kind} {made}, {constant(float(factor), width)}")
    for factor, value in rest:
        if abs(factor) == 1:
            made = f.value(f"{'fadd' if factor == 1 else 'fsub'} {kind} {made}, {value}")
        else:
            made = f.call("fmuladd", kind, value, constant(float(factor), width), made)
    return made
