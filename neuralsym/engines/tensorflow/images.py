"""TensorFlow's operations on pictures and signals: convolutions, pools, norms, resizing.

Channels come last there unless `data_format` says otherwise; ONNX has them second, so values are
transposed before and after, which the passes take out again between neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.engines.flow.helpers import Build, Built
from neuralsym.engines.flow.step import Step


class Layout:
    """Where an operation has its channels, and its settings in the order of the spatial axes."""

    def __init__(self, step: Step, x: Symbol) -> None:
        if x.rank is None or x.rank < 3:
            step.wrong(f"takes values with a batch, channels and spatial axes, came {x.type}")
        self.step = step
        self.rank = x.rank
        self.space = x.rank - 2
        self.last = not step.op.attr("data_format", "NHWC").startswith("NC")

    def first(self, x: Symbol) -> Symbol:
        """With the channels behind the batch."""
        if not self.last:
            return x
        return ops.transpose(x, perm=(0, self.rank - 1, *range(1, self.rank - 1)))

    def back(self, x: Symbol) -> Symbol:
        """As the operation has it."""
        return ops.transpose(x, perm=(0, *range(2, self.rank), 1)) if self.last else x

    def setting(self, name: str) -> list[int]:
        """An attribute with an entry for each axis, of the spatial ones."""
        found = self.step.integers(name)
        if not found:
            return [1] * self.space
        if len(found) != self.rank:
            self.step.wrong(
                f"attribute {name} has {len(found)} entries, its values {self.rank} axes"
            )
        return self.spatial(found)

    def spatial(self, of_all: Sequence[int]) -> list[int]:
        return list(of_all[1:-1] if self.last else of_all[2:])

    def sizes(self, x: Symbol) -> list[Any]:
        """The sizes of the spatial axes of a value that has its channels second."""
        return list((x.shape or (None,) * self.rank)[2:])

    def pads(
        self, x: Symbol, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
    ) -> dict[str, Any]:
        """The padding of an operator, as `padding` says."""
        kind = self.step.op.attr("padding", "VALID")
        if kind == "VALID":
            return {}
        if kind == "EXPLICIT":
            given = self.step.integers("explicit_paddings") or []
            if len(given) != 2 * self.rank:
                self.step.wrong(f"attribute explicit_paddings has {len(given)} entries")
            return {"pads": [*self.spatial(given[0::2]), *self.spatial(given[1::2])]}
        if kind != "SAME":
            self.step.wrong(f"attribute padding={kind!r} is none of SAME, VALID, EXPLICIT")
        totals = []
        for size, k, s, d in zip(self.sizes(x), kernel, strides, dilations, strict=True):
            wide = (k - 1) * d + 1
            if s == 1:
                totals.append(wide - 1)
            elif isinstance(size, int):
                totals.append(max((-(-size // s) - 1) * s + wide - size, 0))
            else:
                return {"auto_pad": "SAME_UPPER"}
        return {"pads": [*(t // 2 for t in totals), *(t - t // 2 for t in totals)]}


def _kernel(step: Step, w: Symbol, rank: int) -> list[int]:
    """The shape of a filter, which must be known."""
    if w.rank != rank or w.shape is None or not all(isinstance(d, int) for d in w.shape):
        step.wrong(f"its filter must have {rank} known sizes, it is {w.type}")
    return [d for d in w.shape if isinstance(d, int)]


def _conv(step: Step) -> Built:
    x, w = step.take(2)
    layout = Layout(step, x)
    x = layout.first(x)
    *kernel, taken, _ = _kernel(step, w, layout.rank)
    channels = (x.shape or (None, None))[1]
    group = channels // taken if isinstance(channels, int) and taken else 1
    strides, dilations = layout.setting("strides"), layout.setting("dilations")
    space = layout.space
    w = ops.transpose(w, perm=(space + 1, space, *range(space)))
    pads = layout.pads(x, kernel, strides, dilations)
    return layout.back(_convolved(x, w, kernel, strides, dilations, group, pads))


def _depthwise(step: Step) -> Built:
    x, w = step.take(2)
    layout = Layout(step, x)
    x = layout.first(x)
    *kernel, channels, each = _kernel(step, w, layout.rank)
    strides, dilations = layout.setting("strides"), layout.setting("dilations")
    w = ops.reshape(ops.transpose(w, perm=(2, 3, 0, 1)), np.array([channels * each, 1, *kernel]))
    pads = layout.pads(x, kernel, strides, dilations)
    return layout.back(_convolved(x, w, kernel, strides, dilations, channels, pads))


def _convolved(
    x: Symbol,
    w: Symbol,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    group: int,
    pads: dict[str, Any],
) -> Symbol:
    return ops.conv(
        x, w, kernel_shape=kernel, strides=strides, dilations=dilations, group=group, **pads
    )


def _conv_backwards(step: Step) -> Built:
    """A transposed convolution: sizes of the result, filter [*kernel, out, in], values."""
    _, w, x = step.take(3)
    layout = Layout(step, x)
    x = layout.first(x)
    *kernel, _, _ = _kernel(step, w, layout.rank)
    strides, dilations = layout.setting("strides"), layout.setting("dilations")
    known = step.inputs[0].known
    wanted: list[Any] = [None] * layout.space
    if known is not None and known.size == layout.rank:
        wanted = list(layout.spatial(list(known.reshape(-1))))
    same = step.op.attr("padding", "VALID") == "SAME"
    if step.op.attr("padding") == "EXPLICIT":
        step.wrong("a transposed convolution with explicit paddings is not known")
    before, after, extra = [], [], []
    sizes = zip(layout.sizes(x), wanted, kernel, strides, dilations, strict=True)
    for size, out, k, s, d in sizes:
        wide = (k - 1) * d + 1
        if isinstance(size, int) and isinstance(out, (int, np.integer)):
            total = max((size - 1) * s + wide - int(out), 0) if same else 0
            grown = int(out) - ((size - 1) * s + wide - total)
        else:  # the sizes that TensorFlow's layers ask for
            total, grown = (max(wide - s, 0), max(s - wide, 0)) if same else (0, max(s - wide, 0))
        before.append(total // 2)
        after.append(total - total // 2)
        extra.append(grown)
    space = layout.space
    w = ops.transpose(w, perm=(space + 1, space, *range(space)))
    made = ops.conv_transpose(
        x,
        w,
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        pads=[*before, *after],
        output_padding=extra if any(extra) else None,
    )
    return layout.back(made)


def _pool(pool: Callable[..., Symbol]) -> Build:
    def build(step: Step) -> Built:
        (x,) = step.take(1)
        layout = Layout(step, x)
        x = layout.first(x)
        kernel, strides = layout.setting("ksize"), layout.setting("strides")
        pads = layout.pads(x, kernel, strides, [1] * layout.space)
        return layout.back(pool(x, kernel, strides=strides, **pads))

    return build


def _bias_add(step: Step) -> Built:
    x, bias = step.take(2)
    if step.op.attr("data_format").startswith("NC") and x.rank is not None and x.rank > 2:
        bias = ops.unsqueeze(bias, np.arange(1, x.rank - 1))
    return ops.add(x, bias)


def _batch_norm(step: Step) -> Built:
    x, scale, offset, mean, variance = step.take(5)
    if step.op.flag_attr("is_training", True):
        step.wrong("it is in training mode; export the model for inference")
    layout = Layout(step, x)
    epsilon = step.number("epsilon", 1e-4)
    made = ops.batch_normalization(layout.first(x), scale, offset, mean, variance, epsilon=epsilon)
    # Training would give statistics of the batch; at inference these are what came.
    return [layout.back(made), mean, variance, mean, variance, variance][: len(step.op.outputs)]


def _resize(mode: str) -> Build:
    def build(step: Step) -> Built:
        x, size = step.take(2)
        layout = Layout(step, x)
        settings: dict[str, Any] = {"mode": mode}
        if step.op.flag_attr("align_corners"):
            place = "align_corners"
        elif step.op.flag_attr("half_pixel_centers"):
            place = "half_pixel"
        else:
            place = "asymmetric"
        if mode == "nearest":  # the pixel that the middle of the new one lies in
            settings["nearest_mode"] = "floor" if place == "asymmetric" else "round_prefer_ceil"
        if mode == "cubic":
            half = place == "half_pixel"
            settings |= {"cubic_coeff_a": -0.5 if half else -0.75, "exclude_outside": int(half)}
        made = ops.resize(
            layout.first(x),
            sizes=ops.cast(size, to="int64"),
            axes=(2, 3),
            coordinate_transformation_mode=place,
            **settings,
        )
        made = layout.back(made)
        return made if mode == "nearest" else ops.cast(made, to="float32")

    return build


def _lrn(step: Step) -> Built:
    (x,) = step.take(1)
    layout = Layout(step, x)
    radius = step.integer("depth_radius", 5) or 0
    size = 2 * radius + 1
    made = ops.lrn(
        layout.first(x),
        size,
        alpha=step.number("alpha", 1.0) * size,
        beta=step.number("beta", 0.5),
        bias=step.number("bias", 1.0),
    )
    return layout.back(made)


def _blocks(move: Callable[..., Symbol]) -> Build:
    def build(step: Step) -> Built:
        (x,) = step.take(1)
        layout = Layout(step, x)
        return layout.back(move(layout.first(x), step.integer("block_size", 2)))

    return build


IMAGES: dict[str, Build] = {
    "Conv2D": _conv,
    "Conv3D": _conv,
    "DepthwiseConv2dNative": _depthwise,
    "Conv2DBackpropInput": _conv_backwards,
    "Conv3DBackpropInputV2": _conv_backwards,
    "MaxPool": _pool(ops.max_pool),
    "MaxPool3D": _pool(ops.max_pool),
    "AvgPool": _pool(ops.average_pool),
    "AvgPool3D": _pool(ops.average_pool),
    "BiasAdd": _bias_add,
    "FusedBatchNorm": _batch_norm,
    "FusedBatchNormV2": _batch_norm,
    "FusedBatchNormV3": _batch_norm,
    "ResizeBilinear": _resize("linear"),
    "ResizeNearestNeighbor": _resize("nearest"),
    "ResizeBicubic": _resize("cubic"),
    "LRN": _lrn,
    "DepthToSpace": _blocks(ops.depth_to_space),
    "SpaceToDepth": _blocks(ops.space_to_depth),
}
"""Operations on pictures by their type."""
