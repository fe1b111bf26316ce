"""The threads that run a program together.

A Team's threads stay in compiled code without the GIL: they do a job, watch for the next for some
microseconds, then sleep on a semaphore until the next run wakes them.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.driver import Driver, address_of, aligned_words
from neuralsym.cpu.interpreter import JOB, JOB_WORDS, SEMAPHORE_BYTES, SEMAPHORES, sync_words
from neuralsym.cpu.quota import default_threads
from neuralsym.errors import BadAttribute

log = logging.getLogger("neuralsym")

__all__ = ["Team", "default_threads", "shared_team"]


class Team:
    """`workers` threads, one of them the caller's, that run the same table together.

    The others start at the first run and live until `close` or the end of the process. A forked
    child starts its own. Only one run at a time has the team; a caller that finds it busy, or is
    itself inside such a run, runs alone on its own thread.
    """

    def __init__(self, workers: int, driver: Driver) -> None:
        if workers < 1:
            raise BadAttribute(f"a team has at least 1 worker, not {workers}")
        self.workers = workers
        self.driver = driver
        self._address = 0
        self._threads: list[threading.Thread] = []
        self._dismiss: Any = None
        self._busy = threading.Lock()
        _teams.add(self)

    def run(self, frame: int, table: int, count: int, times: int = 0) -> int:
        """Run `count` rows of the table; 0 or what `unpack_failure` explains.

        times: as for `Driver.run`.
        """
        if self.workers == 1 or not self._busy.acquire(blocking=False):
            return self.driver.run(frame, table, count, times=times)
        try:
            if self._threads or self._start():
                call = self.driver.team_calls[0]
                return int(call(frame, table, count, times or None, self.workers, self._address))
        finally:
            self._busy.release()
        return self.driver.run(frame, table, count, times=times)

    def close(self) -> None:
        """End the threads; a later run starts them again."""
        with self._busy:
            if self._threads:
                self._dismiss()
                for thread in self._threads:
                    thread.join()
                self._threads = []

    def forget_threads(self) -> None:
        """In a forked child: it has none of the threads, and none who would free the lock."""
        self._threads = []
        self._busy = threading.Lock()

    def _start(self) -> bool:
        """Start the threads; False, and none is left, if the system has no more."""
        driver, workers = self.driver, self.workers
        run_team, serve = driver.team_calls
        sync = aligned_words(sync_words(workers))
        for name, call in (("run", driver.plain), ("run_profiled", driver.timed)):
            sync[JOB // 8 + JOB_WORDS.index(name)] = address_of(call)
        self._address = int(sync.ctypes.data)
        self._dismiss = weakref.finalize(self, _send_home, run_team, sync, workers)
        self._dismiss.atexit = False
        threads: list[threading.Thread] = []
        try:
            for worker in range(1, workers):
                if sys.platform.startswith("linux"):
                    place = self._address + SEMAPHORES + worker * SEMAPHORE_BYTES
                    ctypes.CDLL(None).sem_init(ctypes.c_void_p(place), 0, 0)
                # A daemon: it waits in compiled code, which the interpreter's end cannot stop.
                thread = threading.Thread(
                    target=_serve,
                    args=(serve, sync, worker),
                    name=f"neuralsym worker {worker}",
                    daemon=True,
                )
                thread.start()
                threads.append(thread)
        except BaseException as error:
            self._dismiss()
            if not isinstance(error, RuntimeError):
                raise
            log.warning("a run uses 1 thread, not %d: %s", workers, error)
            return False
        self._threads = threads
        return True


def _serve(serve: Any, sync: NDArray[np.int64], worker: int) -> None:
    """A thread's life; `sync` stays alive as long as it."""
    serve(sync.ctypes.data, worker)


def _send_home(run_team: Any, sync: NDArray[np.int64], workers: int) -> None:
    run_team(None, None, -1, None, workers, sync.ctypes.data)


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
