"""Layers that compare two symbols: products summed over axes, cosines, distances, bilinear forms.

All take exactly two symbols, `(a, b) | dot(axes=1)`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.activation import Activation, activate
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer, plain_layer
from neuralsym.layers.initializers import fans
from neuralsym.layers.merge import pair
from neuralsym.layers.weights import Init, bias_weight, weight


@layer
def dot(
    xs: Sequence[Symbol],
    axes: int | Sequence[int],
    normalize: bool = False,
    *,
    name: str | None = None,
) -> Symbol:
    """The product of two batches summed over one axis of each.

    axes: that axis of both, or one for each, counted with the batch: [N, a, k] and [N, b, k] with
    axes=2 give [N, a, b]. Two matrices give [N, 1]. normalize: divide by the lengths first, which
    gives cosines. BadAttribute for an axis that is not there or the batch, ShapeMismatch where the
    two axes differ in size.

    Keras Dot; Owl dot; ONNX MatMul or Mul and ReduceSum, Einsum for more axes, LpNormalization.
    """
    a, b = pair(xs)
    given = np.atleast_1d(axes).tolist()
    given = given * 2 if len(given) == 1 else given
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
    sizes = [require_shape(x)[place] for x, place in zip((a, b), places, strict=True)]
    if all(isinstance(n, int) for n in sizes) and sizes[0] != sizes[1]:
        raise ShapeMismatch(
            f"axes={axes!r}: {sizes[0]} and {sizes[1]} elements cannot be multiplied, came "
            f"{a.type} and {b.type}"
        )
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


def _axis(a: Symbol, b: Symbol, axis: int) -> int:
    """The axis counted from the end, so that it is the same in a broadcast pair."""
    rank = max(len(require_shape(a)), len(require_shape(b)))
    if not -rank <= axis < rank:
        raise BadAttribute(f"axis={axis}: {a.type} and {b.type} have no axis {axis}")
    return axis % rank - rank


@plain_layer
def cosine_similarity(
    xs: Sequence[Symbol], axis: int = 1, epsilon: float = 1e-8, *, name: str | None = None
) -> Symbol:
    """The cosine of the angle between two symbols along one axis, which goes; they broadcast.

    Each length counts as epsilon where it is below. BadAttribute for an axis that is not there or
    another number of symbols, ShapeMismatch where the shapes do not fit.

    torch CosineSimilarity; ONNX Mul, ReduceSum, ReduceL2, Max, Div.
    """
    a, b = pair(xs)
    axis = _axis(a, b, axis)
    products = a * b
    for x in (a, b):
        if len(require_shape(x)) < -axis:
            raise ShapeMismatch(f"{x.type} has no axis {axis}, along which the angle is asked")
    top = ops.reduce_sum(products, [axis], keepdims=0)
    lengths = [ops.max([ops.reduce_l2(x, [axis], keepdims=0), epsilon]) for x in (a, b)]
    return top / (lengths[0] * lengths[1])


@plain_layer
def pairwise_distance(
    xs: Sequence[Symbol],
    p: float = 2.0,
    epsilon: float = 1e-6,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Symbol:
    """The Lp norm of a - b + epsilon along the last axis, which goes unless keepdims is given.

    p: infinity is the largest difference. BadAttribute for a p that is not positive or another
    number of symbols, ShapeMismatch where the shapes do not broadcast.

    torch PairwiseDistance; ONNX Sub, Add, then ReduceL2, ReduceL1, ReduceMax, or Pow and ReduceSum.
    """
    a, b = pair(xs)
    if not p > 0:
        raise BadAttribute(f"p={p}: must be positive")
    apart = a - b + epsilon
    if not require_shape(apart):
        raise ShapeMismatch(f"takes vectors along the last axis, came {a.type} and {b.type}")
    keep = int(keepdims)
    if p in (1, 2):
        return (ops.reduce_l1 if p == 1 else ops.reduce_l2)(apart, [-1], keepdims=keep)
    if p == float("inf"):
        return ops.reduce_max(ops.abs(apart), [-1], keepdims=keep)
    sums = ops.reduce_sum(ops.pow(ops.abs(apart), float(p)), [-1], keepdims=keep)
    return ops.pow(sums, 1.0 / p)


@layer
def bilinear(
    xs: Sequence[Symbol],
    units: int,
    *,
    activation: Activation = None,
    use_bias: bool = True,
    kernel_initializer: Init = "standard",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """A form in two symbols, [..., m] and [..., n] -> [..., units]: sum of a_i * kernel_kij * b_j.

    The sizes before the last must be equal. Weights: kernel [units, m, n] and bias [units] unless
    use_bias is off. BadAttribute for units below 1 or another number of symbols, ShapeMismatch for
    shapes that do not fit or an open last size.

    torch Bilinear; ONNX Einsum, Add.
    """
    a, b = pair(xs)
    if units < 1:
        raise BadAttribute(f"units={units}: must be at least 1")
    first, second = (require_shape(x, axis=-1) for x in (a, b))
    if len(first) != len(second):
        raise ShapeMismatch(f"takes two symbols of one rank, came {a.type} and {b.type}")
    for n, m in zip(first[:-1], second[:-1], strict=True):
        if isinstance(n, int) and isinstance(m, int) and n != m:
            raise ShapeMismatch(
                f"the sizes before the last must be equal, came {a.type} and {b.type}"
            )
    shape = (units, int(first[-1]), int(second[-1]))
    spread = fans((shape[1], units), "dense")  # torch's bound is that of the first input alone
    w = weight("kernel", shape, kernel_initializer, fans=spread, dtype=a.dtype)
    outer = "abcdefgh"[: len(first) - 1]
    y = ops.einsum((a, w, b), f"{outer}x,zxy,{outer}y->{outer}z")
    bias = bias_weight(a, units, use_bias, bias_initializer)
    y = y if bias is None else y + bias
    return activate(y, activation)
