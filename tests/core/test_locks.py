"""Locks and kept values in forked children."""

from __future__ import annotations

import os
import threading

import pytest

from neuralsym.core.locks import Lock, cached_property


class Held:
    def __init__(self) -> None:
        self.lock = Lock()
        self.inside, self.leave = threading.Event(), threading.Event()
        self.counted = 0

    @cached_property
    def slow(self) -> int:
        """Taken by one thread at the time of the fork."""
        self.inside.set()
        self.leave.wait(30)
        return 7

    @cached_property
    def quick(self) -> int:
        self.counted += 1
        return self.counted

    def hold(self) -> None:
        with self.lock, self.lock:
            _ = self.slow


def test_a_value_is_computed_once_and_kept_in_the_instance() -> None:
    one, other = Held(), Held()
    assert (one.quick, one.quick, other.quick) == (1, 1, 1)
    assert one.__dict__["quick"] == 1
    del one.quick
    assert one.quick == 2
    assert isinstance(Held.quick, cached_property)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_waits_for_no_thread_of_its_parent() -> None:
    held = Held()
    thread = threading.Thread(target=held.hold)
    thread.start()
    assert held.inside.wait(30)
    child = os.fork()
    if not child:
        held.leave.set()
        with held.lock:
            os._exit(held.slow - 7)
    held.leave.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert held.slow == 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_keeps_what_its_own_thread_holds() -> None:
    lock = Lock()
    with lock:
        child = os.fork()
        if not child:
            try:
                lock.release()
            except RuntimeError:
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
