"""TensorFlow's control flow: While and If with functions as bodies, and lists of tensors in them.

A While whose condition only counts becomes a Loop of known length, any other one goes on while its
condition holds. A list that is read is the tensor that it was made of. One that each trip adds an
element to is what the loop stacks, so that nothing is copied from trip to trip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.engines.flow import Operation, Variable
from neuralsym.engines.flow.helpers import Build, Built
from neuralsym.engines.flow.step import Called, Step

_FORWARD = ("Identity", "StopGradient")


def _source(var: Variable) -> Variable:
    """The variable that it is a copy of."""
    while var.producer is not None and var.producer.type in _FORWARD and var.producer.inputs:
        var = var.producer.inputs[0]
    return var


def _maker(var: Variable, *types: str) -> Operation | None:
    """The operation that makes a variable, if it is of one of these types."""
    op = _source(var).producer
    return op if op is not None and op.type in types else None


def _constant(var: Variable) -> int | None:
    """The whole number that a variable is."""
    array = _source(var).array() if _source(var).data is not None else None
    if array is None or array.size != 1 or array.dtype.kind not in "iu":
        return None
    return int(array.reshape(-1)[0])


@dataclass
class _List:
    """A list of the loop that each trip writes one element of: the variable of the element.

    last: whether they all go to the place 0, so that the last one remains.
    """

    item: Variable
    last: bool


@dataclass
class _Plan:
    """What the variables of a While are, by their places: fixed, counters, lists, or states."""

    body: Called
    fixed: set[int] = field(default_factory=set)
    counters: dict[int, int] = field(default_factory=dict)
    """Those that grow by one in each trip, and where they begin."""
    lists: dict[int, _List] = field(default_factory=dict)


def _plan(step: Step, body: Called) -> _Plan:
    made = _Plan(body)
    for i, (given, result) in enumerate(zip(body.inputs, body.outputs, strict=True)):
        if _source(result) is given:
            made.fixed.add(i)
            continue
        begin = step.inputs[i].known
        grows = _maker(result, "Add", "AddV2")
        if grows is not None and begin is not None and begin.size == 1:
            terms = [_source(v) for v in grows.inputs]
            if given in terms and any(_constant(v) == 1 for v in terms):
                made.counters[i] = int(begin.reshape(-1)[0])
    for i, (given, result) in enumerate(zip(body.inputs, body.outputs, strict=True)):
        write = _maker(result, "TensorListSetItem")
        if write is None or len(write.inputs) < 3 or _source(write.inputs[0]) is not given:
            continue
        place = _source(write.inputs[1])
        counted = any(place is body.inputs[c] and made.counters[c] == 0 for c in made.counters)
        if _only_written(given, write) and (counted or _constant(place) == 0):
            made.lists[i] = _List(write.inputs[2], not counted)
    return made


def _only_written(var: Variable, write: Operation) -> bool:
    """Whether nothing but one operation uses a variable or its copies."""
    waiting = [var]
    for each in waiting:  # it grows while it is gone through
        for op in each.consumers:
            if op.type in _FORWARD:
                waiting += op.outputs
            elif op is not write:
                return False
    return True


def _while(step: Step) -> Built:
    body, cond = step.calls.get("body"), step.calls.get("cond")
    if body is None or cond is None:
        step.wrong("its cond or body is missing")
    count = len(step.inputs)
    if {len(body.inputs), len(body.outputs), len(cond.inputs)} != {count} or not cond.outputs:
        step.wrong("its functions do not take what it is given")
    plan = _plan(step, body)
    trips = _trips(step, plan, cond)
    counted = plan.counters if trips is not None else {}
    states = [i for i in range(count) if not (i in plan.fixed or i in counted or i in plan.lists)]
    listed = sorted(plan.lists)

    def known(states_now: Sequence[Symbol], number: Symbol | None) -> list[Symbol]:
        """The variables of a trip, of which fixed ones and lists are as they began."""
        now = list(step.inputs)
        for i, value in zip(states, states_now, strict=True):
            now[i] = value
        for i, begin in counted.items():
            assert number is not None
            now[i] = ops.cast(ops.add(number, np.int64(begin)), to=str(step.inputs[i].dtype))
        return now

    def goes_on(now: Sequence[Symbol]) -> Symbol:
        return ops.cast(step.call(cond, now, cond.outputs[:1])[0], to="bool")

    def trip(number: Symbol, *states_now: Symbol) -> list[Symbol]:
        wanted = [body.outputs[i] for i in states] + [plan.lists[i].item for i in listed]
        made = step.call(body, known(states_now, number), wanted)
        if trips is not None:
            return made
        after = known(made[: len(states)], None)
        return [goes_on(after), *made]

    begin = [step.inputs[i] for i in states]
    results: list[Symbol] = []
    if states or listed:
        going = None if trips is not None else goes_on(step.inputs)
        found = ops.loop(trips, going, trip, *begin)
        results = list(found) if isinstance(found, (tuple, list)) else [found]
    made = list(step.inputs)
    for i, symbol in zip([*states, *listed], results, strict=True):
        made[i] = symbol
    for i in listed:
        made[i] = _filled(step, i, made[i], plan.lists[i], trips)
    for i, first in counted.items():
        assert trips is not None
        kind = str(step.inputs[i].dtype)
        made[i] = ops.cast(ops.add(ops.max([trips, np.int64(0)]), np.int64(first)), to=kind)
    return [ops.identity(s) if s in step.inputs else s for s in made]


def _filled(step: Step, place: int, items: Symbol, written: _List, trips: Symbol | None) -> Symbol:
    """A list after the loop: its elements, and zeros where none was written."""
    if written.last:
        return ops.slice(items, np.array([-1]), np.array([np.iinfo(np.int64).max]), np.array([0]))
    reserve = _maker(step.op.inputs[place], "TensorListReserve")
    if reserve is None:
        step.wrong(f"list {place} is written to, and was not made by TensorListReserve")
    size = ops.cast(ops.gather(ops.shape(step.inputs[place]), np.int64(0), axis=0), to="int64")
    if trips is not None and _alike(size, trips):
        return items
    if items.rank is None:
        step.wrong(f"the rank of the elements of list {place} is not known")
    stacked = ops.gather(ops.shape(items), np.int64(0), axis=0)
    missing = ops.max([ops.sub(size, stacked), np.int64(0)])
    around = np.zeros(items.rank, np.int64), np.zeros(items.rank - 1, np.int64)
    ends = ops.concat([around[0], ops.reshape(missing, np.array([1])), around[1]], axis=0)
    return ops.pad(items, ends)


def _alike(a: Symbol, b: Symbol) -> bool:
    """Whether two sizes are the same, as far as is known while building."""
    if a is b:
        return True
    if a.known is None or b.known is None:
        return False
    return bool(np.all(a.known.reshape(-1) == b.known.reshape(-1)))


def _trips(step: Step, plan: _Plan, cond: Called) -> Symbol | None:
    """How often the body is done, where the condition only compares counters with limits."""
    limits: list[Symbol] = []
    waiting = [cond.outputs[0]]
    for var in waiting:  # it grows while it is gone through
        both = _maker(var, "LogicalAnd")
        if both is not None:
            waiting += both.inputs
            continue
        less = _maker(var, "Less", "LessEqual")
        if less is None or len(less.inputs) != 2:
            return None
        counter, limit = map(_source, less.inputs)
        place = cond.inputs.index(counter) if counter in cond.inputs else -1
        if place not in plan.counters:
            return None
        begin = plan.counters[place] - (less.type == "LessEqual")
        if limit in cond.inputs:
            place = cond.inputs.index(limit)
            if place not in plan.fixed:
                return None
            found = step.inputs[place]
        elif limit.data is not None:
            found = step.call(cond, step.inputs, [limit])[0]
        else:
            return None
        if not found.dtype.is_integer:
            return None
        found = ops.cast(ops.reshape(found, np.zeros(0, np.int64)), to="int64")
        limits.append(ops.sub(found, np.int64(begin)) if begin else found)
    numbers = [int(s.known) for s in limits if s.known is not None and s.known.dtype.kind in "iu"]
    others = [s for s in limits if s.known is None or s.known.dtype.kind not in "iu"]
    if numbers and (not others or min(numbers) < np.iinfo(np.int32).max):
        others.append(ops.constant(np.int64(min(numbers))))
    return others[0] if len(others) == 1 else ops.min(others)


def _if(step: Step) -> Built:
    then, other = step.calls.get("then_branch"), step.calls.get("else_branch")
    if then is None or other is None:
        step.wrong("a branch is missing")
    condition, *given = step.inputs
    results = ops.if_(
        ops.cast(ops.reshape(condition, np.zeros(0, np.int64)), to="bool"),
        lambda: _results(step, then, given),
        lambda: _results(step, other, given),
    )
    return results if isinstance(results, Symbol) else list(results)


def _results(step: Step, called: Called, given: Sequence[Symbol]) -> list[Symbol]:
    if len(called.inputs) != len(given):
        step.wrong(f"function {called.func.name!r} takes {len(called.inputs)} values")
    return step.call(called, given, called.outputs)


def _call(step: Step) -> Built:
    if "f" not in step.calls:
        step.wrong("the function that it calls is missing")
    return [
        ops.identity(s) if s in step.inputs else s
        for s in _results(step, step.calls["f"], step.inputs)
    ]


# -- lists ---------------------------------------------------------------------------------------
def _list_of(step: Step) -> Built:
    return ops.identity(step.inputs[0])


def _reserve(step: Step) -> Built:
    """A list of zeros; where the shape of its elements is not known, only their number."""
    shape, count = step.take(2)
    number = ops.reshape(ops.cast(count, to="int64"), np.array([1]))
    kind = step.op.attr("element_dtype", "float32")
    if shape.known is not None and shape.rank == 1 and all(d >= 0 for d in step.known(0, "shape")):
        number = ops.concat([number, ops.cast(shape, to="int64")], axis=0)
    return ops.expand(ops.constant(0, kind), number)


def _get_item(step: Step) -> Built:
    items, place, *_ = step.take(2, 3)
    return ops.gather(items, place, axis=0)


def _set_item(step: Step) -> Built:
    items, place, item = step.take(3)
    if items.rank is None or item.rank is None or items.rank != item.rank + 1:
        step.wrong("it writes to a list whose elements have no fixed shape, outside of a loop")
    at = ops.reshape(ops.cast(place, to="int64"), np.array([1, 1]))
    return ops.scatter_nd(items, at, ops.unsqueeze(item, np.array([0])))


def _length(step: Step) -> Built:
    return ops.cast(ops.gather(ops.shape(step.inputs[0]), np.int64(0), axis=0), to="int32")


LOOPS: dict[str, Build] = {
    "While": _while,
    "StatelessWhile": _while,
    "If": _if,
    "StatelessIf": _if,
    "PartitionedCall": _call,
    "StatefulPartitionedCall": _call,
    "TensorListFromTensor": _list_of,
    "TensorListStack": _list_of,
    "TensorListReserve": _reserve,
    "TensorListGetItem": _get_item,
    "TensorListSetItem": _set_item,
    "TensorListLength": _length,
}
"""Control flow and lists by their type."""
