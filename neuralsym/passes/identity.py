"""Nodes that change nothing, or that undo or repeat one another."""

from __future__ import annotations

from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.leaves import is_stored
from neuralsym.core.symbol import Node, Symbol
from neuralsym.rewrite.pattern import P
from neuralsym.rewrite.rule import Result, Rule, reject, rule


@rule(P.Identity("x"))
def drop_identity(x: Symbol) -> Result:
    """identity(x) = x"""
    return x


@rule(P.Dropout("x", P.optional(P.any()), P.optional("training")).named("dropout"))
def drop_dropout(x: Symbol, training: Symbol | None, dropout: Node) -> Result:
    """dropout(x) = x, in inference"""
    if training is not None and (training.known is None or bool(training.known.reshape(()))):
        return reject("it may be run in training mode")
    return x


@rule(P.Cast("x").named("cast"))
def drop_cast(x: Symbol, cast: Node) -> Result:
    """cast(x) = x, to the type that it has"""
    if cast.outputs[0].dtype is not x.dtype:
        return reject("it changes the number type")
    return x


@rule(
    P.op("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile")(
        "x", P.optional(P.any())
    ).named("move")
)
def drop_same_shape(x: Symbol, move: Node) -> Result:
    """reshape(x) = x, to the shape that it has"""
    before, after = x.tensor, move.outputs[0].tensor
    if any(s is not None and s.known is None for s in move.inputs[1:]):
        return reject("what it asks for is known only in the run, and may not fit")
    if not before.is_known or before.shape != after.shape:
        return reject("it may change the shape")
    return x


_RESHAPED = P.op("Reshape", "Flatten", "Squeeze", "Unsqueeze")("x", P.optional(P.any()))


@rule(
    P.op("Reshape", "Flatten", "Squeeze", "Unsqueeze")(_RESHAPED, P.optional(P.any())).named(
        "move"
    ),
    shared=True,
)
def join_reshapes(x: Symbol, move: Node) -> Result:
    """reshape(reshape(x)) = reshape(x)"""
    before, after = x.shape, move.outputs[0].shape
    if after is None:
        return reject("its shape is not known")
    if 0 in after:
        return reject("an empty size is written as 0, which means to keep the input's")
    free = [i for i, size in enumerate(after) if not isinstance(size, int)]
    target = [-1 if i in free else size for i, size in enumerate(after)]
    if len(free) > 1:
        # Where one is empty in a run, -1 says nothing of another: all must be the input's.
        kept = before is not None and all(
            i < len(before) and before[i] is not None and before[i] == after[i] for i in free
        )
        if not kept:
            return reject("more than one of its sizes is free")
        target = [0 if i in free else size for i, size in enumerate(after)]
    return ops.reshape(x, np.array(target, np.int64))


@rule(P.op("Neg", "Not", "BitwiseNot")(P.op("Neg", "Not", "BitwiseNot")("x").named("a")).named("b"))
def drop_twice(x: Symbol, a: Node, b: Node) -> Result:
    """-(-x) = x, not not x = x"""
    return x if a.op is b.op else reject("they are different operators")


@rule(P.Transpose("x").named("turn"))
def drop_transpose(x: Symbol, turn: Node) -> Result:
    """transpose(x) = x, where every axis keeps its place"""
    order = order_of(turn)
    if order is None or order != tuple(range(len(order))):
        return reject("it moves axes")
    return x


@rule(P.Transpose(P.Transpose("x").named("first")).named("second"), shared=True)
def join_transposes(x: Symbol, first: Node, second: Node) -> Result:
    """transpose(transpose(x, p), q) = transpose(x, p[q])"""
    p, q = order_of(first), order_of(second)
    if p is None or q is None:
        return reject("the rank is not known")
    return ops.transpose(x, perm=tuple(p[axis] for axis in q))


@rule(P.Transpose("x").named("turn"))
def reshape_of_transpose(x: Symbol, turn: Node) -> Result:
    """transpose(x) = reshape(x), where only axes of size 1 move"""
    order, shape = order_of(turn), x.shape
    if order is None or shape is None or is_stored(x):
        return reject("its shape is not known")
    kept = [axis for axis in order if shape[axis] != 1]
    if kept != sorted(kept) or 0 in shape:
        return reject("it moves elements")
    target: list[int] = []
    for i, axis in enumerate(order):
        size = shape[axis]
        # A size of the run is the input's in the same place, or the one that is left.
        target.append(size if isinstance(size, int) else 0 if i == axis else -1)
    if target.count(-1) > 1 or (-1 in target and 0 in target):
        return reject("more than one of its sizes is free")
    return ops.reshape(x, np.array(target, np.int64))


@rule(P.Slice("x", P.any(), P.any(), P.optional(P.any()), P.optional("steps")).named("cut"))
def drop_slice(x: Symbol, steps: Symbol | None, cut: Node) -> Result:
    """x[:] = x"""
    if steps is not None and (steps.known is None or not np.all(steps.known == 1)):
        return reject("it takes steps other than 1")
    if not x.tensor.is_known or x.shape != cut.outputs[0].shape:
        return reject("it may cut something off")
    return x


@rule(P.Pad("x", "pads", *[P.optional(P.any())] * 2).named("pad"))
def drop_pad(x: Symbol, pads: Symbol, pad: Node) -> Result:
    """pad(x, 0) = x"""
    if pads.known is None or any(p != 0 for p in pads.known.tolist()):
        return reject("it adds something")
    return x


@rule(P.op("Concat", "Sum", "Max", "Min", "Mean")("x"))
def drop_single(x: Symbol) -> Result:
    """concat(x) = x, and so for the sum, mean, maximum and minimum of one"""
    return x


def _neutral(value: float) -> Any:
    """The pattern of a constant equal to `value`: minus zero is another number than zero."""

    def is_value(symbol: Symbol) -> bool:
        known = symbol.known
        if known is None or known.dtype == object or not known.size or known.dtype.kind == "c":
            return False
        wide = known.astype(np.float64)
        signs = np.signbit(wide) == np.signbit(value)
        return bool(np.all(wide == value) and (known.dtype.kind in "iu" or np.all(signs)))

    return P.any(None, is_value)


def _drop_neutral(x: Symbol, out: Node) -> Result:
    """x * 1 = x / 1 = x ** 1 = x - 0 = x + -0 = x, exactly"""
    if not x.tensor.is_known or out.outputs[0].type != x.type:
        return reject("it widens the shape")
    return x


_NEUTRAL = (("Mul", 1.0), ("Div", 1.0), ("Pow", 1.0), ("Sub", 0.0), ("Add", -0.0))

DROP_IDENTITIES: tuple[Rule, ...] = (
    drop_identity,
    drop_dropout,
    drop_cast,
    drop_same_shape,
    join_reshapes,
    drop_twice,
    drop_transpose,
    join_transposes,
    reshape_of_transpose,
    drop_slice,
    drop_pad,
    drop_single,
    *(
        Rule(
            f"drop_neutral_{name.lower()}", P.op(name)("x", _neutral(v)).named("out"), _drop_neutral
        )
        for name, v in _NEUTRAL
    ),
)


def order_of(turn: Node) -> tuple[int, ...] | None:
    """The permutation of a Transpose; without one it reverses the axes."""
    perm = turn.attr("perm")
    if perm is not None:
        rank = len(perm)
        return tuple(axis % rank for axis in perm) if rank else ()
    rank_known = turn.outputs[0].rank
    return None if rank_known is None else tuple(reversed(range(rank_known)))
