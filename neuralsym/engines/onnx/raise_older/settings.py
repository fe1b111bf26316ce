"""Settings that were attributes and became inputs, or that had no default yet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx.constants import ints, like
from neuralsym.engines.onnx.raise_older.old import Old


def axes(old: Old) -> Sequence[Symbol]:
    given = old.take("axes")
    return old.again(old.input(), *([] if given is None else [ints(given)]))


def bounds(old: Old) -> Sequence[Symbol]:
    """A missing bound is the end of the numbers, infinity included, as the text of 6 has it.

    The attribute's default there is float32's largest number, which bounds no float64.
    """
    x = old.input()
    low, high = old.take("min"), old.take("max")
    return old.again(x, *(None if bound is None else like(x, bound) for bound in (low, high)))


def pads(old: Old) -> Sequence[Symbol]:
    given = old.take("pads", old.attrs.get("paddings"))
    old.take("paddings")
    if given is None:
        old.refuse("it has no pads")
    return old.again(old.input(), ints(given), like(old.input(), old.take("value", 0.0)))


def reshape(old: Old) -> Sequence[Symbol]:
    return old.again(old.input(), ints(old.take("shape", ())))


def slices(old: Old) -> Sequence[Symbol]:
    starts, ends, given = old.take("starts"), old.take("ends"), old.take("axes")
    rows = [starts, ends] if given is None else [starts, ends, given]
    return old.again(old.input(), *map(ints, rows))


def split(old: Old) -> Sequence[Symbol]:
    """Version 1 took the sizes as an attribute or as an input of the data's own type."""
    sizes = old.take("split")
    old.attrs.setdefault("axis", 0)
    if sizes is not None:
        return old.again(old.input(), ints(sizes))
    if old.has(1):
        return old.again(old.input(), old.cast(old.input(1), NumberType.INT64))
    old.attrs["num_outputs"] = old.count
    return old.again()


def top(old: Old) -> Sequence[Symbol]:
    return old.again(old.input(), ints([old.take("k")]))


def dft(old: Old) -> Sequence[Symbol]:
    length = old.inputs[1] if len(old.inputs) > 1 else None
    return old.again(old.input(), length, constant(np.int64(old.take("axis", 1))))


def tile(old: Old) -> Sequence[Symbol]:
    """Version 1 repeats along one axis; both numbers are inputs of the data's own type."""
    x, rank = old.input(0), old.rank(0)
    times, axis = (
        old.op("Reshape", old.cast(old.input(i), NumberType.INT64), ints([1])) for i in (1, 2)
    )
    chosen = old.op("Equal", ints(range(rank)), axis)
    return old.again(x, old.op("Where", chosen, times, ints([1])))


def cast(old: Old) -> None:
    """Version 1 named the type.

    The table of 19 to 23 has NaN for infinity in the narrow types without one; 24 set it right to
    the largest number, which is what every runtime makes of it.
    """
    to = old.attrs.get("to")
    if isinstance(to, str):
        old.attrs["to"] = int(TensorProto.DataType.Value(to.upper()))


def concat(old: Old) -> None:
    old.attrs.setdefault("axis", 1)
