"""Elements chosen, ordered or placed by values, positions and counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralsym.core.dim import Dim
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import ExecutionError
from neuralsym.ops.base import (
    Movement,
    bad,
    check_axis,
    check_choice,
    check_rank,
    check_single,
    same_type,
)
from neuralsym.ops.shapes import (
    axes_of,
    bounded,
    check_vector,
    length,
    merged,
    partial_dims,
    scalar_of,
    total,
    typed,
)


class Compress(Movement):
    """Entries along one axis where the condition is true."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_rank(call, 1, 1, 1)
        x = call.shape(0)
        if call.attrs.get("axis") is not None:
            check_axis(call, call.attrs["axis"], None if x is None else len(x))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, axis, chosen = call.shape(0), call.attrs.get("axis"), call.known(1)
        if axis is None:
            size = None if x is None else total(x)
            return typed(call, (_chosen(size, chosen),))
        if x is None:
            return typed(call, None)
        axis %= len(x)
        return typed(call, (*x[:axis], _chosen(x[axis], chosen), *x[axis + 1 :]))


def _chosen(size: Size, condition: np.ndarray | None) -> Size:
    """How many are taken; places of the condition beyond the axis count for nothing."""
    if condition is None:
        return None
    if isinstance(size, int):
        return int(np.count_nonzero(condition[:size]))
    return None if np.any(condition) else 0


class NonZero(Movement):
    """The indices of the elements that are not zero, one row for each axis."""

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        # A scalar counts as a vector of one.
        rank = None if x is None else len(x)
        return [TensorType(NumberType.INT64, (rank, None))]


class Unique(Movement):
    """The different elements, or slices along an axis, with places and counts."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "sorted", (0, 1))
        x = call.shape(0)
        if call.attrs.get("axis") is not None:
            check_axis(call, call.attrs["axis"], None if x is None else len(x))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, axis = call.shape(0), call.attrs.get("axis")
        shape: Shape | None = (None,)
        back: Size = None if x is None else total(x)
        if axis is not None:
            shape = None
            if x is not None:
                axis %= len(x)
                shape, back = (*x[:axis], None, *x[axis + 1 :]), x[axis]
        places = TensorType(NumberType.INT64, (None,))
        inverse = TensorType(NumberType.INT64, (back,))
        return [TensorType(call.dtype(0), shape), places, inverse, places]


class TopK(Movement):
    """The k largest or smallest elements along an axis, and where they were."""

    @classmethod
    def check(cls, call: Call) -> None:
        x = call.shape(0)
        if x == ():
            call.fail("X is a scalar: it has no axis to choose along")
        check_axis(call, call.attr("axis"), None if x is None else len(x))
        for name in ("largest", "sorted"):
            check_choice(call, name, (0, 1))
        entries = length(call, 1)
        if entries is not None and entries != 1:
            call.fail(f"K has {entries} entries, one is needed", bad)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        shape: Shape | None = None
        if x is not None:
            axis = call.attr("axis") % len(x)
            value = call.known(1)
            k: Size = None if value is None else scalar_of(value)
            size = x[axis]
            if isinstance(k, int):
                if k < 0:
                    call.fail(f"K={k} must not be negative", bad)
                if isinstance(size, int) and k > size:
                    call.fail(f"K={k}, but axis {axis} has only {size} elements")
            shape = bounded(call, (*x[:axis], k, *x[axis + 1 :]))
        return [TensorType(call.dtype(0), shape), TensorType(NumberType.INT64, shape)]


class OneHot(Movement):
    """A new axis of `depth` entries, on at the index and off elsewhere."""

    @classmethod
    def check(cls, call: Call) -> None:
        indices = call.shape(0)
        if indices is not None:
            check_axis(call, call.attr("axis"), len(indices) + 1)
        entries = length(call, 1)
        if entries is not None and entries != 1:
            call.fail(f"depth has {entries} entries, one is needed", bad)
        values = call.shape(2)
        if values is not None and len(values) != 1:
            call.fail("values is a vector of two: (off, on)")
        if values is not None:
            merged(call, values[0], 2, "values is a vector of two, (off, on): its size")

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        indices = call.shape(0)
        if indices is None:
            return typed(call, None, 2)
        value = call.known(1)
        depth = None if value is None else scalar_of(value)
        if depth is not None and not isinstance(depth, Dim):
            if not 0 <= depth < 2**62:
                call.fail(f"depth={depth} must not be negative", bad)
            depth = int(depth)
        axis = call.attr("axis") % (len(indices) + 1)
        return typed(call, bounded(call, (*indices[:axis], depth, *indices[axis:])), 2)

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any] | None:
        """By numpy: onnx's evaluator takes neither words nor a depth that is a vector of one."""
        indices, depth, pair = (np.asarray(v) for v in values)
        count = int(depth.reshape(-1)[0])
        if count < 0:
            raise ExecutionError(f"{node.describe()}: depth={count} must not be negative")
        axis = node.attrs.get("axis", -1) % (indices.ndim + 1)
        shape = [-1 if a == axis else 1 for a in range(indices.ndim + 1)]
        line = np.arange(count).reshape(shape)
        places = np.expand_dims(indices, axis).astype(np.int64)
        if indices.dtype != np.uint64:
            places = np.where(places < 0, places + count, places)
        return [np.where(places == line, pair[1], pair[0]).astype(pair.dtype)]


class ReverseSequence(Movement):
    """The first entries of each sequence of a batch reversed."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_rank(call, 0, 2)
        time, batch = call.attr("time_axis"), call.attr("batch_axis")
        if {time, batch} != {0, 1}:
            call.fail(f"time_axis={time} and batch_axis={batch} must be 0 and 1, or 1 and 0", bad)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        if x is not None:
            check_vector(call, 1, x[call.attr("batch_axis")], "a sequence of the batch")
        return [same_type(call)]


class Trilu(Movement):
    """The upper or lower triangle of the last two axes, zero elsewhere."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_rank(call, 0, 2)
        check_choice(call, "upper", (0, 1))
        check_single(call, 1)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return [same_type(call)]


class CenterCropPad(Movement):
    """The input cut or padded about its centre to a shape."""

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        if x is None:
            return typed(call, None)
        given = call.attrs.get("axes")
        axes = list(range(len(x))) if given is None else axes_of(call, given, len(x))
        entries = length(call, 1)
        if entries is not None and entries != len(axes):
            call.fail(
                f"shape has {entries} entries, {len(axes)} are needed: one for each axis", bad
            )
        asked = partial_dims(call, 1)
        made: list[Size] = list(x)
        for i, axis in enumerate(axes):
            made[axis] = None if asked is None else asked[i]
        return typed(call, bounded(call, made))
