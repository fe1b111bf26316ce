"""Pooling: windows that keep the channels, and pooling over all of space."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from neuralsym.core.op import Call
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import Window, bad, check_choice, check_range, check_rank
from neuralsym.ops.shapes import bounded, merged, typed, unknown
from neuralsym.ops.windows import (
    LARGEST_WINDOW,
    check_frame,
    check_pads_below_window,
    extent,
    frame,
    slid,
)


class Pool(Window, abstract=True):
    """A window over the spatial axes, each channel by itself."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_pool(call)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return typed(call, pooled(call))


class MaxPool(Pool):
    """The largest element of each window, and where it was."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_pool(call)
        if "storage_order" in call.attrs:
            check_choice(call, "storage_order", (0, 1))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        shape = pooled(call)
        return [TensorType(call.dtype(0), shape), TensorType(NumberType.INT64, shape)]


class AveragePool(Pool):
    """The mean of each window."""


class LpPool(Pool):
    """The Lp norm of each window."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_pool(call)
        check_range(call, "p", 1)


class GlobalPool(Window, abstract=True):
    """One value for each channel: the spatial axes become 1."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_rank(call, 0, 3)
        if "p" in call.attrs:
            check_range(call, "p", 1)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        return typed(call, None if x is None else (*x[:2], *((1,) * (len(x) - 2))))


class GlobalAveragePool(GlobalPool):
    """The mean over all spatial axes."""


class GlobalMaxPool(GlobalPool):
    """The largest element over all spatial axes."""


class GlobalLpPool(GlobalPool):
    """The Lp norm over all spatial axes."""


class MaxUnpool(Window):
    """Zeros, with the elements of X put back where MaxPool had found them."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_pool(call)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, places = call.shape(0), call.shape(1)
        if x is None:
            return typed(call, None)
        if places is not None:
            if len(places) != len(x):
                call.fail(f"X has {len(x)} axes, I {len(places)}: they must have the same shape")
            for i, (a, b) in enumerate(zip(x, places, strict=True)):
                merged(call, a, b, f"X and I must have the same shape: axis {i}")
        if call.has(2):
            asked = call.known_dims(2)
            if asked is None:
                return typed(call, unknown(len(x)))
            if len(asked) != len(x):
                call.fail(f"output_shape has {len(asked)} entries, {len(x)} are needed")
            return typed(call, bounded(call, asked))
        f = frame(call, len(x) - 2)
        kernel = call.attr("kernel_shape")
        sizes: list[Size] = []
        for i, size in enumerate(x[2:]):
            if size is None:
                sizes.append(None)
            else:
                span = extent(kernel[i], 1)
                sizes.append((size - 1) * f.strides[i] + span - (f.before[i] + f.after[i]))
        return typed(call, bounded(call, (*x[:2], *sizes)))


class MaxRoiPool(Window):
    """The largest element in each cell of a grid over each region of interest."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_rank(call, 0, 4, 4)
        check_rank(call, 1, 2, 2)
        check_range(call, "pooled_shape", 1, 2**40)
        if len(call.attr("pooled_shape")) != 2:
            call.fail(f"pooled_shape={list(call.attr('pooled_shape'))} needs height and width", bad)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, regions = call.shape(0), call.shape(1)
        if regions is not None:
            merged(call, regions[1], 5, "a region is (batch, x1, y1, x2, y2): axis 1 of rois")
        count = None if regions is None else regions[0]
        channels = None if x is None else x[1]
        return typed(call, bounded(call, (count, channels, *call.attr("pooled_shape"))))


# -- what they share ---------------------------------------------------------------------------
def check_pool(call: Call) -> None:
    """The attributes of a pool are in range."""
    check_rank(call, 0, 3)
    x = call.shape(0)
    if not call.attr("kernel_shape"):
        call.fail("kernel_shape is empty: it needs one entry for each spatial axis", bad)
    check_frame(call, None if x is None else len(x) - 2)
    kernel = call.attr("kernel_shape")
    if kernel and prod(kernel) > LARGEST_WINDOW:
        call.fail(f"kernel_shape={list(kernel)} has over {LARGEST_WINDOW} elements", bad)
    check_pads_below_window(call, len(call.attr("kernel_shape")))
    for name in ("ceil_mode", "count_include_pad"):
        if name in call.attrs:
            check_choice(call, name, (0, 1))


def pooled(call: Call) -> Shape | None:
    """The shape of a pool's output."""
    x = call.shape(0)
    if x is None:
        return None
    sizes = slid(call, x[2:], call.attrs["kernel_shape"], frame(call, len(x) - 2))
    return bounded(call, (*x[:2], *sizes))
