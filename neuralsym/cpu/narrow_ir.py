"""The narrow number types as IR over vectors: floats of 4 to 16 bits, integers of 2 and 4.

In memory each element has bytes of its own; compiled code computes narrow floats as float32 and
narrow integers as 8 bits. Widening is exact. Narrowing rounds to nearest, ties to even, and once:
what comes from a wider type than float32 is first rounded to odd, which no later rounding undoes.

Sources: `cpu/narrow.py` has the formats of 8 bits; float4 and float6 are those of "OCP
Microscaling Formats (MX)" 1.0, which have neither infinity nor NaN: what is too large becomes the
largest value, and NaN a zero of the other sign, as ml_dtypes and onnx's own cases have it.
"""

from __future__ import annotations

from typing import NamedTuple

from neuralsym.cpu.ir import Function
from neuralsym.cpu.vector_lanes import constant, repeated, vector
from neuralsym.dtypes import NumberType

BIAS, MANTISSA, INFINITY = 127, 23, 0x7F800000
"""Of float32."""


class Format(NamedTuple):
    """A narrow float: 1.m * 2^(e - bias), or 0.m * 2^(1 - bias) where the exponent is zero.

    sign: its bit, nothing else lies at or above it. The others are exponent and mantissa bits:
    `largest` of the largest value, `over` of what is too large, `nan` of NaN, to which the sign is
    joined by "exclusive or". `infinity` is None where there is none; `nan` itself and the bits
    above `infinity` are NaN. `unsigned_zero`: the bits of -0 are those of NaN.
    """

    mantissa: int
    bias: int
    sign: int
    largest: int
    over: int
    nan: int
    infinity: int | None = None
    unsigned_zero: bool = False


FORMATS: dict[NumberType, Format] = {
    NumberType.FLOAT16: Format(10, 15, 0x8000, 0x7BFF, 0x7C00, 0x7E00, 0x7C00),
    NumberType.FLOAT8E4M3FN: Format(3, 7, 0x80, 0x7E, 0x7F, 0x7F),
    NumberType.FLOAT8E5M2: Format(2, 15, 0x80, 0x7B, 0x7C, 0x7E, 0x7C),
    NumberType.FLOAT8E4M3FNUZ: Format(3, 8, 0x80, 0x7F, 0x80, 0x80, None, True),
    NumberType.FLOAT8E5M2FNUZ: Format(2, 16, 0x80, 0x7F, 0x80, 0x80, None, True),
    NumberType.FLOAT4E2M1: Format(1, 1, 0x8, 0x7, 0x7, 0x8),
    NumberType.FLOAT6E2M3: Format(3, 1, 0x20, 0x1F, 0x1F, 0x20),
    NumberType.FLOAT6E3M2: Format(2, 3, 0x20, 0x1F, 0x1F, 0x20),
}
SMALL_FLOATS = frozenset({*FORMATS, NumberType.FLOAT8E8M0} - {NumberType.FLOAT16})
"""Floats of one byte: computed as float32."""
SMALL_INTEGERS: dict[NumberType, int] = {
    NumberType.INT4: 4,
    NumberType.UINT4: 4,
    NumberType.INT2: 2,
    NumberType.UINT2: 2,
}
"""Integers of less than a byte, with their bits; the rest of their byte is zero."""


class Bits:
    """Arithmetic on the bits of float32 lanes."""

    def __init__(self, f: Function, width: int) -> None:
        self.f, self.width = f, width
        self.single, self.kind = vector("float", width), vector("i32", width)
        self.mask = vector("i1", width)

    def whole(self, value: int) -> str:
        return repeated(str(value), "i32", self.width)

    def _of(self, value: str | int) -> str:
        return value if isinstance(value, str) else self.whole(value)

    def do(self, name: str, a: str | int, b: str | int) -> str:
        """An instruction on two operands: add, sub, and, or, xor, shl, lshr."""
        return self.f.value(f"{name} {self.kind} {self._of(a)}, {self._of(b)}")

    def compare(self, how: str, a: str | int, b: str | int) -> str:
        return self.f.value(f"icmp {how} {self.kind} {self._of(a)}, {self._of(b)}")

    def where(self, condition: str, a: str | int, b: str | int) -> str:
        kind = self.kind
        return self.f.value(
            f"select {self.mask} {condition}, {kind} {self._of(a)}, {kind} {self._of(b)}"
        )

    def of_float(self, name: str) -> str:
        return self.f.value(f"bitcast {self.single} {name} to {self.kind}")

    def as_float(self, name: str) -> str:
        return self.f.value(f"bitcast {self.kind} {name} to {self.single}")


# -- floats ------------------------------------------------------------------------------------
def widened(f: Function, bits: str, kind: NumberType, width: int) -> str:
    """The float32 of a narrow float's bits, which are in i32 lanes."""
    lanes = Bits(f, width)
    if kind is NumberType.FLOAT8E8M0:
        # A bare exponent; the smallest is below the normal float32.
        moved = lanes.do("shl", bits, MANTISSA)
        moved = lanes.where(lanes.compare("eq", bits, 0), 1 << (MANTISSA - 1), moved)
        return lanes.as_float(lanes.where(lanes.compare("eq", bits, 0xFF), 0x7FC00000, moved))
    form = FORMATS[kind]
    magnitude = lanes.do("and", bits, form.sign - 1)
    moved = lanes.as_float(lanes.do("shl", magnitude, MANTISSA - form.mantissa))
    scale = constant(2.0 ** (BIAS - form.bias), "float", width)
    # Exact: a power of two mends the bias, and makes subnormal values normal.
    value = lanes.of_float(f.value(f"fmul {lanes.single} {moved}, {scale}"))
    if form.infinity is not None:
        value = lanes.where(lanes.compare("uge", magnitude, form.infinity), INFINITY, value)
        value = lanes.where(lanes.compare("ugt", magnitude, form.infinity), 0x7FC00000, value)
    elif form.nan < form.sign:
        value = lanes.where(lanes.compare("eq", magnitude, form.nan), 0x7FC00000, value)
    sign = lanes.do("shl", lanes.do("and", bits, form.sign), 32 - form.sign.bit_length())
    value = lanes.do("or", value, sign)
    if form.unsigned_zero:
        value = lanes.where(lanes.compare("eq", bits, form.nan), 0x7FC00000, value)
    return lanes.as_float(value)


def narrowed(f: Function, single: str, kind: NumberType, width: int, how: str = "") -> str:
    """The bits, in i32 lanes, of the narrow float nearest to float32 values.

    how: for float8e8m0, "up", "down" or "nearest", with "_saturate" if wanted.
    """
    lanes = Bits(f, width)
    bits = lanes.of_float(single)
    magnitude = lanes.do("and", bits, 0x7FFFFFFF)
    if kind is NumberType.FLOAT8E8M0:
        return _exponent(lanes, magnitude, how)
    form = FORMATS[kind]
    shift = MANTISSA - form.mantissa
    moved = lanes.do("sub", magnitude, (BIAS - form.bias) << MANTISSA)
    odd = lanes.do("and", lanes.do("lshr", moved, shift), 1)
    bias = lanes.do("add", odd, (1 << (shift - 1)) - 1)
    normal = lanes.do("lshr", lanes.do("add", moved, bias), shift)
    # Adding a number whose last place is the format's smallest value rounds to it.
    exponent = BIAS + 1 - form.bias + shift
    anchor = constant(2.0 ** (exponent - BIAS), "float", width)
    total = f.value(f"fadd {lanes.single} {lanes.as_float(magnitude)}, {anchor}")
    small = lanes.do("sub", lanes.of_float(total), exponent << MANTISSA)
    least = (BIAS + 1 - form.bias) << MANTISSA
    made = lanes.where(lanes.compare("ult", magnitude, least), small, normal)
    # The bits of infinity are above all others, so that those of NaN wrap nowhere.
    large = lanes.compare("uge", magnitude, INFINITY)
    large = f.value(f"or {lanes.mask} {large}, {lanes.compare('ugt', made, form.largest)}")
    made = lanes.where(large, form.over, made)
    made = lanes.where(lanes.compare("ugt", magnitude, INFINITY), form.nan, made)
    sign = lanes.do("lshr", lanes.do("and", bits, -(1 << 31)), 32 - form.sign.bit_length())
    if form.unsigned_zero:
        plain = lanes.compare("eq", lanes.do("and", made, form.sign - 1), 0)
        sign = lanes.where(plain, 0, sign)
    return lanes.do("xor", made, sign)


def _exponent(lanes: Bits, magnitude: str, how: str) -> str:
    """The bits of a float8e8m0, a power of two without a sign; "" is to nearest, as numpy's.

    ONNX says what becomes of what lies outside for "up" with saturation and "nearest" without:
    the nearest value, or NaN. Here all that saturate do the former, the others the latter.
    """
    half = 1 << (MANTISSA - 1)
    mode, _, saturates = how.partition("_")
    exponent = lanes.do("lshr", magnitude, MANTISSA)
    fraction = lanes.do("and", magnitude, (1 << MANTISSA) - 1)
    if mode == "down":
        made = exponent
    else:
        # Float32 below its normal values counts from zero, so the smallest power, 2^-127, is half.
        limits = (1, half + 1) if mode == "up" else (half, half + half // 2)
        tiny = lanes.compare("eq", exponent, 0)
        more = lanes.compare("uge", fraction, lanes.where(tiny, limits[1], limits[0]))
        made = lanes.do("add", exponent, lanes.where(more, 1, 0))
    finite = lanes.compare("ult", magnitude, INFINITY)
    if saturates:
        made = lanes.where(lanes.compare("ugt", made, 0xFE), 0xFE, made)
        return lanes.where(lanes.compare("ugt", magnitude, INFINITY), 0xFF, made)
    made = lanes.where(lanes.compare("ult", magnitude, half), 0xFF, made)
    return lanes.where(finite, made, 0xFF)


def bfloat_bits(f: Function, name: str, width: int) -> str:
    """The upper 16 bits of float32 values rounded half to even, in the low half of i32 lanes."""
    single, wide = vector("float", width), vector("i32", width)

    def number(value: int) -> str:
        return repeated(str(value), "i32", width)

    bits = f.value(f"bitcast {single} {name} to {wide}")
    high = f.value(f"lshr {wide} {bits}, {number(16)}")
    odd = f.value(f"and {wide} {high}, {number(1)}")
    bias = f.value(f"add {wide} {odd}, {number(0x7FFF)}")
    moved = f.value(f"lshr {wide} {f.value(f'add {wide} {bits}, {bias}')}, {number(16)}")
    nan = f.value(f"fcmp uno {single} {name}, {name}")
    quiet = f.value(f"or {wide} {high}, {number(0x40)}")
    lanes = vector("i1", width)
    return f.value(f"select {lanes} {nan}, {wide} {quiet}, {wide} {moved}")


def odd_single(f: Function, double: str, width: int) -> str:
    """Doubles as float32, rounded to odd: narrowing the result rounds the double only once."""
    lanes = Bits(f, width)
    wide = vector("double", width)
    near = f.value(f"fptrunc {wide} {double} to {lanes.single}")
    back = f.value(f"fpext {lanes.single} {near} to {wide}")
    inexact = f.value(f"fcmp one {wide} {back}, {double}")
    sizes = [f.call("fabs", wide, name) for name in (back, double)]
    beyond = f.value(f"fcmp ogt {wide} {sizes[0]}, {sizes[1]}")
    bits = lanes.of_float(near)
    # Toward zero, then odd: what has been cut off is remembered in the last place.
    cut = lanes.where(beyond, lanes.do("sub", bits, 1), bits)
    return lanes.as_float(lanes.where(inexact, lanes.do("or", cut, 1), bits))


def odd_double(f: Function, whole: str, width: int, signed: bool) -> str:
    """64-bit integers as doubles that a narrower float rounds as it would round the integers."""
    kind, mask = vector("i64", width), vector("i1", width)

    def number(value: int) -> str:
        return repeated(str(value), "i64", width)

    low = f.value(f"and {kind} {whole}, {number(0xFFF)}")
    high = f.value(f"and {kind} {whole}, {number(-0x1000)}")
    rest = f.value(f"icmp ne {kind} {low}, {number(0)}")
    mark = f.value(f"select {mask} {rest}, {kind} {number(0x800)}, {kind} {number(0)}")
    sticky = f.value(f"or {kind} {high}, {mark}")
    # Below 2^53 a double holds the integer itself.
    moved = f.value(f"add {kind} {whole}, {number(1 << 53)}") if signed else whole
    limit = number(1 << (54 if signed else 53))
    exact = f.value(f"icmp ult {kind} {moved}, {limit}")
    chosen = f.value(f"select {mask} {exact}, {kind} {whole}, {kind} {sticky}")
    how = "sitofp" if signed else "uitofp"
    return f.value(f"{how} {kind} {chosen} to {vector('double', width)}")


# -- integers ----------------------------------------------------------------------------------
def wrapped(f: Function, byte: str, kind: NumberType, width: int) -> str:
    """Bytes as values of a small integer: its low bits, extended as its sign says."""
    type_, bits = vector("i8", width), SMALL_INTEGERS[kind]
    if kind.startswith("u"):
        return packed(f, byte, kind, width)
    shift = repeated(str(8 - bits), "i8", width)
    return f.value(f"ashr {type_} {f.value(f'shl {type_} {byte}, {shift}')}, {shift}")


def packed(f: Function, byte: str, kind: NumberType, width: int) -> str:
    """The low bits of bytes, as memory holds them."""
    low = repeated(str((1 << SMALL_INTEGERS[kind]) - 1), "i8", width)
    return f.value(f"and {vector('i8', width)} {byte}, {low}")
