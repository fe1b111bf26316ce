"""A run like the one before it: arrays copied in, one call, arrays copied out, and nothing else.

For small networks Python's part of a run takes as long as the computation: so whoever makes the
memory of a run also makes, once and for all, the function that runs there. These are closures,
whose variables are found fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from neuralsym.errors import ExecutionError

Array = NDArray[Any]

BUSY = "an instance runs in one thread at a time; make one for each"

Answer = Callable[[Any], dict[str, Array] | None]
"""From a feed to the outputs, fresh arrays; None, with nothing computed, for any feed but a dict
with an array of the right dtype and shape for each input, or the array where there is one input."""


class Feed(NamedTuple):
    """An input: its name, its place in memory, and what an array for it must have."""

    name: str
    place: Array
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def answering(
    feeds: Sequence[Feed],
    call: Callable[[], int],
    fail: Callable[[int], object],
    results: Sequence[tuple[str, Array]],
) -> Answer:
    """The function that runs in one memory.

    call: gives a status; fail: raises what a status other than 0 means; results: each output's name
    and place.
    """
    ndarray, count = np.ndarray, len(feeds)
    if count == len(results) == 1:
        ((name, place, dtype, shape),) = feeds
        ((result, made),) = results

        def answer_one(feed: Any) -> dict[str, Array] | None:
            if type(feed) is dict and len(feed) == 1:
                feed = feed.get(name)
            if type(feed) is not ndarray or feed.dtype != dtype or feed.shape != shape:
                return None
            place[...] = feed
            if status := call():
                fail(status)
            return {result: made.copy()}

        return answer_one

    def answer(feed: Any) -> dict[str, Array] | None:
        if type(feed) is ndarray and count == 1:
            feed = {feeds[0][0]: feed}
        if type(feed) is not dict or len(feed) != count:
            return None
        for name, place, dtype, shape in feeds:
            array = feed.get(name)
            if type(array) is not ndarray or array.dtype != dtype or array.shape != shape:
                return None
            place[...] = array
        if status := call():
            fail(status)
        return {name: place.copy() for name, place in results}

    return answer


def computing(
    lock: Lock, call: Callable[[], int], fail: Callable[[int], object]
) -> Callable[[], None]:
    """The function that computes in a memory whose inputs are in their places.

    Raises ExecutionError while another thread computes there.
    """
    acquire, release = lock.acquire, lock.release

    def compute() -> None:
        if not acquire(False):
            raise ExecutionError(BUSY)
        try:
            if status := call():
                fail(status)
        finally:
            release()

    return compute


class Memory(Protocol):
    """The memory of a run, used by one at a time; `answer` is None where a run needs more."""

    answer: Answer | None


M = TypeVar("M", bound=Memory)


class Pool(Generic[M]):
    """The memories that no run is using; safe for several threads."""

    run: Answer
    """The answer of a memory that is free."""

    def __init__(self, make: Callable[[], M]) -> None:
        free: list[M] = []
        pop, give = free.pop, free.append  # atomic, so no lock is needed

        def take() -> M:
            try:
                return pop()
            except IndexError:
                return make()

        def run(feed: Any) -> dict[str, Array] | None:
            try:
                memory = pop()
            except IndexError:
                memory = make()
            try:
                return None if (answer := memory.answer) is None else answer(feed)
            finally:
                give(memory)

        self.take, self.give, self.run = take, give, run
