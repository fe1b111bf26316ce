"""Reverse-mode differentiation of symbols: what ONNX's Gradient operator asks for.

A rule gives, for the derivatives of a node's outputs, those of its inputs, written with operators.
The rules are in derivatives_scalar.py (one element at a time) and derivatives_tensor.py (the rest).
Derivatives of a tensor are those of the sum of its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from neuralsym.core.leaves import constant
from neuralsym.core.registry import call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.traverse import LEAVES, topological
from neuralsym.core.types import TensorType
from neuralsym.errors import GraphError, acting_for, at_line

Given = Symbol | None
Rule = Callable[[Node, Sequence[Given]], Sequence[Given]]

RULES: dict[str, Rule] = {}
"""The rule of each operator of ONNX's own domain that has one, by name."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule: `f(node, derivatives of its outputs)` gives those of its inputs.

    None stands for an output that nothing uses, and for an input without influence.
    """

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def differentiate(
    y: Symbol, xs: Sequence[Symbol], fixed: Collection[Symbol] = (), seed: Given = None
) -> list[Symbol]:
    """The derivatives of the sum of `y` with respect to each of `xs`, of their shapes and types.

    What the elements of `fixed` depend on is not looked at, nor what `xs` do. `seed` weighs the
    elements of `y`, which is 1 otherwise. Raises GraphError for a tensor that is no float and for
    an operator on the way that has no rule.
    """
    from neuralsym.ops import derivatives_scalar, derivatives_tensor  # noqa: F401  (the rules)

    for symbol in (y, *xs):
        if not _is_float(symbol):
            raise GraphError(
                f"{symbol.node.describe()} is {symbol.type}: only floats have derivatives"
                f"{at_line(symbol.node.where)}"
            )
    stop = {*xs, *fixed}
    nodes = [] if y in stop else list(topological([y.node], stop))
    moving = set(xs)
    for node in nodes:
        if node.op not in LEAVES and any(s in moving for s in node.operands):
            moving.update(s for s in node.outputs if s not in stop and _is_float(s))
    found: dict[Symbol, Symbol] = {y: ones_like(y) if seed is None else seed}
    for node in reversed(nodes):
        reached = [s in moving and s in found and s not in stop for s in node.outputs]
        if not any(reached):
            continue
        given = [found[s] if r else None for s, r in zip(node.outputs, reached, strict=True)]
        with acting_for(node.where):
            made = _apply(node, given)
            for given_to, part in zip(node.inputs, made, strict=False):
                if given_to is not None and part is not None and given_to in moving:
                    before = found.get(given_to)
                    found[given_to] = part if before is None else before + part
    return [found[x] if x in found else zeros_like(x) for x in xs]


def _is_float(symbol: Symbol) -> bool:
    return isinstance(symbol.type, TensorType) and symbol.dtype.is_float


def _apply(node: Node, given: Sequence[Given]) -> Sequence[Given]:
    found = RULES.get(node.op_type) if node.op.domain == "" else None
    if found is not None:
        return found(node, given)
    expanded = None if node.captures else node.op.expansion(node)
    if expanded is None:
        domain = f" of domain {node.op.domain!r}" if node.op.domain else ""
        raise GraphError(
            f"{node.describe()}{domain} has no rule of differentiation{at_line(node.where)}"
        )
    return through(node, expanded, given)


def through(node: Node, outputs: Sequence[Symbol], given: Sequence[Given]) -> list[Given]:
    """The derivatives of a node's inputs, by those of another way to write its outputs."""
    inputs = [s for s in dict.fromkeys(node.inputs) if s is not None and _is_float(s)]
    total: dict[Symbol, Symbol] = {}
    for output, derivative in zip(outputs, given, strict=False):
        if derivative is None:
            continue
        for symbol, part in zip(
            inputs, differentiate(output, inputs, seed=derivative), strict=True
        ):
            total[symbol] = total[symbol] + part if symbol in total else part
    # A symbol that is an input twice has its whole derivative at its first place.
    return [None if s is None else total.pop(s, None) for s in node.inputs]


def the(given: Sequence[Given], index: int = 0) -> Symbol:
    """The derivative of the only output that counts."""
    derivative = given[index]
    assert derivative is not None
    return derivative


def operand(node: Node, index: int) -> Symbol:
    symbol = node.inputs[index]
    assert symbol is not None
    return symbol


# -- shapes ------------------------------------------------------------------------------------
def ints(*values: int) -> Symbol:
    return constant(np.array(values, np.int64))


def number(value: float, like: Symbol) -> Symbol:
    """A scalar of the type of `like`."""
    return constant(Tensor.of(float(value), like.dtype))


def filled_like(symbol: Symbol, value: float) -> Symbol:
    one = number(value, symbol)
    return call("Expand", one, sizes_of(symbol)) if symbol.shape != () else one


def sizes_of(symbol: Symbol) -> Symbol:
    """The shape as a value, which asks for no computation of the symbol where it is known."""
    shape = symbol.shape
    if shape is not None and all(isinstance(size, int) for size in shape):
        return constant(np.array(shape, np.int64))
    return call("Shape", symbol)


def zeros_like(symbol: Symbol) -> Symbol:
    return filled_like(symbol, 0.0)


def ones_like(symbol: Symbol) -> Symbol:
    return filled_like(symbol, 1.0)


def reshaped_like(derivative: Symbol, symbol: Symbol) -> Symbol:
    return call("Reshape", derivative, sizes_of(symbol), allowzero=1)


def summed_to(derivative: Symbol, symbol: Symbol) -> Symbol:
    """The derivative of what was broadcast: summed over the axes that were stretched."""
    shape, wide = symbol.shape, derivative.shape
    if shape is None or wide is None:
        raise GraphError(
            f"{symbol.node.describe()} has no known rank, which its derivative needs"
            f"{at_line(symbol.node.where)}"
        )
    more = len(wide) - len(shape)
    if more:
        derivative = call("ReduceSum", derivative, ints(*range(more)), keepdims=0)
    pairs = enumerate(zip(shape, wide[more:], strict=True))
    stretched = [i for i, (a, b) in pairs if a != b or a is None]
    if all(shape[i] == 1 for i in stretched):
        if stretched:
            derivative = call("ReduceSum", derivative, ints(*stretched), keepdims=1)
    else:
        # Only a run knows which axes are of size 1 and stretched: those of size 1 are summed over.
        single = call("Equal", call("Shape", symbol), ints(1))
        axes = call("Reshape", call("NonZero", single), ints(-1))
        derivative = call("ReduceSum", derivative, axes, keepdims=1, noop_with_empty_axes=1)
    return derivative if derivative.shape == shape else reshaped_like(derivative, symbol)
