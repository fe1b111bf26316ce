"""Layers that keep a part: edges cut off, the centre, a slice, whatever numpy's indexing names."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer, plain_layer
from neuralsym.layers.padding import Pairs
from neuralsym.layers.resize import crop_to_ratio, resized
from neuralsym.layers.window import axis_pairs, axis_sizes

Index = int | slice | EllipsisType | None


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
    """[N, C, W] without so many at both ends, or (left, right).

    See cropping2d.

    Keras Cropping1D; ONNX Slice.
    """
    return _crop(x, 1, cropping)


@plain_layer
def cropping2d(x: Symbol, cropping: Pairs = 0, *, name: str | None = None) -> Symbol:
    """[N, C, H, W] cut at its edges.

    cropping: a number, (vertical, horizontal), or ((top, bottom), (left, right)). Raises
    ShapeMismatch where nothing would be left, BadAttribute for another form.

    Keras Cropping2D; ONNX Slice.
    """
    return _crop(x, 2, cropping)


@plain_layer
def cropping3d(x: Symbol, cropping: Pairs = 1, *, name: str | None = None) -> Symbol:
    """[N, C, D, H, W] cut at its faces, by one on each side by default.

    See cropping2d.

    Keras Cropping3D; ONNX Slice.
    """
    return _crop(x, 3, cropping)


@layer
def center_crop(x: Symbol, height: int, width: int, *, name: str | None = None) -> Symbol:
    """The middle of [N, C, H, W], [N, C, height, width]; of an odd rest more stays below.

    An input that is smaller along an axis is, as in Keras, cut to the ratio and enlarged with
    bilinear interpolation (torchvision's center_crop surrounds it with zeros: zero_padding2d).
    Raises ShapeMismatch where height and width of the input are not fixed, BadAttribute for a size
    below 1.

    Keras CenterCrop; ONNX Slice, or Resize.
    """
    axis_sizes((height, width), 2, "height, width")
    require_shape(x, 4)
    sizes = [int(require_shape(x, axis=axis)[axis]) for axis in (2, 3)]
    rests = [size - wanted for size, wanted in zip(sizes, (height, width), strict=True)]
    if min(rests) < 0:
        return resized(crop_to_ratio(x, height, width), (height, width), "bilinear")
    return _crop(x, 2, [(rest // 2, rest - rest // 2) for rest in rests])


@layer
def slice_(x: Symbol, definition: Sequence[Any], *, name: str | None = None) -> Symbol:
    """A part of each entry of [N, ...]: a range for each axis after the batch.

    definition: for each axis a list as Owl has it: [] is all, [i] the element i (the axis stays,
    with size 1), [start, stop] with both ends in it, [start, stop, step]; negative numbers count
    from the end, and a negative step goes back. A Python `slice` is understood with Python's
    meaning (the stop left out), an integer as [i], `...` and missing axes as all. Raises
    ShapeMismatch for an element that is not there, BadAttribute for another form.

    Owl slice; ONNX Slice.
    """
    shape = require_shape(x)
    if not isinstance(definition, (list, tuple)):
        raise BadAttribute(f"definition={definition!r}: a list with a range for each axis")
    parts = list(definition)
    if ... in parts:
        place = parts.index(...)
        parts[place : place + 1] = [[]] * (len(shape) - len(parts))
    if len(parts) >= len(shape) or ... in parts:
        raise BadAttribute(
            f"definition={definition!r}: at most {len(shape) - 1} ranges, one for each axis of "
            f"{x.type} after the batch, and one `...`"
        )
    cuts = [slice(None)] + [
        _range(part, shape[axis], axis, x) for axis, part in enumerate(parts, 1)
    ]
    return x if all(cut == slice(None) for cut in cuts) else x[tuple(cuts)]


def _range(part: Any, size: Any, axis: int, x: Symbol) -> slice:
    """Owl's range, both ends in it, as Python's."""
    if isinstance(part, slice):
        return part
    numbers = [part] if hasattr(part, "__index__") else part
    if (
        not isinstance(numbers, (list, tuple))
        or len(numbers) > 3
        or any(not hasattr(n, "__index__") for n in numbers)
        or (len(numbers) == 3 and numbers[2] == 0)
    ):
        raise BadAttribute(
            f"definition of axis {axis}: [], [i], [start, stop], [start, stop, step], an integer "
            f"or a slice, not {part!r}"
        )
    if not numbers:
        return slice(None)
    start, stop = numbers[0], numbers[min(1, len(numbers) - 1)]
    if isinstance(size, int):
        for n in (start, stop):
            if not -size <= n < size:
                raise ShapeMismatch(f"axis {axis} of {x.type} has no element {n}")
        start, stop = start % size, stop % size
    forward = start <= stop if (start < 0) == (stop < 0) else start >= 0
    step = numbers[2] if len(numbers) == 3 else 1 if forward else -1
    if (step > 0) != forward and start != stop:
        raise ShapeMismatch(f"range {part!r} of axis {axis} of {x.type} is empty")
    beyond = stop + 1 if step > 0 else stop - 1
    if beyond == (0 if step > 0 else -1):
        return slice(start, None, step)  # up to the last, or down to the first
    return slice(start, beyond, step)


@layer
def get_item(x: Symbol, key: Index | tuple[Index, ...], *, name: str | None = None) -> Symbol:
    """x[key], with numpy's basic indexing over all axes, the batch (axis 0) included.

    `get_item((slice(None), -1))` is the last step of [N, T, C]. key: integers, slices, `...` and
    None, or a tuple of them. Raises the errors of indexing a symbol.

    Keras x[key] (an operation); torch x[key]; ONNX Slice, Squeeze and Unsqueeze as needed.
    """
    parts: tuple[Any, ...] = key if isinstance(key, tuple) else (key,)
    for part in parts:
        if isinstance(part, (list, np.ndarray)):
            raise BadAttribute(
                f"key={key!r}: integers, slices, ... and None; ops.gather takes lists"
            )
        if hasattr(part, "__index__") and abs(int(part)) > 2**62:
            raise ShapeMismatch(f"{x.type} has no element {part}")
    return x[key]
