"""One form for what can be written in several ways, so that kernels and fusing meet only that."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.registry import apply, call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.rewrite.pattern import Applied, P
from neuralsym.rewrite.rule import Result, Rule, RuleFunction, reject, rule

CLOSE = 1e-6
"""Constants of formulas in files are rounded: 1.4142135 is the square root of two."""


def _near(value: float) -> Any:
    return P.const(None, value, CLOSE)


def _close(value: float) -> Any:
    return lambda given: abs(given - value) <= CLOSE * abs(value)


# -- activations that are written out ----------------------------------------------------------
@rule(P.Mul("x", P.Sigmoid("x")))
def swish(x: Symbol) -> Result:
    """x * sigmoid(x) = swish(x)"""
    return ops.swish(x)


@rule(P.Mul("x", P.Tanh(P.Softplus("x"))))
def mish(x: Symbol) -> Result:
    """x * tanh(softplus(x)) = mish(x)"""
    return ops.mish(x)


@rule(P.Mul("x", P.HardSigmoid("x", alpha=_close(1 / 6), beta=_close(0.5))))
def hard_swish(x: Symbol) -> Result:
    """x * hard_sigmoid(x, 1/6, 1/2) = hard_swish(x)"""
    return ops.hard_swish(x)


_SIX = P.Clip(P.Add("x", _near(3.0)), P.const(None, 0.0), _near(6.0))
_GATE = P.either(P.Div(_SIX, _near(6.0)), P.Mul(_SIX, _near(1 / 6)))


def _hard_swish(x: Symbol) -> Result:
    """x * clip(x + 3, 0, 6) / 6 = hard_swish(x)"""
    return ops.hard_swish(x)


_HALF_AND_ERF = P.Add(
    P.Erf(P.either(P.Div("x", _near(math.sqrt(2))), P.Mul("x", _near(math.sqrt(0.5))))), _near(1.0)
)


def _gelu(x: Symbol) -> Result:
    """x * (1 + erf(x / sqrt(2))) / 2 = gelu(x)"""
    return ops.gelu(x)


def _rules(name: str, function: RuleFunction, *patterns: Applied) -> tuple[Rule, ...]:
    return tuple(Rule(name, pattern, function) for pattern in patterns)


_HARD_SWISH = _rules(
    "hard_swish_written_out",
    _hard_swish,
    P.Mul("x", _GATE),
    P.Div(P.Mul("x", _SIX), _near(6.0)),
    P.Mul(P.Mul("x", _SIX), _near(1 / 6)),
)
_GELU = _rules(
    "gelu_written_out",
    _gelu,
    P.Mul(P.Mul("x", _HALF_AND_ERF), _near(0.5)),
    P.Mul("x", P.Mul(_HALF_AND_ERF, _near(0.5))),
    P.Mul(P.Mul("x", _near(0.5)), _HALF_AND_ERF),
)


@rule(P.Clip("x", P.const(None, 0.0)))
def relu_of_clip(x: Symbol) -> Result:
    """clip(x, 0) = relu(x)"""
    return ops.relu(x)


@rule(P.Max("x", P.const(None, 0.0)).named("out"))
def relu_of_maximum(x: Symbol, out: Node) -> Result:
    """max(x, 0) = relu(x)"""
    if x.type != out.outputs[0].type:
        return reject("the zero widens the shape")
    return ops.relu(x)


@rule(P.Sum("x", "y"))
def add_of_sum(x: Symbol, y: Symbol) -> Result:
    """sum(x, y) = x + y"""
    return ops.add(x, y)


# -- windows -----------------------------------------------------------------------------------
@rule(P.ReduceMean("x", P.optional("axes")).named("mean"))
def global_average(x: Symbol, axes: Symbol | None, mean: Node) -> Result:
    """mean(x) over all spatial axes = global_average_pool(x)"""
    rank = x.rank
    known = None if axes is None else axes.known
    if rank is None or rank < 4 or known is None or not x.dtype.is_float:
        # The last of three axes is a layer norm's or a sequence's as often as a picture's.
        return reject("its axes are not known to be spatial")
    if sorted(int(a) % rank for a in known.reshape(-1)) != list(range(2, rank)):
        return reject("it takes the mean over other axes than the spatial ones")
    made = ops.global_average_pool(x)
    if mean.attr("keepdims"):
        return made
    return call("Squeeze", made, np.arange(2, rank, dtype=np.int64))


@rule(P.op("Conv", "MaxPool", "AveragePool")().named("window"))
def explicit_pads(window: Node) -> Result:
    """auto_pad over a known size = pads"""
    x = window.inputs[0]
    assert x is not None
    mode = window.attr("auto_pad")
    if mode in ("NOTSET", None):
        return reject("its pads are explicit")
    sizes = [s for s in (x.shape or ())[2:] if isinstance(s, int)]
    if x.shape is None or len(sizes) != len(x.shape) - 2:
        return reject("its padding depends on sizes of the run")
    kernel = window.attr("kernel_shape")
    if kernel is None:
        w = window.inputs[1]
        kernel = None if w is None or w.shape is None else w.shape[2:]
    if kernel is None or not all(isinstance(k, int) for k in kernel):
        return reject("the size of its window is not known")
    ones = (1,) * len(sizes)
    strides, dilations = window.attr("strides") or ones, window.attr("dilations") or ones
    begins: list[int] = []
    ends: list[int] = []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        steps = -(-size // stride)
        total = (steps - 1) * stride + (k - 1) * dilation + 1 - size if mode != "VALID" else 0
        if total < 0:
            return reject("its strides leave out elements, which runtimes see differently")
        small, large = total // 2, total - total // 2
        begins.append(large if mode == "SAME_LOWER" else small)
        ends.append(small if mode == "SAME_LOWER" else large)
    attrs = {k: v for k, v in window.attrs.items() if k != "auto_pad"}
    if mode != "VALID":
        attrs["pads"] = (*begins, *ends)
    else:
        attrs.pop("pads", None)
    return apply(window.op, window.inputs, attrs, outputs=len(window.outputs))


CANONICAL: tuple[Rule, ...] = (
    swish,
    mish,
    hard_swish,
    *_HARD_SWISH,
    *_GELU,
    relu_of_clip,
    relu_of_maximum,
    add_of_sum,
    global_average,
    explicit_pads,
)
