"""What happens to a kernel's result before it is stored: an activation over one vector value.

An Activation is a key, which enters the kernel's name, and a function that appends instructions
for a vector. The cheap ones stand here; anything else (exponentials) is passed in by the caller.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from neuralsym.cpu.ir import Function

Emit = Callable[[Function, str, int], str]


@dataclass(frozen=True)
class Activation:
    """A function of one vector of float32, applied before storing.

    `emit(function, value, width)` returns the result's SSA name. `costly` ones are applied in a
    loop after the tile is stored, for they need more registers than a full tile leaves free.
    Two activations are the same if their keys are.
    """

    key: str
    emit: Emit = field(compare=False, repr=False)
    costly: bool = False


def number(value: float, element: str = "float") -> str:
    """An exact LLVM literal: the bits of the (float32-rounded) value as a hexadecimal double."""
    if element == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def constant(value: float, width: int, element: str = "float") -> str:
    """The literal of a vector whose lanes all hold `value`."""
    if value == 0 and str(value)[0] != "-":
        return "zeroinitializer"
    return "<" + ", ".join([f"{element} {number(value, element)}"] * width) + ">"


def identity() -> Activation:
    return Activation("none", lambda f, value, width: value)


def relu(element: str = "float") -> Activation:
    """v < 0 ? 0 : v, which keeps NaN (and the sign of a negative zero)."""

    def emit(f: Function, value: str, width: int) -> str:
        return _where_less(f, value, "zeroinitializer", "zeroinitializer", width, element)

    return Activation("relu", emit)


def clip(low: float, high: float, element: str = "float") -> Activation:
    """min(max(v, low), high), NaN kept; `high` wins where the bounds cross, as in ONNX."""

    def emit(f: Function, value: str, width: int) -> str:
        kind = f"<{width} x {element}>"
        lowest, highest = constant(low, width, element), constant(high, width, element)
        raised = _where_less(f, value, lowest, lowest, width, element)
        above = f.value(f"fcmp ogt {kind} {raised}, {highest}")
        return f.value(f"select <{width} x i1> {above}, {kind} {highest}, {kind} {raised}")

    return Activation(f"clip {number(low)} {number(high)}", emit)


def leaky_relu(alpha: float, element: str = "float") -> Activation:
    """v < 0 ? alpha * v : v."""

    def emit(f: Function, value: str, width: int) -> str:
        kind = f"<{width} x {element}>"
        scaled = f.value(f"fmul {kind} {value}, {constant(alpha, width, element)}")
        return _where_less(f, value, "zeroinitializer", scaled, width, element)

    return Activation(f"leaky {number(alpha)}", emit)


def hard_sigmoid(alpha: float = 0.2, beta: float = 0.5) -> Activation:
    """max(0, min(1, alpha * v + beta))."""

    def emit(f: Function, value: str, width: int) -> str:
        return _hard_sigmoid(f, value, width, alpha, beta)

    return Activation(f"hard_sigmoid {number(alpha)} {number(beta)}", emit)


def hard_swish() -> Activation:
    """v * max(0, min(1, v / 6 + 0.5))."""

    def emit(f: Function, value: str, width: int) -> str:
        gate = _hard_sigmoid(f, value, width, 1 / 6, 0.5)
        return f.value(f"fmul <{width} x float> {value}, {gate}")

    return Activation("hard_swish", emit)


def _hard_sigmoid(f: Function, value: str, width: int, alpha: float, beta: float) -> str:
    kind = f"<{width} x float>"
    line = f.call("fmuladd", kind, value, constant(alpha, width), constant(beta, width))
    return clip(0.0, 1.0).emit(f, line, width)


def _where_less(f: Function, value: str, bound: str, then: str, width: int, element: str) -> str:
    kind = f"<{width} x {element}>"
    less = f.value(f"fcmp olt {kind} {value}, {bound}")
    return f.value(f"select <{width} x i1> {less}, {kind} {then}, {kind} {value}")
