"""Layers around a layer: in both directions, at every step, with a normalised kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch, at_line, user_line
from neuralsym.layers.base import Layer, combine, label, require_shape
from neuralsym.layers.factory import check_setting
from neuralsym.layers.recurrent import MergeMode


def bidirectional(
    layer: Callable[[Any], Any], merge_mode: MergeMode = "concat", *, name: str | None = None
) -> Layer[Any, Any]:
    """A recurrent layer in both directions: of `lstm(8)` it makes `lstm(8, bidirectional=True)`.

    merge_mode: how the two outputs are joined: "concat", "sum", "ave", "mul", None for both.
    BadAttribute for a layer that has no other direction.

    Keras Bidirectional; torch LSTM, GRU and RNN (bidirectional=True); ONNX LSTM, GRU or RNN.
    """
    origin = layer.origin if isinstance(layer, Layer) else None
    if origin is None or "bidirectional" not in origin.factory.settings:
        raise BadAttribute(
            f"bidirectional takes lstm(...), gru(...) or simple_rnn(...), not {label(layer)}"
            f"{at_line(user_line())}"
        )
    settings = origin.settings | {"bidirectional": True, "merge_mode": merge_mode}
    if name is not None:
        settings["name"] = name
    made: Layer[Any, Any] = origin.factory.make(origin.args, settings)
    return made


def time_distributed(layer: Callable[[Any], Any]) -> Layer[Symbol, Symbol]:
    """A layer at every step: [N, T, ...] -> [N, T, ...], each step as an entry of the batch.

    The sizes behind the steps of what the layer gives must be fixed. ShapeMismatch for an input
    without steps, BadAttribute for a layer that gives several symbols.

    Keras TimeDistributed; ONNX Reshape, the layer, Reshape.
    """

    def build(parts: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], Any]:
        (part,) = parts

        def run(x: Symbol) -> Symbol:
            where = at_line(user_line())
            if not isinstance(x, Symbol):
                raise BadAttribute(
                    f"time_distributed takes one symbol, came {type(x).__name__}{where}"
                )
            if len(require_shape(x)) < 3:
                raise ShapeMismatch(f"time_distributed takes [N, T, ...], came {x.type}{where}")
            y = at_every_step(x, part)
            if not isinstance(y, Symbol):
                raise BadAttribute(
                    f"time_distributed: {label(part)} gave {type(y).__name__}, not one symbol"
                    f"{where}"
                )
            return y

        return run

    return combine("time_distributed", [layer], build)


def at_every_step(x: Symbol, part: Callable[[Symbol], Any]) -> Any:
    """What part gives for each step of x [N, T, ...], [N, T, ...]; what is no symbol, as it is."""
    shape = require_shape(x)
    y: object = part(ops.reshape(x, _sizes(x, [-1], 2)))
    if not isinstance(y, Symbol):
        return y
    inner = require_shape(y)
    if isinstance(shape[1], int):
        return ops.reshape(y, _sizes(y, [-1, shape[1]], 1))
    if isinstance(shape[0], int):
        return ops.reshape(y, _sizes(y, [shape[0], -1], 1))
    lead = ops.shape(x, start=0, end=2)
    tail = ops.shape(y, start=1)
    if all(isinstance(s, int) for s in inner[1:]):
        tail = constant(np.array(inner[1:], np.int64))
    return ops.reshape(y, ops.concat([lead, tail], axis=0))


def _sizes(x: Symbol, lead: list[int], skipped: int) -> Any:
    """The target of a Reshape: `lead`, then the sizes of x behind the first `skipped` axes."""
    tail = require_shape(x)[skipped:]
    if all(isinstance(s, int) for s in tail):
        return [*lead, *tail]
    known = constant(np.array(lead, np.int64))
    return ops.concat([known, ops.shape(x, start=skipped)], axis=0)


def spectral_norm(layer: Callable[[Any], Any], power_iterations: int = 1) -> Layer[Symbol, Any]:
    """A layer whose kernel was trained to have spectral norm 1: at inference the layer as it is.

    The power iterations run in training and leave the kernel divided by its norm; that kernel is
    what Keras stores and uses at inference. (torch stores the kernel before the division: divide
    it by its norm when loading.)

    Keras SpectralNormalization; torch parametrizations.spectral_norm; ONNX nothing.
    """
    check_setting("spectral_norm", "power_iterations", power_iterations, "int")
    if power_iterations < 1:
        raise BadAttribute(
            f"spectral_norm: power_iterations={power_iterations}: must be at least 1"
            f"{at_line(user_line())}"
        )
    return combine("spectral_norm", [layer], lambda parts: parts[0])
