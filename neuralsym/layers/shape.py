"""Layers that give the same values another shape.

As in Keras, the shapes in their settings leave out the batch axis, which stays as it is; `flatten`
and `unflatten` count the axes as torch does, the batch being 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import Size
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer, plain_layer


@plain_layer
def flatten(x: Symbol, start_dim: int = 1, end_dim: int = -1, *, name: str | None = None) -> Symbol:
    """The axes from start_dim to end_dim as one: [N, ...] -> [N, all others] by default.

    Raises BadAttribute for axes that are not there or not in order, ShapeMismatch where an open
    size behind end_dim leaves more than one size to be worked out.

    Keras Flatten; torch Flatten; Owl flatten; ONNX Flatten, or Reshape for other axes.
    """
    shape = require_shape(x)
    rank = len(shape)
    if not rank:
        raise ShapeMismatch(f"flattens a batch, came {x.type}; is the batch axis missing?")
    for axis in (start_dim, end_dim):
        if not -rank <= axis < rank and not (rank == 1 and axis == 1):
            raise BadAttribute(
                f"start_dim={start_dim}, end_dim={end_dim}: {x.type} has no axis {axis}"
            )
    first, last = start_dim % rank if start_dim < rank else start_dim, end_dim % rank
    if first == 1 and last == rank - 1:
        return ops.flatten(x, axis=1)
    if first > last:
        raise BadAttribute(f"start_dim={start_dim} lies behind end_dim={end_dim} of {x.type}")
    return x if first == last else _reshaped(x, first, last, [-1])


def _reshaped(x: Symbol, first: int, last: int, sizes: Sequence[int]) -> Symbol:
    """x with its axes first to last as these sizes, one of which may be -1."""
    shape = require_shape(x)
    inner, behind = shape[first : last + 1], shape[last + 1 :]
    made: list[Size] = list(sizes)
    if -1 in made and all(isinstance(n, int) for n in inner):
        rest = int(np.prod([n for n in sizes if n != -1]))
        made[made.index(-1)] = int(np.prod([int(n) for n in inner])) // max(rest, 1)
    asked: list[int] = [0] * first
    for size in (*made, *behind):
        asked.append(size if isinstance(size, int) else -1)
    if asked.count(-1) > 1:
        raise ShapeMismatch(
            f"more than one size of {x.type} would have to be worked out; give input() the sizes "
            f"behind axis {last}"
        )
    return ops.reshape(x, asked)


@layer
def unflatten(
    x: Symbol, dim: int, unflattened_size: Sequence[int], *, name: str | None = None
) -> Symbol:
    """The axis `dim` as several: [N, 6] -> [N, 2, 3] by unflatten(1, (2, 3)).

    One of unflattened_size may be -1, to be worked out. Raises BadAttribute for an axis that is
    not there and for sizes that are neither positive nor the one -1, ShapeMismatch where they do
    not hold the elements of the axis.

    torch Unflatten; ONNX Reshape.
    """
    shape = require_shape(x)
    if not -len(shape) <= dim < len(shape):
        raise BadAttribute(f"dim={dim}: {x.type} has no axis {dim}")
    axis, sizes = dim % len(shape), [int(n) for n in unflattened_size]
    if not sizes or any(n < 1 and n != -1 for n in sizes) or sizes.count(-1) > 1:
        raise BadAttribute(
            f"unflattened_size={unflattened_size!r}: positive sizes, at most one of them -1"
        )
    size, rest = shape[axis], int(np.prod([n for n in sizes if n != -1]))
    if isinstance(size, int) and (size % rest if -1 in sizes else size != rest):
        raise ShapeMismatch(
            f"unflattened_size={tuple(sizes)} does not hold the {size} of axis {axis} of {x.type}"
        )
    return _reshaped(x, axis, axis, sizes)


@layer
def reshape(x: Symbol, target_shape: Sequence[int], *, name: str | None = None) -> Symbol:
    """[N, ...] -> [N, *target_shape]; one size may be -1, to be worked out.

    The batch is left out of target_shape. Raises ShapeMismatch where the number of elements
    differs, BadAttribute for a size that is neither positive nor the one -1.

    Keras Reshape; torch Unflatten; Owl reshape; ONNX Reshape.
    """
    sizes = [int(n) for n in target_shape]
    if any(n < -1 or n == 0 for n in sizes) or sizes.count(-1) > 1:
        raise BadAttribute(f"target_shape={target_shape!r}: positive sizes, at most one of them -1")
    shape = require_shape(x)
    inner = shape[1:]
    if all(isinstance(n, int) for n in inner):
        count, wanted = int(np.prod(inner)), int(np.prod([n for n in sizes if n != -1]))
        if (count % wanted if -1 in sizes else count != wanted) or not shape:
            raise ShapeMismatch(
                f"target_shape={tuple(sizes)} does not hold the {count} elements that each entry "
                f"of {x.type} has (the batch axis is left out of target_shape)"
            )
        if -1 in sizes:
            sizes[sizes.index(-1)] = count // wanted
    return ops.reshape(x, [0, *sizes])


@layer
def permute(x: Symbol, dims: Sequence[int], *, name: str | None = None) -> Symbol:
    """The axes after the batch in another order, counted from 1: permute((2, 1)) swaps two.

    Raises BadAttribute unless each of these axes is named once.

    Keras Permute; torch Tensor.permute (which counts the batch); ONNX Transpose.
    """
    rank = len(require_shape(x))
    if sorted(dims) != list(range(1, rank)):
        raise BadAttribute(
            f"dims={dims!r}: each of the axes 1 to {rank - 1} of {x.type} once (0 is the batch)"
        )
    return ops.transpose(x, perm=(0, *dims))


@layer
def repeat_vector(x: Symbol, n: int, *, name: str | None = None) -> Symbol:
    """[N, features] -> [N, n, features], the same vector n times.

    Raises ShapeMismatch for an input of another rank, BadAttribute for n below 1.

    Keras RepeatVector; ONNX Unsqueeze and Expand.
    """
    require_shape(x, 2)
    if n < 1:
        raise BadAttribute(f"n={n}: must be at least 1")
    return ops.expand(ops.unsqueeze(x, [1]), [1, n, 1])
