"""From a flow to graphs: each function becomes one, and they share the variables with data.

A variable that some function assigns to is state: a variable with a default that the graph updates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.graph import Graph
from neuralsym.core.leaves import make_variable, make_weight
from neuralsym.core.model import Model, Notes
from neuralsym.core.naming import Kept
from neuralsym.core.registry import apply
from neuralsym.core.scope import scope
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType, as_shape
from neuralsym.dtypes import NumberType
from neuralsym.engines.flow import recipe
from neuralsym.engines.flow.elementwise import ELEMENTWISE
from neuralsym.engines.flow.flow import Flow
from neuralsym.engines.flow.helpers import Build
from neuralsym.engines.flow.notes import BlobNotes, FlowNotes, VariableNotes
from neuralsym.engines.flow.operations import OPERATIONS
from neuralsym.engines.flow.parts import BATCH, Blob, Function, Operation, Variable
from neuralsym.engines.flow.spelling import (
    DIMS,
    METADATA,
    METADATA_TYPE,
    OMITTED,
    UNKNOWN_WORD,
    operator_of,
    read_attributes,
)
from neuralsym.engines.flow.step import Called, Step
from neuralsym.errors import ORIGIN, FormatError, NeuralsymError, Where, did_you_mean, warn

ASSIGNING = ("Assign", "AssignAddMatMul", "AssignAddScatter", "AssignAdd", "AssignSub")
REFERENCE = "Reference"
CALLS = ("f", "cond", "body", "then_branch", "else_branch")
"""Attributes that name a function which an operation calls. `body_inputs` and `body_outputs` have
the names of its parameters and results, joined by commas."""
_MOST_CALLS = 10_000
_SIZES = 1024
"""Whole numbers up to so many are part of the program, being shapes, axes, orders; and so is any
single number."""


class Place(Where):
    """An operation of a flow, for messages."""

    label: str

    @classmethod
    def of(cls, op: Operation, number: int) -> Place:
        made = cls("the flow", number)
        made.label = f"operation {op.name!r} ({op.type}) of the flow"
        return made

    def __str__(self) -> str:
        return self.label


def read_model(
    flow: Flow, batch: int | str = "N", more: Mapping[str, Build] | None = None
) -> Model:
    """The graphs of a flow's functions, with what else it says in their notes.

    batch: what the sizes -1 stand for, a number or the name of a size that stays free; more:
    operation types beside Myelin's own, which come before them. Functions that operations call
    are part of the graphs of those. Raises FormatError, naming the operation, for one that is
    unknown or does not fit.
    """
    reader = _Reader(flow, batch, more or {})
    called = {op.attrs[role] for op in flow.ops.values() for role in _roles(op)}
    funcs = [func for func in flow.funcs.values() if func.name not in called]
    if not funcs:
        raise FormatError("the flow has no function, so there is nothing to compute")
    try:
        graphs = {func.name: reader.graph(func) for func in funcs}
    except FormatError:
        raise
    except NeuralsymError as error:
        raise FormatError(str(error)) from None
    notes = Notes(engine={"flow": _notes(flow)})
    return Model(graphs, {k: v for b in _metadata(flow) for k, v in b.attrs.items()}, notes=notes)


class _Reader:
    """A flow on its way to graphs; constants are made once for all of them."""

    def __init__(self, flow: Flow, batch: int | str, more: Mapping[str, Build]) -> None:
        self.flow = flow
        self.batch = batch
        self.more = more
        self.calls = 0
        self.tensors: dict[Variable, Tensor] = {}
        self.state = {
            op.inputs[0] for op in flow.ops.values() if op.type in ASSIGNING and op.inputs
        }

    def graph(self, func: Function) -> Graph:
        return _GraphReader(self, func).read()

    def type_of(self, var: Variable) -> TensorType:
        dtype = var.dtype
        if dtype is None:
            raise FormatError(f"variable {var.name!r} has no number type ({var.type!r})")
        words = var.attrs.get(DIMS)
        if words is not None:
            sizes = [None if w == UNKNOWN_WORD else w for w in words.split(",")]
            if isinstance(self.batch, int) and var.shape[:1] == [BATCH]:
                sizes[0] = str(self.batch)
            return TensorType(dtype, as_shape([int(w) if w and w.isdigit() else w for w in sizes]))
        if var.shape and not any(var.shape):
            # All sizes unknown; an extractor writes one for an unknown rank as well.
            return TensorType(dtype, None if len(var.shape) == 1 else (None,) * len(var.shape))
        return TensorType(
            dtype, as_shape([self.batch if d == BATCH else d or None for d in var.shape])
        )

    def tensor(self, var: Variable) -> Tensor:
        """The data of a variable; zeros for a learnable one that has none."""
        found = self.tensors.get(var)
        if found is not None:
            return found
        fixed = self.batch if isinstance(self.batch, int) else 1
        array = var.array(fixed)
        dtype = var.dtype
        if dtype is None:
            raise FormatError(f"variable {var.name!r} has no number type ({var.type!r})")
        if array is None:
            shape = tuple(fixed if d == BATCH else d for d in var.shape)
            if 0 in shape:
                raise FormatError(f"variable {var.name!r} has no data and no fixed shape")
            made = Tensor(dtype, shape, lambda: np.zeros(shape, dtype.numpy))
        else:
            aligned = array if array.flags.aligned else np.array(array)
            made = Tensor.of(aligned.astype(dtype.numpy, copy=False), dtype)
        return self.tensors.setdefault(var, made)


class _GraphReader:
    """One function on its way to a graph."""

    def __init__(self, reader: _Reader, func: Function, around: Sequence[Function] = ()) -> None:
        self.reader = reader
        self.flow = reader.flow
        self.func = func
        self.around = (*around, func)
        self.values: dict[Variable, Symbol] = {}
        self.names: dict[Node, str] = {}
        self.updates: dict[Symbol, Symbol] = {}
        self.inputs: list[Symbol] = []

    def read(self) -> Graph:
        for var in self.flow.inputs(self.func):
            if var.name != OMITTED:
                self.value(var)
        for number, op in enumerate(self.flow.order(self.func), 1):
            if op.inputs and op.type != REFERENCE:
                self.operation(op, number)
        outputs = {_name(v): self.value(v) for v in self.flow.outputs(self.func)}
        return Graph(outputs, self.inputs, self.func.name, self.updates, keep=Kept(self.names))

    def value(self, var: Variable) -> Symbol:
        """The symbol of a variable, made where it is a leaf."""
        found = self.values.get(var)
        if found is None:
            made = self._leaf(var)
            self.names[made.node] = _name(var)
            found = self.values[var] = made
        return found

    def _leaf(self, var: Variable) -> Symbol:
        has_value = var.data is not None or var.learnable
        if var in self.reader.state or not has_value:
            attrs: dict[str, Any] = {}
            if has_value:
                attrs["init"] = self.reader.tensor(var)
                type_ = TensorType(attrs["init"].dtype, attrs["init"].shape)
            else:
                type_ = self.reader.type_of(var)
            made = make_variable(None, type_, attrs)
            self.inputs.append(made)
            return made
        tensor = self.reader.tensor(var)
        small = not tensor.shape if tensor.dtype.is_float else tensor.size <= _SIZES
        if small and not var.learnable:
            return ops.constant(tensor)
        return make_weight(tensor, trainable=var.learnable)

    def called(self, step: Step) -> dict[str, Called]:
        """The functions that an operation calls; their constants become values of this one."""
        made: dict[str, Called] = {}
        for role in _roles(step.op):
            name = step.op.attrs[role]
            func = self.flow.funcs.get(name)
            if func is None:
                step.wrong(f"{role} is {name!r}, no function{did_you_mean(name, self.flow.funcs)}")
            if func in self.around:
                step.wrong(f"function {name!r} calls itself")
            words = [step.op.attr(f"{role}_{which}") for which in ("inputs", "outputs")]
            inputs, outputs = ([self.flow.lookup(n) for n in w.split(",") if n] for w in words)
            self.constants(func)
            made[role] = Called(func, inputs, outputs)
        return made

    def constants(self, func: Function) -> None:
        """Let the constants of a called function, and of those that it calls, be values here."""
        waiting, seen = [func], {func, *self.around}
        for called in waiting:  # it grows while it is gone through
            for op in called.ops:
                for var in op.inputs:
                    if var.data is not None:
                        self.value(var)
                for role in _roles(op):
                    inner = self.flow.funcs.get(op.attrs[role])
                    if inner is not None and inner not in seen:
                        seen.add(inner)
                        waiting.append(inner)

    def call(
        self, called: Called, inputs: Sequence[Symbol], wanted: Sequence[Variable]
    ) -> list[Symbol]:
        """Variables of a function that is called, and no more than they need of it."""
        self.reader.calls += 1
        if self.reader.calls > _MOST_CALLS:
            raise FormatError(f"function {called.func.name!r}: over {_MOST_CALLS} calls were made")
        inner = _GraphReader(self.reader, called.func, self.around)
        inner.values = {**self.values, **dict(zip(called.inputs, inputs, strict=True))}
        needed: set[Operation] = set()
        waiting = [v for v in wanted if v not in inner.values]
        while waiting:
            op = waiting.pop().producer
            if op is not None and op not in needed and op.func is called.func:
                needed.add(op)
                waiting += [v for v in op.inputs if v not in inner.values]
        for number, op in enumerate(self.flow.order(called.func), 1):
            if op in needed and op.inputs:
                inner.operation(op, number)
        if inner.updates:
            raise FormatError(f"function {called.func.name!r} assigns to variables and is called")
        return [inner.value(v) for v in wanted]

    def operation(self, op: Operation, number: int) -> None:
        given = [None if v.name == OMITTED else self.value(v) for v in op.inputs]
        step = Step(op, [s for s in given if s is not None], call=self.call)
        before = ORIGIN.set(Place.of(op, number))
        try:
            step.calls = self.called(step)
            with scope(_text_of(op.name)):
                made = _build(step, given, self.reader.more)
                for var, symbol in zip(op.outputs, made, strict=False):
                    self._give(var, symbol)
        except FormatError:
            raise
        except NeuralsymError as error:
            raise FormatError(str(error)) from None
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # A damaged file may say what no program says: axes of a number, parts of no size.
            step.wrong(f"does not fit its inputs and attributes ({error})")
        finally:
            ORIGIN.reset(before)
        if len(made) < len(op.outputs):
            step.wrong(f"gives {len(made)} results, it has {len(op.outputs)} outputs")
        for i, value in step.updates.items():
            target = self.value(op.inputs[i])
            self.updates[target] = self._typed(op.inputs[i], value)

    def _give(self, var: Variable, symbol: Symbol) -> None:
        """Let a symbol be the value of a variable, of the type that is declared."""
        symbol = self._typed(var, symbol)
        if symbol.node in self.names and not symbol.index:
            symbol = ops.identity(symbol)
        if symbol.index == 0:
            self.names[symbol.node] = _name(var)
        self.values[var] = symbol
        self._compare(var, symbol)

    def _typed(self, var: Variable, symbol: Symbol) -> Symbol:
        dtype = var.dtype
        if dtype is None or symbol.dtype == dtype or dtype is NumberType.STRING:
            return symbol
        return ops.cast(symbol, to=str(dtype))

    def _compare(self, var: Variable, symbol: Symbol) -> None:
        shape = symbol.shape
        if shape is None or not var.shape or 0 in var.shape:
            return
        pairs = zip(shape, var.shape, strict=False)
        # TensorFlow has -1 for any size that it does not know, so this contradicts nothing.
        differ = any(isinstance(a, int) and b != BATCH and a != b for a, b in pairs)
        if len(shape) != len(var.shape) or differ:
            warn(
                f"variable {var.name!r} is declared as {var.typestr()} and computed as "
                f"{symbol.type}, which is used"
            )


def _roles(op: Operation) -> list[str]:
    """The attributes of an operation that name functions which it calls."""
    return [role for role in CALLS if role in op.attrs and f"{role}_inputs" in op.attrs]


def _build(
    step: Step, given: Sequence[Symbol | None], more: Mapping[str, Build]
) -> Sequence[Symbol]:
    """What the operation of a step computes, one symbol for each result."""
    op = step.op
    if op.type in more:
        return _several(more[op.type](step))
    operator = operator_of(op.type)
    if operator is not None:
        attrs = read_attributes(operator, op.attrs, op.name)
        return apply(operator, given, attrs, outputs=len(op.outputs) or None)
    if op.type == "Calculate":
        return _calculate(step)
    build: Callable[..., Any] | None = ELEMENTWISE.get(op.type)
    if build is not None:
        try:
            return [build(*step.inputs)]
        except TypeError:
            step.wrong(f"cannot take {len(step.inputs)} inputs")
    build = OPERATIONS.get(op.type)
    if build is None:
        hint = did_you_mean(op.type, [*ELEMENTWISE, *OPERATIONS, *more])
        tried = "Myelin's types and TensorFlow's" if more else "Myelin's types"
        step.wrong(
            "neuralsym does not know operations of this type; it is none of "
            f"{tried}, and has no domain before it as in ai.onnx.Conv{hint}"
        )
    return _several(build(step))


def _several(made: Symbol | Sequence[Symbol]) -> Sequence[Symbol]:
    return [made] if isinstance(made, Symbol) else list(made)


def _calculate(step: Step) -> Sequence[Symbol]:
    steps = recipe.parse(step.op.attr("expr"))
    kind = next((v.dtype for v in step.op.outputs if v.dtype), None) or NumberType.FLOAT32

    def applied(name: str, args: Sequence[Symbol]) -> Symbol:
        build = ELEMENTWISE.get(name)
        if build is None:
            step.wrong(f"its recipe calls {name!r}, which is none{did_you_mean(name, ELEMENTWISE)}")
        try:
            return build(*args)
        except TypeError:
            step.wrong(f"its recipe calls {name} with {len(args)} values")

    made = recipe.evaluate(steps, step.inputs, applied, lambda v: ops.constant(v, str(kind)))
    missing = [i for i in range(len(step.op.outputs)) if i not in made]
    if missing:
        step.wrong(f"its recipe does not assign to @{missing[0]}")
    return [made[i] for i in range(len(step.op.outputs))]


# -- names and notes -----------------------------------------------------------------------------
def _name(var: Variable) -> str:
    return _text_of(var.name)


def _text_of(name: str) -> str:
    """A name as graphs can have it: printable, and not empty."""
    if name.isprintable() and name:
        return name
    return name.encode("unicode_escape").decode("ascii") or "unnamed"


def _metadata(flow: Flow) -> list[Blob]:
    """The blob that says what a model says of itself, where there is one."""
    found = flow.blobs.get(METADATA)
    return [found] if found is not None and found.type == METADATA_TYPE else []


def _notes(flow: Flow) -> FlowNotes:
    variables = {
        _name(v): VariableNotes(tuple(v.aliases), dict(v.attrs), int(v.flags))
        for v in flow.vars.values()
        if v.aliases or v.attrs or v.flags
    }
    made = [(_name(op.outputs[0]), op) for op in flow.ops.values() if op.outputs]
    return FlowNotes(
        version=flow.version,
        variables=variables,
        operations={name: op.name for name, op in made},
        attrs={name: dict(op.attrs) for name, op in made if op.attrs},
        functions={f.name: int(f.flags) for f in flow.funcs.values() if f.flags},
        connectors={c.name: tuple(_name(v) for v in c.links) for c in flow.cnxs.values()},
        blobs={
            b.name: BlobNotes(b.type, dict(b.attrs), b.data, b.flags)
            for b in flow.blobs.values()
            if b not in _metadata(flow)
        },
    )
