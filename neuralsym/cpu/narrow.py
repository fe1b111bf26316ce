"""Conversions of the narrow floats, which compiled kernels see as their bits.

Plain functions over numpy scalars: kernels made by `emit.array_kernel` may call them, and they
run as they are too. Narrowing rounds to nearest, ties to even, once. `narrow_ir` has the same for
loops written as IR, with the formats that no array function needs.

A value of such a format is 1.m * 2^(e - bias), or 0.m * 2^(1 - bias) where the exponent is zero:

    format     mantissa  bias  infinity  NaN         largest
    float16    10        15    0x7c00    above it    65504
    bfloat16    7        127   0x7f80    above it    3.39e38
    e4m3fn      3          7   none      0x7f        448
    e4m3fnuz    3          8   none      0x80, no -0 240
    e5m2        2         15   0x7c      above it    57344
    e5m2fnuz    2         16   none      0x80, no -0 57344

Sources: IEEE 754; "FP8 Formats for Deep Learning" (Micikevicius et al. 2022); ONNX's page on
float8, whose `saturate` this follows: infinity and what is too large become the largest value,
else infinity where the format has one and NaN where it has not.
"""

from __future__ import annotations

import numpy as np

_SIGN = np.uint32(0x80000000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_MANTISSA = 23
_BIAS = 127


# -- to float32 ------------------------------------------------------------------------------
def _widened(magnitude: np.uint32, mantissa: int, bias: int) -> np.float32:
    """The finite value of exponent and mantissa bits; a power of two mends the other bias.

    Small values pass through as subnormal float32, which the multiplication makes normal.
    """
    moved = np.uint32(magnitude << np.uint32(_MANTISSA - mantissa)).view(np.float32)
    scale = np.uint32((_BIAS + _BIAS - bias) << _MANTISSA).view(np.float32)
    return np.float32(moved * scale)


def _signed(value: np.float32, negative: bool) -> np.float32:
    bits = np.float32(value).view(np.uint32)
    if negative:
        bits = np.uint32(bits | _SIGN)
    return np.uint32(bits).view(np.float32)


def half_to_float(bits: np.uint16) -> np.float32:
    """The float32 of a float16's bits; exact."""
    magnitude = np.uint32(bits & 0x7FFF)
    value = _widened(magnitude, 10, 15)
    if magnitude >= 0x7C00:
        # Infinity, or a NaN with its payload.
        value = np.uint32(_INFINITY | np.uint32(magnitude << np.uint32(13))).view(np.float32)
    return _signed(value, (bits & 0x8000) != 0)


def bfloat_to_float(bits: np.uint16) -> np.float32:
    """The float32 of a bfloat16's bits; exact."""
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


def e4m3fn_to_float(bits: np.uint8) -> np.float32:
    """The float32 of a float8e4m3fn's bits; exact."""
    magnitude = np.uint32(bits & 0x7F)
    value = _widened(magnitude, 3, 7)
    if magnitude == 0x7F:
        value = np.float32(np.nan)
    return _signed(value, (bits & 0x80) != 0)


def e5m2_to_float(bits: np.uint8) -> np.float32:
    """The float32 of a float8e5m2's bits; exact."""
    # The upper half of a float16.
    return half_to_float(np.uint16(np.uint16(bits) << np.uint16(8)))


def e4m3fnuz_to_float(bits: np.uint8) -> np.float32:
    """The float32 of a float8e4m3fnuz's bits; exact."""
    value = _signed(_widened(np.uint32(bits & 0x7F), 3, 8), (bits & 0x80) != 0)
    return np.float32(np.nan) if bits == 0x80 else value


def e5m2fnuz_to_float(bits: np.uint8) -> np.float32:
    """The float32 of a float8e5m2fnuz's bits; exact."""
    value = _signed(_widened(np.uint32(bits & 0x7F), 2, 16), (bits & 0x80) != 0)
    return np.float32(np.nan) if bits == 0x80 else value


# -- from float32 ----------------------------------------------------------------------------
def _rounded(magnitude: np.uint32, mantissa: int, bias: int) -> np.uint32:
    """Exponent and mantissa bits of a positive float32's bits; they may pass the format's end."""
    shift = np.uint32(_MANTISSA - mantissa)
    least_normal = np.uint32((_BIAS + 1 - bias) << _MANTISSA)
    if magnitude < least_normal:
        # Adding a number whose last place is the format's smallest value rounds to it.
        anchor = np.uint32((_BIAS + 1 - bias + _MANTISSA - mantissa) << _MANTISSA)
        total = np.uint32(magnitude).view(np.float32) + np.uint32(anchor).view(np.float32)
        return np.uint32(np.float32(total).view(np.uint32) - anchor)
    moved = np.uint32(magnitude - np.uint32((_BIAS - bias) << _MANTISSA))
    odd = np.uint32(np.uint32(moved >> shift) & np.uint32(1))
    half = np.uint32((1 << (_MANTISSA - mantissa - 1)) - 1)
    return np.uint32(np.uint32(moved + np.uint32(half + odd)) >> shift)


def _magnitude(value: np.float32) -> np.uint32:
    return np.uint32(np.float32(value).view(np.uint32) & _MAGNITUDE)


def _is_negative(value: np.float32) -> bool:
    return bool(np.uint32(np.float32(value).view(np.uint32) & _SIGN) != 0)


def float_to_half(value: np.float32) -> np.uint16:
    """The bits of the nearest float16."""
    magnitude = _magnitude(value)
    bits = min(_rounded(min(magnitude, _INFINITY), 10, 15), np.uint32(0x7C00))
    if magnitude > _INFINITY:
        bits = np.uint32(0x7E00)
    if _is_negative(value):
        bits = np.uint32(bits | np.uint32(0x8000))
    return np.uint16(bits)


def float_to_bfloat(value: np.float32) -> np.uint16:
    """The bits of the nearest bfloat16."""
    magnitude = _magnitude(value)
    odd = np.uint32(np.uint32(magnitude >> np.uint32(16)) & np.uint32(1))
    bits = np.uint32(np.uint32(magnitude + np.uint32(np.uint32(0x7FFF) + odd)) >> np.uint32(16))
    if magnitude > _INFINITY:
        bits = np.uint32(0x7FC0)
    if _is_negative(value):
        bits = np.uint32(bits | np.uint32(0x8000))
    return np.uint16(bits)


def float_to_e4m3fn(value: np.float32, saturate: bool) -> np.uint8:
    """The bits of the nearest float8e4m3fn."""
    magnitude = _magnitude(value)
    bits = _rounded(min(magnitude, _INFINITY), 3, 7)
    if bits > 0x7E:
        bits = np.uint32(0x7E) if saturate else np.uint32(0x7F)
    if magnitude > _INFINITY:
        bits = np.uint32(0x7F)
    if _is_negative(value):
        bits = np.uint32(bits | np.uint32(0x80))
    return np.uint8(bits)


def float_to_e5m2(value: np.float32, saturate: bool) -> np.uint8:
    """The bits of the nearest float8e5m2."""
    magnitude = _magnitude(value)
    bits = _rounded(min(magnitude, _INFINITY), 2, 15)
    if bits > 0x7B:
        bits = np.uint32(0x7B) if saturate else np.uint32(0x7C)
    if magnitude > _INFINITY:
        bits = np.uint32(0x7E)
    if _is_negative(value):
        bits = np.uint32(bits | np.uint32(0x80))
    return np.uint8(bits)


def _float_to_fnuz(value: np.float32, mantissa: int, bias: int, saturate: bool) -> np.uint8:
    magnitude = _magnitude(value)
    bits = _rounded(min(magnitude, _INFINITY), mantissa, bias)
    not_a_number = bool(magnitude > _INFINITY)
    if bits > 0x7F:
        bits = np.uint32(0x7F)
        not_a_number = not_a_number or not saturate
    if _is_negative(value) and bits != 0:
        bits = np.uint32(bits | np.uint32(0x80))
    return np.uint8(0x80) if not_a_number else np.uint8(bits)


def float_to_e4m3fnuz(value: np.float32, saturate: bool) -> np.uint8:
    """The bits of the nearest float8e4m3fnuz."""
    return _float_to_fnuz(value, 3, 8, saturate)


def float_to_e5m2fnuz(value: np.float32, saturate: bool) -> np.uint8:
    """The bits of the nearest float8e5m2fnuz."""
    return _float_to_fnuz(value, 2, 16, saturate)


def double_to_float_odd(value: np.float64) -> np.float32:
    """A float64 as float32, rounded to odd: narrowing the result rounds `value` only once."""
    near = np.float32(value)
    bits = np.float32(near).view(np.uint32)
    if np.float64(near) != value:
        # Toward zero, then odd: what has been cut off is remembered in the last place.
        if abs(np.float64(near)) > abs(value):
            bits = np.uint32(bits - np.uint32(1))
        bits = np.uint32(bits | np.uint32(1))
    return np.uint32(bits).view(np.float32)
