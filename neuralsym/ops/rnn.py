"""Recurrent layers: RNN, GRU and LSTM over a whole sequence at once."""

from __future__ import annotations

from typing import ClassVar

from neuralsym.core.op import Call
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.ops.base import Recurrence, bad, check_choice, check_range, check_rank

_DIRECTIONS = ("forward", "reverse", "bidirectional")
ACTIVATIONS = (
    *("Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh"),
    *("HardSigmoid", "Elu", "Softsign", "Softplus"),
)
"""The functions that `activations` may name; case does not count."""


class Recurrent(Recurrence, abstract=True):
    """What the three share: weights [directions, gates*hidden, ...], outputs Y, Y_h (and Y_c)."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    functions: ClassVar[int]
    """How many activations a direction has."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "direction", _DIRECTIONS)
        check_choice(call, "layout", (0, 1))
        check_range(call, "hidden_size", 1, 2**31)
        for i in range(3):
            check_rank(call, i, 3, 3)
        names = call.attrs.get("activations")
        if names and names != cls.schema.attributes["activations"].default:
            wanted = cls.functions * directions(call)
            if len(names) != wanted:
                call.fail(f"activations must name {wanted} functions, not {len(names)}", bad)
            lower = {a.lower() for a in ACTIVATIONS}
            for name in names:
                if name.lower() not in lower:
                    call.fail(f"activation {name!r} is none of {', '.join(ACTIVATIONS)}", bad)

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


class GRU(Recurrent):
    """Gated recurrent units, the gates in the order update, reset, hidden (arXiv 1406.1078)."""

    gates = 3
    functions = 2

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "linear_before_reset", (0, 1))


class LSTM(Recurrent):
    """Long short-term memory, the gates in the order input, output, forget, cell."""

    gates = 4
    states = 2
    functions = 3

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "input_forget", (0, 1))
