"""Array functions over memory seen as other types: elements that are only moved as units of their
size, narrow floats through conversions that the loops call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu.arrays import Direction, Scalar
from neuralsym.cpu.arrays import Operand as ArrayOperand
from neuralsym.cpu.emit import Code, array_kernel
from neuralsym.cpu.kernels.array_row import Value, attribute_word, kind_of
from neuralsym.cpu.narrow import (
    bfloat_to_float,
    double_to_float_odd,
    float_to_bfloat,
    float_to_half,
    half_to_float,
)
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, Step, Word
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


class Side(NamedTuple):
    """An operand of an array function: its memory, the type and shape to see it in, in or out."""

    place: Buffer | Operand | NDArray[np.int64]
    kind: str
    shape: Sequence[int]
    direction: Direction = "in"


def typed_row(
    step: Step,
    sizes: Sizes,
    function: Function,
    sides: Sequence[Side],
    attributes: Sequence[Value] = (),
    *,
    name: str = "",
    serial: bool = False,
    fast: bool = False,
) -> Row:
    """The row that calls `function(*arrays, *attributes, worker, workers)`.

    As `array_row`, but the memory may be a part of a buffer, scratch or a table, and is seen as
    any type. serial: one worker runs it, and the function does not take the last two.
    ShapeMismatch for an input of the step that has not as many bytes as its loop will read.
    """
    for side in sides:
        _check_size(step, sizes, side)
    kinds = tuple((side.kind, len(side.shape), side.direction) for side in sides)
    code = _code(function, kinds, tuple(map(kind_of, attributes)), name, fast)
    words: list[Word] = []
    for side in sides:
        words.append(Operand(side.place) if isinstance(side.place, Buffer) else side.place)
        words += side.shape
    words += map(attribute_word, attributes)
    return Row(code, words, serial=serial)


def _check_size(step: Step, sizes: Sizes, side: Side) -> None:
    """Sizes that go by different names may differ in a run; no loop may read beyond its input."""
    buffer = side.place
    if isinstance(buffer, Buffer) and buffer in step.inputs and 0 not in side.shape:
        itemsize = ArrayOperand(side.kind, 0).itemsize
        check_count(step, sizes, buffer, prod(side.shape) * itemsize // buffer.dtype.itemsize)


def check_count(step: Step, sizes: Sizes, buffer: Buffer, count: int) -> None:
    """ShapeMismatch if an input of the step has not that many elements in this run."""
    given = sizes.shape(buffer)
    if prod(given) != count:
        raise ShapeMismatch(
            f"{step.describe()}: {buffer.name} is {list(given)} here, which does not fit the other "
            f"inputs: {count} elements are needed"
        )


@lru_cache(maxsize=1024)
def _code(
    function: Function,
    operands: tuple[tuple[str, int, Direction], ...],
    attributes: tuple[Scalar, ...],
    name: str,
    fast: bool,
) -> Code:
    return array_kernel(function, operands, attributes, name or None, fast)


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
