"""The table interpreter: rows in order, failures, host steps, times, packed statuses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from neuralsym.cpu.crew import rouse_code, run_team_code, serve_code
from neuralsym.cpu.driver import Driver, host_callback, take_exception
from neuralsym.cpu.emit import Code, array_kernel, compile_one
from neuralsym.cpu.interpreter import driver_code
from neuralsym.cpu.ir import Module
from neuralsym.cpu.machine import Target
from neuralsym.cpu.rows import (
    SERIAL,
    Failure,
    aligned_words,
    make_table,
    pack_failure,
    unpack_failure,
)
from neuralsym.cpu.store import Store


def addition() -> Code:
    """words: place, amount; place += amount."""
    module = Module()
    f = module.function("addition")
    place = f.operand(0)
    f.store("i64", f.add(f.load("i64", place, 8), f.word(1)), place, 8)
    f.do("ret i32 0")
    return Code("addition", "addition", str(module))


def doubling() -> Code:
    """words: place; place *= 2."""
    module = Module()
    f = module.function("doubling")
    place = f.operand(0)
    f.store("i64", f.mul(f.load("i64", place, 8), 2), place, 8)
    f.do("ret i32 0")
    return Code("doubling", "doubling", str(module))


def failing() -> Code:
    """words: status."""
    module = Module()
    f = module.function("failing")
    f.do(f"ret i32 {f.value(f'trunc i64 {f.word(0)} to i32')}")
    return Code("failing", "failing", str(module))


def in_frame() -> Code:
    """words: offset; the word at that offset of the frame becomes 7."""
    module = Module()
    f = module.function("in_frame")
    f.store("i64", "7", f.at("%frame", f.word(0)), 8)
    f.do("ret i32 0")
    return Code("in_frame", "in_frame", str(module))


class Rows:
    """A table under construction; it keeps what its addresses point to."""

    def __init__(self, cache: Store) -> None:
        self.store = cache
        self.target = Target.of()
        self.rows: list[tuple[int, NDArray[np.int64], int]] = []
        self.table = make_table(0)

    def add(self, code: Code | int, words: Sequence[int] = (0,), flags: int = 0) -> None:
        at = code if isinstance(code, int) else compile_one(code, self.target, self.store)
        self.rows.append((at, np.array(words, np.int64), flags))

    def address(self) -> int:
        self.table = make_table(len(self.rows))
        for place, (at, words, flags) in zip(self.table, self.rows, strict=True):
            place[:3] = at, words.ctypes.data, flags
        return int(self.table.ctypes.data)


@pytest.fixture
def driver() -> Driver:
    return Driver(Target.of(), Store.of())


@pytest.fixture
def rows(driver: Driver) -> Rows:
    return Rows(driver.store)


def test_rows_run_in_order_over_a_frame(driver: Driver, rows: Rows) -> None:
    value, frame = aligned_words(1), aligned_words(4)
    at = value.ctypes.data
    rows.add(addition(), [at, 3])
    rows.add(doubling(), [at])
    rows.add(addition(), [at, 1])
    rows.add(in_frame(), [16])
    assert driver.run(frame.ctypes.data, rows.address(), 4) == 0
    assert value[0] == 7
    assert frame.tolist() == [0, 0, 7, 0]
    assert driver.run(0, rows.address(), 2, first=1) == 0
    assert value[0] == 15
    bound = driver.bind(frame.ctypes.data, rows.address(), 1)
    assert bound() == 0
    assert value[0] == 18
    assert driver.run(0, rows.address(), 0) == 0
    assert value[0] == 18


def test_a_failure_stops_the_run_and_tells_the_row(driver: Driver, rows: Rows) -> None:
    value = aligned_words(1)
    rows.add(addition(), [value.ctypes.data, 1])
    rows.add(failing(), [-42])
    rows.add(addition(), [value.ctypes.data, 100])
    assert unpack_failure(driver.run(0, rows.address(), 3)) == Failure(1, -42)
    assert value[0] == 1
    times = np.zeros(3, np.int64)
    status = driver.run(0, rows.address(), 3, times=times.ctypes.data)
    assert unpack_failure(status) == Failure(1, -42)


def test_array_functions_and_host_steps_among_them(driver: Driver, rows: Rows) -> None:
    def square(x, out):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            out[i] = x[i] * x[i]

    x = np.arange(5.0)
    y, seen = np.zeros(5), []

    def step(frame: int, desc: int, worker: int, workers: int) -> None:
        seen.append((frame, desc, worker, workers))
        y[:] += 1

    host = host_callback(step)
    square_code = array_kernel(square, [("float64", 1, "in"), ("float64", 1, "out")])
    rows.add(square_code, [x.ctypes.data, 5, y.ctypes.data, 5])
    rows.add(host.address, [11], SERIAL)
    rows.add(square_code, [y.ctypes.data, 5, y.ctypes.data, 5])
    frame = aligned_words(1).ctypes.data
    assert driver.run(frame, rows.address(), 3) == 0
    np.testing.assert_array_equal(y, (x * x + 1) ** 2)
    assert seen == [(frame, rows.rows[1][1].ctypes.data, 0, 1)]


def test_an_exception_of_a_host_step_is_kept(driver: Driver, rows: Rows) -> None:
    def step(frame: int, desc: int, worker: int, workers: int) -> None:
        raise KeyError("a reason")

    host = host_callback(step)
    rows.add(host.address)
    frame = aligned_words(1)
    status = driver.run(frame.ctypes.data, rows.address(), 1)
    assert unpack_failure(status) == Failure(0, -1)
    error = take_exception(frame.ctypes.data)
    assert isinstance(error, KeyError)
    assert error.args == ("a reason",)
    assert error.__traceback__ is not None
    assert take_exception(frame.ctypes.data) is None


def test_an_interrupt_in_a_host_step_is_kept_too(driver: Driver, rows: Rows) -> None:
    def step(frame: int, desc: int, worker: int, workers: int) -> None:
        raise KeyboardInterrupt

    host = host_callback(step)
    rows.add(host.address)
    assert unpack_failure(driver.run(0, rows.address(), 1)) == Failure(0, -1)
    assert isinstance(take_exception(0), KeyboardInterrupt)


def test_a_host_step_that_returns_a_status(driver: Driver, rows: Rows) -> None:
    host = host_callback(lambda frame, desc, worker, workers: 5)
    rows.add(host.address)
    assert unpack_failure(driver.run(0, rows.address(), 1)) == Failure(0, 5)
    assert take_exception(0) is None


def test_times_tell_the_slow_row(driver: Driver, rows: Rows) -> None:
    import time

    host = host_callback(lambda *_: time.sleep(0.01))
    value = aligned_words(1)
    rows.add(addition(), [value.ctypes.data, 1])
    rows.add(host.address, flags=SERIAL)
    rows.add(addition(), [value.ctypes.data, 1])
    times = np.zeros(3, np.int64)
    for _ in range(2):
        assert driver.run(0, rows.address(), 3, times=times.ctypes.data) == 0
    assert times[1] > 2 * 9_000_000
    assert 0 < times[0] < times[1]
    assert 0 < times[2] < times[1]
    assert value[0] == 4


@given(st.integers(0, 2**32 - 3), st.integers(-(2**31), 2**31 - 1).filter(bool))
def test_packing_a_failure(row: int, status: int) -> None:
    packed = pack_failure(row, status)
    assert packed != 0
    assert -(2**63) <= packed < 2**63
    assert unpack_failure(packed) == Failure(row, status)


def test_success_is_zero() -> None:
    assert unpack_failure(0) is None


def test_the_interpreter_assembles_for_every_target() -> None:
    from neuralsym.cpu.emit import compile_object

    for isa in ("avx512", "avx2", "sse2", "neon"):
        target = Target.foreign(isa)
        codes = [driver_code(), driver_code(True)]
        codes += [run_team_code(target), serve_code(target), rouse_code(target)]
        for code in codes:
            assert len(compile_object(code, target)) > 500
