"""Where the time of a run goes: seconds, floating-point operations and bytes of every step."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.instance import Instance
from neuralsym.cpu.program import Sizes, Step
from neuralsym.cpu.rows import make_table
from neuralsym.errors import BadAttribute, ExecutionError, ShapeMismatch


@dataclass(frozen=True)
class StepTime:
    """One step of a program, or several taken together.

    seconds: the median over the runs. operations: floating-point ones as `Kernel.complexity` tells
    them, 0 where they say nothing. nbytes: the elements of inputs and outputs, each once, so the
    least that must be moved. steps: how many steps these are.
    """

    name: str
    op: str
    kernel: str
    seconds: float
    operations: int
    nbytes: int
    steps: int = 1

    @property
    def gflops(self) -> float:
        """Thousand million floating-point operations a second."""
        return self.operations / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gigabytes(self) -> float:
        """Thousand million bytes a second."""
        return self.nbytes / self.seconds / 1e9 if self.seconds else 0.0


def profile_instance(instance: Instance, runs: int = 20, warmup: int = 3) -> list[StepTime]:
    """Run an instance that has been fed, and time its steps, in the order in which they run.

    Steps for which no code runs, such as a reshape in place, are left out. Times are by the clock
    on the wall; with several workers those of the first one, with its waiting for the others.
    Raises BadAttribute for a cell that was compiled without `Options(profile=True)`.
    """
    if not instance.cell.options.profile:
        raise BadAttribute(
            f"{instance.program.name!r} was compiled without timing; compile(profile=True) adds it"
        )
    if runs < 1:
        raise BadAttribute(f"a profile takes at least 1 run, not {runs}")
    samples: dict[Step, list[int]] = {}
    for number in range(warmup + runs):
        for bound in instance.bound:
            if bound.times is not None:
                bound.times[:] = 0
        instance.compute()
        if number < warmup:
            continue
        for bound in instance.bound:
            assert bound.times is not None
            spent: dict[Step, int] = {}
            for step, time in zip(bound.plan.row_steps, bound.times.tolist(), strict=False):
                spent[step] = spent.get(step, 0) + time
            for step, time in spent.items():
                samples.setdefault(step, []).append(time)
    return [
        StepTime(
            step.name,
            step.op.__name__,
            step.kernel.name if step.kernel else "",
            statistics.median(times) / 1e9,
            operations_of(step, instance.sizes),
            bytes_of(step, instance.sizes),
        )
        for step, times in samples.items()
    ]


def operations_of(step: Step, sizes: Sizes) -> int:
    """Floating-point operations of a step; 0 where they say nothing, or its data decides."""
    try:
        return step.kernel.complexity(step, sizes) if step.kernel else 0
    except ShapeMismatch:  # a shape that no dimension tells, as within a deferred body
        return 0


def bytes_of(step: Step, sizes: Sizes) -> int:
    """The elements of a step's inputs and outputs in bytes, without padding, each once."""
    total = 0
    for buffer in dict.fromkeys((*step.operands, *step.outputs)):
        if buffer.is_tensor:
            try:
                total += math.prod(sizes.shape(buffer)) * buffer.dtype.itemsize
            except ShapeMismatch:
                continue  # as above
    return total


def operations(instance: Instance) -> int:
    """Floating-point operations of one run, at the sizes of the last one."""
    return sum(
        operations_of(step, instance.sizes)
        for bound in instance.bound
        for step in dict.fromkeys(bound.plan.row_steps)
    )


def grouped(times: Sequence[StepTime], key: Callable[[StepTime], str]) -> list[StepTime]:
    """The steps with the same `key`, which becomes their name, taken together; longest first."""
    groups: dict[str, list[StepTime]] = {}
    for time in times:
        groups.setdefault(key(time), []).append(time)
    made = [
        StepTime(
            name,
            _common([t.op for t in members]),
            _common([t.kernel for t in members]),
            sum(t.seconds for t in members),
            sum(t.operations for t in members),
            sum(t.nbytes for t in members),
            sum(t.steps for t in members),
        )
        for name, members in groups.items()
    ]
    return sorted(made, key=lambda t: -t.seconds)


def _common(names: list[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return distinct[0] if len(distinct) == 1 else f"{len(distinct)} kinds"


def repeated(instance: Instance, count: int) -> Callable[[], None]:
    """A call that runs an instance `count` times over without coming back to Python between.

    The instance has computed before. So small programs can be timed without the cost of calling
    them from Python. Raises ExecutionError for a program that Python steps are part of, that is
    planned in several segments or updates variables: such runs need Python.
    """
    program, bound = instance.program, instance.bound
    if len(bound) != 1 or len(program.segments) != 1 or program.updates or bound[0].plan.has_host:
        raise ExecutionError(f"a run of {program.name!r} needs Python between its steps")
    rows = bound[0].rows
    table = make_table(count * len(rows))
    table[:] = np.tile(rows, (count, 1))
    run = instance.cell.run(bound[0].frame, table.ctypes.data, len(table))

    def call(kept: tuple[NDArray[np.int64], Instance] = (table, instance)) -> None:
        status = run()
        if status:
            raise ExecutionError(f"{program.name!r} failed with status {status}")

    return call
