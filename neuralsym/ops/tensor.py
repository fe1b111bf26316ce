"""Tensors rearranged: casts, reshapes, joins, splits, padding and repetition."""

from __future__ import annotations

from neuralsym.core.op import Op


class Identity(Op):
    """The input itself."""


class Cast(Op):
    """Each element as another number type."""


class CastLike(Op):
    """Each element as the number type of another tensor."""


class BitCast(Op):
    """The bits of each element read as another number type."""


class Shape(Op):
    """The dimensions of the input from `start` to `end`, as int64."""


class Size(Op):
    """The number of elements of the input, as an int64 scalar."""


class Reshape(Op):
    """The same elements in order, in another shape."""


class Flatten(Op):
    """A matrix: the axes before `axis` as rows, the others as columns."""


class Transpose(Op):
    """The axes in another order; reversed without `perm`."""


class Squeeze(Op):
    """Without the axes of size 1, all of them or those given."""


class Unsqueeze(Op):
    """With axes of size 1 inserted."""


class Concat(Op):
    """The inputs joined along `axis`."""


class Split(Op):
    """Parts of the input along `axis`, of equal or given sizes."""


class Pad(Op):
    """The input with elements added, or cut off, at both ends of its axes."""


class Tile(Op):
    """The input repeated along each axis."""


class Expand(Op):
    """The input broadcast to a shape."""


class DepthToSpace(Op):
    """Blocks of channels rearranged into blocks of space."""


class SpaceToDepth(Op):
    """Blocks of space rearranged into channels."""
