"""Layers that join several symbols: `(a, b) | add()`, `x | fork(f, g) | concat()`.

Elementwise ones broadcast as numpy does. Two symbols may also be joined by `a + b`, `a * b` and
the other operators.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer, plain_layer


def _several(xs: Sequence[Symbol], least: int = 2) -> list[Symbol]:
    if len(xs) < least:
        raise BadAttribute(f"joins at least {least} symbols, {len(xs)} came")
    return list(xs)


def _pair(xs: Sequence[Symbol]) -> tuple[Symbol, Symbol]:
    if len(xs) != 2:
        raise BadAttribute(f"takes exactly 2 symbols, {len(xs)} came")
    return xs[0], xs[1]


@plain_layer
def add(xs: Sequence[Symbol], *, name: str | None = None) -> Symbol:
    """The sum. Keras Add; ONNX Add of two, Sum of more."""
    given = _several(xs)
    return given[0] + given[1] if len(given) == 2 else ops.sum(given)


@plain_layer
def subtract(xs: Sequence[Symbol], *, name: str | None = None) -> Symbol:
    """The first less the second; exactly two. Keras Subtract; ONNX Sub."""
    a, b = _pair(xs)
    return a - b


@plain_layer
def multiply(xs: Sequence[Symbol], *, name: str | None = None) -> Symbol:
    """The product. Keras Multiply; ONNX Mul, one less than there are symbols."""
    y, *others = _several(xs)
    for x in others:
        y = y * x
    return y


@plain_layer
def average(xs: Sequence[Symbol], *, name: str | None = None) -> Symbol:
    """The mean, element by element. Keras Average; ONNX Mean."""
    return ops.mean(_several(xs))


@plain_layer
def maximum(xs: Sequence[Symbol], *, name: str | None = None) -> Symbol:
    """The largest, element by element. Keras Maximum; ONNX Max."""
    return ops.max(_several(xs))


@plain_layer
def minimum(xs: Sequence[Symbol], *, name: str | None = None) -> Symbol:
    """The smallest, element by element. Keras Minimum; ONNX Min."""
    return ops.min(_several(xs))


@plain_layer
def concat(xs: Sequence[Symbol], axis: int = 1, *, name: str | None = None) -> Symbol:
    """The symbols joined along an axis, the channels (1) by default; also called concatenate.

    All other sizes must be equal: ShapeMismatch otherwise. Keras Concatenate (default axis -1),
    torch cat; ONNX Concat.
    """
    return ops.concat(_several(xs, 1), axis=axis)


concatenate = concat


@layer
def dot(
    xs: Sequence[Symbol],
    axes: int | Sequence[int],
    normalize: bool = False,
    *,
    name: str | None = None,
) -> Symbol:
    """The product of two batches summed over one axis of each: Keras Dot.

    axes: that axis of both, or one for each, counted with the batch: [N, a, k] and [N, b, k] with
    axes=2 give [N, a, b]. Two matrices give [N, 1]. normalize: divide by the lengths first, which
    gives cosines (ONNX LpNormalization). ONNX Einsum, or MatMul where it says the same.
    """
    a, b = _pair(xs)
    given = (axes, axes) if isinstance(axes, int) else tuple(axes)
    if len(given) != 2:
        raise BadAttribute(f"axes={axes!r}: an integer or two are needed")
    places = []
    for x, axis in zip((a, b), given, strict=True):
        rank = len(require_shape(x))
        if rank < 2:
            raise ShapeMismatch(f"takes batches of values, came {x.type}")
        if not -rank <= axis < rank or axis % rank == 0:
            raise BadAttribute(f"axes={axes!r}: {x.type} has no axis {axis} besides the batch")
        places.append(axis % rank)
    if normalize:
        a = ops.lp_normalization(a, axis=places[0], p=2)
        b = ops.lp_normalization(b, axis=places[1], p=2)
    if a.rank == b.rank == 3:
        left = a if places[0] == 2 else ops.transpose(a, perm=(0, 2, 1))
        right = b if places[1] == 1 else ops.transpose(b, perm=(0, 2, 1))
        return left @ right
    if a.rank == b.rank == 2:
        return ops.reduce_sum(a * b, [1], keepdims=1)
    return ops.einsum((a, b), _equation(len(require_shape(a)), len(require_shape(b)), places))


def _equation(first: int, second: int, places: Sequence[int]) -> str:
    letters = iter("bcdefghijklmnopqrstuvwxyz")
    words, kept = [], ["a"]
    shared = "A"
    for rank, place in ((first, places[0]), (second, places[1])):
        word = ["a"]
        for axis in range(1, rank):
            word.append(shared if axis == place else next(letters))
        kept += [c for c in word[1:] if c != shared]
        words.append("".join(word))
    return f"{words[0]},{words[1]}->{''.join(kept)}"
