"""Resizing and sampling of images with the coordinates that older versions computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.engines.onnx.raise_older.old import Old

SHIFTED = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}
"""How to round, half a pixel before, what another way would round after it."""


def resize(old: Old) -> Sequence[Symbol] | None:
    if old.version < 11:
        return _scaled(old, old.input(), old.input(1), old.attrs.get("mode", "nearest"))
    if old.attrs.get("coordinate_transformation_mode") == "tf_half_pixel_for_nn":
        # (x + 0.5) / scale, which 13 took away, lies half a pixel behind `half_pixel`.
        rounding = old.attrs.get("nearest_mode", "round_prefer_floor")
        if old.attrs.get("mode", "nearest") != "nearest" or rounding not in SHIFTED:
            old.refuse(f"tf_half_pixel_for_nn is gone, and with {rounding!r} nothing else is it")
        old.attrs |= {"coordinate_transformation_mode": "half_pixel"}
        old.attrs["nearest_mode"] = SHIFTED[rounding]
    # What is not wanted could not be left out, so it came as a vector of no elements.
    rest = [None if s is None or s.shape == (0,) else s for s in old.inputs[1:]]
    if rest == [*old.inputs[1:]]:
        return None
    return old.again(old.input(), *rest)


def upsample(old: Old) -> Sequence[Symbol]:
    mode = old.attrs.get("mode", "nearest")
    if not isinstance(mode, str) or (mode != "nearest" and "linear" not in mode):
        old.refuse(f"mode={mode!r} is none of 'nearest', 'linear'")
    if len(old.inputs) > 1:
        return _scaled(old, old.input(), old.input(1), mode)
    scales = old.take("scales")
    if scales is None:
        scales = (1.0, 1.0, old.take("height_scale"), old.take("width_scale"))
    return _scaled(old, old.input(), constant(np.array(scales, np.float32)), mode)


def _scaled(old: Old, x: Symbol, scales: Symbol, mode: str) -> Sequence[Symbol]:
    """Before 11, coordinates were divided by the scale, nearest ones rounded to the inside."""
    if "linear" in mode:
        way = {"coordinate_transformation_mode": "asymmetric", "mode": "linear"}
        return [old.op("Resize", x, None, scales, **way)]

    def nearest(x: Symbol, scales: Symbol, rounding: str) -> Symbol:
        way = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
        return old.op("Resize", x, None, scales, mode="nearest", **way)

    known = scales.known
    if known is not None and np.all(known >= 1):
        return [nearest(x, scales, "floor")]
    one = constant(np.float32(1))
    larger = nearest(x, old.op("Max", scales, one), "floor")
    return [nearest(larger, old.op("Min", scales, one), "ceil")]


def grid_sample(old: Old) -> None:
    names = {"bilinear": "linear", "bicubic": "cubic"}
    mode = old.attrs.get("mode", "bilinear")
    old.attrs["mode"] = names.get(mode, mode)


def roi_align(old: Old) -> None:
    old.attrs["coordinate_transformation_mode"] = "output_half_pixel"
