"""How threads wait for each other and where they run, as IR text: the system's part."""

from __future__ import annotations

import sys

from neuralsym.cpu.ir import Function, Module
from neuralsym.cpu.machine import Target

LINUX = sys.platform.startswith("linux")
"""There threads sleep on the C library's semaphores, and ask for the processor they run on."""

SET_BYTES = 1024
"""Bytes of a set of processors."""

NAP_MICROSECONDS = 50
"""How often who sleeps looks up where the system has no semaphores of the kind used here."""


def sleeping(module: Module, target: Target) -> None:
    """`breathe()`, `give()` the core away, `rest(place)` until a `post(place)`.

    Resting may end early. On Linux it is done by the C library's semaphores, elsewhere by looking
    up now and then.
    """
    pause = "llvm.x86.sse2.pause()" if target.x86 else "llvm.aarch64.hint(i32 1)"
    windows = sys.platform == "win32"
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
    if LINUX:
        module.declarations |= {"declare i32 @sem_post(ptr)", "declare i32 @sem_wait(ptr)"}
        post.value("call i32 @sem_post(ptr %place)")
        rest.value("call i32 @sem_wait(ptr %place)")
    else:
        rest.value(f"call i32 @{nap}(i32 {1 if windows else NAP_MICROSECONDS})")
    post.do("ret void")
    rest.do("ret void")


def processor(f: Function) -> str:
    """The processor that this thread runs on (i32)."""
    f.module.declarations.add("declare i32 @sched_getcpu()")
    return f.value("call i32 @sched_getcpu()")


def move(module: Module) -> None:
    """`move(core)`: have this thread go on elsewhere than on that processor, if it may.

    The system wakes a thread where its waker runs, and leaves it there when all other processors
    have something to do; then two of ours share one processor and somebody else has the other.
    """
    f = module.function("move", (("core", "i32"),), "void", private=True)
    allowed = _allowed(f, "0")
    word, bit = _place(f, allowed)
    before = f.load("i64", word, 8)
    f.store("i64", f.value(f"and i64 {before}, {f.value(f'xor i64 {bit}, -1')}"), word, 8)
    # With no processor left the system refuses.
    moved = f.value(f"call i32 @sched_setaffinity(i32 0, i64 {SET_BYTES}, ptr {allowed})")
    with f.when(f.compare("eq", moved, 0, "i32")):
        f.store("i64", before, word, 8)
        f.value(f"call i32 @sched_setaffinity(i32 0, i64 {SET_BYTES}, ptr {allowed})")
    f.do("ret void")


def fetch(module: Module) -> None:
    """`fetch(who, core)`: have another thread go on on that processor, if it may run there.

    So a thread that is about to wait for one that has lost its processor gives it its own.
    """
    f = module.function("fetch", (("who", "i32"), ("core", "i32")), "void", private=True)
    allowed = _allowed(f, "%who")
    word, bit = _place(f, allowed)
    may = f.compare("ne", f.value(f"and i64 {f.load('i64', word, 8)}, {bit}"), 0)
    with f.when(may):
        here = f.value(f"alloca [{SET_BYTES} x i8], align 8")
        f.do(f"call void @llvm.memset.p0.i64(ptr {here}, i8 0, i64 {SET_BYTES}, i1 false)")
        f.store("i64", bit, _place(f, here)[0], 8)
        for places in (here, allowed):
            f.value(f"call i32 @sched_setaffinity(i32 %who, i64 {SET_BYTES}, ptr {places})")
    f.do("ret void")


def _allowed(f: Function, who: str) -> str:
    """Where the set of processors lies on which a thread may run; none if it cannot be told."""
    f.module.declarations |= {
        "declare i32 @sched_getaffinity(i32, i64, ptr)",
        "declare i32 @sched_setaffinity(i32, i64, ptr)",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    }
    made = f.value(f"alloca [{SET_BYTES} x i8], align 8")
    f.do(f"call void @llvm.memset.p0.i64(ptr {made}, i8 0, i64 {SET_BYTES}, i1 false)")
    f.value(f"call i32 @sched_getaffinity(i32 {who}, i64 {SET_BYTES}, ptr {made})")
    return made


def _place(f: Function, processors: str) -> tuple[str, str]:
    """The word of a set in which `%core` stands, and its bit there."""
    core = f.value("zext i32 %core to i64")
    word = f.at(processors, f.mul(f.value(f"lshr i64 {core}, 6"), 8))
    return word, f.value(f"shl i64 1, {f.value(f'and i64 {core}, 63')}")
