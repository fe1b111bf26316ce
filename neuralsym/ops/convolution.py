"""Convolutions: what they accept and the shapes that they give."""

from __future__ import annotations

from neuralsym.core.op import Op


class Conv(Op):
    """Sliding-window product of X with the filters W, plus bias B."""


class ConvTranspose(Op):
    """The transpose of Conv: each element of X spreads a filter of W over the output."""


class ConvInteger(Op):
    """Conv of 8-bit integers less their zero points, summed in int32."""


class QLinearConv(Op):
    """Conv of quantized tensors, with a quantized result."""


class DeformConv(Op):
    """Conv whose filter taps are displaced by `offset` and weighted by `mask`."""


class CausalConvWithState(Op):
    """1-D convolution over the past only, carrying the last inputs as state."""


class Col2Im(Op):
    """Sum blocks, the columns of a matrix, back into the image that they were taken from."""
