"""A plan as it lies in an instance's own memory, and what its rows took there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.plan import Plan


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
