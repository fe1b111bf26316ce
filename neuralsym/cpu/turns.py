"""Batches in turns: neighbouring steps run for one entry of the batch after the other.

What one entry's activations leave in the cache, the next step finds there; a step over the whole
batch would stream them from memory, but reads its weights once. Which steps take turns is decided
for each plan from the bytes of both. Results are the same bits: each entry is computed as a batch
of one is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from neuralsym.core.dim import Dim
from neuralsym.core.types import TensorType
from neuralsym.cpu.program import Buffer, Program, Role, Sizes, Step, owner

PRICES = ((1 << 20, 0.0), (1 << 24, 1.0), (1 << 62, 3.0))
"""By size: what stays near a core costs nothing more, the last cache less than memory."""
WEIGHTS = 0.4
"""What a byte of weights counts beside one of activations: weights are fetched ahead."""
OVERHEAD = 1 << 13
"""What a further turn of a step costs beside its work, as bytes that could be moved instead."""


@dataclass(frozen=True)
class Turns:
    """Which steps of a segment run once for each entry.

    count: entries of the batch. sizes: those of one entry. regions: ranges [first, last] of steps
    that take turns together. shared: owners of memory that others than the steps of one region
    read or write: these hold the whole batch, all other buffers of a region one entry.
    """

    count: int
    sizes: Sizes
    regions: tuple[tuple[int, int], ...]
    shared: frozenset[Buffer]

    def of_step(self, time: int, whole: Sizes) -> Sizes:
        """The sizes that a step works with: one entry's within a region."""
        inside = any(low <= time <= high for low, high in self.regions)
        return self.sizes if inside else whole

    def single(self, steps: Sequence[Step]) -> set[Buffer]:
        """The owners of memory for one entry."""
        found = {
            owner(b)
            for low, high in self.regions
            for step in steps[low : high + 1]
            for b in (*step.operands, *step.outputs)
        }
        return {b for b in found if b not in self.shared and not b.is_settled}


def find_turns(program: Program, index: int, sizes: Sizes) -> Turns | None:
    """The turns of a segment at these sizes; None where whole batches are as good or needed."""
    name = _batch_name(program)
    segment = program.segments[index]
    if name is None or len(program.segments) > 1 or segment.defines or program.updates:
        return None
    count = sizes.names.get(name, 1)
    if count < 2:
        return None
    steps = segment.steps
    one = Sizes({**sizes.names, name: 1}, sizes.workers)
    apart = [_is_apart(step, name) for step in steps]
    if sum(apart) < 2:
        return None
    work = [_Work.of(s, one) if a else None for s, a in zip(steps, apart, strict=True)]
    chosen = _chosen(work, _passed(steps, one, count), count)
    regions = _ranges(chosen)
    if not regions:
        return None
    return Turns(count, one, regions, frozenset(_shared(program, steps, regions)))


def _batch_name(program: Program) -> str | None:
    """The name that the first axis of every input and output has."""
    names: set[str] = set()
    fed = [b for b in program.inputs.values() if b.role is Role.INPUT]
    for buffer in (*fed, *program.outputs.values()):
        shape = buffer.type.shape if isinstance(buffer.type, TensorType) else None
        if not shape or not isinstance(shape[0], Dim) or not shape[0].is_name:
            return None
        names.add(shape[0].text)
    return names.pop() if len(names) == 1 else None


def _is_apart(step: Step, name: str) -> bool:
    """Whether each entry of the batch is computed from the same entry of the operands alone."""
    if step.kernel is None or step.captures:
        return False
    moving = [b for b in step.operands if b.role is not Role.CONSTANT]
    return all(_leads(b, name) for b in (*moving, *step.outputs)) and step.kernel.is_apart(step)


def _leads(buffer: Buffer, name: str) -> bool:
    """Whether the batch is the first axis of a tensor, and appears in no other."""
    shape = buffer.type.shape if isinstance(buffer.type, TensorType) else None
    if not shape or not buffer.is_tensor or buffer.known is not None:
        return False
    first, *rest = shape
    named = isinstance(first, Dim) and first.is_name and first.text == name
    return named and not any(isinstance(d, Dim) and name in d.names for d in rest)


@dataclass(frozen=True)
class _Work:
    """The bytes of what a step reads and writes for one entry, each apart, and of its weights."""

    read: tuple[int, ...]
    made: int
    weights: int

    @staticmethod
    def of(step: Step, one: Sizes) -> _Work:
        if {owner(b) for b in step.operands} == {owner(b) for b in step.outputs}:
            return _Work((), 0, 0)  # in place: a view, or parts that lie together already
        fixed = [b for b in step.operands if b.role is Role.CONSTANT]
        moving = [b for b in step.operands if b.role is not Role.CONSTANT]
        return _Work(
            tuple(one.nbytes(b) for b in moving),
            sum(one.nbytes(b) for b in step.outputs),
            sum(one.nbytes(b) for b in fixed),
        )

    def cost(self, count: int, turns: bool, far: float) -> float:
        """The time of all entries; far: that of a byte of weights."""
        sizes = (*self.read, self.made)
        if turns:
            moved = sum(size * price(size) for size in sizes)
            return count * (moved + self.weights * far + OVERHEAD)
        return count * sum(size * price(count * size) for size in sizes) + self.weights * far


def price(size: int) -> float:
    """The time to move a byte of something of this size, in that of one from the last cache."""
    return next(cost for limit, cost in PRICES if size <= limit)


def _passed(steps: Sequence[Step], one: Sizes, count: int) -> list[float]:
    """Before each step: the time to move all entries of what is in use then and later."""
    spans: dict[Buffer, list[int]] = {}
    for time, step in enumerate(steps):
        for buffer in (*step.operands, *step.outputs):
            if not buffer.is_settled and buffer.is_tensor:
                spans.setdefault(owner(buffer), [time, time])[1] = time
    changes = [0.0] * (len(steps) + 1)
    for buffer, (first, last) in spans.items():
        size = count * one.nbytes(buffer)
        changes[first + 1] += size * price(size)
        changes[last + 1] -= size * price(size)
    return list(accumulate(changes[:-1]))


def _chosen(steps: Sequence[_Work | None], passed: Sequence[float], count: int) -> list[bool]:
    """For each step whether it takes turns: the least cost of all, with changes between.

    None is a step that needs the whole batch. Where a region ends or begins, what is in use on
    both sides (`passed`) goes through memory.
    """
    far = WEIGHTS * price(sum(s.weights for s in steps if s is not None))
    costs = (0.0, math.inf)  # of the best choice up to here, for whole batches and for turns
    came: list[tuple[int, int]] = []
    for step, change in zip(steps, passed, strict=True):
        whole, turns = costs
        first = min((whole, 0), (turns + change, 1))
        second = min((turns, 1), (whole + change, 0))
        came.append((first[1], second[1]))
        own = (0.0, math.inf)
        if step is not None:
            own = step.cost(count, False, far), step.cost(count, True, far)
        costs = first[0] + own[0], second[0] + own[1]
    state = int(costs[1] < costs[0])
    chosen = []
    for back in reversed(came):
        chosen.append(state == 1)
        state = back[state]
    return chosen[::-1]


def _ranges(chosen: Sequence[bool]) -> tuple[tuple[int, int], ...]:
    """The ranges of several neighbouring steps that take turns."""
    edges = [i for i, (a, b) in enumerate(pairwise([False, *chosen, False])) if a != b]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple((low, past - 1) for low, past in pairs if past - low > 1)


def _shared(
    program: Program, steps: Sequence[Step], regions: Sequence[tuple[int, int]]
) -> set[Buffer]:
    """The owners of memory that a region has in common with what is outside of it."""
    number = [-1 - i for i in range(len(steps))]
    for i, (low, high) in enumerate(regions):
        number[low : high + 1] = [i] * (high + 1 - low)
    home: dict[Buffer, int] = {}
    shared = {owner(b) for b in (*program.inputs.values(), *program.outputs.values())}
    for step, own in zip(steps, number, strict=True):
        for buffer in (*step.operands, *step.outputs):
            whole = owner(buffer)
            if home.setdefault(whole, own) != own or own < 0:
                shared.add(whole)
    return shared
