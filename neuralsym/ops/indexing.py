"""Places in a tensor: slices, gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.op import KNOWN_LIMIT, Call
from neuralsym.core.types import Size, Type
from neuralsym.ops.base import (
    Movement,
    bad,
    check_axis,
    check_choice,
    check_rank,
    same_type,
)
from neuralsym.ops.shapes import (
    FAR,
    axes_of,
    bounded,
    check_vector,
    foldable,
    length,
    merged,
    tidy,
    typed,
    unknown,
)
from neuralsym.ops.slices import sliced_size


class Slice(Movement):
    """Every step-th element from start to end, exclusive, along some axes."""

    @classmethod
    def check(cls, call: Call) -> None:
        counts = {}
        for i, name in ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps")):
            if not call.has(i):
                continue
            entries = call.shape(i)
            if entries is not None and len(entries) != 1:
                call.fail(f"{name} is a tensor of {len(entries)} axes, a vector is needed", bad)
            count = length(call, i)
            if count is not None:
                counts[name] = count
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name} {count}" for name, count in counts.items())
            call.fail(f"{listed}: they must have as many entries as each other", bad)
        steps = call.known_dims(4)
        if steps is not None and 0 in steps:
            call.fail("steps must not be 0", bad)

    @classmethod
    def axes(cls, call: Call, rank: int) -> list[int] | None:
        """The axes that are cut; None where they are not known."""
        if call.has(3):
            given = call.known_dims(3)
            return None if given is None else axes_of(call, given, rank)
        count = length(call, 1)
        if count is not None and count > rank:
            call.fail(f"starts has {count} entries, the input has {rank} axes", bad)
        return None if count is None else list(range(count))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        if x is None:
            return typed(call, None)
        axes = cls.axes(call, len(x))
        if axes is None:
            return typed(call, unknown(len(x)))
        made: list[Size] = list(x)
        starts, ends = call.known_dims(1), call.known_dims(2)
        steps = call.known_dims(4) if call.has(4) else [1] * len(axes)
        for i, axis in enumerate(axes):
            size = x[axis]
            step = None if steps is None else steps[i]
            if starts is None or ends is None or size is None or not isinstance(step, int):
                made[axis] = cls._unbounded(size, starts, ends, steps, i)
            else:
                made[axis] = sliced_size(size, starts[i], ends[i], step)
        return typed(call, tuple(made))

    @classmethod
    def _unbounded(cls, size: Size, starts: Any, ends: Any, steps: Any, i: int) -> Size:
        """An axis of which something is not known: empty stays empty, all of it stays all."""
        if size == 0:
            return 0
        known = starts is not None and ends is not None and steps is not None
        if known and starts[i] == 0 and steps[i] == 1 and ends[i] == FAR:
            return size
        return None

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        value = foldable(call)
        starts, ends = call.known_dims(1), call.known_dims(2)
        if value is None or starts is None or ends is None:
            return None
        axes = cls.axes(call, value.ndim)
        steps = call.known_dims(4) if call.has(4) else [1] * len(starts)
        if axes is None or steps is None:
            return None
        index = [slice(None)] * value.ndim
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            if not (isinstance(start, int) and isinstance(end, int) and isinstance(step, int)):
                return None
            index[axis] = _slice(value.shape[axis], start, end, step)
        return [tidy(value[tuple(index)], call.dtype(0))]


class Gather(Movement):
    """Entries along one axis, picked by an array of indices."""

    @classmethod
    def check(cls, call: Call) -> None:
        x = call.shape(0)
        if x == ():
            call.fail("data is a scalar: it has no axis to gather from")
        check_axis(call, call.attr("axis"), None if x is None else len(x))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, indices = call.shape(0), call.shape(1)
        if x is None or indices is None:
            return typed(call, None)
        axis = call.attr("axis") % len(x)
        return typed(call, bounded(call, (*x[:axis], *indices, *x[axis + 1 :])))

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        value, indices = foldable(call), foldable(call, 1)
        if value is None or indices is None or indices.dtype == object:
            return None
        axis = call.attr("axis")
        count = value.shape[axis]
        if indices.size and not (indices.min() >= -count and indices.max() < count):
            return None  # an error of the run, if this is ever run
        if value.size // max(count, 1) * indices.size > KNOWN_LIMIT:
            return None
        taken = np.take(value, indices, axis=axis)
        if not isinstance(taken, np.ndarray):  # a scalar of an array of objects
            boxed = np.empty((), dtype=value.dtype)
            boxed[()] = taken
            taken = boxed
        return [tidy(taken, call.dtype(0))]


class GatherElements(Movement):
    """For each index, the element at that place along one axis."""

    @classmethod
    def check(cls, call: Call) -> None:
        x = call.shape(0)
        check_axis(call, call.attr("axis"), None if x is None else len(x))
        check_same_rank(call, 0, 1)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        check_places(call)
        return typed(call, call.shape(1))

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        value, places = known_row(call)
        return None if value is None else [tidy(taken(value, places), call.dtype(0))]


class GatherND(Movement):
    """Slices picked by vectors of indices."""

    @classmethod
    def check(cls, call: Call) -> None:
        x, indices = call.shape(0), call.shape(1)
        check_rank(call, 0, 1)
        check_rank(call, 1, 1)
        batch = call.attr("batch_dims")
        ranks = [len(s) for s in (x, indices) if s is not None]
        if batch < 0 or (ranks and batch >= min(ranks)):
            call.fail(f"batch_dims={batch} must be at least 0 and below both ranks", bad)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, indices = call.shape(0), call.shape(1)
        if x is None or indices is None or not isinstance(indices[-1], int):
            return typed(call, None)
        batch, taken = call.attr("batch_dims"), indices[-1]
        if taken + batch > len(x):
            call.fail(f"indices of {taken} places are too long for data of {len(x)} axes")
        front = [
            merged(call, a, b, f"data and indices, batch axis {i}")
            for i, (a, b) in enumerate(zip(x[:batch], indices[:batch], strict=True))
        ]
        made = (*front, *indices[batch:-1], *x[batch + taken :])
        return typed(call, bounded(call, made))

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        value, places = known_row(call, tuples=True)
        return None if value is None else [tidy(taken(value, places), call.dtype(0))]


class ScatterElements(Movement):
    """A copy of the data with the updates written at indices along one axis."""

    @classmethod
    def check(cls, call: Call) -> None:
        x = call.shape(0)
        check_axis(call, call.attr("axis"), None if x is None else len(x))
        check_choice(call, "reduction", ("none", "add", "mul", "min", "max"))
        check_same_rank(call, 0, 1)
        check_same_rank(call, 1, 2)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        indices, updates = call.shape(1), call.shape(2)
        check_places(call)
        if indices is not None and updates is not None:
            for i, (a, b) in enumerate(zip(indices, updates, strict=True)):
                merged(call, a, b, f"indices and updates, axis {i}")
        return [same_type(call)]

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        return replaced(call, *known_row(call))


class ScatterND(Movement):
    """A copy of the data with slices written at vectors of indices."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_rank(call, 0, 1)
        check_rank(call, 1, 1)
        check_choice(call, "reduction", ("none", "add", "mul", "min", "max"))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, indices, updates = call.shape(0), call.shape(1), call.shape(2)
        if x is None or indices is None or not isinstance(indices[-1], int):
            return [same_type(call)]
        if indices[-1] > len(x):
            call.fail(f"indices of {indices[-1]} places are too long for data of {len(x)} axes")
        if updates is not None:
            wanted = (*indices[:-1], *x[indices[-1] :])
            if len(updates) != len(wanted):
                call.fail(f"updates has {len(updates)} axes, {len(wanted)} are needed")
            for i, (a, b) in enumerate(zip(wanted, updates, strict=True)):
                merged(call, a, b, f"updates, axis {i}, and the places that indices name")
        return [same_type(call)]

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        return replaced(call, *known_row(call, tuples=True))


class TensorScatter(Movement):
    """A cache with an update written from a given place on, for each batch entry."""

    @classmethod
    def check(cls, call: Call) -> None:
        x = call.shape(0)
        axis = check_axis(call, call.attr("axis"), None if x is None else len(x))
        if axis == 0:
            call.fail("axis=0 is the batch; the sequence must be another axis", bad)
        check_choice(call, "mode", ("linear", "circular"))
        check_same_rank(call, 0, 1)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, update = call.shape(0), call.shape(1)
        if x is None:
            return typed(call, None)
        if update is not None:
            axis = call.attr("axis") % len(x)
            for i, (a, b) in enumerate(zip(x, update, strict=True)):
                if i != axis:
                    merged(call, a, b, f"past_cache and update, axis {i}")
                elif isinstance(a, int) and isinstance(b, int) and b > a:
                    call.fail(f"update has {b} entries on axis {i}, the cache only {a}")
        check_vector(call, 2, x[0], "a batch entry")
        return [same_type(call)]


# -- what they share ---------------------------------------------------------------------------
def known_row(call: Call, *, tuples: bool = False) -> tuple[NDArray[Any] | None, Any]:
    """A known vector, a shape mostly, and known places in it; None where it is no such case."""
    value, places = foldable(call), foldable(call, 1)
    if value is None or places is None or value.ndim != 1 or places.dtype == object:
        return None, None
    if tuples and places.shape[-1] != 1:
        return None, None
    places = places[..., 0] if tuples else places
    if places.size and not (places.min() >= -len(value) and places.max() < len(value)):
        return None, None  # an error of the run, if this is ever run
    return value, places


def taken(value: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """The entries of a vector at places, an array for a single place too."""
    made = np.empty(places.shape, value.dtype)
    made[...] = value[places]
    return made


def replaced(
    call: Call, value: NDArray[Any] | None, places: Any
) -> Sequence[NDArray[Any] | None] | None:
    """The vector with known updates at known places; those that come twice are for the run."""
    updates = foldable(call, 2)
    if value is None or updates is None or call.attr("reduction") != "none":
        return None
    if updates.shape != places.shape or np.unique(places % max(len(value), 1)).size != places.size:
        return None
    mixed = object in (value.dtype, updates.dtype)
    made = value.astype(object if mixed else value.dtype, copy=True)
    made[places] = updates
    return [tidy(made, call.dtype(0))]


def check_places(call: Call) -> None:
    """Indices of elements lie within the data on all axes but the one that they index."""
    x, indices = call.shape(0), call.shape(1)
    if x is None or indices is None:
        return
    axis = call.attr("axis") % len(x)
    for i, (size, count) in enumerate(zip(x, indices, strict=True)):
        if i != axis and isinstance(size, int) and isinstance(count, int) and count > size:
            call.fail(
                f"indices have {count} entries on axis {i}, data only {size}: they may have more "
                f"only on axis {axis}, which they index"
            )


def check_same_rank(call: Call, first: int, second: int) -> None:
    """Two inputs have the same number of axes, as far as that is known."""
    a, b = call.shape(first), call.shape(second)
    if a is not None and b is not None and len(a) != len(b):
        names = [call.op.schema.formal_input(i).name for i in (first, second)]
        call.fail(
            f"{names[0]} has {len(a)} axes, {names[1]} {len(b)}: they must have the same number"
        )


def _slice(size: int, start: int, end: int, step: int) -> slice:
    """A Python slice that takes what ONNX takes."""
    start = start + size if start < 0 else start
    end = end + size if end < 0 else end
    if step > 0:
        return slice(max(start, 0), max(end, 0), step)
    start = min(max(start, 0), size - 1)
    end = min(max(end, -1), size - 1)
    return slice(start, end, step) if end >= 0 else slice(start, None, step)
