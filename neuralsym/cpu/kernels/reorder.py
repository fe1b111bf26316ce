"""Changes of order between row-major buffers and blocks of channels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from neuralsym.core.leaves import OWN
from neuralsym.cpu.emit import Code, array_kernel
from neuralsym.cpu.kernels.geometry import inner, plane
from neuralsym.cpu.kernels.int8_reorder import byte_move
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, Step, Word
from neuralsym.cpu.templates.layout import Plane
from neuralsym.cpu.templates.reorder import Move, ReorderText, reorder_text, reorder_words


class ReorderKernel(Kernel):
    """The compiler's Reorder step; the halo of its output is zero already."""

    name = "reorder"

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        return [move(self.target.width("float32"), *_sides(step), sizes)]

    def is_apart(self, step: Step) -> bool:
        return True


def _sides(step: Step) -> tuple[Buffer, Buffer]:
    source = step.inputs[0]
    assert source is not None
    return source, step.outputs[0]


def move(width: int, source: Buffer, target: Buffer, sizes: Sizes) -> Row:
    """The row that copies `source` to `target`, each in its own layout."""
    here, there = plane(source, sizes), plane(target, sizes)
    addresses = inner(source, sizes), inner(target, sizes)
    bytes_row = byte_move(here, there, addresses, sizes.shape(source)[0])
    if bytes_row is not None:
        return bytes_row
    kind = _move(here, there, width)
    if kind is None or source.dtype.itemsize != 4:
        return _elements(here, there, addresses, sizes.shape(source)[0], source.dtype.itemsize)
    words = reorder_words(kind, *addresses, sizes.shape(source)[0], here, there, clear=False)
    return Row(reorder_code(ReorderText(width, kind)), words)


def _move(source: Plane, target: Plane, width: int) -> Move | None:
    if source.lanes == target.lanes:
        return "copy"
    if (source.lanes, target.lanes) == (1, width):
        return "block"
    if (source.lanes, target.lanes) == (width, 1):
        return "unblock"
    return None


@lru_cache(maxsize=16)
def reorder_code(text: ReorderText) -> Code:
    """The kernel of a text; equal texts give the same Code."""
    return Code(f"reorder {text.move}", "reorder", reorder_text(text, "reorder"))


# -- elements of any size, one by one ----------------------------------------------------------
def _elements(
    source: Plane, target: Plane, addresses: tuple[Operand, Operand], batch: int, size: int
) -> Row:
    """Any change of order of elements of 1, 2, 4, 8 or 16 bytes."""
    parts = max(1, size // 8)
    words: list[Word] = []
    channels = target.blocks * target.lanes
    for side, address in zip((source, target), addresses, strict=True):
        element = side.itemsize // parts
        last = (parts, element) if parts > 1 else (1, element)
        shape = (batch, side.blocks, *side.size, side.lanes)
        strides = (side.batch, side.block, side.slice, side.row, side.pixel, side.itemsize)
        words += [address, *shape, last[0], *strides, last[1]]
    dtype = f"uint{8 * min(size, 8)}"
    return Row(_element_code(dtype), [*words, source.channels, channels])


@lru_cache(maxsize=8)
def _element_code(dtype: str) -> Code:
    operands = [(dtype, 7, "in", False), (dtype, 7, "out", False)]
    return array_kernel(_move_elements, operands, ["int64"] * 2, f"reorder_{dtype}")


def _move_elements(x: Any, y: Any, channels: int, padded: int, worker: int, workers: int) -> None:
    batch, _, depth, height, width, lanes, parts = y.shape
    total = batch * padded
    for plane_ in range(total * worker // workers, total * (worker + 1) // workers):
        n, c = plane_ // padded, plane_ % padded
        b, lane = c // lanes, c % lanes
        from_b, from_lane = c // x.shape[5], c % x.shape[5]
        for d in range(depth):
            for h in range(height):
                for w in range(width):
                    for p in range(parts):
                        if c < channels:
                            y[n, b, d, h, w, lane, p] = x[n, from_b, d, h, w, from_lane, p]
                        else:
                            y[n, b, d, h, w, lane, p] = 0


def register(library: Library) -> None:
    library.kernel("Reorder", name="reorder", domain=OWN)(ReorderKernel)
