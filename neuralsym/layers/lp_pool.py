"""Pooling by the Lp norm of each window. Inputs are [batch, channels, *space]."""

from __future__ import annotations

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.factory import plain_layer
from neuralsym.layers.pool import pool_window
from neuralsym.layers.window import Padding, Sizes


def _lp_pool(
    x: Symbol,
    rank: int,
    pool_size: Sizes,
    strides: Sizes | None,
    padding: Padding,
    p: int,
    ceil_mode: bool,
) -> Symbol:
    if p < 1:
        raise BadAttribute(f"p={p}: must be at least 1")
    return ops.lp_pool(x, p=p, **pool_window(x, rank, pool_size, strides, padding, ceil_mode))


@plain_layer
def lp_pool1d(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    p: int = 2,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Symbol:
    """The Lp norm of each window, [N, C, W] -> [N, C, W']; see lp_pool2d.

    torch LPPool1d (which has norm_type first); ONNX LpPool.
    """
    return _lp_pool(x, 1, pool_size, strides, padding, p, ceil_mode)


@plain_layer
def lp_pool2d(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    p: int = 2,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Symbol:
    """The Lp norm of each window, [N, C, H, W] -> [N, C, H', W'].

    It is the p-th root of the sum of |x|^p. strides, padding and errors: as in max_pool2d;
    BadAttribute also for a p below 1. ceil_mode: partial windows too, of which torch scales the sum
    up to a whole window's and ONNX does not. (Of negative numbers with an odd p torch takes the
    signs along; ONNX does not.)

    torch LPPool2d (which has norm_type first); ONNX LpPool.
    """
    return _lp_pool(x, 2, pool_size, strides, padding, p, ceil_mode)


@plain_layer
def lp_pool3d(
    x: Symbol,
    pool_size: Sizes = 2,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    *,
    p: int = 2,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Symbol:
    """The Lp norm of each window, [N, C, D, H, W] -> [N, C, D', H', W']; see lp_pool2d.

    torch LPPool3d (which has norm_type first); ONNX LpPool.
    """
    return _lp_pool(x, 3, pool_size, strides, padding, p, ceil_mode)
