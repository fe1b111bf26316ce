"""Code in memory: what has been loaded, under which key, and at which address.

Objects are linked by LLVM's ORC, which reports a missing symbol where its predecessor ended the
process; blocks that `elf` has linked are put in place without LLVM. Nothing is ever unloaded:
another thread may be inside.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import mmap
import os
import sys
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, overload

import numpy as np

from neuralsym.cpu.machine import binding

_lock = threading.RLock()
_addresses: dict[str, int] = {}
_pages: dict[str, Any] = {}
"""What keeps the memory of blocks."""
_numbers = itertools.count()


def _before_fork() -> None:
    """Wait for those who load, and for other users of LLVM."""
    _lock.acquire()
    _held.enter_context(_llvm_lock())


def _after_fork() -> None:
    _held.close()
    _lock.release()


def _llvm_lock() -> Any:
    """llvmlite's own lock, once it has been imported."""
    library = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    return getattr(library, "_lock", None) or contextlib.nullcontext()


_held = contextlib.ExitStack()

if hasattr(os, "register_at_fork"):
    # What another thread is doing in LLVM, a child could neither end nor begin again.
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )


@lru_cache(maxsize=1)
def _linker() -> Any:
    llvm = binding()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    # JITLink keeps an object in one block. RuntimeDyld takes its sections from wherever there is
    # room: in a large process more than 2 GiB apart, and LLVM then ends the process.
    linker = llvm.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)
    # At exit, workers may still be in compiled code: leave it where it is.
    atexit.register(linker.detach)
    return linker


@overload
def loaded(key: str) -> int | None: ...
@overload
def loaded(key: str, symbol: str, data: bytes) -> int: ...
def loaded(key: str, symbol: str = "", data: bytes = b"") -> int | None:
    """The address of the object `key`, loaded from `data` if it is not in memory yet.

    Without `data` None if it is not in memory. RuntimeError if `data` is no object of this
    platform, lacks `symbol`, or calls what the process does not have.
    """
    with _lock:
        address = _addresses.get(key)
        if address is None and data:
            llvm = binding()
            builder = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
            # A name is used up even by a library that did not link.
            library = f"{key}.{next(_numbers)}"
            tracker = builder.export_symbol(symbol).link(_linker(), library)
            address = int(tracker[symbol])
            # Detached, not kept: disposing of it would unload the code.
            tracker.detach()
            _addresses[key] = address
        return address


def placed(
    key: str, code: bytes | memoryview, inner: Sequence[int], outer: Sequence[tuple[int, str]]
) -> int | None:
    """The address of a block of code, put in place if `key` is not in memory yet.

    inner, outer: its slots, as in `elf.Linked`. The pages are written before they are made
    executable, and never after. None where that is refused, or a function is not to be found.
    """
    with _lock:
        if key in _addresses:
            return _addresses[key]
        if not code or not hasattr(mmap, "MAP_PRIVATE"):
            return None
        found = [there for _, name in outer if (there := _outside(name)) is not None]
        if len(found) < len(outer):
            return None
        try:
            pages = mmap.mmap(-1, len(code), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError:
            return None
        room = np.frombuffer(pages, np.uint8)  # which keeps the pages from being closed
        address = int(room.ctypes.data)
        room[:] = np.frombuffer(code, np.uint8)
        for at in inner:
            room[at : at + 8].view(np.int64)[0] += address
        for (at, _), there in zip(outer, found, strict=True):
            room[at : at + 8].view(np.int64)[0] = there
        protect = getattr(_libraries()[0], "mprotect", None)
        length = -(-len(code) // mmap.PAGESIZE) * mmap.PAGESIZE
        arguments = (ctypes.c_void_p(address), ctypes.c_size_t(length))
        if protect is None or protect(*arguments, mmap.PROT_READ | mmap.PROT_EXEC):
            return None
        _pages[key] = room
        _addresses[key] = address
        return address


def resolvable(name: str) -> bool:
    """Whether the process, without help of numba's, has a function `name`."""
    return _outside(name) is not None


def _outside(name: str) -> int | None:
    """The address of a function of the process's libraries."""
    for library in _libraries():
        if hasattr(library, name):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    return None


@lru_cache(maxsize=1)
def _libraries() -> tuple[ctypes.CDLL, ...]:
    if os.name == "nt":
        return (ctypes.CDLL("ucrtbase"), ctypes.CDLL("kernel32"))
    found = [ctypes.CDLL(None)]
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError):  # musl has its mathematics in libc
            found.append(ctypes.CDLL("libm.so.6"))
    return tuple(found)
