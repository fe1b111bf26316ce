"""TensorFlow's operation types that Myelin has no word for, or means otherwise by the same word.

They are builders as the flow engine's are, and come before those where a flow may be
TensorFlow's: `read_model(flow, more=TENSORFLOW)`. TensorFlow itself is not needed for them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.engines.flow.elementwise import ELEMENTWISE
from neuralsym.engines.flow.helpers import Build, Built
from neuralsym.engines.flow.operations import OPERATIONS
from neuralsym.engines.flow.step import Step
from neuralsym.engines.tensorflow.arrays import ARRAYS
from neuralsym.engines.tensorflow.images import IMAGES
from neuralsym.engines.tensorflow.loops import LOOPS


def _like(x: Symbol, value: float) -> Symbol:
    return ops.constant(value, str(x.dtype))


def _unary(how: Callable[[Symbol], Symbol]) -> Build:
    return lambda step: how(step.take(1)[0])


def _binary(how: Callable[[Symbol, Symbol], Symbol]) -> Build:
    return lambda step: how(*step.take(2))


def _same(step: Step) -> Built:
    """What is a check or a note for training: the values as they are."""
    return [ops.identity(x) for x in step.inputs[: len(step.op.outputs)]]


def _leaky_relu(step: Step) -> Built:
    return ops.leaky_relu(step.take(1)[0], alpha=step.number("alpha", 0.2))


def _truncated(x: Symbol, y: Symbol) -> Symbol:
    """The quotient without its fraction, as C has it."""
    if x.dtype and x.dtype.is_integer:
        return ops.div(x, y)
    found = ops.div(x, y)
    return ops.mul(ops.sign(found), ops.floor(ops.abs(found)))


def _remainder(step: Step) -> Built:
    """TensorFlow's has the sign of x, Myelin's that of y."""
    x, y = step.take(2)
    if step.op.type == "Mod" and "T" not in step.op.attrs:
        return ELEMENTWISE["Mod"](x, y)
    return ops.mod(x, y, fmod=1)


def _no_nan(x: Symbol, y: Symbol) -> Symbol:
    zero = ops.equal(y, _like(y, 0))
    return ops.where(zero, _like(x, 0), ops.div(x, ops.where(zero, _like(y, 1), y)))


def _clip(step: Step) -> Built:
    x, low, high = step.take(3)
    return ops.min([ops.max([x, low]), high])


def _einsum(step: Step) -> Built:
    return ops.einsum(step.inputs, step.op.attr("equation"))


def _range(step: Step) -> Built:
    start, limit, delta = step.take(3)
    return ops.range(start, limit, delta)


def _add_n(step: Step) -> Built:
    return ops.sum(step.inputs)


def _l2_loss(x: Symbol) -> Symbol:
    return ops.mul(ops.reduce_sum(ops.mul(x, x), None, keepdims=0), _like(x, 0.5))


def _reduced(name: str) -> Build:
    """Myelin's reduction; no axes at all reduce nothing."""

    def build(step: Step) -> Built:
        axes = step.inputs[1].known if len(step.inputs) == 2 else None
        if axes is not None and not axes.size:
            return ops.identity(step.inputs[0])
        return OPERATIONS[name](step)

    return build


def _euclidean_norm(step: Step) -> Built:
    x = step.take(1, 2)[0]
    axes = step.axes()
    return ops.reduce_l2(x, None if axes is None else np.array(axes), keepdims=step.keepdims())


TENSORFLOW: dict[str, Build] = {
    **IMAGES,
    **ARRAYS,
    **LOOPS,
    **{n: _reduced(n) for n in ("Sum", "Mean", "Prod", "Max", "Min", "All", "Any")},
    **dict.fromkeys(
        (
            "StopGradient", "PreventGradient", "CheckNumerics", "EnsureShape", "Snapshot",
            "PlaceholderWithDefault", "IdentityN", "CheckNumericsV2",
        ),
        _same,
    ),
    "BatchMatMulV3": OPERATIONS["BatchMatMul"],
    "LeakyRelu": _leaky_relu,
    "TruncateDiv": _binary(_truncated),
    "TruncateMod": _remainder,
    "Mod": _remainder,
    "DivNoNan": _binary(_no_nan),
    "MulNoNan": _binary(
        lambda x, y: ops.where(ops.equal(y, _like(y, 0)), _like(x, 0), ops.mul(x, y))
    ),
    "ClipByValue": _clip,
    "Einsum": _einsum,
    "Range": _range,
    "AddN": _add_n,
    "L2Loss": _unary(_l2_loss),
    "EuclideanNorm": _euclidean_norm,
    "Log1p": _unary(lambda x: ops.log(ops.add(x, _like(x, 1)))),
    "Expm1": _unary(lambda x: ops.sub(ops.exp(x), _like(x, 1))),
    "Erfc": _unary(lambda x: ops.sub(_like(x, 1), ops.erf(x))),
    "IsNan": _unary(ops.is_nan),
    "IsInf": _unary(ops.is_inf),
    "IsFinite": _unary(lambda x: ops.not_(ops.or_(ops.is_nan(x), ops.is_inf(x)))),
    "BitwiseAnd": _binary(ops.bitwise_and),
    "BitwiseOr": _binary(ops.bitwise_or),
    "BitwiseXor": _binary(ops.bitwise_xor),
    "Invert": _unary(ops.bitwise_not),
}  # fmt: skip
"""The operations by type."""
