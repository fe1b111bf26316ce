"""Attention without the matrix of scores: blocks of keys under a running maximum.

It takes what networks write: heads of fixed sizes, a mask or a causal one, keys shared by groups
of heads. Caches, windows, soft caps and shown scores are left to the expansion of the operator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from neuralsym.core.leaves import OWN
from neuralsym.core.types import Size
from neuralsym.cpu.emit import Code
from neuralsym.cpu.kernels.geometry import registers
from neuralsym.cpu.kernels.widen import finish, reserve, wide_place, widened
from neuralsym.cpu.library import Kernel, Library
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, Step, Word, float32_word
from neuralsym.cpu.scalar_ir import HALVES
from neuralsym.cpu.templates.attention import (
    ITEM,
    AttentionText,
    Mask,
    attention_text,
    pack_keys_text,
)
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch
from neuralsym.ops.expansions import same_size

FLOATS = (NumberType.FLOAT32, *HALVES)
FEW = 8
"""Queries below which packing the keys costs more than it saves."""


class _Heads(NamedTuple):
    """Sizes of an operand as [batch, heads, length, size]."""

    batch: int
    heads: int
    length: int
    size: int

    def strides(self, flat: bool) -> tuple[int, int, int]:
        """Bytes between entries, heads and rows; flat: heads lie within the rows."""
        whole = self.heads * self.length * self.size * ITEM
        row = self.size * ITEM
        return (whole, row, self.heads * row) if flat else (whole, self.length * row, row)


class Attention(Kernel):
    """See templates/attention.py."""

    name = "attention"
    closed_is_zero = True

    def supports(self, step: Step) -> bool | str:
        q, k, v, mask = (step.input(i) for i in range(4))
        assert q is not None and k is not None and v is not None
        for buffer in (q, k, v, step.outputs[0]):
            if buffer.dtype not in FLOATS:
                return f"there is no such loop over {buffer.dtype.value}"
        if len(step.outputs) > 1 or any(step.input(i) is not None for i in (4, 5, 6)):
            return "caches and scores are computed in parts"
        if step.attr("softcap") or max(self._windows(step)) >= 0:
            return "soft caps and windows are computed in parts"
        if step.attr("softmax_precision") not in (None, NumberType.FLOAT32.onnx):
            return "its softmax is computed in float32"
        if any(not isinstance(size, int) or not size for size in self._fixed(step)):
            return "its heads have no fixed sizes"
        length = _lengths(q)
        if isinstance(length, int) and length < FEW:
            return f"{length} queries are too few for packed keys"
        if mask is not None:
            if mask.dtype not in (NumberType.BOOL, *FLOATS):
                return f"there is no such loop over a mask of {mask.dtype.value}"
            shape = mask.tensor.shape
            if not shape or not same_size(shape[-1], _lengths(k)):
                return "its mask has not one element for each key"
        return True

    def adjust(self, step: Step) -> None:
        for i in range(4):
            reserve(step, i, step.input(i))
        reserve(step, -1, step.outputs[0])
        step.need_scratch("panels", lambda sizes: self._panels(step, sizes))
        step.need_scratch(
            "block", lambda sizes: self._text(step, sizes).scratch_bytes * sizes.workers
        )

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        y = step.outputs[0]
        q, k, v = self._operands(step, sizes)
        if 0 in sizes.shape(y):
            return []
        if not k.length:
            raise ShapeMismatch(f"{step.describe()}: there are no keys in this run")
        text, flat = self._text(step, sizes), y.rank == 3
        rows: list[Row] = []
        places = [
            widened(self.target, step, i, buffer, sizes, rows)
            for i, buffer in enumerate(step.inputs[:3])
            if buffer is not None
        ]
        panels = Operand(step.scratch["panels"].buffer)
        packed: list[Word] = [panels, places[1], k.batch, k.heads, k.length, *k.strides(flat)]
        rows.append(Row(_pack_code(text), packed))
        target = wide_place(step, -1, y)
        result = _Heads(q.batch, q.heads, q.length, v.size)
        mask, mask_strides = self._mask(step, sizes, result, k.length, rows)
        scale = step.attr("scale")
        words: list[Word] = [
            *(target, places[0], panels, places[2], mask),
            Operand(step.scratch["block"].buffer),
            *(q.batch, q.heads, q.heads // k.heads, q.length, k.length),
            float32_word(1 / math.sqrt(q.size) if scale is None else scale),
            *(*result.strides(flat), *q.strides(flat), *v.strides(flat), *mask_strides),
        ]
        rows.append(Row(_attention_code(text), words))
        return [*rows, *finish(self.target, step, target, y, None, sizes)]

    # -- parts -----------------------------------------------------------------------------
    def _windows(self, step: Step) -> tuple[int, int]:
        """The bounds of windows; -1 for none, also where the operator has no such attribute."""
        left, right = step.attr("left_window_size"), step.attr("right_window_size")
        return (-1 if left is None else left), (-1 if right is None else right)

    def _fixed(self, step: Step) -> list[Size]:
        """Heads and sizes that the text or the division of work needs."""
        made: list[Size] = []
        for buffer in step.inputs[:3]:
            assert buffer is not None and buffer.tensor.shape is not None
            shape = buffer.tensor.shape
            made += [shape[-1]] if len(shape) == 3 else [shape[1], shape[3]]
        return made

    def _operands(self, step: Step, sizes: Sizes) -> tuple[_Heads, _Heads, _Heads]:
        made = []
        for i, buffer in enumerate(step.inputs[:3]):
            assert buffer is not None
            shape = sizes.shape(buffer)
            if len(shape) == 3:
                heads = step.attr("kv_num_heads" if i else "q_num_heads")
                shape = (shape[0], heads, shape[1], shape[2] // heads)
            made.append(_Heads(*shape))
        q, k, v = made
        if (q.batch, q.size) != (k.batch, k.size) or k[:3] != v[:3] or q.heads % k.heads:
            raise ShapeMismatch(
                f"{step.describe()}: queries {list(q)}, keys {list(k)} and values {list(v)} "
                "(batch, heads, length, size) do not fit in this run"
            )
        return q, k, v

    def _text(self, step: Step, sizes: Sizes) -> AttentionText:
        q, _, v = self._operands(step, sizes)
        mask = step.input(3)
        kind: Mask = ""
        if mask is not None:
            kind = "bool" if mask.dtype is NumberType.BOOL else "float32"
        return AttentionText(
            self.target.width("float32"),
            12 if registers(self.target) > 16 else 6,
            q.size,
            v.size,
            bool(step.attr("is_causal")),
            kind,
            self.target.scales,
            self.closed_is_zero,
        )

    def _panels(self, step: Step, sizes: Sizes) -> int:
        _, k, _ = self._operands(step, sizes)
        return k.batch * k.heads * self._text(step, sizes).panel_bytes(k.length)

    def _mask(
        self, step: Step, sizes: Sizes, y: _Heads, keys: int, rows: list[Row]
    ) -> tuple[Word, tuple[int, int, int]]:
        """Where the mask lies, and its strides along entries, heads and rows."""
        mask = step.input(3)
        if mask is None:
            return 0, (0, 0, 0)
        shape = sizes.shape(mask)
        wide = (1,) * (4 - len(shape)) + shape
        wanted = (y.batch, y.heads, y.length, keys)
        if wide[3] != keys or any(a not in (1, b) for a, b in zip(wide, wanted, strict=True)):
            raise ShapeMismatch(
                f"{step.describe()}: the mask is {list(shape)} in this run, the scores are "
                f"{list(wanted)}"
            )
        item = 1 if mask.dtype is NumberType.BOOL else ITEM
        steps = [0 if wide[i] == 1 else item * prod(wide[i + 1 :]) for i in range(3)]
        place = widened(self.target, step, 3, mask, sizes, rows)
        return place, (steps[0], steps[1], steps[2])

    def complexity(self, step: Step, sizes: Sizes) -> int:
        q, k, v = self._operands(step, sizes)
        return 2 * q.batch * q.heads * q.length * k.length * (q.size + v.size)


class WrittenAttention(Attention):
    """FusedAttention: NaN where a softmax that is written out has it."""

    closed_is_zero = False


def _lengths(x: Buffer) -> Size:
    """The number of queries or keys."""
    assert x.tensor.shape is not None
    return x.tensor.shape[-2]


@lru_cache(maxsize=64)
def _attention_code(text: AttentionText) -> Code:
    return Code("attention", "attention", attention_text(text, "attention"))


@lru_cache(maxsize=64)
def _pack_code(text: AttentionText) -> Code:
    return Code("packed keys", "pack_keys", pack_keys_text(text, "pack_keys"))


def register(library: Library) -> None:
    """Enter the kernel of this module."""
    library.kernel("Attention")(Attention)
    library.kernel("FusedAttention", domain=OWN)(WrittenAttention)
