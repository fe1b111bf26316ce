"""What the recurrent layers and their cells share: gates, weights as ONNX holds them, one step.

Weights of all directions are one tensor each, in the layout and gate order of the ONNX operators:
kernel [directions, gates*units, features], recurrent_kernel [directions, gates*units, units], bias
[directions, gates*units], or twice that where the recurrent product has a bias of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.layers.activation import NAMES, Activation, activate, find
from neuralsym.layers.base import require_between, require_shape
from neuralsym.layers.initializers import Fans, Initializer, fans, get
from neuralsym.layers.streams import Stream
from neuralsym.layers.weights import Init, weight, with_entries
from neuralsym.layers.window import LARGEST_AXIS


@dataclass(frozen=True)
class Kind:
    """One of the three recurrences: how many gates and states it has."""

    gates: int
    states: int


LSTM = Kind(gates=4, states=2)  # i o f c
GRU = Kind(gates=3, states=1)  # z r h
RNN = Kind(gates=1, states=1)
KINDS = {"lstm": LSTM, "gru": GRU, "simple_rnn": RNN}

_FORGET = 2
"""The place of LSTM's forget gate in ONNX's order."""

_FUSED: dict[str, tuple[str, tuple[float, ...]]] = {
    "linear": ("Affine", (1.0, 0.0)),
    "tanh": ("Tanh", ()),
    "sigmoid": ("Sigmoid", ()),
    "relu": ("Relu", ()),
    "hard_sigmoid": ("HardSigmoid", (1 / 6, 0.5)),
    "softsign": ("Softsign", ()),
    "softplus": ("Softplus", ()),
    "elu": ("Elu", (1.0,)),
    "leaky_relu": ("LeakyRelu", (0.2,)),
}
"""Activations that the ONNX operators know: the name there, and its parameters alpha and beta."""


@dataclass(frozen=True)
class PerDirection(Initializer):
    """Each entry of the first axis drawn by itself, as a weight of one direction."""

    inner: Initializer

    @property
    def needs_fans(self) -> bool:  # type: ignore[override]
        return self.inner.needs_fans

    def _fill(self, out: NDArray[Any], stream: Stream, fans: Fans) -> None:
        for i, part in enumerate(out):
            own = stream if i == 0 else Stream(stream.seed, f"{stream.name}/{i}")
            self.inner._fill(part, own, fans)


@dataclass(frozen=True)
class Recurrence:
    """The settings of a recurrent layer or cell that make its weights and its step."""

    kind: Kind
    units: int
    activation: Activation
    recurrent_activation: Activation
    use_bias: bool
    recurrent_bias: bool
    kernel_initializer: Init
    recurrent_initializer: Init
    bias_initializer: Init
    unit_forget_bias: bool = False
    reset_after: bool = True

    def __post_init__(self) -> None:
        require_between("units", self.units, 1, LARGEST_AXIS)

    def weights(self, features: int, directions: int, dtype: Any, suffix: str = "") -> Weights:
        """The weights of one layer, made or found; suffix tells the layers of a stack apart."""
        units, gated = self.units, self.kind.gates * self.units

        def made(name: str, shape: tuple[int, ...], init: Init, size: Fans) -> Symbol:
            if not isinstance(init, np.ndarray):
                init = PerDirection(get(init))
            return weight(name + suffix, shape, init, fans=size, dtype=dtype)

        shape = (directions, gated, features)
        kernel = made("kernel", shape, self.kernel_initializer, fans(shape, "recurrent"))
        shape = (directions, gated, units)
        size = fans(shape, "recurrent")
        recurrent = made("recurrent_kernel", shape, self.recurrent_initializer, size)
        bias = None
        if self.use_bias:
            wide = gated * (2 if self.recurrent_bias else 1)
            init = self.bias_initializer
            if self.unit_forget_bias:
                init = with_entries(init, 1.0, _FORGET * units, (_FORGET + 1) * units)
            size = (float(wide), float(wide))
            bias = made("bias", (directions, wide), init, size)
        return Weights(kernel, recurrent, bias)

    def fused(self) -> dict[str, Any] | None:
        """The attributes by which the ONNX operator says the activations; None where it cannot."""
        chosen = [_known(self.activation)]
        if self.kind is not RNN:
            chosen.insert(0, _known(self.recurrent_activation))
        if self.kind is LSTM:
            chosen.append(chosen[-1])
        functions = [f for f in chosen if f is not None]
        if len(functions) != len(chosen):
            return None
        return {
            "activations": [name for name, _ in functions],
            "activation_alpha": [v[0] for _, v in functions if v] or None,
            "activation_beta": [v[1] for _, v in functions if len(v) > 1] or None,
        }

    def step(self, x: Symbol, states: tuple[Symbol, ...], made: Weights) -> tuple[Symbol, ...]:
        """The next states from x [N, features] and the last ones [N, units], one direction."""
        h = states[0]
        bias, again = made.halves(self.kind.gates * self.units)
        inner: Callable[[Symbol], Symbol] = partial(activate, function=self.activation)
        gate: Callable[[Symbol], Symbol] = partial(activate, function=self.recurrent_activation)
        kernel, recurrent = ops.squeeze(made.kernel, [0]), ops.squeeze(made.recurrent, [0])
        if self.kind is GRU:
            return (self._gru(x, h, (kernel, recurrent, bias, again), gate, inner),)
        y = _affine(x, kernel, bias) + _affine(h, recurrent, again)
        if self.kind is RNN:
            return (inner(y),)
        i, o, f, c = ops.split(y, None, axis=1, num_outputs=4)
        cell = gate(f) * states[1] + gate(i) * inner(c)
        return gate(o) * inner(cell), cell

    def _gru(
        self,
        x: Symbol,
        h: Symbol,
        made: tuple[Symbol, Symbol, Symbol | None, Symbol | None],
        gate: Callable[[Symbol], Symbol],
        inner: Callable[[Symbol], Symbol],
    ) -> Symbol:
        kernel, recurrent, bias, again = made
        xz, xr, xh = ops.split(_affine(x, kernel, bias), None, axis=1, num_outputs=3)
        if self.reset_after:
            hz, hr, hh = ops.split(_affine(h, recurrent, again), None, axis=1, num_outputs=3)
            fresh = inner(xh + gate(xr + hr) * hh)
        else:
            sizes = [2 * self.units, self.units]
            early, late = ops.split(recurrent, sizes, axis=0)
            low, high = (None, None) if again is None else ops.split(again, sizes, axis=0)
            hz, hr = ops.split(_affine(h, early, low), None, axis=1, num_outputs=2)
            fresh = inner(xh + _affine(gate(xr + hr) * h, late, high))
        z = gate(xz + hz)
        return z * h + (1.0 - z) * fresh


@dataclass(frozen=True)
class Weights:
    """The three weights of a layer, of all its directions."""

    kernel: Symbol
    recurrent: Symbol
    bias: Symbol | None

    def onnx_bias(self, gated: int) -> Symbol | None:
        """B of the operator: both halves, the second zeros where there is no such bias."""
        if self.bias is None:
            return None
        directions, wide = require_shape(self.bias)
        if wide == 2 * gated:
            return self.bias
        zeros = constant(np.zeros((directions, gated)), str(self.bias.dtype))
        return ops.concat([self.bias, zeros], axis=1)

    def halves(self, gated: int) -> tuple[Symbol | None, Symbol | None]:
        """The biases of the input's and of the state's product, of the first direction."""
        if self.bias is None:
            return None, None
        flat = ops.squeeze(self.bias, [0])
        if require_shape(self.bias)[1] == gated:
            return flat, None
        first, second = ops.split(flat, [gated, gated], axis=0)
        return first, second


def _affine(x: Symbol, kernel: Symbol, bias: Symbol | None) -> Symbol:
    return ops.gemm(x, kernel, bias, transB=1)


def _known(function: Activation) -> tuple[str, tuple[float, ...]] | None:
    if function is None:
        return _FUSED["linear"]
    found = find(function) if isinstance(function, str) else function
    for name, made in NAMES.items():
        if made is found and name in _FUSED:
            return _FUSED[name]
    return None
