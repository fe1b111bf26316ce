"""When it pays to share a row among threads, as IR text: what the caller of a run finds out.

Of a row: a short one is timed both ways, shared and alone, and then run the faster way; its table
keeps that. Of the machine: while others want its processors, waiting for a worker that has lost its
own may cost more than the worker saves; the berth keeps the account.
"""

from __future__ import annotations

from neuralsym.cpu.interpreter import now
from neuralsym.cpu.ir import Function

# In a berth: what sharing has brought lately, how long to do without it if that is nothing, and
# until when.
GAIN, PAUSE, UNTIL = 264, 272, 280

MOST_GAIN = 10_000_000
"""Nanoseconds that workers have saved, or cost, at most, before it is certain that they do."""

FIRST_PAUSE, LONGEST_PAUSE = 20_000_000, 640_000_000
"""Nanoseconds for which a caller works alone when waiting costs more than sharing saves."""

# The memory of a row (the last word of it). Below SETTLED: in bits 56 and up how often it has been
# timed, then the least time shared and the least time alone, 28 bits of nanoseconds each. SETTLED:
# it is shared. Above: it is run alone, and for how many runs.
TIMES_SHARED, TIMES_ALONE = 4, 4
TIME_BITS, COUNT_BITS = 28, 56
SETTLED = 1 << 60
RUNS_ALONE = 1000
"""After so many runs alone a row is tried again: the machine may have been busy before."""

TINY_NANOSECONDS = 2_000
"""A row that takes less than this alone is never tried again."""

LONG_NANOSECONDS = 30_000
"""A row that takes longer than this is always shared."""


def weigh(f: Function, saved: str, waited: str) -> None:
    """Set the work that others have done in a row against the time for waking and awaiting them.

    A thread that has lost its core in the middle of a share makes the caller wait for milliseconds;
    one that runs on the caller's own processor takes the time from it. Where that outweighs what
    others do, the caller works alone for a while.
    """
    gain = f.add(f.load("i64", f.at("%berth", GAIN), 8), f.sub(saved, waited))
    f.store("i64", f.minimum(gain, MOST_GAIN), f.at("%berth", GAIN), 8)
    pause = f.at("%berth", PAUSE)
    with f.when(f.compare("sgt", gain, MOST_GAIN)):
        f.store("i64", str(FIRST_PAUSE), pause, 8)
    with f.when(f.compare("slt", gain, -MOST_GAIN)):
        length = f.maximum(f.load("i64", pause, 8), FIRST_PAUSE)
        f.store("i64", f.add(now(f), length), f.at("%berth", UNTIL), 8)
        f.store("i64", f.minimum(f.mul(length, 2), LONGEST_PAUSE), pause, 8)
        f.store("i64", "0", f.at("%berth", GAIN), 8)


def pauses(f: Function) -> str:
    """Whether the caller works alone for now."""
    place = f.at("%berth", UNTIL)
    until = f.load("i64", place, 8)

    def look() -> list[str]:
        on = f.compare("slt", now(f), until)
        f.store("i64", f.select(on, "i64", until, 0), place, 8)
        return [on]

    return f.choose(f.compare("ne", until, 0), ["i1"], look, lambda: ["false"])[0]


def tries_alone(f: Function, memory: str) -> str:
    """Whether a row that has this memory is now to be timed alone."""
    open_ = f.compare("slt", memory, SETTLED)
    return f.value(f"and i1 {open_}, {f.compare('sge', memory, TIMES_SHARED << COUNT_BITS)}")


def runs_alone(f: Function, memory: str, before: str) -> str:
    """Whether a row is run alone by what its memory tells; if so, it counts the run."""

    def count() -> list[str]:
        last = f.compare("eq", before, SETTLED + 1)
        f.store("i64", f.select(last, "i64", 0, f.sub(before, 1)), memory, 8)
        return ["true"]

    return f.choose(f.compare("sgt", before, SETTLED), ["i1"], count, lambda: ["false"])[0]


def remember(f: Function, memory: str, before: str, alone: str, took: str) -> None:
    """Put down how long a row took this time; after the last time, which way it is run."""
    mask = (1 << TIME_BITS) - 1
    took = f.minimum(took, mask)
    count = f.add(f.value(f"lshr i64 {before}, {COUNT_BITS}"), 1)
    least_shared = f.value(f"and i64 {f.value(f'lshr i64 {before}, {TIME_BITS}')}, {mask}")
    least_alone = f.value(f"and i64 {before}, {mask}")
    # Zero is the time of a way not tried.
    shared = f.select(alone, "i64", least_shared, _least(f, least_shared, took))
    by_self = f.select(alone, "i64", _least(f, least_alone, took), least_alone)
    high = f.value(f"shl i64 {count}, {COUNT_BITS}")
    middle = f.value(f"shl i64 {shared}, {TIME_BITS}")
    more = f.value(f"or i64 {f.value(f'or i64 {high}, {middle}')}, {by_self}")
    tried = f.compare("sge", count, TIMES_SHARED)
    long = f.value(f"and i1 {tried}, {f.compare('sgt', shared, LONG_NANOSECONDS)}")
    over = f.compare("sge", count, TIMES_SHARED + TIMES_ALONE)
    better = f.compare("sle", by_self, shared)
    tiny = f.compare("slt", by_self, TINY_NANOSECONDS)
    runs = f.select(tiny, "i64", 1 << 40, RUNS_ALONE)
    way = f.select(better, "i64", f.add(runs, SETTLED), SETTLED)
    after = f.select(over, "i64", way, more)
    f.store("i64", f.select(long, "i64", SETTLED, after), memory, 8)


def _least(f: Function, known: str, took: str) -> str:
    fresh = f.compare("eq", known, 0)
    return f.select(fresh, "i64", took, f.minimum(known, took))
