"""Rows and calls of array functions: numba-compiled loops over operands of collapsed shapes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu import driver
from neuralsym.cpu.arrays import Direction, Scalar
from neuralsym.cpu.arrays import Operand as ArrayOperand
from neuralsym.cpu.emit import Code, array_kernel, compile_one
from neuralsym.cpu.kernels.units import Function, check_count
from neuralsym.cpu.machine import Target
from neuralsym.cpu.program import Buffer, Operand, Row, Sizes, Step, Word, float_word
from neuralsym.cpu.store import Store
from neuralsym.dtypes import number_type

Value = bool | int | float


class Side(NamedTuple):
    """An operand of an array function: its memory, the type and shape to see it in, in or out."""

    place: Buffer | Operand | NDArray[np.int64]
    kind: str
    shape: Sequence[int]
    direction: Direction = "in"


def array_row(
    step: Step,
    sizes: Sizes,
    function: Function,
    sides: Sequence[Side],
    attributes: Sequence[Value] = (),
    *,
    name: str = "",
    serial: bool = False,
    fast: bool = False,
    checked: bool = False,
) -> Row:
    """The row that calls `function(*arrays, *attributes, worker, workers)` on row-major memory.

    sides: whole buffers, parts of them, scratch or tables. A side's shape has as many bytes as its
        memory, which may be seen as any type. Compiled once for each set of types and ranks
        (`emit.array_kernel`), so functions should take few ranks: [outer, axis, inner].
    serial: one worker runs it, and the function does not take the last two.
    fast, checked: as of `emit.array_kernel`.
    ShapeMismatch for an input of the step that has not as many bytes as its loop will read.
    """
    for side in sides:
        _check_size(step, sizes, side)
    kinds = tuple((side.kind, len(side.shape), side.direction) for side in sides)
    code = _code(function, kinds, tuple(map(kind_of, attributes)), name, fast, checked)
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


def call_arrays(
    function: Function,
    operands: Sequence[tuple[NDArray[Any], Direction]],
    attributes: Sequence[Value],
    target: Target,
    cache_dir: str | None,
    name: str = "",
) -> int:
    """Call the compiled function now, on arrays in C order; its status, 0 for success."""
    kinds = tuple((a.dtype, a.ndim, direction) for a, direction in operands)
    kernel = _called(function, kinds, tuple(map(kind_of, attributes)), name, target, cache_dir)
    words: list[int] = []
    for array, _ in operands:
        words += [array.__array_interface__["data"][0], *array.shape]
    words += map(attribute_word, attributes)
    desc = (ctypes.c_int64 * max(len(words), 1))(*words)
    return int(kernel(None, ctypes.addressof(desc), 0, 1))


def kind_of(value: Value) -> Scalar:
    """The type of an attribute in the descriptor."""
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    return "float64" if isinstance(value, (float, np.floating)) else "int64"


def attribute_word(value: Value) -> int:
    """The word of an attribute in the descriptor."""
    return float_word(float(value)) if kind_of(value) == "float64" else int(value)


@lru_cache(maxsize=1024)
def _code(
    function: Function,
    operands: tuple[tuple[str, int, Direction], ...],
    attributes: tuple[Scalar, ...],
    name: str,
    fast: bool = False,
    checked: bool = False,
) -> Code:
    return array_kernel(function, operands, attributes, name or None, fast, checked)


@lru_cache(maxsize=1024)
def _called(
    function: Function,
    operands: tuple[tuple[np.dtype[Any], int, Direction], ...],
    attributes: tuple[Scalar, ...],
    name: str,
    target: Target,
    cache_dir: str | None,
) -> Callable[..., int]:
    """The compiled function; it is loaded once in the life of the process."""
    kinds = tuple((str(number_type(d)), rank, direction) for d, rank, direction in operands)
    code = _code(function, kinds, attributes, name)
    return driver.Kernel(compile_one(code, target, Store.of(cache_dir)))
