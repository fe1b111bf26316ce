"""The table interpreter's source, as IR text: how the rows of a table are run, by one thread.

A table is int64 rows of (kernel address, descriptor address, flags, what a team has found out):

    for row in rows: status = kernel(frame, desc, 0, 1); stop if it is not zero

`crew` has the form of it that shares rows among threads.
"""

from __future__ import annotations

import sys

from neuralsym.cpu.emit import Code
from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.rows import ROW_WORDS

RUN_PARAMETERS = (("frame", "ptr"), ("table", "ptr"), ("first", "i64"), ("count", "i64"))
"""`int64 run(...)`: rows first to first + count - 1; 0, or what `rows.unpack_failure` explains."""

BOUND_WORDS = ("run", "frame", "table", "count")
"""What a bound run is told."""


def driver_code(profile: bool = False) -> Code:
    """The interpreter's source; with `profile` it takes one more pointer, to int64 times.

    There it adds to `times[row]` the nanoseconds that the row took.
    """
    symbol = "run_profiled" if profile else "run"
    module = Module()
    parameters = RUN_PARAMETERS + ((("times", "ptr"),) if profile else ())
    f = module.function(symbol, parameters, "i64")
    if profile:
        clock(module)
    with f.loop(f.add("%first", "%count"), start="%first") as loop:
        row = row_at(f, "%table", loop.index)
        kernel, desc = f.load("ptr", row, 8), f.load("ptr", f.at(row, 8), 8)
        began = now(f) if profile else ""
        status = f.value(f"call i32 {kernel}(ptr %frame, ptr {desc}, i32 0, i32 1)")
        if profile:
            add_time(f, "%times", loop.index, began)
        stop_at_failure(f, status, loop.index)
    f.do("ret i64 0")
    return Code("driver", symbol, str(module))


def bound_code() -> Code:
    """`int64 bound(int64* words)`: BOUND_WORDS in one argument, since converting five is slow."""
    module = Module()
    f = module.function("bound", (("words", "ptr"),), "i64")
    run, frame, table = (f.load("ptr", f.at("%words", 8 * i), 8) for i in range(3))
    count = f.load("i64", f.at("%words", 24), 8)
    arguments = f"ptr {frame}, ptr {table}, i64 0, i64 {count}"
    f.do(f"ret i64 {f.value(f'call i64 {run}({arguments})')}")
    return Code("driver", "bound", str(module))


# -- parts of it -----------------------------------------------------------------------------
def row_at(f: Function, table: str, index: str) -> str:
    """The address of a row."""
    return f.at(table, f.mul(index, 8 * ROW_WORDS))


def stop_at_failure(f: Function, status: str, row: str) -> None:
    """Return `pack_failure` of the row unless the status (i32) is zero."""
    bad, good = f.new_label("bad"), f.new_label("good")
    f.do(f"br i1 {f.compare('ne', status, 0, 'i32')}, label %{bad}, label %{good}")
    f.start(bad)
    high = f.value(f"shl i64 {f.value(f'sext i32 {status} to i64')}, 32")
    packed = f.value(f"or i64 {high}, {f.add(row, 1)}")
    f.do(f"ret i64 {packed}")
    f.start(good)


def clock(module: Module) -> None:
    """`nanoseconds()`: the monotonic clock."""
    monotonic = 6 if sys.platform == "darwin" else 1
    module.declarations.add("declare i32 @clock_gettime(i32, ptr)")
    f = module.function("nanoseconds", (), "i64", private=True)
    time = f.value("alloca [2 x i64], align 8")
    f.value(f"call i32 @clock_gettime(i32 {monotonic}, ptr {time})")
    whole = f.mul(f.load("i64", time, 8), 1_000_000_000)
    f.do(f"ret i64 {f.add(whole, f.load('i64', f.at(time, 8), 8))}")


def now(f: Function) -> str:
    """The time in nanoseconds, by the function that `clock` has put into the module."""
    return f.value("call i64 @nanoseconds()")


def add_time(f: Function, times: str, row: str, began: str) -> None:
    """Add the time since `began` to the row's."""
    place = f.at(times, f.mul(row, 8))
    f.store("i64", f.add(f.load("i64", place, 8), f.sub(now(f), began)), place, 8)
