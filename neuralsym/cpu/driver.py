"""The table interpreter: one compiled function that runs every program of every network.

A table is int64 rows of (kernel address, descriptor address, flags, reserved). Every worker walks
the same table and meets the others after each row:

    for row in rows: status = kernel(frame, desc, worker, workers); barrier; stop if any failed
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.emit import Code, compile_all
from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.machine import Target
from neuralsym.cpu.store import Store

ROW_WORDS = 4
"""Words of a row: kernel address, descriptor address, flags, reserved."""

SERIAL = 1
"""Flag of a row that worker 0 runs alone, as `worker 0 of 1`."""

SYNC_WORDS = 64
"""Words of the block by which the workers of a run meet; zeroed before its first use."""

# Each on a cache line of its own: arrivals at the barrier, barriers passed, the failure of the
# run, workers that have left it.
ARRIVED, PASSED, FAILED, LEFT = 0, 64, 128, 192

SPINS = 300
"""Pauses at a barrier before giving the core to whoever else wants it."""

YIELDS = 2000
"""Times to give the core away before sleeping: a host step may take long."""

NAP_MICROSECONDS = 50

Kernel = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32
)


class Failure(NamedTuple):
    """The first row of a run that failed, and the status of its kernel."""

    row: int
    status: int


def pack_failure(row: int, status: int) -> int:
    """What a run returns when `row` fails with `status`: status in the high half, row + 1 below."""
    return (status << 32) | (row + 1)


def unpack_failure(value: int) -> Failure | None:
    """The failure that a run returned, or None for 0, its success."""
    return Failure((value & 0xFFFFFFFF) - 1, value >> 32) if value else None


# -- the interpreter -------------------------------------------------------------------------
RUN_PARAMETERS = (
    ("frame", "ptr"),
    ("table", "ptr"),
    ("first", "i64"),
    ("count", "i64"),
    ("worker", "i32"),
    ("workers", "i32"),
    ("sync", "ptr"),
)
"""`int64 run(...)`: rows first to first + count - 1; 0, or what `unpack_failure` explains."""


def driver_code(target: Target, profile: bool = False) -> Code:
    """The interpreter's source; with `profile` it takes one more pointer, to int64 times.

    There it adds to `times[row]` the nanoseconds from worker 0's start of the row until all
    workers have done it.
    """
    symbol = "run_profiled" if profile else "run"
    module = Module()
    parameters = RUN_PARAMETERS + ((("times", "ptr"),) if profile else ())
    f = module.function(symbol, parameters, "i64")
    _barrier(module, target)
    if profile:
        _clock(module)
    end = f.add("%first", "%count")
    alone, together = f.new_label("alone"), f.new_label("together")
    single = f.compare("sle", "%workers", 1, "i32")
    f.do(f"br i1 {single}, label %{alone}, label %{together}")
    f.start(alone)
    _rows(f, end, profile, team=False)
    f.do("ret i64 0")
    f.start(together)
    _rows(f, end, profile, team=True)
    _leave(f)
    f.do("ret i64 0")
    return Code("driver", symbol, str(module))


def _rows(f: Function, end: str, profile: bool, team: bool) -> None:
    """The loop over the rows; it returns from within at a failure."""
    row_bytes = 8 * ROW_WORDS
    with f.loop(end, start="%first") as loop:
        row = f.at("%table", f.mul(loop.index, row_bytes))
        kernel = f.load("ptr", row, 8)
        desc = f.load("ptr", f.at(row, 8), 8)
        began = f.value("call i64 @nanoseconds()") if profile else ""
        if team:
            _team_step(f, row, kernel, desc, loop.index)
            failed = _failure_so_far(f, loop.index)
        else:
            status = f.value(f"call i32 {kernel}(ptr %frame, ptr {desc}, i32 0, i32 1)")
            failed = _packed(f, status, loop.index)
        if profile:
            _add_time(f, loop.index, began)
        bad, good = f.new_label("bad"), f.new_label("good")
        f.do(f"br i1 {f.compare('ne', failed, 0)}, label %{bad}, label %{good}")
        f.start(bad)
        if team:
            _leave(f)
        f.do(f"ret i64 {failed}")
        f.start(good)


def _packed(f: Function, status: str, row: str) -> str:
    """`pack_failure` in IR; 0 if the status is."""
    high = f.value(f"shl i64 {f.value(f'sext i32 {status} to i64')}, 32")
    whole = f.value(f"or i64 {high}, {f.add(row, 1)}")
    return f.select(f.compare("eq", status, 0, "i32"), "i64", 0, whole)


def _team_step(f: Function, row: str, kernel: str, desc: str, index: str) -> None:
    """One row by all workers, or by worker 0 if it is SERIAL; then all meet."""
    flags = f.load("i64", f.at(row, 16), 8)
    serial = f.compare("ne", f.value(f"and i64 {flags}, {SERIAL}"), 0)
    other = f.compare("ne", "%worker", 0, "i32")
    skip = f.value(f"and i1 {serial}, {other}")
    take, meet = f.new_label("take"), f.new_label("meet")
    f.do(f"br i1 {skip}, label %{meet}, label %{take}")
    f.start(take)
    among = f.select(serial, "i32", 1, "%workers")
    status = f.value(f"call i32 {kernel}(ptr %frame, ptr {desc}, i32 %worker, i32 {among})")
    fail = f.new_label("fail")
    f.do(f"br i1 {f.compare('ne', status, 0, 'i32')}, label %{fail}, label %{meet}")
    f.start(fail)
    # Only the first failure of a run is kept. All see it after this row's barrier and stop there.
    packed = _packed(f, status, index)
    place = f.at("%sync", FAILED)
    f.value(f"cmpxchg ptr {place}, i64 0, i64 {packed} monotonic monotonic, align 8")
    f.do(f"br label %{meet}")
    f.start(meet)
    f.do("call void @meet(ptr %sync, i32 %workers)")


def _failure_so_far(f: Function, row: str) -> str:
    """The failure of this row, or 0.

    A faster worker may already have failed in the next one: that is for after the next barrier,
    where it waits for us.
    """
    failed = f.value(f"load atomic i64, ptr {f.at('%sync', FAILED)} monotonic, align 8")
    failed_row = f.value(f"and i64 {failed}, {0xFFFFFFFF}")
    return f.select(f.compare("sle", failed_row, f.add(row, 1)), "i64", failed, 0)


def _leave(f: Function) -> None:
    """Worker 0 waits until the others will not look at the block again, and makes it ready."""
    left = f.at("%sync", LEFT)
    first, other, wait, done, out = (
        f.new_label(hint) for hint in ("first", "other", "wait", "done", "out")
    )
    f.do(f"br i1 {f.compare('eq', '%worker', 0, 'i32')}, label %{first}, label %{other}")
    f.start(other)
    f.value(f"atomicrmw add ptr {left}, i64 1 release, align 8")
    f.do(f"br label %{out}")
    f.start(first)
    rest = f.sub(f.value("sext i32 %workers to i64"), 1)
    f.do(f"br label %{wait}")
    f.start(wait)
    turn = f.value(f"phi i64 [0, %{first}], [%again{wait}, %{wait}relax]")
    gone = f.value(f"load atomic i64, ptr {left} acquire, align 8")
    f.do(f"br i1 {f.compare('eq', gone, rest)}, label %{done}, label %{wait}relax")
    f.start(f"{wait}relax")
    f.do(f"call void @relax(i64 {turn})")
    f.do(f"%again{wait} = add i64 {turn}, 1")
    f.do(f"br label %{wait}")
    f.start(done)
    f.do(f"store atomic i64 0, ptr {left} monotonic, align 8")
    f.do(f"store atomic i64 0, ptr {f.at('%sync', FAILED)} monotonic, align 8")
    f.do(f"br label %{out}")
    f.start(out)


def _barrier(module: Module, target: Target) -> None:
    """`meet(sync, workers)`: returns when all have called it; `relax(turn)`: how to wait."""
    relax = module.function("relax", (("turn", "i64"),), "void", private=True)
    pause = "call void @llvm.x86.sse2.pause()"
    if not target.x86:
        pause = 'call void asm sideeffect "yield", ""()'
    else:
        module.declarations.add("declare void @llvm.x86.sse2.pause()")
    windows = sys.platform == "win32"
    give, nap = ("SwitchToThread", "Sleep") if windows else ("sched_yield", "usleep")
    module.declarations |= {f"declare i32 @{give}()", f"declare i32 @{nap}(i32)"}
    spin, busy, tired, sleep, out = (
        relax.new_label(hint) for hint in ("spin", "busy", "tired", "sleep", "out")
    )
    relax.do(f"br i1 {relax.compare('slt', '%turn', SPINS)}, label %{spin}, label %{busy}")
    relax.start(spin)
    relax.do(pause)
    relax.do("ret void")
    relax.start(busy)
    patient = relax.compare("slt", "%turn", SPINS + YIELDS)
    relax.do(f"br i1 {patient}, label %{tired}, label %{sleep}")
    relax.start(tired)
    relax.value(f"call i32 @{give}()")
    relax.do(f"br label %{out}")
    relax.start(sleep)
    relax.value(f"call i32 @{nap}(i32 {1 if windows else NAP_MICROSECONDS})")
    relax.do(f"br label %{out}")
    relax.start(out)
    relax.do("ret void")

    f = module.function("meet", (("sync", "ptr"), ("workers", "i32")), "void", private=True)
    passed = f.at("%sync", PASSED)
    # Read before arriving: afterwards the last one may already have moved it on.
    before = f.value(f"load atomic i64, ptr {passed} acquire, align 8")
    arrived = f.value(f"atomicrmw add ptr {f.at('%sync', ARRIVED)}, i64 1 acq_rel, align 8")
    last = f.sub(f.value("sext i32 %workers to i64"), 1)
    open_, wait, again, done = (f.new_label(hint) for hint in ("open", "wait", "again", "done"))
    f.do(f"br i1 {f.compare('eq', arrived, last)}, label %{open_}, label %{wait}")
    f.start(open_)
    f.do(f"store atomic i64 0, ptr {f.at('%sync', ARRIVED)} monotonic, align 8")
    f.do(f"store atomic i64 {f.add(before, 1)}, ptr {passed} release, align 8")
    f.do("ret void")
    f.start(wait)
    turn = f.value(f"phi i64 [0, %entry], [%next, %{again}]")
    now = f.value(f"load atomic i64, ptr {passed} acquire, align 8")
    f.do(f"br i1 {f.compare('ne', now, before)}, label %{done}, label %{again}")
    f.start(again)
    f.do(f"call void @relax(i64 {turn})")
    f.do(f"%next = add i64 {turn}, 1")
    f.do(f"br label %{wait}")
    f.start(done)
    f.do("ret void")


def _clock(module: Module) -> None:
    """`nanoseconds()`: the monotonic clock."""
    monotonic = 6 if sys.platform == "darwin" else 1
    module.declarations.add("declare i32 @clock_gettime(i32, ptr)")
    f = module.function("nanoseconds", (), "i64", private=True)
    time = f.value("alloca [2 x i64], align 8")
    f.value(f"call i32 @clock_gettime(i32 {monotonic}, ptr {time})")
    whole = f.mul(f.load("i64", time, 8), 1_000_000_000)
    f.do(f"ret i64 {f.add(whole, f.load('i64', f.at(time, 8), 8))}")


def _add_time(f: Function, row: str, began: str) -> None:
    """Worker 0 adds the time since `began` to the row's."""
    with f.when(f.compare("eq", "%worker", 0, "i32")):
        place = f.at("%times", f.mul(row, 8))
        took = f.sub(f.value("call i64 @nanoseconds()"), began)
        f.store("i64", f.add(f.load("i64", place, 8), took), place, 8)


# -- Python's side ---------------------------------------------------------------------------
@dataclass(frozen=True)
class Driver:
    """The interpreter of one target, loaded; `Driver.of(target, store)` makes it.

    All addresses are integers. Running releases the GIL.
    """

    address: int
    profiled_address: int
    _run: Any = field(repr=False, compare=False)
    _run_profiled: Any = field(repr=False, compare=False)

    @classmethod
    def of(cls, target: Target, store: Store) -> Driver:
        codes = (driver_code(target), driver_code(target, profile=True))
        addresses = compile_all(codes, target, store)
        plain, profiled = (addresses[code.key(target)] for code in codes)
        words = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2 + [ctypes.c_int32] * 2
        run = ctypes.CFUNCTYPE(ctypes.c_int64, *words, ctypes.c_void_p)
        timed = ctypes.CFUNCTYPE(ctypes.c_int64, *words, ctypes.c_void_p, ctypes.c_void_p)
        return cls(plain, profiled, run(plain), timed(profiled))

    def run(
        self,
        frame: int,
        table: int,
        count: int,
        *,
        first: int = 0,
        worker: int = 0,
        workers: int = 1,
        sync: int = 0,
        times: int = 0,
    ) -> int:
        """Run `count` rows from `first`; 0 or what `unpack_failure` explains.

        With several workers all of them call this, with a common `sync` (SYNC_WORDS int64, zero
        at first). `times`, an array of int64 for each row of the table, makes it a timed run.
        """
        if times:
            status = self._run_profiled(frame, table, first, count, worker, workers, sync, times)
        else:
            status = self._run(frame, table, first, count, worker, workers, sync)
        return int(status)

    def bind(self, frame: int, table: int, count: int) -> Callable[[], int]:
        """`run(frame, table, count)` on one worker with its arguments converted beforehand."""
        run = self._run
        arguments = (
            *(ctypes.c_void_p(frame), ctypes.c_void_p(table)),
            *(ctypes.c_int64(0), ctypes.c_int64(count)),
            *(ctypes.c_int32(0), ctypes.c_int32(1), ctypes.c_void_p(0)),
        )
        return lambda: int(run(*arguments))


def make_table(rows: int) -> NDArray[np.int64]:
    """An empty table of so many rows, aligned to cache lines."""
    return aligned_words(rows * ROW_WORDS).reshape(rows, ROW_WORDS)


def aligned_words(count: int, alignment: int = 64) -> NDArray[np.int64]:
    """`count` zero int64 words at an address that is a multiple of `alignment`."""
    room = np.zeros(8 * count + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    return room[start : start + 8 * count].view(np.int64)


# -- host steps ------------------------------------------------------------------------------
class HostStep(NamedTuple):
    """A Python function as a kernel: its address, and what must live as long as that is used."""

    address: int
    keepalive: object


_raised = threading.local()


def host_callback(function: Callable[[int, int, int, int], int | None]) -> HostStep:
    """`function(frame, desc, worker, workers)` as a kernel; None is success.

    An exception becomes status -1 and is kept for `take_exception` in the thread that it was
    raised in. Rows of host steps should be SERIAL: then that is the thread that called `run`.
    """

    def step(frame: int | None, desc: int | None, worker: int, workers: int) -> int:
        try:
            return int(function(frame or 0, desc or 0, worker, workers) or 0)
        except BaseException as error:
            # Also KeyboardInterrupt: there is compiled code between here and whoever asked.
            _raised.exception = error
            return -1

    kernel = Kernel(step)
    return HostStep(ctypes.cast(kernel, ctypes.c_void_p).value or 0, kernel)


def take_exception() -> BaseException | None:
    """The last exception that a host step raised in this thread, once."""
    error: BaseException | None = getattr(_raised, "exception", None)
    _raised.exception = None
    return error


def keep_exception(error: BaseException | None) -> None:
    """Make `error` the one that `take_exception` gives in this thread."""
    _raised.exception = error
