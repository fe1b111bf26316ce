"""The LSTM whose weights are bytes and whose inputs are quantised as they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from neuralsym.core.op import Call
from neuralsym.core.symbol import Symbol
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import check_choice, check_range
from neuralsym.ops.contrib.base import (
    Contrib,
    Given,
    cast,
    counted,
    numbers,
    op,
    part,
    reshape,
    several,
    size,
    sizes,
    squeeze,
    unsqueeze,
)
from neuralsym.ops.contrib.declare import BYTES, FLOAT, INT32, declare, optional
from neuralsym.ops.contrib.heads import width
from neuralsym.ops.control_functions import scan
from neuralsym.ops.rnn import check_activations, named_activations

Function = Callable[[Symbol], Symbol]


class DynamicQuantizeLSTM(Contrib):
    """LSTM with weights [directions, input, 4*hidden] of bytes, gates in the order i, o, f, c.

    The input is quantised as a whole, the hidden state at each step; both by their own range.
    """

    schema = declare(
        "DynamicQuantizeLSTM",
        "X:T W:T2 R:T2 B:T? sequence_lens:T1? initial_h:T? initial_c:T? P:T? W_scale:T "
        "W_zero_point:T2 R_scale:T R_zero_point:T2",
        "Y:T? Y_h:T? Y_c:T?",
        {"T": FLOAT, "T1": INT32, "T2": BYTES},
        {
            "activation_alpha": optional("FLOATS"),
            "activation_beta": optional("FLOATS"),
            "activations": optional("STRINGS"),
            "clip": optional("FLOAT"),
            "direction": "forward",
            "hidden_size": optional("INT"),
            "input_forget": 0,
        },
    )
    functions = 3
    defaults = ("Sigmoid", "Tanh", "Tanh")
    ranks = (
        "X:3 W:3 R:3 B:2 sequence_lens:1 initial_h:3 initial_c:3 P:2 W_scale:1,2 W_zero_point:1,2 "
        "R_scale:1,2 R_zero_point:1,2"
    )

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "direction", ("forward", "reverse", "bidirectional"))
        check_choice(call, "input_forget", (0, 1))
        check_range(call, "hidden_size", 1, 2**31)
        names = call.attr("activations")
        if names:
            check_activations(call, names, 3 * (1 + (call.attr("direction") == "bidirectional")))
        r = call.shape(2)
        if r is not None and r[1] is not None and r[2] is not None and r[2] != 4 * r[1]:
            call.fail(f"R must be [directions, hidden, 4*hidden], it is {list(r)}")

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        x, w, r = call.shape(0), call.shape(1), call.shape(2)
        count = 2 if call.attr("direction") == "bidirectional" else 1
        length, batch = (None, None) if x is None else x[:2]
        if w is not None and w[0] is not None and w[0] != count:
            call.fail(f"W has {w[0]} directions, {count} are asked for")
        given = (None if x is None else x[2]), (None if w is None else w[1])
        if all(isinstance(n, int) for n in given) and given[0] != given[1]:
            call.fail(f"X has {given[0]} features, W takes {given[1]}")
        hidden = call.attr("hidden_size") if r is None else r[1]
        state = TensorType(NumberType.FLOAT32, (count, batch, hidden))
        return [TensorType(NumberType.FLOAT32, (length, count, batch, hidden)), state, state]

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        given.shape(0), given.shape(2)  # their ranks are needed
        count = 2 if given.attr("direction") == "bidirectional" else 1
        x, scale, zero = several("DynamicQuantizeLinear", [given[0]], 3)
        made = []
        for direction in range(count):
            backwards = given.attr("direction") == "reverse" or direction == 1
            made.append(_direction(given, x, scale, zero, direction, backwards))
        ys, hs, cs = zip(*made, strict=True)
        y = op("Concat", *(unsqueeze(s, 1) for s in ys), axis=1)
        h, c = (op("Concat", *(unsqueeze(s, 0) for s in states), axis=0) for states in (hs, cs))
        return [y, h, c][: max(given.count, 1)]


def _direction(
    given: Given, x: Symbol, scale: Symbol, zero: Symbol, direction: int, backwards: bool
) -> tuple[Symbol, Symbol, Symbol]:
    """All hidden states, the last one and the last cell of one direction."""
    hidden = width(given[2], 1)
    lengths = given.optional(4)
    weights = _row(given[1], direction)
    products = op("MatMulInteger", x, weights, zero, _row(given[9], direction))
    gates = cast(products, "float32") * (scale * _row(given[8], direction))
    if given.has(3):
        bias = _row(given[3], direction)
        gates = gates + (part(bias, 0, 0, 4 * hidden) + part(bias, 0, 4 * hidden, 8 * hidden))
    step = _Step(given, direction, hidden)
    states = [_state(given, at, direction, hidden) for at in (5, 6)]
    inputs = [gates]
    reverse = partial(op, "ReverseSequence", batch_axis=1, time_axis=0)
    if lengths is not None:
        lengths = cast(lengths, "int64")
        if backwards:
            inputs = [reverse(gates, lengths)]
        places, ends = unsqueeze(counted(size(gates, 0)), 1), unsqueeze(lengths, 0)
        inputs += [unsqueeze(op(name, places, ends), 2) for name in ("Less", "LessOrEqual")]
    turned = [1] * len(inputs) if backwards and lengths is None else None
    back = [1] if turned else None
    h, c, y = scan(step, states, inputs, input_directions=turned, output_directions=back)
    if backwards and lengths is not None:
        y = reverse(y, lengths)
    return y, h, c


def _row(x: Symbol, direction: int) -> Symbol:
    """What belongs to a direction."""
    return squeeze(part(x, 0, direction, direction + 1), 0)


def _state(given: Given, at: int, direction: int, hidden: int) -> Symbol:
    if given.has(at):
        return _row(given[at], direction)
    return op("Expand", numbers(0.0, "float32"), sizes(size(given[0], 1), hidden))


class _Step:
    """One step of a direction: from the states and the gates of the input to the next states."""

    def __init__(self, given: Given, direction: int, hidden: int) -> None:
        self.weights = _row(given[2], direction)
        self.scale = _row(given[10], direction)
        self.zero = _row(given[11], direction)
        self.peepholes: Sequence[Symbol] = ()
        if given.has(7):
            peepholes = reshape(_row(given[7], direction), 3, hidden)
            self.peepholes = [_row(peepholes, i) for i in range(3)]
        self.coupled = bool(given.attr("input_forget"))
        self.functions = _functions(given, direction)

    def __call__(
        self,
        h: Symbol,
        c: Symbol,
        gates: Symbol,
        running: Symbol | None = None,
        ran: Symbol | None = None,
    ) -> tuple[Symbol, Symbol, Symbol]:
        # Rows that had ended before the last step do not count for the range.
        seen = h if ran is None else op("Where", ran, h, numbers(0.0, "float32"))
        state, scale, zero = several("DynamicQuantizeLinear", [seen], 3)
        products = op("MatMulInteger", state, self.weights, zero, self.zero)
        gates = gates + cast(products, "float32") * (scale * self.scale)
        i, o, f, g = several("Split", [gates], 4, axis=-1, num_outputs=4)
        first, second, last = self.functions
        if self.peepholes:
            i, f = i + self.peepholes[0] * c, f + self.peepholes[2] * c
        i = first(i)
        f = numbers(1.0, "float32") - i if self.coupled else first(f)
        cell = f * c + i * second(g)
        if self.peepholes:
            o = o + self.peepholes[1] * cell
        made = first(o) * last(cell)
        if running is None:
            return made, cell, made
        # Behind its end a sequence keeps its states and gives zeros.
        item = op("Where", running, made, numbers(0.0, "float32"))
        return op("Where", running, made, h), op("Where", running, cell, c), item


def _functions(given: Given, direction: int) -> tuple[Function, Function, Function]:
    """The activations of the gates, of the cell's input and of the cell.

    What comes from the inputs is clipped first. The cell is not, though the text of the operator
    has all inputs of activations clipped: onnxruntime, whose operator it is, does not.
    """
    names = given.attr("activations") or DynamicQuantizeLSTM.defaults * (direction + 1)
    chosen = named_activations(given, names)[3 * direction : 3 * direction + 3]
    gate, entry, cell = (partial(_activated, name, numbers) for name, numbers in chosen)
    clip = given.attr("clip")
    if clip:
        return _clipped(gate, clip), _clipped(entry, clip), cell
    return gate, entry, cell


def _clipped(function: Function, limit: float) -> Function:
    return lambda x: function(op("Clip", x, -limit, limit))


def _activated(name: str, parameters: Sequence[float], x: Symbol) -> Symbol:
    if name == "Affine":
        return x * parameters[0] + parameters[1]
    if name == "ScaledTanh":
        return op("Tanh", x * parameters[1]) * parameters[0]
    return op(name, x, **dict(zip(("alpha", "beta"), parameters, strict=False)))
