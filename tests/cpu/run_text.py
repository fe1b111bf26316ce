"""Compiling IR text and calling it, for the tests of the templates."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np

from neuralsym.cpu.emit import Code, compile_one
from neuralsym.cpu.machine import Target, host_isas
from neuralsym.cpu.store import Store

SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32
)

MACHINES = ((16, 32), (8, 16), (4, 16))
"""Lanes of float32 and registers of AVX-512, AVX2 and SSE2."""

ISAS = {16: "avx512", 8: "avx2", 4: "sse2"}


def target_of(width: int | None) -> Target:
    """The machine with vectors of `width` float32; the host where it has no such set."""
    isa = ISAS.get(width)
    return Target.of(isa if isa in host_isas() else None)


@lru_cache(maxsize=256)
def compile_text(text: str, width: int | None = None):
    """A callable (frame, desc, worker, workers) for the function `kernel` of the text."""
    code = Code("kernel", "kernel", text)
    return SIGNATURE(compile_one(code, target_of(width), Store(None)))


def call(text: str, words: list[int], workers: int = 1, width: int | None = None) -> None:
    """Run all workers one after another: none may rely on another having run."""
    desc = np.array(words, np.int64)
    function = compile_text(text, width)
    for worker in reversed(range(workers)):
        assert function(None, desc.ctypes.data, worker, workers) == 0


def plane_buffer(plane, batch: int, value: float = 0.0, dtype=np.float32) -> np.ndarray:
    """A flat 64-byte aligned buffer for `plane`, filled with `value`."""
    count = plane.bytes(batch) // plane.itemsize
    room = np.empty(count + 32, dtype)
    start = (-room.ctypes.data % 64) // plane.itemsize
    buffer = room[start : start + count]
    buffer[...] = value
    return buffer


def view(buffer: np.ndarray, plane, batch: int) -> np.ndarray:
    """The buffer as [N][blocks of the buffer][D][H][W][lanes], halo included."""
    return buffer.reshape(batch, -1, *plane.padded, plane.lanes)


def inner(buffer: np.ndarray, plane, batch: int) -> np.ndarray:
    """The inner pixels of the buffer as a view [N][blocks][D][H][W][lanes]."""
    index = tuple(slice(b, b + s) for b, s in zip(plane.before, plane.size, strict=True))
    return view(buffer, plane, batch)[(slice(None), slice(None), *index)]


def fill(buffer: np.ndarray, plane, values: np.ndarray) -> None:
    """Write values [N][C][D][H][W] into the inner pixels, padded lanes zero."""
    batch, channels = values.shape[:2]
    lanes = plane.lanes
    padded = np.zeros((batch, plane.blocks * lanes, *plane.size), values.dtype)
    padded[:, :channels] = values
    split = padded.reshape(batch, plane.blocks, lanes, *plane.size)
    inner(buffer, plane, batch)[:, : plane.blocks] = split.transpose(0, 1, 3, 4, 5, 2)


def read(buffer: np.ndarray, plane, batch: int) -> np.ndarray:
    """The inner pixels as [N][C][D][H][W]."""
    blocks = inner(buffer, plane, batch)[:, : plane.blocks]
    planes = blocks.transpose(0, 1, 5, 2, 3, 4).reshape(batch, -1, *plane.size)
    return planes[:, : plane.channels]
