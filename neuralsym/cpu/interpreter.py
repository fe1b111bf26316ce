"""The table interpreter's source, as IR text: how rows are run and how workers meet.

A table is int64 rows of (kernel address, descriptor address, flags, reserved). Every worker walks
the same table and meets the others after each row:

    for row in rows: status = kernel(frame, desc, worker, workers); barrier; stop if any failed
"""

from __future__ import annotations

import sys

from neuralsym.cpu.emit import Code
from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.machine import Target

ROW_WORDS = 4
"""Words of a row: kernel address, descriptor address, flags, reserved."""

SERIAL = 1
"""Flag of a row that worker 0 runs alone, as `worker 0 of 1`."""

# The block by which workers meet, in bytes: arrivals at the barrier, barriers passed, the failure
# of the run, workers that have left it (a cache line each), the job of a team, and a semaphore
# for each worker.
ARRIVED, PASSED, FAILED, LEFT, JOB, SEMAPHORES = 0, 64, 128, 192, 256, 320
SEMAPHORE_BYTES = 64

JOB_WORDS = ("frame", "table", "count", "workers", "times", "run", "run_profiled")
"""What a team's workers are told; a negative count sends them home."""

SPINS = 300
"""Pauses at a barrier before giving the core to whoever else wants it."""

YIELDS = 2000
"""Times to give the core away before sleeping: a host step may take long."""

IDLE_YIELDS = 100
"""Times that a worker without a job gives the core away before it goes to sleep."""

NAP_MICROSECONDS = 50


def sync_words(workers: int) -> int:
    """Words of the block for so many workers; all zero before its first use."""
    return (SEMAPHORES + SEMAPHORE_BYTES * workers) // 8


def pack_failure(row: int, status: int) -> int:
    """What a run returns when `row` fails with `status`: status in the high half, row + 1 below."""
    return (status << 32) | (row + 1)


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
    """`meet(sync, workers)`: returns when all have called it."""
    _relax(module, target)
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


def _relax(module: Module, target: Target) -> None:
    """`relax(turn)`: how to wait for the `turn`th time."""
    relax = module.function("relax", (("turn", "i64"),), "void", private=True)
    pause = "llvm.x86.sse2.pause()" if target.x86 else "llvm.aarch64.hint(i32 1)"
    module.declarations.add(f"declare void @{pause.replace(' 1', '')}")
    windows = sys.platform == "win32"
    give, nap = ("SwitchToThread", "Sleep") if windows else ("sched_yield", "usleep")
    module.declarations |= {f"declare i32 @{give}()", f"declare i32 @{nap}(i32)"}
    spin, busy, tired, sleep, out = (
        relax.new_label(hint) for hint in ("spin", "busy", "tired", "sleep", "out")
    )
    relax.do(f"br i1 {relax.compare('slt', '%turn', SPINS)}, label %{spin}, label %{busy}")
    relax.start(spin)
    relax.do(f"call void @{pause}")
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


BOUND_WORDS = ("run", "frame", "table", "count")
"""What a bound run is told."""


def bound_code() -> Code:
    """`int64 bound(int64* words)`: BOUND_WORDS in one argument, since converting seven is slow."""
    module = Module()
    f = module.function("bound", (("words", "ptr"),), "i64")
    run, frame, table = (f.load("ptr", f.at("%words", 8 * i), 8) for i in range(3))
    count = f.load("i64", f.at("%words", 24), 8)
    arguments = f"ptr {frame}, ptr {table}, i64 0, i64 {count}, i32 0, i32 1, ptr null"
    f.do(f"ret i64 {f.value(f'call i64 {run}({arguments})')}")
    return Code("driver", "bound", str(module))


# -- teams -----------------------------------------------------------------------------------
def serve_code(target: Target) -> Code:
    """`int64 serve(int64* sync, int32 worker)`: does the team's jobs until it is sent home."""
    module = Module()
    f = module.function("serve", (("sync", "ptr"), ("worker", "i32")), "i64")
    _semaphore(module, target)
    number = f.value("sext i32 %worker to i64")
    own = f.at("%sync", f.add(f.mul(number, SEMAPHORE_BYTES), SEMAPHORES))
    ready, work, home = f.new_label("ready"), f.new_label("work"), f.new_label("home")
    f.do(f"br label %{ready}")
    f.start(ready)
    f.do(f"call void @await(ptr {own})")
    going = f.compare("slt", _job(f, "count", "i64"), 0)
    f.do(f"br i1 {going}, label %{home}, label %{work}")
    f.start(work)
    workers = f.value(f"trunc i64 {_job(f, 'workers', 'i64')} to i32")
    _call_run(f, _job(f, "times", "ptr"), "%worker", workers)
    f.do(f"br label %{ready}")
    f.start(home)
    f.do("ret i64 0")
    return Code("driver", "serve", str(module))


def team_code(target: Target) -> Code:
    """`int64 run_team(frame, table, count, times, workers, sync)`: a job for all, done as worker 0.

    The one call both wakes the others and takes part, so nothing can come between.
    """
    module = Module()
    parameters = [("frame", "ptr"), ("table", "ptr"), ("count", "i64"), ("times", "ptr")]
    f = module.function("run_team", (*parameters, ("workers", "i32"), ("sync", "ptr")), "i64")
    _semaphore(module, target)
    number = f.value("sext i32 %workers to i64")
    values = {"frame": "ptr %frame", "table": "ptr %table", "times": "ptr %times"}
    values |= {"count": "i64 %count", "workers": f"i64 {number}"}
    for name, value in values.items():
        kind, text = value.split()
        f.store(kind, text, f.at("%sync", JOB + 8 * JOB_WORDS.index(name)), 8)
    with f.loop(number, start=1) as loop:
        offset = f.add(f.mul(loop.index, SEMAPHORE_BYTES), SEMAPHORES)
        f.do(f"call void @post(ptr {f.at('%sync', offset)})")
    going = f.compare("slt", "%count", 0)
    home, work = f.new_label("home"), f.new_label("work")
    f.do(f"br i1 {going}, label %{home}, label %{work}")
    f.start(home)
    f.do("ret i64 0")
    f.start(work)
    f.do(f"ret i64 {_call_run(f, '%times', '0', '%workers')}")
    return Code("driver", "run_team", str(module))


def _job(f: Function, name: str, kind: str) -> str:
    return f.load(kind, f.at("%sync", JOB + 8 * JOB_WORDS.index(name)), 8)


def _call_run(f: Function, times: str, worker: str, workers: str) -> str:
    """The status of the job's rows, timed if `times` is not null."""
    frame, table, count = _job(f, "frame", "ptr"), _job(f, "table", "ptr"), _job(f, "count", "i64")
    run, profiled = _job(f, "run", "ptr"), _job(f, "run_profiled", "ptr")
    arguments = (
        f"ptr {frame}, ptr {table}, i64 0, i64 {count}, i32 {worker}, i32 {workers}, ptr %sync"
    )
    timed, plain, after = f.new_label("timed"), f.new_label("plain"), f.new_label("after")
    f.do(f"br i1 {f.compare('ne', times, 'null', 'ptr')}, label %{timed}, label %{plain}")
    f.start(timed)
    slow = f.value(f"call i64 {profiled}({arguments}, ptr {times})")
    f.do(f"br label %{after}")
    f.start(plain)
    fast = f.value(f"call i64 {run}({arguments})")
    f.do(f"br label %{after}")
    f.start(after)
    return f.value(f"phi i64 [{slow}, %{timed}], [{fast}, %{plain}]")


def _semaphore(module: Module, target: Target) -> None:
    """`await(place)` waits for a `post(place)`: on Linux the C library's semaphores."""
    _relax(module, target)
    linux = sys.platform.startswith("linux")
    post = module.function("post", (("place", "ptr"),), "void", private=True)
    if linux:
        module.declarations |= {
            f"declare i32 @sem_{name}(ptr)" for name in ("post", "trywait", "wait")
        }
        post.value("call i32 @sem_post(ptr %place)")
    else:
        post.value("atomicrmw add ptr %place, i64 1 acq_rel, align 8")
    post.do("ret void")

    f = module.function("await", (("place", "ptr"),), "void", private=True)
    look, idle, relax, done = (f.new_label(hint) for hint in ("look", "idle", "relax", "done"))
    f.do(f"br label %{look}")
    f.start(look)
    turn = f.value(f"phi i64 [0, %entry], [%next, %{relax}], [{SPINS}, %{idle}]")
    if linux:
        got = f.compare("eq", f.value("call i32 @sem_trywait(ptr %place)"), 0, "i32")
    else:
        posted = f.value("load atomic i64, ptr %place acquire, align 8")
        got = f.compare("ne", posted, 0)
    tired = f.compare("sgt", turn, SPINS + IDLE_YIELDS)
    choose = f.new_label("choose")
    f.do(f"br i1 {got}, label %{done}, label %{choose}")
    f.start(choose)
    f.do(f"br i1 {tired}, label %{idle}, label %{relax}")
    f.start(relax)
    f.do(f"call void @relax(i64 {turn})")
    f.do(f"%next = add i64 {turn}, 1")
    f.do(f"br label %{look}")
    f.start(idle)
    if linux:
        # Interrupted by a signal, it returns without a post: look again.
        woken = f.compare("eq", f.value("call i32 @sem_wait(ptr %place)"), 0, "i32")
        f.do(f"br i1 {woken}, label %{done}, label %{look}")
    else:
        f.do(f"call void @relax(i64 {SPINS + YIELDS})")
        f.do(f"br label %{look}")
    f.start(done)
    if not linux:
        f.value("atomicrmw sub ptr %place, i64 1 acq_rel, align 8")
    f.do("ret void")
