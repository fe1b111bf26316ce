"""numpy's reading of the scalar language: the values of an elementwise operator.

Half-precision floats are computed in float32 and rounded once, as the compiled loops do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralsym.core.broadcast import broadcast_shapes
from neuralsym.core.scalar import Expr, Scalar, cast_mode, cast_type
from neuralsym.dtypes import NumberType

Array = NDArray[Any]


def compute(expr: Scalar, inputs: Sequence[Array | None], dtype: NumberType) -> Array:
    """The value of `expr` over arrays that broadcast; the result has number type `dtype`."""
    wide = [None if a is None else _widened(a) for a in inputs]
    with np.errstate(all="ignore"):
        value = _value(expr, wide)
        # numpy's own stops at 32 axes.
        shape: Any = broadcast_shapes([a.shape for a in wide if a is not None])
        made = narrowed(np.asarray(value), dtype)
    return made if made.shape == shape else np.broadcast_to(made, shape).copy()


def _widened(array: Array) -> Array:
    small = array.dtype == np.float16 or _is_added(array.dtype)
    return array.astype(np.float32) if small else array


def _is_added(dtype: np.dtype[Any]) -> bool:
    """Whether numpy has the type from ml_dtypes, which computes in it rather than in float32."""
    return dtype.isbuiltin == 2


def narrowed(array: Array, dtype: NumberType) -> Array:
    """The array in another number type, rounding once; out-of-range floats become infinite."""
    return array if array.dtype == dtype.numpy else as_type(array, dtype)


def as_type(array: Array, kind: NumberType, how: str = "") -> Array:
    """numpy's astype, but that it rounds once to every narrow float; `how` is that of `cast`."""
    wanted = kind.numpy
    if kind is NumberType.FLOAT8E8M0:
        return _powers(_odd(array), how).view(wanted)
    if not _is_added(wanted):
        return array.astype(wanted)
    if kind.is_integer:
        return array.astype(np.int8 if array.dtype.kind == "i" else np.uint8).astype(wanted)
    return _odd(array).astype(wanted)


def _odd(array: Array) -> Array:
    """The array as float32; what is wider is rounded to odd, which no later rounding undoes."""
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        sticky = (array & ~array.dtype.type(0xFFF)) | np.where(array & 0xFFF, 0x800, 0).astype(
            array.dtype
        )
        small = np.abs(array.astype(np.float64)) < 2.0**53
        array = np.where(small, array, sticky).astype(np.float64)
    elif array.dtype.kind in "iu" and array.dtype.itemsize == 4:
        array = array.astype(np.float64)
    single = array.astype(np.float32)
    if array.dtype != np.float64:
        return single
    back = single.astype(np.float64)
    bits = np.ascontiguousarray(single).view(np.uint32)
    cut = bits - (np.abs(back) > np.abs(array))
    inexact = (back != array) & (array == array)
    return np.where(inexact, cut | 1, bits).astype(np.uint32).view(np.float32)


def _powers(single: Array, how: str) -> Array:
    """The bits of float8e8m0, bare exponents; see cpu/narrow_ir.py, which has the same rules."""
    mode, _, saturates = how.partition("_")
    magnitude = np.ascontiguousarray(single).view(np.uint32) & 0x7FFFFFFF
    exponent, fraction = magnitude >> 23, magnitude & 0x7FFFFF
    half = 0x400000
    normal, tiny = (1, half + 1) if mode == "up" else (half, half + half // 2)
    if mode == "down":
        normal = tiny = 1 << 23
    made = exponent + (fraction >= np.where(exponent == 0, tiny, normal))
    if saturates:
        made = np.where(magnitude > 0x7F800000, 0xFF, np.minimum(made, 0xFE))
    else:
        made = np.where((magnitude < half) | (magnitude >= 0x7F800000), 0xFF, made)
    return made.astype(np.uint8)


def _value(expr: Scalar, inputs: Sequence[Array | None]) -> Any:
    """The value by an explicit stack, each shared part once."""
    done: dict[Expr, Any] = {}
    table = _functions()
    stack: list[Scalar] = [expr]
    while stack:
        item = stack[-1]
        if not isinstance(item, Expr) or item in done:
            stack.pop()
            continue
        waiting = [o for o in item.operands if isinstance(o, Expr) and o not in done]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        operands = [done[o] if isinstance(o, Expr) else o for o in item.operands]
        if item.function == "input":
            done[item] = inputs[int(item.detail)]
        elif item.function == "cast":
            done[item] = as_type(np.asarray(operands[0]), cast_type(item), cast_mode(item))
            if _is_added(done[item].dtype):  # computed with as what the loops compute with
                done[item] = _widened(done[item])
        else:
            done[item] = table[item.function](*_typed(operands))
    return done[expr] if isinstance(expr, Expr) else expr


def _typed(operands: list[Any]) -> list[Any]:
    """Plain numbers in the number type of the arrays beside them."""
    arrays = [o for o in operands if isinstance(o, (np.ndarray, np.generic))]
    kinds = [a.dtype for a in arrays if a.dtype != np.bool_]
    if not kinds:  # where(condition, 1.5, 0): the result tells the type
        return operands
    return [
        o if isinstance(o, (np.ndarray, np.generic, bool)) else np.asarray(o).astype(kinds[-1])
        for o in operands
    ]


@cache
def _functions() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {
        **{n: getattr(np, n) for n in ("sign", "floor", "ceil", "trunc", "sqrt", "exp", "expm1")},
        **{n: getattr(np, n) for n in ("log", "log1p", "sin", "cos", "tan", "sinh", "cosh")},
        **{n: getattr(np, n) for n in ("tanh", "isnan", "isinf", "abs", "where", "fmod", "mod")},
        **{f"a{n}": getattr(np, f"arc{n}") for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": _divide,
        "pow": _power,
        "min": np.minimum,
        "max": np.maximum,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "eq": np.equal,
        "ne": np.not_equal,
        "and": np.logical_and,
        "or": np.logical_or,
        "xor": np.logical_xor,
        "not": np.logical_not,
        "bit_and": np.bitwise_and,
        "bit_or": np.bitwise_or,
        "bit_xor": np.bitwise_xor,
        "bit_not": np.invert,
        "shift_left": _shift_left,
        "shift_right": _shift_right,
        "neg": np.negative,
        "round": np.rint,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "reciprocal": lambda x: _divide(np.ones_like(x), x),
        "sigmoid": _sigmoid,
        "erf": _erf,
    }
    return table


def _divide(a: Any, b: Any) -> Any:
    """Division; on integers it truncates, and by zero it gives zero."""
    if np.asarray(a).dtype.kind not in "iu":
        return np.divide(a, b)
    # In this form no intermediate overflows but the one quotient that has no value anyway.
    quotient = np.floor_divide(a, b)
    inexact = (np.remainder(a, b) != 0) & ((np.asarray(a) < 0) != (np.asarray(b) < 0))
    return quotient + inexact.astype(quotient.dtype)


def _power(a: Any, b: Any) -> Any:
    """Power; integers to a negative power truncate towards zero."""
    if np.asarray(a).dtype.kind in "iu" and np.asarray(b).dtype.kind in "iu":
        b_array = np.asarray(b)
        raised = np.power(a, np.where(b_array < 0, 0, b_array).astype(b_array.dtype))
        ones = np.where(np.asarray(a) == 1, 1, np.where(b_array % 2 == 0, 1, -1))
        tiny = np.where(np.abs(a) == 1, ones, 0).astype(raised.dtype)
        return np.where(b_array < 0, tiny, raised).astype(raised.dtype)
    return np.power(a, b)


def _shift_left(a: Any, b: Any) -> Any:
    """Bits moved left; by the width or more, none is left."""
    width = np.asarray(a).dtype.itemsize * 8
    return np.where(b < width, np.left_shift(a, np.minimum(b, width - 1)), 0)


def _shift_right(a: Any, b: Any) -> Any:
    """Bits moved right; by the width or more, nothing but copies of the sign is left."""
    kind = np.asarray(a).dtype
    width = kind.itemsize * 8
    rest = -(np.asarray(a) < 0).astype(kind) if kind.kind == "i" else 0
    return np.where(b < width, np.right_shift(a, np.minimum(b, width - 1)), rest)


def _sigmoid(x: Any) -> Any:
    """1/(1 + exp(-x)) by the exponential that does not overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _erf(x: Any) -> Any:
    import math

    erf: Any = np.frompyfunc(math.erf, 1, 1)
    return np.asarray(erf(x)).astype(np.asarray(x).dtype)
