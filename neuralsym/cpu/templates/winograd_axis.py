"""The transforms of Winograd's (Toom and Cook's) minimal filtering along one axis.

    y = A^T [(G g) * (B^T d)]        d: m + r - 1 inputs, g: r taps, y: m outputs

As polynomials: the sums of a filter are a product of polynomials transposed, which is known from
its values at m + r - 2 points and at infinity (S. Winograd, Arithmetic Complexity of Computations,
1980). Which points are taken decides about the rounding error. The usual 0, +-1, +-2 of six lead to
four times the error of 0, +-5/8, +-3/2: among multiples of 1/8, whose powers are exact in float32,
these had the smallest. Points in pairs +-p share all their products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from neuralsym.cpu.ir import Function
from neuralsym.cpu.templates.epilogue import constant
from neuralsym.cpu.templates.layout import Array

Matrix = list[list[Fraction]]

PAIRS = {
    0: (),
    1: (Fraction(1),),
    2: (Fraction(5, 8), Fraction(3, 2)),
    3: (Fraction(1, 2), Fraction(1), Fraction(2)),
}
"""Positive points of so many pairs; 0 and infinity come with them."""


@dataclass(frozen=True)
class Axis:
    """One axis of a tile: `outputs` results of a filter of `taps`, with `size` products.

    The size is 2, 4, 6 or 8, so that the points are 0, infinity and pairs; or else one output of
    one tap, which is left as it is.
    """

    outputs: int
    taps: int

    @property
    def size(self) -> int:
        return self.outputs + self.taps - 1

    @cached_property
    def amplification(self) -> float:
        """How many times the sum of |g| |d| the sum of |A^T| |G g| |B^T d| is at most, for even
        taps and inputs: what the rounding errors of a direct sum are multiplied with."""
        g = np.abs(as_array(self.filter_matrix)).sum(1)
        d = np.abs(as_array(self.input_matrix)).sum(1)
        return float((np.abs(as_array(self.output_matrix)) @ (g * d)).max()) / self.taps

    @property
    def is_plain(self) -> bool:
        """Nothing to transform: one tap, one output."""
        return self.size == 1

    @cached_property
    def pairs(self) -> tuple[Fraction, ...]:
        return PAIRS[(self.size - 2) // 2]

    @cached_property
    def points(self) -> tuple[Fraction, ...]:
        """All finite points: 0, p, -p, q, -q ..."""
        return (Fraction(0), *(s * p for p in self.pairs for s in (1, -1)))

    # -- matrices --------------------------------------------------------------------------
    @cached_property
    def filter_matrix(self) -> Matrix:
        """G [size][taps]: the filter's polynomial at each point, over what B^T leaves out."""
        if self.is_plain:
            return [[Fraction(1)]]
        rows = []
        for p in self.points:
            scale = Fraction(1)
            for q in self.points:
                scale *= p - q if q != p else 1
            rows.append([p**k / scale for k in range(self.taps)])
        return [*rows, [Fraction(int(k == self.taps - 1)) for k in range(self.taps)]]

    @cached_property
    def input_matrix(self) -> Matrix:
        """B^T [size][size]: for each point the polynomial that is zero at all others."""
        if self.is_plain:
            return [[Fraction(1)]]
        rows = [_with_roots([q for q in self.points if q != p], self.size) for p in self.points]
        return [*rows, _with_roots(self.points, self.size)]

    @cached_property
    def output_matrix(self) -> Matrix:
        """A^T [outputs][size]: powers of the points."""
        if self.is_plain:
            return [[Fraction(1)]]
        last = self.outputs - 1
        return [
            [*(p**i for p in self.points), Fraction(int(i == last))] for i in range(self.outputs)
        ]

    # -- code ------------------------------------------------------------------------------
    def transform(self, f: Function, d: Sequence[str], width: int) -> list[str]:
        """B^T d over vectors."""
        if self.is_plain:
            return list(d)
        rows = self.input_matrix
        made = [_sum(f, rows[0], d, width)]
        for i, p in enumerate(self.pairs):
            # Of the rows of p and -p the even powers are the same, the odd ones opposite.
            row = rows[1 + 2 * i]
            even = [c if k % 2 == 0 else Fraction(0) for k, c in enumerate(row)]
            odd = [c / p if k % 2 else Fraction(0) for k, c in enumerate(row)]
            same, other = _sum(f, even, d, width), _sum(f, odd, d, width)
            made.append(_sum(f, [p, Fraction(1)], [other, same], width))
            made.append(_sum(f, [-p, Fraction(1)], [other, same], width))
        return [*made, _sum(f, rows[-1], d, width)]

    def gather(self, f: Function, products: Sequence[str], width: int) -> list[str]:
        """A^T of vectors of products."""
        if self.is_plain:
            return list(products)
        one = Fraction(1)
        sums, differences = [], []
        for i in range(len(self.pairs)):
            two = products[1 + 2 * i : 3 + 2 * i]
            sums.append(_sum(f, [one, one], two, width))
            differences.append(_sum(f, [one, -one], two, width))
        made = []
        for i in range(self.outputs):
            values = list(differences if i % 2 else sums)
            factors = [p**i for p in self.pairs]
            for wanted, value in ((0, products[0]), (self.outputs - 1, products[-1])):
                if i == wanted:
                    factors.append(one)
                    values.append(value)
            made.append(_sum(f, factors, values, width))
        return made


def as_array(matrix: Matrix) -> Array:
    """The matrix in float64."""
    return np.array([[float(x) for x in row] for row in matrix])


def _with_roots(roots: Sequence[Fraction], length: int) -> list[Fraction]:
    """The coefficients, lowest first, of the product of all (x - root)."""
    made = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *made]
        for k, c in enumerate(made):
            shifted[k] -= root * c
        made = shifted
    return made + [Fraction(0)] * (length - len(made))


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
