"""Cells: one step of a recurrence, and `rnn`, which runs any cell over a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.activation import Activation
from neuralsym.layers.base import Layer, Result, label, require_shape, settled
from neuralsym.layers.factory import layer
from neuralsym.layers.gates import GRU, LSTM, RNN, Recurrence
from neuralsym.layers.noise import check_rates
from neuralsym.layers.weights import Init

Step = Callable[[Sequence[Symbol]], Any]


@layer
def lstm_cell(
    xs: Symbol | Sequence[Symbol],
    units: int,
    *,
    activation: Activation = "tanh",
    recurrent_activation: Activation = "sigmoid",
    use_bias: bool = True,
    recurrent_bias: bool = False,
    unit_forget_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    recurrent_initializer: Init = "orthogonal",
    bias_initializer: Init = "zeros",
    dropout: float = 0.0,
    recurrent_dropout: float = 0.0,
    name: str | None = None,
) -> tuple[Symbol, ...]:
    """One step of lstm: (x [N, F], h, c [N, units]) -> (h, c); x alone begins from zeros.

    Weights as in lstm, of one direction.

    Keras LSTMCell; torch LSTMCell (recurrent_bias=True); ONNX Gemm and the gates.
    """
    check_rates(dropout=dropout, recurrent_dropout=recurrent_dropout)
    own = (activation, recurrent_activation, use_bias, recurrent_bias)
    drawn = (kernel_initializer, recurrent_initializer, bias_initializer, unit_forget_bias)
    return _stepped(xs, Recurrence(LSTM, units, *own, *drawn))


@layer
def gru_cell(
    xs: Symbol | Sequence[Symbol],
    units: int,
    *,
    activation: Activation = "tanh",
    recurrent_activation: Activation = "sigmoid",
    use_bias: bool = True,
    reset_after: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    recurrent_initializer: Init = "orthogonal",
    bias_initializer: Init = "zeros",
    dropout: float = 0.0,
    recurrent_dropout: float = 0.0,
    name: str | None = None,
) -> Symbol:
    """One step of gru: (x [N, F], h [N, units]) -> h; x alone begins from zeros.

    Weights as in gru, of one direction.

    Keras GRUCell; torch GRUCell; ONNX Gemm and the gates.
    """
    check_rates(dropout=dropout, recurrent_dropout=recurrent_dropout)
    own = (activation, recurrent_activation, use_bias, reset_after)
    drawn = (kernel_initializer, recurrent_initializer, bias_initializer)
    return _stepped(xs, Recurrence(GRU, units, *own, *drawn, reset_after=reset_after))[0]


@layer
def simple_rnn_cell(
    xs: Symbol | Sequence[Symbol],
    units: int,
    *,
    activation: Activation = "tanh",
    use_bias: bool = True,
    recurrent_bias: bool = False,
    kernel_initializer: Init = "glorot_uniform",
    recurrent_initializer: Init = "orthogonal",
    bias_initializer: Init = "zeros",
    dropout: float = 0.0,
    recurrent_dropout: float = 0.0,
    name: str | None = None,
) -> Symbol:
    """One step of simple_rnn: (x [N, F], h [N, units]) -> h; x alone begins from zeros.

    Weights as in simple_rnn, of one direction.

    Keras SimpleRNNCell; torch RNNCell (recurrent_bias=True); ONNX Gemm, Add and the activation.
    """
    check_rates(dropout=dropout, recurrent_dropout=recurrent_dropout)
    own = (activation, None, use_bias, recurrent_bias)
    drawn = (kernel_initializer, recurrent_initializer, bias_initializer)
    return _stepped(xs, Recurrence(RNN, units, *own, *drawn))[0]


_STATES = {lstm_cell: 2, gru_cell: 1, simple_rnn_cell: 1}


def _stepped(xs: Symbol | Sequence[Symbol], recurrence: Recurrence) -> tuple[Symbol, ...]:
    x, *states = [xs] if isinstance(xs, Symbol) else list(xs)
    features = int(require_shape(x, rank=2, axis=1)[1])
    count = recurrence.kind.states
    if not states:
        states = [zero_state(x, 0, recurrence.units)] * count
    if len(states) != count:
        raise BadAttribute(f"takes x and {count} states, {len(states)} states came")
    for state in states:
        if require_shape(state, rank=2)[1] != recurrence.units:
            raise ShapeMismatch(f"a state is [N, {recurrence.units}], came {state.type}")
    return recurrence.step(x, tuple(states), recurrence.weights(features, 1, x.dtype))


def zero_state(x: Symbol, axis: int, units: int) -> Symbol:
    """Zeros [N, units], where N is the size of x along `axis`."""
    size = require_shape(x)[axis]
    if isinstance(size, int):
        return constant(np.zeros((size, units)), str(x.dtype))
    batch = ops.shape(x, start=axis, end=axis + 1)
    wide = ops.concat([batch, constant(np.array([units], np.int64))], axis=0)
    return ops.expand(constant(np.zeros((1, 1)), str(x.dtype)), wide)


@layer
def rnn(
    xs: Symbol | Sequence[Symbol],
    cell: Step | Sequence[Step],
    *,
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
    initial_state: Symbol | Sequence[Symbol] | None = None,
    name: str | None = None,
) -> Result:
    """Any cell over a sequence [N, T, ...]: the last output, or all [N, T, ...], stacked.

    cell: a layer or function that takes (x of one step, *states) and gives the new states, the
    first of which is its output; or several, each fed with the output below. initial_state: the
    states of all cells in order, through the pipe or here; zeros where all are cells of ours.
    return_state: (output, *states). go_backwards: from the last step, outputs in that order.

    `lstm`, `gru` and `simple_rnn` are the same for our cells, and faster.

    Keras RNN, StackedRNNCells; ONNX Scan.
    """
    x, *states = [xs] if isinstance(xs, Symbol) else list(xs)
    if initial_state is not None:
        states = [initial_state] if isinstance(initial_state, Symbol) else list(initial_state)
    shape = require_shape(x)
    if len(shape) < 3:
        raise ShapeMismatch(f"takes a sequence [N, T, ...], came {x.type}")
    given = list(cell) if isinstance(cell, (list, tuple)) else [cell]
    cells: list[Any] = [settled(c, "rnn") for c in given]
    if not states:
        states = [s for c in cells for s in _zeros(c, x)]
    order = (1, 0, *range(2, len(shape)))
    flow = ops.transpose(x, perm=order)
    # Applied once outside, whose value nobody uses: the weights of the cells belong to the graph
    # around the body, as those of any layer do.
    start = ops.gather(flow, constant(np.int64(0)), axis=0)
    counts = _run(cells, start, states, None)[1]

    def body(*given: Symbol) -> tuple[Symbol, ...]:
        new, _ = _run(cells, given[-1], given[:-1], counts)
        return (*new, new[-counts[-1]])

    back = int(go_backwards)
    *final, y = ops.scan(body, states, [flow], input_directions=[back])
    order = (1, 0, *range(2, len(require_shape(y))))
    output = ops.transpose(y, perm=order) if return_sequences else final[-counts[-1]]
    return (output, *final) if return_state else output


def _zeros(cell: Any, x: Symbol) -> list[Symbol]:
    origin = cell.origin if isinstance(cell, Layer) else None
    if origin is None or origin.factory not in _STATES:
        raise BadAttribute(f"{label(cell)} is no cell of ours: its initial_state must be given")
    units = origin.factory.signature.bind(None, *origin.args, **origin.settings).arguments["units"]
    return [zero_state(x, 0, units)] * _STATES[origin.factory]


def _run(
    cells: Sequence[Any], x: Symbol, states: Sequence[Symbol], counts: Sequence[int] | None
) -> tuple[list[Symbol], list[int]]:
    """All new states after a step, and how many each cell has (found out where not known)."""
    new: list[Symbol] = []
    found: list[int] = []
    at = 0
    for i, cell in enumerate(cells):
        if counts is not None:
            count = counts[i]
        elif i == len(cells) - 1:
            count = len(states) - at
        else:
            origin = cell.origin if isinstance(cell, Layer) else None
            count = _STATES.get(origin.factory, 1) if origin is not None else 1
        result: Any = cell((x, *states[at : at + count]))
        results = [result] if isinstance(result, Symbol) else list(result)
        if len(results) != count:
            raise BadAttribute(f"{label(cell)} has {count} states and gave {len(results)}")
        new += results
        found.append(count)
        at += count
        x = results[0]
    return new, found
