"""The row that moves bytes between plain order and blocks of channels."""

from __future__ import annotations

from functools import cache

from neuralsym.cpu.emit import Code
from neuralsym.cpu.program import Operand, Row
from neuralsym.cpu.templates.int8_reorder import ByteText, byte_reorder_text, byte_reorder_words
from neuralsym.cpu.templates.layout import Plane

MOST_LANES = 16


def byte_move(
    source: Plane, target: Plane, addresses: tuple[Operand, Operand], batch: int
) -> Row | None:
    """The row, or None where neither side is plain or the blocks are no power of two."""
    lanes = max(source.lanes, target.lanes)
    plain = min(source.lanes, target.lanes) == 1
    if source.itemsize != 1 or not plain or lanes < 2 or lanes > MOST_LANES or lanes & (lanes - 1):
        return None
    text = ByteText(lanes, "block" if source.lanes == 1 else "unblock")
    return Row(_code(text), byte_reorder_words(source, target, batch, addresses))


@cache
def _code(text: ByteText) -> Code:
    return Code(f"{text.move} bytes", "reorder", byte_reorder_text(text, "reorder"))
