"""Recurrent layers: RNN, GRU and LSTM over a whole sequence at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from neuralsym.core import scalar as s
from neuralsym.core.op import Call
from neuralsym.core.scalar import Expr, Scalar, argument
from neuralsym.core.symbol import Node
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.ops.activation import (
    Elu,
    HardSigmoid,
    LeakyRelu,
    Relu,
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
)
from neuralsym.ops.base import Recurrence, bad, check_choice, check_range, check_rank
from neuralsym.ops.rnn_values import recurrent_values

_DIRECTIONS = ("forward", "reverse", "bidirectional")
Function = Callable[[Expr, float, float], Scalar]

_ACTIVATIONS: dict[str, tuple[Function, tuple[float, ...]]] = {
    "Relu": (lambda x, alpha, beta: Relu.scalar(x), ()),
    "Tanh": (lambda x, alpha, beta: Tanh.scalar(x), ()),
    "Sigmoid": (lambda x, alpha, beta: Sigmoid.scalar(x), ()),
    "Affine": (lambda x, alpha, beta: alpha * x + beta, (1.0, 0.0)),
    "LeakyRelu": (lambda x, alpha, beta: LeakyRelu.scalar(x, alpha=alpha), (0.01,)),
    # At the threshold itself x stays here, where the operator ThresholdedRelu gives 0.
    "ThresholdedRelu": (lambda x, alpha, beta: s.where(x < alpha, 0, x), (1.0,)),
    "ScaledTanh": (lambda x, alpha, beta: alpha * s.tanh(beta * x), (1.0, 1.0)),
    "HardSigmoid": (
        lambda x, alpha, beta: HardSigmoid.scalar(x, alpha=alpha, beta=beta),
        (0.2, 0.5),
    ),
    "Elu": (lambda x, alpha, beta: Elu.scalar(x, alpha=alpha), (1.0,)),
    "Softsign": (lambda x, alpha, beta: Softsign.scalar(x), ()),
    "Softplus": (lambda x, alpha, beta: Softplus.scalar(x), ()),
}
ACTIVATIONS = tuple(_ACTIVATIONS)
"""The functions that `activations` may name; case does not count."""


class HasAttributes(Protocol):
    """A Call, Node or Step of a recurrent operator."""

    @property
    def op(self) -> Any: ...

    def attr(self, name: str) -> Any: ...


def activation_functions(step: HasAttributes) -> tuple[tuple[Scalar, ...], ...]:
    """For each direction the functions of argument 0 that it applies, clipped as `clip` says."""
    count = 2 if step.attr("direction") == "bidirectional" else 1
    names = list(step.attr("activations") or step.op.defaults * count)
    clip = step.attr("clip")
    x: Expr = argument(0)
    if clip is not None:
        x = s.minimum(s.maximum(x, -float(clip)), float(clip))
    made = []
    for name, numbers in named_activations(step, names[: step.op.functions * count]):
        alpha, beta = (*numbers, 0.0, 0.0)[:2]
        made.append(_ACTIVATIONS[name][0](x, alpha, beta))
    per = step.op.functions
    return tuple(tuple(made[i * per : (i + 1) * per]) for i in range(count))


def named_activations(
    step: HasAttributes, names: Sequence[str]
) -> list[tuple[str, tuple[float, ...]]]:
    """The functions of these names, as ACTIVATIONS spells them, each with its parameters.

    A function takes the next number of `activation_alpha` and of `activation_beta` if it has such
    a parameter, its default where these have ended.
    """
    spelled = {name.lower(): name for name in ACTIVATIONS}
    sources = [iter(step.attr(f"activation_{name}") or ()) for name in ("alpha", "beta")]
    made = []
    for name in (spelled[name.lower()] for name in names):
        pairs = zip(sources, _ACTIVATIONS[name][1], strict=False)
        made.append((name, tuple(float(next(source, default)) for source, default in pairs)))
    return made


def check_activations(call: Call, names: Sequence[str], wanted: int) -> None:
    """BadAttribute unless there are as many names as wanted, all of them known."""
    if len(names) != wanted:
        call.fail(f"activations must name {wanted} functions, not {len(names)}", bad)
    known = {name.lower() for name in ACTIVATIONS}
    for name in names:
        if name.lower() not in known:
            call.fail(f"activation {name!r} is none of {', '.join(ACTIVATIONS)}", bad)


class Recurrent(Recurrence, abstract=True):
    """What the three share: weights [directions, gates*hidden, ...], outputs Y, Y_h (and Y_c)."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    functions: ClassVar[int]
    """How many activations a direction has."""
    defaults: ClassVar[tuple[str, ...]]
    """Their names where `activations` is not given."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "direction", _DIRECTIONS)
        check_choice(call, "layout", (0, 1))
        check_range(call, "hidden_size", 1, 2**31)
        check_range(call, "clip", 0)
        for i, rank in enumerate((3, 3, 3, 2, 1, 3, 3, 2)):
            if call.has(i):
                check_rank(call, i, rank, rank)
        names = call.attrs.get("activations")
        if names and names != cls.schema.attributes["activations"].default:
            check_activations(call, names, cls.functions * directions(call))

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        x, w, r = call.shape(0), call.shape(1), call.shape(2)
        hidden = cls._hidden(call)
        count = directions(call)
        _agree(call, "W has {0} directions, {1} are asked for", w, 0, count)
        _agree(call, "R has {0} directions, {1} are asked for", r, 0, count)
        if isinstance(hidden, int):
            gated = cls.gates * hidden
            _agree(call, f"W has {{0}} rows for {cls.gates} gates of {hidden}", w, 1, gated)
            _agree(call, f"R has {{0}} rows for {cls.gates} gates of {hidden}", r, 1, gated)
            _agree(call, "R has {0} columns, the hidden size is {1}", r, 2, hidden)
        batch: Size = None
        time: Size = None
        if x is not None:
            batch, time = (x[0], x[1]) if call.attr("layout") else (x[1], x[0])
            if isinstance(x[2], int):
                _agree(call, "W has {0} columns, X has {1} features", w, 2, x[2])
        y: Shape
        state: Shape
        if call.attr("layout"):
            y = (batch, time, count, hidden)
            state = (batch, count, hidden)
        else:
            y = (time, count, batch, hidden)
            state = (count, batch, hidden)
        dtype = call.dtype(0)
        return [TensorType(dtype, y), *[TensorType(dtype, state)] * cls.states]

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> list[NDArray[Any]]:
        return recurrent_values(node, values, cls.gates, activation_functions(node))

    @classmethod
    def _hidden(cls, call: Call) -> Size:
        hidden = call.attr("hidden_size")
        if hidden is not None:
            return int(hidden)
        r = call.shape(2)
        return None if r is None else r[2]


def directions(call: Call) -> int:
    return 2 if call.attr("direction") == "bidirectional" else 1


def _agree(call: Call, words: str, shape: Shape | None, axis: int, wanted: int) -> None:
    if shape is not None and isinstance(shape[axis], int) and shape[axis] != wanted:
        call.fail(words.format(shape[axis], wanted))


class RNN(Recurrent):
    """The simple recurrence h' = f(x W + h R + b)."""

    gates = 1
    functions = 1
    defaults = ("Tanh",)


class GRU(Recurrent):
    """Gated recurrent units, the gates in the order update, reset, hidden (arXiv 1406.1078)."""

    gates = 3
    functions = 2
    defaults = ("Sigmoid", "Tanh")

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "linear_before_reset", (0, 1))


class LSTM(Recurrent):
    """Long short-term memory, the gates in the order input, output, forget, cell."""

    gates = 4
    states = 2
    functions = 3
    defaults = ("Sigmoid", "Tanh", "Tanh")

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "input_forget", (0, 1))
