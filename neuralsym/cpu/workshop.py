"""Threads that make things while whoever asked for them goes on, and then helps.

Executors of Python's library hold a lock of theirs in a fork, and so would wait for somebody who
waits for the fork; nor do they take on anything while a process ends.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

log = logging.getLogger("neuralsym")

Key = TypeVar("Key")
Made = TypeVar("Made")


class Workshop(Generic[Key, Made]):
    """At most `threads` threads, with the one that asks; for use by one, and as a `with`."""

    def __init__(self, threads: int) -> None:
        self._most = threads - 1
        self._threads: list[threading.Thread] = []
        self._jobs: SimpleQueue[tuple[Key, Callable[[], Made]] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[Key, Made | None, BaseException | None]] = SimpleQueue()
        self._left = 0

    def ask(self, key: Key, make: Callable[[], Made]) -> None:
        """Have something made, from now on or in `ready`."""
        self._jobs.put((key, make))
        self._left += 1
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, name="neuralsym compiler")
            try:
                thread.start()
            except RuntimeError as error:
                log.info("no more threads can be had (%s)", error)
                self._most = len(self._threads)
            else:
                self._threads.append(thread)

    def ready(self) -> Iterator[tuple[Key, Made]]:
        """Everything asked for, as it gets ready; raises what making it has raised."""
        while self._left:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                key, made, error = self._done.get()
                self._left -= 1
                if error is not None:
                    raise error from None
                yield key, made  # type: ignore[misc]  # there is no error
            else:
                assert job is not None
                self._left -= 1
                yield job[0], job[1]()

    def __enter__(self) -> Workshop[Key, Made]:
        return self

    def __exit__(self, *_: object) -> None:
        """Begin nothing more, and wait for what is being made."""
        try:
            while True:
                self._jobs.get_nowait()
        except Empty:
            pass
        finally:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            key, make = job
            try:
                self._done.put((key, make(), None))
            except BaseException as error:
                self._done.put((key, None, error))
        self._jobs.put(None)  # for the next thread
