"""Pooling: windows that keep the channels, and pooling over all of space."""

from __future__ import annotations

from neuralsym.core.op import Op


class MaxPool(Op):
    """The largest element of each window, and where it was."""


class AveragePool(Op):
    """The mean of each window."""


class LpPool(Op):
    """The Lp norm of each window."""


class GlobalAveragePool(Op):
    """The mean over all spatial axes."""


class GlobalMaxPool(Op):
    """The largest element over all spatial axes."""


class GlobalLpPool(Op):
    """The Lp norm over all spatial axes."""


class MaxUnpool(Op):
    """Zeros, with the elements of X put back where MaxPool had found them."""


class MaxRoiPool(Op):
    """The largest element in each cell of a grid over each region of interest."""
