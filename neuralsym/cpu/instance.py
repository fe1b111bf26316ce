"""The memory of a run, and running: feed, compute, read.

An Instance has one block of memory for each segment of the program, the descriptor tables that
point into it, and a dict of the Python objects (sequences, optionals, strings) beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.bound import Bound, RowTime, fail, row_times
from neuralsym.cpu.constants import aligned_bytes
from neuralsym.cpu.feeds import as_fed, bind_sizes, tensor_inputs
from neuralsym.cpu.kernels.host import HostKernel, enter, leave
from neuralsym.cpu.plan import Plan
from neuralsym.cpu.program import Buffer, Role, Sizes, Step, owner
from neuralsym.cpu.quick import BUSY, Answer, Feed, answering, computing
from neuralsym.cpu.rows import aligned_words
from neuralsym.errors import ExecutionError, InputError, did_you_mean

if TYPE_CHECKING:
    from neuralsym.cpu.runtime import Cell

Array = NDArray[Any]


class Instance:
    """One run's memory over a cell; used by one thread at a time.

    `instance[name] = value` feeds an input (the value is copied); what is fed stays until it is
    fed anew or `clear`. `compute()` runs. `instance[name]` is a view of an output or input.
    """

    aliases: Mapping[str, str] = MappingProxyType({})
    """Other names of inputs and outputs."""

    def __init__(self, cell: Cell, sizes: Mapping[str, int]) -> None:
        self.cell = cell
        self.program = cell.program
        self._given = dict(sizes)
        self._tensors = tensor_inputs(cell.program)
        self._required = frozenset(n for n, b in cell.program.inputs.items() if b.constant is None)
        self._missing: set[str] = set(self._required)
        self._pending: dict[str, Array] = {}
        self._changed: set[str] = set()
        """Inputs with a default that hold something else."""
        self._objects: dict[Buffer, Any] = {}
        self._defined: dict[Buffer, Array] = {}
        self._blocks: list[NDArray[np.uint8] | None] = [None] * len(cell.program.segments)
        self._bound: list[Bound | None] = [None] * len(cell.program.segments)
        self._sizes: Sizes | None = None
        """The sizes that the inputs tell; `_now` has those that a run has found besides."""
        self._now = Sizes({})
        self._extra: tuple[Any, ...] = ()
        self._arrays: dict[Buffer, Array] = {}
        self._computed = False
        self._stale = True
        self._lock = threading.Lock()
        self._single = len(cell.program.segments) == 1 and not cell.state_names
        self.answer: Answer | None = None
        """For runs as the last `compute`; None for a program in several segments, with host steps
        or with defaults."""
        self._places: dict[str, Feed] = {}
        self._views: dict[str, Array] = {}
        """While `compute` has nothing but the call to do: where inputs go and outputs stand."""

    # -- feeding and reading ---------------------------------------------------------------
    def __setitem__(self, name: str, value: Any) -> None:
        """Feed an input; InputError, TypeMismatch or ShapeMismatch for what does not fit."""
        feed = self._places.get(name)
        if feed is not None and type(value) is np.ndarray:
            _, target, dtype, shape = feed
            if value.dtype == dtype and value.shape == shape:
                target[...] = value
                return
        self._unsettle()
        name = self.aliases.get(name, name)
        buffer = self._tensors.get(name)
        if buffer is None:
            self._feed_object(name, value)
            return
        array = as_fed(buffer, value)
        if buffer.constant is not None:
            self._changed.add(name)
        self._missing.discard(name)
        self._pending.pop(name, None)
        place = self._arrays.get(buffer) if self._sizes is not None else None
        if place is not None and place.shape == array.shape:
            np.copyto(place, array)
        else:
            self._pending[name] = np.array(array)
            self._stale = True

    def _feed_object(self, name: str, value: Any) -> None:
        buffer = self.program.inputs.get(name)
        if buffer is None:
            hint = did_you_mean(name, self.program.inputs)
            raise InputError(
                f"{self.program.name!r} has no input {name!r}{hint}; "
                f"it has {', '.join(self.program.inputs) or 'none'}"
            )
        self._objects[buffer] = value
        self._missing.discard(name)

    def __getitem__(self, name: str) -> Any:
        """A view of an output or input, valid until the next compute; objects as they are."""
        view = self._views.get(name)
        if view is not None:
            return view
        name = self.aliases.get(name, name)
        buffer = self.program.outputs.get(name)
        if buffer is not None:
            if not self._computed:
                raise ExecutionError(f"output {name!r} has no value before compute()")
            return self._value(buffer)
        buffer = self.program.inputs.get(name)
        if buffer is None:
            known = [*self.program.inputs, *self.program.outputs]
            raise InputError(
                f"{self.program.name!r} has no input or output {name!r}{did_you_mean(name, known)}"
            )
        if name in self._pending:
            return self._pending[name]
        if self._sizes is None and buffer.role is Role.INPUT:
            self._prepare()
        return self._value(buffer)

    def clear(self) -> None:
        """Forget what was fed: the next compute needs all inputs anew, defaults hold again."""
        self._unsettle()
        self._missing = set(self._required)
        self._pending = {}
        self._computed = False
        for name in self._changed:
            self._pending[name] = self.program.inputs[name].value
            self._stale = True
        self._changed = set()
        if self._objects:
            self._objects = {}
        self._defined = {}

    # -- running ---------------------------------------------------------------------------
    def compute(self) -> None:
        """Run the program on what was fed.

        Raises InputError when an input is missing, ShapeMismatch when sizes contradict each
        other, ExecutionError, with the node and the user's line, when a step fails.
        """
        if not self._lock.acquire(blocking=False):
            raise ExecutionError(BUSY)
        try:
            if self._missing:
                self._refuse_missing()
            self._computed = False
            if self._stale:
                self._prepare()
                self._get_answer()
            if self._single:
                bound = self._bound[0]
                assert bound is not None
                if bound.plan.has_host:
                    self._call(bound)
                else:
                    status = bound.call()
                    if status:
                        fail(bound, status)
            else:
                self._run_segments()
            self._computed = True
            if self.answer is not None:
                self._settle()
        finally:
            self._lock.release()

    def _settle(self) -> None:
        """From now on, until an input of another kind comes, `compute` is the call alone."""
        bound = self._bound[0]
        assert bound is not None
        places = {n: self._array(b) for n, b in self._tensors.items()}
        self._places = {n: Feed(n, p, p.dtype, p.shape) for n, p in places.items()}
        self._views = {**places, **{n: self._array(b) for n, b in self.program.outputs.items()}}
        for alias, name in self.aliases.items():
            if name in self._places:
                self._places[alias] = self._places[name]
            if name in self._views:
                self._views[alias] = self._views[name]
        self.compute = computing(  # type: ignore[method-assign]
            self._lock, bound.call, partial(self._failed, bound)
        )

    def _unsettle(self) -> None:
        if self._places or self._views:
            self._places, self._views = {}, {}
            self.__dict__.pop("compute", None)

    def _failed(self, bound: Bound, status: int) -> None:
        self._unsettle()
        self._computed = False
        fail(bound, status)

    def _get_answer(self) -> None:
        """Remember the places of the run that has just been prepared, if it is a plain one."""
        program = self.program
        bound = self._bound[0]
        if bound is None or bound.plan.has_host or not self._single:
            return
        tensors = len(self._tensors) == len(program.inputs) == len(self._required)
        if tensors and all(b.is_tensor for b in program.outputs.values()):
            places = [(n, self._array(b)) for n, b in self._tensors.items()]
            feeds = [Feed(n, p, p.dtype, p.shape) for n, p in places]
            results = [(n, self._array(b)) for n, b in program.outputs.items()]
            self.answer = answering(feeds, bound.call, partial(fail, bound), results)

    def _refuse_missing(self) -> None:
        name = min(self._missing)
        buffer = self.program.inputs[name]
        raise InputError(f"input {name!r} ({buffer.type}) of {self.program.name!r} was not fed")

    def _prepare(self) -> None:
        """Plan for the sizes of what was fed, and put it into its place."""
        cell = self.cell
        shapes: dict[str, tuple[int, ...]] = {}
        for name, buffer in self._tensors.items():
            if name in self._pending:
                shapes[name] = self._pending[name].shape
            elif buffer.constant is not None:
                shapes[name] = buffer.constant.shape
            elif self._sizes is not None:
                shapes[name] = self._sizes.shape(buffer)
            elif buffer.tensor.is_static:
                shapes[name] = tuple(d for d in buffer.tensor.shape or () if isinstance(d, int))
        sizes = bind_sizes(self.program, shapes, cell.workers, self._given)
        unranked = tuple(shapes.get(n) for n, b in self._tensors.items() if b.tensor.shape is None)
        old = self._sizes
        if old is None or old.key != sizes.key or unranked != self._extra or not self._bound[0]:
            plan = cell.plan(0, sizes, (), unranked)
            kept = {
                n: np.array(self._array(b))
                for n, b in self._tensors.items()
                if old and n not in self._pending
            }
            defaults = {
                n: b.value for n, b in self._tensors.items() if b.constant is not None and not old
            }
            self._pending = {**defaults, **kept, **self._pending}
            self._sizes, self._now, self._extra = sizes, sizes, unranked
            self._bind(0, plan)
        for name, array in self._pending.items():
            np.copyto(self._array(self.program.inputs[name]), array)
        self._pending = {}
        for buffer in self._tensors.values():
            self._array(buffer)
        self._stale = False

    def _bind(self, index: int, plan: Plan) -> Bound:
        """Give a plan memory and tables of this instance's own."""
        block = self._blocks[index]
        if block is None or block.size < plan.nbytes:
            try:
                block = self._blocks[index] = aligned_bytes(plan.nbytes)
            except MemoryError:
                raise ExecutionError(
                    f"a run of {self.program.name!r} at these sizes needs "
                    f"{plan.nbytes / 2**30:,.1f} GiB of memory, which cannot be had"
                ) from None
            # Later segments point into this block.
            self._bound[index:] = [None] * (len(self._bound) - index)
        words = aligned_words(len(plan.words))
        words[:] = plan.words
        for segment, positions in plan.relocations.items():
            base = self._blocks[segment]
            assert base is not None
            words[positions] += base.ctypes.data
        rows = self.cell.table(plan)
        rows[:, 1] += words.ctypes.data
        frame = int(block.ctypes.data)
        times = aligned_words(max(len(rows), 1)) if self.cell.options.profile else None
        call = self.cell.run(
            frame, int(rows.ctypes.data), len(rows), 0 if times is None else times.ctypes.data
        )
        made = Bound(plan, frame, call, rows, (block, words), times)
        self._bound[index] = made
        self._arrays = {}
        self.answer = None
        self._unsettle()
        return made

    def _run_segments(self) -> None:
        """Run segment after segment, planning each when the sizes it needs are known."""
        assert self._sizes is not None
        self._now = self._sizes
        self._start_state()
        plans: list[Plan] = []
        extra = self._extra
        for index, segment in enumerate(self.program.segments):
            bound = self._bound[index]
            if index:
                read = {b: self._read(b) for b in segment.reads}
                if read:
                    extra = (*extra, *((a.shape, a.tobytes()) for a in read.values()))
                plan = self.cell.plan(index, self._now, plans, extra, read)
                if read:
                    self._now = plan.sizes
                if bound is None or bound.plan is not plan:
                    bound = self._bind(index, plan)
                for buffer, array in self._defined.items():
                    if buffer in plan.places:
                        np.copyto(self._array(buffer), array)
            assert bound is not None
            plans.append(bound.plan)
            self._call(bound)
            if segment.defines:
                self._now = self._now.copy()
                for buffer in segment.defines:
                    shape = self._defined[buffer].shape
                    self._now.bind(buffer, shape)
                    extra = (*extra, shape) if buffer.tensor.shape is None else extra
        self._save_state()

    def _call(self, bound: Bound) -> None:
        """Run the rows of one segment; a raised error names the step."""
        if not bound.plan.has_host:
            status = bound.call()
        else:
            enter(bound.frame, self)
            try:
                status = bound.call()
            finally:
                leave(bound.frame)
        if status:
            fail(bound, status)

    # -- values ----------------------------------------------------------------------------
    def _value(self, buffer: Buffer) -> Any:
        """What a buffer holds: an array, or the object beside the arena."""
        if buffer.role is not Role.HOST:
            return self._array(buffer)
        if buffer in self._objects:
            return self._objects[buffer]
        if buffer.constant is None:
            raise InputError(f"{buffer.name!r} has no value yet")
        return buffer.value

    def _read(self, buffer: Buffer) -> Array:
        """A copy of the value; one of a step that told its shape has no memory before its plan."""
        found = self._defined.get(buffer)
        return np.array(self._array(buffer) if found is None else found)

    def _array(self, buffer: Buffer) -> Array:
        """A view of the memory of a tensor; for one in blocks, of its inner pixels there."""
        found = self._arrays.get(buffer)
        if found is None:
            found = self._arrays[buffer] = self._view(buffer)
        return found

    def _view(self, buffer: Buffer) -> Array:
        whole = owner(buffer)
        sizes = self._now
        if whole.role is Role.CONSTANT:
            return whole.value.reshape(sizes.shape(buffer))
        home = self._home(whole)
        if home is None:
            assert buffer.known is not None, f"{buffer.name} has no memory"
            return sizes.value(buffer)
        block, offset = home
        shape = sizes.shape(buffer)
        strides = None
        if buffer.layout.block:
            strides = sizes.strides(buffer)
            memory = sizes.memory_shape(buffer)
            shape = (*memory[:2], *shape[2:], memory[-1])
            offset += sizes.origin(buffer)
        offset += sizes.offset(buffer)
        if 0 in shape:
            return np.empty(shape, buffer.dtype.numpy)
        return np.ndarray(shape, buffer.dtype.numpy, block.data, offset, strides)

    def _home(self, whole: Buffer) -> tuple[Array, int] | None:
        for block, bound in zip(self._blocks, self._bound, strict=True):
            if bound is not None and block is not None and whole in bound.plan.places:
                return block, bound.plan.places[whole]
        return None

    def host_step(self, number: int) -> None:
        """Carry out a step in Python; called from the running table."""
        step = self.program.steps[number]
        kernel = step.kernel
        assert isinstance(kernel, HostKernel)
        lasting = any(b.role is Role.HOST for b in step.outputs)
        values: list[Any] = []
        for buffer in (*step.inputs, *step.captures):
            value = None if buffer is None else self._value(buffer)
            # An object that outlives the step must not hold memory that others will use.
            values.append(np.array(value) if lasting and isinstance(value, np.ndarray) else value)
        results = kernel.compute(step, values)
        if len(results) < len(step.outputs):
            raise ExecutionError(f"it gave {len(results)} of {len(step.outputs)} outputs")
        defines = self.program.segments[self._segment_of(step)].defines
        for buffer, result in zip(step.outputs, results, strict=False):
            self._put(buffer, result, buffer in defines)

    def _segment_of(self, step: Step) -> int:
        low = 0
        for index, segment in enumerate(self.program.segments):
            low += len(segment.steps)
            if step.number < low:
                return index
        raise AssertionError("a step of another program")

    def _put(self, buffer: Buffer, result: Any, defines: bool) -> None:
        if buffer.role is Role.HOST:
            self._objects[buffer] = result
            return
        array = np.asarray(result)
        wanted = buffer.dtype.numpy
        if array.dtype != wanted:
            raise ExecutionError(f"{buffer.name} is {buffer.type}, it came as {array.dtype}")
        if defines:
            self._defined[buffer] = np.array(array)
            return
        place = self._array(buffer)
        if place.shape != array.shape:
            raise ExecutionError(
                f"{buffer.name} is {buffer.type}, here {place.shape}, it came as {array.shape}"
            )
        np.copyto(place, array)

    # -- state -----------------------------------------------------------------------------
    def _start_state(self) -> None:
        """Inputs that the cell has a current value of begin with it, unless fed."""
        for name, value in self.cell.start_state().items():
            if name not in self._changed:
                np.copyto(self._array(self.program.inputs[name]), value)

    def _save_state(self) -> None:
        updates = self.program.updates
        if updates:
            values = {n: np.array(self._array(b)) for n, b in updates.items()}
            self.cell.save_state(values)
            self._changed -= values.keys()

    # -- reports ---------------------------------------------------------------------------
    @property
    def bound(self) -> list[Bound]:
        """The plans of the last run as they lie in this instance's memory, for measurements."""
        return [bound for bound in self._bound if bound is not None]

    @property
    def sizes(self) -> Sizes:
        """The sizes of the last run, those that it has found itself among them."""
        return self._now

    def profile(self) -> list[RowTime]:
        """What each row took in all runs so far; empty unless compiled with profile=True."""
        return row_times(self.bound)

    def __reduce__(self) -> str:
        raise TypeError("an instance is a run's memory and code: it is never pickled")
