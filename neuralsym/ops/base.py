"""The families of operators: what the members of each have in common.

A family is the trait that passes and the compiler ask for (`issubclass(node.op, Elementwise)`);
it holds the inference and the checks that its members share.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.broadcast import broadcast_shapes
from neuralsym.core.dim import Dim, floor_div, maximum, minimum
from neuralsym.core.op import Call, Op
from neuralsym.core.scalar import Scalar, argument
from neuralsym.core.schema import onnx_type_name
from neuralsym.core.symbol import Node
from neuralsym.core.types import Shape, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.ops.values import compute

FLOAT_LIMIT = 64
"""Float values of at most so many elements are propagated: scales, not weights."""


class Elementwise(Op, abstract=True):
    """One value out for each place of the broadcast inputs; `scalar` says which.

    `scalar` takes an expression for each input (None for one that is omitted, `*xs` for a
    variadic one) and the attributes that it needs as keywords, and gives the expression of the
    result. A keyword that is no attribute of the schema raises when the class is defined.
    """

    elementwise = True
    scalar: ClassVar[Callable[..., Scalar] | None] = None
    scalar_attributes: ClassVar[tuple[str, ...]] = ()
    on_sizes: ClassVar[Callable[..., Any] | None] = None
    """The same on sizes that may be symbolic; ValueError where it has no exact value."""

    def __init_subclass__(cls, abstract: bool = False, **rest: Any) -> None:
        super().__init_subclass__(abstract=abstract, **rest)
        if not abstract and cls.scalar is not None:
            cls.scalar_attributes = _checked_attributes(cls)

    @classmethod
    def expression(cls, step: Call | Node) -> Scalar | None:
        """What one application computes for an element: its attributes and given inputs count."""
        if cls.scalar is None:
            return None
        inputs = [None if s is None else argument(i) for i, s in enumerate(step.inputs)]
        if not _variadic(cls):
            inputs += [None] * (len(cls.schema.inputs) - len(inputs))
        return cls.scalar(*inputs, **{name: step.attr(name) for name in cls.scalar_attributes})

    @classmethod
    def shape(cls, call: Call) -> Shape | None:
        """The shape of the result: the inputs, broadcast."""
        return broadcast_inputs(call, range(len(call.inputs)))

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type] | None:
        return [TensorType(output_dtype(call), cls.shape(call))]

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        values = known_values(call)
        if values is None:
            return None
        dtype = output_dtype(call)
        if is_symbolic(values):
            value = fold_sizes(cls.on_sizes, values)
            if value is not None and value.dtype != object:
                value = value.astype(dtype.numpy)
            return None if value is None else [value]
        expr = cls.expression(call)
        if expr is None:
            return None
        return [compute(expr, values, dtype)]


class Reduction(Op, abstract=True):
    """Fewer places out than in: each result combines a row of elements."""


class Movement(Op, abstract=True):
    """The elements of the input in other places; none is computed with."""


class Contraction(Op, abstract=True):
    """Sums of products over shared axes."""


class Window(Op, abstract=True):
    """A result for each place of a window that slides over the spatial axes."""


class Normalisation(Op, abstract=True):
    """Elements centred or scaled by statistics of their neighbours."""


class Recurrence(Op, abstract=True):
    """A state carried along the time axis."""


class Generator(Op, abstract=True):
    """Values made of sizes and attributes alone."""


class Random(Op, abstract=True):
    """Drawn values: no pass may fold, share or drop one draw for another."""

    deterministic = False


class Control(Op, abstract=True):
    """An operator whose bodies are graphs."""


class Quantised(Op, abstract=True):
    """Integers that stand for real numbers by scale and zero point."""


class SequenceOp(Op, abstract=True):
    """Works on sequences and optionals, which live beside the tensors."""


class Text(Op, abstract=True):
    """Works on strings."""


# -- rules that families share -----------------------------------------------------------------
def broadcast_inputs(call: Call, indices: Sequence[int]) -> Shape | None:
    """The broadcast shape of some inputs, those that are given; fails at the user's line."""
    try:
        return broadcast_shapes([call.shape(i) for i in indices if call.has(i)])
    except ShapeMismatch as error:
        call.fail(
            f"{error}; broadcasting aligns the last axes, a size of 1 stretches: "
            "ops.unsqueeze or ops.reshape can add an axis"
        )


def output_dtype(call: Call, index: int = 0) -> NumberType:
    """The number type of an output: that of the inputs of its type variable, or the only one."""
    formal = call.op.schema.formal_output(index)
    for i, symbol in enumerate(call.inputs):
        if symbol is not None and call.op.schema.formal_input(i).variable == formal.variable:
            return symbol.dtype
    if len(formal.allowed) == 1:
        return from_type_name(next(iter(formal.allowed)))
    raise AssertionError(f"{call.op.__name__} states no number type for output {formal.name}")


@cache
def from_type_name(name: str) -> NumberType:
    """The number type of the schemas' `tensor(float)`."""
    return next(kind for kind in NumberType if onnx_type_name(kind) == name)


def same_type(call: Call, index: int = 0) -> TensorType:
    """The type of input `index`, for an output just like it."""
    return TensorType(call.dtype(index), call.shape(index))


def check_axis(
    call: Call, axis: int, rank: int | None, *, end: bool = False, what: str = "axis"
) -> int | None:
    """The axis counted from the left, or None without a rank; BadAttribute when out of range.

    With `end`, the place after the last axis counts too.
    """
    if rank is None:
        return None
    last = rank if end else rank - 1
    if not -rank <= axis <= last:
        shown = f"{-rank} to {last}" if last >= -rank else "none"
        call.fail(f"{what}={axis} is out of range for rank {rank}: allowed are {shown}", bad)
    return axis + rank if axis < 0 else axis


def check_range(call: Call, name: str, low: int | float, high: int | float | None = None) -> None:
    """The attribute is at least `low` and at most `high`; BadAttribute otherwise."""
    value = call.attr(name)
    for v in value if isinstance(value, tuple) else (value,):
        if v is None:
            continue
        if not v >= low or (high is not None and not v <= high):
            span = f"at least {low}" if high is None else f"{low} to {high}"
            call.fail(f"{name}={value} is out of range: it must be {span}", bad)


def check_choice(call: Call, name: str, choices: Sequence[Any]) -> None:
    """The attribute is one of `choices`; BadAttribute otherwise."""
    value = call.attr(name)
    for v in value if isinstance(value, tuple) else (value,):
        if v is not None and v not in choices:
            call.fail(f"{name}={v!r} is none of {', '.join(map(repr, choices))}", bad)


def check_rank(call: Call, index: int, low: int, high: int | None = None) -> None:
    """Input `index` has at least `low` and at most `high` axes, as far as its rank is known."""
    shape = call.shape(index)
    if shape is None:
        return
    if len(shape) < low or (high is not None and len(shape) > high):
        name = call.op.schema.formal_input(index).name
        span = f"{low}" if low == high else f"{low} or more" if high is None else f"{low} to {high}"
        call.fail(f"{name} has {len(shape)} axes, {span} are needed")


def check_single(call: Call, index: int) -> None:
    """Input `index`, where given, holds one number: a scalar, or in many files a vector of it."""
    shape = call.shape(index) if call.has(index) else None
    if shape is None or all(not isinstance(d, int) or d == 1 for d in shape):
        return
    name = call.op.schema.formal_input(index).name
    call.fail(f"{name} has the shape {list(shape)}, but one number is needed")


def bad(message: str) -> BadAttribute:
    return BadAttribute(message)


# -- known values ------------------------------------------------------------------------------
def known_values(call: Call) -> list[NDArray[Any] | None] | None:
    """The inputs' known values, None for an omitted one; None when one is unknown or too long."""
    values: list[NDArray[Any] | None] = []
    for i in range(len(call.inputs)):
        value = call.known(i)
        if call.has(i):
            if value is None:
                return None
            if call.dtype(i) is NumberType.STRING:
                return None
            if call.dtype(i).is_float and value.size > FLOAT_LIMIT:
                return None
        values.append(value)
    return values


def is_symbolic(values: Sequence[NDArray[Any] | None]) -> bool:
    """Whether a value holds a Dim."""
    return any(v is not None and v.dtype == object for v in values)


def fold_sizes(
    function: Callable[..., Any] | None, values: Sequence[NDArray[Any] | None]
) -> NDArray[Any] | None:
    """`function` on every place of values that may hold Dims; None where one place has none."""
    if function is None:
        return None
    arrays = [np.asarray(v, dtype=object) for v in values if v is not None]
    try:
        broadcast = np.broadcast(*arrays)
        results = [function(*map(_plain, places)) for places in broadcast]
    except (ValueError, ArithmeticError):
        return None
    flat = np.empty(len(results), dtype=object)
    flat[:] = results
    made = flat.reshape(broadcast.shape)
    if any(isinstance(r, Dim) for r in results):
        return made
    kinds = {type(r) for r in results}
    return made.astype(np.bool_ if kinds == {bool} else np.int64 if kinds == {int} else object)


def _plain(value: Any) -> Any:
    """A whole float beside sizes counts as the integer that it is."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError("not a whole number")
        return int(value)
    return value


def size_itself(a: Any) -> Any:
    """A size rounded: it is whole already."""
    return a


def size_quotient(a: Any, b: Any) -> Any:
    """a / b of sizes truncated, which is the floor as long as neither is negative."""
    if not (never_negative(a) and never_negative(b)) or b == 0:
        raise ValueError("the signs are not known")
    return floor_div(a, b)


def size_ratio(a: Any, b: Any) -> Any:
    """a / b of sizes as real numbers, where it is a whole one."""
    quotient = size_quotient(a, b)
    if quotient * b != a:
        raise ValueError("not a whole number")
    return quotient


def size_remainder(a: Any, b: Any) -> Any:
    """What is left of a after division by b, neither negative."""
    return a - size_quotient(a, b) * b


def never_negative(value: Any) -> bool:
    """Whether a size or expression of sizes is certainly at least zero."""
    if isinstance(value, Dim):
        return all(factor > 0 for _, factor in value.terms) and all(
            isinstance(atom, str) or (never_negative(atom.left) and never_negative(atom.right))
            for product, _ in value.terms
            for atom in product
        )
    return bool(value >= 0)


def size_equal(a: Any, b: Any) -> bool:
    """Whether two sizes are equal, where that can be told without the run."""
    difference = a - b
    if isinstance(difference, int):
        return difference == 0
    if never_negative(difference - 1) or never_negative(0 - difference - 1):
        return False
    raise ValueError("it depends on the run")


def size_less(a: Any, b: Any) -> bool:
    difference = b - a
    if isinstance(difference, int):
        return difference > 0
    if never_negative(difference - 1):
        return True
    if never_negative(0 - difference):
        return False
    raise ValueError("it depends on the run")


size_minimum, size_maximum = minimum, maximum


# -- the signature of `scalar` -----------------------------------------------------------------
def _variadic(op: type[Op]) -> bool:
    return bool(op.schema.inputs) and op.schema.inputs[-1].kind == "variadic"


def _checked_attributes(op: type[Elementwise]) -> tuple[str, ...]:
    """The attributes that `scalar` takes; TypeError when it does not fit the schema."""
    assert op.scalar is not None
    parameters = inspect.signature(op.scalar).parameters.values()
    attributes = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    unknown = [n for n in attributes if n not in op.schema.attributes]
    if unknown:
        raise TypeError(f"{op.__name__}.scalar has {unknown[0]!r}, which is no attribute of its")
    places = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) != _variadic(op) or (
        not _variadic(op) and len(places) != len(op.schema.inputs)
    ):
        names = ", ".join(f.name for f in op.schema.inputs)
        raise TypeError(f"{op.__name__}.scalar must take its inputs {names}")
    return attributes
