"""Max pooling that says where each largest element was, and its way back.

`y, places = x | max_pool2d_with_indices(2)`, then `(y, places) | max_unpool2d(2)`. Inputs are
[batch, channels, *space].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import plain_layer
from neuralsym.layers.pool import pool_window
from neuralsym.layers.window import Padding, Sizes, axis_pairs, axis_sizes


def _with_indices(x: Symbol, window: dict[str, Any]) -> tuple[Symbol, Symbol]:
    y, places = ops.max_pool(x, outputs=2, **window)
    return y, places


@plain_layer
def max_pool1d_with_indices(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    dilation_rate: Sizes = 1,
    ceil_mode: bool = False,
    name: str | None = None,
) -> tuple[Symbol, Symbol]:
    """max_pool1d of [N, C, W], and where in x each largest element was: two [N, C, W'].

    See max_pool2d_with_indices.

    torch MaxPool1d with return_indices; ONNX MaxPool with two outputs.
    """
    window = pool_window(x, 1, pool_size, strides, padding, ceil_mode, dilation_rate)
    return _with_indices(x, window)


@plain_layer
def max_pool2d_with_indices(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    dilation_rate: Sizes = 1,
    ceil_mode: bool = False,
    name: str | None = None,
) -> tuple[Symbol, Symbol]:
    """max_pool2d of [N, C, H, W], and where in x each largest element was: two [N, C, H', W'].

    The indices are int64 and count, as ONNX does, through the whole of x; torch counts within one
    channel of one entry. Settings and errors are those of max_pool2d.

    torch MaxPool2d with return_indices; ONNX MaxPool with two outputs.
    """
    window = pool_window(x, 2, pool_size, strides, padding, ceil_mode, dilation_rate)
    return _with_indices(x, window)


@plain_layer
def max_pool3d_with_indices(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    dilation_rate: Sizes = 1,
    ceil_mode: bool = False,
    name: str | None = None,
) -> tuple[Symbol, Symbol]:
    """max_pool3d of [N, C, D, H, W], and where in x each largest element was: two results.

    See max_pool2d_with_indices.

    torch MaxPool3d with return_indices; ONNX MaxPool with two outputs.
    """
    window = pool_window(x, 3, pool_size, strides, padding, ceil_mode, dilation_rate)
    return _with_indices(x, window)


def _unpool(
    xs: Sequence[Symbol],
    rank: int,
    pool_size: Sizes,
    strides: Sizes | None,
    padding: Sizes | Sequence[Sequence[int]],
    output_size: Sizes | None,
) -> Symbol:
    if len(xs) != 2:
        raise BadAttribute(f"takes what a pool gave and its indices, {len(xs)} symbols came")
    x, places = xs
    shape = require_shape(x, rank + 2)
    kernel = axis_sizes(pool_size, rank, "pool_size")
    steps = kernel if strides is None else axis_sizes(strides, rank, "strides")
    pairs = axis_pairs(padding, rank, "padding")
    usual = [
        (n - 1) * s + k - sum(pair) if isinstance(n, int) else n
        for n, s, k, pair in zip(shape[2:], steps, kernel, pairs, strict=True)
    ]
    wanted = usual if output_size is None else list(axis_sizes(output_size, rank, "output_size"))
    _check_source(places, wanted)
    if wanted != usual:
        return _scattered(x, places, [int(n) for n in wanted])
    pads = (*(p[0] for p in pairs), *(p[1] for p in pairs))
    return ops.max_unpool(x, places, kernel_shape=kernel, strides=steps, pads=pads)


def _check_source(places: Symbol, wanted: Sequence[Any]) -> None:
    """The indices of a pool over another size would put elements at wrong places."""
    if places.op_type != "MaxPool":
        return
    source = places.inputs[0]
    assert source is not None
    sizes = require_shape(source)[2:]
    for n, m in zip(sizes, wanted, strict=True):
        if isinstance(n, int) and isinstance(m, int) and n != m:
            raise ShapeMismatch(
                f"the indices come from {source.type}, but space would be {tuple(wanted)}: say "
                f"output_size={tuple(sizes)}"
            )


def _scattered(x: Symbol, places: Symbol, sizes: list[int]) -> Symbol:
    """Zeros of these spatial sizes with each element at its index: no rule of strides is asked."""
    channels = int(require_shape(x, axis=1)[1])
    batch = ops.slice(ops.shape(x), [0], [1])
    count = batch * math.prod([channels, *sizes])
    zeros = ops.cast(ops.constant_of_shape(count), to=x.dtype)
    y = ops.scatter_elements(zeros, ops.reshape(places, [-1]), ops.reshape(x, [-1]), axis=0)
    entries = require_shape(x)[0]
    return ops.reshape(y, [entries if isinstance(entries, int) else -1, channels, *sizes])


@plain_layer
def max_unpool1d(
    xs: Sequence[Symbol],
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Sizes | Sequence[Sequence[int]] = 0,
    output_size: Sizes | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """Zeros, with what a max pool gave put back where it was; see max_unpool2d.

    torch MaxUnpool1d; ONNX MaxUnpool, or ScatterElements for another output_size.
    """
    return _unpool(xs, 1, pool_size, strides, padding, output_size)


@plain_layer
def max_unpool2d(
    xs: Sequence[Symbol],
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Sizes | Sequence[Sequence[int]] = 0,
    output_size: Sizes | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """Zeros, with what a max pool gave put back where it was: two [N, C, H', W'] -> [N, C, H, W].

    Takes the two results of max_pool2d_with_indices with its pool_size, strides and padding (a
    number, or as in conv2d, but no name). output_size: the size of the pool's input, where
    (H' - 1) * stride + kernel - 2 * padding is not it: it does not divide, say. Raises
    ShapeMismatch where the indices come from another size, BadAttribute for another number of
    symbols.

    torch MaxUnpool2d; ONNX MaxUnpool, or ScatterElements for another output_size.
    """
    return _unpool(xs, 2, pool_size, strides, padding, output_size)


@plain_layer
def max_unpool3d(
    xs: Sequence[Symbol],
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Sizes | Sequence[Sequence[int]] = 0,
    output_size: Sizes | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """Zeros, with what a max pool gave put back where it was; see max_unpool2d.

    torch MaxUnpool3d; ONNX MaxUnpool, or ScatterElements for another output_size.
    """
    return _unpool(xs, 3, pool_size, strides, padding, output_size)
