"""What the com.microsoft operators share: each is written once, with ONNX operators.

`written` gives the outputs as symbols. The expansion, the inference of types and shapes and the
value by numpy all come from it, so that they cannot contradict one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.graph import Graph
from neuralsym.core.leaves import constant, make_variable
from neuralsym.core.op import Call, Op, find_op
from neuralsym.core.registry import apply, call
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import Shape, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.errors import OpError, ShapeMismatch, TypeMismatch
from neuralsym.ops.base import output_dtype
from neuralsym.ops.contrib.declare import DOMAIN
from neuralsym.ops.expansions import converted


class RankUnknown(Exception):
    """Raised by what can be written only when the rank of an input is known."""


@dataclass(frozen=True)
class Given:
    """An application of an operator as `written` reads it, from a Call or from a Node."""

    op: type[Op]
    step: Call | Node
    inputs: tuple[Symbol | None, ...]
    count: int
    """How many outputs are wanted."""

    def attr(self, name: str) -> Any:
        """The attribute, or its default; None where it has neither."""
        return self.step.attr(name)

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def optional(self, index: int) -> Symbol | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def __getitem__(self, index: int) -> Symbol:
        symbol = self.optional(index)
        if symbol is None:
            self.fail(f"its input {self.op.schema.formal_input(index).name} is missing")
        return symbol

    def shape(self, index: int) -> Shape:
        """The shape of an input; RankUnknown where it has none."""
        return shape_of(self[index])

    def rank(self, index: int) -> int:
        return len(self.shape(index))

    def axis(self, rank: int) -> int:
        """The attribute `axis`, counted from the front; an OpError where no such axis is."""
        axis = self.attr("axis")
        if not -rank <= axis < rank:
            self.fail(f"axis={axis} is out of range for rank {rank}")
        return int(axis % rank)

    def fail(self, reason: str) -> NoReturn:
        raise ShapeMismatch(reason)


class Contrib(Op, abstract=True):
    """An operator of onnxruntime's that is a combination of ONNX's."""

    domain = DOMAIN
    ranks: ClassVar[str] = ""
    """The numbers of axes that inputs must have: `"query:3,5 past_key:4"`."""
    on_sizes: ClassVar[bool] = False
    """Whether it works on sizes, so that known inputs should give known outputs."""

    @classmethod
    def written(cls, given: Given) -> Sequence[Symbol]:
        """The outputs, with ONNX operators."""
        raise NotImplementedError

    @classmethod
    def check(cls, call: Call) -> None:
        names = [formal.name for formal in cls.schema.inputs]
        for entry in cls.ranks.split():
            name, allowed = entry.split(":")
            index = names.index(name)
            shape = call.shape(index) if call.has(index) else None
            if shape is not None and str(len(shape)) not in allowed.split(","):
                words = allowed.replace(",", " or ")
                call.fail(f"{name} has {len(shape)} axes, {words} are needed")

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        try:
            made = cls.written(Given(cls, call, call.inputs, call.count))
        except RankUnknown:
            return [TensorType(output_dtype(call, i), None) for i in range(call.count)]
        except OpError as error:
            kind = type(error) if isinstance(error, TypeMismatch) else ShapeMismatch
            call.fail(_reason(error), kind)
        except (IndexError, ZeroDivisionError):
            # `written` reads the axes that a valid node has, and divides by its counts.
            call.fail("its attributes and the shapes of its inputs do not fit each other")
        return [symbol.type for symbol in made]

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        if not cls.on_sizes or all(call.known(i) is None for i in range(len(call.inputs))):
            return None
        try:
            made = cls.written(Given(cls, call, call.inputs, call.count))
        except RankUnknown:
            return None
        return [symbol.known for symbol in made]

    @classmethod
    def expansion(cls, node: Node) -> Sequence[Symbol] | None:
        try:
            return cls.written(Given(cls, node, node.inputs, len(node.outputs)))[
                : len(node.outputs)
            ]
        except RankUnknown:
            return None

    @classmethod
    def compute(cls, node: Node, values: Sequence[Any]) -> Sequence[Any] | None:
        from neuralsym.ops.evaluate import evaluate_graph

        inputs = [
            None if v is None else make_variable(f"x{i}", _type_of(node, i, v))
            for i, v in enumerate(values)
        ]
        outputs = cls.written(Given(cls, node, tuple(inputs), len(node.outputs)))
        fed = {s: v for s, v in zip(inputs, values, strict=True) if s is not None}
        graph = Graph(tuple(outputs[: len(node.outputs)]), tuple(fed))
        return evaluate_graph(graph, fed)


def _type_of(node: Node, index: int, value: Any) -> TensorType:
    symbol = node.inputs[index]
    assert symbol is not None
    return TensorType(symbol.dtype, np.shape(value))


def _reason(error: OpError) -> str:
    """What did not fit, without the line: the outer operator's own is the user's."""
    return str(error).split("\n")[0]


# -- writing -----------------------------------------------------------------------------------
def op(name: str, *inputs: Any, **attrs: Any) -> Symbol:
    """The first output of an ONNX operator."""
    return call(name, *inputs, **attrs)


def several(name: str, inputs: Sequence[Any], outputs: int, **attrs: Any) -> tuple[Symbol, ...]:
    """The first `outputs` outputs of an ONNX operator."""
    return apply(find_op(name), inputs, attrs, outputs=outputs)


def cast(x: Symbol, dtype: NumberType | str) -> Symbol:
    """x as another number type; x itself where it has it."""
    return converted(x, NumberType(dtype))


def numbers(values: Any, dtype: NumberType | str) -> Symbol:
    """A constant of a number type."""
    return constant(Tensor.of(np.asarray(values), NumberType(dtype)))


def whole(*values: int) -> NDArray[np.int64]:
    """A vector of int64: axes, sizes, pads."""
    return np.array(values, np.int64)


def shape_of(x: Symbol) -> Shape:
    if x.shape is None:
        raise RankUnknown
    return x.shape


def rank_of(x: Symbol) -> int:
    return len(shape_of(x))


def size(x: Symbol, axis: int) -> Symbol:
    """The size of an axis as an int64 vector of one: a constant where it is known."""
    axis %= rank_of(x)
    found = shape_of(x)[axis]
    if isinstance(found, int):
        return constant(whole(found))
    return call("Shape", x, start=axis, end=axis + 1)


def sizes(*parts: Symbol | int) -> Symbol:
    """A shape from sizes and int64 vectors."""
    if all(isinstance(p, int) for p in parts):
        return constant(whole(*(p for p in parts if isinstance(p, int))))
    vectors = [constant(whole(p)) if isinstance(p, int) else p for p in parts]
    return call("Concat", *vectors, axis=0)


def reshape(x: Symbol, *parts: Symbol | int) -> Symbol:
    """x in another shape; 0 keeps the size at its place, -1 is what is left."""
    return call("Reshape", x, sizes(*parts))


def transpose(x: Symbol, *axes: int) -> Symbol:
    return call("Transpose", x, perm=axes)


def flipped(x: Symbol) -> Symbol:
    """x with its last two axes exchanged."""
    rank = rank_of(x)
    return transpose(x, *range(rank - 2), rank - 1, rank - 2)


def squeeze(x: Symbol, *axes: int) -> Symbol:
    return call("Squeeze", x, whole(*axes))


def unsqueeze(x: Symbol, *axes: int) -> Symbol:
    return call("Unsqueeze", x, whole(*axes))


def part(x: Symbol, axis: int, start: Any, stop: Any) -> Symbol:
    """x from `start` to before `stop` along an axis; each a number or an int64 vector of one."""
    ends = [whole(v) if isinstance(v, int) else v for v in (start, stop)]
    return call("Slice", x, *ends, whole(axis))


def counted(length: Symbol) -> Symbol:
    """0, 1, ... up to before the number in an int64 vector of one."""
    return call("Range", numbers(0, "int64"), squeeze(length, 0), numbers(1, "int64"))


def scalar(x: Symbol) -> Symbol:
    """A tensor of one element as one without axes."""
    return x if x.shape == () else reshape(x, *())
