"""A plan as it lies in an instance's own memory: what its rows took there, and how one failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.driver import take_exception
from neuralsym.cpu.plan import Plan
from neuralsym.cpu.program import Step
from neuralsym.cpu.rows import unpack_failure
from neuralsym.errors import ExecutionError, at_line


class Bound(NamedTuple):
    """A plan in an instance's own memory."""

    plan: Plan
    frame: int
    call: Callable[[], int]
    rows: NDArray[np.int64]
    kept: tuple[Any, ...]
    times: NDArray[np.int64] | None


class RowTime(NamedTuple):
    """What a row of the table took in all runs of an instance so far."""

    step: str
    op: str
    kernel: str
    nanoseconds: int


def row_times(plans: Iterable[Bound]) -> list[RowTime]:
    """What each row took; empty unless compiled with profile=True."""
    return [
        RowTime(step.name, step.op.__name__, step.kernel.name if step.kernel else "", time)
        for bound in plans
        if bound.times is not None
        for step, time in zip(bound.plan.row_steps, bound.times.tolist(), strict=False)
    ]


def fail(bound: Bound, status: int) -> NoReturn:
    """Raise what a status other than 0 means: ExecutionError with the step and the user's line."""
    failure = unpack_failure(status)
    assert failure is not None
    step = bound.plan.row_steps[failure.row]
    cause = take_exception(bound.frame)
    if cause is not None and not isinstance(cause, Exception):
        raise cause  # KeyboardInterrupt and its kin
    kernel = step.kernel.name if step.kernel else ""
    meaning = step.kernel.failures.get(failure.status) if step.kernel else None
    said = _without_place(str(cause), step) if cause else meaning
    reason = f": {said}" if said else f" (status {failure.status})"
    raise ExecutionError(
        f"{step.describe()} failed in kernel {kernel!r}{reason}{at_line(step.where)}"
    ) from cause


def _without_place(text: str, step: Step) -> str:
    """What a step's error says besides the operator and the user's line, which are said already."""
    text = text.removesuffix(at_line(step.where))
    for name in (step.describe(), step.op.__name__):
        if text.startswith(name):
            return text[len(name) :].removeprefix(":").lstrip()
    return text
