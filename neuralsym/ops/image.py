"""Images: resizing, and sampling on a grid."""

from __future__ import annotations

from neuralsym.core.op import Op


class Resize(Op):
    """The input resampled to other sizes."""


class GridSample(Op):
    """The input sampled at the points of a grid."""


class AffineGrid(Op):
    """The sampling grid of an affine map, for GridSample."""
