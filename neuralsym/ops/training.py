"""What only training needs: dropout, gradients and the steps of optimisers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from neuralsym.core import registry
from neuralsym.core.leaves import constant
from neuralsym.core.op import Call, Op
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch
from neuralsym.ops.base import Random, bad, check_choice, check_range, same_type
from neuralsym.ops.expansions import converted, reshaped, sizes_of, whole


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

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        training = node.inputs[2] if len(node.inputs) > 2 else None
        if training is not None and (training.known is None or training.known.any()):
            return None
        x = node.inputs[0]
        assert x is not None
        all_true = constant(np.ones((), np.bool_))
        mask = [registry.call("Expand", all_true, sizes_of(x))] if len(node.outputs) > 1 else []
        return [registry.call("Identity", x), *mask]


class Gradient(Op):
    """The derivatives of one symbol with respect to others, by names.

    Reading a file writes them out (ops/derivatives.py); no engine computes the node itself.
    """

    domain = "ai.onnx.preview.training"

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        count = len(call.attr("xs"))
        if not 1 <= count <= len(call.inputs):
            call.fail(f"xs names {count} tensors, {len(call.inputs)} inputs are given", bad)
        return [call.input(i).type for i in range(count)]


class Optimiser(Op, abstract=True):
    """A step of training: tensors with their gradients and states in, new ones out.

    Inputs are the rate of learning, the count of past steps, then the tensors, their gradients and
    each kind of state in turn. What the two numbers give is computed in float64.
    """

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

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol]:
        rate, steps, *given = (s for s in node.inputs if s is not None)
        numbers = [converted(reshaped(s, whole()), NumberType.FLOAT64) for s in (rate, steps)]
        count = len(given) // cls.groups
        made: list[Sequence[Symbol]] = []
        for i in range(count):
            x, gradient, *states = given[i::count]
            if node.attr("norm_coefficient"):
                gradient = node.attr("norm_coefficient") * x + gradient
            made.append(cls.step(node, numbers[0], numbers[1], x, gradient, states))
        return [results[kind] for kind in range(cls.groups - 1) for results in made]

    @classmethod
    def step(
        cls,
        node: Node,
        rate: Symbol,
        steps: Symbol,
        x: Symbol,
        gradient: Symbol,
        states: Sequence[Symbol],
    ) -> Sequence[Symbol]:
        """The new value of one tensor and its new states; rate and steps are float64 numbers."""
        raise NotImplementedError


class Adagrad(Optimiser):
    """Steps scaled by the root of the summed squares of past gradients."""

    groups = 3

    @classmethod
    def step(
        cls,
        node: Node,
        rate: Symbol,
        steps: Symbol,
        x: Symbol,
        gradient: Symbol,
        states: Sequence[Symbol],
    ) -> Sequence[Symbol]:
        factor = converted(rate / (1 + steps * node.attr("decay_factor")), x.dtype)
        squares = states[0] + gradient * gradient
        root = registry.call("Sqrt", squares) + node.attr("epsilon")
        return x - factor * gradient / root, squares


class Adam(Optimiser):
    """Steps along a running mean of gradients over the root of that of their squares."""

    groups = 4

    @classmethod
    def step(
        cls,
        node: Node,
        rate: Symbol,
        steps: Symbol,
        x: Symbol,
        gradient: Symbol,
        states: Sequence[Symbol],
    ) -> Sequence[Symbol]:
        alpha, beta = node.attr("alpha"), node.attr("beta")
        mean = alpha * states[0] + (1 - alpha) * gradient
        squares = beta * states[1] + (1 - beta) * (gradient * gradient)
        root = registry.call("Sqrt", squares) + node.attr("epsilon")
        bases = [constant(np.float64(base)) for base in (alpha, beta)]
        rests = [1 - registry.call("Pow", base, steps) for base in bases]
        adjusted = rate * registry.call("Sqrt", rests[1]) / rests[0]
        factor = registry.call("Where", steps > 0, adjusted, rate)
        made = x - converted(factor, x.dtype) * mean / root
        return made * (1 - node.attr("norm_coefficient_post")), mean, squares


class Momentum(Optimiser):
    """Steps along a velocity that gradients accelerate."""

    groups = 3

    @classmethod
    def check(cls, call: Call) -> None:
        super().check(call)
        check_choice(call, "mode", ("standard", "nesterov"))

    @classmethod
    def step(
        cls,
        node: Node,
        rate: Symbol,
        steps: Symbol,
        x: Symbol,
        gradient: Symbol,
        states: Sequence[Symbol],
    ) -> Sequence[Symbol]:
        alpha = node.attr("alpha")
        first = constant(np.float64(1))
        beta = registry.call("Where", steps > 0, constant(np.float64(node.attr("beta"))), first)
        velocity = alpha * states[0] + converted(beta, x.dtype) * gradient
        way = gradient + alpha * velocity if node.attr("mode") == "nesterov" else velocity
        return x - converted(rate, x.dtype) * way, velocity
