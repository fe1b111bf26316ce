"""What only training needs: dropout, gradients and the steps of optimisers."""

from __future__ import annotations

from typing import ClassVar

from neuralsym.core.op import Call, Op
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch
from neuralsym.ops.base import Random, bad, check_range, same_type


class Dropout(Random):
    """The input; while training, with elements zeroed at random and the others scaled up."""

    @classmethod
    def check(cls, call: Call) -> None:
        for i in (1, 2):
            if call.has(i) and call.shape(i) not in (None, (), (1,)):
                call.fail(f"{'ratio' if i == 1 else 'training_mode'} must be a scalar")
        ratio = call.known(1)
        if ratio is not None and ratio.size == 1 and not 0 <= float(ratio.reshape(-1)[0]) < 1:
            call.fail(f"ratio={float(ratio.reshape(-1)[0])} must be at least 0 and below 1", bad)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [same_type(call), TensorType(NumberType.BOOL, call.shape(0))]


class Gradient(Op):
    """The derivatives of one symbol with respect to others; no engine of ours computes it."""

    domain = "ai.onnx.preview.training"

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        count = len(call.attr("xs"))
        if not 1 <= count <= len(call.inputs):
            call.fail(f"xs names {count} tensors, {len(call.inputs)} inputs are given", bad)
        return [call.input(i).type for i in range(count)]


class Optimiser(Op, abstract=True):
    """A step of training: tensors with their gradients and states in, new ones out."""

    domain = "ai.onnx.preview.training"
    groups: ClassVar[int]
    """How many inputs belong to each tensor: itself, its gradient, its states."""

    @classmethod
    def check(cls, call: Call) -> None:
        given = len(call.inputs) - 2
        if given < cls.groups or given % cls.groups:
            call.fail(
                f"{given} tensors are given; each variable needs {cls.groups}, all of one kind "
                "after all of another",
                ShapeMismatch,
            )
        check_range(call, "epsilon", 0)
        check_range(call, "norm_coefficient", 0)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        count = (len(call.inputs) - 2) // cls.groups
        kinds = (0, *range(2, cls.groups))
        return [call.input(2 + kind * count + i).type for kind in kinds for i in range(count)]


class Adagrad(Optimiser):
    """Steps scaled by the root of the summed squares of past gradients."""

    groups = 3


class Adam(Optimiser):
    """Steps along a running mean of gradients over the root of that of their squares."""

    groups = 4


class Momentum(Optimiser):
    """Steps along a velocity that gradients accelerate."""

    groups = 3
