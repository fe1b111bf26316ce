"""How operators do with an input whose axes are not moved yet: what passes/sink.py asks.

If x = transpose(base, p), then f(x) = transpose(g(base), q) for many operators f. A `Move` tells g
and q: which inputs must be moved back alike, with which attributes g is applied, and q of each
output. Elements are only reached in another order: every value keeps its bits, except that sums
over several axes may run in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neuralsym.core.leaves import constant
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import TensorType
from neuralsym.ops.base import Elementwise

Order = tuple[int, ...]
"""A permutation of axes, as the `perm` of Transpose."""


@dataclass(frozen=True)
class Move:
    """An operator applied before its input's axes are moved.

    `aligned` are the inputs whose axes must lie as the base's do; `given` replaces other inputs.
    """

    aligned: tuple[int, ...]
    orders: tuple[Order, ...]
    attrs: Mapping[str, Any]
    given: Mapping[int, Symbol] = field(default_factory=dict)


Rule = Callable[[Node, Order], Move | None]


def inverse(order: Order) -> Order:
    """The permutation that undoes another."""
    made = [0] * len(order)
    for i, axis in enumerate(order):
        made[axis] = i
    return tuple(made)


def after(first: Order, second: Order) -> Order:
    """The permutation that is two, one after the other."""
    return tuple(first[axis] for axis in second)


def is_identity(order: Order) -> bool:
    """Whether every axis keeps its place."""
    return order == tuple(range(len(order)))


def without(order: Order, axes: Sequence[int]) -> Order:
    """What is left of a permutation when some axes of its result are gone."""
    left = [order[i] for i in range(len(order)) if i not in axes]
    rising = sorted(left)
    return tuple(rising.index(axis) for axis in left)


def move_of(node: Node, order: Order) -> Move | None:
    """How a node is applied to what `order` has not moved yet; None where it cannot be.

    Those of its inputs that lag behind have that order all. The rank of its first output and of
    those inputs is known.
    """
    if node.captures or node.op.domain:
        return None
    found = _RULES.get(node.op_type)
    if found is not None:
        return found(node, order)
    if issubclass(node.op, Elementwise) and node.op_type not in _NOT_ALIKE:
        return _elementwise(node, order)
    return None


_NOT_ALIKE = {"CastLike", "Clip"}
"""Elementwise operators some of whose inputs are not broadcast with the first."""


def _elementwise(node: Node, order: Order) -> Move | None:
    if len(node.outputs) != 1 or node.outputs[0].rank != len(order):
        return None
    aligned = tuple(
        i for i, s in enumerate(node.inputs) if s is not None and not _is_single(s, len(order))
    )
    return Move(aligned, (order,), node.attrs)


def _is_single(symbol: Symbol, rank: int) -> bool:
    """Whether it is one number, which is the same wherever the axes lie."""
    shape = symbol.shape
    return shape is not None and len(shape) <= rank and all(size == 1 for size in shape)


def _first_only(node: Node, order: Order) -> Move | None:
    """Of an operator whose other inputs are numbers: Clip."""
    return Move((0,), (order,), node.attrs)


def _along_axis(node: Node, order: Order) -> Move | None:
    """Of Concat and Split, which keep the rank and name one axis."""
    axis = order[node.attr("axis") % len(order)]
    count = len(node.inputs) if node.op_type == "Concat" else 1
    return Move(tuple(range(count)), (order,) * len(node.outputs), {**node.attrs, "axis": axis})


def _named_axes(node: Node, order: Order) -> Move | None:
    """Of Slice and Pad, whose fourth input names axes: all, or the first ones, where omitted."""
    axes = node.inputs[3] if len(node.inputs) > 3 else None
    if axes is None:
        count: int | None = len(order)
        if node.op_type == "Slice":
            starts = node.inputs[1]
            shape = None if starts is None else starts.shape
            count = shape[0] if shape and isinstance(shape[0], int) else None
        known = None if count is None else np.arange(count)
    else:
        known = axes.known
    if known is None or known.dtype == object:
        return None
    # The axes of a Slice have the type of its other settings.
    like = node.inputs[1] if node.op_type == "Slice" else axes
    dtype = np.dtype(np.int64) if like is None else like.dtype.numpy
    moved = np.array([order[int(axis) % len(order)] for axis in known.reshape(-1)], dtype)
    return Move((0,), (order,), node.attrs, {3: constant(moved)})


def _axes(axes: Sequence[int]) -> Symbol:
    return constant(np.array(axes, np.int64))


def _reduced(node: Node, order: Order) -> Move | None:
    """Of the reductions: the axes are renamed; the rest keeps its order where they go."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    known = None if given is None else given.known
    if known is None or known.dtype == object or not known.size:
        return None
    axes = [int(axis) % len(order) for axis in known.reshape(-1)]
    left = order if node.attr("keepdims") else without(order, axes)
    return Move((0,), (left,), node.attrs, {1: _axes(sorted(order[axis] for axis in axes))})


def _squeezed(node: Node, order: Order) -> Move | None:
    given = node.inputs[1] if len(node.inputs) > 1 else None
    known = None if given is None else given.known
    if known is None or known.dtype == object:
        return None
    axes = [int(axis) % len(order) for axis in known.reshape(-1)]
    moved = _axes([order[axis] for axis in axes])
    return Move((0,), (without(order, axes),), node.attrs, {1: moved})


def _arg_reduced(node: Node, order: Order) -> Move | None:
    axis = node.attr("axis") % len(order)
    left = order if node.attr("keepdims") else without(order, [axis])
    return Move((0,), (left,), {**node.attrs, "axis": order[axis]})


def _gathered(node: Node, order: Order) -> Move | None:
    """Of Gather by one number, which drops its axis, or by a row of them, which keeps it."""
    indices = node.inputs[1]
    axis = node.attr("axis") % len(order)
    if indices is None or indices.rank not in (0, 1):
        return None
    left = order if indices.rank else without(order, [axis])
    return Move((0,), (left,), {**node.attrs, "axis": order[axis]})


def _quantised(node: Node, order: Order) -> Move | None:
    """Of QuantizeLinear and DequantizeLinear, by one scale or by one for each place of an axis."""
    scale = node.inputs[1]
    if scale is None or node.attr("block_size") or scale.rank not in (0, 1):
        return None
    if scale.rank == 0 or scale.shape == (1,):
        return Move((0,), (order,), node.attrs)
    axis = node.attr("axis") % len(order)
    return Move((0,), (order,), {**node.attrs, "axis": order[axis]})


_RULES: Mapping[str, Rule] = {
    "Clip": _first_only,
    "Concat": _along_axis,
    "Split": _along_axis,
    "Slice": _named_axes,
    "Pad": _named_axes,
    "Squeeze": _squeezed,
    "ArgMax": _arg_reduced,
    "ArgMin": _arg_reduced,
    "Gather": _gathered,
    "QuantizeLinear": _quantised,
    "DequantizeLinear": _quantised,
    **dict.fromkeys(
        (
            *("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1"),
            *("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
        ),
        _reduced,
    ),
}
NOMINAL = 7
"""What a size that only a run tells counts for when movements are weighed against one another."""


def elements(symbol: Symbol) -> int:
    """About how many elements a value has."""
    count = 1
    shape = symbol.shape if isinstance(symbol.type, TensorType) else None
    for size in shape or ():
        count *= size if isinstance(size, int) else NOMINAL
    return count


def moves_only_ones(symbol: Symbol, order: Order) -> bool:
    """Whether a permutation only moves axes of size 1, so that the elements stay where they are."""
    shape = symbol.shape
    if shape is None or len(shape) != len(order):
        return False
    kept = [axis for axis in order if shape[axis] != 1]
    return kept == sorted(kept)
