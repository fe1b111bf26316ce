"""Resize in opsets that compute other coordinates, or have Upsample alone.

Resizing is linear in the image, one axis after the other: where the sizes are known, any way of
computing coordinates is a product with constant matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.leaves import constant
from neuralsym.core.op import find_op
from neuralsym.core.registry import apply
from neuralsym.core.symbol import Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.engines.onnx.constants import ints
from neuralsym.engines.onnx.lower.target import Target, plain
from neuralsym.ops.evaluate import evaluate

_NEW = ("antialias", "axes", "keep_aspect_ratio_policy")


def resize(t: Target) -> Sequence[Symbol] | None:
    if t.opset >= 18:
        return _by_matrices(t)
    plain_axes = t.attr("axes") is None or _all_axes(t)
    stretched = not t.has(3) or t.attr("keep_aspect_ratio_policy") == "stretch"
    known_mode = t.attr("coordinate_transformation_mode") != "half_pixel_symmetric"
    if t.opset >= 11 and plain_axes and stretched and known_mode and not t.attr("antialias"):
        attrs = {k: v for k, v in t.node.attrs.items() if k not in _NEW}
        rest = [t.optional(i) for i in (1, 2, 3)]
        if t.opset < 13:  # what is not wanted is a vector of no elements
            nothing = constant(np.zeros(0, np.float32))
            rest[:2] = [nothing if s is None else s for s in rest[:2]]
        return t.older(t.x, *rest, **attrs)
    if t.opset < 11 and plain_axes:
        made = _asymmetric(t)
        if made is not None:
            return made
    return _by_matrices(t)


def roi_align(t: Target) -> Sequence[Symbol]:
    """Before 16 regions were not moved by half a pixel, and nothing said so."""
    if t.attr("coordinate_transformation_mode") != "output_half_pixel":
        t.refuse("it aligns by half a pixel, which came with 16")
    return t.older(*t.node.inputs, **plain(t.node.attrs, "coordinate_transformation_mode"))


def _all_axes(t: Target) -> bool:
    return [t.axis(a, t.rank()) for a in t.attr("axes")] == [*range(t.rank())]


def _asymmetric(t: Target) -> Sequence[Symbol] | None:
    """Coordinates divided by the scale, nearest ones rounded down: all that there was before 11."""
    mode, way = t.attr("mode"), t.attr("coordinate_transformation_mode")
    scales = t.known(2)
    if t.has(3):
        sizes, wanted = t.sizes(), t.setting(3)
        scales = np.array([b / a for a, b in zip(sizes, wanted, strict=True)], np.float32)
        if [int(a * s) for a, s in zip(sizes, scales, strict=True)] != wanted.tolist():
            return None
    whole = scales is not None and bool(np.all(scales >= 1) and np.all(scales == scales.round()))
    growing = scales is not None and bool(np.all(scales >= 1))
    if mode == "nearest":
        down = way == "asymmetric" and t.attr("nearest_mode") == "floor" and growing
        centred = way in ("half_pixel", "pytorch_half_pixel") and whole
        centred &= t.attr("nearest_mode") in ("round_prefer_floor", "round_prefer_ceil")
        if not (down or centred):
            return None
    elif mode != "linear" or way != "asymmetric" or t.attr("exclude_outside"):
        return None
    given = t.input(2) if scales is None else constant(scales.astype(np.float32))
    if t.opset >= 10:
        return t.older(t.x, given, mode=mode)
    if not growing:
        return None
    if t.opset == 9:
        return t.older(t.x, given, op="Upsample", mode=mode)
    assert scales is not None
    return t.older(t.x, op="Upsample", scales=tuple(float(s) for s in scales), mode=mode)


def _by_matrices(t: Target) -> Sequence[Symbol]:
    if t.attr("coordinate_transformation_mode") == "tf_crop_and_resize":
        t.refuse("crops cannot be said")
    if not t.x.dtype.is_float:
        t.refuse(f"{t.x.dtype} cannot be resized so")
    rank, out = t.rank(), t.node.outputs[0].shape
    assert out is not None
    made = t.x
    for axis, setting in _per_axis(t, rank).items():
        if not isinstance(out[axis], int):
            t.refuse("its size is not known")
        matrix = _matrix(t, t.size(axis), setting)
        if t.attr("mode") == "nearest":
            made = t.op("Gather", made, ints(matrix.argmax(0)), axis=axis)
            continue
        order = [*range(rank)]
        order[axis], order[-1] = order[-1], order[axis]
        last = axis == rank - 1
        turned = made if last else t.op("Transpose", made, perm=order)
        weights = constant(Tensor.of(matrix.astype(t.x.dtype.numpy), t.x.dtype))
        product = t.op("MatMul", turned, weights)
        made = product if last else t.op("Transpose", product, perm=order)
    return [t.op("Identity", made)] if made is t.x else [made]


def _per_axis(t: Target, rank: int) -> dict[int, tuple[str, Any]]:
    """What is said of each axis that is resized: its scale or its size."""
    along = range(rank) if t.attr("axes") is None else [t.axis(a, rank) for a in t.attr("axes")]
    if t.has(2):
        scales = zip(along, t.setting(2), strict=True)
        return {axis: ("scales", scale) for axis, scale in scales if scale != 1}
    out = t.node.outputs[0].shape
    assert out is not None
    wanted = {axis: int(w) for axis, w in zip(along, t.setting(3), strict=True)}
    if t.attr("keep_aspect_ratio_policy") != "stretch":  # which the sizes are rounded from
        t.refuse("it keeps no ratio of sizes")
    return {axis: ("sizes", w) for axis, w in wanted.items() if w != t.size(axis)}


def _matrix(t: Target, size: int, setting: tuple[str, Any]) -> NDArray[Any]:
    """What resizing a vector along its axis is: the rows are the vectors of one one."""
    kind, value = setting
    x = constant(np.eye(size, dtype=np.float32))
    attrs = {k: v for k, v in t.node.attrs.items() if k not in _NEW[1:]} | {"axes": (1,)}
    scales = sizes = None
    if kind == "scales":
        scales = constant(np.array([value], np.float32))
    else:
        sizes = ints([value])
    node = apply(find_op("Resize"), [x, None, scales, sizes], attrs, where=t.node.where)[0].node
    values = [None if s is None else s.node.attrs["value"].value for s in node.inputs]
    found: NDArray[Any] = np.asarray(evaluate(node, values)[0])
    return found
