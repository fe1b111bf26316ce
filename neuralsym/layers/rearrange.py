"""Layers that move values between channels and space: pixel and channel shuffles.

Inputs are [batch, channels, *space].
"""

from __future__ import annotations

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer


@layer
def pixel_shuffle(x: Symbol, upscale_factor: int, *, name: str | None = None) -> Symbol:
    """[N, C * r^2, H, W] -> [N, C, H * r, W * r]: channels become pixels.

    Raises BadAttribute for a factor below 1 or whose square does not divide the channels.

    torch PixelShuffle; ONNX DepthToSpace of mode CRD.
    """
    channels = require_shape(x, 4, axis=1)[1]
    if upscale_factor < 1 or channels % upscale_factor**2:
        raise BadAttribute(
            f"upscale_factor={upscale_factor}: its square must divide the {channels} channels of "
            f"{x.type}"
        )
    return ops.depth_to_space(x, upscale_factor, mode="CRD")


@layer
def pixel_unshuffle(x: Symbol, downscale_factor: int, *, name: str | None = None) -> Symbol:
    """[N, C, H * r, W * r] -> [N, C * r^2, H, W]: pixels become channels, back from pixel_shuffle.

    Raises BadAttribute for a factor below 1, ShapeMismatch where it does not divide the height and
    the width or more than one of these is open.

    torch PixelUnshuffle; ONNX Reshape, Transpose, Reshape.
    """
    r = downscale_factor
    if r < 1:
        raise BadAttribute(f"downscale_factor={r}: must be at least 1")
    shape = require_shape(x, 4, axis=1)
    channels, sizes = int(shape[1]), shape[2:]
    for axis, size in enumerate(sizes, 2):
        if isinstance(size, int) and size % r:
            raise ShapeMismatch(
                f"downscale_factor={r} does not divide the {size} of axis {axis} of {x.type}"
            )
    height, width = (n // r if isinstance(n, int) else -1 for n in sizes)
    if height == width == -1:
        raise ShapeMismatch(f"needs a fixed height or width, came {x.type}; give input() one")
    parts = ops.reshape(x, [0, channels, height, r, width, r])
    moved = ops.transpose(parts, perm=(0, 1, 3, 5, 2, 4))
    return ops.reshape(moved, [0, channels * r * r, height, width])


@layer
def channel_shuffle(x: Symbol, groups: int, *, name: str | None = None) -> Symbol:
    """[N, C, *space] with the channels dealt out anew: the first of each group, then the second.

    Raises BadAttribute for groups that do not divide the channels.

    torch ChannelShuffle; ONNX Gather.
    """
    channels = int(require_shape(x, axis=1)[1])
    if groups < 1 or channels % groups:
        raise BadAttribute(f"groups={groups}: must divide the {channels} channels of {x.type}")
    order = np.arange(channels, dtype=np.int64).reshape(groups, -1).T.reshape(-1)
    return ops.gather(x, order, axis=1)
