"""Transcendental functions of vectors as IR, and of scalars of a width of 1.

float: exp, tanh, sigmoid and erf are computed in float, by reduction to a small interval and a
polynomial; the others in double, rounded once. double: exp, log and sigmoid by polynomials, the
others by the C library, lane by lane. NaN stays NaN, limits and the signs of zeros are exact.

Over all of float32, subnormal arguments and results too, with every instruction set, errors stay
under two units in the last place: exp 1.1, expm1 1.9, sigmoid 1.8, tanh 1.7, erf 1.5, tan 1.6, the
others 0.6. Activations that are x times one of them (Swish, Gelu, Mish) stay under two units of x.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from neuralsym.cpu.ir import Function
from neuralsym.cpu.vector_lanes import Lanes, repeated, vector

LOG2E = 1 / math.log(2)
# ln 2 in two parts, the first with so few bits that its products with exponents are exact.
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
LN2_HIGH_FLOAT, LN2_LOW_FLOAT = 0.693359375, -2.12194440e-4
# pi/2 in three parts, of 33, 33 and 53 bits.
HALF_PI = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21)

Series = tuple[float, ...]
# (exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2, relative error 1.4e-7 of it.
EXP_FLOAT: Series = (
    *(0.5000000013543259, 0.16666576643547154, 0.041666464167312976),
    *(0.00836323538462965, 0.0013933733216306013),
)
# erf(x)/x - 1 in x^2 for |x| < 0.95, relative error 7e-10.
ERF_SMALL: Series = (
    *(0.1283791664799738, -0.37612632167435, 0.11283671016205946, -0.02685803195804539),
    *(0.005197642554995343, -0.0008104441943260094, 8.209796819665648e-05),
)
# (tanh(x)/x - 1)/x^2 in x^2 for |x| <= 0.52, relative error of the whole 2.1e-8.
TANH_SMALL: Series = (
    *(-0.3333308541084505, 0.13324213975908816, -0.05291515293991314, 0.016940698699469573),
)
# -log(1 - erf(x)) for 0.9 < x < 4.
ERF_LARGE: Series = (
    *(-0.000300268821987683, 1.1301551015699804, 0.6319562413541919, 0.10996079943097681),
    *(-0.026355120777291758, 0.004736950621788234, -0.0005920927580450322),
    *(4.55127729352888e-05, -1.61024041628431e-06),
)
# (atan(x)/x - 1)/x^2 in x^2 for |x| <= tan(pi/8), relative error 7e-14.
ATAN: Series = (
    *(-0.3333333333333099, 0.19999999997769818, -0.14285713935660913, 0.11111089884430966),
    *(-0.09090261081150632, 0.07681105779644415, -0.0655130277706087, 0.05170175936022072),
    -0.027251305589417227,
)

LIBRARY = frozenset(
    {
        *("expm1", "log1p", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh"),
        *("tanh", "asinh", "acosh", "atanh", "pow"),
    }
)


# -- exponentials ------------------------------------------------------------------------------
def _reduced(v: Lanes, x: str) -> tuple[str, str, str]:
    """n as bits above those of `v.magic`, n as floats and r for x = n*ln(2) + r."""
    shifted = v.fma(x, LOG2E, v.magic)
    whole = v.sub(shifted, v.magic)
    high, low = (LN2_HIGH_FLOAT, LN2_LOW_FLOAT) if v.element == "float" else (LN2_HIGH, LN2_LOW)
    r = v.fma(whole, -low, v.fma(whole, -high, x))
    return v.bits(shifted), whole, r


def _whole(v: Lanes, bits: str) -> str:
    """The integers n that `_reduced` tells of."""
    return v.integer_op("sub", bits, v.whole(_bits_of(v.magic, v.element)))


def _grown(v: Lanes, r: str, start: str | None = None) -> str:
    """exp(r) - 1 of a reduced r; start: what to add to, in the place of r."""
    exact: Series = tuple(1 / math.factorial(k) for k in range(2, 14))
    tail = v.polynomial(r, EXP_FLOAT if v.element == "float" else exact)
    return v.fma(v.mul(r, r), tail, r if start is None else start)


def _bits_of(value: float, element: str) -> int:
    code = ("<i", "<f") if element == "float" else ("<q", "<d")
    return int(struct.unpack(code[0], struct.pack(code[1], value))[0])


def exp(v: Lanes, x: str, falling: bool = False) -> str:
    """2^n (1 + p), the power in two halves so that the ends of the range come out right.

    falling: x is nowhere above 88, or 709.
    """
    low, high = (-104.0, 89.0) if v.element == "float" else (-746.0, 710.0)
    bits, whole, r = _reduced(v, v.above(x if falling else v.below(x, high), low))
    one = v.add(_grown(v, r), 1.0)
    if v.scales:
        return v.scaled(one, whole)
    n = _whole(v, bits)
    first = v.integer_op("ashr", n, 1)
    second = v.integer_op("sub", n, first)
    return v.mul(v.mul(one, v.power_of_two(first)), v.power_of_two(second))


def expm1(v: Lanes, x: str) -> str:
    """2^n p + (2^n - 1); for floats."""
    bits, _, r = _reduced(v, v.above(v.below(x, 89.0), -20.0))
    # Half of everything, so that 2^128 does not overflow before its time.
    scale = v.power_of_two(v.integer_op("sub", _whole(v, bits), 1))
    half = v.fma(scale, _grown(v, r), v.sub(scale, 0.5))
    doubled = v.add(half, half)
    return v.where(v.compare("oeq", x, 0.0), x, doubled)


def sigmoid(v: Lanes, x: str) -> str:
    """s/(s + exp(-r)) for x = n*ln(2) + r and s = 2^n, the sum taken as (1 + s) + (exp(-r) - 1).

    So no exponential is ever rounded, which would cost the bound of two units.
    """
    single = v.element == "float"
    low, high, digits = (-104.0, 30.0, 24) if single else (-746.0, 60.0, 53)
    bits, whole, r = _reduced(v, v.above(v.below(x, high), low))
    s = _power(v, bits, whole)
    turned = v.neg(r)
    # So small an s is lost in 1 + s: it is added to what is small as well.
    start = v.where(v.compare("ole", whole, -digits), v.sub(s, r), turned)
    return v.div(s, v.add(v.add(s, 1.0), _grown(v, turned, start)))


def _power(v: Lanes, bits: str, whole: str) -> str:
    """2^n of what `_reduced` gives, subnormal ones too."""
    if v.scales:
        return v.scaled(v.number(1.0), whole)
    n = _whole(v, bits)
    first = v.integer_op("ashr", n, 1)
    return v.mul(v.power_of_two(first), v.power_of_two(v.integer_op("sub", n, first)))


def tanh(v: Lanes, x: str) -> str:
    """x + x^3 P(x^2) near zero, m/(m + 2) with m = exp(2|x|) - 1 beyond; for floats.

    With 2|x| = n*ln(2) + r, s = 2^-n and p = exp(r) - 1 the quotient is a/(a + 2s), a = 1 - s + p.
    """
    square = v.mul(x, x)
    small = v.fma(v.mul(square, x), v.polynomial(square, TANH_SMALL), x)
    size = v.below(v.abs(x), 10.0)
    bits, _, r = _reduced(v, v.add(size, size))
    base = v.whole(_bits_of(v.magic, v.element))
    s = v.power_of_two(v.integer_op("sub", base, bits))
    above = v.add(v.sub(1.0, s), _grown(v, r))
    large = v.div(above, v.add(above, v.add(s, s)))
    near = v.compare("olt", size, 0.52)
    return v.copysign(v.where(near, small, large), x)


def erf(v: Lanes, x: str) -> str:
    """x + x P(x^2) near zero, 1 - exp(-Q(|x|)) beyond."""
    size = v.abs(x)
    small = v.fma(x, v.polynomial(v.mul(x, x), ERF_SMALL), x)
    clipped = v.below(size, 4.0)
    large = v.sub(1.0, exp(v, v.neg(v.polynomial(clipped, ERF_LARGE)), falling=True))
    return v.where(v.compare("olt", size, 0.92), small, v.copysign(large, x))


# -- in double ---------------------------------------------------------------------------------
def log(v: Lanes, x: str) -> str:
    """k ln(2) + 2 atanh(s) with x = 2^k m, s = (m - 1)/(m + 1), m within sqrt(2) of 1; doubles."""
    tiny = v.compare("olt", x, 2.2250738585072014e-308)
    scaled = v.where(tiny, v.mul(x, 2.0**54), x)
    bits = v.bits(scaled)
    # Counting exponents from sqrt(1/2) on.
    offset = v.integer_op("sub", bits, _bits_of(math.sqrt(0.5), "double"))
    k = v.integer_op("ashr", offset, 52)
    m = v.from_bits(v.integer_op("sub", bits, v.integer_op("shl", k, 52)))
    exponent = v.f.value(f"sitofp {v.integers} {k} to {v.kind}")
    exponent = v.where(tiny, v.sub(exponent, 54.0), exponent)
    less = v.sub(m, 1.0)
    s = v.div(less, v.add(less, 2.0))
    square = v.mul(s, s)
    series = v.polynomial(square, tuple(2 / (2 * k + 1) for k in range(1, 11)))
    # 2s = less - s*less, so that the leading part is exact.
    rest = v.fma(v.mul(square, series), s, v.neg(v.mul(s, less)))
    result = v.fma(exponent, LN2_HIGH, v.add(less, v.fma(exponent, LN2_LOW, rest)))
    result = v.where(v.compare("oeq", x, 0.0), -math.inf, result)
    result = v.where(v.compare("olt", x, 0.0), math.nan, result)
    return v.where(v.compare("ult", x, math.inf), v.where(_is_nan(v, x), x, result), x)


def _is_nan(v: Lanes, x: str) -> str:
    return v.compare("uno", x, x)


def _near_zero(v: Lanes, x: str, limit: float, series: Sequence[float], otherwise: str) -> str:
    """x + c0 x^2 + c1 x^3 ... below the limit in size, where the formula would cancel."""
    small = v.fma(v.mul(x, x), v.polynomial(x, series), x)
    signed = v.copysign(small, x)  # a negative zero stays one
    return v.where(v.compare("olt", v.abs(x), limit), signed, otherwise)


def _log1p(v: Lanes, x: str) -> str:
    return _near_zero(v, x, 1e-4, (-1 / 2, 1 / 3, -1 / 4), log(v, v.add(x, 1.0)))


def _quarter(v: Lanes, x: str) -> tuple[str, str]:
    """The quadrant and the rest of an angle of at most 2^20."""
    shifted = v.fma(x, 2 / math.pi, v.magic)
    whole = v.sub(shifted, v.magic)
    quadrant = v.bits(shifted)
    rest = x
    for part in HALF_PI:
        rest = v.fma(whole, -part, rest)
    return quadrant, rest


def _sine(v: Lanes, r: str) -> str:
    series = tuple((-1) ** (k + 1) / math.factorial(2 * k + 3) for k in range(6))
    square = v.mul(r, r)
    # A product, so that a negative zero stays one.
    return v.mul(r, v.fma(square, v.polynomial(square, series), 1.0))


def _cosine(v: Lanes, r: str) -> str:
    series = tuple((-1) ** k / math.factorial(2 * k) for k in range(8))
    return v.polynomial(v.mul(r, r), series)


def _sin_cos(v: Lanes, x: str, shift: int) -> str:
    """sin(x + shift*pi/2)."""
    quadrant, r = _quarter(v, x)
    turned = v.integer_op("add", quadrant, shift)
    odd = v.f.value(f"icmp ne {v.integers} {v.integer_op('and', turned, 1)}, {v.whole(0)}")
    value = v.where(odd, _cosine(v, r), _sine(v, r))
    minus = v.f.value(f"icmp ne {v.integers} {v.integer_op('and', turned, 2)}, {v.whole(0)}")
    return v.where(minus, v.neg(value), value)


def _tan(v: Lanes, x: str) -> str:
    quadrant, r = _quarter(v, x)
    odd = v.f.value(f"icmp ne {v.integers} {v.integer_op('and', quadrant, 1)}, {v.whole(0)}")
    sine, cosine = _sine(v, r), _cosine(v, r)
    above, below = v.where(odd, v.neg(cosine), sine), v.where(odd, sine, cosine)
    return v.div(above, below)


def _atan(v: Lanes, x: str) -> str:
    """By 1/x beyond 1, then by (x - 1)/(x + 1) beyond tan(pi/8)."""
    size = v.abs(x)
    inverted = v.compare("ogt", size, 1.0)
    t = v.where(inverted, v.div(1.0, size), size)
    upper = v.compare("ogt", t, math.tan(math.pi / 8))
    t = v.where(upper, v.div(v.sub(t, 1.0), v.add(t, 1.0)), t)
    square = v.mul(t, t)
    value = v.fma(v.mul(square, t), v.polynomial(square, ATAN), t)
    value = v.where(upper, v.add(value, math.pi / 4), value)
    value = v.where(inverted, v.sub(math.pi / 2, value), value)
    return v.copysign(value, x)


def _asin(v: Lanes, x: str) -> str:
    root = v.call("sqrt", v.mul(v.sub(1.0, x), v.add(x, 1.0)))
    return _atan(v, v.div(x, root))


def _sinh(v: Lanes, x: str) -> str:
    e = exp(v, x)
    value = v.mul(v.sub(e, v.div(1.0, e)), 0.5)
    return _near_zero(v, x, 1e-2, (0.0, 1 / 6, 0.0, 1 / 120), value)


def _cosh(v: Lanes, x: str) -> str:
    e = exp(v, x)
    return v.mul(v.add(e, v.div(1.0, e)), 0.5)


def _asinh(v: Lanes, x: str) -> str:
    size = v.abs(x)
    root = v.call("sqrt", v.fma(size, size, 1.0))
    value = v.copysign(log(v, v.add(size, root)), x)
    return _near_zero(v, x, 1e-2, (0.0, -1 / 6, 0.0, 3 / 40), value)


def _acosh(v: Lanes, x: str) -> str:
    root = v.call("sqrt", v.mul(v.sub(x, 1.0), v.add(x, 1.0)))
    return v.where(v.compare("olt", x, 1.0), math.nan, log(v, v.add(x, root)))


def _atanh(v: Lanes, x: str) -> str:
    value = v.mul(log(v, v.div(v.add(x, 1.0), v.sub(1.0, x))), 0.5)
    return _near_zero(v, x, 1e-2, (0.0, 1 / 3, 0.0, 1 / 5), value)


def _pow(v: Lanes, x: str, y: str) -> str:
    """exp(y log|x|), with the signs and limits of C's pow."""
    size = v.abs(x)
    raised = exp(v, v.mul(y, log(v, size)))
    raised = v.where(v.compare("oeq", size, 1.0), 1.0, raised)
    half = v.mul(y, 0.5)
    whole = v.compare("oeq", v.call("floor", y), y)
    odd = v.f.value(f"and {v.mask} {whole}, {v.compare('one', v.call('floor', half), half)}")
    signed = v.where(odd, v.copysign(raised, x), raised)
    below = v.compare("olt", x, 0.0)
    finite = v.compare("ogt", x, -math.inf)
    part = v.f.value(f"xor {v.mask} {whole}, {repeated('true', 'i1', v.width)}")
    invalid = v.f.value(f"and {v.mask} {v.f.value(f'and {v.mask} {below}, {finite}')}, {part}")
    signed = v.where(invalid, math.nan, signed)
    unknown = v.compare("uno", x, y)
    signed = v.where(unknown, math.nan, signed)
    one = v.f.value(f"or {v.mask} {v.compare('oeq', y, 0.0)}, {v.compare('oeq', x, 1.0)}")
    return v.where(one, 1.0, signed)


_FLOAT: dict[str, Callable[[Lanes, str], str]] = {
    "exp": exp,
    "expm1": expm1,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "erf": erf,
}
_WIDE: dict[str, Callable[..., str]] = {
    "log": log,
    "log1p": _log1p,
    "sin": lambda v, x: _sin_cos(v, x, 0),
    "cos": lambda v, x: _sin_cos(v, x, 1),
    "tan": _tan,
    "asin": _asin,
    "acos": lambda v, x: v.sub(math.pi / 2, _asin(v, x)),
    "atan": _atan,
    "sinh": _sinh,
    "cosh": _cosh,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "pow": _pow,
}
_DOUBLE = {"exp": exp, "log": log, "sigmoid": sigmoid}
_ANGLES = ("sin", "cos", "tan")
# Up to here products of a number of quadrants and 33 bits of pi/2 are exact without fused
# multiply-adds.
_LARGE_ANGLE = 2.0**20


def shared_function(f: Function, name: str, element: str, width: int, *arguments: str) -> str:
    """`function` by a call, its code written once in the module: for long expressions."""
    kind, symbol = vector(element, width), f"{name}_{element}_{width}"
    if all(other.name != symbol for other in f.module.functions):
        parameters = [(f"x{i}", kind) for i in range(len(arguments))]
        inner = f.module.function(symbol, parameters, kind, private=True, attributes="noinline")
        made = function(inner, name, element, width, *(f"%{p}" for p, _ in parameters))
        inner.do(f"ret {kind} {made}")
    listed = ", ".join(f"{kind} {a}" for a in arguments)
    return f.value(f"call {kind} @{symbol}({listed})")


def function(f: Function, name: str, element: str, width: int, *arguments: str) -> str:
    """`name` of vectors of float or double; KeyError for a name that is none of these."""
    v = Lanes(f, element, width)
    if element == "float":
        if name in _FLOAT:
            return _FLOAT[name](v, *arguments)
        if name in _WIDE:
            return _in_double(v, name, arguments)
        return by_library(f, name, element, width, *arguments)
    if name in _DOUBLE:
        return _DOUBLE[name](v, *arguments)
    return by_library(f, name, element, width, *arguments)


def _in_double(v: Lanes, name: str, arguments: Sequence[str]) -> str:
    wide = Lanes(v.f, "double", v.width)
    values = [v.f.value(f"fpext {v.kind} {a} to {wide.kind}") for a in arguments]

    def polynomial() -> tuple[str]:
        return (_narrow(v, wide, _WIDE[name](wide, *values)),)

    if name not in _ANGLES:
        return polynomial()[0]
    small = v.compare("ult", v.abs(arguments[0]), _LARGE_ANGLE)
    every = small
    if v.width > 1:
        mask = f"i{v.width}"
        packed = v.f.value(f"bitcast {v.mask} {small} to {mask}")
        every = v.f.value(f"icmp eq {mask} {packed}, -1")
    # Rare, and only there does the reduction need more of pi than we carry.
    (made,) = v.f.choose(
        every,
        [v.kind],
        polynomial,
        lambda: (by_library(v.f, name, v.element, v.width, *arguments),),
    )
    return made


def _narrow(v: Lanes, wide: Lanes, value: str) -> str:
    return v.f.value(f"fptrunc {wide.kind} {value} to {v.kind}")


def by_library(f: Function, name: str, element: str, width: int, *arguments: str) -> str:
    """The C library's function, lane by lane."""
    if name not in LIBRARY:
        raise KeyError(name)
    symbol = name + ("f" if element == "float" else "")
    types = ", ".join([element] * len(arguments))
    f.module.declarations.add(f"declare {element} @{symbol}({types})")
    if width == 1:
        listed = ", ".join(f"{element} {a}" for a in arguments)
        return f.value(f"call {element} @{symbol}({listed})")
    kind = vector(element, width)
    result = "poison"
    for lane in range(width):
        lanes = [f.value(f"extractelement {kind} {a}, i32 {lane}") for a in arguments]
        listed = ", ".join(f"{element} {a}" for a in lanes)
        made = f.value(f"call {element} @{symbol}({listed})")
        result = f.value(f"insertelement {kind} {result}, {element} {made}, i32 {lane}")
    return result
