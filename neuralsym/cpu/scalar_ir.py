"""Scalar expressions as IR over vectors: the meaning of `core.scalar`, function by function.

A value is an SSA name with a number type. The floats narrower than float32 travel as that, integers
of 2 and 4 bits as bytes, booleans as i1.
Integer division and shifts follow numpy: by zero gives zero, and nothing traps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from neuralsym.core.scalar import Expr, Scalar, cast_mode, cast_type
from neuralsym.cpu.integer_ir import BITWISE, Integers
from neuralsym.cpu.ir import Function
from neuralsym.cpu.narrow_ir import (
    SMALL_FLOATS,
    SMALL_INTEGERS,
    bfloat_bits,
    narrowed,
    odd_double,
    odd_single,
    widened,
    wrapped,
)
from neuralsym.cpu.vector_lanes import Lanes, constant, repeated, vector
from neuralsym.cpu.vector_math import function, shared_function
from neuralsym.dtypes import NumberType, number_type

IR_TYPE: dict[NumberType, str] = {
    NumberType.FLOAT32: "float",
    NumberType.FLOAT64: "double",
    NumberType.BOOL: "i1",
    **{NumberType(f"int{bits}"): f"i{bits}" for bits in (8, 16, 32, 64)},
    **{NumberType(f"uint{bits}"): f"i{bits}" for bits in (8, 16, 32, 64)},
}
HALVES = (NumberType.FLOAT16, NumberType.BFLOAT16)
NUMBERS = (*IR_TYPE, *HALVES, *sorted(SMALL_FLOATS), *SMALL_INTEGERS)
"""The number types that compiled loops handle."""

_COMPARE = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_LOGIC = {"and": "and", "or": "or", "xor": "xor"}
_ROUND = {"floor": "floor", "ceil": "ceil", "round": "rint", "trunc": "trunc"}
_FLOAT_ONLY = frozenset(
    {
        *("exp", "expm1", "log", "log1p", "sigmoid", "erf", "sin", "cos", "tan", "asin", "acos"),
        *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sqrt", "rsqrt"),
    }
)


class Value(NamedTuple):
    """An SSA name and what it is."""

    name: str
    kind: NumberType


def carried(kind: NumberType) -> NumberType:
    """The type in which values of `kind` are computed with."""
    if kind in SMALL_INTEGERS:
        return NumberType.UINT8 if kind.startswith("u") else NumberType.INT8
    return NumberType.FLOAT32 if kind in HALVES or kind in SMALL_FLOATS else kind


def supported(expr: Scalar, kinds: Sequence[NumberType]) -> bool | str:
    """Whether `emit` can write the expression over inputs of these types, or why not."""
    for kind in kinds:
        if kind not in NUMBERS:
            return f"no compiled loops over {kind}"
    seen: set[Expr] = set()
    stack: list[Scalar] = [expr]
    while stack:
        item = stack.pop()
        if isinstance(item, Expr) and item not in seen:
            seen.add(item)
            if item.function == "cast" and cast_type(item) not in NUMBERS:
                return f"no compiled loops over {cast_type(item)}"
            stack.extend(item.operands)
    return True


MOST_INLINE = 4
"""An expression with more transcendental functions calls them: code for each would be long."""


def transcendental(expr: Expr) -> int:
    """How many functions of the expression are series rather than instructions."""
    seen: set[Expr] = set()
    stack: list[Scalar] = [expr]
    while stack:
        item = stack.pop()
        if isinstance(item, Expr) and item not in seen:
            seen.add(item)
            stack.extend(item.operands)
    plain = ("sqrt", "rsqrt")
    return sum(e.function == "pow" or e.function in _FLOAT_ONLY.difference(plain) for e in seen)


def emit_expr(fn: Function, expr: Scalar, inputs: Sequence[str], element: str, width: int) -> str:
    """The expression over vectors of one type: `element` is float32, float64, int32, ...

    `width` 1 means scalars. Gives the SSA name of the result, of the same element type.
    """
    kind = number_type(element)
    made = emit(fn, expr, [Value(name, kind) for name in inputs], width, kind)
    return convert(fn, made, kind, width).name


def emit(
    fn: Function, expr: Scalar, inputs: Sequence[Value], width: int, default: NumberType
) -> Value:
    """The expression's value; `default` is the type of an expression of numbers alone."""
    return _Emitter(fn, inputs, width, default).value(expr)


def convert(fn: Function, value: Value, kind: NumberType, width: int) -> Value:
    """The value as another number type, as numpy's astype on this kind of machine."""
    return _Emitter(fn, (), width, kind).cast(value, kind)


def single(fn: Function, value: Value, width: int) -> str:
    """The value as float32, such that rounding it to a narrower float rounds it once."""
    return _Emitter(fn, (), width, NumberType.FLOAT32).single(value)


class _Emitter:
    def __init__(
        self, f: Function, inputs: Sequence[Value], width: int, default: NumberType
    ) -> None:
        self.f, self.inputs, self.width, self.default = f, inputs, width, carried(default)
        self.shared = False

    # -- walking ---------------------------------------------------------------------------
    def value(self, root: Scalar) -> Value:
        """By an explicit stack, each shared part once."""
        if not isinstance(root, Expr):
            return self.number(root, self.default)
        self.shared = transcendental(root) > MOST_INLINE
        done: dict[Expr, Value] = {}
        stack: list[Expr] = [root]
        while stack:
            item = stack[-1]
            if item in done:
                stack.pop()
                continue
            waiting = [o for o in item.operands if isinstance(o, Expr) and o not in done]
            if waiting:
                stack.extend(reversed(waiting))
                continue
            stack.pop()
            done[item] = self._apply(item, done)
        return done[root]

    def _apply(self, item: Expr, done: dict[Expr, Value]) -> Value:
        name = item.function
        if name == "input":
            return self.inputs[int(item.detail)]
        if name == "cast":
            (inner,) = item.operands
            operand = done[inner] if isinstance(inner, Expr) else self._literal(inner)
            return self.cast(operand, cast_type(item), cast_mode(item))
        if name == "where":
            return self._where(item, done)
        operands = self._operands(item.operands, done)
        if name in _LOGIC or name == "not":
            return self._logic(name, [self.truth(v) for v in operands])
        kind = operands[0].kind
        if kind is NumberType.BOOL and name not in ("eq", "ne", *BITWISE, "bit_not"):
            # numpy's arithmetic on booleans has no loop of its own worth having.
            operands = [self.cast(v, NumberType.INT8) for v in operands]
            kind = NumberType.INT8
        if name in _COMPARE:
            return self._compare(name, operands[0], operands[1])
        if name in ("isnan", "isinf"):
            return self._test(name, operands[0])
        if kind.is_float:
            return Value(self._float(name, kind, [v.name for v in operands]), kind)
        if name in _FLOAT_ONLY:
            wide = [self.cast(v, NumberType.FLOAT64) for v in operands]
            made = self._float(name, NumberType.FLOAT64, [v.name for v in wide])
            return Value(made, NumberType.FLOAT64)
        integers = Integers(self.f, kind, self.width)
        return Value(integers.apply(name, [v.name for v in operands]), kind)

    def _literal(self, number: float | int | bool) -> Value:
        """A number that stands in the place of an input to cast, in a type that holds it."""
        if isinstance(number, float):
            return self.number(number, NumberType.FLOAT64)
        return self.number(number, NumberType.UINT64 if number > 0 else NumberType.INT64)

    def _operands(self, operands: Sequence[Scalar], done: dict[Expr, Value]) -> list[Value]:
        """Operands of one type: numbers take that of the values beside them."""
        values = [done[o] if isinstance(o, Expr) else None for o in operands]
        kinds = [v.kind for v in values if v is not None]
        kind = kinds[0] if kinds else self.default
        for other in kinds[1:]:
            if other is not kind:
                kind = number_type(np.result_type(kind.numpy, other.numpy))
        return [
            self.number(o, kind) if v is None else self.cast(v, kind)  # type: ignore[arg-type]
            for v, o in zip(values, operands, strict=True)
        ]

    def _where(self, item: Expr, done: dict[Expr, Value]) -> Value:
        condition = item.operands[0]
        if isinstance(condition, Expr):
            mask = self.truth(done[condition])
        else:
            mask = self.number(bool(condition), NumberType.BOOL)
        a, b = self._operands(item.operands[1:], done)
        return Value(self.select(mask.name, a.name, b.name, a.kind), a.kind)

    # -- pieces ----------------------------------------------------------------------------
    def type(self, kind: NumberType) -> str:
        return vector(IR_TYPE[carried(kind)], self.width)

    def number(self, value: float | int | bool, kind: NumberType) -> Value:
        """A number in all lanes, wrapped into its type as numpy's astype does."""
        kind = carried(kind)
        element = IR_TYPE[kind]
        if kind.is_float:
            return Value(constant(float(value), element, self.width), kind)
        if kind is NumberType.BOOL:
            return Value(repeated("true" if value else "false", "i1", self.width), kind)
        bits = int(element[1:])
        whole = int(value) & ((1 << bits) - 1)
        signed = whole - (1 << bits) if whole >> (bits - 1) else whole
        return Value(repeated(str(signed), element, self.width), kind)

    def select(self, mask: str, a: str, b: str, kind: NumberType) -> str:
        lanes, type_ = vector("i1", self.width), self.type(kind)
        return self.f.value(f"select {lanes} {mask}, {type_} {a}, {type_} {b}")

    def truth(self, value: Value) -> Value:
        return self.cast(value, NumberType.BOOL)

    def _logic(self, name: str, operands: list[Value]) -> Value:
        lanes = vector("i1", self.width)
        if name == "not":
            true = repeated("true", "i1", self.width)
            return Value(self.f.value(f"xor {lanes} {operands[0].name}, {true}"), NumberType.BOOL)
        a, b = (v.name for v in operands)
        return Value(self.f.value(f"{_LOGIC[name]} {lanes} {a}, {b}"), NumberType.BOOL)

    def _compare(self, name: str, a: Value, b: Value) -> Value:
        type_ = self.type(a.kind)
        if a.kind.is_float:
            made = self.f.value(f"fcmp {_COMPARE[name]} {type_} {a.name}, {b.name}")
        else:
            sign = "" if name in ("eq", "ne") else "u" if _unsigned(a.kind) else "s"
            made = self.f.value(f"icmp {sign}{name} {type_} {a.name}, {b.name}")
        return Value(made, NumberType.BOOL)

    # -- casts -----------------------------------------------------------------------------
    def cast(self, value: Value, kind: NumberType, how: str = "") -> Value:
        """As numpy's astype; a narrow type rounds or wraps, and is carried in a wider one."""
        if kind in HALVES or kind in SMALL_FLOATS:
            return Value(self.rounded(self.single(value), kind, how), NumberType.FLOAT32)
        if kind in SMALL_INTEGERS:
            byte = self.cast(value, carried(kind))
            return Value(wrapped(self.f, byte.name, kind, self.width), byte.kind)
        old = value.kind
        if old is kind:
            return value
        f, source, target = self.f, self.type(old), self.type(kind)
        name = value.name
        if kind is NumberType.BOOL:
            zero = self.number(0, old).name
            how = "fcmp une" if old.is_float else "icmp ne"
            return Value(f.value(f"{how} {source} {name}, {zero}"), kind)
        if old.is_float and kind.is_float:
            how = "fpext" if kind is NumberType.FLOAT64 else "fptrunc"
            return Value(f.value(f"{how} {source} {name} to {target}"), kind)
        if old.is_float:
            return Value(self._float_to_integer(name, old, kind), kind)
        if kind.is_float:
            how = "uitofp" if _unsigned(old) else "sitofp"
            return Value(f.value(f"{how} {source} {name} to {target}"), kind)
        bits, wanted = (_bits(k) for k in (old, kind))
        if bits == wanted:
            return Value(name, kind)
        how = "trunc" if bits > wanted else "zext" if _unsigned(old) else "sext"
        return Value(f.value(f"{how} {source} {name} to {target}"), kind)

    def _float_to_integer(self, name: str, old: NumberType, kind: NumberType) -> str:
        """Truncation; what does not fit wraps through a wider type, as C compilers here do."""
        bits = _bits(kind)
        through = bits
        if bits < 32:
            through = 32
        elif kind is NumberType.UINT32:
            through = 64
        wide = vector(f"i{through}", self.width)
        made = self.f.value(f"fptosi {self.type(old)} {name} to {wide}")
        if kind is NumberType.UINT64:
            large = self.f.value(f"fptoui {self.type(old)} {name} to {wide}")
            limit = constant(2.0**63, IR_TYPE[old], self.width)
            fits = self.f.value(f"fcmp ult {self.type(old)} {name}, {limit}")
            return self.select(fits, made, large, kind)
        if through == bits:
            return made
        return self.f.value(f"trunc {wide} {made} to {self.type(kind)}")

    def single(self, value: Value) -> str:
        """As float32, of which only what comes behind the narrower floats may be inexact."""
        kind = value.kind
        if kind.is_integer and kind.itemsize == 8:
            wide = odd_double(self.f, value.name, self.width, not _unsigned(kind))
        elif kind is NumberType.FLOAT64 or (kind.is_integer and kind.itemsize == 4):
            wide = self.cast(value, NumberType.FLOAT64).name
        else:
            return self.cast(value, NumberType.FLOAT32).name
        return odd_single(self.f, wide, self.width)

    def rounded(self, name: str, kind: NumberType, how: str = "") -> str:
        """A float32 rounded to what a narrower type holds."""
        if kind is NumberType.FLOAT16 and self.f.module.converts_halves:
            half, single = vector("half", self.width), vector("float", self.width)
            made = self.f.value(f"fptrunc {single} {name} to {half}")
            return self.f.value(f"fpext {half} {made} to {single}")
        if kind is not NumberType.BFLOAT16:
            made = narrowed(self.f, name, kind, self.width, how)
            return widened(self.f, made, kind, self.width)
        bits = bfloat_bits(self.f, name, self.width)
        wide = vector("i32", self.width)
        shift = repeated("16", "i32", self.width)
        high = self.f.value(f"shl {wide} {bits}, {shift}")
        return self.f.value(f"bitcast {wide} {high} to {vector('float', self.width)}")

    # -- floats ----------------------------------------------------------------------------
    def _float(self, name: str, kind: NumberType, names: list[str]) -> str:
        v = Lanes(self.f, IR_TYPE[kind], self.width)
        x, y = names[0], names[-1]
        if name in ("add", "sub", "mul", "div"):
            return self.f.value(f"f{name} {v.kind} {x}, {y}")
        if name in ("min", "max"):
            return self._extreme(v, name, x, y)
        if name == "fmod":
            return self.f.value(f"frem {v.kind} {x}, {y}")
        if name == "mod":
            return self._float_mod(v, x, y)
        if name == "neg":
            return v.neg(x)
        if name == "abs":
            return v.abs(x)
        if name == "sign":
            below = v.where(v.compare("olt", x, 0.0), -1.0, x)
            return v.where(v.compare("ogt", x, 0.0), 1.0, below)
        if name in _ROUND:
            return v.call(_ROUND[name], x)
        if name == "sqrt":
            return v.call("sqrt", x)
        if name == "rsqrt":
            return v.div(1.0, v.call("sqrt", x))
        if name == "reciprocal":
            return v.div(1.0, x)
        write = shared_function if self.shared else function
        return write(self.f, name, v.element, self.width, *names)

    def _test(self, name: str, value: Value) -> Value:
        """isnan or isinf."""
        if not value.kind.is_float:
            return self.number(False, NumberType.BOOL)
        v = Lanes(self.f, IR_TYPE[value.kind], self.width)
        x = value.name
        if name == "isnan":
            return Value(v.compare("uno", x, x), NumberType.BOOL)
        return Value(v.compare("oeq", v.abs(x), float("inf")), NumberType.BOOL)

    def _extreme(self, v: Lanes, name: str, x: str, y: str) -> str:
        """The smaller or larger; a NaN on either side stays."""
        worse = "ogt" if name == "min" else "olt"
        if not x.startswith("%"):
            x, y = y, x
        # x unless it is strictly worse, so a NaN in x stays; then a NaN in y.
        best = v.where(v.compare(worse, x, y), y, x)
        if y.startswith("%"):
            return v.where(v.compare("uno", y, y), y, best)
        return best

    def _float_mod(self, v: Lanes, x: str, y: str) -> str:
        """The remainder with the sign of the divisor; a zero has it too."""
        rest = self.f.value(f"frem {v.kind} {x}, {y}")
        both = (v.compare("olt", rest, 0.0), v.compare("olt", y, 0.0))
        differ = self.f.value(f"xor {v.mask} {both[0]}, {both[1]}")
        nonzero = v.compare("une", rest, 0.0)
        wrong = self.f.value(f"and {v.mask} {differ}, {nonzero}")
        moved = v.where(wrong, v.add(rest, y), rest)
        return v.where(v.compare("oeq", rest, 0.0), v.copysign(v.number(0.0), y), moved)


def _unsigned(kind: NumberType) -> bool:
    return kind is NumberType.BOOL or kind.startswith("uint")


def _bits(kind: NumberType) -> int:
    return int(IR_TYPE[kind][1:])
