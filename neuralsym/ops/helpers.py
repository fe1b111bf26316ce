"""Constants by the names of the seed: numbers, pi, tensors of one value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from neuralsym.core.leaves import constant, variable
from neuralsym.core.symbol import Symbol
from neuralsym.core.tensor import Tensor
from neuralsym.core.types import as_shape
from neuralsym.dtypes import NumberType, number_type
from neuralsym.errors import ShapeMismatch, TypeMismatch, at_line, user_line
from neuralsym.ops.attention_functions import flex_attention
from neuralsym.ops.control_functions import CONTROL_FUNCTIONS


def float_(
    value: float, dtype: DTypeLike | NumberType = "float32", *, name: str | None = None
) -> Symbol:
    """A scalar constant of a floating type."""
    kind = number_type(dtype)
    if not kind.is_float:
        raise TypeMismatch(f"float_ makes a floating type, not {kind}{at_line(user_line())}")
    return constant(Tensor.of(float(value), kind), name=name)


def int_(value: int, dtype: DTypeLike | NumberType = "int32", *, name: str | None = None) -> Symbol:
    """A scalar constant of an integer type; TypeMismatch for a value that it does not hold."""
    kind = number_type(dtype)
    if not kind.is_integer or not hasattr(value, "__index__"):
        raise TypeMismatch(f"int_({value!r}, {str(kind)!r}) is no integer{at_line(user_line())}")
    whole = np.array(value.__index__(), dtype=object)
    try:
        made = whole.astype(kind.numpy)
    except OverflowError:
        made = None
    if made is None or int(made) != value:
        raise TypeMismatch(f"{value} does not fit {kind}{at_line(user_line())}")
    return constant(Tensor.of(made, kind), name=name)


def complex_(
    real: float,
    imaginary: float = 0.0,
    dtype: DTypeLike | NumberType = "complex64",
    *,
    name: str | None = None,
) -> Symbol:
    """A scalar complex constant."""
    kind = number_type(dtype)
    if not kind.startswith("complex"):
        raise TypeMismatch(f"complex_ makes a complex type, not {kind}{at_line(user_line())}")
    value = np.array(complex(real, imaginary), dtype=kind.numpy)
    return constant(Tensor.of(value, kind), name=name)


def pi(dtype: DTypeLike | NumberType = "float32", *, name: str | None = None) -> Symbol:
    """The number pi as a scalar constant."""
    return float_(math.pi, dtype, name=name)


def tensor(
    value: ArrayLike | Tensor, dtype: DTypeLike | None = None, *, name: str | None = None
) -> Symbol:
    """A constant of any shape; the same as `constant`."""
    return constant(value, dtype, name=name)


def zeros(
    shape: Sequence[int] | int,
    dtype: DTypeLike | NumberType = "float32",
    *,
    name: str | None = None,
) -> Symbol:
    """A constant of zeros; `constant_of_shape` takes a shape that is known only when run."""
    return _filled(shape, 0, dtype, name)


def ones(
    shape: Sequence[int] | int,
    dtype: DTypeLike | NumberType = "float32",
    *,
    name: str | None = None,
) -> Symbol:
    """A constant of ones; `constant_of_shape` takes a shape that is known only when run."""
    return _filled(shape, 1, dtype, name)


def _filled(
    shape: Sequence[int] | int, value: int, dtype: DTypeLike | NumberType, name: str | None
) -> Symbol:
    kind = number_type(dtype)
    sizes: list[int] = []
    for size in as_shape(shape):
        if not isinstance(size, int):
            raise ShapeMismatch(
                f"a constant has sizes, not names: {size} is one; use ops.constant_of_shape"
                f"{at_line(user_line())}"
            )
        sizes.append(size)
    scalar: Any = kind.numpy.type(value)

    def make() -> Any:
        return np.full(sizes, scalar, kind.numpy)

    return constant(Tensor(kind, tuple(sizes), make), name=name)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "variable": variable,
    "constant": constant,
    "float_": float_,
    "int_": int_,
    "complex_": complex_,
    "float": float_,
    "int": int_,
    "complex": complex_,
    "pi": pi,
    "tensor": tensor,
    "zeros": zeros,
    "ones": ones,
    **CONTROL_FUNCTIONS,
    "flex_attention": flex_attention,
}
"""The functions of leaves and of what takes bodies, by each of their names."""
