"""A first answer soon: kernels made quickly at first, and as they should be while the program runs.

Generating code without optimising takes a quarter of the time, and such code takes two to three
times as long as it should, with the same results to the bit. So the first run of a large network
that nothing is stored of begins with drafts; a thread then makes the kernels, one after the other,
and puts each into the tables in place of its draft, also under programs that are running.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.emit import Code, compile_drafts, compile_one
from neuralsym.cpu.machine import Target
from neuralsym.cpu.store import Store
from neuralsym.errors import NeuralsymError

log = logging.getLogger("neuralsym")

LEAST_TEXT = 1_000_000
"""Characters of IR text that are drafted; less of it is compiled in a fraction of a second."""


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
        _all.add(self)

    def addresses(self, codes: Sequence[Code]) -> dict[Code, int]:
        """The address of each kernel, or of a draft of it. Raises as `compile_all` does."""
        made, rough = compile_drafts(codes, self.target, self.store, LEAST_TEXT)
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
