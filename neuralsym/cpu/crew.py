"""How threads share the rows of a table: the IR text of the caller's loop and the workers' life.

The caller of a run walks its table. It lays out a row in its berth as some shares; whoever finds a
share that nobody has begun claims it and does it: the caller, or a worker that serves the berth.
So nobody waits for a thread that has not got a core, only for shares that one has really begun:

    caller:  for row in rows: lay out; do unclaimed shares; wait for those that others have claimed
    worker:  whenever a row is laid out in the berth that it serves: do unclaimed shares

A claim names its row by a number that no other row of the berth ever has, so a late worker cannot
take a share of a row that is over, and what it reads after it has claimed stays as it is until it
has done the share. A short row is tried both ways, shared and by the caller alone, and is then run
the faster way.
"""

from __future__ import annotations

import sys

from neuralsym.cpu.emit import Code
from neuralsym.cpu.interpreter import SERIAL, add_time, clock, now, row_at, stop_at_failure
from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.machine import Target

LINE = 128
"""Bytes between what different threads write: two cache lines, as they are fetched in pairs."""

# A berth, where one run at a time lays out its rows. OPEN: the row's number, and its count of
# shares in the low 16 bits; with it KERNEL, DESC and FRAME. MEMBERS: threads that serve it, its
# caller with them. NUMBER: of the last row. GAIN, PAUSE, UNTIL: what sharing has brought lately,
# how long to do without it if that is nothing, and until when. CALM: where the caller sleeps. Then
# a STATE and a STATUS for each share.
OPEN, KERNEL, DESC, FRAME, MEMBERS, CALM, CLAIMS = 0, 8, 16, 24, 128, 320, 384
NUMBER, GAIN, PAUSE, UNTIL = 256, 264, 272, 280
STATE, STATUS = 0, 8

# The state of a share: four times the number of the row that has last claimed it, and
AWAITED, DONE = 1, 2

# A team's block: how many workers sleep, then for each the address of the berth that it serves (0
# for none, HOME to end), the share it prefers, whether it sleeps, and where.
SLEEPERS, WORKERS = 0, LINE
SERVES, PREFERS, ASLEEP, BED = 0, 8, 16, 64
WORKER_BYTES = 2 * LINE
HOME = -1

SPINS = 300
"""Looks, a pause apart, before giving the core to whoever else wants it: some microseconds."""

IDLE_YIELDS = 100
"""Times that a worker without work gives the core away before it goes to sleep."""

BUSY_NANOSECONDS = 20_000
"""Who gets the core back later than this knows that others want it."""

BUSY_WAITS = 64
"""For so many waits after that a worker sleeps at once instead of giving the core away."""

MOST_GAIN = 10_000_000
"""Nanoseconds that workers have saved, at most, that are set against waiting for them."""

FIRST_PAUSE, LONGEST_PAUSE = 20_000_000, 640_000_000
"""Nanoseconds for which a caller works alone when waiting costs more than sharing saves."""

NAP_MICROSECONDS = 50
"""How often who sleeps looks up where the system has no semaphores of the kind used here."""

# The memory of a row (the last word of it). Below SETTLED: in bits 56 and up how often it has been
# timed, then the least time shared and the least time alone, 28 bits of nanoseconds each.
TIMES_SHARED, TIMES_ALONE = 4, 4
TIME_BITS, COUNT_BITS = 28, 56
SETTLED = 1 << 60
RUN_SHARED, RUN_ALONE = SETTLED, SETTLED + 1
LONG_NANOSECONDS = 30_000
"""A row that takes longer than this is always shared."""


def berth_words(shares: int) -> int:
    """Words of a berth for rows of up to so many shares; all zero before its first use."""
    return (CLAIMS + LINE * shares) // 8


def team_words(workers: int) -> int:
    """Words of a team's block, its caller counted among the workers; all zero at first."""
    return (WORKERS + WORKER_BYTES * workers) // 8


def run_team_code(target: Target) -> Code:
    """`int64 run_team(frame, table, count, times, berth, team)`: the caller's part of a run.

    times: null, or an array of int64 to which the nanoseconds of each row are added.
    """
    module = Module()
    names = ("frame", "table", "count", "times", "berth", "team")
    parameters = [(n, "i64" if n == "count" else "ptr") for n in names]
    _take(module)
    _share(module, target)
    f = module.function("run_team", parameters, "i64")
    timed = f.compare("ne", "%times", "null", "ptr")
    with f.loop("%count") as loop:
        row = row_at(f, "%table", loop.index)
        kernel, desc = f.load("ptr", row, 8), f.load("ptr", f.at(row, 8), 8)
        flags, memory = f.load("i64", f.at(row, 16), 8), f.at(row, 24)
        before = f.load("i64", memory, 8)
        serial = f.compare("ne", f.value(f"and i64 {flags}, {SERIAL}"), 0)
        members = f.value(f"load atomic i64, ptr {f.at('%berth', MEMBERS)} monotonic, align 8")
        alone = f.compare("eq", before, RUN_ALONE)
        alone = f.value(f"or i1 {alone}, {f.compare('sle', members, 1)}")
        alone = f.value(f"or i1 {alone}, {serial}")
        alone = f.value(f"or i1 {alone}, {_pauses(f)}")
        trying = _tries_alone(f, before)
        untimed = f.value(f"or i1 {f.compare('sge', before, SETTLED)}, {alone}")
        wants_time = f.value(f"or i1 {timed}, {f.value(f'xor i1 {untimed}, true')}")
        (began,) = f.choose(wants_time, ["i64"], lambda: [now(f)], lambda: ["0"])
        (status,) = f.choose(
            f.value(f"or i1 {alone}, {trying}"),
            ["i32"],
            lambda: [f.value(f"call i32 {kernel}(ptr %frame, ptr {desc}, i32 0, i32 1)")],
            lambda: [
                f.value(
                    f"call i32 @share(ptr %frame, ptr {kernel}, ptr {desc}, i64 {members}, "
                    "ptr %berth, ptr %team)"
                )
            ],
        )
        with f.when(timed):
            add_time(f, "%times", loop.index, began)
        with f.when(f.value(f"xor i1 {untimed}, true")):
            _remember(f, memory, before, trying, f.sub(now(f), began))
        stop_at_failure(f, status, loop.index)
    f.do("ret i64 0")
    return Code("driver", "run_team", str(module))


def serve_code(target: Target) -> Code:
    """`int64 serve(team, worker)`: a worker's life, until it is sent HOME."""
    module = Module()
    _take(module)
    _sleeping(module, target)
    clock(module)
    f = module.function("serve", (("team", "ptr"), ("worker", "i64")), "i64")
    own = f.at("%team", f.add(f.mul("%worker", WORKER_BYTES), WORKERS))
    labels = ("look", "home", "stay", "open", "take", "idle", "wait", "tired", "bed")
    look, home, stay, opened, take, idle, wait, tired, bed = (f.new_label(n) for n in labels)
    memory = {n: f.value("alloca i64, align 8") for n in ("seen", "at", "turn", "busy")}
    for place in memory.values():
        f.store("i64", "0", place, 8)
    f.do(f"br label %{look}")

    f.start(look)
    berth = f.value(f"load atomic i64, ptr {own} acquire, align 8")
    f.do(f"switch i64 {berth}, label %{stay} [i64 {HOME}, label %{home} i64 0, label %{idle}]")
    f.start(home)
    f.do("ret i64 0")
    f.start(stay)
    place = f.pointer(berth)
    row = f.value(f"load atomic i64, ptr {place} acquire, align 8")
    same = f.compare("eq", row, f.load("i64", memory["seen"], 8))
    same_place = f.compare("eq", berth, f.load("i64", memory["at"], 8))
    f.do(f"br i1 {f.value(f'and i1 {same}, {same_place}')}, label %{idle}, label %{opened}")
    f.start(opened)
    f.store("i64", row, memory["seen"], 8)
    f.store("i64", berth, memory["at"], 8)
    f.do(f"br i1 {f.compare('eq', row, 0)}, label %{idle}, label %{take}")
    f.start(take)
    prefers = f.load("i64", f.at(own, PREFERS), 8)
    f.value(f"call i64 @take(ptr {place}, i64 {row}, i64 {prefers})")
    f.store("i64", "0", memory["turn"], 8)
    f.do(f"br label %{look}")

    f.start(idle)
    turn = f.load("i64", memory["turn"], 8)
    f.store("i64", f.add(turn, 1), memory["turn"], 8)
    f.do(f"br i1 {f.compare('slt', turn, SPINS)}, label %{wait}, label %{tired}")
    f.start(wait)
    f.do("call void @breathe()")
    f.do(f"br label %{look}")
    f.start(tired)
    busy = f.load("i64", memory["busy"], 8)
    patient = f.compare("slt", turn, SPINS + IDLE_YIELDS)
    patient = f.value(f"and i1 {patient}, {f.compare('eq', busy, 0)}")
    give = f.new_label("give")
    f.do(f"br i1 {patient}, label %{give}, label %{bed}")
    f.start(give)
    began = now(f)
    f.do("call void @give()")
    late = f.compare("sgt", f.sub(now(f), began), BUSY_NANOSECONDS)
    f.store("i64", f.select(late, "i64", BUSY_WAITS, 0), memory["busy"], 8)
    f.do(f"br label %{look}")
    f.start(bed)
    f.store("i64", f.maximum(f.sub(busy, 1), 0), memory["busy"], 8)
    f.store("i64", "0", memory["turn"], 8)
    _go_to_sleep(f, own, memory["seen"], memory["at"])
    f.do(f"br label %{look}")
    return Code("driver", "serve", str(module))


def rouse_code(target: Target) -> Code:
    """`int64 rouse(team, workers)`: wake all that sleep, to see that they are to go home."""
    module = Module()
    _sleeping(module, target)
    _wake(module)
    f = module.function("rouse", (("team", "ptr"), ("workers", "i64")), "i64")
    f.do(f"call void @wake(ptr %team, i64 %workers, i64 {HOME})")
    f.do("ret i64 0")
    return Code("driver", "rouse", str(module))


# -- a row -----------------------------------------------------------------------------------
def _take(module: Module) -> None:
    """`take(berth, row, from)`: do all shares that nobody has begun, first `from`; their count."""
    f = module.function(
        "take", (("berth", "ptr"), ("row", "i64"), ("from", "i64")), "i64", private=True
    )
    shares = f.value("and i64 %row, 65535")
    claimed = f.value(f"shl i64 {f.value('lshr i64 %row, 16')}, 2")
    count = f.value("alloca i64, align 8")
    f.store("i64", "0", count, 8)
    with f.loop(shares) as loop:
        share = f.value(f"urem i64 {f.add(loop.index, '%from')}, {shares}")
        claim = f.at("%berth", f.add(f.mul(share, LINE), CLAIMS))
        before = f.value(f"load atomic i64, ptr {claim} monotonic, align 8")
        with f.when(f.compare("slt", before, claimed)):
            pair = f.value(
                f"cmpxchg ptr {claim}, i64 {before}, i64 {claimed} acq_rel monotonic, align 8"
            )
            with f.when(f.value(f"extractvalue {{ i64, i1 }} {pair}, 1")):
                kernel, desc, frame = (
                    f.load("ptr", f.at("%berth", place), 8) for place in (KERNEL, DESC, FRAME)
                )
                worker, workers = (f.value(f"trunc i64 {v} to i32") for v in (share, shares))
                status = f.value(
                    f"call i32 {kernel}(ptr {frame}, ptr {desc}, i32 {worker}, i32 {workers})"
                )
                f.store("i32", status, f.at(claim, STATUS))
                f.store("i64", f.add(f.load("i64", count, 8), 1), count, 8)
                done = f.add(claimed, DONE)
                state = f.value(f"atomicrmw xchg ptr {claim}, i64 {done} acq_rel, align 8")
                awaited = f.compare("eq", state, f.add(claimed, AWAITED))
                with f.when(awaited):
                    f.do(f"call void @post(ptr {f.at('%berth', CALM)})")
    f.do(f"ret i64 {f.load('i64', count, 8)}")


def _share(module: Module, target: Target) -> None:
    """`share(frame, kernel, desc, members, berth, team)`: the status of a row done by all.

    That is the status of the first share that failed, whoever was first in time.
    """
    _sleeping(module, target)
    _wake(module)
    clock(module)
    names = (("frame", "ptr"), ("kernel", "ptr"), ("desc", "ptr"), ("members", "i64"))
    parameters = (*names, ("berth", "ptr"), ("team", "ptr"))
    f = module.function("share", parameters, "i32", private=True)
    began = now(f)
    number = f.add(f.load("i64", f.at("%berth", NUMBER), 8), 1)
    f.store("i64", number, f.at("%berth", NUMBER), 8)
    for place, value in ((KERNEL, "%kernel"), (DESC, "%desc"), (FRAME, "%frame")):
        f.store("ptr", value, f.at("%berth", place), 8)
    row = f.value(f"or i64 {f.value(f'shl i64 {number}, 16')}, %members")
    # Exchanged, not stored: it is seen before we look who sleeps.
    f.value(f"atomicrmw xchg ptr %berth, i64 {row} seq_cst, align 8")
    sleepers = f.value(f"load atomic i64, ptr {f.at('%team', SLEEPERS)} seq_cst, align 8")
    with f.when(f.compare("ne", sleepers, 0)):
        berth = f.value("ptrtoint ptr %berth to i64")
        workers = f.load("i64", f.at("%team", SLEEPERS + 8), 8)
        f.do(f"call void @wake(ptr %team, i64 {workers}, i64 {berth})")
    mine = f.value(f"call i64 @take(ptr %berth, i64 {row}, i64 0)")
    free = now(f)
    claimed = f.value(f"shl i64 {number}, 2")
    with f.loop("%members", ("i32", "0")) as loop:
        claim = f.at("%berth", f.add(f.mul(loop.index, LINE), CLAIMS))
        f.do(f"call void @finish(ptr {claim}, i64 {claimed}, i64 {began}, ptr %berth)")
        status = f.load("i32", f.at(claim, STATUS))
        failed = f.compare("ne", loop.values[0], 0, "i32")
        loop.next(f.select(failed, "i32", loop.values[0], status))
    _weigh(f, f.sub(free, began), mine, f.sub(now(f), free))
    f.do(f"ret i32 {loop.values[0]}")
    _finish(module)


def _finish(module: Module) -> None:
    """`finish(claim, claimed, began, berth)`: wait until the share has been done.

    Whoever does it should need about as long as we have had since `began`. If it needs longer, it
    has lost its core: we sleep, so that it may have ours.
    """
    parameters = (("claim", "ptr"), ("claimed", "i64"), ("began", "i64"), ("berth", "ptr"))
    f = module.function("finish", parameters, "void", private=True)
    labels = ("look", "wait", "rest", "spin", "give", "sleep", "mark", "bed", "done")
    look, wait, rest, spin, give, sleep, mark, bed, done = (f.new_label(n) for n in labels)
    memory = {n: f.value("alloca i64, align 8") for n in ("turn", "limit")}
    for place in memory.values():
        f.store("i64", "0", place, 8)
    finished, awaited = f.add("%claimed", DONE), f.add("%claimed", AWAITED)
    f.do(f"br label %{look}")
    f.start(look)
    state = f.value("load atomic i64, ptr %claim acquire, align 8")
    f.do(f"br i1 {f.compare('eq', state, finished)}, label %{done}, label %{wait}")
    f.start(wait)
    turn = f.load("i64", memory["turn"], 8)
    f.store("i64", f.add(turn, 1), memory["turn"], 8)
    f.do(f"br i1 {f.compare('slt', turn, SPINS)}, label %{spin}, label %{rest}")
    f.start(spin)
    f.do("call void @breathe()")
    f.do(f"br label %{look}")
    f.start(rest)
    time = now(f)
    with f.when(f.compare("eq", turn, SPINS)):
        f.store("i64", f.sub(f.mul(time, 2), "%began"), memory["limit"], 8)
    late = f.compare("sgt", time, f.load("i64", memory["limit"], 8))
    f.do(f"br i1 {late}, label %{sleep}, label %{give}")
    f.start(give)
    f.do("call void @give()")
    f.do(f"br label %{look}")
    f.start(sleep)
    # Who finishes a share that is awaited posts. Woken too early by a signal, we look again.
    f.do(f"br i1 {f.compare('eq', state, awaited)}, label %{bed}, label %{mark}")
    f.start(mark)
    pair = f.value(f"cmpxchg ptr %claim, i64 %claimed, i64 {awaited} acq_rel acquire, align 8")
    marked = f.value(f"extractvalue {{ i64, i1 }} {pair}, 1")
    f.do(f"br i1 {marked}, label %{bed}, label %{look}")
    f.start(bed)
    f.do(f"call void @rest(ptr {f.at('%berth', CALM)})")
    f.do(f"br label %{look}")
    f.start(done)
    f.do("ret void")


# -- when it is worth sharing ----------------------------------------------------------------
def _weigh(f: Function, worked: str, mine: str, waited: str) -> None:
    """Set the work that others have done in a row against the wait for them.

    A thread that has lost its core in the middle of a share makes the caller wait for milliseconds.
    Where that happens more often than it pays, the caller works alone for a while.
    """
    others = f.mul(worked, f.sub("%members", mine))
    saved = f.sdiv(others, f.maximum(mine, 1))
    gain = f.add(f.load("i64", f.at("%berth", GAIN), 8), f.sub(saved, waited))
    f.store("i64", f.minimum(gain, MOST_GAIN), f.at("%berth", GAIN), 8)
    pause = f.at("%berth", PAUSE)
    with f.when(f.compare("sgt", gain, MOST_GAIN)):
        f.store("i64", str(FIRST_PAUSE), pause, 8)
    with f.when(f.compare("slt", gain, 0)):
        length = f.maximum(f.load("i64", pause, 8), FIRST_PAUSE)
        f.store("i64", f.add(now(f), length), f.at("%berth", UNTIL), 8)
        f.store("i64", f.minimum(f.mul(length, 2), LONGEST_PAUSE), pause, 8)
        f.store("i64", "0", f.at("%berth", GAIN), 8)


def _pauses(f: Function) -> str:
    """Whether the caller works alone for now."""
    place = f.at("%berth", UNTIL)
    until = f.load("i64", place, 8)

    def look() -> list[str]:
        on = f.compare("slt", now(f), until)
        f.store("i64", f.select(on, "i64", until, 0), place, 8)
        return [on]

    return f.choose(f.compare("ne", until, 0), ["i1"], look, lambda: ["false"])[0]


def _tries_alone(f: Function, memory: str) -> str:
    """Whether a row that has this memory is now to be timed alone."""
    open_ = f.compare("slt", memory, SETTLED)
    return f.value(f"and i1 {open_}, {f.compare('sge', memory, TIMES_SHARED << COUNT_BITS)}")


def _remember(f: Function, memory: str, before: str, alone: str, took: str) -> None:
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
    way = f.select(better, "i64", RUN_ALONE, RUN_SHARED)
    after = f.select(over, "i64", way, more)
    f.store("i64", f.select(long, "i64", RUN_SHARED, after), memory, 8)


def _least(f: Function, known: str, took: str) -> str:
    fresh = f.compare("eq", known, 0)
    return f.select(fresh, "i64", took, f.minimum(known, took))


# -- sleeping and waking ---------------------------------------------------------------------
def _go_to_sleep(f: Function, own: str, seen: str, at: str) -> None:
    """Sleep unless there is something new; who wakes a worker takes back that it sleeps."""
    asleep, sleepers = f.at(own, ASLEEP), f.at("%team", SLEEPERS)
    f.value(f"atomicrmw add ptr {sleepers}, i64 1 seq_cst, align 8")
    f.value(f"atomicrmw xchg ptr {asleep}, i64 1 seq_cst, align 8")
    place = f.value(f"load atomic i64, ptr {own} seq_cst, align 8")
    known = f.load("i64", at, 8)
    new = f.compare("ne", place, known)
    new = f.value(f"and i1 {new}, {f.compare('ne', place, 0)}")
    inside = f.compare("sgt", place, 0)
    address = f.pointer(place)

    def row_is_new() -> list[str]:
        row = f.value(f"load atomic i64, ptr {address} seq_cst, align 8")
        return [f.compare("ne", row, f.load("i64", seen, 8))]

    (row_new,) = f.choose(inside, ["i1"], row_is_new, lambda: ["false"])
    anything = f.value(f"or i1 {new}, {row_new}")

    def stay_up() -> list[str]:
        pair = f.value(f"cmpxchg ptr {asleep}, i64 1, i64 0 seq_cst seq_cst, align 8")
        mine = f.value(f"extractvalue {{ i64, i1 }} {pair}, 1")
        with f.when(mine):
            f.value(f"atomicrmw sub ptr {sleepers}, i64 1 seq_cst, align 8")
        # Else someone is about to post, and the sleep is short.
        return [f.value(f"xor i1 {mine}, true")]

    (sleeps,) = f.choose(anything, ["i1"], stay_up, lambda: ["true"])
    with f.when(sleeps):
        again, out = f.new_label("again"), f.new_label("out")
        f.do(f"br label %{again}")
        f.start(again)
        f.do(f"call void @rest(ptr {f.at(own, BED)})")
        # Interrupted by a signal, nobody has woken it.
        still = f.value(f"load atomic i64, ptr {asleep} acquire, align 8")
        f.do(f"br i1 {f.compare('ne', still, 0)}, label %{again}, label %{out}")
        f.start(out)


def _wake(module: Module) -> None:
    """`wake(team, workers, berth)`: post to the sleeping workers that serve the berth."""
    f = module.function(
        "wake", (("team", "ptr"), ("workers", "i64"), ("berth", "i64")), "void", private=True
    )
    # What they are to see is seen before we look who sleeps.
    f.do("fence seq_cst")
    with f.loop("%workers", start=1) as loop:
        own = f.at("%team", f.add(f.mul(loop.index, WORKER_BYTES), WORKERS))
        serves = f.value(f"load atomic i64, ptr {own} monotonic, align 8")
        asleep = f.value(f"load atomic i64, ptr {f.at(own, ASLEEP)} monotonic, align 8")
        wanted = f.value(
            f"and i1 {f.compare('eq', serves, '%berth')}, {f.compare('ne', asleep, 0)}"
        )
        with f.when(wanted):
            pair = f.value(
                f"cmpxchg ptr {f.at(own, ASLEEP)}, i64 1, i64 0 seq_cst seq_cst, align 8"
            )
            with f.when(f.value(f"extractvalue {{ i64, i1 }} {pair}, 1")):
                f.value(f"atomicrmw sub ptr {f.at('%team', SLEEPERS)}, i64 1 seq_cst, align 8")
                f.do(f"call void @post(ptr {f.at(own, BED)})")
    f.do("ret void")


def _sleeping(module: Module, target: Target) -> None:
    """`breathe()`, `give()` the core away, `rest(place)` until a `post(place)`.

    Resting may end early. On Linux it is done by the C library's semaphores, elsewhere by looking
    up now and then.
    """
    pause = "llvm.x86.sse2.pause()" if target.x86 else "llvm.aarch64.hint(i32 1)"
    windows, linux = sys.platform == "win32", sys.platform.startswith("linux")
    give, nap = ("SwitchToThread", "Sleep") if windows else ("sched_yield", "usleep")
    module.declarations |= {
        f"declare void @{pause.replace(' 1', '')}",
        f"declare i32 @{give}()",
        f"declare i32 @{nap}(i32)",
    }
    names = {"breathe": f"call void @{pause}", "give": f"%gave = call i32 @{give}()"}
    for name, line in names.items():
        f = module.function(name, (), "void", private=True)
        f.do(line)
        f.do("ret void")
    post = module.function("post", (("place", "ptr"),), "void", private=True)
    rest = module.function("rest", (("place", "ptr"),), "void", private=True)
    if linux:
        module.declarations |= {"declare i32 @sem_post(ptr)", "declare i32 @sem_wait(ptr)"}
        post.value("call i32 @sem_post(ptr %place)")
        rest.value("call i32 @sem_wait(ptr %place)")
    else:
        rest.value(f"call i32 @{nap}(i32 {1 if windows else NAP_MICROSECONDS})")
    post.do("ret void")
    rest.do("ret void")
