"""The peak of a core, measured: what a kernel's speed is a share of.

A loop of nothing but fused multiply-adds on explicit vectors: enough independent sums to hide the
latency, few enough to stay in registers.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import numpy as np

from neuralsym.cpu.driver import Kernel
from neuralsym.cpu.emit import Code, compile_all
from neuralsym.cpu.ir import Module
from neuralsym.cpu.machine import Target
from neuralsym.cpu.rows import aligned_words
from neuralsym.cpu.store import Store

ELEMENT = "float32"


def sums(target: Target) -> int:
    """Independent sums: two units times a latency of 4 to 6, beside two registers of factors."""
    return 24 if target.isa in ("avx512", "neon") else 12


def peak_code(target: Target) -> Code:
    """The kernel; its descriptor: turns, and the address of two factors and room for the sums."""
    width, count = target.width(ELEMENT), sums(target)
    kind = f"<{width} x float>"
    module = Module()
    f = module.function("peak")
    turns, memory = f.word(0), f.operand(1)
    factor = f.splat(f.load("float", memory), "float", width)
    addend = f.splat(f.load("float", f.at(memory, 4)), "float", width)
    with f.loop(turns, *[(kind, addend)] * count) as loop:
        made = []
        for value in loop.values:
            if target.fma:
                made.append(f.call("fma", kind, value, factor, addend))
            else:
                made.append(
                    f.value(f"fadd {kind} {f.value(f'fmul {kind} {value}, {factor}')}, {addend}")
                )
        loop.next(*made)
    for i, value in enumerate(loop.values):
        f.store(kind, value, f.at(memory, target.vector_bytes * (i + 1)))
    f.do("ret i32 0")
    return Code("peak", "peak", str(module))


def measured_peak(
    target: Target,
    store: Store,
    *,
    clock: Callable[[], float] = time.process_time,
    samples: int = 25,
    seconds: float = 0.002,
) -> float:
    """Floating-point operations (float32) a second of one core: the best of `samples`.

    clock: the processor's time of the process by default, so that others on the machine do not
    count. A multiplication and an addition are two operations.
    """
    code = peak_code(target)
    (address,) = compile_all([code], target, store).values()
    kernel = Kernel(address)
    memory = aligned_words((sums(target) + 1) * target.vector_bytes // 8)
    memory.view(np.float32)[:2] = 0.5, 1.0  # sums settle at 2: neither infinite nor subnormal
    words = aligned_words(2)
    words[:] = 1000, memory.ctypes.data
    desc = ctypes.c_void_p(words.ctypes.data)

    def sample() -> float:
        began = clock()
        kernel(None, desc, 0, 1)
        return clock() - began

    sample()
    words[0] = max(1000, int(1000 * seconds / max(sample(), 1e-7)))
    best = min(sample() for _ in range(samples))
    return 2.0 * float(words[0]) * sums(target) * target.width(ELEMENT) / best
