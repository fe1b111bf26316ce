"""Sequences of tensors and optional values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from neuralsym.core.body import common_type
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node
from neuralsym.core.types import OptionalType, SequenceType, Size, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import ExecutionError, TypeMismatch, at_line
from neuralsym.ops.base import SequenceOp, bad, check_axis, check_choice
from neuralsym.ops.generator import dtype_attribute

_INDEX = TensorType(NumberType.INT64, ())


def _element(call: Call, index: int = 0) -> TensorType:
    """The type of the elements of a sequence."""
    type_ = call.input(index).type
    if not isinstance(type_, SequenceType) or not isinstance(type_.element, TensorType):
        call.fail(f"a sequence of tensors is needed, not {type_}", TypeMismatch)
    return type_.element


def _common(call: Call, types: list[TensorType]) -> Type:
    """The type that covers all: sizes that differ become unknown."""
    found: Type = types[0]
    for other in types[1:]:
        both = common_type(found, other)
        if both is None:
            call.fail(f"a sequence of {types[0].dtype} takes no {other.dtype}", TypeMismatch)
        found = both
    return found


class SequenceEmpty(SequenceOp):
    """A sequence without elements."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [SequenceType(TensorType(dtype_attribute(call) or NumberType.FLOAT32))]


class SequenceConstruct(SequenceOp):
    """The sequence of the tensors given."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [SequenceType(_common(call, [call.type(i) for i in range(len(call.inputs))]))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        return [list(values)]


class SequenceAt(SequenceOp):
    """The element at a position; negative ones count from the end."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [_element(call)]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        elements, position = values
        return [elements[_place(node, position, len(elements) - 1, len(elements))]]


class SequenceInsert(SequenceOp):
    """The sequence with a tensor inserted, at its end unless a position is given."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        element, tensor = _element(call), call.type(1)
        both = _common(call, [element, tensor])
        empty = call.input(0).node.op is SequenceEmpty
        return [SequenceType(tensor if empty else both)]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        elements, tensor, *given = values
        position = given[0] if given else None
        count = len(elements)
        at = count if position is None else _place(node, position, count, count)
        return [[*elements[:at], tensor, *elements[at:]]]


class SequenceErase(SequenceOp):
    """The sequence without one element, the last unless a position is given."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [SequenceType(_element(call))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        elements, *given = values
        position = -1 if not given or given[0] is None else given[0]
        at = _place(node, position, len(elements) - 1, len(elements))
        return [[*elements[:at], *elements[at + 1 :]]]


class SequenceLength(SequenceOp):
    """The number of elements, as an int64 scalar."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [_INDEX]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        return [np.array(len(values[0]), np.int64)]


class SplitToSequence(SequenceOp):
    """A tensor cut along an axis into a sequence of pieces."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "keepdims", (0, 1))
        check_axis(call, call.attr("axis"), call.type(0).rank)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        x = call.type(0)
        if x.shape is None:
            return [SequenceType(x)]
        axis = call.attr("axis") % len(x.shape)
        piece: Size = None if call.has(1) else 1
        known = call.known(1)
        if known is not None and known.dtype != object:
            sizes = known.reshape(-1).tolist()
            if any(s < 0 for s in sizes) or (known.ndim == 0 and sizes[0] < 1):
                call.fail(f"split={sizes} has pieces that are no pieces", bad)
            whole = x.shape[axis]
            if known.ndim == 0:
                even = isinstance(whole, int) and whole % sizes[0] == 0
                piece = sizes[0] if even else None
            else:
                piece = sizes[0] if len(set(sizes)) == 1 else None
                if isinstance(whole, int) and sum(sizes) != whole:
                    call.fail(f"split={sizes} does not sum to the {whole} of axis {axis}", bad)
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        dropped = not call.has(1) and not call.attr("keepdims")
        shape = (*before, *after) if dropped else (*before, piece, *after)
        return [SequenceType(TensorType(x.dtype, shape))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        x, axis = values[0], node.attr("axis")
        whole = x.shape[axis]
        if len(values) < 2 or values[1] is None:
            pieces = np.split(x, whole, axis) if whole else []
            return [pieces if node.attr("keepdims") else [p.squeeze(axis) for p in pieces]]
        sizes = np.asarray(values[1])
        if sizes.ndim == 0 and sizes < 1:
            _fail(node, f"pieces of {sizes} entries are asked for; 1 or more are needed")
        if sizes.ndim == 1 and not len(sizes) and not whole:
            return [[]]
        if sizes.ndim == 0:
            ends = np.arange(int(sizes), whole, int(sizes))
        elif (sizes < 0).any() or sizes.sum() != whole:
            _fail(node, f"split={sizes.tolist()} does not sum to the {whole} entries of the axis")
        else:
            ends = sizes.cumsum()[:-1]
        return [np.split(x, ends, axis)]


class ConcatFromSequence(SequenceOp):
    """The elements of a sequence joined along an axis, or stacked along a new one."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "new_axis", (0, 1))

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        element = _element(call)
        new = bool(call.attr("new_axis"))
        rank = None if element.shape is None else len(element.shape) + new
        axis = check_axis(call, call.attr("axis"), rank)
        if axis is None or element.shape is None:
            return [TensorType(element.dtype)]
        rest = element.shape[:axis], element.shape[axis if new else axis + 1 :]
        return [TensorType(element.dtype, (*rest[0], None, *rest[1]))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        elements, axis = values[0], node.attr("axis")
        if not elements:
            _fail(node, "the sequence is empty; one element or more are needed")
        new = bool(node.attr("new_axis"))
        rank = elements[0].ndim + new
        if not -rank <= axis < rank:
            _fail(node, f"axis={axis} is out of range for {rank} axes")
        axis %= rank
        kept = {e.shape if new else (*e.shape[:axis], *e.shape[axis + 1 :]) for e in elements}
        if len(kept) > 1 or len({e.ndim for e in elements}) > 1:
            shapes = ", ".join(str(list(s)) for s in dict.fromkeys(e.shape for e in elements))
            where = "be equal" if new else f"differ on axis {axis} alone"
            _fail(node, f"the elements have the shapes {shapes}, which must {where}")
        return [np.stack(elements, axis) if new else np.concatenate(elements, axis)]


# -- optionals ---------------------------------------------------------------------------------
class Optional(SequenceOp):
    """A value that may be absent: the input's, or without one an empty one of `type`."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        if call.has(0):
            return [OptionalType(call.input(0).type)]
        if call.attr("type") is None:
            call.fail("without an input it needs type=...", bad)
        return [OptionalType(call.attr("type"))]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        # onnx's evaluator would wrap a sequence in another one.
        return [values[0] if values else None]


class OptionalHasElement(SequenceOp):
    """Whether an optional holds a value."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [TensorType(NumberType.BOOL, ())]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        return [np.array(bool(values) and values[0] is not None)]


class OptionalGetElement(SequenceOp):
    """The value that an optional holds."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        type_ = call.input(0).type
        return [type_.element if isinstance(type_, OptionalType) else type_]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any]:
        if values[0] is None:
            _fail(node, "the optional holds no value; ops.optional_has_element asks first")
        return [values[0]]


# -- at the run --------------------------------------------------------------------------------
def _place(node: Node, position: Any, last: int, count: int) -> int:
    """A position in a sequence of `count`, counted from the front; at most `last`."""
    given = int(np.asarray(position).reshape(-1)[0])
    if not -count <= given <= last:
        allowed = f"{-count} to {last}" if count or not last else "none"
        _fail(node, f"position {given} in a sequence of {count}: allowed are {allowed}")
    return given + count if given < 0 else given


def _fail(node: Node, reason: str) -> NoReturn:
    raise ExecutionError(f"{node.describe()}: {reason}{at_line(node.where)}")
