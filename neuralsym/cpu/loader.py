"""Objects in memory: what has been loaded, under which key, and at which address.

Objects are linked by LLVM's ORC, which reports a missing symbol where its predecessor ended the
process. Nothing is ever unloaded: another thread may be inside.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import os
import sys
import threading
from functools import lru_cache
from typing import Any, overload

from neuralsym.cpu.machine import binding

_lock = threading.RLock()
_addresses: dict[str, int] = {}
_numbers = itertools.count()


@lru_cache(maxsize=1)
def _linker() -> Any:
    llvm = binding()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    linker = llvm.create_lljit_compiler(machine, suppress_errors=True)
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


def resolvable(name: str) -> bool:
    """Whether the process, without help of numba's, has a function `name`."""
    return any(hasattr(library, name) for library in _libraries())


@lru_cache(maxsize=1)
def _libraries() -> tuple[ctypes.CDLL, ...]:
    if os.name == "nt":
        return (ctypes.CDLL("ucrtbase"), ctypes.CDLL("kernel32"))
    found = [ctypes.CDLL(None)]
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError):  # musl has its mathematics in libc
            found.append(ctypes.CDLL("libm.so.6"))
    return tuple(found)
