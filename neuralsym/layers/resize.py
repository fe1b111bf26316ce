"""Layers that change the size of space by repetition or interpolation.

Inputs are [batch, channels, *space]. Keras's upsampling takes whole factors; torch's `upsample`
takes any size or factor, and may align the corners.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch, did_you_mean
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer, plain_layer
from neuralsym.layers.padding import surround
from neuralsym.layers.window import Sizes, axis_sizes

Interpolation = Literal["nearest", "bilinear", "bicubic"]
Mode = Literal["nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic"]

_KERAS = {"nearest": "nearest-exact", "bilinear": "linear", "bicubic": "cubic"}
_CUBIC = {"cubic_coeff_a": -0.5, "exclude_outside": 1}
"""Keys's cubic, its weights made to sum to one at the edges: Keras's over TensorFlow and JAX."""

_TORCH = {
    "nearest": ("nearest", None),
    "nearest-exact": ("nearest-exact", None),
    "linear": ("linear", 1),
    "bilinear": ("linear", 2),
    "trilinear": ("linear", 3),
    "bicubic": ("cubic", 2),
}


def _resize(x: Symbol, size: dict[str, Any], mode: str, **settings: Any) -> Symbol:
    """ONNX's Resize to `sizes` or by `scales`, in one of four modes, over pixel centres."""
    ways: dict[str, dict[str, Any]] = {
        "nearest": {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        },
        "nearest-exact": {
            "mode": "nearest",
            "coordinate_transformation_mode": "half_pixel",
            "nearest_mode": "round_prefer_ceil",
        },
        "linear": {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
        "cubic": {"mode": "cubic", "coordinate_transformation_mode": "half_pixel"},
    }
    return ops.resize(x, None, **size, **(ways[mode] | settings))


def _scales(factors: Sequence[float]) -> dict[str, Any]:
    return {"scales": np.array([1.0, 1.0, *factors], np.float32)}


def _sizes(sizes: Sequence[int]) -> dict[str, Any]:
    """The setting that gives these spatial sizes; batch and channels stay, whatever they are."""
    return {"sizes": np.array(sizes, np.int64), "axes": tuple(range(2, 2 + len(sizes)))}


def resized(
    x: Symbol, size: tuple[int, int], interpolation: str, antialias: bool = False
) -> Symbol:
    """[N, C, H, W] with another height and width, over pixel centres, as Keras interpolates."""
    if interpolation not in _KERAS:
        raise BadAttribute(_unknown("interpolation", interpolation, _KERAS))
    mode = _KERAS[interpolation]
    settings = _CUBIC if mode == "cubic" else {}
    if antialias and mode != "nearest-exact":
        settings = settings | {"antialias": 1, "exclude_outside": 1}
    return _resize(x, _sizes(size), mode, **settings)


def _unknown(setting: str, given: object, known: dict[str, Any]) -> str:
    hint = did_you_mean(str(given), known)
    lost = "; Lanczos has no operator in ONNX" if str(given).startswith("lanczos") else ""
    return f"{setting}={given!r}{hint}; known: {', '.join(known)}{lost}"


def crop_to_ratio(x: Symbol, height: int, width: int) -> Symbol:
    """The middle of [N, C, H, W] that has the ratio height to width, as Keras cuts it."""
    h, w = (int(require_shape(x, 4, axis=axis)[axis]) for axis in (2, 3))
    kept = [max(min(h, w * height // width), 1), max(min(w, h * width // height), 1)]
    starts = [(h - kept[0]) // 2, (w - kept[1]) // 2]
    if kept == [h, w]:
        return x
    return ops.slice(x, starts, [s + k for s, k in zip(starts, kept, strict=True)], [2, 3])


@layer
def resizing(
    x: Symbol,
    height: int,
    width: int,
    interpolation: Interpolation = "bilinear",
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    fill_mode: Literal["constant"] = "constant",
    fill_value: float = 0.0,
    antialias: bool = False,
    *,
    name: str | None = None,
) -> Symbol:
    """[N, C, H, W] -> [N, C, height, width] over pixel centres (half_pixel).

    interpolation: "bilinear", "nearest" or "bicubic" (the coefficient is -0.5 as in Keras over
    TensorFlow and JAX, and in torch with antialias; torch without has -0.75, see `upsample`).
    crop_to_aspect_ratio cuts the edges off first, pad_to_aspect_ratio surrounds with fill_value
    first, so that the ratio stays; both need a fixed height and width. antialias: smooth while
    shrinking. Raises BadAttribute for an unknown interpolation or fill_mode, sizes below 1 and
    both ratios at once; ShapeMismatch for an input of another rank.

    Keras Resizing; torch functional.interpolate; ONNX Resize, with Slice or Pad before it.
    """
    axis_sizes((height, width), 2, "height, width")
    if fill_mode != "constant":
        raise BadAttribute(f"fill_mode={fill_mode!r}: only 'constant' is known")
    if crop_to_aspect_ratio and pad_to_aspect_ratio:
        raise BadAttribute("crop_to_aspect_ratio and pad_to_aspect_ratio exclude each other")
    require_shape(x, 4)
    if crop_to_aspect_ratio:
        x = crop_to_ratio(x, height, width)
    if pad_to_aspect_ratio:
        h, w = (int(require_shape(x, 4, axis=axis)[axis]) for axis in (2, 3))
        wanted = max(h, w * height // width), max(w, h * width // height)
        rests = [(wanted[0] - h) // 2, (wanted[1] - w) // 2]
        x = surround(x, [(rest, rest) for rest in rests], value=fill_value)
    return resized(x, (height, width), interpolation, antialias)


# -- by whole factors, as Keras ----------------------------------------------------------------
def _upsample(x: Symbol, rank: int, size: Sizes, interpolation: str) -> Symbol:
    require_shape(x, rank + 2)
    factors = axis_sizes(size, rank, "size")
    if interpolation not in _KERAS:
        raise BadAttribute(_unknown("interpolation", interpolation, _KERAS))
    if interpolation == "bicubic" and rank != 2:
        raise BadAttribute(f"interpolation='bicubic' is for two spatial axes, not {rank}")
    mode = "nearest" if interpolation == "nearest" else _KERAS[interpolation]
    return _resize(x, _scales(factors), mode, **(_CUBIC if mode == "cubic" else {}))


@plain_layer
def upsampling1d(
    x: Symbol, size: Sizes = 2, interpolation: Interpolation = "nearest", *, name: str | None = None
) -> Symbol:
    """Each step of [N, C, W] repeated `size` times, [N, C, W * size].

    See upsampling2d; Keras's layer has "nearest" only.

    Keras UpSampling1D; torch Upsample; Owl UpSampling1D (an empty stub there); ONNX Resize.
    """
    return _upsample(x, 1, size, interpolation)


@plain_layer
def upsampling2d(
    x: Symbol,
    size: Sizes = 2,
    interpolation: Interpolation = "nearest",
    *,
    name: str | None = None,
) -> Symbol:
    """[N, C, H, W] enlarged by whole factors, [N, C, H * size, W * size].

    "nearest" repeats rows and columns; "bilinear" and "bicubic" take pixel centres (half_pixel,
    torch's align_corners=False; bicubic's coefficient is -0.5 as in Keras over TensorFlow and JAX,
    torch's -0.75, see `upsample`). Raises BadAttribute for another interpolation (Keras's lanczos3
    and lanczos5 are not in ONNX) and factors below 1, ShapeMismatch for an input of another rank.

    Keras UpSampling2D; torch Upsample; Owl upsampling2d; ONNX Resize.
    """
    return _upsample(x, 2, size, interpolation)


@plain_layer
def upsampling3d(
    x: Symbol, size: Sizes = 2, interpolation: Interpolation = "nearest", *, name: str | None = None
) -> Symbol:
    """Each voxel of [N, C, D, H, W] repeated along its axes.

    See upsampling2d; Keras's layer has "nearest" only, "bilinear" is torch's trilinear.

    Keras UpSampling3D; torch Upsample; Owl UpSampling3D (an empty stub there); ONNX Resize.
    """
    return _upsample(x, 3, size, interpolation)


# -- to any size or by any factor, as torch ----------------------------------------------------
@plain_layer
def upsample(
    x: Symbol,
    size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: Mode = "nearest",
    align_corners: bool = False,
    *,
    name: str | None = None,
) -> Symbol:
    """[N, C, *space] with each spatial axis of another size, by one to three axes.

    size: the sizes wanted, or scale_factor: a factor for each axis, floor(n * factor) elements.
    mode: "nearest" (asymmetric, as torch), "nearest-exact" (pixel centres), "linear" of one axis,
    "bilinear" and "bicubic" of two, "trilinear" of three. align_corners: corner elements keep
    their places. Raises BadAttribute unless exactly one of size and scale_factor is given, and
    for a mode of another number of axes; ShapeMismatch where nothing would be left, and for
    aligned corners with a factor that is not whole over open sizes.

    torch Upsample; ONNX Resize.
    """
    rank = len(require_shape(x)) - 2
    if not 1 <= rank <= 3:
        raise ShapeMismatch(f"takes [N, C, *space] with one to three spatial axes, came {x.type}")
    if mode not in _TORCH:
        raise BadAttribute(_unknown("mode", mode, _TORCH))
    way, axes = _TORCH[mode]
    if axes not in (None, rank):
        raise BadAttribute(f"mode={mode!r} is for {axes} spatial axes, {x.type} has {rank}")
    settings: dict[str, Any] = {}
    if align_corners:
        if axes is None:
            raise BadAttribute(f"align_corners has no meaning for mode={mode!r}")
        settings["coordinate_transformation_mode"] = "align_corners"
    if (size is None) == (scale_factor is None):
        raise BadAttribute(
            f"size={size!r}, scale_factor={scale_factor!r}: exactly one of them is needed"
        )
    if size is not None:
        return _resize(x, _sizes(axis_sizes(size, rank, "size")), way, **settings)
    given = scale_factor if isinstance(scale_factor, (Sequence, np.ndarray)) else None
    factors = [float(f) for f in given] if given is not None else [float(scale_factor)] * rank  # type: ignore[arg-type]
    if len(factors) != rank or not all(0 < f < np.inf for f in factors):
        raise BadAttribute(f"scale_factor={scale_factor!r}: a positive number, or {rank} of them")
    lengths = require_shape(x)[2:]
    for axis, (length, factor) in enumerate(zip(lengths, factors, strict=True), 2):
        if isinstance(length, int) and int(length * factor) < 1:
            raise ShapeMismatch(f"scale_factor {factor} leaves nothing of axis {axis} of {x.type}")
    if align_corners and not all(f.is_integer() for f in factors):
        # ONNX aligns the corner n * factor, torch and onnxruntime floor(n * factor).
        if not all(isinstance(length, int) for length in lengths):
            raise ShapeMismatch(
                f"align_corners with scale_factor={scale_factor!r}, no whole number, needs fixed "
                f"sizes, came {x.type}; give input() them"
            )
        whole = [int(n * f) for n, f in zip(lengths, factors, strict=True)]
        return _resize(x, _sizes(whole), way, **settings)
    # A scale is a float32: 10 * 0.7 is 7 for torch, and a bit less than 7 for onnx's checker.
    told = {
        axis: int(length * factor)
        for axis, (length, factor) in enumerate(zip(lengths, factors, strict=True), 2)
        if isinstance(length, int)
        and int(length * factor) != int(length * float(np.float32(factor)))
    }
    if told:
        sizes = {"sizes": np.array([*told.values()], np.int64), "axes": tuple(told)}
        x = _resize(x, sizes, way, **settings)
        factors = [1.0 if axis in told else f for axis, f in enumerate(factors, 2)]
        if all(f == 1.0 for f in factors):
            return x
    return _resize(x, _scales(factors), way, **settings)


@plain_layer
def upsampling_nearest2d(
    x: Symbol,
    size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """`upsample` of [N, C, H, W] with mode "nearest"; settings and errors are the same.

    torch UpsamplingNearest2d; ONNX Resize.
    """
    require_shape(x, 4)
    return x | upsample(size, scale_factor, "nearest")


@plain_layer
def upsampling_bilinear2d(
    x: Symbol,
    size: Sizes | None = None,
    scale_factor: float | Sequence[float] | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """`upsample` of [N, C, H, W] with mode "bilinear" and the corners aligned, as torch has it.

    torch UpsamplingBilinear2d; ONNX Resize.
    """
    require_shape(x, 4)
    return x | upsample(size, scale_factor, "bilinear", align_corners=True)
