"""GridSample before 16: the four neighbours of each place, gathered and weighed."""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.core.symbol import Symbol
from neuralsym.dtypes import NumberType
from neuralsym.engines.onnx.constants import ints, like
from neuralsym.engines.onnx.lower.target import Target


def grid_sample(t: Target) -> Sequence[Symbol]:
    """Images of known height and width, nearest or linear, zeros or the border around them."""
    mode, padding = t.attr("mode"), t.attr("padding_mode")
    if t.rank() != 4 or mode not in ("nearest", "linear") or padding == "reflection":
        t.refuse(f"with mode={mode!r} and padding_mode={padding!r} nothing else says it")
    if not t.x.dtype.is_float:
        t.refuse(f"{t.x.dtype} cannot be sampled so")
    sizes = (t.size(3), t.size(2))  # the grid has x before y
    grid = t.cast(t.input(1), t.x.dtype)
    places = [_place(t, t.op("Gather", grid, ints(i), axis=3), sizes[i]) for i in (0, 1)]
    if mode == "nearest":
        found = _at(t, [t.op("Round", p) for p in places], sizes)
        return [_shaped(t, found)]
    total: Symbol | None = None
    floors = [t.op("Floor", p) for p in places]
    parts = [t.op("Sub", p, f) for p, f in zip(places, floors, strict=True)]
    for right in (0, 1):
        for below in (0, 1):
            corner = [_moved(t, f, by) for f, by in zip(floors, (right, below), strict=True)]
            weights = [_weight(t, p, by) for p, by in zip(parts, (right, below), strict=True)]
            found = _at(t, corner, sizes)
            weighed = t.op("Mul", found, _line(t, t.op("Mul", *weights)))
            total = weighed if total is None else t.op("Add", total, weighed)
    assert total is not None
    return [_shaped(t, total)]


def _place(t: Target, x: Symbol, size: int) -> Symbol:
    """From -1 to 1 to the places of pixels."""
    ones = t.op("Add", x, like(x, 1))
    if t.attr("align_corners"):
        place = t.op("Mul", ones, like(x, (size - 1) / 2))
    else:
        place = t.op("Sub", t.op("Mul", ones, like(x, size / 2)), like(x, 0.5))
    if t.attr("padding_mode") == "border":
        place = t.op("Clip", place, like(x, 0), like(x, size - 1))
    return place


def _moved(t: Target, x: Symbol, by: int) -> Symbol:
    return t.op("Add", x, like(x, 1)) if by else x


def _weight(t: Target, part: Symbol, by: int) -> Symbol:
    return part if by else t.op("Sub", like(part, 1), part)


def _at(t: Target, places: Sequence[Symbol], sizes: tuple[int, int]) -> Symbol:
    """The pixels at whole places, zero outside: one line of them for each channel."""
    inside: Symbol | None = None
    counted: list[Symbol] = []
    for place, size in zip(places, sizes, strict=True):
        kept = t.op("Clip", place, like(place, 0), like(place, size - 1))
        here = t.cast(t.op("Equal", kept, place), place.dtype)
        inside = here if inside is None else t.op("Mul", inside, here)
        counted.append(t.cast(kept, NumberType.INT64))
    assert inside is not None
    number = _line(t, t.op("Add", t.op("Mul", counted[1], ints(sizes[0])), counted[0]))
    channels = t.op("Slice", t.op("Shape", t.x), ints([0]), ints([2]))
    wide = t.op("Concat", channels, ints([1]), axis=0)
    flat = t.op("Reshape", t.x, ints([0, 0, -1]))
    found = t.op("GatherElements", flat, t.op("Expand", number, wide), axis=2)
    return t.op("Mul", found, _line(t, inside))


def _line(t: Target, x: Symbol) -> Symbol:
    """[N, h, w] as [N, 1, h * w], to go with every channel."""
    return t.op("Unsqueeze", t.op("Flatten", x, axis=1), ints([1]))


def _shaped(t: Target, found: Symbol) -> Symbol:
    before = t.op("Slice", t.op("Shape", t.x), ints([0]), ints([2]))
    after = t.op("Slice", t.op("Shape", t.input(1)), ints([1]), ints([3]))
    return t.op("Reshape", found, t.op("Concat", before, after, axis=0))
