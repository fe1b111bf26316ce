"""Rules of differentiation of operators that work on one element at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from neuralsym.core.registry import call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.ops.derivatives import (
    RULES,
    Given,
    number,
    operand,
    rule,
    summed_to,
    the,
    through,
    zeros_like,
)

Slope = Callable[[Node, Symbol, Symbol], Symbol]
"""From a node, its input x and its output y: the slope of y at x."""


def _where(condition: Symbol, a: Symbol, b: Symbol) -> Symbol:
    return call("Where", condition, a, b)


def _sigmoid_of(x: Symbol) -> Symbol:
    return call("Sigmoid", x)


def _positive(x: Symbol) -> Symbol:
    return x > number(0, x)


def _leaky(node: Node, x: Symbol, y: Symbol) -> Symbol:
    return _where(_positive(x), number(1, x), number(node.attr("alpha"), x))


def _elu(node: Node, x: Symbol, y: Symbol) -> Symbol:
    alpha = number(node.attr("alpha"), x)
    return _where(_positive(x), number(1, x), alpha * call("Exp", x))


def _selu(node: Node, x: Symbol, y: Symbol) -> Symbol:
    alpha, gamma = number(node.attr("alpha"), x), number(node.attr("gamma"), x)
    return gamma * _where(_positive(x), number(1, x), alpha * call("Exp", x))


def _celu(node: Node, x: Symbol, y: Symbol) -> Symbol:
    return _where(_positive(x), number(1, x), call("Exp", x / number(node.attr("alpha"), x)))


def _hard_sigmoid(node: Node, x: Symbol, y: Symbol) -> Symbol:
    inside = call("And", y > number(0, x), y < number(1, x))
    return _where(inside, number(node.attr("alpha"), x), number(0, x))


def _hard_swish(node: Node, x: Symbol, y: Symbol) -> Symbol:
    middle = (x + x + number(3, x)) / number(6, x)
    high = _where(x >= number(3, x), number(1, x), middle)
    return _where(x <= number(-3, x), number(0, x), high)


def _gelu(node: Node, x: Symbol, y: Symbol) -> Symbol:
    half, one = number(0.5, x), number(1, x)
    if node.attr("approximate") == "tanh":
        scale, cubic = number(math.sqrt(2 / math.pi), x), number(0.044715, x)
        t = call("Tanh", scale * (x + cubic * x * x * x))
        inner = scale * (one + number(3, x) * cubic * x * x)
        return half * (one + t) + half * x * (one - t * t) * inner
    cdf = half * (one + call("Erf", x / number(math.sqrt(2), x)))
    pdf = call("Exp", -half * x * x) / number(math.sqrt(2 * math.pi), x)
    return cdf + x * pdf


def _swish(node: Node, x: Symbol, y: Symbol) -> Symbol:
    alpha = number(node.attr("alpha"), x)
    s = _sigmoid_of(alpha * x)
    return s + alpha * x * s * (number(1, x) - s)


def _mish(node: Node, x: Symbol, y: Symbol) -> Symbol:
    t = call("Tanh", call("Softplus", x))
    return t + x * (number(1, x) - t * t) * _sigmoid_of(x)


def _threshold(node: Node, x: Symbol, y: Symbol) -> Symbol:
    return _where(x > number(node.attr("alpha"), x), number(1, x), number(0, x))


SLOPES: dict[str, Slope] = {
    "Abs": lambda n, x, y: call("Sign", x),
    "Acos": lambda n, x, y: number(-1, x) / call("Sqrt", number(1, x) - x * x),
    "Acosh": lambda n, x, y: number(1, x) / call("Sqrt", x * x - number(1, x)),
    "Asin": lambda n, x, y: number(1, x) / call("Sqrt", number(1, x) - x * x),
    "Asinh": lambda n, x, y: number(1, x) / call("Sqrt", x * x + number(1, x)),
    "Atan": lambda n, x, y: number(1, x) / (number(1, x) + x * x),
    "Atanh": lambda n, x, y: number(1, x) / (number(1, x) - x * x),
    "Celu": _celu,
    "Cos": lambda n, x, y: -call("Sin", x),
    "Cosh": lambda n, x, y: call("Sinh", x),
    "Elu": _elu,
    "Erf": lambda n, x, y: number(2 / math.sqrt(math.pi), x) * call("Exp", -(x * x)),
    "Exp": lambda n, x, y: y,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "LeakyRelu": _leaky,
    "Log": lambda n, x, y: number(1, x) / x,
    "Mish": _mish,
    "Neg": lambda n, x, y: number(-1, x),
    "Reciprocal": lambda n, x, y: -(y * y),
    "Relu": lambda n, x, y: _where(_positive(x), number(1, x), number(0, x)),
    "Selu": _selu,
    "Sigmoid": lambda n, x, y: y * (number(1, x) - y),
    "Sin": lambda n, x, y: call("Cos", x),
    "Sinh": lambda n, x, y: call("Cosh", x),
    "Softplus": lambda n, x, y: _sigmoid_of(x),
    "Softsign": lambda n, x, y: _inverse_square(number(1, x) + call("Abs", x)),
    "Sqrt": lambda n, x, y: number(0.5, x) / y,
    "Swish": _swish,
    "Tan": lambda n, x, y: number(1, x) + y * y,
    "Tanh": lambda n, x, y: number(1, x) - y * y,
    "ThresholdedRelu": _threshold,
}
"""The slope of each function of one number. At a corner it is that of the left side, 0 of Abs."""


def _inverse_square(x: Symbol) -> Symbol:
    return number(1, x) / (x * x)


def _of_one(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    return [the(given) * SLOPES[node.op_type](node, operand(node, 0), node.outputs[0])]


RULES.update(dict.fromkeys(SLOPES, _of_one))


@rule("Ceil", "Floor", "Round", "Sign")
def _flat(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    return [None]


@rule("Identity")
def _identity(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    return [the(given)]


@rule("Cast", "CastLike")
def _cast(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    return [call("CastLike", the(given), operand(node, 0)), None][: len(node.inputs)]


# -- two and more ------------------------------------------------------------------------------
@rule("Add")
def _add(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    return [summed_to(the(given), operand(node, i)) for i in range(2)]


@rule("Sub")
def _sub(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    return [summed_to(the(given), operand(node, 0)), summed_to(-the(given), operand(node, 1))]


@rule("Mul")
def _mul(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    a, b = operand(node, 0), operand(node, 1)
    return [summed_to(the(given) * b, a), summed_to(the(given) * a, b)]


@rule("Div")
def _div(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    a, b = operand(node, 0), operand(node, 1)
    each = the(given) / b
    return [summed_to(each, a), summed_to(-(each * node.outputs[0]), b)]


@rule("Pow")
def _pow(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    a, b = operand(node, 0), operand(node, 1)
    g, y = the(given), node.outputs[0]
    exponent = b if b.dtype == a.dtype else call("CastLike", b, a)
    lower = call("Pow", a, exponent - number(1, a))
    # x^0 is 1 everywhere: at 0 too, where x^-1 is infinite.
    flat = call("Equal", exponent, number(0, a))
    slope = _where(flat, number(0, a), exponent * lower)
    # The logarithm of what is not positive counts for nothing.
    safe = _where(_positive(a), a, number(1, a))
    return [
        summed_to(g * slope, a),
        summed_to(g * y * call("Log", safe), b) if b.dtype == a.dtype else None,
    ]


@rule("Sum", "Mean")
def _sum(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    g = the(given)
    if node.op_type == "Mean":
        g = g / number(len(node.inputs), g)
    return [summed_to(g, operand(node, i)) for i in range(len(node.inputs))]


@rule("Max", "Min")
def _extreme(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    """Inputs that are equal share the derivative."""
    g, y = the(given), node.outputs[0]
    hits = [
        call("CastLike", call("Equal", operand(node, i), y), g) for i in range(len(node.inputs))
    ]
    share = g / hits[0] if len(hits) == 1 else g / call("Sum", *hits)
    return [summed_to(share * hit, operand(node, i)) for i, hit in enumerate(hits)]


@rule("Where")
def _choice(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    condition, g = operand(node, 0), the(given)
    zero = number(0, g)
    return [
        None,
        summed_to(_where(condition, g, zero), operand(node, 1)),
        summed_to(_where(condition, zero, g), operand(node, 2)),
    ]


@rule("PRelu")
def _prelu(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    x, slope, g = operand(node, 0), operand(node, 1), the(given)
    zero = number(0, g)
    return [
        _where(_positive(x), g, g * slope),
        summed_to(_where(_positive(x), zero, g * x), slope),
    ]


@rule("Clip")
def _clip(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    """A bound has the derivatives of all elements that are at it."""
    x, g = operand(node, 0), the(given)
    zero = number(0, g)
    inner = g
    made: list[Given] = [None] * len(node.inputs)
    for i, beyond in ((1, "Less"), (2, "Greater")):
        bound = node.inputs[i] if i < len(node.inputs) else None
        if bound is None:
            continue
        outside = call(beyond, x, bound)
        inner = _where(outside, zero, inner)
        made[i] = summed_to(_where(outside, g, zero), bound)
    made[0] = inner
    return made


@rule("Dropout")
def _dropout(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    """What stays is scaled as it was; outside of training everything stays."""
    x, y, g = operand(node, 0), node.outputs[0], the(given)
    stays = call("Not", call("Equal", y, zeros_like(y)))
    scaled = g * _where(stays, y / _where(stays, x, number(1, x)), number(0, x))
    return [scaled if len(node.inputs) > 2 else g, *[None] * (len(node.inputs) - 1)]


# -- by other operators ------------------------------------------------------------------------
@rule("BatchNormalization")
def _batch_norm(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    x, scale, bias, mean, variance = (operand(node, i) for i in range(5))
    if node.attr("training_mode"):
        axes = [0, *range(2, x.rank or 2)]
        mean = call("ReduceMean", x, axes, keepdims=0)
        centred = x - _per_channel(mean, x)
        variance = call("ReduceMean", centred * centred, axes, keepdims=0)
    root = call("Sqrt", variance + number(node.attr("epsilon"), variance))
    norm = (x - _per_channel(mean, x)) / _per_channel(root, x)
    made = norm * _per_channel(scale, x) + _per_channel(bias, x)
    return through(node, [made], given[:1])


def _per_channel(values: Symbol, x: Symbol) -> Symbol:
    return call("Unsqueeze", values, list(range(1, (x.rank or 2) - 1)))


@rule("LayerNormalization")
def _layer_norm(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    x = operand(node, 0)
    rank = x.rank or 1
    axis = node.attr("axis") % rank
    axes = list(range(axis, rank))
    centred = x - call("ReduceMean", x, axes, keepdims=1)
    variance = call("ReduceMean", centred * centred, axes, keepdims=1)
    made = centred / call("Sqrt", variance + number(node.attr("epsilon"), x))
    made = made * operand(node, 1)
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        made = made + operand(node, 2)
    return through(node, [made], given[:1])


@rule("RMSNormalization")
def _rms_norm(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    x = operand(node, 0)
    rank = x.rank or 1
    axes = list(range(node.attr("axis") % rank, rank))
    mean = call("ReduceMean", x * x, axes, keepdims=1)
    made = x / call("Sqrt", mean + number(node.attr("epsilon"), x)) * operand(node, 1)
    return through(node, [made], given)


@rule("GroupNormalization", "InstanceNormalization")
def _group_norm(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    """Each group is a row, or each channel where there are no groups."""
    x, scale, bias = (operand(node, i) for i in range(3))
    groups = node.attr("num_groups")
    inner = [0, groups, -1] if groups else [0, 0, -1]
    rows = call("Reshape", x, inner)
    centred = rows - call("ReduceMean", rows, [2], keepdims=1)
    variance = call("ReduceMean", centred * centred, [2], keepdims=1)
    norm = centred / call("Sqrt", variance + number(node.attr("epsilon"), x))
    norm = call("Reshape", norm, call("Shape", x))
    return through(node, [norm * _per_channel(scale, x) + _per_channel(bias, x)], given)
