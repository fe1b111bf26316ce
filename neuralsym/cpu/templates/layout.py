"""Where the elements of an activation lie: blocks of channels, a physical halo, aligned tables.

A plane is [N][C / lanes][D + halo][H + halo][W + halo][lanes]. With `lanes` equal to the vector
width it is "blocked" (NCHWc), with `lanes` 1 it is the plain order of ONNX, halo or not. Kernels
get the address of the first *inner* pixel, so that padding is nothing but a negative offset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from neuralsym.core.locks import cached_property

Array = npt.NDArray[Any]
Words = npt.NDArray[np.int64]
Triple = tuple[int, int, int]

ALIGNMENT = 64


def triple(values: Sequence[int], fill: int) -> Triple:
    """Spatial values of one to three axes as (depth, height, width), missing ones `fill`."""
    depth, height, width = (fill,) * (3 - len(values)) + tuple(values)
    return depth, height, width


def aligned(array: Array) -> Array:
    """A contiguous copy whose first byte is at a multiple of 64."""
    copy = aligned_room(array.shape, array.dtype)
    copy[...] = array
    return copy


def aligned_room(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """A new array, not filled, whose first byte is at a multiple of 64."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room: Array = np.empty(size + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    made: Array = room[start : start + size].view(dtype).reshape(shape)
    return made


@dataclass(frozen=True)
class Plane:
    """Geometry of one activation buffer, or of a range of channels of a larger one.

    `batch_bytes` is the distance between batch entries where this plane is a part of a larger
    buffer (a concatenation written in place); by default the plane stands alone.
    """

    channels: int
    size: Triple
    lanes: int
    before: Triple = (0, 0, 0)
    after: Triple = (0, 0, 0)
    itemsize: int = 4
    batch_bytes: int | None = None

    # Tables ask for these at every place: they are worked out once.
    @cached_property
    def padded(self) -> Triple:
        depth, height, width = (
            b + s + a for b, s, a in zip(self.before, self.size, self.after, strict=True)
        )
        return depth, height, width

    @property
    def blocks(self) -> int:
        return -(-self.channels // self.lanes)

    @cached_property
    def pixel(self) -> int:
        """Bytes from one pixel to the next."""
        return self.lanes * self.itemsize

    @cached_property
    def row(self) -> int:
        return self.padded[2] * self.pixel

    @cached_property
    def slice(self) -> int:
        return self.padded[1] * self.row

    @property
    def block(self) -> int:
        """Bytes from one block of channels to the next."""
        return self.padded[0] * self.slice

    @property
    def batch(self) -> int:
        """Bytes from one batch entry to the next."""
        return self.blocks * self.block if self.batch_bytes is None else self.batch_bytes

    @property
    def origin(self) -> int:
        """Bytes from the buffer's start to the first inner pixel."""
        return self.offset((0, 0, 0)) - self.offset(
            (-self.before[0], -self.before[1], -self.before[2])
        )

    @property
    def flat(self) -> bool:
        """Whether all inner pixels of a block of channels follow each other without a gap."""
        return not any(self.before) and not any(self.after)

    @overload
    def offset(self, position: Triple) -> int: ...
    @overload
    def offset(self, position: tuple[Words, Words, Words]) -> Words: ...
    def offset(self, position: Any) -> Any:
        """Bytes from the first inner pixel to the pixel at `position`, or to each of several."""
        return position[0] * self.slice + position[1] * self.row + position[2] * self.pixel

    def bytes(self, batch: int) -> int:
        return batch * self.batch

    def within(self, channels: int) -> Plane:
        """The same plane as a part of a buffer of that many channels."""
        return replace(self, batch_bytes=-(-channels // self.lanes) * self.block)


def output_size(
    size: Triple, kernel: Triple, strides: Triple, dilations: Triple, before: Triple, after: Triple
) -> Triple:
    """The ONNX formula of Conv (floor): (in + pads - dilation * (kernel - 1) - 1) // stride + 1."""
    depth, height, width = (
        (size[i] + before[i] + after[i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        for i in range(3)
    )
    return depth, height, width


def halo_after(
    size: Triple, output: Triple, kernel: Triple, strides: Triple, dilations: Triple, before: Triple
) -> Triple:
    """How many pixels past the inner ones a window reaches on each axis."""
    depth, height, width = (
        max(
            0,
            (output[i] - 1) * strides[i] + dilations[i] * (kernel[i] - 1) - before[i] - size[i] + 1,
        )
        for i in range(3)
    )
    return depth, height, width


def even_parts(total: int, most: int) -> list[int]:
    """`total` cut into the fewest parts of at most `most`, differing by at most one."""
    count = max(1, math.ceil(total / most))
    short, long = divmod(total, count)
    return [short + 1] * long + [short] * (count - long)


def greedy_parts(total: int, sizes: Sequence[int]) -> list[int]:
    """`total` cut into the given sizes, largest first; ValueError if a rest is left."""
    parts: list[int] = []
    for size in sorted(sizes, reverse=True):
        count, total = divmod(total, size)
        parts += [size] * count
    if total:
        raise ValueError(f"{total} left over by the sizes {tuple(sizes)}")
    return parts
