"""LSTM, GRU and simple recurrent layers over sequences [N, T, F], by the ONNX operators.

Where an activation is none that the operators know, the same step runs in a Scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from neuralsym.core.symbol import Symbol
from neuralsym.layers.activation import Activation
from neuralsym.layers.base import Result
from neuralsym.layers.factory import layer
from neuralsym.layers.gates import GRU, LSTM, RNN, Recurrence
from neuralsym.layers.noise import check_rates
from neuralsym.layers.unrolling import Unfolding, unfold
from neuralsym.layers.weights import Init

MergeMode: TypeAlias = Literal["concat", "sum", "ave", "mul"] | None
"""How the two directions of a bidirectional layer are joined; None gives both."""


@layer
def lstm(
    x: Symbol | Sequence[Symbol],
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
    num_layers: int = 1,
    bidirectional: bool = False,
    merge_mode: MergeMode = "concat",
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
    mask: Symbol | None = None,
    lengths: Symbol | None = None,
    zero_output_for_mask: bool = False,
    initial_state: Symbol | Sequence[Symbol] | None = None,
    name: str | None = None,
) -> Result:
    """Long short-term memory: [N, T, F] -> the last output [N, units], or all [N, T, units].

    return_sequences: all outputs. return_state: (output, h, c), of a stack or of two directions
    (output, h, c, h, c, ...), layer by layer and forward first; `initial_state` takes the same
    states, each [N, units], and so does the pipe: `(x, h, c) | lstm(8)`.

    num_layers: a stack, each layer on all outputs of the one below. bidirectional: also from the
    end; merge_mode joins the two: "concat", "sum", "ave", "mul" or None for both. go_backwards:
    from the end only, the outputs in that order, as in Keras.

    mask: bool [N, T], steps that are skipped: the state stays and the output repeats (zeros with
    zero_output_for_mask, and always where bidirectional, as in Keras). lengths: integers [N], the
    steps of each entry, as torch's packed sequences: outputs beyond are zeros. A pair of `masking`
    comes through the pipe.

    Weights of all directions, as ONNX holds them, gates i, o, f, c: kernel [directions, 4*units,
    F], recurrent_kernel [directions, 4*units, units], bias [directions, 4*units], or 8*units with
    recurrent_bias, as torch has it; `_1`, `_2` ... behind the names tell the layers of a stack
    apart. `from_keras` and `from_torch` in neuralsym.layers.recurrent_weights bring their arrays
    into this form. unit_forget_bias: the forget gate's bias begins with ones (torch: it does not).
    dropout, recurrent_dropout: rates, which only matter in training.

    Keras LSTM, Bidirectional; torch LSTM (batch_first, recurrent_bias=True); Owl lstm; ONNX LSTM.
    """
    check_rates(dropout=dropout, recurrent_dropout=recurrent_dropout)
    own = (activation, recurrent_activation, use_bias, recurrent_bias)
    drawn = (kernel_initializer, recurrent_initializer, bias_initializer, unit_forget_bias)
    step = Recurrence(LSTM, units, *own, *drawn)
    how = Unfolding(
        num_layers, bidirectional, merge_mode, return_sequences, return_state, go_backwards,
        zero_output_for_mask,
    )  # fmt: skip
    return unfold(x, step, how, mask=mask, lengths=lengths, initial_state=initial_state)


@layer
def gru(
    x: Symbol | Sequence[Symbol],
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
    num_layers: int = 1,
    bidirectional: bool = False,
    merge_mode: MergeMode = "concat",
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
    mask: Symbol | None = None,
    lengths: Symbol | None = None,
    zero_output_for_mask: bool = False,
    initial_state: Symbol | Sequence[Symbol] | None = None,
    name: str | None = None,
) -> Result:
    """Gated recurrent units: [N, T, F] -> the last output [N, units], or all of them.

    Settings as in lstm, with one state, h. reset_after: the reset gate acts behind the product
    with the state, and the state has a bias of its own (Keras's default and torch's only form);
    otherwise before it, as in the paper (arXiv 1406.1078).

    Weights as in lstm, gates z, r, h: kernel [directions, 3*units, F], recurrent_kernel
    [directions, 3*units, units], bias [directions, 6*units], or 3*units without reset_after.

    Keras GRU, Bidirectional; torch GRU (batch_first); Owl gru; ONNX GRU.
    """
    check_rates(dropout=dropout, recurrent_dropout=recurrent_dropout)
    own = (activation, recurrent_activation, use_bias, reset_after)
    drawn = (kernel_initializer, recurrent_initializer, bias_initializer)
    step = Recurrence(GRU, units, *own, *drawn, reset_after=reset_after)
    how = Unfolding(
        num_layers, bidirectional, merge_mode, return_sequences, return_state, go_backwards,
        zero_output_for_mask,
    )  # fmt: skip
    return unfold(x, step, how, mask=mask, lengths=lengths, initial_state=initial_state)


@layer
def simple_rnn(
    x: Symbol | Sequence[Symbol],
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
    num_layers: int = 1,
    bidirectional: bool = False,
    merge_mode: MergeMode = "concat",
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
    mask: Symbol | None = None,
    lengths: Symbol | None = None,
    zero_output_for_mask: bool = False,
    initial_state: Symbol | Sequence[Symbol] | None = None,
    name: str | None = None,
) -> Result:
    """h' = activation(x W + h R + b): [N, T, F] -> the last h [N, units], or all of them.

    Settings and weights as in lstm, with one state and one gate.

    Keras SimpleRNN, Bidirectional; torch RNN (batch_first, recurrent_bias=True); Owl recurrent;
    ONNX RNN.
    """
    check_rates(dropout=dropout, recurrent_dropout=recurrent_dropout)
    own = (activation, None, use_bias, recurrent_bias)
    drawn = (kernel_initializer, recurrent_initializer, bias_initializer)
    step = Recurrence(RNN, units, *own, *drawn)
    how = Unfolding(
        num_layers, bidirectional, merge_mode, return_sequences, return_state, go_backwards,
        zero_output_for_mask,
    )  # fmt: skip
    return unfold(x, step, how, mask=mask, lengths=lengths, initial_state=initial_state)
