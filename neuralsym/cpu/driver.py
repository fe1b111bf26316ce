"""The table interpreter as Python sees it: run a table, build one, put Python functions into it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from neuralsym.core.locks import cached_property
from neuralsym.cpu.machine import Target
from neuralsym.cpu.rows import aligned_words
from neuralsym.cpu.store import Store

if TYPE_CHECKING:
    from neuralsym.cpu.emit import Code

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


def driver_codes(target: Target, workers: int) -> dict[str, Code]:
    """The code that runs on so many threads need, by its symbol."""
    # Imported late: a process that runs a stored program has these parts in it.
    if workers > 1:
        from neuralsym.cpu.crew import rouse_code, run_team_code, serve_code

        codes = [run_team_code(target), serve_code(target), rouse_code(target)]
    else:
        from neuralsym.cpu.interpreter import bound_code, driver_code

        codes = [driver_code(), bound_code()]
    return {code.symbol: code for code in codes}


@dataclass(frozen=True)
class Driver:
    """The interpreter of one target; its parts are compiled or loaded when first used.

    All addresses are integers. Running releases the GIL. `made` are parts that are in memory.
    """

    target: Target
    store: Store
    made: Mapping[str, int] = field(default_factory=dict, compare=False)

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
        return _Run(self._parts(1)["run"])

    @cached_property
    def timed(self) -> Any:
        from neuralsym.cpu.emit import compile_one
        from neuralsym.cpu.interpreter import driver_code

        return _RunProfiled(compile_one(driver_code(True), self.target, self.store))

    @cached_property
    def _bound(self) -> Any:
        return ctypes.CFUNCTYPE(_LONG, _POINTER)(self._parts(1)["bound"])

    def prepare(self, workers: int) -> None:
        """Compile or load what runs on so many threads need, so that the first does not wait."""
        if workers > 1:
            _ = self.team_calls
        else:
            _ = self.plain, self._bound

    @cached_property
    def team_calls(self) -> TeamCalls:
        parts = self._parts(2)
        return TeamCalls(
            _RunTeam(parts["run_team"]), _Serve(parts["serve"]), _Serve(parts["rouse"])
        )

    def _parts(self, workers: int) -> Mapping[str, int]:
        """The addresses of what runs on so many threads need."""
        if ("run_team" if workers > 1 else "bound") in self.made:
            return self.made
        from neuralsym.cpu.emit import compile_all

        codes = driver_codes(self.target, workers)
        made = compile_all(list(codes.values()), self.target, self.store)
        return {symbol: made[code.key(self.target)] for symbol, code in codes.items()}


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
