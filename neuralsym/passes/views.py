"""Reshapes, moved behind the elementwise operators that follow, which then stand by what precedes.

    relu(reshape(x @ w))  =  reshape(relu(x @ w))

Exporters flatten what a linear layer takes and shape what it gives: its activation comes after
that, where no product can take it up. The elements and their order are the same before and after.
"""

from __future__ import annotations

import numpy as np

from neuralsym.core.leaves import is_stored, stored
from neuralsym.core.registry import apply, call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.traverse import LEAVES
from neuralsym.passes.numbers import number_of
from neuralsym.rewrite.pattern import P
from neuralsym.rewrite.rule import Rejected, Result, Rule, reject, rule

_VIEW = P.op("Reshape", "Flatten", "Squeeze", "Unsqueeze")("x", P.optional(P.any())).named("view")
_UNARY = P.op(
    *("Relu", "LeakyRelu", "Sigmoid", "Tanh", "Gelu", "Swish", "HardSwish", "HardSigmoid", "Mish"),
    *("Elu", "Selu", "Celu", "Softplus", "Softsign", "ThresholdedRelu", "Erf", "Exp", "Sqrt"),
    *("Neg", "Abs", "Reciprocal", "Log"),
)
_BINARY = P.op("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min")


@rule(_UNARY(_VIEW).named("out"))
def view_behind_function(x: Symbol, view: Node, out: Node) -> Result:
    """f(reshape(x)) = reshape(f(x))"""
    return _moved(x, view, out, {})


@rule(P.Clip(_VIEW, P.optional(P.any()), P.optional(P.any())).named("out"))
def view_behind_clip(x: Symbol, view: Node, out: Node) -> Result:
    """clip(reshape(x), a, b) = reshape(clip(x, a, b))"""
    return _moved(x, view, out, {})


def _view_behind_constant(x: Symbol, view: Node, other: Symbol, out: Node) -> Result:
    """reshape(x) + c = reshape(x + c), for one number, or numbers of an axis that stays"""
    shaped = view.outputs[0]
    place = next(i for i, s in enumerate(out.inputs) if s is other)
    if out.outputs[0].type != shaped.type:
        return reject("the constant widens the shape")
    fitted = _fitted(other, x, view)
    return fitted if isinstance(fitted, Rejected) else _moved(x, view, out, {place: fitted})


def _moved(x: Symbol, view: Node, out: Node, given: dict[int, Symbol]) -> Result:
    if x.node.op in LEAVES:
        return reject("nothing precedes the reshape")
    shaped = view.outputs[0]
    inputs = [x if s is shaped else given.get(i, s) for i, s in enumerate(out.inputs)]
    made = apply(out.op, inputs, out.attrs)[0]
    return apply(view.op, [made, *view.inputs[1:]], view.attrs)[0]


def _fitted(other: Symbol, x: Symbol, view: Node) -> Symbol | Rejected:
    """A constant as it has to be before the reshape."""
    before, after, own = x.shape, view.outputs[0].shape, stored(other).shape
    if before is None or after is None or len(own) > len(after):
        return reject("its shape is not known")
    if number_of(other) is not None and len(own) <= len(before):
        return other
    if len(own) == 1 and before and after and before[-1] == after[-1] == own[0]:
        return other
    squeezed = view.inputs[1] if view.op_type == "Squeeze" and len(view.inputs) > 1 else None
    axes = None if squeezed is None else squeezed.known
    if axes is None or axes.dtype == object:
        return reject(f"the constant's shape {own} does not go through the reshape")
    wide = [1] * (len(after) - len(own)) + list(own)
    for axis in sorted(int(a) % len(before) for a in axes.reshape(-1)):
        wide.insert(axis, 1)
    return call("Reshape", other, np.array(wide, np.int64))


_C = P.any("other", is_stored)
VIEWS: tuple[Rule, ...] = (
    view_behind_function,
    view_behind_clip,
    Rule("view_behind_constant", _BINARY(_VIEW, _C).named("out"), _view_behind_constant),
    Rule(
        "view_behind_constant",
        P.op("Sub", "Div", "Pow")(_C, _VIEW).named("out"),
        _view_behind_constant,
    ),
)
