"""Activations: each a layer of its own, and `activation`, which finds them by name.

Formulas and defaults are Keras 3's functions unless the docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, did_you_mean
from neuralsym.layers.base import label, require_shape
from neuralsym.layers.factory import Factory, layer, plain_layer
from neuralsym.layers.weights import Init, weight

Activation: TypeAlias = str | Callable[[Symbol], Symbol] | None
"""The setting of other layers: a name, a layer or function of a symbol, or None for none."""


@plain_layer
def relu(
    x: Symbol,
    max_value: float | None = None,
    negative_slope: float = 0.0,
    threshold: float = 0.0,
    *,
    name: str | None = None,
) -> Symbol:
    """max(x, 0). Keras relu, torch ReLU; ONNX Relu.

    max_value: the largest result (Clip). threshold: below it x becomes
    negative_slope * (x - threshold). BadAttribute for a negative max_value or slope.
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
        y = ops.where(x >= threshold, x, (x - threshold) * negative_slope)
    return y if max_value is None else ops.min([y, max_value])


@plain_layer
def relu6(x: Symbol, *, name: str | None = None) -> Symbol:
    """min(max(x, 0), 6). Keras relu6, torch ReLU6; ONNX Clip."""
    return ops.clip(x, 0.0, 6.0)


@plain_layer
def leaky_relu(x: Symbol, negative_slope: float = 0.2, *, name: str | None = None) -> Symbol:
    """x where positive, negative_slope * x elsewhere; ONNX LeakyRelu.

    The default is that of Keras's function, as by `activation("leaky_relu")`; Keras's layer
    LeakyReLU has 0.3, torch and ONNX have 0.01.
    """
    return ops.leaky_relu(x, alpha=negative_slope)


@plain_layer
def prelu(
    x: Symbol,
    alpha_initializer: Init = "zeros",
    shared_axes: Sequence[int] | None = None,
    *,
    name: str | None = None,
) -> Symbol:
    """x where positive, alpha * x elsewhere, with a learned alpha; ONNX PRelu.

    alpha has the shape of x without the batch, with size 1 along `shared_axes`: (2, 3) gives one
    slope a channel, as torch's PReLU(channels) (which begins with 0.25). Keras PReLU.
    """
    shape = require_shape(x)
    for axis in shared_axes or ():
        if not -len(shape) <= axis < len(shape):
            raise BadAttribute(f"shared_axes={shared_axes}: {x.type} has no axis {axis}")
    shared = {a % len(shape) for a in shared_axes or ()}
    if 0 in shared:
        raise BadAttribute(f"shared_axes={shared_axes}: the batch axis 0 has no alpha")
    for axis in range(1, len(shape)):
        if axis not in shared:
            require_shape(x, axis=axis)
    sizes = [1 if i in shared else shape[i] for i in range(1, len(shape))]
    return ops.prelu(x, weight("alpha", sizes, alpha_initializer, dtype=x.dtype))


@plain_layer
def elu(x: Symbol, alpha: float = 1.0, *, name: str | None = None) -> Symbol:
    """x where positive, alpha * (exp(x) - 1) elsewhere. ONNX Elu."""
    return ops.elu(x, alpha=alpha)


@plain_layer
def selu(x: Symbol, *, name: str | None = None) -> Symbol:
    """The self-normalising scale * elu(x, alpha), scale 1.0507, alpha 1.6733. ONNX Selu."""
    return ops.selu(x)


@plain_layer
def celu(x: Symbol, alpha: float = 1.0, *, name: str | None = None) -> Symbol:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)). ONNX Celu."""
    return ops.celu(x, alpha=alpha)


@plain_layer
def gelu(x: Symbol, approximate: bool = False, *, name: str | None = None) -> Symbol:
    """x * Phi(x), or its tanh approximation. Keras and torch gelu; ONNX Gelu."""
    return ops.gelu(x, approximate="tanh" if approximate else "none")


@plain_layer
def silu(x: Symbol, *, name: str | None = None) -> Symbol:
    """x * sigmoid(x), also called swish. ONNX Sigmoid and Mul, which every opset has."""
    return x * ops.sigmoid(x)


swish = silu


@plain_layer
def hard_silu(x: Symbol, *, name: str | None = None) -> Symbol:
    """x * hard_sigmoid(x), also called hard_swish. ONNX HardSwish."""
    return ops.hard_swish(x)


hard_swish = hard_silu


@plain_layer
def sigmoid(x: Symbol, *, name: str | None = None) -> Symbol:
    """1 / (1 + exp(-x)). ONNX Sigmoid."""
    return ops.sigmoid(x)


@plain_layer
def hard_sigmoid(x: Symbol, *, name: str | None = None) -> Symbol:
    """clip(x / 6 + 1/2, 0, 1), as Keras 3 and torch have it.

    Keras 2 and Owl had 0.2 x + 0.5, which is also ONNX's default: alpha is written out.
    """
    return ops.hard_sigmoid(x, alpha=1.0 / 6.0, beta=0.5)


@plain_layer
def tanh(x: Symbol, *, name: str | None = None) -> Symbol:
    """The hyperbolic tangent. ONNX Tanh."""
    return ops.tanh(x)


@plain_layer
def softsign(x: Symbol, *, name: str | None = None) -> Symbol:
    """x / (1 + |x|). ONNX Softsign."""
    return ops.softsign(x)


@plain_layer
def softplus(x: Symbol, *, name: str | None = None) -> Symbol:
    """log(1 + exp(x)). ONNX Softplus."""
    return ops.softplus(x)


@plain_layer
def softmax(x: Symbol, axis: int = -1, *, name: str | None = None) -> Symbol:
    """exp(x) over its sum along one axis; the last by default. ONNX Softmax, as since opset 13."""
    return ops.softmax(x, axis=axis)


@plain_layer
def log_softmax(x: Symbol, axis: int = -1, *, name: str | None = None) -> Symbol:
    """The logarithm of softmax. ONNX LogSoftmax."""
    return ops.log_softmax(x, axis=axis)


@plain_layer
def exponential(x: Symbol, *, name: str | None = None) -> Symbol:
    """exp(x). ONNX Exp."""
    return ops.exp(x)


@plain_layer
def mish(x: Symbol, *, name: str | None = None) -> Symbol:
    """x * tanh(softplus(x)). ONNX Mish."""
    return ops.mish(x)


@plain_layer
def log_sigmoid(x: Symbol, *, name: str | None = None) -> Symbol:
    """log(sigmoid(x)) = -softplus(-x)."""
    return -ops.softplus(-x)


@plain_layer
def hard_tanh(x: Symbol, *, name: str | None = None) -> Symbol:
    """clip(x, -1, 1). torch Hardtanh; ONNX Clip."""
    return ops.clip(x, -1.0, 1.0)


@plain_layer
def tanh_shrink(x: Symbol, *, name: str | None = None) -> Symbol:
    """x - tanh(x). torch Tanhshrink."""
    return x - ops.tanh(x)


@plain_layer
def hard_shrink(x: Symbol, threshold: float = 0.5, *, name: str | None = None) -> Symbol:
    """x where |x| > threshold, 0 elsewhere. torch Hardshrink; ONNX Shrink."""
    return ops.shrink(x, lambd=threshold, bias=0.0)


@plain_layer
def soft_shrink(x: Symbol, threshold: float = 0.5, *, name: str | None = None) -> Symbol:
    """x moved towards 0 by threshold. torch Softshrink; ONNX Shrink."""
    return ops.shrink(x, lambd=threshold, bias=threshold)


@layer
def threshold(x: Symbol, threshold: float, value: float, *, name: str | None = None) -> Symbol:
    """x where x > threshold, value elsewhere. Keras and torch threshold; ONNX Greater, Where."""
    return ops.where(x > threshold, x, value)


@plain_layer
def thresholded_relu(x: Symbol, alpha: float = 1.0, *, name: str | None = None) -> Symbol:
    """x where x > alpha, 0 elsewhere. ONNX ThresholdedRelu. (Owl's TRelu is relu(x - alpha).)"""
    return ops.thresholded_relu(x, alpha=alpha)


@plain_layer
def glu(x: Symbol, axis: int = -1, *, name: str | None = None) -> Symbol:
    """a * sigmoid(b), a and b being the halves of x along axis. Keras and torch glu."""
    shape = require_shape(x, axis=axis)
    if shape[axis] % 2:
        raise BadAttribute(f"axis {axis} of {x.type} cannot be halved")
    a, b = ops.split(x, num_outputs=2, axis=axis)
    return a * ops.sigmoid(b)


@plain_layer
def squareplus(x: Symbol, b: float = 4.0, *, name: str | None = None) -> Symbol:
    """(x + sqrt(x * x + b)) / 2."""
    return (x + ops.sqrt(x * x + b)) * 0.5


@plain_layer
def sparse_plus(x: Symbol, *, name: str | None = None) -> Symbol:
    """0 up to -1, (x + 1)^2 / 4 up to 1, x beyond."""
    bow = ops.clip(x, -1.0, 1.0) + 1.0
    return bow * bow * 0.25 + ops.relu(x - 1.0)


@plain_layer
def sparse_sigmoid(x: Symbol, *, name: str | None = None) -> Symbol:
    """clip((x + 1) / 2, 0, 1). ONNX HardSigmoid with alpha 0.5."""
    return ops.hard_sigmoid(x, alpha=0.5, beta=0.5)


@plain_layer
def sparsemax(x: Symbol, axis: int = -1, *, name: str | None = None) -> Symbol:
    """The point of the simplex that is nearest to x along one axis (Martins, Astudillo 2016).

    ONNX: TopK sorts, CumSum and a count find the threshold, Relu subtracts it. The axis needs a
    fixed size.
    """
    shape = require_shape(x, axis=axis)
    size = int(shape[axis])
    ranked, _ = ops.top_k(x, [size], axis=axis)
    index = [size if a == axis % len(shape) else 1 for a in range(len(shape))]
    ranks = constant(np.arange(1.0, size + 1.0).reshape(index), str(x.dtype))
    total = ops.cum_sum(ranked, axis)
    inside = ops.cast(ranks * ranked + 1.0 > total, to=x.dtype)
    count = ops.reduce_sum(inside, [axis], keepdims=1)
    mass = ops.reduce_sum(ranked * inside, [axis], keepdims=1)
    return ops.relu(x - (mass - 1.0) / count)


@plain_layer
def identity_activation(x: Symbol, *, name: str | None = None) -> Symbol:
    """x itself: what Keras calls the activation "linear". Emits nothing."""
    return x


_ALL: list[Any] = [
    *(relu, relu6, leaky_relu, prelu, elu, selu, celu, gelu, silu, hard_silu, sigmoid),
    *(hard_sigmoid, log_sigmoid, tanh, hard_tanh, tanh_shrink, softsign, softplus, softmax),
    *(log_softmax, sparsemax, exponential, mish, hard_shrink, soft_shrink, threshold),
    *(thresholded_relu, glu, squareplus, sparse_plus, sparse_sigmoid),
]
NAMES: dict[str, Any] = {f.__name__: f for f in _ALL} | {
    "swish": silu,
    "hard_swish": hard_silu,
    "exp": exponential,
    "linear": identity_activation,
    "identity": identity_activation,
}
"""Every activation by its name; Keras's names, with those of torch and Owl where they differ."""

_LOOSE = {name.replace("_", ""): name for name in NAMES}


@layer
def activation(
    x: Symbol,
    /,
    function: str | Callable[[Symbol], Symbol],
    *,
    name: str | None = None,
    **settings: Any,
) -> Symbol:
    """An activation by name, or any function of a symbol.

    Names are Keras's; "ReLU", "HardSigmoid" and the like are understood. `settings` go to the
    activation of that name: `activation("softmax", axis=1)`. BadAttribute for an unknown name,
    with the nearest; TypeError for a setting that it does not have.
    """
    return activate(x, function, **settings)


def activate(x: Symbol, function: Activation, **settings: Any) -> Symbol:
    """x through what another layer's `activation=` says, in that layer's own scope."""
    if function is None:
        return x
    found: Any = find(function) if isinstance(function, str) else function
    if not isinstance(found, Factory):
        result = found(x, **settings)
    elif found is prelu or found not in NAMES.values():  # it may have weights: a layer inside
        result = found.make((), settings)(x)
    else:
        found.check((), settings)
        result = found.function(x, **settings)
    if not isinstance(result, Symbol):
        raise BadAttribute(
            f"activation={label(found)}: a function of a symbol gives a symbol, this one gave "
            f"{type(result).__name__}"
        )
    return result


def find(name: str) -> Any:
    """The activation called `name`; BadAttribute with the nearest if there is none."""
    key = name.lower().replace("_", "")
    if key not in _LOOSE:
        hint = did_you_mean(name.lower(), NAMES)
        raise BadAttribute(f"unknown activation {name!r}{hint}\n  known: {', '.join(NAMES)}")
    return NAMES[_LOOSE[key]]
