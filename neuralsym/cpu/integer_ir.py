"""Integer arithmetic as IR over vectors, as numpy has it: nothing traps.

By zero, division and remainder give zero; the one overflow of division wraps; shifts by the width
or more leave nothing, or copies of the sign.
"""

from __future__ import annotations

from collections.abc import Sequence

from neuralsym.cpu.ir import Function
from neuralsym.cpu.vector_lanes import repeated, vector
from neuralsym.dtypes import NumberType

BITWISE = {"bit_and": "and", "bit_or": "or", "bit_xor": "xor"}


class Integers:
    """Arithmetic on lanes of one integer type; booleans have one bit."""

    def __init__(self, f: Function, kind: NumberType, width: int) -> None:
        self.f, self.width = f, width
        self.bits = 1 if kind is NumberType.BOOL else 8 * kind.itemsize
        self.unsigned = kind is NumberType.BOOL or kind.startswith("uint")
        self.element = f"i{self.bits}"
        self.type = vector(self.element, width)

    def number(self, value: int) -> str:
        """A number in all lanes, wrapped."""
        whole = value & ((1 << self.bits) - 1)
        if self.bits == 1:
            return repeated("true" if whole else "false", "i1", self.width)
        signed = whole - (1 << self.bits) if whole >> (self.bits - 1) else whole
        return repeated(str(signed), self.element, self.width)

    def select(self, mask: str, a: str, b: str) -> str:
        lanes = vector("i1", self.width)
        return self.f.value(f"select {lanes} {mask}, {self.type} {a}, {self.type} {b}")

    def apply(self, name: str, names: Sequence[str]) -> str:
        """The function of that name, applied to SSA names."""
        type_ = self.type
        x, y = names[0], names[-1]
        f = self.f
        zero, one = self.number(0), self.number(1)
        if name in ("add", "sub", "mul"):
            return f.value(f"{name} {type_} {x}, {y}")
        if name in BITWISE:
            return f.value(f"{BITWISE[name]} {type_} {x}, {y}")
        if name in ("div", "mod", "fmod"):
            return self._divide(name, x, y)
        if name in ("min", "max"):
            how = ("u" if self.unsigned else "s") + ("lt" if name == "min" else "gt")
            return self.select(f.value(f"icmp {how} {type_} {x}, {y}"), x, y)
        if name in ("shift_left", "shift_right"):
            return self._shift(name, x, y)
        if name == "bit_not":
            return f.value(f"xor {type_} {x}, {self.number(-1)}")
        if name == "neg":
            return f.value(f"sub {type_} {zero}, {x}")
        if name == "reciprocal":
            return self._divide("div", one, x)
        if name in ("abs", "sign"):
            positive = f.value(f"icmp ne {type_} {x}, {zero}")
            if self.unsigned:
                return x if name == "abs" else self.select(positive, one, zero)
            below = f.value(f"icmp slt {type_} {x}, {zero}")
            if name == "abs":
                return self.select(below, f.value(f"sub {type_} {zero}, {x}"), x)
            minus = self.number(-1)
            return self.select(below, minus, self.select(positive, one, zero))
        if name in ("floor", "ceil", "round", "trunc"):
            return x
        if name == "pow":
            return self._power(x, y)
        raise KeyError(name)

    def _divide(self, name: str, x: str, y: str) -> str:
        """Truncated division or a remainder; by zero 0, and the one overflow wraps."""
        f, type_ = self.f, self.type
        zero, one = self.number(0), self.number(1)
        none = f.value(f"icmp eq {type_} {y}, {zero}")
        if self.unsigned:
            safe = self.select(none, one, y)
            made = f.value(f"{'udiv' if name == 'div' else 'urem'} {type_} {x}, {safe}")
            return self.select(none, zero, made)
        minus = f.value(f"icmp eq {type_} {y}, {self.number(-1)}")
        lanes = vector("i1", self.width)
        safe = self.select(f.value(f"or {lanes} {none}, {minus}"), one, y)
        if name == "div":
            made = f.value(f"sdiv {type_} {x}, {safe}")
            negated = f.value(f"sub {type_} {zero}, {x}")
            return self.select(none, zero, self.select(minus, negated, made))
        rest = f.value(f"srem {type_} {x}, {safe}")
        if name == "fmod":
            return rest  # by 1 it is 0, which is right for 0 and -1 as well
        signs = f.value(f"xor {type_} {rest}, {y}")
        differ = f.value(f"icmp slt {type_} {signs}, {zero}")
        nonzero = f.value(f"icmp ne {type_} {rest}, {zero}")
        wrong = f.value(f"and {lanes} {differ}, {nonzero}")
        return self.select(wrong, f.value(f"add {type_} {rest}, {y}"), rest)

    def _shift(self, name: str, x: str, y: str) -> str:
        f, type_ = self.f, self.type
        within = f.value(f"icmp ult {type_} {y}, {self.number(self.bits)}")
        zero, last = self.number(0), self.number(self.bits - 1)
        if name == "shift_right" and not self.unsigned:  # copies of the sign are left
            return f.value(f"ashr {type_} {x}, {self.select(within, y, last)}")
        how = "shl" if name == "shift_left" else "lshr"
        moved = f.value(f"{how} {type_} {x}, {self.select(within, y, zero)}")
        return self.select(within, moved, zero)

    def _power(self, x: str, y: str) -> str:
        """By squaring; a negative exponent truncates 1/x^n."""
        f, type_ = self.f, self.type
        zero, one = self.number(0), self.number(1)
        with f.loop(self.bits, (type_, one), (type_, x), (type_, y)) as loop:
            result, base, rest = loop.values
            low = f.value(f"and {type_} {rest}, {one}")
            odd = f.value(f"icmp ne {type_} {low}, {zero}")
            times = f.value(f"mul {type_} {result}, {base}")
            loop.next(
                self.select(odd, times, result),
                f.value(f"mul {type_} {base}, {base}"),
                f.value(f"lshr {type_} {rest}, {one}"),
            )
        result = loop.values[0]
        if self.unsigned:
            return result
        minus = self.number(-1)
        below = f.value(f"icmp slt {type_} {y}, {zero}")
        is_one = f.value(f"icmp eq {type_} {x}, {one}")
        is_minus = f.value(f"icmp eq {type_} {x}, {minus}")
        even = f.value(f"icmp eq {type_} {f.value(f'and {type_} {y}, {one}')}, {zero}")
        unit = self.select(even, one, minus)
        tiny = self.select(is_one, one, self.select(is_minus, unit, zero))
        return self.select(below, tiny, result)
