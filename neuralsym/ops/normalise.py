"""Normalisations, which keep the shape of their input."""

from __future__ import annotations

from neuralsym.core.op import Op


class BatchNormalization(Op):
    """(X - mean) / sqrt(var + epsilon) * scale + B, for each channel."""


class InstanceNormalization(Op):
    """Each channel of each entry less its mean, over its deviation."""


class LayerNormalization(Op):
    """The axes from `axis` on less their mean, over their deviation."""


class GroupNormalization(Op):
    """Groups of channels less their mean, over their deviation."""


class RMSNormalization(Op):
    """The axes from `axis` on over their root mean square."""


class LRN(Op):
    """Each element over a power of the sum of squares of its neighbouring channels."""


class MeanVarianceNormalization(Op):
    """(X - mean) / deviation over some axes."""


class LpNormalization(Op):
    """The input over its Lp norm along an axis."""
