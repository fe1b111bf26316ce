"""A compiled program: the Cell, common to all runs, and Instances, each a run's own memory.

    instance = cell.instance()
    instance["x"] = array
    instance.compute()
    y = instance["y"]           # a view, valid until the next compute

Several instances of one cell may run in different threads at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.locks import Lock, cached_property
from neuralsym.core.types import Shape, TensorType, Type
from neuralsym.cpu.constants import Constants
from neuralsym.cpu.draft import Drafts
from neuralsym.cpu.driver import Driver
from neuralsym.cpu.emit import Code, Progress, compile_all
from neuralsym.cpu.feeds import dimension_names, tensor_inputs
from neuralsym.cpu.instance import Instance
from neuralsym.cpu.machine import Target
from neuralsym.cpu.options import Options
from neuralsym.cpu.plan import Plan, plan_segment
from neuralsym.cpu.program import Buffer, Program, Role, Row, Sizes
from neuralsym.cpu.rows import make_table
from neuralsym.cpu.settings import with_settings
from neuralsym.cpu.store import Store
from neuralsym.cpu.threads import Team, default_threads, shared_team
from neuralsym.dtypes import NumberType
from neuralsym.errors import ExecutionError, NeuralsymError, ShapeMismatch, did_you_mean

__all__ = ["Cell", "Instance", "Parameter"]

PLANS = 16
"""How many plans of each segment are kept, for as many sets of sizes."""


class Parameter(NamedTuple):
    """A value that the cell's program knows by name."""

    name: str
    type: Type
    kind: str
    """"input", "output", "variable" (an input with a default) or "constant"."""

    @property
    def shape(self) -> Shape | None:
        return self.type.shape if isinstance(self.type, TensorType) else None

    @property
    def dtype(self) -> NumberType | None:
        return self.type.dtype if isinstance(self.type, TensorType) else None


class Cell:
    """A program with its code and constants, ready to run.

    `parameters` lists inputs, outputs and constants; `instance()` makes the memory of a run.
    Nothing here changes but the plans, which are made for new sizes, and `state`.
    """

    def __init__(
        self,
        program: Program,
        target: Target,
        store: Store,
        options: Options,
        progress: Progress | None = None,
        team: bool = True,
        draft: bool = False,
    ) -> None:
        self.program = program
        self.target = target
        self.options = options
        self.store = store
        self.driver = Driver(target, store)
        self.workers = (options.threads or default_threads()) if team else 1
        self.progress = progress
        self.constants = Constants()
        self.state: dict[str, NDArray[Any]] = {}
        """The values of variables that the program updates, by name; cells may share one dict."""
        self.state_names = frozenset(program.updates)
        """The inputs that begin with a value of `state`."""
        self.rewrites: dict[str, str] = {}
        """What each rule and pass did to the graph, for `explain`."""
        self.lock = Lock()
        self._plans: list[OrderedDict[Any, Plan]] = [OrderedDict() for _ in program.segments]
        self._codes: dict[Code, int] = {}
        self._drafts = Drafts(target, store) if draft else None

    @property
    def name(self) -> str:
        return self.program.name

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Every named value: inputs, outputs, then the constants in use."""
        program = self.program
        found = [
            Parameter(n, b.type, "variable" if b.constant is not None else "input")
            for n, b in program.inputs.items()
        ]
        found += [Parameter(n, b.type, "output") for n, b in program.outputs.items()]
        constants = dict.fromkeys(
            b for s in program.steps for b in s.operands if b.role is Role.CONSTANT
        )
        found += [Parameter(b.name, b.type, "constant") for b in constants]
        return tuple(found)

    def parameter(self, name: str) -> Parameter:
        """The parameter called `name`; GraphError's kin, NeuralsymError, if there is none."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        hint = did_you_mean(name, [p.name for p in self.parameters])
        raise NeuralsymError(f"cell {self.name!r} has no parameter {name!r}{hint}")

    def instance(self, **sizes: int) -> Instance:
        """A run's own memory; `sizes` bind dimension names before anything is fed."""
        return Instance(self, sizes)

    @property
    def team(self) -> Team:
        return shared_team(self.workers, self.driver)

    def run(self, frame: int, table: int, rows: int, times: int = 0) -> Callable[[], int]:
        """The call that runs so many rows of a table."""
        if self.workers == 1:
            if not times:
                return self.driver.bind(frame, table, rows)
            return lambda: self.driver.run(frame, table, rows, times=times)
        return self.team.bind(frame, table, rows, times)

    # -- plans -----------------------------------------------------------------------------
    def plan(
        self,
        index: int,
        sizes: Sizes,
        before: Sequence[Plan],
        extra: Any = (),
        read: Mapping[Buffer, NDArray[Any]] | None = None,
    ) -> Plan:
        """The plan of a segment for some sizes, and whatever else its shapes depend on.

        read: the values of the segment's settings that the run has computed; the sizes of the plan
        (`Plan.sizes`) are the given ones with what follows from these values.
        """
        key = (sizes.key, extra)
        plans = self._plans[index]
        with self.lock:
            found = plans.get(key)
            if found is None:
                if read:
                    sizes = with_settings(self.program.segments[index], sizes, read)
                drafts = self._drafts
                try:
                    with drafts.planning() if drafts is not None else nullcontext():
                        found = plan_segment(self.program, index, sizes, before, self)
                except MemoryError:
                    raise ExecutionError(
                        f"a run of {self.name!r} at these sizes needs more memory than can be had"
                    ) from None
                plans[key] = found
                self._watch(found.rows, found)
                while len(plans) > PLANS:
                    plans.popitem(last=False)
            else:
                plans.move_to_end(key)
        return found

    def prepare(self) -> None:
        """Make all code that can be told now: for the program's sizes, or for names of size 1."""
        self.driver.prepare(self.workers)
        inputs = tensor_inputs(self.program).values()
        if any(b.tensor.shape is None for b in inputs):
            return
        names = {n: 1 for b in inputs for n in dimension_names(b)}
        try:
            self.plan(0, Sizes(names, self.workers), ())
        except ShapeMismatch:
            if not names:
                raise
            # A picture of one pixel is too small for this network: its first run plans.

    def plans(self) -> list[Plan]:
        """The plans at hand, segment by segment."""
        return [plan for plans in self._plans for plan in plans.values()]

    def codes(self) -> list[Code]:
        """The code of the plans made so far."""
        return list(self._codes)

    def constant_address(self, buffer: Buffer) -> int:
        return self.constants.address(buffer)

    def expect(self, code: Code) -> None:
        """A plan that is being made will need this code, which may be made meanwhile."""
        if self._drafts is not None and code not in self._codes:
            self._drafts.expect(code)

    def code_addresses(self, codes: Sequence[Code]) -> dict[Code, int]:
        known = self._codes
        missing = [c for c in dict.fromkeys(codes) if c not in known]
        if missing:
            if self._drafts is not None:
                known.update(self._drafts.addresses(missing))
            else:
                made = compile_all(missing, self.target, self.store, self.progress)
                known.update((c, made[c.key(self.target)]) for c in missing)
        return known

    def table(self, plan: Plan) -> NDArray[np.int64]:
        """A copy of a plan's rows."""
        rows = make_table(len(plan.rows))
        rows[:] = plan.rows
        self._watch(rows, plan)
        return rows

    def _watch(self, rows: NDArray[np.int64], plan: Plan) -> None:
        if self._drafts is not None:
            self._drafts.watch(rows, plan.codes)

    def improve(self) -> None:
        """Have drafts of kernels replaced by what they should be, in the background."""
        if self._drafts is not None:
            self._drafts.improve()

    def clear_halo(self, buffer: Buffer, sizes: Sizes) -> Row:
        from neuralsym.cpu.kernels.halo import clear_halo

        return clear_halo(self.target, buffer, sizes)

    # -- state -----------------------------------------------------------------------------
    def start_state(self) -> Mapping[str, NDArray[Any]]:
        """The current values of the inputs that have one."""
        with self.lock:
            return {name: self.state[name] for name in self.state_names if name in self.state}

    def save_state(self, values: Mapping[str, NDArray[Any]]) -> None:
        with self.lock:
            self.state.update(values)

    def __reduce__(self) -> str:
        raise TypeError("compiled code is never pickled: pickle the Network or the Graph")

    def __repr__(self) -> str:
        return f"<Cell {self.name!r}: {len(self.program.steps)} steps, {self.workers} workers>"
