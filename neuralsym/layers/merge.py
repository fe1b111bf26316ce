"""Layers that join several symbols: `(a, b) | add()`, `x | fork(f, g) | concat()`.

Elementwise ones broadcast as numpy does. Two symbols may also be joined by `a + b`, `a * b` and
the other operators.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.factory import plain_layer


def _several(xs: Sequence[Symbol], least: int = 2) -> list[Symbol]:
    if len(xs) < least:
        raise BadAttribute(f"joins at least {least} symbols, {len(xs)} came")
    return list(xs)


def pair(xs: Sequence[Symbol]) -> tuple[Symbol, Symbol]:
    """The two symbols of a layer that takes two; BadAttribute for another number."""
    if len(xs) != 2:
        raise BadAttribute(f"takes exactly 2 symbols, {len(xs)} came")
    return xs[0], xs[1]


@plain_layer
def add(xs: Sequence[Symbol], *, name: str | None = None) -> Symbol:
    """The sum, element by element.

    The shapes broadcast as numpy's do, unequal ranks too. BadAttribute for less than two symbols,
    ShapeMismatch for shapes that do not broadcast, TypeMismatch for unequal types.

    Keras Add; Owl add; ONNX Add of two, Sum of more.
    """
    given = _several(xs)
    return given[0] + given[1] if len(given) == 2 else ops.sum(given)


@plain_layer
def subtract(xs: Sequence[Symbol], *, name: str | None = None) -> Symbol:
    """The first less the second; exactly two.

    Errors are those of add.

    Keras Subtract; ONNX Sub.
    """
    a, b = pair(xs)
    return a - b


@plain_layer
def multiply(xs: Sequence[Symbol], *, name: str | None = None) -> Symbol:
    """The product, element by element.

    Errors are those of add.

    Keras Multiply; Owl mul; ONNX Mul, one less than there are symbols.
    """
    y, *others = _several(xs)
    for x in others:
        y = y * x
    return y


@plain_layer
def average(xs: Sequence[Symbol], *, name: str | None = None) -> Symbol:
    """The mean, element by element.

    Errors are those of add.

    Keras Average; Owl average; ONNX Mean.
    """
    return ops.mean(_several(xs))


@plain_layer
def maximum(xs: Sequence[Symbol], *, name: str | None = None) -> Symbol:
    """The largest, element by element.

    Errors are those of add.

    Keras Maximum; Owl max; ONNX Max.
    """
    return ops.max(_several(xs))


@plain_layer
def minimum(xs: Sequence[Symbol], *, name: str | None = None) -> Symbol:
    """The smallest, element by element.

    Errors are those of add.

    Keras Minimum; ONNX Min.
    """
    return ops.min(_several(xs))


@plain_layer
def concat(xs: Sequence[Symbol], axis: int = 1, *, name: str | None = None) -> Symbol:
    """The symbols joined along an axis, the channels (1) by default; also called concatenate.

    All other sizes must be equal: ShapeMismatch otherwise.

    Keras Concatenate (default axis -1); torch cat (a function); Owl concatenate; ONNX Concat.
    """
    return ops.concat(_several(xs, 1), axis=axis)


concatenate = concat
