"""Layers that put something around space: zeros, a constant, or what the input itself holds.

Inputs are [batch, channels, *space]. `surround` is also what convolutions pad their inputs with
when it is not zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch, did_you_mean
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import plain_layer
from neuralsym.layers.window import axis_pairs

Pairs = int | Sequence[int] | Sequence[Sequence[int]]
"""A number for all sides; a number for each axis; (before, after) for each axis; or, as torch
lists them, (left, right, top, bottom, ...), the last axis first."""

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]
"""What a convolution sees beyond the edge: torch's padding_mode."""

_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def border_mode(padding_mode: str) -> str:
    """ONNX's word for torch's padding_mode; BadAttribute, with the nearest, if there is none."""
    if padding_mode not in _MODES:
        hint = did_you_mean(padding_mode, _MODES)
        raise BadAttribute(f"padding_mode={padding_mode!r}{hint}; known: {', '.join(_MODES)}")
    return _MODES[padding_mode]


def surround(
    x: Symbol, pairs: Sequence[tuple[int, int]], mode: str = "constant", value: float = 0.0
) -> Symbol:
    """x with so many elements before and after each spatial axis, by ONNX's Pad of that mode.

    ShapeMismatch where an edge asks for more than there is to reflect or to go around.
    """
    shape = require_shape(x, len(pairs) + 2)
    if not any(map(any, pairs)):
        return x
    for axis, pair in enumerate(pairs, 2):
        size = shape[axis]
        if not isinstance(size, int) or mode == "constant":
            continue
        most = {"reflect": max(size - 1, 0), "wrap": size}.get(mode, None if size else 0)
        if most is not None and max(pair) > most:
            raise ShapeMismatch(
                f"padding {pair} of axis {axis} of {x.type}: mode {mode!r} can give at most {most} "
                f"elements of an axis of {size}"
            )
    pads = [0, 0, *(p[0] for p in pairs), 0, 0, *(p[1] for p in pairs)]
    return ops.pad(x, pads, None if value == 0.0 else value, mode=mode)


def _border(padding: Any, rank: int) -> tuple[tuple[int, int], ...]:
    """The pairs that the setting of a padding layer means."""
    flat = padding.tolist() if isinstance(padding, np.ndarray) else padding
    several = isinstance(flat, (list, tuple)) and rank > 1 and len(flat) == 2 * rank
    if several and all(isinstance(n, (int, np.integer)) for n in flat):
        flat = [flat[i : i + 2] for i in range(2 * rank - 2, -1, -2)]
    return axis_pairs(flat, rank, "padding")


# -- zeros -------------------------------------------------------------------------------------
@plain_layer
def zero_padding1d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """Zeros around [N, C, W]: so many on both sides, or (left, right).

    See zero_padding2d.

    Keras ZeroPadding1D; torch ZeroPad1d; Owl Padding1D (an empty stub there); ONNX Pad.
    """
    return surround(x, _border(padding, 1))


@plain_layer
def zero_padding2d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """Zeros around [N, C, H, W], one on each side by default.

    padding: a number, (vertical, horizontal), ((top, bottom), (left, right)), or torch's
    (left, right, top, bottom). Raises ShapeMismatch for an input of another rank, BadAttribute
    for another form and for a negative number (cropping2d cuts off).

    Keras ZeroPadding2D; torch ZeroPad2d; Owl padding2d; ONNX Pad.
    """
    return surround(x, _border(padding, 2))


@plain_layer
def zero_padding3d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """Zeros around [N, C, D, H, W], one on each side by default.

    See zero_padding2d; torch's form is (left, right, top, bottom, front, back).

    Keras ZeroPadding3D; torch ZeroPad3d; Owl Padding3D (an empty stub there); ONNX Pad.
    """
    return surround(x, _border(padding, 3))


# -- a constant --------------------------------------------------------------------------------
@plain_layer
def constant_padding1d(
    x: Symbol, padding: Pairs = 1, value: float = 0.0, *, name: str | None = None
) -> Symbol:
    """A number around [N, C, W]: so many on both sides, or (left, right).

    See constant_padding2d.

    torch ConstantPad1d; ONNX Pad.
    """
    return surround(x, _border(padding, 1), value=value)


@plain_layer
def constant_padding2d(
    x: Symbol, padding: Pairs = 1, value: float = 0.0, *, name: str | None = None
) -> Symbol:
    """A number around [N, C, H, W], one element on each side by default.

    padding: the forms of zero_padding2d, and its errors. value: the number, 0 unless given.

    torch ConstantPad2d; ONNX Pad.
    """
    return surround(x, _border(padding, 2), value=value)


@plain_layer
def constant_padding3d(
    x: Symbol, padding: Pairs = 1, value: float = 0.0, *, name: str | None = None
) -> Symbol:
    """A number around [N, C, D, H, W], one element on each side by default.

    See constant_padding2d.

    torch ConstantPad3d; ONNX Pad.
    """
    return surround(x, _border(padding, 3), value=value)


# -- a mirror ----------------------------------------------------------------------------------
@plain_layer
def reflection_padding1d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """[N, C, W] mirrored at its ends, which are not repeated.

    See reflection_padding2d.

    torch ReflectionPad1d; ONNX Pad of mode reflect.
    """
    return surround(x, _border(padding, 1), "reflect")


@plain_layer
def reflection_padding2d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """[N, C, H, W] mirrored at its edges, which are not repeated: c b | a b c | b a.

    padding: the forms of zero_padding2d, and its errors; ShapeMismatch also where it is not below
    the size of its axis.

    torch ReflectionPad2d; ONNX Pad of mode reflect.
    """
    return surround(x, _border(padding, 2), "reflect")


@plain_layer
def reflection_padding3d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """[N, C, D, H, W] mirrored at its faces, which are not repeated.

    See reflection_padding2d.

    torch ReflectionPad3d; ONNX Pad of mode reflect.
    """
    return surround(x, _border(padding, 3), "reflect")


# -- the edge again ----------------------------------------------------------------------------
@plain_layer
def replication_padding1d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """[N, C, W] with its first and last element repeated.

    See replication_padding2d.

    torch ReplicationPad1d; ONNX Pad of mode edge.
    """
    return surround(x, _border(padding, 1), "edge")


@plain_layer
def replication_padding2d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """[N, C, H, W] with its edges repeated: a a | a b c | c c.

    padding: the forms of zero_padding2d, and its errors.

    torch ReplicationPad2d; ONNX Pad of mode edge.
    """
    return surround(x, _border(padding, 2), "edge")


@plain_layer
def replication_padding3d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """[N, C, D, H, W] with its faces repeated.

    See replication_padding2d.

    torch ReplicationPad3d; ONNX Pad of mode edge.
    """
    return surround(x, _border(padding, 3), "edge")


# -- around ------------------------------------------------------------------------------------
@plain_layer
def circular_padding1d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """[N, C, W] continued from its other end.

    See circular_padding2d.

    torch CircularPad1d; ONNX Pad of mode wrap.
    """
    return surround(x, _border(padding, 1), "wrap")


@plain_layer
def circular_padding2d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """[N, C, H, W] continued from its other side: b c | a b c | a b.

    padding: the forms of zero_padding2d, and its errors; ShapeMismatch also where it is more than
    the size of its axis.

    torch CircularPad2d; ONNX Pad of mode wrap.
    """
    return surround(x, _border(padding, 2), "wrap")


@plain_layer
def circular_padding3d(x: Symbol, padding: Pairs = 1, *, name: str | None = None) -> Symbol:
    """[N, C, D, H, W] continued from its other side.

    See circular_padding2d.

    torch CircularPad3d; ONNX Pad of mode wrap.
    """
    return surround(x, _border(padding, 3), "wrap")
