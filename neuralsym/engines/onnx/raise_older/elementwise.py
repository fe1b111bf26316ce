"""Operators of single elements: old broadcasting, and number types that were taken away again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx.constants import ints
from neuralsym.engines.onnx.raise_older.old import Old


def broadcast(old: Old) -> Sequence[Symbol]:
    """The second input lines up with the first from `axis` on."""
    axis, wanted = old.take("axis"), old.take("broadcast", 0)
    a, b = old.input(0), old.input(1)
    if wanted and axis is not None:
        rank, short = old.rank(0), old.rank(1)
        behind = rank - axis % max(rank, 1) - short
        if behind > 0:
            b = old.op("Unsqueeze", b, ints(range(short, short + behind)))
    return old.again(a, b)


def slope(old: Old) -> Sequence[Symbol]:
    """A slope for each channel."""
    x, given = old.input(0), old.input(1)
    if given.rank == 1 and given.shape != (1,) and old.rank() > 2:
        given = old.op("Unsqueeze", given, ints(range(1, old.rank() - 1)))
    return old.again(x, given)


def gemm(old: Old) -> None:
    old.take("broadcast")


def in_float(old: Old) -> Sequence[Symbol] | None:
    """Integers were taken once: they are computed as real numbers and rounded towards zero."""
    x = old.input()
    if x.dtype.is_float:
        return None
    wide = old.cast(x, NumberType.FLOAT64)
    return [old.cast(old.again(wide, *old.inputs[1:])[0], x.dtype)]


def reduced_in_float(old: Old) -> Sequence[Symbol] | None:
    """`in_float` of a reduction, whose axes were an attribute before 18."""
    if old.version < 18:
        given = old.take("axes")
        old.inputs = (old.input(), *([] if given is None else [ints(given)]))
        return in_float(old) or old.again()
    return in_float(old)


def one_hot(old: Old) -> Sequence[Symbol]:
    """Before 11 a negative index was one of no class; onnxruntime counts it from the end there."""
    indices = old.cast(old.input(0), NumberType.INT64)
    depth = old.op("Reshape", old.cast(old.input(1), NumberType.INT64), ints([1]))
    none = old.op("Less", indices, constant(np.int64(0)))
    if indices.rank == 0:
        depth = old.op("Reshape", depth, ints([]))
    return old.again(old.op("Where", none, depth, indices), *old.inputs[1:])
