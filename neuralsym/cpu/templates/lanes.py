"""Vectors between memory and registers for any number type, and their reduction to one value.

Half-precision floats are computed with as float32, booleans as unsigned bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from neuralsym.cpu.ir import Function
from neuralsym.cpu.narrow_ir import bfloat_bits, narrowed, widened
from neuralsym.cpu.scalar_ir import HALVES, IR_TYPE, Value, convert
from neuralsym.cpu.vector_lanes import Lanes, repeated, vector
from neuralsym.cpu.vector_math import exp
from neuralsym.dtypes import NumberType

COMPUTED = {
    **{kind: kind for kind in IR_TYPE},
    NumberType.FLOAT16: NumberType.FLOAT32,
    NumberType.BFLOAT16: NumberType.FLOAT32,
    NumberType.BOOL: NumberType.UINT8,
}
"""The type that values of a type in memory have in registers."""


def memory_type(kind: NumberType) -> str:
    """The IR type of an element in memory."""
    if kind in HALVES:
        return "i16"
    return "i8" if kind is NumberType.BOOL else IR_TYPE[kind]


def load(f: Function, kind: NumberType, place: str, width: int, mask: str | None = None) -> Value:
    """`width` elements; with a mask, zeros where it is false, and nothing is read there."""
    type_ = vector(memory_type(kind), width)
    align = kind.itemsize
    raw = f.load(type_, place, align) if mask is None else f.masked_load(type_, place, mask, align)
    single = vector("float", width)
    if kind is NumberType.FLOAT16 and not f.module.converts_halves:
        bits = f.value(f"zext {type_} {raw} to {vector('i32', width)}")
        raw = widened(f, bits, kind, width)
    elif kind is NumberType.FLOAT16:
        half = f.value(f"bitcast {type_} {raw} to {vector('half', width)}")
        raw = f.value(f"fpext {vector('half', width)} {half} to {single}")
    elif kind is NumberType.BFLOAT16:
        wide = vector("i32", width)
        long = f.value(f"zext {type_} {raw} to {wide}")
        high = f.value(f"shl {wide} {long}, {repeated('16', 'i32', width)}")
        raw = f.value(f"bitcast {wide} {high} to {single}")
    return Value(raw, COMPUTED[kind])


def store(
    f: Function, value: Value, kind: NumberType, place: str, width: int, mask: str | None = None
) -> None:
    """Store `width` values as elements of `kind`, those that the mask selects."""
    type_ = vector(memory_type(kind), width)
    if kind is NumberType.FLOAT16 and not f.module.converts_halves:
        single = convert(f, value, NumberType.FLOAT32, width).name
        bits = narrowed(f, single, kind, width)
        made = f.value(f"trunc {vector('i32', width)} {bits} to {type_}")
    elif kind is NumberType.FLOAT16:
        wide = convert(f, value, NumberType.FLOAT32, width).name
        half = vector("half", width)
        short = f.value(f"fptrunc {vector('float', width)} {wide} to {half}")
        made = f.value(f"bitcast {half} {short} to {type_}")
    elif kind is NumberType.BFLOAT16:
        bits = bfloat_bits(f, convert(f, value, NumberType.FLOAT32, width).name, width)
        made = f.value(f"trunc {vector('i32', width)} {bits} to {type_}")
    else:
        made = convert(f, value, COMPUTED[kind], width).name
    if mask is None:
        f.store(type_, made, place, kind.itemsize)
    else:
        f.masked_store(type_, made, place, mask, kind.itemsize)


def horizontal(
    f: Function, name: str, element: str, width: int, combine: Callable[[str, str, int], str]
) -> str:
    """The lanes combined pairwise to one value: combine(a, b, width)."""
    while width > 1:
        half = width // 2
        kind, undefined = vector(element, width), "poison"
        low = ", ".join(f"i32 {i}" for i in range(half))
        high = ", ".join(f"i32 {i + half}" for i in range(half))
        parts = [
            f.value(f"shufflevector {kind} {name}, {kind} {undefined}, <{half} x i32> <{lanes}>")
            for lanes in (low, high)
        ]
        if half == 1:
            parts = [f.value(f"extractelement <1 x {element}> {part}, i32 0") for part in parts]
        name = combine(parts[0], parts[1], half)
        width = half
    return name


def extreme(f: Function, how: str, kind: NumberType, width: int, a: str, b: str) -> str:
    """The larger ("max") or smaller ("min") of each lane; a NaN on either side stays."""
    type_, lanes = vector(IR_TYPE[kind], width), vector("i1", width)
    word = "gt" if how == "max" else "lt"
    if not kind.is_float:
        sign = "u" if kind.startswith("uint") else "s"
        better = f.value(f"icmp {sign}{word} {type_} {b}, {a}")
        return f.value(f"select {lanes} {better}, {type_} {b}, {type_} {a}")
    # The machine's own maximum: the second where either is NaN. So only a NaN in the first is lost.
    better = f.value(f"fcmp o{word} {type_} {a}, {b}")
    made = f.value(f"select {lanes} {better}, {type_} {a}, {type_} {b}")
    unknown = f.value(f"fcmp uno {type_} {a}, {a}")
    return f.value(f"select {lanes} {unknown}, {type_} {a}, {type_} {made}")


def limits(kind: NumberType) -> tuple[float, float]:
    """The least and the largest value of a type."""
    if kind.is_float:
        return float("-inf"), float("inf")
    bits = 8 * kind.itemsize
    if kind.startswith("uint"):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def falling_exp(v: Lanes, x: str, scales: bool) -> str:
    """e^x of x <= 0, NaN of NaN: within a unit in the last place, subnormal results too.

    scales: whether the machine multiplies by a power of two (`Target.scales`).
    """
    v.f.module.scales = scales
    return exp(v, x, falling=True)
