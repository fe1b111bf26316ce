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

from neuralsym.cpu.emit import Code
from neuralsym.cpu.interpreter import add_time, clock, now, row_at, stop_at_failure
from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.machine import Target
from neuralsym.cpu.rows import SERIAL
from neuralsym.cpu.waiting import LINUX, fetch, move, processor, sleeping
from neuralsym.cpu.worth import SETTLED, pauses, remember, runs_alone, tries_alone, weigh

LINE = 128
"""Bytes between what different threads write: two cache lines, as they are fetched in pairs."""

# A berth, where one run at a time lays out its rows. OPEN: the row's number, and its count of
# shares in the low 16 bits; with it KERNEL, DESC, FRAME, and the caller's processor (HOST).
# MEMBERS: threads that serve it, its caller with them; of the TEAM. NUMBER: of the last row; behind
# it what `worth` keeps. CALM: where the caller sleeps. Then a STATE and a STATUS for each share,
# and how long a worker TOOK for it on which processor (CORE), and who that is (WHO).
OPEN, KERNEL, DESC, FRAME, HOST = 0, 8, 16, 24, 32
MEMBERS, TEAM, NUMBER, CALM, CLAIMS = 128, 136, 256, 320, 384
STATE, STATUS, TOOK, CORE, WHO = 0, 8, 16, 24, 28

# The state of a share: four times the number of the row that has last claimed it, and
AWAITED, DONE = 1, 2

# A team's block: how many workers sleep, then for each the address of the berth that it serves (0
# for none, HOME to end), the share it prefers, whether it sleeps, its number as a THREAD of the
# system, and where it sleeps.
SLEEPERS, WORKERS = 0, LINE
SERVES, PREFERS, ASLEEP, THREAD, BED = 0, 8, 16, 24, 64
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


def berth_words(shares: int) -> int:
    """Words of a berth for rows of up to so many shares; all zero before its first use."""
    return (CLAIMS + LINE * shares) // 8


def team_words(workers: int) -> int:
    """Words of a team's block, its caller counted among the workers; all zero at first."""
    return (WORKERS + WORKER_BYTES * workers) // 8


RUN_WORDS = ("frame", "table", "count", "times")
"""What the caller's loop is told; times: 0 or of an array to add the nanoseconds of rows to."""


def run_team_code(target: Target) -> Code:
    """`int64 run_team(int64* words, berth)`: the caller's part of a run, told by RUN_WORDS."""
    module = Module()
    _take(module, worker=False)
    _share(module, target)
    f = module.function("run_team", (("words", "ptr"), ("berth", "ptr")), "i64")
    frame, table = (f.load("ptr", f.at("%words", 8 * i), 8) for i in range(2))
    count, times = f.load("i64", f.at("%words", 16), 8), f.load("ptr", f.at("%words", 24), 8)
    timed = f.compare("ne", times, "null", "ptr")
    with f.loop(count) as loop:
        row = row_at(f, table, loop.index)
        kernel, desc = f.load("ptr", row, 8), f.load("ptr", f.at(row, 8), 8)
        flags, memory = f.load("i64", f.at(row, 16), 8), f.at(row, 24)
        before = f.load("i64", memory, 8)
        serial = f.compare("ne", f.value(f"and i64 {flags}, {SERIAL}"), 0)
        members = f.value(f"load atomic i64, ptr {f.at('%berth', MEMBERS)} monotonic, align 8")
        alone = runs_alone(f, memory, before)
        alone = f.value(f"or i1 {alone}, {f.compare('sle', members, 1)}")
        alone = f.value(f"or i1 {alone}, {serial}")
        alone = f.value(f"or i1 {alone}, {pauses(f)}")
        trying = tries_alone(f, before)
        untimed = f.value(f"or i1 {f.compare('sge', before, SETTLED)}, {alone}")
        wants_time = f.value(f"or i1 {timed}, {f.value(f'xor i1 {untimed}, true')}")
        (began,) = f.choose(wants_time, ["i64"], lambda: [now(f)], lambda: ["0"])
        (status,) = f.choose(
            f.value(f"or i1 {alone}, {trying}"),
            ["i32"],
            lambda: [f.value(f"call i32 {kernel}(ptr {frame}, ptr {desc}, i32 0, i32 1)")],
            lambda: [
                f.value(
                    f"call i32 @share(ptr {frame}, ptr {kernel}, ptr {desc}, i64 {members}, "
                    "ptr %berth)"
                )
            ],
        )
        with f.when(timed):
            add_time(f, times, loop.index, began)
        with f.when(f.value(f"xor i1 {untimed}, true")):
            remember(f, memory, before, trying, f.sub(now(f), began))
        stop_at_failure(f, status, loop.index)
    f.do("ret i64 0")
    return Code("driver", "run_team", str(module))


def serve_code(target: Target) -> Code:
    """`int64 serve(team, worker)`: a worker's life, until it is sent HOME."""
    module = Module()
    _take(module, worker=True)
    sleeping(module, target)
    clock(module)
    if LINUX:
        move(module)
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
    if LINUX:
        core = processor(f)
        with f.when(f.compare("eq", core, f.load("i32", f.at(place, HOST)), "i32")):
            f.do(f"call void @move(i32 {core})")
    prefers = f.load("i64", f.at(own, PREFERS), 8)
    who = f.load("i32", f.at(own, THREAD))
    f.value(f"call i64 @take(ptr {place}, i64 {row}, i64 {prefers}, i32 {who})")
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
    sleeping(module, target)
    _wake(module)
    f = module.function("rouse", (("team", "ptr"), ("workers", "i64")), "i64")
    f.do(f"call void @wake(ptr %team, i64 %workers, i64 {HOME})")
    f.do("ret i64 0")
    return Code("driver", "rouse", str(module))


# -- a row -----------------------------------------------------------------------------------
def _take(module: Module, worker: bool) -> None:
    """`take(berth, row, from)`: do all shares that nobody has begun, first `from`; their count."""
    f = module.function(
        "take",
        (("berth", "ptr"), ("row", "i64"), ("from", "i64"), ("who", "i32")),
        "i64",
        private=True,
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
                number, among = (f.value(f"trunc i64 {v} to i32") for v in (share, shares))
                f.store("i32", "%who", f.at(claim, WHO))
                began = now(f) if worker else ""
                status = f.value(
                    f"call i32 {kernel}(ptr {frame}, ptr {desc}, i32 {number}, i32 {among})"
                )
                took = f.sub(now(f), began) if worker else "0"
                f.store("i64", took, f.at(claim, TOOK), 8)
                if worker and LINUX:
                    f.store("i32", processor(f), f.at(claim, CORE))
                f.store("i32", status, f.at(claim, STATUS))
                f.store("i64", f.add(f.load("i64", count, 8), 1), count, 8)
                done = f.add(claimed, DONE)
                state = f.value(f"atomicrmw xchg ptr {claim}, i64 {done} acq_rel, align 8")
                awaited = f.compare("eq", state, f.add(claimed, AWAITED))
                with f.when(awaited):
                    f.do(f"call void @post(ptr {f.at('%berth', CALM)})")
    f.do(f"ret i64 {f.load('i64', count, 8)}")


def _share(module: Module, target: Target) -> None:
    """`share(frame, kernel, desc, members, berth)`: the status of a row done by all.

    That is the status of the first share that failed, whoever was first in time.
    """
    sleeping(module, target)
    _wake(module)
    clock(module)
    names = (("frame", "ptr"), ("kernel", "ptr"), ("desc", "ptr"), ("members", "i64"))
    parameters = (*names, ("berth", "ptr"))
    f = module.function("share", parameters, "i32", private=True)
    began = now(f)
    number = f.add(f.load("i64", f.at("%berth", NUMBER), 8), 1)
    f.store("i64", number, f.at("%berth", NUMBER), 8)
    for place, value in ((KERNEL, "%kernel"), (DESC, "%desc"), (FRAME, "%frame")):
        f.store("ptr", value, f.at("%berth", place), 8)
    core = processor(f) if LINUX else "-1"
    f.store("i32", core, f.at("%berth", HOST))
    row = f.value(f"or i64 {f.value(f'shl i64 {number}, 16')}, %members")
    # Exchanged, not stored: it is seen before we look who sleeps.
    f.value(f"atomicrmw xchg ptr %berth, i64 {row} seq_cst, align 8")
    team = f.load("ptr", f.at("%berth", TEAM), 8)
    sleepers = f.value(f"load atomic i64, ptr {f.at(team, SLEEPERS)} seq_cst, align 8")

    def wake() -> list[str]:
        berth = f.value("ptrtoint ptr %berth to i64")
        workers = f.load("i64", f.at(team, SLEEPERS + 8), 8)
        f.do(f"call void @wake(ptr {team}, i64 {workers}, i64 {berth})")
        return [f.sub(now(f), began)]

    (spent,) = f.choose(f.compare("ne", sleepers, 0), ["i64"], wake, lambda: ["0"])
    mine = f.value(f"call i64 @take(ptr %berth, i64 {row}, i64 0, i32 0)")
    free = now(f)
    most = f.sdiv(f.sub(free, began), f.maximum(mine, 1))
    claimed = f.value(f"shl i64 {number}, 2")
    with f.loop("%members", ("i32", "0"), ("i64", "0")) as loop:
        claim = f.at("%berth", f.add(f.mul(loop.index, LINE), CLAIMS))
        f.do(f"call void @finish(ptr {claim}, i64 {claimed}, i64 {began}, ptr %berth)")
        status = f.load("i32", f.at(claim, STATUS))
        failed = f.compare("ne", loop.values[0], 0, "i32")
        here = f.compare("eq", f.load("i32", f.at(claim, CORE)), core, "i32")
        took = f.minimum(f.load("i64", f.at(claim, TOOK), 8), most)
        saved = f.select(here, "i64", f.sub(0, took), took)
        saved = f.add(loop.values[1], saved)
        loop.next(f.select(failed, "i32", loop.values[0], status), saved)
    weigh(f, loop.values[1], f.add(spent, f.sub(now(f), free)))
    f.do(f"ret i32 {loop.values[0]}")
    _finish(module)


def _finish(module: Module) -> None:
    """`finish(claim, claimed, began, berth)`: wait until the share has been done.

    Whoever does it should need about as long as we have had since `began`. If it needs longer, it
    has lost its core: we sleep, so that it may have ours.
    """
    if LINUX:
        fetch(module)
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
    if LINUX:
        who = f.load("i32", f.at("%claim", WHO))
        with f.when(f.compare("ne", who, 0, "i32")):
            f.do(f"call void @fetch(i32 {who}, i32 {processor(f)})")
    f.do(f"call void @rest(ptr {f.at('%berth', CALM)})")
    f.do(f"br label %{look}")
    f.start(done)
    f.do("ret void")


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
