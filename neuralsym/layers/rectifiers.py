"""Activations that let one side of a threshold pass: ReLU and its relatives, and the shrinks.

Formulas and defaults are those of Keras 3's functions unless the docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer, plain_layer
from neuralsym.layers.weights import Init, weight


@plain_layer
def relu(
    x: Symbol,
    max_value: float | None = None,
    negative_slope: float = 0.0,
    threshold: float = 0.0,
    *,
    name: str | None = None,
) -> Symbol:
    """max(x, 0), of any shape.

    max_value: the largest result. threshold: below it x becomes negative_slope * (x - threshold).
    BadAttribute for a negative max_value or slope.

    Keras ReLU; torch ReLU; Owl Relu; ONNX Relu, or Clip, LeakyRelu, Where as the settings need.
    """
    if max_value is not None and max_value < 0:
        raise BadAttribute(f"max_value={max_value}: must not be negative")
    if negative_slope < 0:
        raise BadAttribute(f"negative_slope={negative_slope}: must not be negative")
    if threshold == 0 and negative_slope == 0:
        return ops.relu(x) if max_value is None else ops.clip(x, 0.0, max_value)
    if threshold == 0:
        y = ops.leaky_relu(x, alpha=negative_slope)
    else:
        below = (x - threshold) * negative_slope if negative_slope else 0.0
        y = ops.where(x < threshold, below, x)
    return y if max_value is None else ops.min([y, max_value])


@plain_layer
def relu6(x: Symbol, *, name: str | None = None) -> Symbol:
    """min(max(x, 0), 6).

    Keras relu6; torch ReLU6; Owl Relu6; ONNX Clip.
    """
    return ops.clip(x, 0.0, 6.0)


@plain_layer
def leaky_relu(x: Symbol, negative_slope: float = 0.2, *, name: str | None = None) -> Symbol:
    """x where positive, negative_slope * x elsewhere.

    The default is that of Keras's function, as by `activation("leaky_relu")`; Keras's layer
    LeakyReLU has 0.3, torch and ONNX have 0.01.

    Keras leaky_relu, LeakyReLU; torch LeakyReLU; Owl LeakyRelu; ONNX LeakyRelu.
    """
    return ops.leaky_relu(x, alpha=negative_slope)


@plain_layer
def rrelu(
    x: Symbol, lower: float = 1 / 8, upper: float = 1 / 3, *, name: str | None = None
) -> Symbol:
    """leaky_relu of the mean of lower and upper: the slope is random in training only.

    BadAttribute where lower is above upper.

    torch RReLU; ONNX LeakyRelu.
    """
    if not lower <= upper:
        raise BadAttribute(f"lower={lower}, upper={upper}: must be in order")
    return ops.leaky_relu(x, alpha=(lower + upper) / 2)


@plain_layer
def prelu(
    x: Symbol,
    alpha_initializer: Init = "zeros",
    shared_axes: Sequence[int] | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """x where positive, alpha * x elsewhere, with a learned alpha.

    alpha has the shape of x without the batch, with size 1 along `shared_axes`: (2, 3) gives one
    slope a channel, as torch's PReLU(channels), (1, 2, 3) a single one, as PReLU() (torch begins
    with 0.25). BadAttribute for an axis that is not there or the batch, ShapeMismatch for an open
    size that is not shared.

    Keras PReLU; torch PReLU; ONNX PRelu.
    """
    shape = require_shape(x)
    axes = [] if shared_axes is None else list(shared_axes)
    for axis in axes:
        if not -len(shape) <= axis < len(shape):
            raise BadAttribute(f"shared_axes={shared_axes}: {x.type} has no axis {axis}")
    shared = {a % len(shape) for a in axes}
    if 0 in shared:
        raise BadAttribute(f"shared_axes={shared_axes}: the batch axis 0 has no alpha")
    for axis in range(1, len(shape)):
        if axis not in shared:
            require_shape(x, axis=axis)
    sizes = [1 if i in shared else shape[i] for i in range(1, len(shape))]
    return ops.prelu(x, weight("alpha", sizes, alpha_initializer, dtype=x.dtype))


@plain_layer
def elu(x: Symbol, alpha: float = 1.0, *, name: str | None = None) -> Symbol:
    """x where positive, alpha * (exp(x) - 1) elsewhere.

    Keras ELU; torch ELU; Owl Elu; ONNX Elu.
    """
    return ops.elu(x, alpha=alpha)


@plain_layer
def selu(x: Symbol, *, name: str | None = None) -> Symbol:
    """The self-normalising scale * elu(x, alpha), scale 1.0507, alpha 1.6733.

    Keras selu; torch SELU; ONNX Selu.
    """
    return ops.selu(x)


@plain_layer
def celu(x: Symbol, alpha: float = 1.0, *, name: str | None = None) -> Symbol:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).

    BadAttribute for an alpha of 0.

    Keras celu; torch CELU; ONNX Celu.
    """
    if alpha == 0:
        raise BadAttribute("alpha=0: must not be zero, x is divided by it")
    return ops.celu(x, alpha=alpha)


@layer
def threshold(x: Symbol, threshold: float, value: float, *, name: str | None = None) -> Symbol:
    """x where x > threshold, value elsewhere.

    Keras threshold; torch Threshold; ONNX LessOrEqual, Where.
    """
    return ops.where(x <= threshold, value, x)


@plain_layer
def thresholded_relu(x: Symbol, alpha: float = 1.0, *, name: str | None = None) -> Symbol:
    """x where x > alpha, 0 elsewhere. (Owl's TRelu is relu(x - alpha).)

    torch Threshold(alpha, 0); ONNX ThresholdedRelu.
    """
    return ops.thresholded_relu(x, alpha=alpha)


def _shrink_limit(threshold: float) -> None:
    if not threshold >= 0:
        raise BadAttribute(f"threshold={threshold}: must not be negative")


@plain_layer
def hard_shrink(x: Symbol, threshold: float = 0.5, *, name: str | None = None) -> Symbol:
    """x where |x| > threshold, 0 elsewhere.

    BadAttribute for a negative threshold.

    Keras hard_shrink; torch Hardshrink; ONNX Shrink.
    """
    _shrink_limit(threshold)
    return ops.shrink(x, lambd=threshold, bias=0.0)


@plain_layer
def soft_shrink(x: Symbol, threshold: float = 0.5, *, name: str | None = None) -> Symbol:
    """x moved towards 0 by threshold.

    BadAttribute for a negative threshold.

    Keras soft_shrink; torch Softshrink; ONNX Shrink.
    """
    _shrink_limit(threshold)
    return ops.shrink(x, lambd=threshold, bias=threshold)


@plain_layer
def tanh_shrink(x: Symbol, *, name: str | None = None) -> Symbol:
    """x - tanh(x).

    Keras tanh_shrink; torch Tanhshrink; ONNX Tanh, Sub.
    """
    return x - ops.tanh(x)


@plain_layer
def sparse_plus(x: Symbol, *, name: str | None = None) -> Symbol:
    """0 up to -1, (x + 1)^2 / 4 up to 1, x beyond.

    Keras sparse_plus; ONNX Clip, Mul, Relu, Add.
    """
    bow = ops.clip(x, -1.0, 1.0) + 1.0
    return bow * bow * 0.25 + ops.relu(x - 1.0)


@plain_layer
def squareplus(x: Symbol, b: float = 4.0, *, name: str | None = None) -> Symbol:
    """(x + sqrt(x * x + b)) / 2.

    BadAttribute for a negative b.

    Keras squareplus; ONNX Mul, Add, Sqrt.
    """
    if b < 0:
        raise BadAttribute(f"b={b}: must not be negative")
    return (x + ops.sqrt(x * x + b)) * 0.5
