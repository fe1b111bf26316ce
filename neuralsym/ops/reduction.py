"""Reductions over axes, and running sums along one."""

from __future__ import annotations

from neuralsym.core.op import Op


class ReduceSum(Op):
    """Sum over axes."""


class ReduceMean(Op):
    """Mean over axes."""


class ReduceMax(Op):
    """Largest element over axes."""


class ReduceMin(Op):
    """Smallest element over axes."""


class ReduceProd(Op):
    """Product over axes."""


class ReduceL1(Op):
    """Sum of absolute values over axes."""


class ReduceL2(Op):
    """Square root of the sum of squares over axes."""


class ReduceLogSum(Op):
    """Logarithm of the sum over axes."""


class ReduceLogSumExp(Op):
    """Logarithm of the sum of exponentials over axes."""


class ReduceSumSquare(Op):
    """Sum of squares over axes."""


class ArgMax(Op):
    """Where the largest element along an axis is."""


class ArgMin(Op):
    """Where the smallest element along an axis is."""


class CumSum(Op):
    """Running sum along an axis."""


class CumProd(Op):
    """Running product along an axis."""
