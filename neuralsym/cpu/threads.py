"""The threads that run programs together.

A Team's threads stay in compiled code without the GIL: they do shares of the rows that callers lay
out (`crew`), watch for more for some microseconds, then sleep until they are wanted.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.crew import (
    BED,
    CALM,
    HOME,
    MEMBERS,
    PREFERS,
    RUN_WORDS,
    SERVES,
    SLEEPERS,
    TEAM,
    THREAD,
    WORKER_BYTES,
    WORKERS,
    berth_words,
    team_words,
)
from neuralsym.cpu.driver import Driver
from neuralsym.cpu.quota import default_threads
from neuralsym.cpu.rows import aligned_words
from neuralsym.errors import BadAttribute

log = logging.getLogger("neuralsym")

__all__ = ["Team", "default_threads", "shared_team"]

Words = NDArray[np.int64]


@dataclass(eq=False)
class _Berth:
    """Where a caller lays out the rows of its run, and whose it is."""

    words: Words
    pointer: ctypes.c_void_p
    thread: int = 0

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)


@dataclass(frozen=True, eq=False)
class _Crew:
    """The threads that a team has started, and the memory that these look at."""

    words: Words
    run: Any
    berths: list[_Berth]
    threads: list[threading.Thread]

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)

    def of(self, worker: int, what: int) -> int:
        """The index of a word of a worker."""
        return (WORKERS + worker * WORKER_BYTES + what) // 8


class Team:
    """`workers` threads, one of them the caller's, that run a table together.

    The others start at the first run and live until `close` or the end of the process. A forked
    child starts its own. Several callers at once divide the workers among themselves, each at
    least by its own thread; a caller that is itself inside a run has the workers of that.
    """

    def __init__(self, workers: int, driver: Driver) -> None:
        if workers < 1:
            raise BadAttribute(f"a team has at least 1 worker, not {workers}")
        self.workers = workers
        self.driver = driver
        self._crew: _Crew | None = None
        self._free: list[_Berth] = []
        self._running: list[_Berth] = []
        self._divided: list[_Berth] = []
        self._dismiss: Any = None
        self._lock = threading.Lock()
        _teams.add(self)

    def run(self, frame: int, table: int, count: int, times: int = 0) -> int:
        """Run `count` rows of the table; 0 or what `unpack_failure` explains.

        times: as for `Driver.run`.
        """
        return self.bind(frame, table, count, times)()

    def bind(self, frame: int, table: int, count: int, times: int = 0) -> Callable[[], int]:
        """`run` with these arguments, with as little as possible left to do."""
        words = aligned_words(len(RUN_WORDS))
        words[:] = frame, table, count, times
        bound = partial(self._run, ctypes.c_void_p(words.ctypes.data))
        bound.words = words  # type: ignore[attr-defined]  # alive as long as the call
        return bound

    def _run(self, words: ctypes.c_void_p) -> int:
        berth = None
        try:
            with self._lock:
                crew = self._crew or self._start()
                berth = self._free.pop() if self._free else self._new_berth(crew)
                berth.thread = get_ident()
                running = self._running
                running.append(berth)
                if self._divided != running:
                    self._divide(crew)
            return crew.run(words, berth.pointer)  # type: ignore[no-any-return]
        finally:
            if berth is not None:
                with self._lock:
                    if crew is self._crew:  # else closed meanwhile
                        running.remove(berth)
                        self._free.append(berth)
                        if running:
                            self._divide(crew)

    def close(self) -> None:
        """End the threads once no run needs them; a later run starts them again."""
        with self._lock:
            crew, self._crew = self._crew, None
            self._free, self._running, self._divided = [], [], []
        if crew is not None:
            self._dismiss()
            for thread in crew.threads:
                thread.join()

    def forget_threads(self) -> None:
        """In a forked child: it has none of the threads, and none who would free the lock."""
        if self._dismiss is not None:
            self._dismiss.detach()
        self._crew = None
        self._free, self._running, self._divided = [], [], []
        self._lock = threading.Lock()

    # -- with the lock held ----------------------------------------------------------------
    def _new_berth(self, crew: _Crew) -> _Berth:
        words = aligned_words(berth_words(self.workers), 128)
        words[MEMBERS // 8], words[TEAM // 8] = 1, crew.address
        berth = _Berth(words, ctypes.c_void_p(words.ctypes.data))
        _start_semaphore(berth.address + CALM)
        crew.berths.append(berth)
        return berth

    def _divide(self, crew: _Crew) -> None:
        """Give every caller its part of the workers.

        A thread that runs a program inside a run waits in the outer one, which needs nobody.
        """
        callers = list({berth.thread: berth for berth in self._running}.values())
        spare = max(self.workers - len(callers), 0)
        members = [1] * len(callers)
        for number in range(len(crew.threads)):
            serves, prefers = 0, 0
            if number < spare:
                caller = number % len(callers)
                serves, prefers = callers[caller].address, members[caller]
                members[caller] += 1
            crew.words[crew.of(number + 1, PREFERS)] = prefers
            crew.words[crew.of(number + 1, SERVES)] = serves
        for berth in self._running:
            berth.words[MEMBERS // 8] = 1
        for berth, count in zip(callers, members, strict=True):
            berth.words[MEMBERS // 8] = count
        self._divided = list(self._running)

    def _start(self) -> _Crew:
        """Start the threads, or as many as the system has."""
        calls, workers = self.driver.team_calls, self.workers
        crew = _Crew(aligned_words(team_words(workers), 128), calls.run, [], [])
        crew.words[SLEEPERS // 8 + 1] = workers
        dismiss = weakref.finalize(self, _send_home, calls.rouse, crew, workers)
        dismiss.atexit = False
        try:
            for worker in range(1, workers):
                _start_semaphore(crew.address + 8 * crew.of(worker, BED))
                # A daemon: it waits in compiled code, which the interpreter's end cannot stop.
                thread = threading.Thread(
                    target=_serve,
                    args=(calls.serve, crew, worker),
                    name=f"neuralsym worker {worker}",
                    daemon=True,
                )
                thread.start()
                crew.threads.append(thread)
        except RuntimeError as error:
            have = 1 + len(crew.threads)
            log.warning("runs use %d thread(s), not %d: %s", have, workers, error)
        except BaseException:
            dismiss()
            raise
        self._crew, self._dismiss = crew, dismiss
        return crew


def _serve(serve: Any, crew: _Crew, worker: int) -> None:
    """A thread's life; the crew's memory stays alive as long as it."""
    crew.words[crew.of(worker, THREAD)] = threading.get_native_id()
    serve(crew.address, worker)


def _send_home(rouse: Any, crew: _Crew, workers: int) -> None:
    for worker in range(1, workers):
        crew.words[crew.of(worker, SERVES)] = HOME
    rouse(crew.address, workers)


def _start_semaphore(place: int) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).sem_init(ctypes.c_void_p(place), 0, 0)


_teams: weakref.WeakSet[Team] = weakref.WeakSet()
_shared: dict[tuple[int, Driver], Team] = {}
_shared_lock = threading.Lock()


def shared_team(workers: int, driver: Driver) -> Team:
    """The process's team of so many workers, common to all networks."""
    with _shared_lock:
        return _shared.setdefault((workers, driver), Team(workers, driver))


def _after_fork() -> None:
    """In a forked child: the threads are gone, and locks may have been held by them."""
    global _shared_lock
    _shared_lock = threading.Lock()
    for team in list(_teams):
        team.forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
