"""Tensors as values: their sizes, joins, splits, padding and repetition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.broadcast import broadcast_shapes
from neuralsym.core.dim import ceil_div
from neuralsym.core.leaves import dims_array
from neuralsym.core.op import KNOWN_LIMIT, Call
from neuralsym.core.symbol import Node
from neuralsym.core.types import Shape as Dims
from neuralsym.core.types import Size as Dimension
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import ExecutionError, ShapeMismatch, at_line
from neuralsym.ops.base import Movement, bad, check_axis, check_choice
from neuralsym.ops.shapes import (
    axes_of,
    bounded,
    fit,
    foldable,
    length,
    merged,
    partial_dims,
    tidy,
    total,
    typed,
    unknown,
)

PARTS_LIMIT = 2**16
"""A tensor is split into at most so many parts."""


class Identity(Movement):
    """The input itself."""

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return [call.input(0).type]

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        return [call.known(0)]


class Shape(Movement):
    """The dimensions of the input from `start` to `end`, as int64."""

    @classmethod
    def part(cls, call: Call) -> Dims | None:
        """The dimensions that it gives; out-of-range ends are clamped."""
        x = call.shape(0)
        if x is None or not call.attrs:
            return x
        start = call.attr("start") or 0
        end = call.attr("end")
        return x[max(start, -len(x)) : len(x) if end is None else max(end, -len(x) - 1)]

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        part = cls.part(call)
        return [TensorType(NumberType.INT64, (None if part is None else len(part),))]

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        part = cls.part(call)
        return None if part is None or None in part or not fit(part) else [dims_array(part)]


class Size(Movement):
    """The number of elements of the input, as an int64 scalar."""

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return [TensorType(NumberType.INT64, ())]

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        x = call.shape(0)
        count = None if x is None else total(x)
        if count is None or not fit([count]):
            return None
        return [dims_array([count]).reshape(())]


class Concat(Movement):
    """The inputs joined along `axis`."""

    @classmethod
    def check(cls, call: Call) -> None:
        shapes = [s for s in (call.shape(i) for i in range(len(call.inputs))) if s is not None]
        if not shapes:
            return
        first = shapes[0]
        for shape in shapes:
            if len(shape) != len(first):
                call.fail(
                    f"the inputs have {len(first)} and {len(shape)} axes, they must have the same "
                    "number; ops.unsqueeze adds one"
                )
        if not first:
            call.fail("scalars cannot be joined; ops.unsqueeze(x, [0]) makes vectors of them")
        check_axis(call, call.attr("axis"), len(first))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        shapes = [call.shape(i) for i in range(len(call.inputs))]
        known = [s for s in shapes if s is not None]
        if not known:
            return typed(call, None)
        made: list[Dimension] = list(known[0])
        axis = call.attrs["axis"] % len(made)
        joined: Dimension = made[axis]
        for shape in known[1:]:
            joined = None if joined is None or shape[axis] is None else joined + shape[axis]
            for i, size in enumerate(shape):
                if i != axis and size != made[i]:
                    made[i] = merged(call, made[i], size, f"sizes of the inputs on axis {i}")
        made[axis] = joined if len(known) == len(shapes) else None
        return typed(call, bounded(call, made))

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        values = []
        for i in range(len(call.inputs)):
            value = foldable(call, i)
            if value is None:
                return None
            values.append(value)
        if sum(v.size for v in values) > KNOWN_LIMIT:
            return None
        return [np.concatenate(values, axis=call.attrs["axis"])]


class Split(Movement):
    """Parts of the input along `axis`, of equal or given sizes."""

    @classmethod
    def check(cls, call: Call) -> None:
        x = call.shape(0)
        if x == ():
            call.fail("a scalar cannot be split")
        check_axis(call, call.attr("axis"), None if x is None else len(x))
        parts = call.attrs.get("num_outputs")
        if call.count > PARTS_LIMIT:
            call.fail(f"{call.count} parts are asked for; at most {PARTS_LIMIT} can be", bad)
        if call.has(1) == (parts is not None):
            call.fail("give either the sizes of the parts or num_outputs=...", bad)
        if parts is not None and parts != call.count:
            call.fail(f"num_outputs={parts}, but {call.count} outputs were asked for", bad)
        entries = length(call, 1) if call.has(1) else None
        if entries is not None and entries != call.count:
            call.fail(f"split has {entries} entries, {call.count} outputs were asked for", bad)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        if x is None:
            return typed(call, None) * call.count
        axis = call.attr("axis") % len(x)
        return [
            TensorType(call.dtype(0), (*x[:axis], size, *x[axis + 1 :]))
            for size in cls.sizes(call, x[axis])
        ]

    @classmethod
    def sizes(cls, call: Call, size: Dimension) -> list[Dimension]:
        """The sizes of the parts of an axis of `size`."""
        if not call.has(1):
            if size is None:
                return [None] * call.count
            part = ceil_div(size, call.count)
            last = size - part * (call.count - 1)
            if isinstance(last, int) and last < 0:
                # An error only if it is run: it may stand in a branch that is never taken.
                return [None] * call.count
            return [*[part] * (call.count - 1), last]
        given = call.known_dims(1)
        if given is None:
            return [None] * call.count
        if any(isinstance(g, int) and g < 0 for g in given):
            call.fail(f"split={list(map(str, given))} must not be negative", bad)
        merged(call, sum(given), size, f"the sum of split={list(map(str, given))} and the axis")
        return list(given)

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        value = foldable(call)
        if value is None:
            return None
        axis = call.attr("axis")
        sizes = cls.sizes(call, value.shape[axis])
        ends = [int(s) for s in sizes if isinstance(s, int)]
        if len(ends) != len(sizes):
            return None
        parts = np.split(value, np.cumsum(ends)[:-1], axis=axis)
        return [tidy(p, call.dtype(0)) for p in parts]


class Pad(Movement):
    """The input with elements added, or cut off, at both ends of its axes."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "mode", ("constant", "reflect", "edge", "wrap"))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        if x is None:
            return typed(call, None)
        axes = list(range(len(x)))
        if call.has(3):
            given = call.known_dims(3)
            if given is None:
                return typed(call, unknown(len(x)))
            axes = axes_of(call, given, len(x))
        entries = length(call, 1)
        if entries is not None and entries != 2 * len(axes):
            call.fail(
                f"pads has {entries} entries, {2 * len(axes)} are needed: the beginnings of all "
                "axes, then their ends",
                bad,
            )
        pads = partial_dims(call, 1) or unknown(2 * len(axes))
        made: list[Dimension] = list(x)
        for i, axis in enumerate(axes):
            size, before, after = made[axis], pads[i], pads[i + len(axes)]
            if size is None or before is None or after is None:
                made[axis] = None
                continue
            made[axis] = size + before + after
            if size == 0 and call.attr("mode") != "constant" and made[axis] != 0:
                call.fail(f"axis {axis} is empty: mode {call.attr('mode')!r} has nothing to repeat")
            cls._check_reflect(call, axis, size, before, after)
        return typed(call, bounded(call, made))

    @classmethod
    def _check_reflect(
        cls, call: Call, axis: int, size: Dimension, before: Any, after: Any
    ) -> None:
        if call.attr("mode") != "reflect" or not isinstance(size, int):
            return
        widest = max((p for p in (before, after) if isinstance(p, int)), default=0)
        if widest >= max(size, 1):
            call.fail(
                f"mode 'reflect' can add at most {size - 1} elements to axis {axis} of {size}, "
                f"not {widest}",
                bad,
            )


class Tile(Movement):
    """The input repeated along each axis."""

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        entries = length(call, 1)
        if x is None:
            return typed(call, None if entries is None or entries > 64 else unknown(entries))
        if entries is not None and entries != len(x):
            call.fail(f"repeats has {entries} entries, {len(x)} are needed: one for each axis", bad)
        repeats = partial_dims(call, 1)
        if repeats is None:
            return typed(call, unknown(len(x)))
        if any(isinstance(r, int) and r < 0 for r in repeats):
            call.fail(f"repeats={list(map(str, repeats))} must not be negative", bad)
        pairs = zip(x, repeats, strict=True)
        made = [None if d is None or r is None else d * r for d, r in pairs]
        return typed(call, bounded(call, made))

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        value, repeats = foldable(call), call.known_dims(1)
        if value is None or repeats is None or len(repeats) != value.ndim:
            return None
        counts = [r for r in repeats if isinstance(r, int)]
        if len(counts) != len(repeats) or value.size * int(np.prod(counts)) > KNOWN_LIMIT:
            return None
        return [np.tile(value, counts)]


class Expand(Movement):
    """The input broadcast to a shape."""

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        given = partial_dims(call, 1)
        asked: Dims | None = None if given is None else tuple(given)
        if any(isinstance(d, int) and d < 0 for d in asked or ()):
            call.fail(f"shape={list(map(str, asked or ()))} must not be negative", bad)
        try:
            made = broadcast_shapes([x, asked])
        except ShapeMismatch as error:
            call.fail(f"{error}: only an axis of size 1 can be expanded")
        return typed(call, None if made is None else bounded(call, made))

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        # onnx's evaluator gives the input as it is where the shapes do not fit.
        x, asked = values[0], tuple(map(int, values[1]))
        try:
            shape = np.broadcast_shapes(x.shape, asked)
        except ValueError:
            raise ExecutionError(
                f"{node.describe()}: {x.shape} cannot be expanded to {asked}: only axes of size 1 "
                f"can, and no size is negative{at_line(node.where)}"
            ) from None
        return [np.array(np.broadcast_to(x, shape))]

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        value, asked = foldable(call), call.known_dims(1)
        if value is None or asked is None:
            return None
        sizes = [d for d in asked if isinstance(d, int)]
        if len(sizes) != len(asked):
            return None
        shape = np.broadcast_shapes(value.shape, tuple(sizes))
        if np.prod(shape, dtype=float) > KNOWN_LIMIT:
            return None
        return [np.broadcast_to(value, shape).copy()]
