"""Affine maps said by an equation."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralsym import ops
from neuralsym.core.symbol import Symbol
from neuralsym.errors import BadAttribute, ShapeMismatch
from neuralsym.layers.activation import Activation, activate
from neuralsym.layers.base import require_shape
from neuralsym.layers.factory import layer
from neuralsym.layers.weights import Init, weight

_FORMS = re.compile(
    r"(?P<left>\.\.\.)?(?P<input>[a-zA-Z]+)(?P<right>\.\.\.)?,(?P<kernel>[a-zA-Z]+)"
    r"->(?P<left2>\.\.\.)?(?P<output>[a-zA-Z]+)(?P<right2>\.\.\.)?"
)


@dataclass(frozen=True)
class Equation:
    """ "...ab,bc->...ac" read: the letters of the three parts, and where axes are left out."""

    text: str
    input: str
    kernel: str
    output: str
    left: bool
    right: bool

    @staticmethod
    def read(text: str) -> Equation:
        """BadAttribute unless it is [X],[Y]->[Z], ...[X],[Y]->...[Z] or [X]...,[Y]->[Z]... ."""
        plain = text.replace(" ", "")
        found = _FORMS.fullmatch(plain)
        if found is None or (found["left"], found["right"]) != (found["left2"], found["right2"]):
            raise BadAttribute(
                f"equation={text!r}: write it as 'ab,bc->ac', '...ab,bc->...ac' or "
                "'ab...,bc->ac...'"
            )
        if found["left"] and found["right"]:
            raise BadAttribute(f"equation={text!r}: axes are left out on one side only")
        parts = (found["input"], found["kernel"], found["output"])
        for part in parts:
            if len(set(part)) != len(part):
                raise BadAttribute(f"equation={text!r}: a letter occurs twice in {part!r}")
        return Equation(plain, *parts, bool(found["left"]), bool(found["right"]))

    def sizes(self, x: Symbol, output_shape: Sequence[int | None]) -> dict[str, Any]:
        """The size of each letter, from x and the output without its batch axis."""
        shape = require_shape(x)
        extra = len(shape) - len(self.input)
        if extra < 0 or (extra and not (self.left or self.right)):
            raise ShapeMismatch(
                f"equation {self.text!r} takes {len(self.input)} axes, came {x.type}"
            )
        own = shape[extra:] if self.left else shape[: len(self.input)]
        found: dict[str, Any] = dict(zip(self.input, own, strict=True))
        lead = extra if self.left else 0
        # The axes left out on the left hold the batch; without them the first letter does.
        letters = self.output if lead else self.output[1:]
        if len(output_shape) != len(letters):
            raise BadAttribute(
                f"output_shape={tuple(output_shape)}: equation {self.text!r} needs one size for "
                f"each of {', '.join(letters)}"
            )
        for letter, size in zip(letters, output_shape, strict=True):
            known = found.get(letter)
            if size is None and letter not in found:
                raise BadAttribute(f"output_shape: the size of {letter!r} is not known from x")
            if size is not None and isinstance(known, int) and known != size:
                raise ShapeMismatch(
                    f"axis {letter!r} of equation {self.text!r} has size {known} in {x.type} and "
                    f"{size} in output_shape"
                )
            if size is not None:
                found[letter] = size
        for letter in self.kernel:
            if letter not in found:
                raise BadAttribute(
                    f"equation {self.text!r}: {letter!r} of the kernel is in neither other part"
                )
            if not isinstance(found[letter], int):
                raise ShapeMismatch(
                    f"needs a fixed size along axis {letter!r} for its weights, came {x.type}"
                )
        for letter in self.output:
            if letter not in self.input and letter not in self.kernel:
                raise BadAttribute(f"equation {self.text!r}: {letter!r} comes from nowhere")
        return found


@layer
def einsum_dense(
    x: Symbol,
    equation: str,
    output_shape: int | Sequence[int | None],
    *,
    activation: Activation = None,
    bias_axes: str | None = None,
    kernel_initializer: Init = "glorot_uniform",
    bias_initializer: Init = "zeros",
    name: str | None = None,
) -> Symbol:
    """An affine map said by an equation: "abc,cd->abd" multiplies the last axis by a kernel.

    equation: letters of x, of the kernel, of the result; "..." on the left or right of the first
    and last stands for any axes. output_shape: the sizes of the result without the batch and
    without axes left out; None where x tells. bias_axes: letters of the result that a bias has.
    Weights: kernel, its axes as in the equation, and bias.

    Keras EinsumDense; torch einsum; ONNX Einsum and Add.
    """
    said = Equation.read(equation)
    given = [output_shape] if isinstance(output_shape, (int, np.integer)) else list(output_shape)
    sizes = said.sizes(x, given)
    shape = tuple(sizes[letter] for letter in said.kernel)
    reaches = [sizes[letter] for letter in said.kernel if letter in said.output]
    gathers = [sizes[letter] for letter in said.kernel if letter not in said.output]
    size = (float(math.prod(gathers)), float(math.prod(reaches)))
    kernel = weight("kernel", shape, kernel_initializer, fans=size, dtype=x.dtype)
    y = ops.einsum((x, kernel), said.text)
    if bias_axes is not None:
        y = y + _bias(x, said, sizes, bias_axes, bias_initializer)
    return activate(y, activation)


def _bias(x: Symbol, said: Equation, sizes: dict[str, Any], axes: str, init: Init) -> Symbol:
    missing = [letter for letter in axes if letter not in said.output]
    if missing or not axes:
        raise BadAttribute(f"bias_axes={axes!r}: letters of the result {said.output!r} are needed")
    first = min(said.output.index(letter) for letter in axes)
    shape = [sizes[letter] if letter in axes else 1 for letter in said.output[first:]]
    if said.right:
        shape += [1] * (len(require_shape(x)) - len(said.input))
    if any(not isinstance(n, int) for n in shape):
        raise ShapeMismatch(f"bias_axes={axes!r} needs fixed sizes, came {x.type}")
    count = float(math.prod(shape))
    return weight("bias", shape, init, fans=(count, count), dtype=x.dtype)
