"""Smooth activations: sigmoids, gates made of them, and their piecewise-linear likenesses.

Formulas and defaults are those of Keras 3's functions unless the docstring says otherwise.
"""

from __future__ import annotations

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import plain_layer


@plain_layer
def sigmoid(x: Symbol, *, name: str | None = None) -> Symbol:
    """1 / (1 + exp(-x)).

    Keras sigmoid; torch Sigmoid; Owl Sigmoid; ONNX Sigmoid.
    """
    return ops.sigmoid(x)


@plain_layer
def hard_sigmoid(x: Symbol, *, name: str | None = None) -> Symbol:
    """clip(x / 6 + 1/2, 0, 1), as Keras 3 and torch have it.

    Keras 2 and Owl had 0.2 x + 0.5, which is also ONNX's default: alpha is written out.

    Keras hard_sigmoid; torch Hardsigmoid; Owl HardSigmoid (of slope 0.2); ONNX HardSigmoid.
    """
    return ops.hard_sigmoid(x, alpha=1.0 / 6.0, beta=0.5)


@plain_layer
def sparse_sigmoid(x: Symbol, *, name: str | None = None) -> Symbol:
    """clip((x + 1) / 2, 0, 1).

    Keras sparse_sigmoid; ONNX HardSigmoid with alpha 0.5.
    """
    return ops.hard_sigmoid(x, alpha=0.5, beta=0.5)


@plain_layer
def log_sigmoid(x: Symbol, *, name: str | None = None) -> Symbol:
    """log(sigmoid(x)) = -softplus(-x).

    Keras log_sigmoid; torch LogSigmoid; ONNX Neg, Softplus, Neg.
    """
    return -ops.softplus(-x)


@plain_layer
def silu(x: Symbol, *, name: str | None = None) -> Symbol:
    """x * sigmoid(x), also called swish.

    Keras silu, swish; torch SiLU; ONNX Sigmoid and Mul, which every opset has.
    """
    return x * ops.sigmoid(x)


swish = silu


@plain_layer
def hard_silu(x: Symbol, *, name: str | None = None) -> Symbol:
    """x * hard_sigmoid(x), also called hard_swish.

    Keras hard_silu, hard_swish; torch Hardswish; ONNX HardSwish.
    """
    return ops.hard_swish(x)


hard_swish = hard_silu


@plain_layer
def gelu(x: Symbol, approximate: bool | str = False, *, name: str | None = None) -> Symbol:
    """x * Phi(x), Phi being the normal distribution, or its tanh approximation.

    approximate: False or "none", True or "tanh", as Keras and torch say it; BadAttribute for
    another word.

    Keras gelu; torch GELU; ONNX Gelu.
    """
    ways = {False: "none", True: "tanh", "none": "none", "tanh": "tanh"}
    if approximate not in ways:
        raise BadAttribute(f"approximate={approximate!r}: True, False, 'none' or 'tanh'")
    return ops.gelu(x, approximate=ways[approximate])


@plain_layer
def tanh(x: Symbol, *, name: str | None = None) -> Symbol:
    """The hyperbolic tangent.

    Keras tanh; torch Tanh; Owl Tanh; ONNX Tanh.
    """
    return ops.tanh(x)


@plain_layer
def hard_tanh(
    x: Symbol, min_value: float = -1.0, max_value: float = 1.0, *, name: str | None = None
) -> Symbol:
    """clip(x, min_value, max_value), from -1 to 1 unless given.

    BadAttribute where min_value is not below max_value.

    Keras hard_tanh; torch Hardtanh (min_val, max_val); ONNX Clip.
    """
    if not min_value < max_value:
        raise BadAttribute(f"min_value={min_value}, max_value={max_value}: must be in order")
    return ops.clip(x, min_value, max_value)


@plain_layer
def softsign(x: Symbol, *, name: str | None = None) -> Symbol:
    """x / (1 + |x|).

    Keras softsign; torch Softsign; Owl Softsign; ONNX Softsign.
    """
    return ops.softsign(x)


@plain_layer
def softplus(
    x: Symbol, beta: float = 1.0, threshold: float | None = None, *, name: str | None = None
) -> Symbol:
    """log(1 + exp(beta * x)) / beta.

    threshold: where beta * x is above it the result is x itself; torch has 20, where float32 no
    longer shows a difference, so that None (none) gives the same. BadAttribute for a beta that is
    not positive.

    Keras softplus; torch Softplus; Owl Softplus; ONNX Softplus, with Mul and Where as needed.
    """
    if beta <= 0:
        raise BadAttribute(f"beta={beta}: must be positive")
    steep = x if beta == 1 else x * beta
    y = ops.softplus(steep)
    y = y if beta == 1 else y / beta
    return y if threshold is None else ops.where(steep > threshold, x, y)


@plain_layer
def mish(x: Symbol, *, name: str | None = None) -> Symbol:
    """x * tanh(softplus(x)).

    Keras mish; torch Mish; ONNX Mish.
    """
    return ops.mish(x)


@plain_layer
def exponential(x: Symbol, *, name: str | None = None) -> Symbol:
    """exp(x).

    Keras exponential; torch exp (a function); ONNX Exp.
    """
    return ops.exp(x)


@plain_layer
def glu(x: Symbol, axis: int = -1, *, name: str | None = None) -> Symbol:
    """a * sigmoid(b), a and b being the halves of x along axis, [..., 2 n] -> [..., n].

    ShapeMismatch for an open size there, BadAttribute for an odd one.

    Keras glu; torch GLU; ONNX Split, Sigmoid, Mul.
    """
    shape = require_shape(x, axis=axis)
    if shape[axis] % 2:
        raise BadAttribute(f"axis {axis} of {x.type} cannot be halved")
    a, b = ops.split(x, num_outputs=2, axis=axis)
    return a * ops.sigmoid(b)
