"""Speed of pooling and of changes of order, one thread: time and bytes read and written."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "cpu"))
from run_text import compile_text, plane_buffer

from neuralsym.cpu.templates.global_pool import (
    GlobalPoolText,
    global_pool_text,
    global_pool_words,
)
from neuralsym.cpu.templates.layout import Plane
from neuralsym.cpu.templates.pool import PoolShape, plan_pool, pool_text, pool_words, run_table
from neuralsym.cpu.templates.reorder import ReorderText, reorder_text, reorder_words

WIDTH = 16


def timed(text: str, words: list) -> float:
    kernel, desc = compile_text(text), np.array(words, np.int64)
    times = []
    for _ in range(30):
        start = time.perf_counter()
        kernel(None, desc.ctypes.data, 0, 1)
        times.append(time.perf_counter() - start)
    return min(times)


def report(name: str, seconds: float, *planes: Plane) -> None:
    moved = sum(p.bytes(1) for p in planes)
    print(f"{name:36s} {seconds * 1e6:8.1f} us {moved / seconds / 1e9:7.1f} GB/s")


def pool(name, channels, size, kernel, stride, pad, reduce):
    out = (size + 2 * pad - kernel) // stride + 1
    source, target = Plane(channels, (1, size, size), WIDTH), Plane(channels, (1, out, out), WIDTH)
    shape = PoolShape(
        (1, kernel, kernel), (1, stride, stride), before=(0, pad, pad), after=(0, pad, pad)
    )
    x, y = plane_buffer(source, 1, 1.0), plane_buffer(target, 1)
    text = plan_pool(shape, source, reduce)
    runs = run_table(text, shape, source, target)
    words = pool_words(
        shape, x.ctypes.data, y.ctypes.data, runs.ctypes.data, runs, 1, source, target
    )
    report(name, timed(pool_text(text), words), source, target)


def reorder(name, move, channels, size, halo, width=WIDTH):
    edge = (0, halo, halo)
    plain = Plane(channels, (1, size, size), 1)
    blocked = Plane(channels, (1, size, size), width, edge, edge)
    source, target = (blocked, plain) if move == "unblock" else (plain, blocked)
    x, y = plane_buffer(source, 1, 1.0), plane_buffer(target, 1)
    words = reorder_words(
        move, x.ctypes.data + source.origin, y.ctypes.data + target.origin, 1, source, target
    )
    report(name, timed(reorder_text(ReorderText(WIDTH, move)), words), source, target)


def global_average(name, channels, size):
    source = Plane(channels, (1, size, size), WIDTH)
    x, y = plane_buffer(source, 1, 1.0), np.zeros(channels, np.float32)
    words = global_pool_words(x.ctypes.data, y.ctypes.data, 1, source, 4 * channels)
    report(name, timed(global_pool_text(GlobalPoolText(WIDTH, "average")), words), source)


def main() -> None:
    pool("resnet max 3x3 /2 112", 64, 112, 3, 2, 1, "max")
    pool("squeezenet max 3x3 /2 55", 256, 55, 3, 2, 0, "max")
    pool("inception average 3x3 35", 256, 35, 3, 1, 1, "average")
    global_average("global average 2048 7", 2048, 7)
    global_average("global average 1000 13", 1000, 13)
    reorder("block 64 56", "block", 64, 56, 0)
    reorder("block 64 56 halo", "block", 64, 56, 1)
    reorder("unblock 512 7", "unblock", 512, 7, 0)
    reorder("unblock 1000 13", "unblock", 1000, 13, 0)
    reorder("plain 3 224 halo 3", "copy", 3, 224, 3, width=1)


if __name__ == "__main__":
    main()
