"""LSTM whose products are convolutions, over sequences of images: [N, T, C, *space]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.activation import Activation, activate
from neuralsym.layers.base import Result, require_shape
from neuralsym.layers.convolution import window
from neuralsym.layers.factory import layer
from neuralsym.layers.initializers import fans
from neuralsym.layers.noise import check_rates
from neuralsym.layers.weights import Init, bias_weight, weight, with_entries
from neuralsym.layers.window import Padding, Sizes, axis_sizes
from neuralsym.layers.wrappers import at_every_step


def _conv_lstm(
    xs: Symbol | Sequence[Symbol],
    rank: int,
    filters: int,
    kernel_size: Sizes,
    strides: Sizes,
    padding: Padding,
    dilation_rate: Sizes,
    activations: tuple[Activation, Activation],
    use_bias: bool,
    unit_forget_bias: bool,
    initializers: tuple[Init, Init, Init],
    shown: tuple[bool, bool, bool],
) -> Result:
    x, *states = [xs] if isinstance(xs, Symbol) else list(xs)
    channels = int(require_shape(x, rank=rank + 3, axis=2)[2])
    if filters < 1:
        raise BadAttribute(f"filters={filters}: must be at least 1")
    if len(states) not in (0, 2):
        raise BadAttribute(f"takes x, or x with the states h and c; {len(states)} states came")
    kernel = axis_sizes(kernel_size, rank, "kernel_size")
    shape = (4 * filters, channels, *kernel)
    w = weight("kernel", shape, initializers[0], fans=fans(shape, "conv"), dtype=x.dtype)
    shape = (4 * filters, filters, *kernel)
    r = weight("recurrent_kernel", shape, initializers[1], fans=fans(shape, "conv"), dtype=x.dtype)
    init = initializers[2]
    if unit_forget_bias:
        init = with_entries(init, 1.0, filters, 2 * filters)
    bias = bias_weight(x, 4 * filters, use_bias, init)

    def project(frames: Symbol) -> Symbol:
        settings: dict[str, Any] = window(frames, kernel, strides, dilation_rate, padding)
        return ops.conv(frames, w, bias, **settings)

    order = (1, 0, *range(2, rank + 3))
    z = ops.transpose(at_every_step(x, project), perm=order)
    if not states:
        wide = constant(np.array([filters], np.int64))
        size = ops.concat([ops.shape(z, start=1, end=2), wide, ops.shape(z, start=3)], axis=0)
        zero = ops.expand(constant(np.zeros((1,) * (rank + 2)), str(x.dtype)), size)
        states = [zero, zero]
    before = [(k - 1) // 2 for k in kernel]
    pads = [*before, *(k - 1 - b for k, b in zip(kernel, before, strict=True))]

    def body(h: Symbol, c: Symbol, here: Symbol) -> tuple[Symbol, Symbol, Symbol]:
        gates = ops.split(here + ops.conv(h, r, pads=pads), None, axis=1, num_outputs=4)
        i, f, inner, o = gates
        i, f, o = (activate(g, activations[1]) for g in (i, f, o))
        c = f * c + i * activate(inner, activations[0])
        h = o * activate(c, activations[0])
        return h, c, h

    sequences, with_state, backwards = shown
    h, c, y = ops.scan(body, states, [z], input_directions=[int(backwards)])
    output = ops.transpose(y, perm=order) if sequences else h
    return (output, h, c) if with_state else output


@layer
def conv_lstm1d(
    xs: Symbol | Sequence[Symbol],
    filters: int,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    dilation_rate: Sizes = 1,
    activation: Activation = "tanh",
    recurrent_activation: Activation = "sigmoid",
    use_bias: bool = True,
    unit_forget_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    recurrent_initializer: Init = "orthogonal",
    bias_initializer: Init = "zeros",
    dropout: float = 0.0,
    recurrent_dropout: float = 0.0,
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
    name: str | None = None,
) -> Result:
    """lstm with convolutions over one axis: [N, T, C, W] -> [N, filters, W']; see conv_lstm2d.

    Keras ConvLSTM1D; ONNX Conv and Scan.
    """
    check_rates(dropout=dropout, recurrent_dropout=recurrent_dropout)
    return _conv_lstm(
        xs, 1, filters, kernel_size, strides, padding, dilation_rate,
        (activation, recurrent_activation), use_bias, unit_forget_bias,
        (kernel_initializer, recurrent_initializer, bias_initializer),
        (return_sequences, return_state, go_backwards),
    )  # fmt: skip


@layer
def conv_lstm2d(
    xs: Symbol | Sequence[Symbol],
    filters: int,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    dilation_rate: Sizes = 1,
    activation: Activation = "tanh",
    recurrent_activation: Activation = "sigmoid",
    use_bias: bool = True,
    unit_forget_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    recurrent_initializer: Init = "orthogonal",
    bias_initializer: Init = "zeros",
    dropout: float = 0.0,
    recurrent_dropout: float = 0.0,
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
    name: str | None = None,
) -> Result:
    """lstm with convolutions over images: [N, T, C, H, W] -> [N, filters, H', W'].

    The input is convolved as by conv2d (padding "same" unless given; Keras: "valid"), the state
    always with padding "same". return_sequences: [N, T, filters, H', W']; return_state,
    go_backwards and first states as in lstm: `(x, h, c) | conv_lstm2d(...)`. Weights: kernel
    [4*filters, C, kh, kw], recurrent_kernel [4*filters, filters, kh, kw], bias [4*filters], gates
    i, f, c, o as in Keras. arXiv 1506.04214.

    Keras ConvLSTM2D; ONNX Conv and Scan.
    """
    check_rates(dropout=dropout, recurrent_dropout=recurrent_dropout)
    return _conv_lstm(
        xs, 2, filters, kernel_size, strides, padding, dilation_rate,
        (activation, recurrent_activation), use_bias, unit_forget_bias,
        (kernel_initializer, recurrent_initializer, bias_initializer),
        (return_sequences, return_state, go_backwards),
    )  # fmt: skip


@layer
def conv_lstm3d(
    xs: Symbol | Sequence[Symbol],
    filters: int,
    kernel_size: Sizes,
    strides: Sizes = 1,
    padding: Padding = "same",
    *,
    dilation_rate: Sizes = 1,
    activation: Activation = "tanh",
    recurrent_activation: Activation = "sigmoid",
    use_bias: bool = True,
    unit_forget_bias: bool = True,
    kernel_initializer: Init = "glorot_uniform",
    recurrent_initializer: Init = "orthogonal",
    bias_initializer: Init = "zeros",
    dropout: float = 0.0,
    recurrent_dropout: float = 0.0,
    return_sequences: bool = False,
    return_state: bool = False,
    go_backwards: bool = False,
    name: str | None = None,
) -> Result:
    """lstm with convolutions over volumes, [N, T, C, D, H, W] -> [N, filters, ...]: as conv_lstm2d.

    Keras ConvLSTM3D; ONNX Conv and Scan.
    """
    check_rates(dropout=dropout, recurrent_dropout=recurrent_dropout)
    return _conv_lstm(
        xs, 3, filters, kernel_size, strides, padding, dilation_rate,
        (activation, recurrent_activation), use_bias, unit_forget_bias,
        (kernel_initializer, recurrent_initializer, bias_initializer),
        (return_sequences, return_state, go_backwards),
    )  # fmt: skip
