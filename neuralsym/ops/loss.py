"""Losses: how far predictions are from their targets."""

from __future__ import annotations

from neuralsym.core.op import Call
from neuralsym.core.types import Shape, TensorType, Type
from neuralsym.ops.base import Reduction, check_choice, check_rank, same_type


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


class SoftmaxCrossEntropyLoss(Loss):
    """The loss of softmax(scores) against class labels, and the log-probabilities on request."""
