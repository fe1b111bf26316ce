"""How many workers run a program, and the threads that they are.

A Team's threads stay in compiled code without the GIL: they do a job, watch for the next for some
microseconds, then sleep on a semaphore until the next run wakes them.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.driver import Driver, address_of, aligned_words
from neuralsym.cpu.interpreter import JOB, JOB_WORDS, SEMAPHORE_BYTES, SEMAPHORES, sync_words
from neuralsym.errors import BadAttribute


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
        self._busy = threading.Lock()
        _teams.add(self)

    def run(self, frame: int, table: int, count: int, times: int = 0) -> int:
        """Run `count` rows of the table; 0 or what `unpack_failure` explains.

        times: as for `Driver.run`.
        """
        if self.workers == 1 or not self._busy.acquire(blocking=False):
            return self.driver.run(frame, table, count, times=times)
        try:
            if not self._threads:
                self._start()
            call = self.driver.team_calls[0]
            return int(call(frame, table, count, times or None, self.workers, self._address))
        finally:
            self._busy.release()

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

    def _start(self) -> None:
        driver, workers = self.driver, self.workers
        run_team, serve = driver.team_calls
        sync = aligned_words(sync_words(workers))
        self._address = int(sync.ctypes.data)
        for name, call in (("run", driver.plain), ("run_profiled", driver.timed)):
            sync[JOB // 8 + JOB_WORDS.index(name)] = address_of(call)
        for worker in range(1, workers):
            if sys.platform.startswith("linux"):
                place = self._address + SEMAPHORES + worker * SEMAPHORE_BYTES
                ctypes.CDLL(None).sem_init(ctypes.c_void_p(place), 0, 0)
            # A daemon: it waits in compiled code, which the end of the interpreter cannot stop.
            thread = threading.Thread(
                target=_serve,
                args=(serve, sync, worker),
                name=f"neuralsym worker {worker}",
                daemon=True,
            )
            self._threads.append(thread)
            thread.start()
        self._dismiss: Any = weakref.finalize(self, _send_home, run_team, sync, workers)
        self._dismiss.atexit = False


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


# -- how many --------------------------------------------------------------------------------
def default_threads(environment: Mapping[str, str] | None = None) -> int:
    """NEURALSYM_NUM_THREADS, else what the affinity and the container's CPU quota allow.

    BadAttribute if the variable is set to something other than a positive integer.
    """
    environment = os.environ if environment is None else environment
    setting = environment.get("NEURALSYM_NUM_THREADS", "").strip()
    if setting:
        if not setting.isascii() or not setting.isdigit() or int(setting) < 1:
            raise BadAttribute(
                f"NEURALSYM_NUM_THREADS must be a positive integer, not {setting!r}; "
                "unset it to use what the machine allows"
            )
        return int(setting)
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return count if quota is None else max(1, min(count, math.ceil(quota)))


def cpu_quota(
    groups: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> float | None:
    """The CPUs that the process's control groups (version 1 or 2) grant, or None without a limit.

    The limit of a group holds for all below it, so the least of the group and its ancestors
    counts. Inside a container the group's own path may not exist under the mount; then the
    mount's root is the group.
    """
    try:
        lines = groups.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    quotas: list[float] = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            roots = [mount, mount / "unified"]
            read = _quota_v2
        elif "cpu" in controllers.split(","):
            roots = [mount / controllers, mount / "cpu"]
            read = _quota_v1
        else:
            continue
        for root in roots:
            place = root / path.strip("/")
            # Not resolved: ".." in a path would lead out of the mount.
            if ".." in place.parts:
                place = root
            for group in (place, *place.parents):
                found = read(group)
                if found is not None:
                    quotas.append(found)
                if group == root:
                    break
    return min(quotas, default=None)


def _quota_v2(group: Path) -> float | None:
    words = _words(group / "cpu.max")
    if len(words) != 2 or words[0] == "max":
        return None
    return _ratio(words[0], words[1])


def _quota_v1(group: Path) -> float | None:
    quota, period = _words(group / "cpu.cfs_quota_us"), _words(group / "cpu.cfs_period_us")
    if len(quota) != 1 or len(period) != 1:
        return None
    return _ratio(quota[0], period[0])


def _words(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError):
        return []


def _ratio(quota: str, period: str) -> float | None:
    """quota / period in CPUs; None for -1, which means no limit, or nonsense."""
    try:
        above, below = float(quota), float(period)
    except ValueError:
        return None
    return above / below if above > 0 and below > 0 else None
