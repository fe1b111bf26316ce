"""Classical machine learning, its features: scaling, picking and filling in, of ai.onnx.ml.

All of it is written with operators of ONNX.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neuralsym.core import registry
from neuralsym.core.leaves import constant
from neuralsym.core.op import Call, Op
from neuralsym.core.scalar import Expr, Scalar, cast, where
from neuralsym.core.symbol import Node, Symbol
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import Elementwise, bad, check_choice, check_rank, same_type
from neuralsym.ops.expansions import converted, reshaped

DOMAIN = "ai.onnx.ml"


class Learned(Op, abstract=True):
    """A model fitted elsewhere, its parameters in attributes."""

    domain = DOMAIN


def batch_of(call: Call) -> Size:
    """The number of rows; a vector is one row."""
    shape = call.shape(0)
    if shape is None:
        return None
    return shape[0] if len(shape) > 1 else 1


def floats(shape: Shape | None) -> TensorType:
    return TensorType(NumberType.FLOAT32, shape)


def _row(values: Sequence[float], x: Symbol) -> Symbol:
    """A constant row in the type of x."""
    return constant(np.array(values, x.dtype.numpy))


def exact(x: Symbol) -> Symbol:
    """x in a type in which it is computed with: float32 as it is, all else as float64."""
    return converted(x, x.dtype if x.dtype is NumberType.FLOAT32 else NumberType.FLOAT64)


def _check_row(call: Call, name: str) -> None:
    """The attribute has one entry, or one for each feature."""
    count, shape = len(call.attr(name) or ()), call.shape(0)
    width = shape[-1] if shape else None
    if count > 1 and isinstance(width, int) and count != width:
        call.fail(f"{name} has {count} entries for {width} features", bad)


# -- numbers -----------------------------------------------------------------------------------
class ArrayFeatureExtractor(Learned):
    """The columns of the last axis that the indices name; those of a vector as a row.

    Indices count from 0; a negative one is an error.
    """

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        x, picked = call.shape(0), call.shape(1)
        count: Size = 1
        for size in picked if picked is not None else (None,):
            count = None if count is None or size is None else count * size
        if x is None:
            return [TensorType(call.dtype(0), None)]
        if not x:
            call.fail("X needs an axis to take features from")
        known = call.known(1)
        if known is not None and known.dtype != object and isinstance(x[-1], int):
            wrong = known[(known < 0) | (known >= x[-1])]
            if wrong.size:
                call.fail(f"index {wrong.reshape(-1)[0]} is out of range for {x[-1]} features")
        return [TensorType(call.dtype(0), ((1,) if len(x) == 1 else x[:-1]) + (count,))]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        x, picked = node.inputs
        assert x is not None and picked is not None
        if x.tensor.rank is None:
            return None
        call = registry.call
        places = reshaped(picked, -1)
        # Gather counts negative indices from the end; here they must fail.
        places = call("Where", call("Less", places, 0), np.int64(2**62), places)
        made = call("Gather", x, places, axis=-1)
        return [call("Unsqueeze", made, np.array([0]))] if x.tensor.rank == 1 else [made]


class Binarizer(Elementwise):
    """1 above the threshold, else 0."""

    domain = DOMAIN

    @staticmethod
    def scalar(x: Expr, *, threshold: float) -> Scalar:
        # In float64, because the threshold of whole numbers need not be whole.
        return where(cast(x, "float64") > threshold, 1, 0)


class FeatureVectorizer(Learned):
    """Tensors joined along the last axis as float32, each cut or filled up to its dimension."""

    @classmethod
    def check(cls, call: Call) -> None:
        for i in range(len(call.inputs)):
            check_rank(call, i, 1, 2)
        widths = call.attr("inputdimensions")
        if widths and (len(widths) != len(call.inputs) or min(widths) < 0):
            call.fail(f"inputdimensions={widths} does not fit {len(call.inputs)} inputs", bad)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        widths = call.attr("inputdimensions")
        total: Size = 0
        for i in range(len(call.inputs)):
            shape = call.shape(i)
            width: Size = widths[i] if widths else None
            if width is None and shape:
                width = shape[-1]
            total = None if total is None or width is None else total + width
        return [floats((batch_of(call), total))]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        call, parts = registry.call, []
        widths = node.attr("inputdimensions")
        for i, x in enumerate(node.inputs):
            assert x is not None
            shape = x.tensor.shape
            if shape is None:
                return None
            made = converted(x, NumberType.FLOAT32)
            if len(shape) == 1:
                made = call("Unsqueeze", made, np.array([0]))
            if widths and widths[i] != shape[-1]:
                axes = np.array([1])
                made = call("Pad", made, np.array([0, widths[i]]), 0.0, axes)
                made = call("Slice", made, np.array([0]), np.array([widths[i]]), axes)
            parts.append(made)
        return [call("Concat", *parts, axis=1)]


class Imputer(Learned):
    """The input with a value that stands for "missing" replaced, by one value for each feature."""

    @classmethod
    def check(cls, call: Call) -> None:
        name = cls.values(call)
        if not call.attr(name):
            call.fail(f"{name} must be given for {call.dtype(0)}", bad)
        _check_row(call, name)

    @classmethod
    def values(cls, call: Call | Node) -> str:
        """The attribute with the values to put in."""
        kind = call.inputs[0].dtype if call.inputs[0] is not None else NumberType.FLOAT32
        return "imputed_value_floats" if kind.is_float else "imputed_value_int64s"

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [same_type(call)]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        (x,), call = node.inputs, registry.call
        assert x is not None
        old = node.attr("replaced_value_float" if x.dtype.is_float else "replaced_value_int64")
        if x.dtype.is_float and old != old:
            missing = call("IsNaN", x)
        elif x.dtype.is_float:
            missing = call("Equal", x, constant(np.array(old, x.dtype.numpy)))
        else:  # the value may be none of the type's
            missing = call("Equal", converted(x, NumberType.INT64), np.int64(old))
        new = _row(node.attr(cls.values(node)), x)
        return [call("Where", missing, new, x)]


class Normalizer(Learned):
    """Each row divided by its largest element, its sum of magnitudes, or its length.

    The largest element counts with its sign, as the specification's formula says; onnx's reference
    takes the largest magnitude. A row whose divisor is zero stays.
    """

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "norm", ("MAX", "L1", "L2"))
        check_rank(call, 0, 1, 2)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [floats(call.shape(0))]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        (x,), call = node.inputs, registry.call
        assert x is not None
        wide = exact(x)
        how = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}[node.attr("norm")]
        if x.tensor.shape is None:
            return None
        if x.tensor.shape[-1] == 0:
            return [converted(wide, NumberType.FLOAT32)]
        divisor = call(how, wide, np.array([-1]), keepdims=1)
        divisor = call("Where", call("Equal", divisor, 0.0), 1.0, divisor)
        return [converted(call("Div", wide, divisor), NumberType.FLOAT32)]


class Scaler(Learned):
    """(x - offset) * scale, for each feature."""

    @classmethod
    def check(cls, call: Call) -> None:
        for name in ("offset", "scale"):
            _check_row(call, name)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [floats(call.shape(0))]

    @classmethod
    def expansion(cls, node: Node) -> list[Symbol] | None:
        (x,), call = node.inputs, registry.call
        assert x is not None
        made = exact(x)
        if node.attr("offset"):
            made = call("Sub", made, _row(node.attr("offset"), made))
        if node.attr("scale"):
            made = call("Mul", made, _row(node.attr("scale"), made))
        return [converted(made, NumberType.FLOAT32)]
