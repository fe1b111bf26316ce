"""Generators: tensors made of a size, a range or a distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.dim import Dim, ceil_div, maximum
from neuralsym.core.op import KNOWN_LIMIT, Call
from neuralsym.core.types import Shape, Size, TensorType, Type
from neuralsym.dtypes import NumberType, from_onnx
from neuralsym.ops.base import (
    Generator,
    Random,
    check_range,
    check_rank,
    never_negative,
    output_dtype,
)
from neuralsym.ops.shapes import partial_dims


class ConstantOfShape(Generator):
    """A tensor of the given shape that holds one value everywhere, 0.0 unless `value` is given."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        value = call.attr("value")
        if value is not None and value.size != 1:
            call.fail(f"value must hold one element, it holds {value.size}")
        dtype = NumberType.FLOAT32 if value is None else value.dtype
        return [TensorType(dtype, shape_of_input(call, 0))]

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        shape = shape_of_input(call, 0)
        if shape is None or not all(isinstance(d, int) for d in shape):
            return None
        sizes = [d for d in shape if isinstance(d, int)]
        if size_of(sizes) > KNOWN_LIMIT:
            return None
        value = call.attr("value")
        if value is None:
            return [np.zeros(sizes, np.float32)]
        return [np.full(sizes, value.value.reshape(-1)[0], value.dtype.numpy)]


class EyeLike(Generator):
    """Ones on the diagonal that `k` says, in the shape of a matrix."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_rank(call, 0, 2, 2)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [TensorType(dtype_attribute(call) or call.dtype(0), call.shape(0))]


class Range(Generator):
    """start, start + delta, ... before limit."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [TensorType(output_dtype(call), (cls.length(call),))]

    @classmethod
    def length(cls, call: Call) -> Size:
        """How many numbers; None where it depends on the run."""
        values = [call.known(i) for i in range(3)]
        if any(v is None or v.size != 1 for v in values):
            return None
        start, limit, delta = (v.reshape(-1)[0] for v in values if v is not None)
        if isinstance(delta, Dim) or delta == 0:
            return None if isinstance(delta, Dim) else call.fail("delta is zero")
        if isinstance(start, Dim) or isinstance(limit, Dim):
            if not float(delta).is_integer() or any(
                not isinstance(v, Dim) and not float(v).is_integer() for v in (start, limit)
            ):
                return None
            start, limit = (v if isinstance(v, Dim) else int(v) for v in (start, limit))
            span = limit - start if delta > 0 else start - limit
            length = ceil_div(span, abs(int(delta)))
            return length if never_negative(length) else maximum(length, 0)
        if call.dtype(0).is_integer:
            start, limit, delta = int(start), int(limit), int(delta)
            return max(-((start - limit) // delta), 0)
        steps = np.ceil((float(limit) - float(start)) / float(delta))
        if not np.isfinite(steps):
            call.fail("start, limit and delta must be finite numbers")
        return max(int(steps), 0)

    @classmethod
    def fold(cls, call: Call) -> Sequence[NDArray[Any] | None] | None:
        length = cls.length(call)
        if not isinstance(length, int) or length > KNOWN_LIMIT or not call.dtype(0).is_integer:
            return None
        start, delta = call.known(0), call.known(2)
        assert start is not None
        assert delta is not None
        if start.dtype == object:
            return None
        steps = np.arange(length, dtype=np.int64) * int(delta.reshape(-1)[0])
        return [(int(start.reshape(-1)[0]) + steps).astype(call.dtype(0).numpy)]


# -- random ------------------------------------------------------------------------------------
class RandomUniform(Random):
    """Numbers drawn evenly between `low` and `high`, anew in each run."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_range(call, "shape", 0)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [TensorType(dtype_attribute(call) or NumberType.FLOAT32, call.attr("shape"))]


class RandomNormal(Random):
    """Numbers drawn from a normal distribution, anew in each run."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_range(call, "shape", 0)
        check_range(call, "scale", 0)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [TensorType(dtype_attribute(call) or NumberType.FLOAT32, call.attr("shape"))]


class DrawnLike(Random, abstract=True):
    """One draw for each element of the input."""

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [TensorType(dtype_attribute(call) or call.dtype(0), call.shape(0))]


class RandomUniformLike(DrawnLike):
    """Numbers drawn evenly between `low` and `high`, in the shape of the input."""


class RandomNormalLike(DrawnLike):
    """Numbers drawn from a normal distribution, in the shape of the input."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_range(call, "scale", 0)


class Bernoulli(DrawnLike):
    """0 or 1 at each place, 1 with the probability that the input states."""


class Multinomial(Random):
    """Indices of classes drawn by the unnormalised log-probabilities of each row."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_range(call, "sample_size", 0)
        check_rank(call, 0, 2, 2)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        shape = call.shape(0)
        out = None if shape is None else (shape[0], call.attr("sample_size"))
        return [TensorType(dtype_attribute(call) or NumberType.INT32, out)]


# -- helpers -----------------------------------------------------------------------------------
def dtype_attribute(call: Call, name: str = "dtype") -> NumberType | None:
    """The number type that an attribute names, None where it is absent or 0."""
    value = call.attr(name)
    return from_onnx(value) if value else None


def shape_of_input(call: Call, index: int) -> Shape | None:
    """The shape that an input vector holds, None for a size that only the run tells."""
    shape = call.shape(index)
    if shape is not None and len(shape) != 1:
        call.fail("a shape is a vector")
    dims = partial_dims(call, index)
    if any(isinstance(d, int) and d < 0 for d in dims or ()):
        call.fail(f"a shape has no negative sizes, this one is {dims}")
    return None if dims is None else tuple(dims)


def size_of(sizes: Sequence[int]) -> int:
    """The number of elements."""
    total = 1
    for d in sizes:
        total *= d
    return total
