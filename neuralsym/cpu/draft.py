"""A first answer soon: kernels made quickly at first, and as they should be while the program runs.

Generating code without optimising takes a quarter of the time, and such code takes two to three
times as long as it should, with the same results to the bit. So the first run of a large network
that nothing is stored of begins with drafts, made by other threads while the rest is still being
planned; a thread then makes the kernels, one after the other, and puts each into the tables in
place of its draft, also under programs that are running.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.emit import (
    Code,
    compile_all,
    compile_object,
    compile_one,
    compiling,
    find,
)
from neuralsym.cpu.loader import loaded
from neuralsym.cpu.machine import Target
from neuralsym.cpu.quota import default_threads
from neuralsym.cpu.store import Store
from neuralsym.cpu.workshop import Workshop
from neuralsym.errors import NeuralsymError

log = logging.getLogger("neuralsym")

DRAFT = "draft"
"""Behind the key of a kernel that was compiled without optimising."""

LEAST_TEXT = 1_000_000
"""Characters of IR text that are drafted; less of it is compiled in a fraction of a second."""


class _Ahead:
    """The text that a plan needs, drafted by other threads from where there is enough of it."""

    def __init__(self, target: Target, store: Store, held: contextlib.ExitStack) -> None:
        self.target, self.store, self._held = target, store, held
        self._keys: dict[Code, str] = {}
        self._missing: dict[str, Code] = {}
        self._length = 0
        self._shop: Workshop[str, bytes] | None = None
        self._asked: set[str] = set()

    def add(self, code: Code) -> None:
        """Have a draft made of what is neither in memory nor in the store."""
        if code in self._keys:
            return
        key = self._keys[code] = code.key(self.target)
        if code.function is not None or find(key, code, self.store) is not None:
            return
        if key not in self._missing:
            self._missing[key] = code
            self._length += len(code.text)
        if self._length < LEAST_TEXT:
            return
        if self._shop is None:
            self._shop = self._held.enter_context(Workshop(default_threads()))
        for wanted in self._missing.keys() - self._asked:
            self._asked.add(wanted)
            self._shop.ask(wanted, partial(compile_object, self._missing[wanted], self.target, 0))

    def addresses(self, codes: Sequence[Code]) -> tuple[dict[Code, int], list[Code]]:
        """The address of each kernel that was added, and which are drafts.

        Nothing is drafted where there is little text. NoKernel, naming the kernel, for one that
        fails.
        """
        drafts: dict[str, int] = {}
        for key, made in self._shop.ready() if self._shop is not None else ():
            with contextlib.suppress(RuntimeError):  # it calls what only optimising removes
                drafts[key] = loaded(f"{key}{DRAFT}", self._missing[key].symbol, made)
        keys = {code: self._keys[code] for code in codes}
        rest = [code for code, key in keys.items() if key not in drafts]
        found = compile_all(rest, self.target, self.store) | drafts
        return (
            {code: found[key] for code, key in keys.items()},
            [code for code, key in keys.items() if key in drafts],
        )


class Drafts:
    """The drafts of a cell, and the tables that refer to them."""

    def __init__(self, target: Target, store: Store) -> None:
        self.target, self.store = target, store
        self._lock = threading.Lock()  # for moments only: nothing is compiled with it
        self.left: dict[Code, int] = {}
        """The kernels that are drafts still, with their addresses."""
        self._made: dict[Code, int] = {}
        self._tables: list[tuple[weakref.ref[NDArray[np.int64]], Sequence[Code | int]]] = []
        self._thread: threading.Thread | None = None
        self._asked = False
        self._ahead: _Ahead | None = None
        self._held = contextlib.ExitStack()
        self._holds = False
        _all.add(self)

    @contextlib.contextmanager
    def planning(self) -> Iterator[None]:
        """While a plan is made, by one thread at a time, kernels may be expected."""
        try:
            yield
        finally:
            held, self._held, self._ahead = self._held, contextlib.ExitStack(), None
            try:
                held.close()
            finally:
                if self._holds:
                    self._holds = False
                    with contextlib.suppress(RuntimeError):  # interrupted before it was taken
                        compiling.release()

    def expect(self, code: Code) -> None:
        """The plan will ask for the address of this kernel: it may be made meanwhile."""
        if self._ahead is None:
            self._holds = True  # said before, since an interrupt may come at once after
            compiling.acquire()
            self._ahead = _Ahead(self.target, self.store, self._held)
        self._ahead.add(code)

    def addresses(self, codes: Sequence[Code]) -> dict[Code, int]:
        """The address of each kernel, or of a draft of it. Raises as `compile_all` does."""
        for code in codes:
            self.expect(code)
        if self._ahead is None:
            return {}
        made, rough = self._ahead.addresses(codes)
        with self._lock:
            self.left.update((code, made[code]) for code in rough)
        if self._asked:
            self.improve()  # there has been a first answer
        return made

    def watch(self, rows: NDArray[np.int64], codes: Sequence[Code | int]) -> None:
        """Keep a table up to date, as long as it lives; `codes` are those of its rows."""
        with self._lock:
            for row, code in enumerate(codes):
                if code in self._made:
                    rows[row, 0] = self._made[code]
            if self.left:
                self._tables.append((weakref.ref(rows), codes))

    def improve(self) -> None:
        """Have the kernels made, those of later plans too, if there are drafts."""
        with self._lock:
            self._asked = True
            if not self.left or self._thread is not None:
                return
            self._thread = threading.Thread(target=self._work, name="neuralsym compiler")
        try:
            self._thread.start()
        except RuntimeError as error:
            log.warning("kernels stay drafts, which are slow: %s", error)

    def forget_thread(self) -> None:
        """In a forked child, which has none: have the rest made by another."""
        self._lock, self._thread = threading.Lock(), None
        if self._asked:
            self.improve()

    def _work(self) -> None:
        while True:
            with self._lock:
                code = next(iter(self.left), None)
                if code is None:
                    self._tables.clear()
                    self._thread = None
                    return
            # The interpreter's end waits for this thread, which then has no more to do.
            if not threading.main_thread().is_alive():
                return
            try:
                address = compile_one(code, self.target, self.store)
            except (NeuralsymError, MemoryError) as error:
                log.warning("kernel %s stays a draft, which is slow: %s", code.name, error)
                address = self.left[code]
            with self._lock:
                self._replace(code, address)

    def _replace(self, code: Code, address: int) -> None:
        """Let all tables call the kernel; what runs reads the address anew in each row."""
        del self.left[code]
        self._made[code] = address
        for reference, codes in self._tables:
            rows = reference()
            if rows is not None:
                for row, used in enumerate(codes):
                    if used == code:
                        rows[row, 0] = address
                        rows[row, 3] = 0  # what a team has found out was about the draft


_all: weakref.WeakSet[Drafts] = weakref.WeakSet()


def _after_fork() -> None:
    for drafts in list(_all):
        drafts.forget_thread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
