"""Threads that make things for whoever asks and then helps."""

from __future__ import annotations

import threading
import time

import pytest

from neuralsym.cpu.workshop import Workshop


@pytest.mark.parametrize("threads", [0, 1, 2, 5])
def test_everything_asked_for_is_made_once(threads: int) -> None:
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        time.sleep(0.001)
        return number * number

    before = threading.active_count()
    with Workshop[int, int](threads) as shop:
        for number in range(20):
            shop.ask(number, lambda number=number: make(number))
        assert dict(shop.ready()) == {n: n * n for n in range(20)}
        assert threading.active_count() - before <= max(threads - 1, 0)
        shop.ask(99, lambda: make(99))  # later, too
        assert dict(shop.ready()) == {99: 99 * 99}
        assert not dict(shop.ready())
    assert sorted(made) == [*range(20), 99]
    assert threading.active_count() == before


def test_others_work_while_the_asking_thread_does_not() -> None:
    made = threading.Event()
    with Workshop[str, None](2) as shop:
        shop.ask("event", made.set)
        assert made.wait(30)
        assert dict(shop.ready()) == {"event": None}


@pytest.mark.parametrize("threads", [1, 3])
def test_what_making_raises_is_raised_and_nothing_more_is_begun(threads: int) -> None:
    class Broken(Exception):
        pass

    def fail() -> int:
        raise Broken

    begun: list[int] = []
    before = threading.active_count()
    with Workshop[int, int](threads) as shop:
        shop.ask(0, fail)
        with pytest.raises(Broken):
            next(shop.ready())
    with Workshop[int, None](threads) as shop:
        for number in range(50):
            shop.ask(number, lambda number=number: (time.sleep(0.01), begun.append(number))[1])
    assert len(begun) < 10
    assert threading.active_count() == before


def test_threads_that_cannot_be_had_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with Workshop[int, int](4) as shop:
        for number in range(5):
            shop.ask(number, lambda number=number: -number)
        assert dict(shop.ready()) == {n: -n for n in range(5)}
