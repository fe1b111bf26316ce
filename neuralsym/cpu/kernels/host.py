"""Host steps: operations in Python, called from the table interpreter through one callback.

What handles strings, sequences and optionals, the bookkeeping where sizes depend on data (the loops
are compiled), and what neither a kernel nor an expansion takes.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.custom import Custom
from neuralsym.cpu.arrays import Direction
from neuralsym.cpu.driver import HostStep, host_callback
from neuralsym.cpu.kernels.array_row import call_arrays
from neuralsym.cpu.library import Kernel
from neuralsym.cpu.program import Row, Sizes, Step
from neuralsym.errors import ExecutionError


class HostRun(Protocol):
    """A run that host steps work on."""

    def host_step(self, number: int) -> None:
        """Carry out step `number` of the run's program."""


class HostKernel(Kernel):
    """A kernel in Python: `compute` gets the inputs as arrays or objects and gives the outputs."""

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        """The outputs of the step.

        `values` are one for each input (None where omitted) and each capture. Arrays are views
        that may change after the step; they must not be written to.
        """
        raise NotImplementedError

    def rows(self, step: Step, sizes: Sizes) -> Sequence[Row]:
        return [Row(callback().address, [step.number], serial=True)]


class ArrayStep(HostKernel):
    """A kernel whose output sizes depend on the data: bookkeeping in Python, loops compiled.

    `compute` allocates and calls `self.call(function, [(array, "in" | "out"), ...], attributes)`,
    once to count and once to fill, say.
    """

    def call(
        self,
        function: Callable[..., Any],
        operands: Sequence[tuple[NDArray[Any], Direction]],
        attributes: Sequence[bool | int | float] = (),
    ) -> None:
        """Run a compiled array function on arrays in C order; ExecutionError for a status not 0.

        The message is what `failures` says of the status.
        """
        given = self.options.cache_dir
        status = call_arrays(function, operands, attributes, self.target, given)
        if status:
            raise ExecutionError(self.failures.get(status, f"status {status}"))

    @staticmethod
    def ordered(value: NDArray[Any]) -> NDArray[Any]:
        """The array in C order, with its rank."""
        return np.ascontiguousarray(value).reshape(value.shape)


class LastResort(HostKernel):
    """The operator's value by `ops.evaluate`, for what no other kernel takes."""

    name = "host"

    def supports(self, step: Step) -> bool | str:
        if issubclass(step.op, Custom):
            op, domain = step.op.__name__, step.op.domain
            return (
                f"the operators of domain {domain!r} are not known here; register a kernel with "
                f"@library.kernel({op!r}, domain={domain!r}) and give the library to load or "
                "compile"
            )
        return True if step.node is not None else "it stands for no node"

    def compute(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        from neuralsym.ops.evaluate import evaluate

        assert step.node is not None
        count = len(step.inputs)
        return evaluate(step.node, values[:count], values[count:])


_lock = threading.Lock()
_made: list[HostStep] = []
_runs: dict[int, HostRun] = {}


def callback() -> HostStep:
    """The one kernel through which all host steps run: its descriptor is the step's number."""
    if not _made:
        with _lock:
            if not _made:
                _made.append(host_callback(_step))
    return _made[0]


def _step(frame: int, desc: int, worker: int, workers: int) -> None:
    _runs[frame].host_step(ctypes.c_int64.from_address(desc).value)


def enter(frame: int, run: HostRun) -> None:
    """Say whose the frame is, before a run whose table has host steps."""
    _runs[frame] = run


def leave(frame: int) -> None:
    """Forget the frame."""
    _runs.pop(frame, None)
