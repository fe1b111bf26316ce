"""Planning a matrix multiplication: tile heights, packed B, descriptor. All functions are pure."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from neuralsym.cpu.program import Word
from neuralsym.cpu.templates.element import ELEMENT_BYTES, Element
from neuralsym.cpu.templates.epilogue import Activation, identity
from neuralsym.cpu.templates.layout import Array, aligned, even_parts
from neuralsym.cpu.templates.matmul import best_heights
from neuralsym.cpu.templates.matmul_form import (
    MatmulText,
    MatmulWord,
    Storage,
)

CHUNK = 256
FEW_TILES = 4  # so few rows are one block, cut evenly
LEAST_BLOCKS = 8  # tiles of a block: lower ones would read B too often
LOW_HEIGHTS = range(1, 9)
FEW_HEIGHTS = (*LOW_HEIGHTS, 14)
"""Tiles of 9 to 13 rows take more registers than there are, as LLVM orders their loads: those of
5 to 8 and of 14 measured 240 to 255 GFLOP/s on a core of 263, those between 147 to 188."""


def plan_matmul(
    n: int | None,
    *,
    width: int,
    registers: int,
    m: int | None = None,
    a: Literal["rows", "columns"] = "rows",
    b: Storage = "packed",
    element: Element = "float",
    scaled: bool = False,
    bias: bool = False,
    residual: bool = False,
    activation: Activation | None = None,
) -> MatmulText:
    """Choose the tiles of A[m][k] @ B[k][n]; sizes that are free are None.

    With a small `m` given, the text holds only the heights that it needs; leave it out where it
    depends on the batch. The text is the same for all n above one vector.
    """
    vectors = 1 if n is not None and n <= width else 2
    most = min(max(FEW_HEIGHTS), (registers - 2 - vectors) // vectors)
    heights = [h for h in FEW_HEIGHTS if h <= most]
    if m and m <= FEW_TILES * most:
        fewer = [sorted({*even_parts(m, most)} & {*heights}), sorted({*_walk(m, heights, vectors)})]
        heights = next((some for some in fewer if _adds_up(m, some, vectors)), heights)
    return MatmulText(
        width=width,
        heights=tuple(heights),
        vectors=vectors,
        a=a,
        b=b,
        element=element,
        scaled=scaled,
        bias=bias,
        residual=residual,
        activation=activation or identity(),
    )


def _walk(m: int, heights: list[int], vectors: int) -> list[int]:
    """The tiles that the kernel walks so many rows in; their sum is above `m` where none fit."""
    best, tiles = best_heights(heights, vectors), list[int]()
    while sum(tiles) < m:
        tiles.append(best[min(m - sum(tiles), len(best) - 1)])
    return tiles


def _adds_up(m: int, heights: list[int], vectors: int) -> bool:
    """Whether the kernel's walk over so many rows, in one block, ends behind the last one.

    It chooses a tile by no more rows than twice the tallest: 21 rows of 6 + 5 + 5 + 5 would begin
    with two of 6, and no 5 or 6 make up the 9 that are left.
    """
    if not heights or m > LEAST_BLOCKS * max(heights):
        return False
    return sum(_walk(m, heights, vectors)) == m


def pack_b(b: Array, text: MatmulText) -> Array:
    """B [..., k, n] in panels [..., panel][k][columns of a panel], missing columns zero."""
    dtype = np.float32 if text.element == "float" else np.float64
    *batch, k, n = b.shape
    panels = max(1, -(-n // text.panel))
    padded = np.zeros((*batch, k, panels * text.panel), dtype)
    padded[..., :n] = b
    split = padded.reshape(*batch, k, panels, text.panel)
    return aligned(np.moveaxis(split, -2, -3))


def pack_row(row: Array | None, n: int, text: MatmulText) -> Array:
    """A bias [n] (zeros if None) padded to whole panels."""
    dtype = np.float32 if text.element == "float" else np.float64
    padded = np.zeros(max(1, -(-n // text.panel)) * text.panel, dtype)
    if row is not None:
        padded[:n] = row
    return aligned(padded)


def panel_bytes(k: int, text: MatmulText) -> int:
    """Bytes of one packed panel, the B_STRIDE of a packed B."""
    return k * text.panel * text.bytes


def scratch_bytes(text: MatmulText) -> int:
    """Bytes of scratch that each worker needs to pack a run-time B; 0 for a packed one."""
    return 0 if text.b == "packed" else CHUNK * text.panel * text.bytes


@dataclass(frozen=True)
class Matrix:
    """A matrix (or a batch of them) in memory: address, bytes from row to row as stored, bytes
    from matrix to matrix along the outer and the inner batch loop."""

    address: Word
    stride: int
    outer: int = 0
    inner: int = 0


def matmul_words(
    text: MatmulText,
    sizes: tuple[int, int, int],
    a: Matrix,
    b: Matrix,
    c: Matrix,
    *,
    bias: Word | None = None,
    residual: Matrix | None = None,
    batch: tuple[int, int] = (1, 1),
    scratch: Word | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    cache: int = 1 << 20,
) -> list[Word]:
    """The descriptor, one word for each MatmulWord; `sizes` is (m, n, k)."""
    m, n, k = sizes
    beside = residual or Matrix(c.address, 0)
    words: dict[MatmulWord, Word] = {
        MatmulWord.A: a.address,
        MatmulWord.B: b.address,
        MatmulWord.C: c.address,
        MatmulWord.BIAS: c.address if bias is None else bias,
        MatmulWord.RESIDUAL: beside.address,
        MatmulWord.SCRATCH: c.address if scratch is None else scratch,
        MatmulWord.SCRATCH_BYTES: scratch_bytes(text),
        MatmulWord.BATCH_0: batch[0],
        MatmulWord.BATCH_1: batch[1],
        MatmulWord.M: m,
        MatmulWord.N: n,
        MatmulWord.K: k,
        MatmulWord.BLOCK_ROWS: block_rows(m, k, text, cache),
        MatmulWord.CHUNK: CHUNK,
        MatmulWord.A_STRIDE: a.stride,
        MatmulWord.B_STRIDE: b.stride,
        MatmulWord.C_STRIDE: c.stride,
        MatmulWord.RESIDUAL_STRIDE: beside.stride,
        MatmulWord.A_0: a.outer,
        MatmulWord.B_0: b.outer,
        MatmulWord.C_0: c.outer,
        MatmulWord.RESIDUAL_0: beside.outer,
        MatmulWord.A_1: a.inner,
        MatmulWord.B_1: b.inner,
        MatmulWord.C_1: c.inner,
        MatmulWord.RESIDUAL_1: beside.inner,
        MatmulWord.ALPHA: bits(alpha, text.element),
        MatmulWord.BETA: bits(beta, text.element),
    }
    return [words[w] for w in MatmulWord]


def block_rows(m: int, k: int, text: MatmulText, cache: int) -> int:
    """Rows of A to work on together: a multiple of the tallest tile that leaves room in cache."""
    tallest = max(text.heights)
    fit = cache // 2 // max(1, k * ELEMENT_BYTES[text.element]) // tallest
    # With few rows there is one block.
    blocks = max(LEAST_BLOCKS, min(fit, 40))
    return max(1, min(m, blocks * tallest))


def bits(value: float, element: Element) -> int:
    """The bits of a number in the element's type, as the low bytes of an int64."""
    if element == "float":
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def batch_loops(
    sizes: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, int], list[tuple[int, int]]] | None:
    """Batch axes folded into two loops: their counts and each operand's (outer, inner) strides.

    sizes: the broadcast batch axes. strides: of each operand, bytes along these axes (0 where it
    repeats). None if more than two loops remain.
    """
    loops: list[tuple[int, list[int]]] = []
    for axis, size in enumerate(sizes):
        steps = [s[axis] for s in strides]
        if size == 1:
            continue
        if loops and all(
            last == step * size for last, step in zip(loops[-1][1], steps, strict=True)
        ):
            loops[-1] = (loops[-1][0] * size, steps)
        else:
            loops.append((size, steps))
    if len(loops) > 2:
        return None
    while len(loops) < 2:
        loops.insert(0, (1, [0] * len(strides)))
    (outer, outer_steps), (inner, inner_steps) = loops
    return (outer, inner), list(zip(outer_steps, inner_steps, strict=True))
