"""Layers that prepare data: scaling, standardising, sorting into bins, categories as vectors.

What Keras learns by `adapt` is given here, since a file of a network has nothing to adapt to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch, TypeMismatch, did_you_mean
from neuralsym.layers.base import require_between, require_shape
from neuralsym.layers.factory import layer
from neuralsym.layers.window import LARGEST_AXIS

Encoding = Literal["one_hot", "multi_hot", "count"]


def _numbers(given: Any, what: str) -> Any:
    """An array of finite numbers, or BadAttribute."""
    try:
        made = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        made = None
    if made is None or not np.isfinite(made).all():
        raise BadAttribute(f"{what}={given!r}: numbers are needed")
    return made


@layer
def rescaling(
    x: Symbol,
    scale: float | Sequence[float],
    offset: float | Sequence[float] = 0.0,
    *,
    name: str | None = None,
) -> Symbol:
    """x * scale + offset, of any shape.

    scale, offset: a number, or one for each channel (axis 1). BadAttribute for what is neither,
    ShapeMismatch where there are not as many as channels.

    Keras Rescaling; ONNX Mul, Add.
    """
    factors, added = (
        _channels(x, _numbers(v, what)) for v, what in ((scale, "scale"), (offset, "offset"))
    )
    y = x * factors
    return y + added if np.any(_numbers(offset, "offset")) else y


def _channels(x: Symbol, values: Any) -> Symbol:
    """A scalar, or one number a channel, in the shape that broadcasts over x."""
    if values.ndim == 0:
        return constant(values, str(x.dtype))
    shape = require_shape(x)
    if values.ndim != 1 or len(shape) < 2 or shape[1] not in (len(values), None):
        raise ShapeMismatch(
            f"numbers of shape {list(values.shape)} do not fit the channels (axis 1) of {x.type}"
        )
    return constant(values.reshape(-1, *(1,) * (len(shape) - 2)), str(x.dtype))


@layer
def normalization(
    x: Symbol,
    mean: ArrayLike,
    variance: ArrayLike,
    axis: int | Sequence[int] | None = 1,
    invert: bool = False,
    *,
    name: str | None = None,
) -> Symbol:
    """(x - mean) / max(sqrt(variance), 1e-7), by statistics that are given; x keeps its shape.

    axis: those that mean and variance have numbers for, the channels (1) unless given (Keras: the
    last); None for a single number each. invert: the way back. For batch normalisation, whose
    statistics are weights, write `normalisation` or `batch_norm`. BadAttribute for an axis that is
    not there and a negative variance, ShapeMismatch where the numbers do not fit these axes.

    Keras Normalization; ONNX Sub, Div, or Mul, Add for invert.
    """
    shape = require_shape(x)
    given = [] if axis is None else np.atleast_1d(axis).tolist()
    if any(not -len(shape) <= a < len(shape) for a in given):
        raise BadAttribute(f"axis={axis!r}: {x.type} has no such axis")
    axes = sorted({a % len(shape) for a in given})
    kept = [shape[a] if a in axes else 1 for a in range(len(shape))]
    values = []
    for what, numbers in (("mean", mean), ("variance", variance)):
        made = _numbers(numbers, what)
        count = [n for n in kept if n != 1]
        if made.ndim and (
            not all(isinstance(n, int) for n in count)
            or made.size != int(np.prod([int(n) for n in count], dtype=np.int64))
        ):
            raise ShapeMismatch(
                f"{what} of shape {list(made.shape)} does not fit the axes {axes} of {x.type}"
            )
        values.append(made.reshape(kept) if made.ndim else made)
    if (values[1] < 0).any():
        raise BadAttribute("variance: must not be negative")
    centre = constant(values[0], str(x.dtype))
    spread = constant(np.maximum(np.sqrt(values[1]), 1e-7), str(x.dtype))
    return centre + x * spread if invert else (x - centre) / spread


# -- categories --------------------------------------------------------------------------------
def encoded(x: Symbol, depth: int, output_mode: str) -> Symbol:
    """Integers [..., k] as vectors over `depth` categories; ones that are none give zeros."""
    shape = require_shape(x)
    if output_mode == "one_hot" and len(shape) > 1 and shape[-1] == 1:
        x = ops.squeeze(x, [-1])
    whole = ops.cast(x, to="int64")
    # ONNX's OneHot takes -1 as the last category: a comparison does not.
    hot = ops.equal(ops.unsqueeze(whole, [-1]), np.arange(depth, dtype=np.int64))
    vectors = ops.cast(hot, to="float32")
    if output_mode == "one_hot":
        return vectors
    reduce = ops.reduce_max if output_mode == "multi_hot" else ops.reduce_sum
    return reduce(vectors, [-2], keepdims=0)


def check_mode(output_mode: str, known: Sequence[str]) -> None:
    if output_mode not in known:
        hint = did_you_mean(str(output_mode), known)
        raise BadAttribute(f"output_mode={output_mode!r}{hint}; known: {', '.join(known)}")


@layer
def category_encoding(
    x: Symbol, num_tokens: int, output_mode: Encoding = "multi_hot", *, name: str | None = None
) -> Symbol:
    """Integers below num_tokens as float32 vectors, [..., k] -> [..., num_tokens].

    output_mode: "multi_hot", 1 where the category occurs among the k; "count", how often it does;
    "one_hot", a vector for each integer, [..., k] -> [..., k, num_tokens] (a last axis of size 1
    goes, as in Keras). Integers out of range give zeros. BadAttribute for num_tokens below 1 and
    an unknown output_mode, ShapeMismatch for a scalar.

    Keras CategoryEncoding; torch one_hot (a function); ONNX Equal, Cast, ReduceMax or ReduceSum.
    """
    require_between("num_tokens", num_tokens, 1, LARGEST_AXIS)
    check_mode(output_mode, ("multi_hot", "one_hot", "count"))
    if not require_shape(x):
        raise ShapeMismatch(f"takes a batch of integers, came {x.type}")
    if not (x.dtype.is_integer or x.dtype.is_float):
        raise TypeMismatch(f"takes integers, came {x.type}")
    return encoded(x, num_tokens, output_mode)


@layer
def discretization(
    x: Symbol,
    bin_boundaries: Sequence[float],
    output_mode: Literal["int", "one_hot", "multi_hot", "count"] = "int",
    *,
    name: str | None = None,
) -> Symbol:
    """The number of the bin that each element falls into: how many boundaries are not above it.

    bin_boundaries: rising numbers; n of them make n + 1 bins. output_mode: "int", int64 of x's
    shape; else as in category_encoding, over n + 1 categories. BadAttribute for boundaries that
    do not rise and an unknown output_mode.

    Keras Discretization; torch bucketize (a function, right=True); ONNX GreaterOrEqual, ReduceSum.
    """
    edges = _numbers(bin_boundaries, "bin_boundaries")
    if edges.ndim != 1 or not len(edges) or (np.diff(edges) < 0).any():
        raise BadAttribute(f"bin_boundaries={bin_boundaries!r}: rising numbers, at least one")
    check_mode(output_mode, ("int", "one_hot", "multi_hot", "count"))
    number = x if x.dtype.is_float else ops.cast(x, to="float32")
    above = ops.unsqueeze(number, [-1]) >= constant(edges, str(number.dtype))
    bins = ops.reduce_sum(ops.cast(above, to="int64"), [-1], keepdims=0)
    if output_mode == "int":
        return bins
    if not require_shape(x):
        raise ShapeMismatch(f"output_mode={output_mode!r} takes a batch, came {x.type}")
    return encoded(bins, len(edges) + 1, output_mode)
