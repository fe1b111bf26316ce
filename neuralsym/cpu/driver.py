"""The table interpreter as Python sees it: run a table, build one, put Python functions into it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.crew import rouse_code, run_team_code, serve_code
from neuralsym.cpu.emit import compile_all
from neuralsym.cpu.interpreter import ROW_WORDS, SERIAL, bound_code, driver_code, pack_failure
from neuralsym.cpu.machine import Target
from neuralsym.cpu.store import Store

__all__ = [
    "ROW_WORDS",
    "SERIAL",
    "address_of",
    "Driver",
    "Failure",
    "HostStep",
    "aligned_words",
    "host_callback",
    "make_table",
    "pack_failure",
    "take_exception",
    "unpack_failure",
]

_POINTER, _LONG, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
Kernel = ctypes.CFUNCTYPE(_INT, _POINTER, _POINTER, _INT, _INT)
_Run = ctypes.CFUNCTYPE(_LONG, _POINTER, _POINTER, _LONG, _LONG)
_RunProfiled = ctypes.CFUNCTYPE(_LONG, _POINTER, _POINTER, _LONG, _LONG, _POINTER)
_RunTeam = ctypes.CFUNCTYPE(_LONG, _POINTER, _POINTER)
_Serve = ctypes.CFUNCTYPE(_LONG, _POINTER, _LONG)


class TeamCalls(NamedTuple):
    """What a Team calls: see the codes of `crew`."""

    run: Any
    serve: Any
    rouse: Any


class Failure(NamedTuple):
    """The first row of a run that failed, and the status of its kernel."""

    row: int
    status: int


def unpack_failure(value: int) -> Failure | None:
    """The failure that a run returned, or None for 0, its success; see `pack_failure`."""
    return Failure((value & 0xFFFFFFFF) - 1, value >> 32) if value else None


@dataclass(frozen=True)
class Driver:
    """The interpreter of one target; its parts are compiled or loaded when first used.

    All addresses are integers. Running releases the GIL.
    """

    target: Target
    store: Store

    def run(self, frame: int, table: int, count: int, *, first: int = 0, times: int = 0) -> int:
        """Run `count` rows from `first` in this thread; 0 or what `unpack_failure` explains.

        `times`, an array of an int64 for each row of the table, makes it a timed run, which adds
        the nanoseconds that each row took.
        """
        if times:
            return int(self.timed(frame, table, first, count, times))
        return int(self.plain(frame, table, first, count))

    def bind(self, frame: int, table: int, count: int) -> Callable[[], int]:
        """`run(frame, table, count)` with as little as possible left to do."""
        words = aligned_words(4)
        words[:] = address_of(self.plain), frame, table, count
        bound = partial(self._bound, ctypes.c_void_p(words.ctypes.data))
        bound.words = words  # type: ignore[attr-defined]  # alive as long as the call
        return bound

    @cached_property
    def plain(self) -> Any:
        (address,) = compile_all([driver_code()], self.target, self.store).values()
        return _Run(address)

    @cached_property
    def timed(self) -> Any:
        (address,) = compile_all([driver_code(True)], self.target, self.store).values()
        return _RunProfiled(address)

    @cached_property
    def _bound(self) -> Any:
        (address,) = compile_all([bound_code()], self.target, self.store).values()
        return ctypes.CFUNCTYPE(_LONG, _POINTER)(address)

    def prepare(self, workers: int) -> None:
        """Compile or load what runs on so many threads need, so that the first does not wait."""
        if workers > 1:
            _ = self.team_calls
        else:
            _ = self.plain, self._bound

    @cached_property
    def team_calls(self) -> TeamCalls:
        codes = (run_team_code(self.target), serve_code(self.target), rouse_code(self.target))
        made = compile_all(codes, self.target, self.store)
        run, serve, rouse = (made[code.key(self.target)] for code in codes)
        return TeamCalls(_RunTeam(run), _Serve(serve), _Serve(rouse))


def make_table(rows: int) -> NDArray[np.int64]:
    """An empty table of so many rows, aligned to cache lines."""
    return aligned_words(rows * ROW_WORDS).reshape(rows, ROW_WORDS)


def aligned_words(count: int, alignment: int = 64) -> NDArray[np.int64]:
    """`count` zero int64 words at an address that is a multiple of `alignment`."""
    room = np.zeros(8 * count + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    return room[start : start + 8 * count].view(np.int64)


class HostStep(NamedTuple):
    """A Python function as a kernel: its address, and what must live as long as that is used."""

    address: int
    keepalive: object


# What host steps have raised, by the frame of their run: the step may be in another thread.
_raised: dict[int, BaseException] = {}


def host_callback(function: Callable[[int, int, int, int], int | None]) -> HostStep:
    """`function(frame, desc, worker, workers)` as a kernel; None is success.

    An exception becomes status -1 and is kept for `take_exception(frame)`. Rows of host steps
    should be SERIAL unless the function shares its work by worker number.
    """

    def step(frame: int | None, desc: int | None, worker: int, workers: int) -> int:
        try:
            return int(function(frame or 0, desc or 0, worker, workers) or 0)
        except BaseException as error:
            # Also KeyboardInterrupt: there is compiled code between here and whoever called it.
            _raised.setdefault(frame or 0, error)
            return -1

    kernel = Kernel(step)
    return HostStep(address_of(kernel), kernel)


def address_of(function: Any) -> int:
    """The address that a ctypes function calls."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def take_exception(frame: int) -> BaseException | None:
    """What the first failing host step of the run over `frame` has raised, once."""
    return _raised.pop(frame, None)
