"""The leaves of a graph: variables that a run may feed, weights, and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from neuralsym.core.dim import Dim
from neuralsym.core.op import KNOWN_LIMIT, Call, Op
from neuralsym.core.schema import AttributeSpec, Schema
from neuralsym.core.scope import CURRENT, check_name
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import TensorType, Type, as_shape
from neuralsym.dtypes import NumberType, number_type
from neuralsym.errors import BadAttribute, ShapeMismatch, at_line, user_line

OWN = "neuralsym"
"""The domain of operators that ONNX does not have."""


def own_schema(name: str, *attributes: AttributeSpec, doc: str = "") -> Schema:
    """The schema of a leaf of ours: no inputs, one output."""
    return Schema(name, OWN, attributes={a.name: a for a in attributes}, doc=doc)


class Variable(Op):
    """A value that a run feeds; with `init`, one that it may feed."""

    domain = OWN
    schema = own_schema(
        "Variable",
        AttributeSpec("type", "TYPE_PROTO", required=True),
        AttributeSpec("init", "TENSOR"),
    )


class Weight(Op):
    """A stored parameter of a network; `trainable` is False for batch-norm statistics."""

    domain = OWN
    schema = own_schema(
        "Weight",
        AttributeSpec("value", "TENSOR", required=True),
        AttributeSpec("trainable", "INT", default=1),
    )

    @classmethod
    def constant_value(cls, node: Node) -> NDArray[Any] | None:
        return _small(node)


class Constant(Op):
    """A value that is part of the program."""

    @classmethod
    def infer(cls, call: Call) -> Sequence[Type]:
        tensor: Tensor = call.attrs["value"]
        return [TensorType(tensor.dtype, tensor.shape)]

    @classmethod
    def constant_value(cls, node: Node) -> NDArray[Any] | None:
        return _small(node)


def _small(node: Node) -> NDArray[Any] | None:
    tensor: Tensor = node.attrs["value"]
    # Integers are sizes, axes, indices: inference needs them, so few are drawn for it.
    wanted = tensor.is_drawn or tensor.dtype.is_integer
    return tensor.value if wanted and tensor.size <= KNOWN_LIMIT else None


def variable(
    name: str,
    shape: Sequence[int | str | Dim | None] | int | str = (),
    dtype: DTypeLike | NumberType | None = None,
    init: ArrayLike | Tensor | None = None,
) -> Symbol:
    """A value that a run feeds.

    `shape` holds sizes or names (`("N", 3, 224, 224)`), () for a scalar; `dtype` defaults to
    float32. With `init`, its value, shape and dtype are the default that a run may override (an
    overridable initializer in ONNX). Raises ShapeMismatch or TypeMismatch when `init` does not
    fit what is given beside it, BadAttribute for a missing name.
    """
    where = user_line()
    if not isinstance(name, str):
        raise BadAttribute(f"a variable's name is text, not {name!r}{at_line(where)}")
    check_name(name)
    attrs: dict[str, Any] = {}
    if init is not None:
        tensor = init if isinstance(init, Tensor) else Tensor.of(init, _optional(dtype))
        if shape != () and as_shape(shape) != tensor.shape:
            raise ShapeMismatch(
                f"variable {name!r} has shape {shape}, its init {tensor.shape}{at_line(where)}"
            )
        type_ = TensorType(tensor.dtype, tensor.shape)
        attrs["init"] = tensor
    else:
        type_ = TensorType(_optional(dtype) or NumberType.FLOAT32, as_shape(shape))
    return make_variable(name, type_, attrs)


def make_variable(name: str | None, type: Type, attrs: dict[str, Any] | None = None) -> Symbol:
    """A variable of any type, sequences included."""
    attrs = {"type": type, **(attrs or {})}
    return Node(Variable, (), attrs, (type,), name=name, where=user_line()).outputs[0]


def constant(
    value: ArrayLike | Tensor, dtype: DTypeLike | None = None, *, name: str | None = None
) -> Symbol:
    """A constant; Python floats become float32, Python ints int64 unless `dtype` says otherwise."""
    tensor = value if isinstance(value, Tensor) else Tensor.of(value, _optional(dtype))
    type_ = TensorType(tensor.dtype, tensor.shape)
    return Node(
        Constant, (), {"value": tensor}, (type_,), name=name, scope=CURRENT.get(), where=user_line()
    ).outputs[0]


def make_weight(tensor: Tensor, *, name: str | None = None, trainable: bool = True) -> Symbol:
    """A weight; its value is drawn when it is first needed."""
    type_ = TensorType(tensor.dtype, tensor.shape)
    attrs = {"value": tensor, "trainable": int(trainable)}
    return Node(
        Weight, (), attrs, (type_,), name=name, scope=CURRENT.get(), where=user_line()
    ).outputs[0]


def _optional(dtype: DTypeLike | NumberType | None) -> NumberType | None:
    return None if dtype is None else number_type(dtype)


def is_stored(symbol: Symbol) -> bool:
    """Whether the symbol is a weight or a constant: a value that is kept with the program."""
    return symbol.node.op in (Weight, Constant)


def stored(symbol: Symbol) -> Tensor:
    """The tensor of a weight or a constant."""
    tensor: Tensor = symbol.node.attrs["value"]
    return tensor


def dims_array(dims: Sequence[Any]) -> NDArray[Any]:
    """A vector of sizes as a known value: int64, or objects where some are expressions."""
    if all(isinstance(d, (int, np.integer)) for d in dims):
        return np.array(list(dims), dtype=np.int64)
    made = np.empty(len(dims), dtype=object)
    made[:] = dims
    return made
