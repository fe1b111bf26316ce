"""Broadcasting of shapes that may be symbolic, as numpy and ONNX define it.

Two names that differ broadcast to `broadcast(M, N)`, which is their common size whenever the run
accepts them; the run checks.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.dim import Dim, broadcast, certainly_differ
from neuralsym.core.types import Shape, Size
from neuralsym.errors import ShapeMismatch

_LONGEST = 200
"""A longer expression of the broadcast of names says nothing to anybody; it becomes unknown."""


def broadcast_shapes(shapes: Sequence[Shape | None]) -> Shape | None:
    """The shape that all `shapes` broadcast to; None when one of them has no known rank.

    Raises ShapeMismatch, naming both sizes and the axis from the right, when they cannot.
    """
    known = [s for s in shapes if s is not None]
    if len(known) == len(shapes) and all(s == known[0] for s in known[1:]):
        return known[0] if known else ()
    rank = max((len(s) for s in known), default=0)
    result: list[Size] = []
    for axis in range(-rank, 0):
        size: Size = 1
        for shape in known:
            if len(shape) >= -axis:
                size = broadcast_sizes(size, shape[axis], axis)
        result.append(size)
    return tuple(result) if len(known) == len(shapes) else None


def broadcast_sizes(a: Size, b: Size, axis: int = -1) -> Size:
    """The size that `a` and `b` broadcast to: an int over 1 wins over a name, a name over 1."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int) and isinstance(b, int):
        raise ShapeMismatch(f"sizes {a} and {b} on axis {axis} do not broadcast")
    if isinstance(a, int) or isinstance(b, int):
        size, other = (a, b) if isinstance(a, int) else (b, a)
        assert isinstance(size, int)
        never = isinstance(other, Dim) and certainly_differ(other, size)
        if isinstance(other, Dim) and never and certainly_differ(other, 1):
            raise ShapeMismatch(f"sizes {a} and {b} on axis {axis} do not broadcast")
        return size
    if a is None or b is None:
        return None
    both = broadcast(a, b)
    return both if len(str(both)) <= _LONGEST else None
