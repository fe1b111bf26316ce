"""Transposed convolutions as convolutions whose results are woven together, phase by phase.

With a stride of s, tap s*q + r of a filter reaches only the places s*i + r of the output:

    conv_transpose(x, w)[s*i + r] = sum over q of x[i - q] w[s*q + r]

So a convolution with s*s filters for each channel computes all phases, and DepthToSpace puts them
in their places. The kernels of convolutions are the best there are, and a stride of 1 is nothing
but a convolution with the filters turned round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym import ops
from neuralsym.core.leaves import constant, stored
from neuralsym.core.symbol import Node, Symbol
from neuralsym.dtypes import NumberType
from neuralsym.passes.derived import derived_weight
from neuralsym.rewrite.pattern import P
from neuralsym.rewrite.rule import Result, reject, rule

Array = NDArray[Any]
FEWEST_CHANNELS = 8
"""Below, the vectors of a convolution stay half empty."""
MOST_WORK = 2.0
"""How often the taps that phases add may make the work as large."""


@rule(P.ConvTranspose("x", P.const("w"), P.optional(P.const("b"))).named("conv"))
def phases_of_transposed(x: Symbol, w: Symbol, b: Symbol | None, conv: Node) -> Result:
    """conv_transpose(x, w) = depth_to_space(conv(x, phases of w)), cut by the pads"""
    if x.rank != 4 or x.dtype is not NumberType.FLOAT32:
        return reject("only pictures of float32 are computed by phases")
    if conv.attr("group") != 1 or any(d != 1 for d in conv.attr("dilations") or ()):
        return reject("filters with groups or dilations are not cut into phases")
    if conv.attr("output_shape") or conv.attr("auto_pad") not in (None, "NOTSET"):
        return reject("its pads follow from the size of the output")
    channels, outputs, *kernel = stored(w).shape
    stride, other = conv.attr("strides") or (1, 1)
    if stride != other:
        return reject("the strides of both axes differ, and depth_to_space has one")
    taps = [-(-k // stride) for k in kernel]
    if min(channels, outputs * stride**2) < FEWEST_CHANNELS:
        return reject("there are too few channels for the vectors of a convolution")
    if stride**2 * taps[0] * taps[1] > MOST_WORK * kernel[0] * kernel[1]:
        return reject("the filters would get too many taps that are zero")
    pads = list(conv.attr("pads") or (0,) * 4)
    extra = conv.attr("output_padding") or (0, 0)
    # What stands behind the output when all phases are whole, besides what the pads take off.
    behind = [
        stride * t - k - e + p for t, k, e, p in zip(taps, kernel, extra, pads[2:], strict=True)
    ]
    if min(behind) < 0:
        return reject("the output goes on beyond the last phase")
    cuts = [divmod(p, stride) for p in (*pads[:2], *behind)]
    around = [taps[i % 2] - 1 - whole for i, (whole, _) in enumerate(cuts)]
    if min(around) < 0:
        return reject("the pads take off more than the convolution could add")

    shape = (outputs * stride**2, channels, *taps)
    made = derived_weight(w, shape, [stored(w)], lambda v: _phases(v, stride, taps))
    bias = None
    if b is not None:
        count = stride**2
        bias = derived_weight(b, shape[:1], [stored(b)], lambda v: np.repeat(v, count))
    y = ops.conv(x, made, bias, kernel_shape=taps, pads=around)
    if stride > 1:
        y = ops.depth_to_space(y, blocksize=stride, mode="CRD")
    return _cut(y, [part for _, part in cuts])


def _phases(w: Array, stride: int, taps: Sequence[int]) -> Array:
    """[c, o, stride*q + r ...] as [o*r*r, c, q ...], the last tap first."""
    channels, outputs, *kernel = w.shape
    missing = [(0, stride * t - k) for t, k in zip(taps, kernel, strict=True)]
    w = np.pad(w, ((0, 0), (0, 0), *missing))
    w = w.reshape(channels, outputs, taps[0], stride, taps[1], stride)[:, :, ::-1, :, ::-1]
    return w.transpose(1, 3, 5, 0, 2, 4).reshape(-1, channels, *taps)


def _cut(y: Symbol, parts: Sequence[int]) -> Symbol:
    """Without so many rows and columns: at the top, left, bottom and right."""
    if not any(parts):
        return y
    starts = constant(np.array(parts[:2], np.int64))
    most = np.iinfo(np.int64).max
    ends = constant(np.array([-p if p else most for p in parts[2:]], np.int64))
    return ops.slice(y, starts, ends, constant(np.array([2, 3], np.int64)))


PHASES = (phases_of_transposed,)
