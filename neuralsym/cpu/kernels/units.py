"""What loops see elements as: units of their size where they are only moved, numbers where they are
computed with, narrow floats through conversions that the loops call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.narrow import (
    bfloat_to_float,
    double_to_float_odd,
    float_to_bfloat,
    float_to_half,
    half_to_float,
)
from neuralsym.cpu.program import Buffer, Sizes, Step
from neuralsym.dtypes import NumberType
from neuralsym.errors import ShapeMismatch

Function = Callable[..., Any]

UNITS = {8: "uint64", 4: "uint32", 2: "uint16", 1: "uint8"}

REALS = (
    *(NumberType.FLOAT32, NumberType.FLOAT64, NumberType.FLOAT16, NumberType.BFLOAT16),
    *(NumberType.INT8, NumberType.INT16, NumberType.INT32, NumberType.INT64),
    *(NumberType.UINT8, NumberType.UINT16, NumberType.UINT32, NumberType.UINT64),
)
"""The number types that are ordered and computed with."""


def check_count(step: Step, sizes: Sizes, buffer: Buffer, count: int) -> None:
    """ShapeMismatch if an input of the step has not that many elements in this run."""
    given = sizes.shape(buffer)
    if prod(given) != count:
        raise ShapeMismatch(
            f"{step.describe()}: {buffer.name} is {list(given)} here, which does not fit the other "
            f"inputs: {count} elements are needed"
        )


def units(size: int) -> tuple[str, int]:
    """The widest unsigned type that divides `size` bytes, and how many of them those are."""
    unit = gcd(size, 8)
    return UNITS[unit], size // unit


def table(*columns: Sequence[int]) -> NDArray[np.int64]:
    """Rows of numbers for a loop, laid out flat: one entry of each column in every row."""
    return np.array(list(zip(*columns, strict=True)) or [(0,) * len(columns)], np.int64).reshape(-1)


def are_tensors(step: Step) -> bool:
    """Whether all operands are numbers in memory."""
    return all(b.is_tensor for b in (*step.operands, *step.outputs))


def takes_floats(step: Step) -> bool | str:
    """Whether the first input is of floats, which `decoder` reads; else why not."""
    x = step.inputs[0]
    assert x is not None
    return x.dtype.is_float or f"no compiled loops over {x.dtype}"


# -- conversions -------------------------------------------------------------------------------
def same(value: Any) -> Any:
    """A value as it is."""
    return value


def half_of(value: Any) -> Any:
    """The bits of the float16 nearest to a float64."""
    return float_to_half(double_to_float_odd(np.float64(value)))


def bfloat_of(value: Any) -> Any:
    """The bits of the bfloat16 nearest to a float64."""
    return float_to_bfloat(double_to_float_odd(np.float64(value)))


@cache
def decoder(kind: NumberType) -> Function:
    """From an element in memory to a number that loops compute with."""
    halves = {NumberType.FLOAT16: half_to_float, NumberType.BFLOAT16: bfloat_to_float}
    return halves.get(kind, same)


@cache
def encoder(kind: NumberType) -> Function:
    """From a float64 to an element in memory: integers are rounded and stay in range."""
    if kind is NumberType.FLOAT16:
        return half_of
    if kind is NumberType.BFLOAT16:
        return bfloat_of
    if not (kind.is_integer or kind is NumberType.BOOL):
        return same
    info = np.iinfo(np.uint8 if kind is NumberType.BOOL else kind.numpy)
    low, high = int(info.min), 1 if kind is NumberType.BOOL else int(info.max)
    least, most = float(low), float(high)
    number = info.dtype.type

    def rounded(value: Any) -> Any:
        if value >= most:
            return number(high)
        if value <= least:
            return number(low)
        return number(0) if value != value else number(np.rint(value))

    return rounded
