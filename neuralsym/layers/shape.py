"""Layers that move values: padding, cropping, reshaping, repetition, resizing.

As in Keras, the shapes in their settings leave out the batch axis, which stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch, did_you_mean
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer, plain_layer
from neuralsym.layers.window import Sizes, axis_pairs, axis_sizes

Pairs = int | Sequence[int] | Sequence[Sequence[int]]
"""A number for all sides, a number for each axis, or (before, after) for each axis."""


def _pad(x: Symbol, rank: int, padding: Any) -> Symbol:
    require_shape(x, rank + 2)
    pairs = axis_pairs(padding, rank, "padding")
    if not any(map(any, pairs)):
        return x
    pads = [0, 0, *(p[0] for p in pairs), 0, 0, *(p[1] for p in pairs)]
    return ops.pad(x, pads)


@plain_layer
def zero_padding1d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """Zeros around [N, C, W]: so many on both sides, or (left, right). Keras ZeroPadding1D."""
    return _pad(x, 1, padding)


@plain_layer
def zero_padding2d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """Zeros around [N, C, H, W]: 1 on each side by default.

    padding: a number, (vertical, horizontal), or ((top, bottom), (left, right)). Keras
    ZeroPadding2D, torch ZeroPad2d (which lists left, right, top, bottom); ONNX Pad.
    """
    return _pad(x, 2, padding)


@plain_layer
def zero_padding3d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """Zeros around [N, C, D, H, W]; see zero_padding2d. Keras ZeroPadding3D."""
    return _pad(x, 3, padding)


def _crop(x: Symbol, rank: int, cropping: Any) -> Symbol:
    shape = require_shape(x, rank + 2)
    pairs = axis_pairs(cropping, rank, "cropping")
    for axis, pair in enumerate(pairs, 2):
        size = shape[axis]
        if isinstance(size, int) and sum(pair) >= size:
            raise ShapeMismatch(f"cropping {pair} leaves nothing of axis {axis} of {x.type}")
    cut = [(axis, pair) for axis, pair in enumerate(pairs, 2) if any(pair)]
    if not cut:
        return x
    starts = [pair[0] for _, pair in cut]
    ends = [-pair[1] if pair[1] else 2**62 for _, pair in cut]
    return ops.slice(x, starts, ends, [axis for axis, _ in cut])


@plain_layer
def cropping1d(x: Symbol, cropping: Pairs = 1, *, name: str | None = None) -> Symbol:
    """[N, C, W] without so many at both ends, or (left, right). Keras Cropping1D; ONNX Slice."""
    return _crop(x, 1, cropping)


@plain_layer
def cropping2d(x: Symbol, cropping: Pairs = 0, *, name: str | None = None) -> Symbol:
    """[N, C, H, W] cut at its edges; the forms of zero_padding2d. Keras Cropping2D; ONNX Slice."""
    return _crop(x, 2, cropping)


@plain_layer
def cropping3d(x: Symbol, cropping: Pairs = 1, *, name: str | None = None) -> Symbol:
    """[N, C, D, H, W] cut at its edges. Keras Cropping3D; ONNX Slice."""
    return _crop(x, 3, cropping)


@plain_layer
def flatten(x: Symbol, *, name: str | None = None) -> Symbol:
    """[N, ...] -> [N, all others]. Keras Flatten, torch Flatten(1); ONNX Flatten."""
    if not require_shape(x):
        raise ShapeMismatch(f"flattens a batch, came {x.type}; is the batch axis missing?")
    return ops.flatten(x, axis=1)


@layer
def reshape(x: Symbol, target_shape: Sequence[int], *, name: str | None = None) -> Symbol:
    """[N, ...] -> [N, *target_shape]; one size may be -1, to be worked out.

    Keras Reshape: the shape leaves out the batch. ONNX Reshape. ShapeMismatch where the number of
    elements differs.
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

    Keras Permute; ONNX Transpose.
    """
    rank = len(require_shape(x))
    if sorted(dims) != list(range(1, rank)):
        raise BadAttribute(
            f"dims={dims!r}: each of the axes 1 to {rank - 1} of {x.type} once (0 is the batch)"
        )
    return ops.transpose(x, perm=(0, *dims))


@layer
def repeat_vector(x: Symbol, n: int, *, name: str | None = None) -> Symbol:
    """[N, features] -> [N, n, features]. Keras RepeatVector; ONNX Unsqueeze and Expand."""
    require_shape(x, 2)
    if n < 1:
        raise BadAttribute(f"n={n}: must be at least 1")
    return ops.expand(ops.unsqueeze(x, [1]), [1, n, 1])


Interpolation = Literal["nearest", "bilinear", "bicubic"]


def _upsample(x: Symbol, rank: int, size: Sizes, interpolation: str) -> Symbol:
    require_shape(x, rank + 2)
    factors = axis_sizes(size, rank, "size")
    modes = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}
    if interpolation not in modes:
        hint = did_you_mean(interpolation, modes)
        raise BadAttribute(f"interpolation={interpolation!r}{hint}; known: {', '.join(modes)}")
    scales = np.array([1.0, 1.0, *map(float, factors)], np.float32)
    if interpolation == "nearest":
        return ops.resize(
            x,
            None,
            scales,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    return ops.resize(
        x,
        None,
        scales,
        mode=modes[interpolation],
        coordinate_transformation_mode="half_pixel",
    )


@plain_layer
def upsampling1d(x: Symbol, size: Sizes = 2, *, name: str | None = None) -> Symbol:
    """Each step of [N, C, W] repeated `size` times. Keras UpSampling1D; ONNX Resize."""
    return _upsample(x, 1, size, "nearest")


@plain_layer
def upsampling2d(
    x: Symbol,
    size: Sizes = 2,
    interpolation: Interpolation = "nearest",
    *,
    name: str | None = None,
) -> Symbol:
    """[N, C, H, W] enlarged by whole factors. Keras UpSampling2D, torch Upsample; ONNX Resize.

    "nearest" repeats rows and columns; "bilinear" and "bicubic" take pixel centres (half_pixel,
    torch's align_corners=False).
    """
    return _upsample(x, 2, size, interpolation)


@plain_layer
def upsampling3d(x: Symbol, size: Sizes = 2, *, name: str | None = None) -> Symbol:
    """Each voxel of [N, C, D, H, W] repeated along its axes. Keras UpSampling3D; ONNX Resize."""
    return _upsample(x, 3, size, "nearest")
