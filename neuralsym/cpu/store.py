"""Compiled kernels on disk, so that a process after the first one compiles nothing.

One directory of files `KEY.KIND`, each with a checksum, written under another name and then
renamed: any number of processes may share it, and a damaged entry counts as missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import mmap
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from neuralsym.core.locks import Lock

log = logging.getLogger("neuralsym")

MAGIC = b"nsym\x00\x00\x01\n"
HEADER = len(MAGIC) + 32
KINDS = ("o", "plan")
OFF = ("", "off")
SETTLED = 2_000_000_000
"""Nanoseconds after which a file that has not changed is taken to be finished."""
PRIVATE = 0o700

_counter = itertools.count()


class StoreInfo(NamedTuple):
    """What a store holds: its directory (None without one), entries and their bytes."""

    path: str | None
    entries: int
    bytes: int


@dataclass(frozen=True)
class Store:
    """The object store in `path`; with None it holds nothing and everything still works.

    `Store.of(cache_dir)` chooses the directory. Methods never raise for a disk that is full,
    read-only or gone: reading gives None, writing gives False.
    """

    path: Path | None

    @classmethod
    def of(cls, cache_dir: str | None = None) -> Store:
        """The store in the first usable directory of `candidates`, found once per setting."""
        names = ("NEURALSYM_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME")
        setting = (cache_dir, *map(os.environ.get, names))
        with _lock:
            found = _chosen.get(setting)
            if found is None:
                found = _chosen[setting] = cls(_choose(cache_dir))
        return found

    def get(self, key: str, kind: str = "o") -> bytes | None:
        """The bytes stored under `key`, or None if there are none or they are damaged."""
        if self.path is None:
            return None
        try:
            data = self._file(key, kind).read_bytes()
        except OSError:
            return None
        body = data[HEADER:]
        if data[:HEADER] != MAGIC + hashlib.sha256(body).digest():
            log.info("the stored entry %s.%s is damaged and will be made again", key, kind)
            return None
        return body

    def map(self, key: str, kind: str = "plan") -> memoryview | None:
        """The stored bytes as a read-only mapping of the file; None as for `get`."""
        if self.path is None:
            return None
        try:
            with self._file(key, kind).open("rb") as file:
                whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                told = os.fstat(file.fileno())
        except (OSError, ValueError):  # an empty file cannot be mapped
            return None
        expected = bytes(whole[:HEADER]).removeprefix(MAGIC)
        digest = self.digest(told, lambda: hashlib.sha256(whole[HEADER:]))
        if len(expected) != HEADER - len(MAGIC) or digest != expected.hex():
            log.info("the stored entry %s.%s is damaged and will be made again", key, kind)
            return None
        return whole[HEADER:]

    def digest(self, told: os.stat_result, make: Callable[[], Any]) -> str:
        """The hexadecimal digest that `make` gives for the file of which `told` is the state.

        Remembered: a file's ctime moves with every change of its bytes, its name or its dates.
        """
        state = (told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns)
        key = "seen" + hashlib.sha256(repr(state).encode()).hexdigest()[:40]
        known = self.get(key, "plan")
        if known is not None:
            return known.decode()
        found: str = make().hexdigest()
        # The clock of a disk ticks slowly: what has just been written may change unseen.
        if time.time_ns() - told.st_ctime_ns > SETTLED:
            self.put(key, found.encode(), "plan")
        return found

    def put(self, key: str, data: bytes, kind: str = "o") -> bool:
        """Store `data` under `key`; whether that worked."""
        if self.path is None:
            return False
        # The name tells processes, threads and forked children apart.
        unique = f".{key}.{os.getpid()}.{threading.get_ident()}.{next(_counter)}.tmp"
        temporary = self.path / unique
        try:
            # O_EXCL: never write through a link that somebody else has put there.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(MAGIC + hashlib.sha256(data).digest())
                file.write(data)
            temporary.replace(self._file(key, kind))
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            with _lock:
                first = self.path not in _complained
                _complained.add(self.path)
            if first:
                log.warning("compiled code cannot be kept in %s: %s", self.path, error)
            return False
        return True

    def discard(self, key: str, kind: str = "o") -> None:
        """Forget the entry, if there is one."""
        if self.path is not None:
            try:
                self._file(key, kind).unlink(missing_ok=True)
            except OSError:
                log.info("the stored entry %s.%s cannot be removed", key, kind)

    def info(self) -> StoreInfo:
        """The directory, how many entries it has and how many bytes they take."""
        sizes = []
        for file in self._entries():
            try:
                sizes.append(file.stat().st_size)
            except OSError:
                continue  # another process has just cleared it
        return StoreInfo(None if self.path is None else str(self.path), len(sizes), sum(sizes))

    def clear(self) -> int:
        """Remove all entries, and what interrupted writers have left; how many entries went."""
        removed = 0
        for file in self._entries(leftovers=True):
            try:
                file.unlink()
            except OSError:
                continue
            removed += not file.name.endswith(".tmp")
        return removed

    def _file(self, key: str, kind: str) -> Path:
        assert self.path is not None
        if kind not in KINDS or not key.isalnum():
            raise ValueError(f"no store entry can be called {key!r}.{kind!r}")
        return self.path / f"{key}.{kind}"

    def _entries(self, leftovers: bool = False) -> Iterator[Path]:
        if self.path is None:
            return
        endings = tuple(f".{kind}" for kind in KINDS) + ((".tmp",) if leftovers else ())
        try:
            names = sorted(os.listdir(self.path))  # noqa: PTH208
        except OSError:
            return
        yield from (self.path / name for name in names if name.endswith(endings))


_lock = Lock()
_chosen: dict[tuple[str | None, ...], Store] = {}
_complained: set[Path] = set()


def candidates(
    cache_dir: str | None = None, environment: Mapping[str, str] | None = None
) -> tuple[Path, ...]:
    """Where compiled code may be kept, the best place first; none if it is switched off.

    cache_dir (an option), NEURALSYM_CACHE_DIR, NUMBA_CACHE_DIR/neuralsym,
    $XDG_CACHE_HOME/neuralsym or ~/.cache/neuralsym, and a directory per user among the temporary
    files. "" or "off" in one of the first two means no cache at all.
    """
    environment = os.environ if environment is None else environment
    return tuple(dict.fromkeys(_places(cache_dir, environment)))


def _places(cache_dir: str | None, environment: Mapping[str, str]) -> Iterator[Path]:
    for named in (cache_dir, environment.get("NEURALSYM_CACHE_DIR")):
        if named is not None:
            if named.strip() in OFF:
                return
            yield Path(named).expanduser().absolute()
    if environment.get("NUMBA_CACHE_DIR"):
        yield Path(environment["NUMBA_CACHE_DIR"]).absolute() / "neuralsym"
    caches = environment.get("XDG_CACHE_HOME", "")
    # The XDG convention: a relative path is to be ignored.
    if caches and Path(caches).is_absolute():
        yield Path(caches) / "neuralsym"
    else:
        try:
            yield Path("~/.cache/neuralsym").expanduser()
        except RuntimeError:
            log.debug("this user has no home directory")
    import tempfile  # with all that it imports, and seldom needed

    owner = os.getuid() if hasattr(os, "getuid") else "user"
    yield Path(tempfile.gettempdir()) / f"neuralsym-{owner}"


def refusal(place: Path) -> str | None:
    """Why `place` cannot hold compiled code, or None: it is made if need be, and tried."""
    try:
        place.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        state = place.stat()
        if not stat.S_ISDIR(state.st_mode):
            return "it is not a directory"
        if hasattr(os, "geteuid"):
            # The owner of a link counts too: another user's link might lead into a directory of
            # ours that is meant for something else.
            for owner in (state.st_uid, place.lstat().st_uid):
                if owner != os.geteuid():
                    return f"it belongs to user {owner}"
        if os.name == "posix" and state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"others may write to it (chmod 700 {place})"
        probe = place / f".probe.{os.getpid()}.{threading.get_ident()}.tmp"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        return str(error)
    return None


def _choose(cache_dir: str | None) -> Path | None:
    tried = []
    for place in _places(cache_dir, os.environ):
        tried.append(place)
        reason = refusal(place)
        if reason is None:
            return place
        log.info("compiled code is not kept in %s: %s", place, reason)
    if tried:
        log.warning(
            "no directory can keep compiled code (tried %s), so every process compiles anew; "
            "set NEURALSYM_CACHE_DIR to a directory of your own",
            ", ".join(map(str, dict.fromkeys(tried))),
        )
    return None
