"""Rows and calls of array functions: numba-compiled loops over operands of collapsed shapes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.cpu import driver
from neuralsym.cpu.arrays import Direction, Scalar
from neuralsym.cpu.emit import Code, array_kernel, compile_one
from neuralsym.cpu.machine import Target
from neuralsym.cpu.program import Buffer, Operand, Row, Word, float_word
from neuralsym.cpu.store import Store
from neuralsym.dtypes import number_type

Value = bool | int | float
Function = Callable[..., Any]


def array_row(
    function: Function,
    operands: Sequence[tuple[Buffer, Sequence[int], Direction]],
    attributes: Sequence[Value] = (),
    *,
    name: str = "",
    serial: bool = True,
) -> Row:
    """The row that calls `function(*arrays, *attributes)` on row-major buffers.

    operands: (buffer, shape to see it in, "in" or "out"), the shape with as many elements as the
        buffer has. Compiled once for each set of dtypes and ranks (`emit.array_kernel`), so
        functions should take few ranks: [outer, axis, inner].
    serial: one worker runs it; else the function's last parameters are `worker, workers` and it
        does its share only.
    """
    kinds = tuple((str(b.dtype), len(shape), direction) for b, shape, direction in operands)
    code = _code(function, kinds, tuple(map(kind_of, attributes)), name)
    words: list[Word] = []
    for buffer, shape, _ in operands:
        words.append(Operand(buffer))
        words += shape
    words += map(attribute_word, attributes)
    return Row(code, words, serial=serial)


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
) -> Code:
    return array_kernel(function, operands, attributes, name or None)


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
