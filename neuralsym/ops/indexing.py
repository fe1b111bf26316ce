"""Selection: slices, gathers, scatters, and elements chosen by their values."""

from __future__ import annotations

from neuralsym.core.op import Op


class Slice(Op):
    """Every step-th element from start to end, exclusive, along some axes."""


class Gather(Op):
    """Entries along one axis, picked by an array of indices."""


class GatherElements(Op):
    """For each index, the element at that place along one axis."""


class GatherND(Op):
    """Slices picked by vectors of indices."""


class ScatterElements(Op):
    """A copy of the data with the updates written at indices along one axis."""


class ScatterND(Op):
    """A copy of the data with slices written at vectors of indices."""


class TensorScatter(Op):
    """A cache with an update written from a given place on, for each batch entry."""


class Compress(Op):
    """Entries along one axis where the condition is true."""


class NonZero(Op):
    """The indices of the elements that are not zero, one row for each axis."""


class Unique(Op):
    """The different elements, or slices along an axis, with places and counts."""


class TopK(Op):
    """The k largest or smallest elements along an axis, and where they were."""


class OneHot(Op):
    """A new axis of `depth` entries, on at the index and off elsewhere."""


class ReverseSequence(Op):
    """The first entries of each sequence of a batch reversed."""


class Trilu(Op):
    """The upper or lower triangle of the last two axes, zero elsewhere."""


class CenterCropPad(Op):
    """The input cut or padded about its centre to a shape."""
