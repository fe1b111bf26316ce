"""Images: resizing, and sampling on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor

import numpy as np

from neuralsym.core.dim import floor_div
from neuralsym.core.op import Call
from neuralsym.core.types import Shape, Size, Type
from neuralsym.ops.base import Movement, bad, check_choice, check_range, check_rank
from neuralsym.ops.shapes import (
    axes_of,
    bounded,
    length,
    merged,
    partial_dims,
    typed,
    unknown,
)

_CHOICES = {
    "coordinate_transformation_mode": (
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "tf_crop_and_resize",
    ),
    "mode": ("nearest", "linear", "cubic"),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "antialias": (0, 1),
    "exclude_outside": (0, 1),
}
_TRIED = 2**15
"""A factor is written as a fraction when both agree on all sizes up to this one."""


class Resize(Movement):
    """The input resampled to other sizes."""

    @classmethod
    def check(cls, call: Call) -> None:
        for name, choices in _CHOICES.items():
            if name in call.attrs:
                check_choice(call, name, choices)
        for i in (2, 3):
            if call.has(i):
                check_rank(call, i, 0, 1)
        by_scales = call.has(2) and length(call, 2) != 0
        by_sizes = call.has(3) and length(call, 3) != 0
        if by_scales and by_sizes:
            call.fail("give either scales or sizes, not both", bad)
        if not call.has(2) and not call.has(3):
            call.fail("give either scales or sizes", bad)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x = call.shape(0)
        if x is None:
            return typed(call, None)
        given = call.attrs.get("axes")
        axes = list(range(len(x))) if given is None else axes_of(call, given, len(x))
        at, name = (3, "sizes") if call.has(3) and length(call, 3) != 0 else (2, "scales")
        if not call.has(at):
            call.fail("one of scales and sizes must be given", bad)
        entries = length(call, at)
        if entries is not None and entries != len(axes):
            call.fail(f"{name} has {entries} entries, {len(axes)} are needed: one for an axis", bad)
        made: list[Size] = list(x)
        if at == 3:
            sizes = partial_dims(call, 3)
            for axis, size in zip(axes, cls.kept(call, x, axes, sizes), strict=True):
                made[axis] = size
            return typed(call, bounded(call, made))
        scales = call.known(2)
        for i, axis in enumerate(axes):
            made[axis] = None
            if scales is not None and scales.dtype != object:
                scale = np.float32(scales.reshape(-1)[i])
                if not (scale > 0 and np.isfinite(scale)):
                    call.fail(f"scales={scales.tolist()} must be above 0", bad)
                made[axis] = scaled(x[axis], scale)
        return typed(call, bounded(call, made))

    @classmethod
    def kept(
        cls, call: Call, x: Shape, axes: Sequence[int], sizes: Sequence[Size] | None
    ) -> list[Size]:
        """The sizes asked for, or those that keep the aspect ratio."""
        if sizes is None:
            return [None] * len(axes)
        if any(isinstance(s, int) and s < 1 for s in sizes):
            call.fail(f"sizes={list(map(str, sizes))} must be of at least 1", bad)
        policy = call.attr("keep_aspect_ratio_policy")
        if policy == "stretch":
            return list(sizes)
        ratios: list[Fraction] = []
        old: list[int] = []
        for axis, size in zip(axes, sizes, strict=True):
            have = x[axis]
            if not isinstance(have, int) or not isinstance(size, int) or not have:
                return [None] * len(axes)
            ratios.append(Fraction(size, have))
            old.append(have)
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        return [floor(ratio * size + Fraction(1, 2)) for size in old]


class GridSample(Movement):
    """The input sampled at the points of a grid."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "mode", ("linear", "nearest", "cubic"))
        check_choice(call, "padding_mode", ("zeros", "border", "reflection"))
        check_choice(call, "align_corners", (0, 1))
        check_rank(call, 0, 3)
        check_rank(call, 1, 3)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        x, grid = call.shape(0), call.shape(1)
        if x is None and grid is None:
            return typed(call, None)
        if x is None or grid is None:
            known = x or grid or ()
            return typed(call, unknown(len(known)))
        if len(x) != len(grid):
            call.fail(f"X has {len(x)} axes, grid {len(grid)}: they must have the same number")
        merged(call, grid[-1], len(x) - 2, "a point has a coordinate for each spatial axis")
        batch = merged(call, x[0], grid[0], "batch")
        return typed(call, bounded(call, (batch, x[1], *grid[1:-1])))


class AffineGrid(Movement):
    """The sampling grid of an affine map, for GridSample."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_range(call, "align_corners", 0, 1)
        check_rank(call, 0, 3, 3)
        entries = length(call, 1)
        if entries not in (None, 4, 5):
            call.fail(f"size has {entries} entries: (N, C, H, W) or (N, C, D, H, W) is needed", bad)

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        theta, entries, size = call.shape(0), length(call, 1), call.known_dims(1)
        if entries is None:
            return typed(call, None)
        axes = entries - 2
        if theta is not None:
            merged(call, theta[1], axes, "theta is (N, 2, 3) or (N, 3, 4): its axis 1")
            merged(call, theta[2], axes + 1, "theta is (N, 2, 3) or (N, 3, 4): its axis 2")
        if size is None:
            batch = None if theta is None else theta[0]
            return typed(call, (batch, *unknown(axes), axes))
        if theta is not None:
            merged(call, theta[0], size[0], "batch of theta and size")
        return typed(call, bounded(call, (size[0], *size[2:], axes)))


def scaled(size: Size, scale: np.float32) -> Size:
    """floor(size * scale) in float32, as ONNX computes it.

    For a symbolic size a fraction p/q with the same results is found: size*p//q. Where none
    is, the size is unknown.
    """
    if size is None:
        return None
    if isinstance(size, int):
        return int(np.floor(np.float32(size) * scale))
    exact = Fraction(float(scale))
    if exact.denominator <= 64 and exact.numerator < 512:  # size times numerator is exact
        return floor_div(size * exact.numerator, exact.denominator)
    tried = np.arange(_TRIED)
    results = np.floor(tried.astype(np.float32) * scale).astype(np.int64)
    for limit in (64, 4096):
        fraction = exact.limit_denominator(limit)
        if np.array_equal(tried * fraction.numerator // fraction.denominator, results):
            return floor_div(size * fraction.numerator, fraction.denominator)
    return None
