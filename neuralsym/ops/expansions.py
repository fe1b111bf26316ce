"""What the expansions of operators share: sizes as symbols, reshaping by them, number types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neuralsym.core import registry
from neuralsym.core.dim import Dim
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType

HALVES = (NumberType.FLOAT16, NumberType.BFLOAT16)


def whole(*numbers: int) -> Symbol:
    """A constant vector of int64."""
    return constant(np.array(numbers, np.int64))


def size_of(x: Symbol, axis: int) -> Symbol:
    """The size of one axis, int64[1]; `axis` counts from the front."""
    return sizes_of(x, axis, axis + 1)


def sizes_of(x: Symbol, start: int = 0, end: int | None = None) -> Symbol:
    """The sizes of the axes from `start` to before `end`, an int64 vector."""
    return registry.call("Shape", x, start=start, end=end)


def reshaped(x: Symbol, *parts: Symbol | int) -> Symbol:
    """x in the shape that the parts, vectors of sizes or single numbers, make one after another."""
    vectors = [whole(p) if isinstance(p, int) else p for p in parts]
    shape = vectors[0] if len(vectors) == 1 else registry.call("Concat", *vectors, axis=0)
    return registry.call("Reshape", x, shape, allowzero=1)


def converted(x: Symbol, dtype: NumberType) -> Symbol:
    """x as another number type; itself if it is of that type."""
    return x if x.dtype is dtype else registry.call("Cast", x, to=dtype.onnx)


def same_size(a: int | Dim | None, b: int | Dim | None) -> bool:
    """Whether two sizes are certainly equal."""
    return a is not None and a == b


def known_sizes(sizes: Sequence[int | Dim | None]) -> list[int] | None:
    """The sizes as plain numbers; None if one is symbolic or unknown."""
    return [s for s in sizes if isinstance(s, int)] if all(map(_plain, sizes)) else None


def _plain(size: int | Dim | None) -> bool:
    return isinstance(size, int)
