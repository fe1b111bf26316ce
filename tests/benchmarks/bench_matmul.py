"""Speed of the matrix multiplication kernels, one thread: packed constant B and run-time B."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "cpu"))
from run_text import compile_text

from neuralsym.cpu.templates.matmul import matmul_text
from neuralsym.cpu.templates.matmul_plan import (
    Matrix,
    matmul_words,
    pack_b,
    panel_bytes,
    plan_matmul,
    scratch_bytes,
)

SIZES = (
    (1, 128, 784),
    (1, 1000, 2048),
    (1, 4096, 4096),
    (8, 1000, 2048),
    (64, 128, 128),
    (64, 512, 128),
    (64, 64, 32),
    (197, 768, 768),
    (512, 512, 512),
    (1024, 1024, 1024),
    (3136, 64, 64),
)


def aligned_zeros(*shape):
    count = int(np.prod(shape))
    room = np.ones(count + 16, np.float32)
    start = (-room.ctypes.data % 64) // 4
    return room[start : start + count].reshape(shape)


def measure(m, n, k, b):
    text = plan_matmul(n, width=16, registers=32, b=b)
    left, right, out = aligned_zeros(m, k), aligned_zeros(k, n), aligned_zeros(m, n)
    stored, stride = right, 4 * n
    if b == "packed":
        stored, stride = pack_b(right, text), panel_bytes(k, text)
    elif b == "columns":
        stored, stride = np.ascontiguousarray(right.T), 4 * k
    scratch = np.zeros(max(1, scratch_bytes(text)), np.uint8)
    words = matmul_words(
        text,
        (m, n, k),
        Matrix(left.ctypes.data, 4 * k),
        Matrix(stored.ctypes.data, stride),
        Matrix(out.ctypes.data, 4 * n),
        scratch=scratch.ctypes.data,
    )
    kernel, desc = compile_text(matmul_text(text)), np.array(words, np.int64)
    count = max(1, int(2e8 / (2 * m * n * k + 1e5)))
    kernel(None, desc.ctypes.data, 0, 1)
    times = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(count):
            kernel(None, desc.ctypes.data, 0, 1)
        times.append((time.perf_counter() - start) / count)
    return min(times)


def main() -> None:
    for m, n, k in SIZES:
        cells = []
        for b in ("packed", "rows", "columns"):
            seconds = measure(m, n, k, b)
            rate = 2 * m * n * k / seconds / 1e9
            cells.append(f"{b} {seconds * 1e6:8.1f} us {rate:6.1f} GFLOP/s")
        print(f"{m:5d} x {n:5d} x {k:5d}  " + "   ".join(cells))


if __name__ == "__main__":
    main()
