"""Gradient nodes: read as the derivatives themselves, written with other operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onnx import NodeProto

from neuralsym.core.leaves import Variable
from neuralsym.core.registry import call
from neuralsym.core.symbol import Symbol
from neuralsym.core.traverse import renewed, topological
from neuralsym.engines.onnx.declared import retyped
from neuralsym.errors import FormatError, GraphError, acting_for, at_line
from neuralsym.ops.derivatives import differentiate

if TYPE_CHECKING:
    from neuralsym.engines.onnx.frame import Frame
    from neuralsym.engines.onnx.origin import Origin


def gradient_node(
    frame: Frame, proto: NodeProto, inputs: Sequence[Symbol | None], where: Origin
) -> list[Symbol | None]:
    """The outputs of a Gradient node: the derivatives of its `y` with respect to its `xs`.

    `y` is a function of the tensors that `xs` and `zs` name; it is taken at the node's inputs.
    Raises FormatError for a node that is not well formed, GraphError for an operator without a
    rule of differentiation.
    """
    attrs, _ = frame.attributes(proto, inputs)
    xs, zs, target = attrs.get("xs", ()), attrs.get("zs", ()), attrs.get("y")
    texts = isinstance(xs, tuple) and isinstance(zs, tuple) and isinstance(target, str)
    names: tuple[Any, ...] = (*xs, *zs) if texts else ()
    fits = len(inputs) == len(names) and None not in inputs
    if not fits or not xs or not all(isinstance(name, str) for name in names):
        raise FormatError(
            f"Gradient needs y, xs, and an input for each of xs and zs{at_line(where)}"
        )
    y, *places = (frame.value(name, where.label) for name in (target, *names))
    with acting_for(where):
        points = _points(places, [s for s in inputs if s is not None])
        moved = _moved(y, dict(zip(places, points, strict=True)))
        if frame.outer is not None:
            _refuse_outer(moved, points, where)
        made = differentiate(moved, points[: len(xs)], points[len(xs) :])
    outputs = zip(made, proto.output, strict=False)
    return [frame.copied(symbol, name, where) if name else None for symbol, name in outputs]


def _points(places: Sequence[Symbol], inputs: Sequence[Symbol]) -> list[Symbol]:
    """Where the derivatives are taken: the tensors themselves, or copies of what is given."""
    return [
        given if given is place and inputs.count(given) == 1 else call("Identity", given)
        for place, given in zip(places, inputs, strict=True)
    ]


def _moved(y: Symbol, points: dict[Symbol, Symbol]) -> Symbol:
    """`y` with the points in the places of the tensors that it is a function of."""
    new = {place: point for place, point in points.items() if place is not point}
    if not new:
        return y
    for node in topological([y.node], set(points)) if y not in points else ():
        made = renewed(node, new)
        if made is not node:  # a copy: the name stays with the node itself
            made = retyped(made, tuple(s.type for s in made.outputs), None)
            for old, symbol in zip(node.outputs, made.outputs, strict=True):
                new.setdefault(old, symbol)
    return new.get(y, y)


def _refuse_outer(y: Symbol, points: Sequence[Symbol], where: Origin) -> None:
    """GraphError where a body asks for derivatives of what is computed outside of it."""
    if y.node.op is Variable and y not in points:
        raise GraphError(
            f"what Gradient differentiates is not computed in its body{at_line(where)}"
        )
