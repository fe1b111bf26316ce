"""The form of a matrix multiplication kernel: its descriptor, and what its text depends on.

    C[m][n] = activation(alpha * sum over k of A[m][k] * B[k][n]  +  bias[n]  +  beta * R[m][n])

Descriptor, int64 words (`MatmulWord`); strides in bytes:

| words | meaning |
|---|---|
| A, B, C, BIAS, RESIDUAL | addresses; BIAS is padded to whole panels, unused ones are any address |
| SCRATCH, SCRATCH_BYTES | memory for packing a run-time B, and how much of it each worker has |
| BATCH_0, BATCH_1 | two loops over matrices, the first the outer one |
| M, N, K | sizes |
| BLOCK_ROWS, CHUNK | rows of A worked on together, and how many k go into one partial sum |
| A_STRIDE, B_STRIDE | from row to row as stored (of a packed B: from panel to panel) |
| C_STRIDE, RESIDUAL_STRIDE | from row to row; RESIDUAL_STRIDE 0 repeats one row |
| A_0 ... RESIDUAL_1 | from matrix to matrix along the two batch loops; 0 repeats one |
| ALPHA, BETA | the bits of the two numbers, in the element's type |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import Literal

from neuralsym.cpu.templates.element import Element, InVectors
from neuralsym.cpu.templates.epilogue import Activation, identity

Storage = Literal["packed", "rows", "columns"]


class MatmulWord(IntEnum):
    """Positions in the descriptor of a matrix multiplication."""

    A = 0
    B = auto()
    C = auto()
    BIAS = auto()
    RESIDUAL = auto()
    SCRATCH = auto()
    SCRATCH_BYTES = auto()
    BATCH_0 = auto()
    BATCH_1 = auto()
    M = auto()
    N = auto()
    K = auto()
    BLOCK_ROWS = auto()
    CHUNK = auto()
    A_STRIDE = auto()
    B_STRIDE = auto()
    C_STRIDE = auto()
    RESIDUAL_STRIDE = auto()
    A_0 = auto()
    B_0 = auto()
    C_0 = auto()
    RESIDUAL_0 = auto()
    A_1 = auto()
    B_1 = auto()
    C_1 = auto()
    RESIDUAL_1 = auto()
    ALPHA = auto()
    BETA = auto()


@dataclass(frozen=True)
class MatmulText(InVectors):
    """What the text of a matrix multiplication depends on.

    width: lanes of a vector. heights: row counts of tiles, 1 among them. vectors: vectors of a
    panel. a: whether A is stored by "rows" (k runs fastest) or by "columns" (m does). b: "packed"
    panels, or plain "rows" (n fastest) or "columns" (k fastest), packed by the kernel. scaled:
    alpha and beta are read. bias, residual: whether there is one.
    """

    width: int
    heights: tuple[int, ...]
    vectors: int
    a: Literal["rows", "columns"] = "rows"
    b: Storage = "packed"
    element: Element = "float"
    scaled: bool = False
    bias: bool = False
    residual: bool = False
    activation: Activation = field(default_factory=identity)

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return self.width * self.vectors
