"""The size of a slice, exact for every size that a symbolic axis may have."""

from __future__ import annotations

from neuralsym.core.dim import Dim, DimLike, ceil_div, maximum, minimum
from neuralsym.ops.shapes import FAR, never_negative


def sliced_size(size: DimLike, start: DimLike, end: DimLike, step: int) -> DimLike:
    """How many elements `start:end:step` takes of an axis of `size`.

    As ONNX has it: negative places count from the end; a start is clamped to the axis, also for a
    negative step, where numpy would find nothing before the beginning.
    """
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        return _plain(size, start, end, step)
    if step > 0:
        return ceil_div(_forward(size, start, end), step)
    return _backward(size, start, end, step)


def _plain(size: int, start: int, end: int, step: int) -> int:
    if size == 0:
        return 0
    start = start + size if start < 0 else start
    end = end + size if end < 0 else end
    if step > 0:
        span = min(max(end, 0), size) - min(max(start, 0), size)
    else:
        span = min(max(start, 0), size - 1) - min(max(end, -1), size - 1)
    return max(-(-span // abs(step)), 0)


def _forward(size: DimLike, start: DimLike, end: DimLike) -> DimLike:
    """The elements between two places, in the simplest form that the signs allow."""
    to_end = _far(end) or (isinstance(end, Dim) and never_negative(end - size))
    if isinstance(start, int) and start < 0:
        if to_end:  # the last -start
            return minimum(-start, size)
        if isinstance(end, int) and end < 0:
            return minimum(end - start, maximum(size + end, 0)) if end > start else 0
    elif never_negative(start):
        if to_end:
            return maximum(size - start, 0)
        if isinstance(end, int) and end < 0:
            return maximum(size + end - start, 0)
        if never_negative(end):
            if start == 0:
                return minimum(end, size)
            return 0 if never_negative(start - end) else maximum(minimum(end, size) - start, 0)
    first = minimum(maximum(_from_left(size, start), 0), size)
    last = size if to_end else minimum(maximum(_from_left(size, end), 0), size)
    return maximum(last - first, 0)


def _backward(size: DimLike, start: DimLike, end: DimLike, step: int) -> DimLike:
    if _far(start) or start == -1:
        first: DimLike = size - 1
    else:
        first = maximum(minimum(_from_left(size, start), size - 1), 0)
    if isinstance(end, int) and end <= -FAR:
        last: DimLike = -1
    else:
        last = maximum(minimum(_from_left(size, end), size - 1), -1)
    count = ceil_div(maximum(first - last, 0), -step)
    # An empty axis has no first element, which the clamping above does not know.
    return count if _far(start) or start == -1 else minimum(count, size)


def _from_left(size: DimLike, place: DimLike) -> DimLike:
    """A place counted from the left, whatever its sign turns out to be."""
    if never_negative(place):
        return place
    if isinstance(place, int) or never_negative(-1 - place):
        return place + size
    is_negative = maximum(minimum(0 - place, 1), 0)
    return place + size * is_negative


def _far(place: DimLike) -> bool:
    return isinstance(place, int) and place >= FAR
