"""Windows that slide over spatial axes: the attributes of convolutions and pools, and the sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neuralsym.core.dim import Dim, DimLike, ceil_div, floor_div
from neuralsym.core.op import Call
from neuralsym.core.types import Size
from neuralsym.ops.base import bad, check_choice

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
LARGEST = 2**40
"""No stride, dilation, pad or kernel size may be more."""
LARGEST_WINDOW = 2**28
"""A pool's window may have no more elements; larger ones would take minutes for each result."""


@dataclass(frozen=True)
class Frame:
    """How windows lie: stride and dilation of each spatial axis, padding before and after it."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    same: bool
    ceil: bool


def check_frame(call: Call, axes: int | None) -> None:
    """The window's attributes are in range and have one entry for each of `axes` spatial axes.

    `axes` is None where the rank of the input is not known; then they only have to agree.
    """
    for name in ("kernel_shape", "strides", "dilations"):
        values = call.attr(name)
        if not values:
            continue
        if any(not 1 <= v <= LARGEST for v in values):
            call.fail(f"{name}={list(values)} must be of at least 1 and at most 2^40", bad)
        axes = len(values) if axes is None else axes
        if len(values) != axes:
            call.fail(f"{name}={list(values)} needs {axes} entries, one for a spatial axis", bad)
    pads = call.attr("pads")
    if pads:
        if any(not 0 <= v <= LARGEST for v in pads):
            call.fail(
                f"pads={list(pads)} must not be negative, nor over 2^40; crop with ops.slice", bad
            )
        if len(pads) % 2 or (axes is not None and len(pads) != 2 * axes):
            call.fail(
                f"pads={list(pads)} needs {'an even number of' if axes is None else 2 * axes} "
                "entries: the beginnings of all spatial axes, then their ends",
                bad,
            )
    if "auto_pad" in call.attrs:
        check_choice(call, "auto_pad", AUTO_PADS)
        auto = call.attrs["auto_pad"]
        if auto != "NOTSET" and pads and any(pads):
            call.fail(f"auto_pad={auto!r} and pads={list(pads)} exclude each other: give one", bad)


def frame(call: Call, axes: int) -> Frame:
    """The attributes of a window over `axes` spatial axes, defaults filled in."""
    ones = (1,) * axes
    pads = call.attrs.get("pads") or (0,) * (2 * axes)
    return Frame(
        tuple(call.attrs.get("strides") or ones),
        tuple(call.attrs.get("dilations") or ones),
        tuple(pads[:axes]),
        tuple(pads[axes:]),
        str(call.attrs.get("auto_pad", "")).startswith("SAME"),
        bool(call.attrs.get("ceil_mode", 0)),
    )


def extent(kernel: DimLike, dilation: int) -> DimLike:
    """The elements that a dilated window spans."""
    return (kernel - 1) * dilation + 1


def slid(call: Call, sizes: Sequence[Size], kernel: Sequence[Size], f: Frame) -> list[Size]:
    """How many windows fit along each spatial axis."""
    made: list[Size] = []
    for i, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
        if size is None or (k is None and not f.same):
            made.append(None)
            continue
        stride = f.strides[i]
        if f.same:
            made.append(ceil_div(size, stride))
            continue
        assert k is not None
        span = extent(k, f.dilations[i])
        padded = size + f.before[i] + f.after[i]
        count = _count(size, span, stride, f.before[i], f.after[i], f.ceil)
        if type(count) is int and count < 1:
            call.fail(
                f"the window spans {span} elements along spatial axis {i}, the padded input has "
                f"only {padded}; a smaller kernel, more padding or a larger input is needed"
            )
        made.append(count)
    return made


def _count(
    size: DimLike, span: DimLike, stride: int, before: int, after: int, ceil: bool
) -> DimLike:
    padded = size + (before + after)
    if not ceil or stride == 1 or isinstance(span, Dim):
        return floor_div(padded - span, stride) + 1
    # Rounded up, but no window may start in the padding at the end. Which of the two counts is
    # the smaller one does not depend on the size.
    if after + stride <= span:
        return ceil_div(padded - span, stride) + 1
    return ceil_div(size + before, stride)


def check_pads_below_window(call: Call, axes: int) -> None:
    """A pool's padding is smaller than its window: no window may see padding alone."""
    pads = call.attrs.get("pads")
    kernel = call.attrs.get("kernel_shape")
    if not pads or not kernel:
        return
    dilations = call.attrs.get("dilations") or (1,) * axes
    for i, pad in enumerate(pads):
        span = extent(kernel[i % axes], dilations[i % axes])
        assert isinstance(span, int)
        if pad >= span:
            call.fail(
                f"pads={list(pads)}: {pad} is not smaller than the window, which spans {span}, so "
                "a window would see padding alone",
                bad,
            )
