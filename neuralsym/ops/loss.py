"""Losses: how far predictions are from their targets."""

from __future__ import annotations

import numpy as np

from neuralsym.core import registry
from neuralsym.core.leaves import constant
from neuralsym.core.op import Call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Shape, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import Reduction, check_choice, check_rank, same_type
from neuralsym.ops.expansions import HALVES, converted, whole


class Loss(Reduction, abstract=True):
    """A loss for each target [N, d1, ...] of predictions [N, C, d1, ...], or their mean or sum."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "reduction", ("none", "sum", "mean"))
        check_rank(call, 0, 2)
        check_rank(call, 1, 1)
        if call.has(2):
            check_rank(call, 2, 1, 1)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        x, target = call.shape(0), call.shape(1)
        shape: Shape | None = () if call.attr("reduction") != "none" else target
        if x is not None and target is not None:
            expected = (x[0], *x[2:])
            if len(expected) != len(target) or any(
                a != b and isinstance(a, int) and isinstance(b, int)
                for a, b in zip(expected, target, strict=True)
            ):
                call.fail("the targets must have the shape of the predictions without their axis 1")
        weights = call.shape(2) if call.has(2) else None
        if x is not None and weights is not None:
            classes, given = x[1], weights[0]
            if isinstance(classes, int) and isinstance(given, int) and classes != given:
                call.fail(f"{given} weights are given for {classes} classes")
        return [TensorType(call.dtype(0), shape), same_type(call)]


class NegativeLogLikelihoodLoss(Loss):
    """Minus the log-probability that the input gives to each target class."""

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol]:
        given = node.inputs[0]
        assert given is not None
        return [_loss(node, _wide(given))]


class SoftmaxCrossEntropyLoss(Loss):
    """The loss of softmax(scores) against class labels, and the log-probabilities on request."""

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol]:
        given = node.inputs[0]
        assert given is not None
        logarithms = registry.call("LogSoftmax", _wide(given), axis=1)
        made = [_loss(node, logarithms), converted(logarithms, given.dtype)]
        return made[: len(node.outputs)]


def _wide(x: Symbol) -> Symbol:
    """Half precision as float32: what is summed is rounded once, at the end."""
    return converted(x, NumberType.FLOAT32) if x.dtype in HALVES else x


def _loss(node: Node, logarithms: Symbol) -> Symbol:
    """The loss of log-probabilities [N, C, d1, ...], by the targets and weights of the node.

    What `ignore_index` marks is zero and has no weight: the mean leaves it out, with weights or
    without. A target that is neither a class nor marked stops the run.
    """
    target = node.inputs[1]
    weight = node.inputs[2] if len(node.inputs) > 2 else None
    assert target is not None
    skipped = _marked(target, node.attr("ignore_index"))
    classes = target
    if skipped is not None:
        zero = constant(np.array(0, target.dtype.numpy))
        classes = registry.call("Where", skipped, zero, target)
    one = whole(1)
    picked = registry.call(
        "GatherElements", logarithms, registry.call("Unsqueeze", classes, one), axis=1
    )
    loss = -registry.call("Squeeze", picked, one)
    nothing = constant(np.array(0, loss.dtype.numpy))
    share = None if weight is None else registry.call("Gather", _wide(weight), classes, axis=0)
    if share is not None:
        loss = loss * share
    if skipped is not None:
        if share is None:
            share = constant(np.array(1, loss.dtype.numpy))
        loss = registry.call("Where", skipped, nothing, loss)
        share = registry.call("Where", skipped, nothing, share)
    how = node.attr("reduction")
    if how == "sum" or (how == "mean" and share is not None):
        loss = registry.call("ReduceSum", loss, keepdims=0)
    if how == "mean":
        if share is None:
            loss = registry.call("ReduceMean", loss, keepdims=0)
        else:
            loss = loss / registry.call("ReduceSum", share, keepdims=0)
    return converted(loss, node.outputs[0].dtype)


def _marked(target: Symbol, ignored: int | None) -> Symbol | None:
    """Where the targets are the index that is ignored; None where none can be."""
    if ignored is None or not _holds(target.dtype, ignored):
        return None
    return registry.call("Equal", target, constant(np.array(ignored, target.dtype.numpy)))


def _holds(dtype: NumberType, value: int) -> bool:
    limits = np.iinfo(dtype.numpy)
    return int(limits.min) <= value <= int(limits.max)
