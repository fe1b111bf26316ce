"""Control flow: operators whose bodies are graphs. `control_functions` applies them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from neuralsym.core.body import common_type, refitted
from neuralsym.core.check import agree
from neuralsym.core.graph import Graph
from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import OptionalType, SequenceType, Size, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import BadAttribute, TypeMismatch
from neuralsym.ops.base import Control

_HEAD: tuple[Type, ...] = (TensorType(NumberType.INT64, ()), TensorType(NumberType.BOOL, ()))
"""What the body of a loop takes first: the number of the trip, and whether it goes on."""


class If(Control):
    """The results of one of two bodies, as a condition says."""

    @classmethod
    def refit(cls, call: Call) -> Mapping[str, Any]:
        return {name: refitted(body, (), call.captures) for name, body in call.attrs.items()}

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        check_flag(call, 0)
        then, other = _body(call, "then_branch", []), _body(call, "else_branch", [])
        if len(then.outputs) != len(other.outputs):
            call.fail(
                f"then gives {len(then.outputs)} results, else {len(other.outputs)}", BadAttribute
            )
        made: list[Type] = []
        for i, (a, b) in enumerate(zip(then.outputs, other.outputs, strict=True)):
            both = common_type(a.type, b.type)
            if both is None:
                call.fail(f"result {i} is {a.type} of then and {b.type} of else", TypeMismatch)
            made.append(both)
        return made


class Loop(Control):
    """A body repeated a number of times, or while a condition holds, or both.

    The body takes the trip's number, the condition and the states; it gives the condition, the
    states, and items that are stacked trip by trip.
    """

    @classmethod
    def refit(cls, call: Call) -> Mapping[str, Any]:
        states = [_given(call, i).type for i in range(2, len(call.inputs))]
        carried = slice(2, 2 + len(states))
        body = refitted(call.attrs["body"], [*_HEAD, *states], call.captures, carried, 1)
        return {**call.attrs, "body": body}

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        if call.has(0):
            check_number(call, 0)
        if call.has(1):
            check_flag(call, 1)
        states = [_given(call, i).type for i in range(2, len(call.inputs))]
        body = _body(call, "body", [*_HEAD, *states])
        if len(body.outputs) < 1 + len(states):
            call.fail(
                f"its body gives {len(body.outputs)} results: a condition and {len(states)} "
                "states are needed",
                BadAttribute,
            )
        made = _carried(call, states, body.outputs[1 : 1 + len(states)])
        trips = _trips(call, body)
        for symbol in body.outputs[1 + len(states) :]:
            made.append(_stacked(call, symbol, trips, 0))
        return made


class Scan(Control):
    """A body along the slices of its inputs, carrying states and stacking items."""

    @classmethod
    def check(cls, call: Call) -> None:
        scanned = call.attrs["num_scan_inputs"]
        if not 1 <= scanned <= len(call.inputs):
            call.fail(
                f"num_scan_inputs={scanned} is not 1 to the number of inputs, {len(call.inputs)}",
                BadAttribute,
            )

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        states, slices, length = cls._parameters(call)
        count = len(states)
        body = _body(call, "body", [*states, *slices])
        if len(body.outputs) < count:
            call.fail(
                f"its body gives {len(body.outputs)} results: {count} states are needed",
                BadAttribute,
            )
        made = _carried(call, states, body.outputs[:count], steady_type)
        items = body.outputs[count:]
        _several(call, "scan_output_directions", len(items))
        for symbol, axis in zip(items, _several(call, "scan_output_axes", len(items)), strict=True):
            made.append(_stacked(call, symbol, length, axis))
        return made

    @classmethod
    def _parameters(cls, call: Call) -> tuple[list[Type], list[Type], Size]:
        """The types of the states and of the slices, and the length of what is gone along."""
        scanned = call.attrs["num_scan_inputs"]
        count = len(call.inputs) - scanned
        axes = _several(call, "scan_input_axes", scanned)
        _several(call, "scan_input_directions", scanned)
        slices: list[Type] = []
        length: Size = None
        for i, axis in enumerate(axes, count):
            slice_, size = _slice(call, i, axis)
            slices.append(slice_)
            if isinstance(length, int) and isinstance(size, int) and length != size:
                call.fail(f"its scanned inputs have lengths {length} and {size}")
            length = size if length is None or isinstance(size, int) else length
        return [_given(call, i).type for i in range(count)], slices, length

    @classmethod
    def refit(cls, call: Call) -> Mapping[str, Any]:
        states, slices, _ = cls._parameters(call)
        carried = slice(0, len(states))
        given = [*states, *slices]
        body = refitted(call.attrs["body"], given, call.captures, carried, join=_begun)
        return {**call.attrs, "body": body}


class SequenceMap(Control):
    """A body on each element of a sequence, its results collected in sequences."""

    @classmethod
    def refit(cls, call: Call) -> Mapping[str, Any]:
        elements = [element(_given(call, i)) for i in range(len(call.inputs))]
        return {**call.attrs, "body": refitted(call.attrs["body"], elements, call.captures)}

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        if not isinstance(_given(call, 0).type, SequenceType):
            call.fail(f"its first input is {_given(call, 0).type}, not a sequence", TypeMismatch)
        body = _body(call, "body", [element(_given(call, i)) for i in range(len(call.inputs))])
        for symbol in body.outputs:
            if not isinstance(symbol.type, TensorType):
                call.fail(f"its body gives {symbol.type}, not tensors", TypeMismatch)
        return [SequenceType(symbol.type) for symbol in body.outputs]


# -- what their rules share ---------------------------------------------------------------------
def check_flag(call: Call, index: int) -> None:
    """Input `index` is one bool."""
    if call.dtype(index) is not NumberType.BOOL or not _is_one(call, index):
        call.fail(f"its condition is {call.type(index)}, not one bool", TypeMismatch)


def check_number(call: Call, index: int) -> None:
    """Input `index` is one integer."""
    if call.dtype(index) is not NumberType.INT64 or not _is_one(call, index):
        call.fail(f"its trip count is {call.type(index)}, not one int64", TypeMismatch)


def _is_one(call: Call, index: int) -> bool:
    return all(not isinstance(d, int) or d == 1 for d in call.shape(index) or ())


def _given(call: Call, index: int) -> Symbol:
    if not call.has(index):
        call.fail(f"its input {index} is missing", BadAttribute)
    return call.input(index)


def _body(call: Call, name: str, types: Sequence[Type]) -> Graph:
    """A body whose parameters fit what it is given, the captures last."""
    body = call.attrs[name]
    if not isinstance(body, Graph):
        call.fail(f"{name} is {body!r}, not a Graph: use ops.{call.op.function}", TypeMismatch)
    given = [*types, *(s.type for s in call.captures)]
    if len(body.inputs) != len(given):
        call.fail(
            f"{name} takes {len(body.inputs)} parameters, {len(given)} are given: "
            f"({', '.join(map(str, given))})",
            BadAttribute,
        )
    for parameter, type_ in zip(body.inputs, given, strict=True):
        if not agree(parameter.type, type_) and not _one_of_one(parameter.type, type_):
            call.fail(f"{name} takes {parameter.type} where {type_} is given", TypeMismatch)
    return body


def _one_of_one(a: Type, b: Type) -> bool:
    """Files write one number as float[] or float[1], whichever they like."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType) or a.dtype is not b.dtype:
        return False
    return all(t.shape is not None and t.shape in ((), (1,)) for t in (a, b))


def _carried(
    call: Call,
    states: Sequence[Type],
    results: Sequence[Symbol],
    join: Callable[[Type, Type], Type | None] = common_type,
) -> list[Type]:
    made: list[Type] = []
    for i, (type_, symbol) in enumerate(zip(states, results, strict=True)):
        both = join(type_, symbol.type)
        if isinstance(type_, OptionalType) and not isinstance(symbol.type, OptionalType):
            both = symbol.type  # ONNX has the result as the body gives it
        if both is None:
            call.fail(f"state {i} begins as {type_} and becomes {symbol.type}", TypeMismatch)
        made.append(both)
    return made


def steady_type(begins: Type, becomes: Type) -> Type | None:
    """The type of a state of Scan, which ONNX wants to keep its shape: what either type tells.

    Sizes that contradict each other are unknown.
    """
    if not isinstance(begins, TensorType) or not isinstance(becomes, TensorType):
        return common_type(begins, becomes)
    if begins.dtype is not becomes.dtype:
        return None
    if begins.shape is None or becomes.shape is None:
        return begins if becomes.shape is None else becomes
    if len(begins.shape) != len(becomes.shape):
        return TensorType(begins.dtype)
    return TensorType(begins.dtype, tuple(map(_steady_size, begins.shape, becomes.shape)))


def _steady_size(a: Size, b: Size) -> Size:
    if isinstance(a, int) and isinstance(b, int):
        return a if a == b else None
    return b if a is None or isinstance(b, int) else a


def _begun(begins: Type, becomes: Type) -> Type | None:
    """The type that a state has inside the body: as it begins, but for what is contradicted."""
    both = steady_type(begins, becomes)
    if not isinstance(begins, TensorType) or not isinstance(both, TensorType):
        return both
    if begins.shape is None or both.shape is None:
        return TensorType(begins.dtype)
    sizes = zip(begins.shape, both.shape, strict=True)
    return TensorType(begins.dtype, tuple(None if b is None else a for a, b in sizes))


def _stacked(call: Call, symbol: Symbol, length: Size, axis: int) -> TensorType:
    if not isinstance(symbol.type, TensorType):
        call.fail(f"its body gives an item of {symbol.type}, which does not stack", TypeMismatch)
    shape = symbol.type.shape
    if shape is None:
        return TensorType(symbol.type.dtype)
    rank = len(shape) + 1
    if not -rank <= axis < rank:
        call.fail(f"an item of {symbol.type} has no new axis {axis}", BadAttribute)
    axis %= rank
    return TensorType(symbol.type.dtype, (*shape[:axis], length, *shape[axis:]))


def _slice(call: Call, index: int, axis: int) -> tuple[TensorType, Size]:
    """The type of a slice of an input, and the input's length."""
    dtype, shape = call.dtype(index), call.shape(index)
    if shape is None:
        return TensorType(dtype), None
    if not -len(shape) <= axis < len(shape):
        call.fail(f"{call.type(index)} has no axis {axis} to go along", BadAttribute)
    axis %= len(shape)
    return TensorType(dtype, shape[:axis] + shape[axis + 1 :]), shape[axis]


def _several(call: Call, name: str, count: int) -> tuple[int, ...]:
    value = call.attr(name)
    if not value:
        return (0,) * count
    if len(value) != count:
        call.fail(f"{name} has {len(value)} entries, {count} are needed", BadAttribute)
    return tuple(value)


def element(symbol: Symbol) -> Type:
    """The type of an element of a sequence; any other is given whole."""
    return symbol.type.element if isinstance(symbol.type, SequenceType) else symbol.type


def _trips(call: Call, body: Graph) -> Size:
    """How often a loop runs, where that is known: no condition can end it before."""
    limit = call.known(0)
    if limit is None or limit.size != 1:
        return None
    begin = call.known(1) if call.has(1) else np.array(True)
    ongoing = body.outputs[0]
    while ongoing.node.op_type == "Identity":
        inner = ongoing.node.inputs[0]
        assert inner is not None
        ongoing = inner
    always = ongoing.known is not None and bool(np.all(ongoing.known))
    if begin is None or not np.all(begin) or not (always or ongoing is body.inputs[1]):
        return None
    trips: Any = limit.reshape(-1)[0]
    return max(int(trips), 0) if isinstance(trips, (int, np.integer)) else trips
