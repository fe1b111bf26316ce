"""Where the elements of a step's operands lie, in the terms of the templates, and its windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from neuralsym.core.dim import Dim
from neuralsym.cpu.machine import Target
from neuralsym.cpu.program import Buffer, Operand, Role, Sizes, Step
from neuralsym.cpu.templates.layout import Plane, Triple, triple
from neuralsym.dtypes import NumberType

Pairs = tuple[tuple[int, int], ...]


def plane(buffer: Buffer, sizes: Sizes) -> Plane:
    """The geometry of a buffer [N][C][spatial ...] of at most three spatial axes."""
    shape, layout = sizes.shape(buffer), buffer.layout
    return Plane(
        shape[1],
        triple(shape[2:], 1),
        layout.block or 1,
        triple([before for before, _ in layout.halo], 0),
        triple([after for _, after in layout.halo], 0),
        buffer.dtype.itemsize,
        sizes.strides(buffer)[0],
    )


def inner(buffer: Buffer, sizes: Sizes) -> Operand:
    """The address of the first inner pixel of a buffer."""
    return Operand(buffer, sizes.origin(buffer) if buffer.layout.halo else 0)


def registers(target: Target) -> int:
    """Vector registers of the machine."""
    return 32 if target.isa in ("avx512", "neon") else 16


def blockable(buffers: Sequence[Buffer | None]) -> bool | str:
    """Whether blocked float32 kernels can take these operands, or why not."""
    for buffer in buffers:
        if buffer is None:
            continue
        if buffer.dtype is not NumberType.FLOAT32:
            return f"{buffer.name} is {buffer.dtype.value}, the blocked kernels take float32"
        if buffer.role is Role.CONSTANT or buffer.known is not None:
            return f"{buffer.name} is a constant, which stays row-major"
        if not 3 <= buffer.rank <= 5:
            return f"{buffer.name} has {buffer.rank} axes, the blocked kernels take 3 to 5"
        if not isinstance(channels(buffer), int):
            return f"the channels of {buffer.name} are not fixed"
    return True


def stored_array(buffer: Buffer) -> NDArray[Any]:
    """The value of a constant, for one reading: packed weights need not be held twice."""
    assert buffer.constant is not None
    return buffer.constant.once()


def channels(buffer: Buffer) -> int | Dim | None:
    """The size of axis 1."""
    shape = buffer.tensor.shape
    assert shape is not None
    return shape[1]


def fixed(sizes: Sequence[int | Dim | None]) -> tuple[int, ...] | None:
    """The sizes if all of them are numbers."""
    found = [s for s in sizes if isinstance(s, int)]
    return tuple(found) if len(found) == len(sizes) else None


@dataclass(frozen=True)
class Window:
    """A window over spatial axes, with the padding that a run's sizes give it."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def triples(self) -> tuple[Triple, Triple, Triple, Triple, Triple]:
        """All of it as (depth, height, width)."""
        return (
            triple(self.kernel, 1),
            triple(self.strides, 1),
            triple(self.dilations, 1),
            triple(self.before, 0),
            triple(self.after, 0),
        )


def window(step: Step, kernel: Sequence[int], size: Sequence[int]) -> Window:
    """The window of a convolution or pool over an input of these spatial sizes (auto_pad too)."""
    axes = len(kernel)
    ones = (1,) * axes
    strides = tuple(step.attr("strides") or ones)
    dilations = tuple(step.attr("dilations") or ones)
    auto = step.attr("auto_pad") or "NOTSET"
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        places = zip(size, kernel, strides, dilations, strict=True)
        pairs = [_same(auto, n, k, s, d) for n, k, s, d in places]
        before, after = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    else:
        pads = step.attr("pads") if auto == "NOTSET" else None
        pads = tuple(pads or (0,) * (2 * axes))
        before, after = pads[:axes], pads[axes:]
    return Window(tuple(kernel), strides, dilations, before, after)


def _same(auto: str, size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Padding that makes ceil(size / stride) windows fit; an odd one goes where `auto` says."""
    count = -(-size // stride)
    total = max((count - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    short, long = total // 2, total - total // 2
    return (short, long) if auto == "SAME_UPPER" else (long, short)


def widest_halo(step: Step, buffer: Buffer, kernel: Sequence[int]) -> Pairs:
    """The most padding (before, after) of each spatial axis that any size of `buffer` leads to."""
    shape = buffer.tensor.shape
    assert shape is not None
    spatial = fixed(shape[2:])
    auto = step.attr("auto_pad") or "NOTSET"
    if spatial is None and auto.startswith("SAME"):
        # Of the sizes of one stride the smallest remainder needs the most: kernel - 1 in all.
        dilations = step.attr("dilations") or (1,) * len(kernel)
        spans = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        return tuple((-(-s // 2), -(-s // 2)) for s in spans)
    found = window(step, kernel, spatial or (0,) * len(kernel))
    return tuple(zip(found.before, found.after, strict=True))
